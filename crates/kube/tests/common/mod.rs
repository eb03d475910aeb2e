//! A fake server, and a handler that checks what it is told.

#![allow(dead_code, reason = "not every test needs all of it")]

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use delta_fifo::{DeltaQueue, KnownView};
use delta_fifo_fake_apiserver::{ApiServer, Collection};
use delta_fifo_informer::{
    Controller, Handler, Notification, Reflector, ReflectorBuilder, ReflectorError, RetryPolicy,
};
use delta_fifo_kube::{ApiListWatch, ObjectKey, Queue};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::runtime::utils::Backoff;
use kube::{Api, Client, ResourceExt};
use serde_json::json;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::Instant;

/// So long anything may take.
pub(crate) const LONG: Duration = Duration::from_secs(120);

/// How long a watcher of kube's waits after a failure: nobody has to.
pub(crate) struct Pause;

impl Iterator for Pause {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        Some(Duration::from_millis(1))
    }
}

impl Backoff for Pause {
    fn reset(&mut self) {}
}

/// A server with its objects of one kind and a client.
#[derive(Clone)]
pub(crate) struct Cluster {
    pub(crate) server: ApiServer,
    pub(crate) maps: Collection,
    pub(crate) client: Client,
}

impl Cluster {
    pub(crate) fn new() -> Self {
        let server = ApiServer::new();
        let maps = server.collection("api/v1/configmaps");
        let client = Client::new(server.clone(), "default");
        Cluster { server, maps, client }
    }

    /// `objects` in ten namespaces.
    pub(crate) fn with(objects: u64) -> Self {
        let cluster = Cluster::new();
        (0..objects).for_each(|number| _ = cluster.put(&name_of(number), number));
        cluster
    }

    pub(crate) fn put(&self, key: &str, number: u64) -> u64 {
        let (namespace, name) = key.split_once('/').expect("a namespace");
        self.maps.put(&json!({
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": { "namespace": namespace, "name": name, "labels": { "odd": (number % 2 == 1).to_string() } },
            "data": { "number": number.to_string() },
        }))
    }

    pub(crate) fn delete(&self, key: &str) -> u64 {
        let (namespace, name) = key.split_once('/').expect("a namespace");
        self.maps.delete(namespace, name).expect("it is there")
    }

    pub(crate) fn api(&self) -> Api<ConfigMap> {
        Api::all(self.client.clone())
    }

    pub(crate) fn source(&self) -> ApiListWatch<ConfigMap> {
        ApiListWatch::new(self.api())
    }

    pub(crate) fn reflector(&self) -> ReflectorBuilder<ApiListWatch<ConfigMap>> {
        Reflector::builder(self.source()).retry(quick())
    }

    /// Key, uid and version of every object.
    pub(crate) fn versions(&self) -> Vec<(String, String, u64)> {
        let mut all = self.maps.versions();
        all.sort_unstable();
        all
    }
}

pub(crate) fn name_of(number: u64) -> String {
    format!("ns-{}/map-{number:05}", number % 10)
}

/// Nobody has to wait.
pub(crate) fn quick() -> RetryPolicy {
    let (initial, max) = (Duration::from_millis(1), Duration::from_millis(10));
    RetryPolicy { initial, max, ..RetryPolicy::default() }
}

pub(crate) fn number(map: &ConfigMap) -> u64 {
    map.data.as_ref().expect("data")["number"].parse().expect("a number")
}

pub(crate) fn version(map: &ConfigMap) -> u64 {
    map.resource_version().expect("a version").parse().expect("a number")
}

/// What the queue knows, in the form of [`Cluster::versions`].
pub(crate) fn known(queue: &Queue<ConfigMap>) -> Vec<(String, String, u64)> {
    let row = |key: &ObjectKey, map: &ConfigMap| (key.to_string(), map.uid().expect("a uid"), version(map));
    let mut all: Vec<_> = queue.known().iter().map(|known| row(known.key(), known.object())).collect();
    all.sort_unstable();
    all
}

/// A handler that checks that what it is told of each key is a history that can have been: Added, Updated any number of times from what it was
/// told last, Deleted; versions that only grow; one object, by its uid, from Added to Deleted.
#[derive(Default)]
pub(crate) struct Historian {
    pub(crate) seen: Mutex<HashMap<ObjectKey, (String, u64)>>,
    pub(crate) log: Mutex<Vec<String>>,
    pub(crate) wants_log: bool,
    /// Each so many-th notification takes so long.
    pub(crate) slow: Option<(u64, Duration)>,
    pub(crate) count: AtomicU64,
    pub(crate) faults: Mutex<Vec<String>>,
}

