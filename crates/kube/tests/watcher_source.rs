//! A `kube::runtime::watcher` stream as a source: lists that begin anew, and what a reflector and a controller make of it.

mod common;

use std::sync::Arc;
use std::time::Duration;

use common::{Cluster, Historian, Pause, Watching, known, name_of, number, quick};
use delta_fifo::DeltaQueue;
use delta_fifo_informer::{Controller, ListWatch, Reflector, SourceError, WatchEvent};
use delta_fifo_kube::WatcherListWatch;
use futures_util::{StreamExt, stream};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, Event, watcher};
use serde_json::json;

fn map(key: &str, number: u64) -> ConfigMap {
    let (namespace, name) = key.split_once('/').expect("a namespace");
    let metadata = json!({ "namespace": namespace, "name": name, "resourceVersion": number.to_string() });
    serde_json::from_value(json!({ "metadata": metadata, "data": { "number": number.to_string() } }))
        .expect("it is one")
}

fn init(key: &str, number: u64) -> Event<ConfigMap> {
    Event::InitApply(map(key, number))
}

fn source(events: Vec<Event<ConfigMap>>) -> WatcherListWatch<ConfigMap> {
    let failing = stream::iter([Err(watcher::Error::NoResourceVersion)]);
    WatcherListWatch::new(failing.chain(stream::iter(events.into_iter().map(Ok))))
}

/// All that one reader is told.
async fn read(source: &WatcherListWatch<ConfigMap>, lists: bool) -> Vec<String> {
    let events = if lists {
        source.watch_list().await.expect("no error").expect("it has them")
    } else {
        source.watch("1".into()).await.expect("no error")
    };
    let show = |event| match event {
        Ok(WatchEvent::Applied(key, map, version)) => format!("{key} {} at {version}", number(&map)),
        Ok(WatchEvent::Deleted(key, map, version)) => format!("{key} {} gone at {version}", number(&map)),
        Ok(WatchEvent::InitialEnd(version)) => format!("end {version}"),
        Ok(other) => format!("{other:?}"),
        Err(SourceError::Gone(_)) => "gone".to_owned(),
        Err(SourceError::Expired(_)) => "expired".to_owned(),
        Err(SourceError::Ended(_)) => "ended".to_owned(),
        Err(SourceError::Transient { .. }) => "transient".to_owned(),
    };
    events.map(show).collect().await
}

#[tokio::test]
async fn a_list_what_comes_after_and_another_list() {
    let source = source(vec![
        Event::Init,
        init("a/x", 12),
        init("a/y", 3),
        Event::InitDone,
        Event::Apply(map("a/x", 13)),
        Event::Delete(map("a/y", 14)),
        Event::Init,
        init("a/x", 13),
        Event::Init,
        Event::InitDone,
    ]);
    assert_eq!(
        read(&source, true).await,
        ["a/x 12 at 12", "a/y 3 at 3", "end 12", "a/x 13 at 13", "a/y 14 gone at 14", "gone"]
    );
    // Whoever watches on is told so as well.
    assert_eq!(read(&source, true).await, ["a/x 13 at 13", "expired"]);
    assert_eq!(read(&source, true).await, ["end 0", "ended"]);
    assert_eq!(read(&source, false).await, ["ended"]);
}

#[tokio::test]
async fn without_its_beginning_a_list_has_no_end() {
    let source = source(vec![
        init("a/x", 1),
        Event::InitDone,
        Event::Delete(map("a/x", 2)),
        Event::Init,
        init("a/y", 3),
        Event::InitDone,
        init("a/z", 4),
        Event::InitDone,
        Event::Init,
    ]);
    assert_eq!(
        read(&source, true).await,
        ["a/x 1 at 1", "a/x 2 gone at 2", "a/y 3 at 3", "end 3", "a/z 4 at 4", "gone"]
    );
    assert_eq!(read(&source, false).await, ["gone"]);
}

#[tokio::test]
async fn a_reader_that_goes_loses_nothing() {
    let source = source(vec![Event::Init, init("a/x", 1), Event::InitDone, Event::Apply(map("a/x", 2))]);
    let mut first = source.watch_list().await.expect("no error").expect("it has them");
    assert!(matches!(first.next().await, Some(Ok(WatchEvent::Applied(..)))));
    assert!(matches!(first.next().await, Some(Ok(WatchEvent::InitialEnd(_)))));
    let second = tokio::time::timeout(Duration::from_millis(10), source.watch("1".into())).await;
    assert!(second.is_err(), "the first has it");
    drop(first);
    assert_eq!(read(&source, false).await, ["a/x 2 at 2", "ended"]);
}

#[tokio::test]
async fn a_controller_on_kubes_own_watcher() {
    let cluster = Cluster::with(300);
    let queue = delta_fifo_kube::queue();
    let events = watcher(cluster.api(), watcher::Config::default().page_size(50)).backoff(Pause);
    let reflector =
        Reflector::builder(WatcherListWatch::new(events)).retry(quick()).build(Arc::clone(&queue));
    let mut progress = reflector.progress();
    let historian = Arc::new(Historian::default());
    let controller = Controller::new(reflector, Watching(Arc::clone(&historian))).workers(2);
    let controller = tokio::spawn(controller.run(std::future::pending()));
    for round in 0..6 {
        let start = tokio::time::Instant::now();
        while known(&queue) != cluster.versions() || queue.pending_len() + queue.leased_len() > 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
            assert!(start.elapsed() < common::LONG, "{round}: {} known", known(&queue).len());
        }
        historian.assert_legal(&cluster);
        let version = cluster.put("a/mine", round);
        progress.wait_processed(&version.to_string().into()).await.expect("it comes");
        assert_eq!(queue.snapshot_of("a/mine"), Some(round));
        cluster.server.stop();
        cluster.delete(&name_of(round));
        cluster.put(&name_of(100 + round), 7);
        if round % 2 == 0 {
            cluster.server.compact();
        }
        cluster.server.start();
    }
    controller.abort();
}

trait SnapshotOf {
    fn snapshot_of(&self, key: &str) -> Option<u64>;
}

impl SnapshotOf for delta_fifo_kube::Queue<ConfigMap> {
    fn snapshot_of(&self, key: &str) -> Option<u64> {
        delta_fifo::KnownView::get(&self.known(), key).map(|map| number(&map))
    }
}
