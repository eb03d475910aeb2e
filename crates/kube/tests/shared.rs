//! A shared informer on a server with which everything goes wrong: every handler, early or late, fast or slow, is told a history that can
//! have been.

mod common;

use std::sync::Arc;
use std::time::Duration;

use common::{Cluster, Historian, Watching, name_of};
use delta_fifo::KnownView;
use delta_fifo_informer::{
    EventHandler, Handler, HandlerOptions, IndexerBuilder, NAMESPACE, Notification, Registration,
    SharedInformer,
};
use delta_fifo_kube::{ApiListWatch, ObjectKey};
use k8s_openapi::api::core::v1::ConfigMap;
use tokio::sync::oneshot;

struct Told(Watching);

impl Told {
    async fn tell(&self, key: &ObjectKey, notification: Notification<ConfigMap>) {
        match self.0.handle(key, notification).await {
            Ok(()) => {}
            Err(never) => match never {},
        }
    }
}

impl EventHandler<ObjectKey, ConfigMap> for Told {
    async fn on_add(&self, key: &ObjectKey, object: Arc<ConfigMap>, is_initial: bool) {
        self.tell(key, Notification::Added { object, is_initial }).await;
    }

    async fn on_update(&self, key: &ObjectKey, old: Arc<ConfigMap>, new: Arc<ConfigMap>) {
        self.tell(key, Notification::Updated { old, new }).await;
    }

    async fn on_delete(&self, key: &ObjectKey, last: Arc<ConfigMap>, is_missed: bool) {
        self.tell(key, Notification::Deleted { last, is_missed }).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_handler_is_told_a_legal_history() {
    let cluster = Cluster::with(300);
    let reflector = cluster.reflector().page_size(50).build(delta_fifo_kube::queue());
    let informer = SharedInformer::new(reflector, IndexerBuilder::default().by_namespace());
    let handle = informer.handle();
    let mut all: Vec<(Arc<Historian>, Registration<ApiListWatch<ConfigMap>>)> = Vec::new();
    let mut join = |slow: Option<(u64, Duration)>, workers: usize| {
        let historian = Arc::new(Historian { slow, ..Historian::default() });
        let options = HandlerOptions { workers, ..HandlerOptions::default() };
        let registration =
            handle.add_handler(Told(Watching(Arc::clone(&historian))), options).expect("it runs");
        all.push((historian, registration));
    };
    join(None, 1);
    join(Some((50, Duration::from_millis(3))), 4);
    let (stop, stopped) = oneshot::channel::<()>();
    let informer = tokio::spawn(informer.run(async { _ = stopped.await }));
    handle.synced().wait().await.expect("it comes");
    for round in 0..20_u64 {
        let writer = cluster.clone();
        let writes = tokio::task::spawn_blocking(move || {
            for number in 0..500_u64 {
                let key = name_of((round * 500 + number).wrapping_mul(2_654_435_761) % 300);
                let (namespace, name) = key.split_once('/').expect("a namespace");
                match number % 6 {
                    0 => _ = writer.maps.delete(namespace, name),
                    _ => _ = writer.put(&key, number),
                }
            }
            match round % 4 {
                0 => writer.server.kill_watches(),
                1 => writer.server.compact(),
                2 => writer.server.expire_watches(),
                _ => {}
            }
        });
        writes.await.expect("no panic");
        if round % 5 == 3 {
            join(None, 2);
        }
    }
    let version = cluster.put("last/one", 1).to_string().into();
    handle.progress().wait_processed(&version).await.expect("it comes");
    for (historian, registration) in &all {
        tokio::time::timeout(common::LONG, registration.caught_up()).await.expect("in time");
        historian.assert_legal(&cluster);
    }
    let store = handle.store();
    assert_eq!(store.iter().count(), cluster.versions().len());
    let indexes = handle.indexes();
    let in_namespace = indexes.by_index(NAMESPACE, "ns-3").expect("it is there").count();
    assert_eq!(
        in_namespace,
        cluster.versions().iter().filter(|(key, _, _)| key.starts_with("ns-3/")).count()
    );
    stop.send(()).expect("it runs");
    informer.await.expect("no panic").expect("well");
}
