//! A queue follows a `kube::runtime::watcher` stream, and streams that are not as they should be.

mod common;

use std::sync::Arc;
use std::time::Duration;

use common::{Cluster, Pause, known, name_of, number};
use delta_fifo::{DeltaQueue, KnownView};
use delta_fifo_fake_apiserver::{Failure, Verb};
use delta_fifo_kube::{FeedEnd, FeedError, Interner, Queue, WatcherFeed};
use futures_util::{StreamExt, stream};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, Event, watcher};
use serde_json::json;

fn map(key: &str, number: u64) -> ConfigMap {
    let (namespace, name) = key.split_once('/').expect("a namespace");
    let metadata = json!({
        "namespace": namespace, "name": name, "uid": format!("uid of {key}"), "resourceVersion": number.to_string(),
    });
    serde_json::from_value(json!({ "metadata": metadata, "data": { "number": number.to_string() } }))
        .expect("it is one")
}

fn init(key: &str, number: u64) -> Event<ConfigMap> {
    Event::InitApply(map(key, number))
}

fn apply(key: &str, number: u64) -> Event<ConfigMap> {
    Event::Apply(map(key, number))
}

async fn feed(queue: &Arc<Queue<ConfigMap>>, events: Vec<Event<ConfigMap>>) -> Result<FeedEnd, FeedError> {
    // One after the other, and in chunks.
    let events = stream::iter(events.into_iter().map(Ok::<_, watcher::Error>));
    WatcherFeed::new(Arc::clone(queue)).run(events).await
}

fn taken(queue: &Queue<ConfigMap>) -> Vec<String> {
    let mut log = Vec::new();
    while let Ok(lease) = queue.try_pop() {
        for delta in lease.deltas().iter() {
            log.push(format!(
                "{} {:?} {}",
                lease.key(),
                delta.kind(),
                delta.object().map_or(0, |map| number(map))
            ));
        }
        lease.done();
    }
    log
}

#[tokio::test]
async fn a_list_and_what_comes_after() {
    let queue = delta_fifo_kube::queue();
    let events = vec![
        Event::Init,
        init("a/x", 1),
        init("a/y", 2),
        Event::InitDone,
        apply("a/x", 3),
        apply("a/z", 4),
        Event::Delete(map("a/y", 5)),
    ];
    assert!(matches!(feed(&queue, events).await, Ok(FeedEnd::Complete)));
    assert_eq!(
        taken(&queue),
        ["a/x Replaced 1", "a/x Updated 3", "a/y Replaced 2", "a/y Deleted 5", "a/z Added 4"]
    );
    assert!(queue.has_synced());
    assert_eq!(queue.processed_through().map(|version| version.to_string()).as_deref(), Some("5"));
    // What the next list does not have is gone.
    let events = vec![Event::Init, init("a/z", 4), Event::InitDone];
    assert!(matches!(feed(&queue, events).await, Ok(FeedEnd::Complete)));
    assert_eq!(taken(&queue), ["a/z Replaced 4", "a/x DeletedFinalStateUnknown 3"]);
}

#[tokio::test]
async fn an_unfinished_list_deletes_nothing() {
    let queue = delta_fifo_kube::queue();
    feed(&queue, vec![Event::Init, init("a/x", 1), init("a/y", 1), Event::InitDone])
        .await
        .expect("it is open");
    taken(&queue);
    // It begins anew: what the first one lacked is not gone, what the second one lacks is.
    let events =
        vec![Event::Init, init("a/new", 2), Event::Init, init("a/x", 1), init("a/new", 2), Event::InitDone];
    assert!(matches!(feed(&queue, events).await, Ok(FeedEnd::Complete)));
    assert_eq!(
        taken(&queue),
        ["a/new Replaced 2", "a/new Replaced 2", "a/x Replaced 1", "a/y DeletedFinalStateUnknown 1"]
    );
    // It ends in the middle.
    assert!(matches!(feed(&queue, vec![Event::Init, init("a/x", 3)]).await, Ok(FeedEnd::UnfinishedList)));
    assert_eq!(taken(&queue), ["a/x Replaced 3"]);
    assert!(queue.known().get("a/new").is_some());
    // And the queue can be listed into again.
    feed(&queue, vec![Event::Init, Event::InitDone]).await.expect("it is open");
    assert!(
        taken(&queue).iter().all(|line| line.contains("Deleted")) && queue.known().iter().next().is_none()
    );
}

