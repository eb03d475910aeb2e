//! What `ApiListWatch` makes of a server's answers.

mod common;

use std::pin::pin;
use std::time::Duration;

use common::{Cluster, name_of, number};
use delta_fifo_fake_apiserver::{Failure, Verb};
use delta_fifo_informer::{ListWatch, PageRequest, SourceError, WatchEvent};
use delta_fifo_kube::{ApiListWatch, ObjectKey};
use futures_util::{Stream, StreamExt};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use kube::core::{Expression, PartialObjectMeta};

type Event = Result<WatchEvent<ObjectKey, ConfigMap>, SourceError>;

fn first() -> PageRequest {
    PageRequest::default()
}

fn show(event: Event) -> String {
    match event {
        Ok(WatchEvent::Added(key, map, version)) => format!("added {key} {} at {version}", number(&map)),
        Ok(WatchEvent::Modified(key, map, version)) => {
            format!("modified {key} {} at {version}", number(&map))
        }
        Ok(WatchEvent::Deleted(key, map, version)) => format!("deleted {key} {} at {version}", number(&map)),
        Ok(WatchEvent::Bookmark(version)) => format!("bookmark {version}"),
        Ok(WatchEvent::InitialEnd(version)) => format!("end {version}"),
        Ok(other) => format!("{other:?}"),
        Err(error) => show_error(&error),
    }
}

fn show_error(error: &SourceError) -> String {
    match error {
        SourceError::Gone(_) => "gone".to_owned(),
        SourceError::Expired(_) => "expired".to_owned(),
        SourceError::Ended(_) => "ended".to_owned(),
        SourceError::Transient { retry_after, .. } => format!("transient {retry_after:?}"),
    }
}

async fn next(events: &mut (impl Stream<Item = Event> + Unpin)) -> String {
    let next = tokio::time::timeout(common::LONG, events.next()).await.expect("it comes");
    next.map_or_else(|| "nothing".to_owned(), show)
}

#[tokio::test]
async fn pages_make_one_list() {
    let cluster = Cluster::with(1234);
    let source = cluster.source();
    let (mut request, mut keys, mut versions) =
        (PageRequest { limit: Some(100), ..first() }, Vec::new(), Vec::new());
    loop {
        let page = source.list(request.clone()).await.expect("a page");
        assert!(page.items.iter().all(|(key, map)| key.as_str() == name_of(number(map))));
        keys.extend(page.items.into_iter().map(|(key, _)| key));
        versions.push(page.version);
        // The list is that of its beginning.
        cluster.put(&name_of(number_of_a_new_one(&versions)), 0);
        match page.next {
            Some(token) => request.token = Some(token),
            None => break,
        }
    }
    keys.sort_unstable();
    keys.dedup();
    assert_eq!((keys.len(), versions.len()), (1234, 13));
    assert!(versions.iter().all(|version| *version == versions[0]), "{versions:?}");
}

fn number_of_a_new_one(versions: &[delta_fifo_informer::ResourceVersion]) -> u64 {
    90_000 + versions.len() as u64
}

#[tokio::test]
async fn errors_are_what_they_mean() {
    let cluster = Cluster::with(10);
    let source = cluster.source();
    for (failure, means) in [
        (Failure::internal(), "transient None"),
        (Failure::too_many_requests(1), "transient Some(1s)"),
        (Failure::status(429, "TooManyRequests").retry_after(7), "transient Some(7s)"),
        (Failure::status(504, "Timeout").retry_after(3), "transient Some(3s)"),
        (Failure::status(403, "Forbidden"), "transient None"),
        (Failure::broken(), "transient None"),
        (Failure::gone(), "gone"),
        (Failure::status(410, "Gone"), "gone"),
    ] {
        cluster.server.fail_next(Verb::List, failure.clone());
        cluster.server.fail_next(Verb::Watch, failure.clone());
        cluster.server.fail_next(Verb::Page, failure.clone());
        let error = source.list(first()).await.map(drop).expect_err("as it was told to");
        assert_eq!(show_error(&error), means, "{failure:?}");
        let error = source.watch("1".into()).await.map(drop).expect_err("as it was told to");
        assert_eq!(show_error(&error), means, "{failure:?}");
        let token = Some("1-1".to_owned());
        let error =
            source.list(PageRequest { token, ..first() }).await.map(drop).expect_err("as it was told to");
        assert_eq!(show_error(&error), means.replace("gone", "expired"), "{failure:?}");
    }
    for (failure, means) in [
        (Failure::gone().in_stream(), "gone"),
        (Failure::status(429, "TooManyRequests").retry_after(7).in_stream(), "transient Some(7s)"),
        (Failure::internal().in_stream(), "transient None"),
    ] {
        cluster.server.fail_next(Verb::Watch, failure);
        let mut events = source.watch("1".into()).await.expect("it begins");
        assert_eq!(next(&mut events).await, means);
    }
}

#[tokio::test]
async fn a_token_that_is_too_old_has_expired_and_a_version_is_gone() {
    let cluster = Cluster::with(10);
    let source = cluster.source();
    let page = source.list(PageRequest { limit: Some(3), ..first() }).await.expect("a page");
    cluster.put("ns-0/new", 0);
    let mut before = source.watch(page.version.clone()).await.expect("it begins");
    cluster.server.compact();
    let rest = PageRequest { limit: Some(3), token: page.next, at_least: None };
    assert_eq!(show_error(&source.list(rest).await.map(drop).expect_err("it is too old")), "expired");
    // It has not read yet; and one that begins now.
    assert_eq!(next(&mut before).await, "gone");
    assert_eq!(next(&mut before).await, "nothing");
    assert_eq!(next(&mut source.watch(page.version).await.expect("it begins")).await, "gone");
}

