//! This workspace's informer.

use std::future::pending;
use std::sync::Arc;

use delta_fifo::{Builder, KnownView};
use delta_fifo_informer::{EventHandler, HandlerOptions, IndexerBuilder, Reflector, SharedInformer};
use delta_fifo_kube::{ApiListWatch, ObjectKey, Queue};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;

use super::Store;
use crate::informers::told::Told;

pub(super) struct Telling(pub(super) Arc<Told>);

impl EventHandler<ObjectKey, ConfigMap> for Telling {
    async fn on_add(&self, _: &ObjectKey, object: Arc<ConfigMap>, _: bool) {
        self.0.applied(&object).await;
    }

    async fn on_update(&self, _: &ObjectKey, _: Arc<ConfigMap>, new: Arc<ConfigMap>) {
        self.0.applied(&new).await;
    }

    async fn on_delete(&self, _: &ObjectKey, last: Arc<ConfigMap>, _: bool) {
        self.0.deleted(&last).await;
    }
}

pub(super) fn start<H>(api: Api<ConfigMap>, streams: bool, handlers: impl Iterator<Item = H>) -> Store
where
    H: EventHandler<ObjectKey, ConfigMap>,
{
    let source = ApiListWatch::new(api);
    let source = if streams { source.streaming_lists() } else { source };
    // As kube's, it tells of everything that another list shows; `delta_fifo_kube::queue` would leave out what is the same.
    let queue: Arc<Queue<_>> = Arc::new(Builder::new().build());
    let informer = SharedInformer::new(Reflector::builder(source).build(queue), IndexerBuilder::default());
    let handle = informer.handle();
    for handler in handlers {
        handle.add_handler(handler, HandlerOptions::default()).expect("it has not ended");
    }
    tokio::spawn(informer.run(pending()));
    Box::new(move || {
        let version = |object: &ConfigMap| object.metadata.resource_version.as_deref()?.parse().ok();
        let snapshot = handle.store();
        snapshot.iter().map(|it| (it.key().to_string(), version(it.object()).unwrap_or(0))).collect()
    })
}

/// Keeps every third deletion to itself.
#[cfg(test)]
pub(super) struct Forgetful(Telling, std::sync::atomic::AtomicU64);

#[cfg(test)]
impl Forgetful {
    pub(super) fn new(told: Arc<Told>) -> Self {
        Forgetful(Telling(told), Default::default())
    }
}

#[cfg(test)]
impl EventHandler<ObjectKey, ConfigMap> for Forgetful {
    async fn on_add(&self, key: &ObjectKey, object: Arc<ConfigMap>, is_initial: bool) {
        self.0.on_add(key, object, is_initial).await;
    }

    async fn on_update(&self, key: &ObjectKey, old: Arc<ConfigMap>, new: Arc<ConfigMap>) {
        self.0.on_update(key, old, new).await;
    }

    async fn on_delete(&self, key: &ObjectKey, last: Arc<ConfigMap>, is_missed: bool) {
        // Relaxed: one handler, one worker.
        let number = self.1.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        if !number.is_multiple_of(3) {
            self.0.on_delete(key, last, is_missed).await;
        }
    }
}