#[tokio::test]
async fn without_its_beginning_a_list_deletes_nothing() {
    let queue = delta_fifo_kube::queue();
    feed(&queue, vec![Event::Init, init("a/x", 1), init("a/y", 1), Event::InitDone])
        .await
        .expect("it is open");
    taken(&queue);
    let events = vec![init("a/x", 1), init("a/z", 2), Event::InitDone, apply("a/z", 3)];
    assert!(matches!(feed(&queue, events).await, Ok(FeedEnd::Complete)));
    assert_eq!(taken(&queue), ["a/x Updated 1", "a/z Added 2", "a/z Updated 3"]);
    assert!(queue.known().get("a/y").is_some());
}

#[tokio::test]
async fn changes_within_a_list_are_newer_than_it() {
    let queue = delta_fifo_kube::queue();
    let events = vec![
        Event::Init,
        apply("a/x", 5),
        init("a/x", 1),
        apply("a/only-changed", 2),
        Event::Delete(map("a/gone", 3)),
        init("a/y", 1),
        Event::InitDone,
    ];
    assert!(matches!(feed(&queue, events).await, Ok(FeedEnd::Complete)));
    assert_eq!(taken(&queue), ["a/x Added 5", "a/only-changed Added 2", "a/y Replaced 1"]);
}

#[tokio::test]
async fn errors_do_not_end_a_list() {
    let queue = delta_fifo_kube::queue();
    let events: Vec<watcher::Result<Event<ConfigMap>>> = vec![
        Err(watcher::Error::NoResourceVersion),
        Ok(Event::Init),
        Ok(init("a/x", 1)),
        Err(watcher::Error::NoResourceVersion),
        Ok(init("a/y", 1)),
        Ok(Event::InitDone),
    ];
    let ended = WatcherFeed::new(Arc::clone(&queue)).run(stream::iter(events)).await;
    assert!(matches!(ended, Ok(FeedEnd::Complete)));
    assert_eq!(taken(&queue), ["a/x Replaced 1", "a/y Replaced 1"]);
}

#[tokio::test]
async fn a_queue_that_cannot_be_fed() {
    let queue = delta_fifo_kube::queue();
    let other = queue.begin_replace().expect("none runs");
    assert!(matches!(feed(&queue, vec![Event::Init]).await, Err(FeedError::OtherSource)));
    drop(other);
    queue.close();
    for events in [vec![Event::Init], vec![apply("a/x", 1)], vec![init("a/x", 1)]] {
        assert!(matches!(feed(&queue, events).await, Err(FeedError::Closed)));
    }
    // Closed while a list comes in.
    let queue = delta_fifo_kube::queue();
    let closing = Arc::clone(&queue);
    let events = stream::iter([Event::Init, init("a/x", 1)]).chain(stream::once(async move {
        closing.close();
        Event::InitDone
    }));
    let ended = WatcherFeed::new(queue).run(events.map(Ok)).await;
    assert!(matches!(ended, Err(FeedError::Closed)));
}

#[tokio::test]
async fn kubes_own_watcher() {
    let cluster = Cluster::with(500);
    let queue = delta_fifo_kube::queue();
    let keys = Arc::new(Interner::new());
    let config = watcher::Config::default().page_size(100);
    let events = watcher(cluster.api(), config).backoff(Pause);
    let feed = WatcherFeed::new(Arc::clone(&queue)).intern_keys_in(Arc::clone(&keys)).run(events);
    let feed = tokio::spawn(feed);
    for round in 0..4 {
        let start = tokio::time::Instant::now();
        while known(&queue) != cluster.versions() {
            taken(&queue);
            tokio::time::sleep(Duration::from_millis(1)).await;
            assert!(start.elapsed() < common::LONG, "{round}: {} known", known(&queue).len());
        }
        cluster.server.stop();
        cluster.delete(&name_of(round));
        cluster.put(&name_of(100 + round), 7);
        cluster.put(&format!("new/{round}"), 7);
        if round % 2 == 0 {
            cluster.server.compact();
            cluster.server.fail_next(Verb::Page, Failure::internal());
        }
        cluster.server.start();
    }
    assert_eq!(keys.len(), 500 + 3);
    feed.abort();
}
