//! A queue follows its source, whatever happens to lists and watches.

mod common;

use std::sync::Arc;
use std::time::Duration;

use common::{Memory, Object};
use delta_fifo::{Builder, DeltaKind, DeltaQueue, KnownView};
use delta_fifo_informer::{
    Progress, Reflector, ReflectorBuilder, ReflectorError, RetryPolicy, SourceError, SourceQueue,
};
use tokio::task::JoinHandle;

type Queue = SourceQueue<Memory>;

/// A reflector that runs, and who takes all that it brings.
struct Following {
    source: Memory,
    queue: Arc<Queue>,
    progress: Progress<Memory>,
    reflector: JoinHandle<Result<std::convert::Infallible, ReflectorError>>,
}

impl Drop for Following {
    fn drop(&mut self) {
        self.reflector.abort();
    }
}

fn follow(
    source: &Memory,
    set: impl FnOnce(ReflectorBuilder<Memory>) -> ReflectorBuilder<Memory>,
) -> Following {
    let queue: Arc<Queue> = Arc::new(Builder::new().build());
    let reflector = set(Reflector::builder(source.clone())).build(Arc::clone(&queue));
    let progress = reflector.progress();
    Following { source: source.clone(), queue, progress, reflector: tokio::spawn(reflector.run()) }
}

impl Following {
    /// Takes everything up to that version, as `kind key number`; the version must come within a minute of the clock's time.
    async fn take_until(&mut self, version: u64) -> Vec<String> {
        let version = version.to_string().into();
        let (queue, mut log) = (Arc::clone(&self.queue), Vec::new());
        let waited = tokio::time::timeout(Duration::from_secs(600), self.progress.wait_processed(&version));
        tokio::pin!(waited);
        loop {
            tokio::select! {
                biased;
                lease = queue.pop_async_owned() => {
                    let lease = lease.expect("it is open");
                    for delta in lease.deltas().iter() {
                        let number = delta.object().map_or(0, |object| object.number);
                        log.push(format!("{:?} {} {number}", delta.kind(), lease.key()));
                    }
                    lease.done();
                }
                processed = &mut waited => {
                    processed.expect("it comes in time").expect("the reflector goes on");
                    return log;
                }
            }
        }
    }

    fn assert_equal(&self) {
        let mut known: Vec<Object> =
            self.queue.known().iter().map(|known| Object::clone(known.object())).collect();
        known.sort_by(|one, two| one.name.cmp(&two.name));
        assert_eq!(known, self.source.objects());
    }
}

fn with_objects(count: u64) -> Memory {
    let source = Memory::default();
    (0..count).for_each(|number| _ = source.put(&format!("key-{number:02}"), number));
    source
}

