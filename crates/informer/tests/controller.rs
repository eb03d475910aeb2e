//! The loop: what handlers are told, in which order, and what comes of their errors and panics.

mod common;

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use common::{Memory, Object};
use delta_fifo::DeltaQueue;
use delta_fifo::{Backoff, Builder, KnownView};
use delta_fifo_informer::{
    Controller, Counts, Handler, Indexer, IndexerBuilder, ListWatch, Notification, Page, PageRequest,
    Reflector, ResourceVersion, RetryPolicy, SourceError, SourceQueue, WatchEvent,
};
use futures_util::Stream;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// What was told, and what the next telling of a key comes to.
#[derive(Default)]
struct Told {
    log: Mutex<Vec<String>>,
    faults: Mutex<HashMap<String, Vec<&'static str>>>,
    takes: Duration,
    at_once: Mutex<HashMap<String, usize>>,
}

#[derive(Clone, Default)]
struct Teller(Arc<Told>);

impl Handler<String, Object> for Teller {
    type Error = &'static str;

    async fn handle(&self, key: &String, notification: Notification<Object>) -> Result<(), &'static str> {
        {
            let mut at_once = self.0.at_once.lock().unwrap();
            let hands = at_once.entry(key.clone()).or_default();
            *hands += 1;
            assert_eq!(*hands, 1, "{key} in two hands");
        }
        tokio::time::sleep(self.0.takes).await;
        *self.0.at_once.lock().unwrap().get_mut(key).expect("it was put there") -= 1;
        let fault = self.0.faults.lock().unwrap().get_mut(key).and_then(Vec::pop);
        match fault {
            Some("panic") => panic!("as it was told to"),
            Some(fault) => return Err(fault),
            None => {}
        }
        self.0.log.lock().unwrap().push(match notification {
            Notification::Added { object, is_initial } => {
                format!("{key} added {}{}", object.number, if is_initial { " at first" } else { "" })
            }
            Notification::Updated { old, new } => format!("{key} {} to {}", old.number, new.number),
            Notification::Deleted { last, is_missed } => {
                format!("{key} deleted {}{}", last.number, if is_missed { ", missed" } else { "" })
            }
        });
        Ok(())
    }
}

struct Running {
    source: Memory,
    teller: Teller,
    queue: Arc<SourceQueue<Memory>>,
    counts: Arc<Counts>,
    stop: Option<oneshot::Sender<()>>,
    controller: JoinHandle<()>,
}

fn run(source: &Memory, teller: Teller, workers: usize, most: Option<u32>) -> Running {
    let backoff = Backoff::exponential(Duration::from_millis(1), Duration::from_millis(1));
    let queue: Arc<SourceQueue<Memory>> =
        Arc::new(Builder::new().backoff(backoff).timer(delta_fifo::TokioTimer::current()).build());
    let reflector = Reflector::builder(source.clone()).build(Arc::clone(&queue));
    let mut controller = Controller::new(reflector, teller.clone()).workers(workers);
    if let Some(most) = most {
        controller = controller.give_up_after(most);
    }
    let (stop, stopped) = oneshot::channel::<()>();
    let counts = controller.counts();
    let controller = tokio::spawn(async move {
        let _ = controller.run(async { _ = stopped.await }).await;
    });
    Running { source: source.clone(), teller, queue, counts, stop: Some(stop), controller }
}

impl Running {
    /// Everything that has happened so far is told.
    async fn settle(&self) {
        let start = tokio::time::Instant::now();
        loop {
            tokio::time::sleep(Duration::from_millis(20)).await;
            let known: HashMap<String, u64> =
                self.queue.known().iter().map(|known| (known.key().clone(), known.object().number)).collect();
            let there =
                self.source.objects().into_iter().map(|object| (object.name, object.number)).collect();
            if known == there && self.queue.pending_len() + self.queue.leased_len() == 0 {
                return;
            }
            assert!(start.elapsed() < Duration::from_secs(60), "{known:?} is not {there:?}");
        }
    }

    fn log(&self) -> Vec<String> {
        std::mem::take(&mut *self.teller.0.log.lock().unwrap())
    }
}

