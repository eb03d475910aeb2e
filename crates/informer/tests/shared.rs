//! One source, many handlers: who is told what, and when.

mod common;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use common::{Memory, Object};
use delta_fifo::{Builder, KnownView};
use delta_fifo_informer::{
    EventHandler, HandlerOptions, IndexerBuilder, InformerEnded, InformerHandle, NAMESPACE, NeverSynced,
    Notification, Reflector, ReflectorError, Registration, RetryPolicy, SharedInformer, SourceQueue, Synced,
};
use futures_util::StreamExt;
use tokio::sync::{Semaphore, oneshot};
use tokio::task::JoinHandle;
use tokio::time::timeout;

/// Much more than anything takes.
const LONG: Duration = Duration::from_secs(600);

/// Writes down what it is told, in its own words. Each turn takes a permit.
#[derive(Clone)]
struct Scribe(Arc<Desk>);

struct Desk {
    log: Mutex<Vec<String>>,
    permits: Semaphore,
    at_once: Mutex<BTreeMap<String, usize>>,
    panics_at: u64,
}

impl Scribe {
    fn new(permits: usize) -> Self {
        let permits = Semaphore::new(permits);
        Scribe(Arc::new(Desk {
            log: Mutex::default(),
            permits,
            at_once: Mutex::default(),
            panics_at: u64::MAX,
        }))
    }

    fn free() -> Self {
        Scribe::new(Semaphore::MAX_PERMITS)
    }

    fn panicking_at(number: u64) -> Self {
        let mut desk = Arc::into_inner(Scribe::free().0).expect("just made");
        desk.panics_at = number;
        Scribe(Arc::new(desk))
    }

    async fn write(&self, key: &str, object: &Object, line: String) {
        *self.0.at_once.lock().unwrap().entry(key.to_owned()).or_default() += 1;
        self.0.permits.acquire().await.expect("it stays open").forget();
        tokio::task::yield_now().await;
        let mut at_once = self.0.at_once.lock().unwrap();
        let hands = at_once.remove(key).expect("it was put there");
        drop(at_once);
        assert_eq!(hands, 1, "{key} is told by two");
        assert!(object.number != self.0.panics_at, "as it was told to");
        self.0.log.lock().unwrap().push(line);
    }

    fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.0.log.lock().unwrap())
    }

    /// In the order of keys.
    fn take_sorted(&self) -> Vec<String> {
        let mut log = self.take();
        log.sort();
        log
    }
}

impl EventHandler<String, Object> for Scribe {
    async fn on_add(&self, key: &String, object: Arc<Object>, is_initial: bool) {
        let initial = if is_initial { " at first" } else { "" };
        self.write(key, &object, format!("{key} added {}{initial}", object.number)).await;
    }

    async fn on_update(&self, key: &String, old: Arc<Object>, new: Arc<Object>) {
        self.write(key, &new, format!("{key} {} to {}", old.number, new.number)).await;
    }

    async fn on_delete(&self, key: &String, last: Arc<Object>, is_missed: bool) {
        let missed = if is_missed { ", missed" } else { "" };
        self.write(key, &last, format!("{key} deleted {}{missed}", last.number)).await;
    }
}

struct Running {
    source: Memory,
    handle: InformerHandle<Memory>,
    stop: oneshot::Sender<()>,
    informer: JoinHandle<Result<(), ReflectorError>>,
}

fn informer(source: &Memory) -> SharedInformer<Memory> {
    let queue: Arc<SourceQueue<Memory>> = Arc::new(Builder::new().build());
    let retry = RetryPolicy { initial: Duration::from_millis(1), ..RetryPolicy::default() };
    let reflector = Reflector::builder(source.clone()).page_size(3).retry(retry).build(queue);
    SharedInformer::new(reflector, IndexerBuilder::default().by_namespace())
}

fn start(source: &Memory, informer: SharedInformer<Memory>) -> Running {
    let (handle, (stop, stopped)) = (informer.handle(), oneshot::channel::<()>());
    let informer = tokio::spawn(informer.run(async { _ = stopped.await }));
    Running { source: source.clone(), handle, stop, informer }
}

impl Running {
    fn new(source: &Memory) -> Self {
        start(source, informer(source))
    }

    fn add(&self, scribe: &Scribe) -> Registration<Memory> {
        self.add_with(scribe, HandlerOptions::default())
    }