#[tokio::test(start_paused = true)]
async fn a_list_then_what_happens() {
    let source = with_objects(3);
    let mut following = follow(&source, |builder| builder);
    let log = following.take_until(3).await;
    assert_eq!(log, ["Replaced key-00 0", "Replaced key-01 1", "Replaced key-02 2"]);
    assert!(following.queue.has_synced());
    source.put("key-01", 11);
    source.put("key-03", 3);
    let version = source.delete("key-00");
    let log = following.take_until(version).await;
    assert_eq!(log, ["Updated key-01 11", "Added key-03 3", "Deleted key-00 0"]);
    following.assert_equal();
    assert_eq!(source.asked(), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn a_list_that_breaks_half_way_deletes_nothing_and_is_begun_again() {
    let source = with_objects(10);
    let mut following = follow(&source, |builder| builder.page_size(3));
    following.take_until(10).await;
    // The next list is one too many.
    source.delete("key-04");
    source.compact();
    source.break_page(1);
    source.disconnect();
    let version = source.put("key-20", 20);
    let log = following.take_until(version).await;
    let tombstones: Vec<&String> = log.iter().filter(|line| line.starts_with("Deleted")).collect();
    assert_eq!(tombstones, ["DeletedFinalStateUnknown key-04 4"]);
    following.assert_equal();
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_is_closed_goes_on_where_it_was() {
    let source = with_objects(2);
    let mut following = follow(&source, |builder| builder);
    following.take_until(2).await;
    for number in 0..5 {
        source.disconnect();
        source.fail_watch(SourceError::transient("try again"));
        let version = source.put("key-00", number);
        assert_eq!(following.take_until(version).await, [format!("Updated key-00 {number}")]);
    }
    assert_eq!(source.asked().0, 1, "nobody had to list");
}

#[tokio::test(start_paused = true)]
async fn a_version_that_is_gone_means_another_list_and_no_deletion_is_missed() {
    let source = with_objects(3);
    let mut following = follow(&source, |builder| builder);
    following.take_until(3).await;
    source.disconnect();
    source.delete("key-00");
    // Deleted and there again: another object under the same key.
    source.delete("key-01");
    source.put("key-01", 100);
    source.compact();
    let version = source.put("key-05", 5);
    source.compact();
    let mut log = following.take_until(version).await;
    log.sort_unstable();
    assert_eq!(
        log,
        [
            "DeletedFinalStateUnknown key-00 0",
            "Replaced key-01 100",
            "Replaced key-02 2",
            "Replaced key-05 5"
        ]
    );
    following.assert_equal();
    assert_eq!(source.asked().0, 2);
}

#[tokio::test(start_paused = true)]
async fn lists_that_can_never_be_watched_from_are_not_asked_for_without_end() {
    let source = with_objects(1);
    (0..1_000).for_each(|_| source.fail_watch(SourceError::Gone("as it was told to".into())));
    let following = follow(&source, |builder| builder);
    let consumer = tokio::spawn({
        let queue = Arc::clone(&following.queue);
        async move { while queue.pop_async_owned().await.map(|lease| lease.done()).is_ok() {} }
    });
    tokio::time::sleep(Duration::from_secs(60)).await;
    let (lists, _) = source.asked();
    assert!((3..10).contains(&lists), "{lists} lists in a minute");
    consumer.abort();
}

#[tokio::test(start_paused = true)]
async fn it_ends_with_its_source() {
    for while_listing in [true, false] {
        let source = with_objects(1);
        let end = || SourceError::Ended("as it was told to".into());
        if while_listing {
            source.fail_list(end());
        } else {
            source.fail_watch(end());
        }
        let mut following = follow(&source, |builder| builder);
        let ended = tokio::time::timeout(Duration::from_secs(600), &mut following.reflector).await;
        let ended = ended.expect("in time").expect("well").expect_err("it never ends else");
        assert!(matches!(&ended, ReflectorError::SourceEnded(SourceError::Ended(_))), "{ended:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_bookmark_spares_a_list() {
    let source = with_objects(1);
    let mut following = follow(&source, |builder| builder);
    following.take_until(1).await;
    let version = source.bookmark();
    assert!(following.take_until(version).await.is_empty());
    source.compact();
    source.disconnect();
    let version = source.put("key-00", 1);
    following.take_until(version).await;
    assert_eq!(source.asked().0, 1);
}

#[tokio::test(start_paused = true)]
async fn pages_that_expire_are_asked_for_in_one() {
    let source = with_objects(10);
    source.fail_list(SourceError::Expired("too slow".into()));
    let mut following = follow(&source, |builder| builder.page_size(3));
    following.take_until(10).await;
    following.assert_equal();
    assert_eq!(source.asked().0, 2);
}

#[tokio::test(start_paused = true)]
async fn lists_come_as_streams_where_the_source_can() {
    let source = with_objects(4);
    source.stream_lists();
    let mut following = follow(&source, |builder| builder);
    assert_eq!(following.take_until(4).await.len(), 4);
    assert!(following.queue.has_synced());
    source.delete("key-00");
    source.compact();
    source.disconnect();
    let version = source.put("key-01", 7);
    following.take_until(version).await;
    following.assert_equal();
    assert_eq!(source.asked(), (2, 1), "the watch after the first list is the list's own");
}

#[tokio::test(start_paused = true)]
async fn it_waits_longer_and_longer_and_as_long_as_it_is_asked_to() {
    let source = with_objects(1);
    for _ in 0..4 {
        source.fail_list(SourceError::transient("no"));
    }
    source.fail_list(SourceError::Transient {
        source: "no".into(),
        retry_after: Some(Duration::from_secs(300)),
    });
    let policy = RetryPolicy { jitter: 0.0, ..RetryPolicy::default() };
    let start = tokio::time::Instant::now();
    let mut following = follow(&source, |builder| builder.retry(policy));
    following.take_until(1).await;
    let waited = start.elapsed().as_secs_f64();
    // 0.8 + 1.6 + 3.2 + 6.4, and what the source asked for.
    assert!((312.0..312.5).contains(&waited), "{waited}");
}

#[tokio::test(start_paused = true)]
async fn resyncs_come_in_time() {
    let source = with_objects(2);
    let mut following = follow(&source, |builder| builder.resync_every(Duration::from_secs(30)));
    following.take_until(2).await;
    tokio::time::sleep(Duration::from_secs(31)).await;
    let version = source.bookmark();
    let mut log = following.take_until(version).await;
    log.sort_unstable();
    assert_eq!(log, ["Sync key-00 0", "Sync key-01 1"]);
}

#[tokio::test(start_paused = true)]
async fn an_object_that_the_transform_rejects_is_left_out() {
    let source = with_objects(3);
    let rejects = |object: &mut Arc<Object>| {
        if object.number == 1 { Err("no such number".into()) } else { Ok(()) }
    };
    let queue: Arc<Queue> = Arc::new(Builder::new().transform(rejects).build());
    let reflector = Reflector::builder(source.clone()).build(Arc::clone(&queue));
    let progress = reflector.progress();
    let mut following =
        Following { source: source.clone(), queue, progress, reflector: tokio::spawn(reflector.run()) };
    assert_eq!(following.take_until(3).await, ["Replaced key-00 0", "Replaced key-02 2"]);
    source.put("key-07", 7);
    source.put("key-08", 1);
    let version = source.put("key-09", 9);
    assert_eq!(following.take_until(version).await, ["Added key-07 7", "Added key-09 9"]);
}

#[tokio::test(start_paused = true)]
async fn it_ends_with_its_queue() {
    let source = with_objects(1);
    let mut following = follow(&source, |builder| builder);
    following.take_until(1).await;
    following.queue.close();
    source.put("key-00", 2);
    let ended = (&mut following.reflector).await.expect("it was not cancelled");
    assert!(matches!(ended, Err(ReflectorError::Closed)));
    let too_late = following.progress.wait_processed(&"9".into()).await.unwrap_err();
    assert_eq!(too_late.to_string(), "version 9: the reflector has ended, or the queue is closed");
}

#[tokio::test(start_paused = true)]
async fn how_far_it_is_can_be_asked() {
    let source = with_objects(2);
    let mut following = follow(&source, |builder| builder);
    assert_eq!((following.progress.observed(), following.progress.processed()), (None, None));
    following.take_until(2).await;
    let version = source.put("key-00", 5);
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(following.progress.observed(), Some(version.to_string().into()));
    assert_eq!(following.progress.processed(), Some("2".into()), "nobody has taken it");
    let lease = following.queue.try_pop().expect("it is in line");
    assert_eq!(lease.deltas().newest().kind(), DeltaKind::Updated);
    lease.done();
    assert_eq!(following.progress.processed(), Some(version.to_string().into()));
}