#[tokio::test]
async fn handlers_are_told_of_each_delta_once() {
    let source = Memory::default();
    source.put("a", 1);
    let running = run(&source, Teller::default(), 1, None);
    running.settle().await;
    assert_eq!(running.log(), ["a added 1 at first"]);
    source.put("a", 2);
    source.put("a", 3);
    source.delete("a");
    source.put("a", 4);
    running.settle().await;
    assert_eq!(running.log(), ["a 1 to 2", "a 2 to 3", "a deleted 3", "a added 4"]);
    source.disconnect();
    source.delete("a");
    source.compact();
    source.put("b", 5);
    running.settle().await;
    let mut log = running.log();
    log.sort_unstable();
    assert_eq!(log, ["a deleted 4, missed", "b added 5 at first"].map(|line| line.replace(" at first", "")));
}

#[tokio::test]
async fn what_fails_or_panics_comes_again() {
    let source = Memory::default();
    let teller = Teller::default();
    teller.0.faults.lock().unwrap().insert("a".to_owned(), vec!["no", "panic", "no"]);
    source.put("a", 1);
    source.put("b", 1);
    let running = run(&source, teller, 2, None);
    running.settle().await;
    let mut log = running.log();
    log.sort_unstable();
    assert_eq!(log, ["a added 1 at first", "b added 1 at first"]);
    let counts = &running.counts;
    assert_eq!((counts.handled(), counts.failed(), counts.panicked(), counts.given_up()), (2, 2, 1, 0));
}

#[tokio::test]
async fn after_too_many_failures_it_is_given_up() {
    let source = Memory::default();
    let teller = Teller::default();
    teller.0.faults.lock().unwrap().insert("a".to_owned(), vec!["no"; 100]);
    source.put("a", 1);
    let running = run(&source, teller, 1, Some(3));
    running.settle().await;
    assert_eq!((running.counts.failed(), running.counts.given_up()), (3, 1));
}

/// Looks up in an index what it is told of.
struct Lookup(std::sync::OnceLock<Arc<Indexer<String, Object>>>);

impl Handler<String, Object> for Lookup {
    type Error = String;

    async fn handle(&self, key: &String, notification: Notification<Object>) -> Result<(), String> {
        let indexes = self.0.get().expect("it was put there").snapshot();
        let parity = |object: &Object| (object.number % 2).to_string();
        let is_there = |object: &Arc<Object>| {
            let mut found = indexes.by_index("parity", &parity(object)).expect("it is there");
            found.any(|(other, found)| other == key && Arc::ptr_eq(found, object))
        };
        let is_right = match &notification {
            Notification::Added { object, .. } => is_there(object),
            Notification::Updated { old, new } => is_there(new) && !is_there(old),
            Notification::Deleted { last, .. } => !is_there(last),
        };
        if is_right { Ok(()) } else { Err(format!("{notification:?} is not what the index says")) }
    }
}

