//! The server with its objects, and what is written into it.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use delta_fifo_fake_apiserver::{ApiServer, Collection};
use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::{Value, json};

use super::told::Told;

/// How long anything is waited for. Who has not got there then never will.
pub(super) const PATIENCE: Duration = Duration::from_secs(20);

/// Numbers of keys, by namespace and name.
#[derive(Debug, Default)]
pub(super) struct Keys {
    by_name: HashMap<String, HashMap<String, usize>>,
    len: usize,
}

impl Keys {
    /// Those of [`place`], so many.
    pub(super) fn places(count: usize) -> Self {
        let mut keys = Keys::default();
        (0..count).map(place).for_each(|(namespace, name)| _ = keys.number_of(&namespace, &name));
        keys
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn number(&self, object: &ConfigMap) -> Option<usize> {
        let namespace = object.metadata.namespace.as_deref().unwrap_or_default();
        self.find(namespace, object.metadata.name.as_deref()?)
    }

    pub(super) fn find(&self, namespace: &str, name: &str) -> Option<usize> {
        self.by_name.get(namespace)?.get(name).copied()
    }

    pub(super) fn number_of(&mut self, namespace: &str, name: &str) -> usize {
        if let Some(number) = self.find(namespace, name) {
            return number;
        }
        let number = self.len;
        self.len += 1;
        self.by_name.entry(namespace.into()).or_default().insert(name.into(), number);
        number
    }
}

/// One write, as long as it is not made.
#[derive(Clone, Debug)]
pub(super) enum Write {
    Put(usize, Value),
    Delete { number: usize, namespace: String, name: String },
}

/// What there is at first, and what happens then: the same for all rows.
#[derive(Debug, Default)]
pub(super) struct Plan {
    pub(super) keys: Arc<Keys>,
    pub(super) first: Vec<Value>,
    pub(super) writes: Vec<Write>,
}

/// Where the object of this number stands.
pub(super) fn place(number: usize) -> (String, String) {
    (format!("team-{}", number % 50), format!("settings-{number:07}"))
}

/// Of some 700 bytes on the wire, about what a small ConfigMap has.
pub(super) fn object(number: usize, step: usize) -> Value {
    let (namespace, name) = place(number);
    json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "namespace": namespace,
            "name": name,
            "labels": { "app.kubernetes.io/name": "settings", "app.kubernetes.io/managed-by": "helm" },
            "annotations": { "checksum": format!("{:064x}", number * 31 + step) },
        },
        "data": { "step": step.to_string(), "settings.conf": "listen = 0.0.0.0:8080\nlog = info\n".repeat(8) },
    })
}

impl Plan {
    /// So many objects, and as many updates, of one after the other.
    pub(super) fn updates(known: usize, updates: usize) -> Self {
        let keys = Arc::new(Keys::places(known));
        let first = (0..known).map(|number| object(number, 0)).collect();
        // A stride without a common divisor, so that neighbours in the store are not neighbours in time.
        let stride = (known / 2..).find(|stride| gcd(*stride, known) == 1).expect("there is a prime");
        let number = |step: usize| step % known * stride % known;
        let write = |step| Write::Put(number(step), object(number(step), step + 1));
        Plan { keys, first, writes: (0..updates).map(write).collect() }
    }

    /// Writes it all, in its order, as fast as it goes, or each when it is due.
    pub(super) fn write(&self, cluster: &Cluster, due: impl Fn(usize) -> Option<Instant>) {
        for (step, write) in self.writes.iter().enumerate() {
            if let Some(due) = due(step) {
                wait_until(due);
            }
            cluster.write(write);
        }
    }

    /// The newest version of each object that is there after all writes, zero for one that is not. Each write is one version.
    pub(super) fn finals(&self, cluster: &Cluster) -> Vec<u64> {
        let mut finals = cluster.now(&self.keys);
        for (write, version) in self.writes.iter().zip(cluster.server.version() + 1..) {
            match write {
                Write::Put(number, _) => finals[*number] = version,
                Write::Delete { number, .. } => finals[*number] = 0,
            }
        }
        finals
    }
}

fn gcd(a: usize, b: usize) -> usize {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// Without keeping a processor from those who are to be told, but for the last moment.
fn wait_until(due: Instant) {
    const CLOSE: Duration = Duration::from_micros(100);
    if let Some(time) = due.checked_duration_since(Instant::now()).and_then(|time| time.checked_sub(CLOSE)) {
        std::thread::sleep(time);
    }
    while Instant::now() < due {
        std::hint::spin_loop();
    }
}

/// The server, with ConfigMaps.
#[derive(Debug)]
pub(super) struct Cluster {
    pub(super) server: ApiServer,
    pub(super) maps: Collection,
}

impl Cluster {
    pub(super) fn new(first: &[Value]) -> Self {
        let server = ApiServer::new();
        let maps = server.collection("api/v1/configmaps");
        first.iter().for_each(|object| _ = maps.put(object));
        // Nobody reads how they came.
        server.compact();
        Cluster { server, maps }
    }

    pub(super) fn write(&self, write: &Write) {
        match write {
            Write::Put(_, object) => _ = self.maps.put(object),
            Write::Delete { namespace, name, .. } => {
                assert!(self.maps.delete(namespace, name).is_some(), "what is deleted was there");
            }
        }
    }

    /// The version of each object, zero for one that is not there.
    pub(super) fn now(&self, keys: &Keys) -> Vec<u64> {
        let mut now = vec![0; keys.len()];
        for (key, _, version) in self.maps.versions() {
            let (namespace, name) = key.split_once('/').expect("all are in a namespace");
            now[keys.find(namespace, name).expect("of the plan")] = version;
        }
        now
    }

    /// Until somebody watches; whether somebody does.
    pub(super) fn is_watched(&self) -> bool {
        until(PATIENCE, || self.server.open_watches() > 0)
    }

    /// What is not as on the server, if anything is not; a store may be a moment behind the handlers.
    pub(super) fn differs_from(&self, store: &dyn Fn() -> Vec<(String, u64)>) -> Option<String> {
        self.differs_within(PATIENCE, store)
    }

    pub(super) fn differs_within(
        &self,
        patience: Duration,
        store: &dyn Fn() -> Vec<(String, u64)>,
    ) -> Option<String> {
        let differs = || {
            let known: HashMap<String, u64> = store().into_iter().collect();
            let all = self.maps.versions();
            let is_other = |(key, _, version): &&(String, String, u64)| known.get(key) != Some(version);
            match all.iter().find(is_other) {
                Some((key, _, version)) => {
                    Some(format!("the store has {key} at {:?}, the server at {version}", known.get(key)))
                }
                None if known.len() > all.len() => {
                    Some(format!("the store has {} objects, the server {}", known.len(), all.len()))
                }
                None => None,
            }
        };
        if until(patience, || differs().is_none()) { None } else { differs() }
    }
}

/// Whether it comes true in time.
pub(super) fn until(patience: Duration, mut is: impl FnMut() -> bool) -> bool {
    let began = Instant::now();
    loop {
        if is() {
            return true;
        }
        if began.elapsed() > patience {
            return false;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// How many of them do not get there, and are told nothing for so long.
pub(super) fn stalled(all: &[Arc<Told>], quiet: Duration) -> usize {
    let counts = || all.iter().map(|told| told.counts()).collect::<Vec<_>>();
    loop {
        let before = counts();
        let end = Instant::now() + quiet;
        let is_left = |told: &&Arc<Told>| !told.wait(end.saturating_duration_since(Instant::now()));
        let left = all.iter().filter(is_left).count();
        if left == 0 || counts() == before {
            return left;
        }
    }
}