    fn add_with(&self, scribe: &Scribe, options: HandlerOptions) -> Registration<Memory> {
        self.handle.add_handler(scribe.clone(), options).expect("it runs")
    }

    /// What happened at the source until now is in the handlers' queues.
    async fn distributed(&self) {
        let version = self.source.bookmark().to_string().into();
        let processed = self.handle.progress();
        timeout(LONG, { processed }.wait_processed(&version)).await.expect("in time").expect("it goes on");
    }

    async fn told(&self, registrations: &[&Registration<Memory>]) {
        self.distributed().await;
        for registration in registrations {
            timeout(LONG, registration.caught_up()).await.expect("in time");
        }
    }

    async fn stop(self) {
        self.stop.send(()).expect("it runs");
        timeout(LONG, self.informer).await.expect("it ends").expect("well").expect("and by the stop");
    }
}

fn with_objects(count: u64) -> Memory {
    let source = Memory::default();
    (0..count).for_each(|number| _ = source.put(&format!("key-{number}"), number));
    source
}

#[tokio::test(start_paused = true)]
async fn all_handlers_are_told_of_everything() {
    let source = with_objects(1);
    let informer = informer(&source);
    let (before, after) = (Scribe::free(), Scribe::free());
    let first =
        informer.handle().add_handler(before.clone(), HandlerOptions::default()).expect("it has not ended");
    let running = start(&source, informer);
    running.told(&[&first]).await;
    assert_eq!(before.take(), ["key-0 added 0 at first"]);
    source.put("key-0", 5);
    source.put("other", 1);
    let second = running.add(&after);
    running.told(&[&first, &second]).await;
    assert_eq!(before.take_sorted(), ["key-0 0 to 5", "other added 1"]);
    // It may have joined before or after the source was heard of these.
    let joined = after.take_sorted().join("; ");
    assert!(joined.contains("key-0") && joined.contains("other added 1"), "{joined}");
    source.delete("other");
    running.told(&[&first, &second]).await;
    source.disconnect();
    source.delete("key-0");
    source.compact();
    running.told(&[&first, &second]).await;
    for scribe in [&before, &after] {
        assert_eq!(scribe.take_sorted(), ["key-0 deleted 5, missed", "other deleted 1"]);
    }
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn who_joins_late_is_told_of_what_is_known_first() {
    let source = with_objects(5);
    let running = Running::new(&source);
    running.distributed().await;
    source.delete("key-3");
    source.put("key-1", 9);
    running.distributed().await;
    let late = Scribe::free();
    let registration = running.add(&late);
    timeout(LONG, registration.synced().wait()).await.expect("in time").expect("it runs");
    let at_first = ["key-0 added 0", "key-1 added 9", "key-2 added 2", "key-4 added 4"];
    assert_eq!(late.take_sorted(), at_first.map(|line| format!("{line} at first")));
    source.put("key-1", 10);
    running.told(&[&registration]).await;
    assert_eq!(late.take(), ["key-1 9 to 10"]);
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn the_slowest_handler_delays_nobody() {
    let source = with_objects(3);
    let running = Running::new(&source);
    let (stuck, free) = (Scribe::new(1), Scribe::free());
    let (slow, fast) = (running.add(&stuck), running.add(&free));
    running.told(&[&fast]).await;
    for number in 0..500 {
        source.put("key-0", number);
    }
    running.told(&[&fast]).await;
    assert_eq!(free.take().len(), 503);
    assert_eq!(stuck.take().len(), 1);
    assert!(fast.synced().has_synced() && !slow.synced().has_synced());
    assert_eq!(running.handle.store().find("key-0").expect("it is known").object().number, 499);
    stuck.0.permits.add_permits(1_000);
    running.told(&[&slow]).await;
    assert_eq!(stuck.take().len(), 502, "nothing is lost to the slow one");
    assert!(slow.synced().has_synced());
    running.stop().await;
}

/// A subscriber of kube-runtime's stands still if an object goes while it waits to be told of it.
#[tokio::test(start_paused = true)]
async fn a_deletion_of_what_waits_stalls_nobody() {
    let source = with_objects(4);
    let running = Running::new(&source);
    let scribe = Scribe::new(1);
    let registration = running.add(&scribe);
    let mut stream = running.handle.subscribe(None).expect("it runs");
    running.distributed().await;
    (0..4).for_each(|number| _ = source.delete(&format!("key-{number}")));
    running.distributed().await;
    source.put("key-9", 9);
    running.distributed().await;
    scribe.0.permits.add_permits(1_000);
    timeout(LONG, registration.caught_up()).await.expect("in time");
    let mut there = BTreeMap::new();
    scribe.take().iter().for_each(|line| play(&mut there, line));
    assert_eq!(there.into_iter().collect::<Vec<_>>(), [("key-9".to_owned(), 9)]);
    let mut read = BTreeMap::new();
    while !read.contains_key("key-9") {
        let (key, notification) = timeout(LONG, stream.next()).await.expect("in time").expect("it runs");
        match notification {
            Notification::Deleted { .. } => assert!(read.remove(&key).is_some(), "{key}"),
            Notification::Added { object, .. } | Notification::Updated { new: object, .. } => {
                _ = read.insert(key, object.number);
            }
        }
    }
    assert_eq!(read.len(), 1);
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn each_handler_is_resynced_as_often_as_it_wants() {
    let source = with_objects(2);
    let running = Running::new(&source);
    let scribes = [Scribe::free(), Scribe::free(), Scribe::free(), Scribe::new(2)];
    let periods = [None, Some(30), Some(100), Some(10)];
    let all: Vec<_> = scribes
        .iter()
        .zip(periods)
        .map(|(scribe, period)| {
            let resync_every = period.map(Duration::from_secs);
            running.add_with(scribe, HandlerOptions { resync_every, ..HandlerOptions::default() })
        })
        .collect();
    running.told(&[&all[0], &all[1], &all[2], &all[3]]).await;
    scribes.iter().for_each(|scribe| assert_eq!(scribe.take().len(), 2));
    tokio::time::sleep(Duration::from_secs(215)).await;
    running.told(&[&all[0], &all[1], &all[2]]).await;
    let [never, often, seldom, stuck] = scribes.each_ref().map(Scribe::take_sorted);
    assert_eq!(never, [""; 0]);
    assert_eq!(often, [["key-0 0 to 0"; 7], ["key-1 1 to 1"; 7]].concat());
    assert_eq!(seldom, [["key-0 0 to 0"; 2], ["key-1 1 to 1"; 2]].concat());
    assert_eq!(stuck, [""; 0]);
    scribes[3].0.permits.add_permits(1_000);
    all[3].caught_up().await;
    assert_eq!(scribes[3].take_sorted(), ["key-0 0 to 0", "key-1 1 to 1"], "once, however long it took");
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_handler_has_synced_when_it_was_told_of_the_whole_list() {
    let sources = [with_objects(3), with_objects(0)];
    let running = sources.each_ref().map(Running::new);
    let scribe = Scribe::new(2);
    let first = running[0].add(&scribe);
    let second = running[1].add(&Scribe::free());
    let all = [running[0].handle.synced(), running[1].handle.synced(), second.synced()];
    timeout(LONG, Synced::wait_all(all)).await.expect("in time").expect("they run");
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(scribe.take().len(), 2);
    assert!(!first.synced().has_synced(), "the third is not told");
    scribe.0.permits.add_permits(1);
    timeout(LONG, first.synced().wait()).await.expect("in time").expect("it runs");
    assert_eq!(scribe.take().len(), 1);
    for running in running {
        running.stop().await;
    }
    assert!(first.synced().has_synced(), "it stays so");
}

#[tokio::test(start_paused = true)]
async fn who_is_removed_or_never_started_never_syncs() {
    let source = with_objects(3);
    let informer = informer(&source);
    let idle =
        informer.handle().add_handler(Scribe::free(), HandlerOptions::default()).expect("it has not ended");
    let unheard = Scribe::free();
    let early = informer.handle().add_handler(unheard.clone(), HandlerOptions::default()).expect("as above");
    timeout(LONG, early.remove_and_wait()).await.expect("nobody is told anything before the start");
    let handle = informer.handle();
    drop(informer);
    assert_eq!(timeout(LONG, idle.synced().wait()).await.expect("in time"), Err(NeverSynced));
    assert_eq!(timeout(LONG, handle.synced().wait()).await.expect("in time"), Err(NeverSynced));
    assert_eq!(handle.add_handler(Scribe::free(), HandlerOptions::default()).err(), Some(InformerEnded));

    let running = Running::new(&source);
    let scribe = Scribe::new(1);
    let removed = running.add(&scribe);
    running.distributed().await;
    removed.remove();
    assert_eq!(timeout(LONG, removed.synced().wait()).await.expect("in time"), Err(NeverSynced));
    running.stop().await;
    assert_eq!(unheard.take(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn removal_waits_if_asked_to() {
    let source = with_objects(4);
    let running = Running::new(&source);
    let (scribe, other) = (Scribe::new(2), Scribe::free());
    let (removed, stays) = (running.add(&scribe), running.add(&other));
    while scribe.0.log.lock().unwrap().len() < 2 || scribe.0.at_once.lock().unwrap().is_empty() {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let waiting = removed.remove_and_wait();
    tokio::pin!(waiting);
    assert!(timeout(Duration::from_secs(5), &mut waiting).await.is_err(), "it is at work");
    scribe.0.permits.add_permits(10);
    timeout(LONG, waiting).await.expect("in time");
    let told = scribe.take();
    assert_eq!(told.len(), 3, "what it was at, and no more");
    source.put("key-0", 7);
    running.told(&[&stays]).await;
    assert_eq!((scribe.take().len(), other.take().len()), (0, 5));
    assert_eq!(Arc::strong_count(&scribe.0), 1, "the handler is gone");
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn panics_are_contained_and_counted() {
    let source = with_objects(2);
    let running = Running::new(&source);
    let scribe = Scribe::panicking_at(1);
    let registration = running.add(&scribe);
    running.told(&[&registration]).await;
    assert_eq!(scribe.take(), ["key-0 added 0 at first"]);
    source.put("key-1", 2);
    source.put("key-0", 1);
    source.put("key-0", 3);
    running.told(&[&registration]).await;
    assert_eq!(scribe.take_sorted(), ["key-0 1 to 3", "key-1 1 to 2"]);
    let late = running.add(&Scribe::panicking_at(2));
    timeout(LONG, late.synced().wait()).await.expect("in time").expect("it runs");
    assert_eq!((late.counts().handled(), late.counts().panicked()), (1, 1));
    assert_eq!((registration.counts().handled(), registration.counts().panicked()), (3, 2));
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_stop_tells_what_has_arrived() {
    let source = with_objects(50);
    let running = Running::new(&source);
    let (slow, fast) = (Scribe::new(1), Scribe::free());
    let registrations = [
        running.add(&slow),
        running.add_with(&fast, HandlerOptions { workers: 4, ..HandlerOptions::default() }),
    ];
    running.told(&[&registrations[1]]).await;
    slow.0.permits.add_permits(1_000);
    running.stop().await;
    assert_eq!((slow.take().len(), fast.take().len()), (50, 50));
    assert_eq!(registrations[0].pending_len(), 0);
}

#[tokio::test(start_paused = true)]
async fn dropped_it_ends_everything() {
    let source = with_objects(2);
    let running = Running::new(&source);
    let scribe = Scribe::free();
    let registration = running.add(&scribe);
    running.told(&[&registration]).await;
    running.informer.abort();
    assert!(running.informer.await.expect_err("it is aborted").is_cancelled());
    timeout(LONG, registration.remove_and_wait()).await.expect("its task ends");
    assert_eq!(Arc::strong_count(&scribe.0), 1, "the handler is gone");
}

#[tokio::test(start_paused = true)]
async fn a_closed_queue_ends_it() {
    let source = with_objects(2);
    let queue: Arc<SourceQueue<Memory>> = Arc::new(Builder::new().build());
    let reflector = Reflector::builder(source.clone()).build(Arc::clone(&queue));
    let running = start(&source, SharedInformer::new(reflector, IndexerBuilder::default()));
    let scribe = Scribe::free();
    let registration = running.add(&scribe);
    running.told(&[&registration]).await;
    delta_fifo::DeltaQueue::close(&*queue);
    let ended = timeout(LONG, running.informer).await.expect("in time").expect("well");
    assert!(matches!(ended, Err(ReflectorError::Closed)), "{ended:?}");
    assert_eq!(scribe.take().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn indexes_and_store_are_there_when_handlers_are_told() {
    let source = Memory::default();
    source.put("prod/a", 1);
    source.put("prod/b", 1);
    source.put("test/a", 1);
    let running = Running::new(&source);
    let registration = running.add(&Scribe::free());
    running.told(&[&registration]).await;
    source.delete("prod/a");
    running.told(&[&registration]).await;
    let indexes = running.handle.indexes();
    let mut namespaces: Vec<_> = indexes.list_index_values(NAMESPACE).expect("it is there").collect();
    namespaces.sort_unstable();
    assert_eq!(namespaces, ["prod", "test"]);
    assert_eq!(indexes.index_keys(NAMESPACE, "prod").expect("it is there").collect::<Vec<_>>(), ["prod/b"]);
    let store = running.handle.store();
    assert_eq!(store.iter().count(), 2);
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_stream_is_told_the_same() {
    let source = with_objects(2);
    let running = Running::new(&source);
    running.distributed().await;
    let mut stream = running.handle.subscribe(None).expect("it runs");
    let dropped = running.handle.subscribe(Duration::from_secs(1)).expect("it runs");
    let mut next = async || timeout(LONG, stream.next()).await.expect("in time");
    let (mut first, mut second) = (next().await.expect("known"), next().await.expect("known"));
    if first.0 > second.0 {
        std::mem::swap(&mut first, &mut second);
    }
    for ((key, notification), number) in [first, second].into_iter().zip(0..) {
        assert_eq!(key, format!("key-{number}"));
        assert!(
            matches!(&notification, Notification::Added { object, is_initial: true } if object.number == number),
            "{notification:?}"
        );
    }
    source.put("key-0", 7);
    source.delete("key-0");
    let (_, updated) = next().await.expect("it happened");
    assert!(
        matches!(&updated, Notification::Updated { old, new } if (old.number, new.number) == (0, 7)),
        "{updated:?}"
    );
    let (_, deleted) = next().await.expect("it happened");
    assert!(
        matches!(&deleted, Notification::Deleted { last, is_missed: false } if last.number == 7),
        "{deleted:?}"
    );
    drop(dropped);
    source.put("last", 1);
    running.distributed().await;
    running.stop().await;
    assert_eq!(stream.next().await.map(|(key, _)| key).as_deref(), Some("last"), "what has arrived is read");
    assert!(stream.synced().has_synced());
    assert!(stream.next().await.is_none());
}

/// What a handler that has seen this much holds to be there; each line must fit to it.
fn play(there: &mut BTreeMap<String, u64>, line: &str) {
    let words: Vec<&str> = line.split([' ', ',']).collect();
    let number = |text: &str| text.parse::<u64>().expect("a number");
    match words[1..] {
        ["added", new, ..] => {
            assert_eq!(there.insert(words[0].to_owned(), number(new)), None, "{line}");
        }
        ["deleted", ..] => assert!(there.remove(words[0]).is_some(), "{line}"),
        [old, "to", new] => {
            assert_eq!(there.insert(words[0].to_owned(), number(new)), Some(number(old)), "{line}");
        }
        _ => panic!("{line}"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn whenever_they_join_all_see_a_legal_history() {
    let rounds = std::env::var("DELTA_FIFO_ROUNDS").map_or(20, |rounds| rounds.parse().expect("a number"));
    for round in 0..rounds {
        let source = with_objects(20);
        let running = Running::new(&source);
        let churn = tokio::spawn({
            let source = source.clone();
            async move {
                for number in 100..600 {
                    let key = format!("key-{}", (number * 7 + round) % 25);
                    if number % 5 == 0 {
                        source.delete(&key);
                    } else {
                        source.put(&key, number);
                    }
                    match number % 100 {
                        30 => source.disconnect(),
                        60 => {
                            source.disconnect();
                            source.compact();
                        }
                        _ if number % 3 == 0 => tokio::task::yield_now().await,
                        _ => {}
                    }
                }
            }
        });
        let mut all = Vec::new();
        for number in 0..6 {
            let scribe = Scribe::free();
            let options = HandlerOptions { workers: 1 + number % 3, ..HandlerOptions::default() };
            all.push((running.add_with(&scribe, options), scribe));
            tokio::time::sleep(Duration::from_micros(300)).await;
        }
        churn.await.expect("it ends");
        running.distributed().await;
        let expected: BTreeMap<_, _> =
            source.objects().into_iter().map(|object| (object.name, object.number)).collect();
        for (registration, scribe) in &all {
            timeout(LONG, registration.caught_up()).await.expect("in time");
            let mut there = BTreeMap::new();
            scribe.take().iter().for_each(|line| play(&mut there, line));
            assert_eq!(there, expected);
            assert_eq!(registration.counts().panicked(), 0);
            timeout(LONG, registration.synced().wait()).await.expect("in time").expect("it runs");
        }
        running.stop().await;
    }
}