#[tokio::test]
async fn indexes_say_what_handlers_are_told() {
    let source = Memory::default();
    (0..4).for_each(|number| _ = source.put(&format!("key-{number}"), number));
    let queue: Arc<SourceQueue<Memory>> = Arc::new(Builder::new().build());
    let reflector = Reflector::builder(source.clone()).build(Arc::clone(&queue));
    let lookup = Lookup(std::sync::OnceLock::new());
    let parity = |_: &String, object: &Object| vec![(object.number % 2).to_string()];
    let controller =
        Controller::new(reflector, lookup).indexes(IndexerBuilder::default().index("parity", parity));
    let indexer = controller.indexer();
    controller.handler().0.set(Arc::clone(&indexer)).expect("once");
    let counts = controller.counts();
    let running = tokio::spawn(controller.run(std::future::pending()));
    let settle = async |handled| {
        while counts.handled() < handled {
            assert_eq!(counts.failed(), 0);
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    settle(4).await;
    source.put("key-0", 5);
    source.delete("key-3");
    settle(6).await;
    let odd = indexer.snapshot();
    let mut odd: Vec<_> = odd.index_keys("parity", "1").expect("it is there").collect();
    odd.sort_unstable();
    assert_eq!(odd, ["key-0", "key-1"]);
    running.abort();
}

#[tokio::test]
async fn a_stop_drains() {
    let source = Memory::default();
    (0..50).for_each(|number| _ = source.put(&format!("key-{number}"), number));
    let teller = Teller(Arc::new(Told { takes: Duration::from_millis(2), ..Told::default() }));
    let mut running = run(&source, teller, 4, None);
    while running.queue.leased_len() == 0 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    running.stop.take().expect("once").send(()).expect("it runs");
    tokio::time::timeout(Duration::from_secs(60), &mut running.controller)
        .await
        .expect("it ends")
        .expect("well");
    assert_eq!(running.log().len(), 50, "everything that was in the queue");
    assert!(running.queue.is_closed());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn keys_side_by_side_and_each_in_order() {
    let source = Memory::default();
    let running = run(&source, Teller::default(), 8, None);
    for number in 0..2_000 {
        source.put(&format!("key-{}", number % 7), number);
        if number % 50 == 0 {
            source.disconnect();
            tokio::task::yield_now().await;
        }
    }
    running.settle().await;
    let mut last: HashMap<String, u64> = HashMap::new();
    for line in running.log() {
        let words: Vec<&str> = line.split(' ').collect();
        let number: u64 = match words[1..] {
            ["added", number, ..] => number.parse().expect("a number"),
            [old, "to", new] => {
                assert_eq!(last.get(words[0]).copied(), old.parse().ok(), "{line}");
                new.parse().expect("a number")
            }
            _ => panic!("{line}"),
        };
        assert!(last.insert(words[0].to_owned(), number).is_none_or(|before| before < number), "{line}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_a_list_shows_once_more_is_left_out_on_request() {
    let source = Memory::default();
    (0..3).for_each(|number| _ = source.put(&format!("key-{number}"), number));
    let queue: Arc<SourceQueue<Memory>> =
        Arc::new(Builder::new().unchanged(|old: &Arc<Object>, new| old.version == new.version).build());
    let reflector = Reflector::builder(source.clone()).build(Arc::clone(&queue));
    let teller = Teller::default();
    let controller = Controller::new(reflector, teller.clone());
    let counts = controller.counts();
    let controller = tokio::spawn(async { _ = controller.run(std::future::pending()).await });
    let running = Running { source: source.clone(), teller, queue, counts, stop: None, controller };
    running.settle().await;
    assert_eq!(running.log().len(), 3);
    source.disconnect();
    source.put("key-1", 7);
    source.compact();
    running.settle().await;
    assert_eq!(running.log(), ["key-1 1 to 7"]);
    assert_eq!(source.asked().0, 2, "it was listed again");
    source.put("key-0", 8);
    running.settle().await;
    assert_eq!(running.log(), ["key-0 0 to 8"]);
    running.controller.abort();
}

/// Three writers, a consumer and a resync at work at once.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn only_legal_histories_are_seen() {
    let source = Memory::default();
    let teller = Teller::default();
    let queue: Arc<SourceQueue<Memory>> = Arc::new(Builder::new().build());
    let retry = RetryPolicy { initial: Duration::from_millis(1), ..RetryPolicy::default() };
    let reflector = Reflector::builder(source.clone())
        .resync_every(Duration::from_millis(100))
        .retry(retry)
        .build(Arc::clone(&queue));
    let controller = Controller::new(reflector, teller.clone()).workers(3);
    let counts = controller.counts();
    let (stop, stopped) = oneshot::channel::<()>();
    let controller = tokio::spawn(controller.run(async { _ = stopped.await }));
    let writers: Vec<_> = (0..3_u64)
        .map(|writer| {
            let source = source.clone();
            tokio::spawn(async move {
                // A generator of Lehmer's: other numbers for each writer, the same every time.
                let mut random = writer * 2 + 1;
                for round in 0..1_500 {
                    random = random.wrapping_mul(0xda94_2042_e4dd_58b5) ^ round;
                    let key = format!("{writer}/{}", (random >> 33) % 6);
                    match (random >> 40) % 10 {
                        0..=2 => _ = source.delete(&key),
                        3 if round % 100 == 3 => source.disconnect(),
                        4 if round % 200 == 4 => {
                            source.compact();
                            source.disconnect();
                        }
                        _ => _ = source.put(&key, round),
                    }
                    if round % 20 == 0 {
                        tokio::time::sleep(Duration::from_millis(5)).await;
                    }
                }
            })
        })
        .collect();
    for writer in writers {
        writer.await.expect("it ends");
    }
    let running = Running {
        source: source.clone(),
        teller,
        queue,
        counts,
        stop: None,
        controller: tokio::spawn(async {}),
    };
    running.settle().await;
    // All is at rest: what comes now comes by a resync.
    let before = running.counts.handled();
    while running.counts.handled() < before + running.source.objects().len() as u64 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    stop.send(()).expect("it runs");
    controller.await.expect("it ends").expect("by the stop");
    let mut there: HashMap<String, u64> = HashMap::new();
    let mut resyncs = 0;
    for line in running.log() {
        let words: Vec<&str> = line.split([' ', ',']).collect();
        let number = |text: &str| text.parse::<u64>().expect("a number");
        let (key, known) = (words[0].to_owned(), there.remove(words[0]));
        match words[1..] {
            ["added", new, ..] => {
                assert_eq!(known, None, "{line}");
                there.insert(key, number(new));
            }
            ["deleted", ..] => assert!(known.is_some(), "{line}"),
            [old, "to", new] => {
                assert_eq!(known, Some(number(old)), "{line}");
                resyncs += usize::from(old == new);
                there.insert(key, number(new));
            }
            _ => panic!("{line}"),
        }
    }
    let left = source.objects().into_iter().map(|object| (object.name, object.number)).collect();
    assert_eq!(there, left);
    assert!(resyncs > 0, "no resync came");
}

/// Objects that are counted while they live, and are made when they are listed.
#[derive(Clone, Default)]
struct Counting(Arc<Lives>);

#[derive(Default)]
struct Lives {
    now: AtomicUsize,
    most: AtomicUsize,
    lists: AtomicUsize,
    relist: tokio::sync::Notify,
}

struct Live(Arc<Lives>);

impl Live {
    fn new(lives: &Arc<Lives>) -> Self {
        let now = lives.now.fetch_add(1, Ordering::Relaxed) + 1;
        lives.most.fetch_max(now, Ordering::Relaxed);
        Live(Arc::clone(lives))
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        self.0.now.fetch_sub(1, Ordering::Relaxed);
    }
}

const OBJECTS: usize = 10_000;

impl ListWatch for Counting {
    type Key = usize;
    type Object = Live;
    type Watch = std::pin::Pin<Box<dyn Stream<Item = Result<WatchEvent<usize, Live>, SourceError>> + Send>>;

    async fn list(&self, request: PageRequest) -> Result<Page<usize, Live>, SourceError> {
        tokio::time::sleep(Duration::from_micros(10)).await;
        let from = request.token.map_or(0, |token| token.parse().expect("its own"));
        let to = OBJECTS.min(from + request.limit.expect("a page"));
        let items = (from..to).map(|key| (key, Live::new(&self.0))).collect();
        let next = (to < OBJECTS).then(|| to.to_string());
        self.0.lists.fetch_add(usize::from(next.is_none()), Ordering::Relaxed);
        Ok(Page { items, next, version: "1".into() })
    }

    async fn watch(&self, _: ResourceVersion) -> Result<Self::Watch, SourceError> {
        let lives = Arc::clone(&self.0);
        let gone = || Err(SourceError::Gone("as it was told to".into()));
        Ok(Box::pin(futures_util::stream::once(async move {
            lives.relist.notified().await;
            gone()
        })))
    }
}

#[derive(Clone, Copy)]
struct Idle;

impl Handler<usize, Live> for Idle {
    type Error = &'static str;

    async fn handle(&self, _: &usize, _: Notification<Live>) -> Result<(), &'static str> {
        Ok(())
    }
}

#[tokio::test(start_paused = true)]
async fn a_relist_holds_no_second_copy() {
    let source = Counting::default();
    let queue: Arc<SourceQueue<Counting>> = Arc::new(Builder::new().build());
    let retry = RetryPolicy { initial: Duration::from_millis(1), ..RetryPolicy::default() };
    let reflector = Reflector::builder(source.clone()).page_size(100).retry(retry).build(Arc::clone(&queue));
    let controller = tokio::spawn(Controller::new(reflector, Idle).run(std::future::pending()));
    let lives = &source.0;
    let listed = async |lists| {
        while lives.lists.load(Ordering::Relaxed) < lists || queue.pending_len() + queue.leased_len() > 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    listed(1).await;
    let most = lives.most.load(Ordering::Relaxed);
    assert!((OBJECTS..OBJECTS + 500).contains(&most), "{most} at once");
    for relist in 2..5 {
        lives.relist.notify_one();
        listed(relist).await;
    }
    let most = lives.most.load(Ordering::Relaxed);
    assert!((OBJECTS..OBJECTS + 1_500).contains(&most), "{most} at once");
    controller.abort();
}
