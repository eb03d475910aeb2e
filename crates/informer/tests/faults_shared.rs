//! Handlers and sources that misbehave, and what a shared informer makes of them.

mod common;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use common::scripted::{Event, Scripted, events, object};
use common::{Memory, Object};
use delta_fifo::{Builder, Compression};
use delta_fifo_informer::{
    EventHandler, HandlerOptions, IndexerBuilder, Page, Reflector, SharedInformer, SourceQueue,
};
use futures_util::stream::{self, StreamExt};
use tokio::sync::Semaphore;
use tokio::time::{sleep, timeout};

/// Much more than anything takes.
const LONG: Duration = Duration::from_secs(600);

fn second() -> tokio::time::Sleep {
    sleep(Duration::from_secs(1))
}

/// Writes down what it is told; each turn takes a permit.
#[derive(Clone)]
struct Scribe(Arc<(Mutex<Vec<String>>, Semaphore)>);

impl Scribe {
    fn new(permits: usize) -> Self {
        Scribe(Arc::new((Mutex::default(), Semaphore::new(permits))))
    }

    fn free() -> Self {
        Scribe::new(Semaphore::MAX_PERMITS)
    }

    async fn write(&self, line: String) {
        self.0.1.acquire().await.expect("it stays open").forget();
        self.0.0.lock().unwrap().push(line);
    }

    fn log(&self) -> Vec<String> {
        self.0.0.lock().unwrap().clone()
    }
}

impl EventHandler<String, Object> for Scribe {
    async fn on_add(&self, key: &String, object: Arc<Object>, _: bool) {
        self.write(format!("{key} added {}", object.number)).await;
    }

    async fn on_update(&self, key: &String, old: Arc<Object>, new: Arc<Object>) {
        self.write(format!("{key} {} to {}", old.number, new.number)).await;
    }

    async fn on_delete(&self, key: &String, last: Arc<Object>, _: bool) {
        self.write(format!("{key} deleted {}", last.number)).await;
    }
}

fn informer(source: Scripted) -> SharedInformer<Scripted> {
    informer_of(source, Builder::new().build())
}

fn informer_of(source: Scripted, queue: SourceQueue<Scripted>) -> SharedInformer<Scripted> {
    SharedInformer::new(Reflector::builder(source).build(Arc::new(queue)), IndexerBuilder::default())
}

fn page_of(objects: u64) -> Page<String, Object> {
    let items = (0..objects).map(|number| (number.to_string(), object("", number))).collect();
    Page { items, next: None, version: "1".into() }
}

fn added(name: &str, number: u64) -> Event {
    Event::Added(name.to_owned(), object(name, number), number.to_string().into())
}

/// As with client-go; and a time that is beyond all clocks is no reason to panic.
#[tokio::test(start_paused = true)]
async fn no_time_between_resyncs_means_none() {
    let source = Scripted {
        watch: |_| {
            let later = stream::once(async {
                second().await;
                Ok(added("a", 2))
            });
            Ok(later.chain(stream::pending()).boxed())
        },
        ..Scripted::default()
    };
    let informer = informer(source);
    let handle = informer.handle();
    let scribe = Scribe::free();
    for never in [Duration::ZERO, Duration::MAX] {
        let options = HandlerOptions { resync_every: Some(never), ..HandlerOptions::default() };
        handle.add_handler(scribe.clone(), options).expect("it has not ended");
    }
    let running = tokio::spawn(informer.run(std::future::pending()));
    // A clock that stands still while somebody is busy must not hang the test.
    let start = std::time::Instant::now();
    while scribe.log().len() < 2 && start.elapsed() < Duration::from_secs(20) {
        tokio::time::advance(Duration::from_millis(50)).await;
    }
    assert_eq!(scribe.log(), ["a added 2"; 2]);
    running.abort();
}