impl Historian {
    fn check(&self, key: &ObjectKey, notification: &Notification<ConfigMap>) -> Result<(), String> {
        let mut seen = self.seen.lock().unwrap();
        let of = |map: &ConfigMap| (map.uid().expect("a uid"), version(map));
        let before = seen.get(key).cloned();
        match notification {
            Notification::Added { object, .. } => {
                if let Some(before) = before {
                    return Err(format!("{key}: added, but it was {before:?}"));
                }
                seen.insert(key.clone(), of(object));
            }
            Notification::Updated { old, new } => {
                let (old, new) = (of(old), of(new));
                if before.as_ref() != Some(&old) {
                    return Err(format!("{key}: from {old:?} to {new:?}, but it was {before:?}"));
                }
                if old.0 != new.0 {
                    return Err(format!("{key}: {old:?} is another object than {new:?}"));
                }
                if old.1 > new.1 {
                    return Err(format!("{key}: back from {old:?} to {new:?}"));
                }
                seen.insert(key.clone(), new);
            }
            Notification::Deleted { last, .. } => {
                let last = of(last);
                match seen.remove(key) {
                    Some((uid, version)) if uid == last.0 && version <= last.1 => {}
                    before => return Err(format!("{key}: deleted {last:?}, but it was {before:?}")),
                }
            }
        }
        Ok(())
    }

    /// What it was told of so far, which adds up.
    pub(crate) fn assert_legal(&self, cluster: &Cluster) {
        let faults = self.faults.lock().unwrap();
        assert!(faults.is_empty(), "{} faults, such as {:?}", faults.len(), &faults[..faults.len().min(5)]);
        let seen = self.seen.lock().unwrap();
        let mut seen: Vec<_> =
            seen.iter().map(|(key, (uid, version))| (key.to_string(), uid.clone(), *version)).collect();
        seen.sort_unstable();
        assert!(seen == cluster.versions(), "the handler has seen other objects than there are");
    }
}

#[derive(Clone, Default)]
pub(crate) struct Watching(pub(crate) Arc<Historian>);

impl Handler<ObjectKey, ConfigMap> for Watching {
    type Error = std::convert::Infallible;

    async fn handle(
        &self,
        key: &ObjectKey,
        notification: Notification<ConfigMap>,
    ) -> Result<(), Self::Error> {
        let historian = &self.0;
        let count = historian.count.fetch_add(1, Ordering::Relaxed);
        if let Some((each, takes)) = historian.slow
            && count.is_multiple_of(each)
        {
            tokio::time::sleep(takes).await;
        }
        if let Err(fault) = historian.check(key, &notification) {
            historian.faults.lock().unwrap().push(fault);
        }
        if historian.wants_log {
            historian.log.lock().unwrap().push(match notification {
                Notification::Added { object, is_initial } => {
                    format!("{key} added {}{}", number(&object), if is_initial { " at first" } else { "" })
                }
                Notification::Updated { old, new } => format!("{key} {} to {}", number(&old), number(&new)),
                Notification::Deleted { last, is_missed } => {
                    format!("{key} deleted {}{}", number(&last), if is_missed { ", missed" } else { "" })
                }
            });
        }
        Ok(())
    }
}

/// A controller that runs.
pub(crate) struct Running {
    pub(crate) cluster: Cluster,
    pub(crate) queue: Arc<Queue<ConfigMap>>,
    pub(crate) historian: Arc<Historian>,
    stop: Option<oneshot::Sender<()>>,
    controller: JoinHandle<Result<(), ReflectorError>>,
}

impl Running {
    pub(crate) fn new(
        cluster: &Cluster,
        historian: Historian,
        workers: usize,
        set: impl FnOnce(ReflectorBuilder<ApiListWatch<ConfigMap>>) -> ReflectorBuilder<ApiListWatch<ConfigMap>>,
    ) -> Self {
        let queue = delta_fifo_kube::queue();
        let historian = Arc::new(historian);
        let reflector = set(cluster.reflector()).build(Arc::clone(&queue));
        let controller = Controller::new(reflector, Watching(Arc::clone(&historian))).workers(workers);
        let (stop, stopped) = oneshot::channel::<()>();
        let controller = tokio::spawn(controller.run(async { _ = stopped.await }));
        Running { cluster: cluster.clone(), queue, historian, stop: Some(stop), controller }
    }

    /// Everything that has happened so far is told; then all adds up.
    pub(crate) async fn settle(&self) {
        let start = Instant::now();
        loop {
            tokio::time::sleep(Duration::from_millis(5)).await;
            let is_idle = self.queue.pending_len() + self.queue.leased_len() == 0;
            if is_idle && self.queue.has_synced() && known(&self.queue) == self.cluster.versions() {
                break;
            }
            assert!(start.elapsed() < LONG, "{} known", known(&self.queue).len());
        }
        self.historian.assert_legal(&self.cluster);
    }

    pub(crate) fn log(&self) -> Vec<String> {
        let mut log = std::mem::take(&mut *self.historian.log.lock().unwrap());
        log.sort_unstable();
        log
    }

    /// One watch is open.
    pub(crate) async fn watching(&self) {
        let start = Instant::now();
        while self.cluster.server.open_watches() != 1 {
            tokio::time::sleep(Duration::from_millis(1)).await;
            assert!(start.elapsed() < LONG, "{} watches", self.cluster.server.open_watches());
        }
    }

    pub(crate) async fn stop(mut self) {
        self.stop.take().expect("once").send(()).expect("it runs");
        tokio::time::timeout(LONG, self.controller).await.expect("it ends").expect("no panic").expect("well");
    }
}
