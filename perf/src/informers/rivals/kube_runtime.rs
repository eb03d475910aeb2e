//! kube-runtime, as its documentation and examples have it.

use std::future::ready;
use std::pin::pin;
use std::sync::Arc;

use futures_util::{Stream, StreamExt};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use kube::runtime::watcher::{Config, Event};
use kube::runtime::{WatchStreamExt, reflector, watcher};

use super::Store;
use crate::informers::told::Told;

/// As wide as in kube's own example of a shared stream.
const BUFFER: usize = 256;

fn watch(api: Api<ConfigMap>, streams: bool) -> impl Stream<Item = watcher::Result<Event<ConfigMap>>> + Send {
    let config = Config::default();
    watcher(api, if streams { config.streaming_lists() } else { config }).default_backoff()
}

fn read(store: reflector::Store<ConfigMap>) -> Store {
    Box::new(move || {
        let all = store.state();
        let entry = |object: &Arc<ConfigMap>| {
            let metadata = &object.metadata;
            let version = metadata.resource_version.as_deref()?.parse().ok()?;
            Some((format!("{}/{}", metadata.namespace.as_deref()?, metadata.name.as_deref()?), version))
        };
        all.iter().filter_map(entry).collect()
    })
}

pub(super) fn shared(api: Api<ConfigMap>, streams: bool, handlers: &[Arc<Told>]) -> Store {
    let (store, writer) = reflector::store_shared(BUFFER);
    for handler in handlers {
        let (handler, subscriber) = (Arc::clone(handler), writer.subscribe().expect("it is shared"));
        tokio::spawn(async move {
            let mut subscriber = pin!(subscriber);
            while let Some(object) = subscriber.next().await {
                handler.applied(&object).await;
            }
        });
    }
    tokio::spawn(watch(api, streams).reflect_shared(writer).for_each(|_| ready(())));
    read(store)
}

pub(super) fn alone(api: Api<ConfigMap>, handler: Arc<Told>) -> Store {
    let (store, writer) = reflector::store();
    tokio::spawn(tell(watch(api, false).reflect(writer), handler));
    read(store)
}

pub(super) fn bare(api: Api<ConfigMap>, handler: Arc<Told>) {
    tokio::spawn(tell(watch(api, false), handler));
}

async fn tell(events: impl Stream<Item = watcher::Result<Event<ConfigMap>>>, handler: Arc<Told>) {
    let mut events = pin!(events);
    while let Some(event) = events.next().await {
        match event {
            Ok(Event::Apply(object) | Event::InitApply(object)) => handler.applied(&object).await,
            Ok(Event::Delete(last)) => handler.deleted(&last).await,
            // It comes again by itself.
            Ok(Event::Init | Event::InitDone) | Err(_) => {}
        }
    }
}