/// The handler joins in the middle of the first list, and the informer ends before it is told of the rest.
#[tokio::test(start_paused = true)]
async fn an_end_does_not_make_a_handler_synced_too_early() {
    let source = Scripted {
        watch_list: |_| {
            let rest = stream::once(sleep(Duration::from_secs(10)))
                .flat_map(|()| stream::iter([Ok(added("b", 2)), Ok(Event::InitialEnd("2".into()))]));
            Ok(Some(stream::iter([Ok(added("a", 1))]).chain(rest).chain(stream::pending()).boxed()))
        },
        ..Scripted::default()
    };
    let informer = informer(source);
    let handle = informer.handle();
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let running = tokio::spawn(informer.run(async { _ = stopped.await }));
    second().await;
    let scribe = Scribe::new(0);
    let registration = handle.add_handler(scribe.clone(), HandlerOptions::default()).expect("it runs");
    timeout(LONG, handle.synced().wait()).await.expect("in time").expect("it runs");
    stop.send(()).expect("it runs");
    second().await;
    scribe.0.1.add_permits(1);
    second().await;
    assert_eq!(scribe.log(), ["a added 1"]);
    assert!(!registration.synced().has_synced(), "it is still to be told of b");
    assert!(timeout(Duration::from_secs(1), registration.caught_up()).await.is_err(), "as above");
    scribe.0.1.add_permits(1);
    timeout(LONG, running).await.expect("in time").expect("well").expect("by the stop");
    assert_eq!(scribe.log(), ["a added 1", "b added 2"]);
    assert_eq!(timeout(LONG, registration.synced().wait()).await.expect("in time"), Ok(()));
    timeout(LONG, registration.caught_up()).await.expect("in time");
}

/// Never waits.
#[derive(Clone, Default)]
struct Counting(Arc<AtomicUsize>);