#[tokio::test]
async fn a_list_may_be_asked_for_a_version() {
    let cluster = Cluster::with(3);
    let (source, now) = (cluster.source(), cluster.server.version());
    let at = |version: u64| PageRequest { at_least: Some(version.to_string().into()), ..first() };
    assert_eq!(source.list(at(now)).await.expect("it is there").items.len(), 3);
    let error = source.list(at(now + 1)).await.map(drop).expect_err("it is not there yet");
    assert_eq!(show_error(&error), "transient Some(1s)");
    assert_eq!(cluster.source().from_cache().list(first()).await.expect("any will do").items.len(), 3);
}

#[tokio::test]
async fn a_watch_says_what_has_happened() {
    let cluster = Cluster::with(1);
    let from = cluster.server.version();
    cluster.put("a/x", 1);
    cluster.put("a/x", 2);
    let source = cluster.source();
    let mut events = source.watch(from.to_string().into()).await.expect("it begins");
    assert_eq!(next(&mut events).await, format!("added a/x 1 at {}", from + 1));
    assert_eq!(next(&mut events).await, format!("modified a/x 2 at {}", from + 2));
    cluster.server.bookmark();
    assert_eq!(next(&mut events).await, format!("bookmark {}", from + 2));
    cluster.delete("a/x");
    assert_eq!(next(&mut events).await, format!("deleted a/x 2 at {}", from + 3));
    cluster.server.close_watches();
    assert_eq!(next(&mut events).await, "nothing");
    // In the middle of a line, of which nothing is told.
    let mut events = source.watch((from + 3).to_string().into()).await.expect("it begins");
    cluster.server.kill_watches();
    assert_eq!(next(&mut events).await, "transient None");
    let mut events = source.watch((from + 3).to_string().into()).await.expect("it begins");
    cluster.server.expire_watches();
    assert_eq!(next(&mut events).await, "gone");
}

#[tokio::test]
async fn selectors_and_namespaces() {
    let cluster = Cluster::with(100);
    let from = cluster.server.version();
    let count =
        async |source: ApiListWatch<ConfigMap>| source.list(first()).await.expect("a list").items.len();
    let in_namespace = || ApiListWatch::<ConfigMap>::new(Api::namespaced(cluster.client.clone(), "ns-3"));
    assert_eq!(count(cluster.source().labels("odd=true")).await, 50);
    let odd = Expression::NotIn("odd".to_owned(), ["false".to_owned()].into()).into();
    assert_eq!(count(cluster.source().labels_from(&odd)).await, 50);
    assert_eq!(count(in_namespace()).await, 10);
    assert_eq!(count(in_namespace().labels("odd=false")).await, 0);
    assert_eq!(count(cluster.source().fields("metadata.name=map-00042")).await, 1);
    // What no longer is among its own is gone for it.
    let mut events =
        cluster.source().labels("odd=true").watch(from.to_string().into()).await.expect("it begins");
    cluster.put("ns-1/map-00001", 2);
    cluster.put("ns-1/map-00001", 4);
    cluster.put("ns-1/map-00001", 5);
    assert_eq!(next(&mut events).await, format!("deleted ns-1/map-00001 1 at {}", from + 1));
    assert_eq!(next(&mut events).await, format!("added ns-1/map-00001 5 at {}", from + 3));
    let metadata = ApiListWatch::<PartialObjectMeta<ConfigMap>>::new(Api::all(cluster.client.clone()));
    assert_eq!(metadata.list(first()).await.expect("a list").items.len(), 100);
}

#[tokio::test]
async fn a_list_as_a_stream() {
    let cluster = Cluster::with(3);
    let source = cluster.source().streaming_lists();
    let mut events = source.watch_list().await.expect("it begins").expect("the server has them");
    let now = cluster.server.version();
    for number in 0..3 {
        let version = now - 2 + number;
        assert_eq!(next(&mut events).await, format!("added {} {number} at {version}", name_of(number)));
    }
    assert_eq!(next(&mut events).await, format!("end {now}"));
    cluster.put("a/x", 9);
    assert_eq!(next(&mut events).await, format!("added a/x 9 at {}", now + 1));
    // A server that has none is asked once.
    cluster.server.stream_lists(false);
    let asked = cluster.server.requests(Verb::Watch);
    assert!(source.watch_list().await.expect("no error").is_none());
    assert!(source.watch_list().await.expect("no error").is_none());
    assert_eq!(cluster.server.requests(Verb::Watch), asked + 1);
    assert!(cluster.source().watch_list().await.expect("no error").is_none());
}

#[tokio::test(start_paused = true)]
async fn a_watch_ends_when_its_time_is_up() {
    let cluster = Cluster::with(1);
    let from = cluster.server.version().to_string();
    let source = cluster.source().watch_timeout(Duration::from_secs(30));
    let start = tokio::time::Instant::now();
    let mut events = pin!(source.watch(from.as_str().into()).await.expect("it begins"));
    assert_eq!(next(&mut events).await, format!("bookmark {from}"));
    assert_eq!(next(&mut events).await, "nothing");
    let first = start.elapsed().as_secs();
    assert!((15..=30).contains(&first), "{first} s");
    // A connection that is dead.
    cluster.server.fail_next(Verb::Watch, Failure::silent());
    let mut events = pin!(source.watch(from.as_str().into()).await.expect("it begins"));
    assert_eq!(next(&mut events).await, "nothing");
    let second = start.elapsed().as_secs() - first;
    assert!((15 + 5..=30 + 6).contains(&second), "{second} s");
}
