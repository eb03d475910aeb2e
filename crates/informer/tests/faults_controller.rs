//! Handlers that misbehave, and what a controller makes of them.

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use common::scripted::{Event, Scripted, events, object};
use common::{Memory, Object};
use delta_fifo::{Backoff, Builder, DeltaQueue, TokioTimer};
use delta_fifo_informer::{
    Controller, Handler, IndexerBuilder, Notification, Reflector, ReflectorError, SourceQueue,
};
use tokio::time::{sleep, timeout};

/// Much more than anything takes.
const LONG: Duration = Duration::from_secs(600);

fn reflector<L: delta_fifo_informer::ListWatch>(source: L, backoff: u64) -> Reflector<L> {
    let backoff = Backoff::exponential(Duration::from_secs(backoff), Duration::from_secs(backoff));
    let queue: Arc<SourceQueue<L>> =
        Arc::new(Builder::new().backoff(backoff).timer(TokioTimer::current()).build());
    Reflector::builder(source).build(queue)
}

/// Panics at its first call, before there is a future.
#[derive(Default)]
struct Eager(AtomicUsize);

impl Handler<String, Object> for Eager {
    type Error = &'static str;

    fn handle(
        &self,
        _: &String,
        _: Notification<Object>,
    ) -> impl Future<Output = Result<(), &'static str>> + Send {
        assert!(self.0.fetch_add(1, Ordering::Relaxed) > 0, "as it was told to");
        std::future::ready(Ok(()))
    }
}

#[tokio::test(start_paused = true)]
async fn a_panic_before_there_is_a_future_is_contained_too() {
    let source = Memory::default();
    source.put("a", 1);
    source.put("b", 1);
    let controller = Controller::new(reflector(source, 1), Eager::default());
    let counts = controller.counts();
    let running = tokio::spawn(controller.run(std::future::pending()));
    sleep(Duration::from_secs(5)).await;
    assert_eq!((counts.panicked(), counts.handled()), (1, 2));
    running.abort();
}

/// So often it fails.
#[derive(Default)]
struct Failing(AtomicUsize);

impl Handler<String, Object> for Failing {
    type Error = &'static str;

    async fn handle(&self, _: &String, _: Notification<Object>) -> Result<(), &'static str> {
        let left = |left: usize| left.checked_sub(1);
        let failed = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, left);
        if failed.is_ok() { Err("as it was told to") } else { Ok(()) }
    }
}

/// What was told in vain stood in the index already.
#[tokio::test(start_paused = true)]
async fn an_index_forgets_what_was_told_in_vain() {
    let source = Memory::default();
    let handler = Failing(AtomicUsize::new(2));
    let number = |_: &String, object: &Object| vec![object.number.to_string()];
    let controller = Controller::new(reflector(source.clone(), 10), handler)
        .indexes(IndexerBuilder::default().index("number", number));
    let indexer = controller.indexer();
    let counts = controller.counts();
    let running = tokio::spawn(controller.run(std::future::pending()));
    let values = || {
        let indexes = indexer.snapshot();
        let mut values: Vec<_> =
            indexes.list_index_values("number").expect("it is there").map(str::to_owned).collect();
        values.sort_unstable();
        values
    };
    for number in 1..4 {
        source.put("a", number);
        sleep(Duration::from_secs(1)).await;
        assert_eq!(values(), [number.to_string()]);
    }
    assert_eq!((counts.failed(), counts.handled()), (2, 3));
    source.delete("a");
    sleep(Duration::from_secs(1)).await;
    assert!(values().is_empty(), "{:?}", values());
    running.abort();
}

/// The source has nothing to say, so the reflector does not notice.
#[tokio::test(start_paused = true)]
async fn a_closed_queue_ends_it_even_if_nothing_happens() {
    let source = Scripted {
        watch: |_| Ok(events([Event::Added("a".into(), object("a", 1), "2".into())])),
        ..Scripted::default()
    };
    let controller = Controller::new(reflector(source, 1), Failing::default());
    let (queue, counts) = (Arc::clone(controller.queue()), controller.counts());
    let running = tokio::spawn(controller.run(std::future::pending()));
    sleep(Duration::from_secs(1)).await;
    assert_eq!(counts.handled(), 1);
    queue.close();
    let ended = timeout(LONG, running).await.expect("it ends").expect("well");
    assert!(matches!(ended, Err(ReflectorError::Closed)), "{ended:?}");
}

/// The key stays in the queue.
#[tokio::test(start_paused = true)]
async fn who_does_not_wait_for_a_handler_that_always_fails_drops_the_run() {
    let source = Memory::default();
    source.put("a", 1);
    let controller = Controller::new(reflector(source.clone(), 10), Failing(AtomicUsize::new(usize::MAX)));
    let queue = Arc::clone(controller.queue());
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let mut running = tokio::spawn(controller.run(async { _ = stopped.await }));
    sleep(Duration::from_secs(1)).await;
    drop(stop);
    assert!(timeout(Duration::from_secs(60), &mut running).await.is_err(), "it goes on failing");
    running.abort();
    assert!(running.await.is_err_and(|error| error.is_cancelled()));
    assert_eq!(queue.pending_len(), 1);
}