impl EventHandler<String, Object> for Counting {
    async fn on_add(&self, _: &String, _: Arc<Object>, _: bool) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// On one thread: who never waits must not keep it from the others, not even at the beginning.
#[tokio::test(start_paused = true)]
async fn a_late_handler_that_never_waits_starves_nobody() {
    let source = Scripted { list: |_| Ok(page_of(20_000)), ..Scripted::default() };
    let informer = informer(source);
    let handle = informer.handle();
    let running = tokio::spawn(informer.run(std::future::pending()));
    timeout(LONG, handle.synced().wait()).await.expect("in time").expect("it runs");
    let counting = Counting::default();
    let registration = handle.add_handler(counting.clone(), HandlerOptions::default()).expect("it runs");
    while counting.0.load(Ordering::Relaxed) == 0 {
        tokio::task::yield_now().await;
    }
    let told = counting.0.load(Ordering::Relaxed);
    assert!(told < 5_000, "the others ran when {told} had been told");
    timeout(LONG, registration.synced().wait()).await.expect("in time").expect("it runs");
    assert_eq!(counting.0.load(Ordering::Relaxed), 20_000);
    running.abort();
}

#[tokio::test(start_paused = true)]
async fn what_is_processed_stays_so_after_the_end() {
    let informer = informer(Scripted::default());
    let handle = informer.handle();
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let running = tokio::spawn(informer.run(async { _ = stopped.await }));
    timeout(LONG, handle.progress().wait_processed(&"1".into())).await.expect("in time").expect("it runs");
    drop(stop);
    running.await.expect("well").expect("by the stop");
    assert_eq!(handle.progress().processed(), Some("1".into()));
    timeout(LONG, handle.progress().wait_processed(&"1".into())).await.expect("in time").expect("it was");
}

/// Merged into one deletion before anybody was told of the object.
#[tokio::test(start_paused = true)]
async fn who_was_never_told_of_an_object_is_not_told_that_it_is_gone() {
    let source = Scripted {
        watch: |_| {
            let deleted = Event::Deleted("a".into(), object("a", 3), "3".into());
            Ok(events([added("a", 2), deleted, added("b", 4)]))
        },
        ..Scripted::default()
    };
    let informer = informer_of(source, Builder::new().compression(Compression::Latest).build());
    let scribe = Scribe::free();
    informer.handle().add_handler(scribe.clone(), HandlerOptions::default()).expect("it has not ended");
    let running = tokio::spawn(informer.run(std::future::pending()));
    second().await;
    assert_eq!(scribe.log(), ["b added 4"]);
    running.abort();
}

#[tokio::test(start_paused = true)]
async fn a_version_that_does_not_compare_is_waited_for_though_it_was_passed() {
    let source = Scripted {
        watch: |_| {
            let version = |text: &str, number| Event::Added("a".into(), object("a", number), text.into());
            Ok(events([version("x", 2), version("y", 3), version("z", 4)]))
        },
        ..Scripted::default()
    };
    let informer = informer(source);
    let handle = informer.handle();
    let running = tokio::spawn(informer.run(std::future::pending()));
    timeout(LONG, handle.progress().wait_processed(&"y".into())).await.expect("in time").expect("it runs");
    running.abort();
}

#[tokio::test(start_paused = true)]
async fn a_subscription_of_an_informer_that_never_ran_never_syncs() {
    let informer = informer(Scripted::default());
    let handle = informer.handle();
    let subscription = handle.subscribe(None).expect("it has not ended");
    drop(informer);
    let synced = timeout(LONG, subscription.synced().wait()).await.expect("in time");
    assert!(synced.is_err());
}

/// Who waits for a version that is reached does not take back what is processed.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn what_is_processed_never_goes_back() {
    let source = Memory::default();
    let queue: Arc<SourceQueue<Memory>> = Arc::new(Builder::new().build());
    let informer =
        SharedInformer::new(Reflector::builder(source.clone()).build(queue), IndexerBuilder::default());
    let handle = informer.handle();
    let running = tokio::spawn(informer.run(std::future::pending()));
    timeout(LONG, handle.synced().wait()).await.expect("in time").expect("it runs");
    let waiters: Vec<_> = (0..2)
        .map(|_| {
            let mut progress = handle.progress();
            tokio::spawn(async move {
                loop {
                    progress.wait_processed(&"0".into()).await.expect("it runs");
                    tokio::task::yield_now().await;
                }
            })
        })
        .collect();
    let mut last = 0;
    for number in 0..3_000 {
        source.put("a", number);
        tokio::task::yield_now().await;
        let processed = handle.progress().processed();
        let now: u64 = processed.map_or(0, |version| version.as_str().parse().expect("a number"));
        assert!(now >= last, "{now} after {last}");
        last = now;
    }
    waiters.iter().for_each(tokio::task::JoinHandle::abort);
    running.abort();
}

/// Never comes back.
struct Stuck;

impl EventHandler<String, Object> for Stuck {
    async fn on_add(&self, _: &String, _: Arc<Object>, _: bool) {
        std::future::pending().await
    }
}

/// It cancels tasks in any order, and those that wait for others see it.
#[test]
fn a_runtime_that_shuts_down_makes_nobody_panic() {
    let cancelled = Arc::new(AtomicUsize::new(0));
    let (count, usual) = (Arc::clone(&cancelled), std::panic::take_hook());
    std::panic::set_hook(Box::new(move |panic| {
        let message = panic.payload().downcast_ref::<String>();
        count.fetch_add(
            usize::from(message.is_some_and(|text| text.contains("was cancelled"))),
            Ordering::Relaxed,
        );
        usual(panic);
    }));
    for _ in 0..200 {
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_time().build().expect("it can");
        runtime.block_on(async {
            let source = Scripted { list: |_| Ok(page_of(8)), ..Scripted::default() };
            let informer = informer(source);
            let handle = informer.handle();
            let options = HandlerOptions { workers: 4, ..HandlerOptions::default() };
            handle.add_handler(Stuck, options).expect("it has not ended");
            tokio::spawn(informer.run(std::future::pending()));
            timeout(LONG, handle.synced().wait()).await.expect("in time").expect("it runs");
        });
        drop(runtime);
    }
    assert_eq!(cancelled.load(Ordering::Relaxed), 0);
}
