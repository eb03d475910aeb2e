//! What a recorder of metrics is told.

mod common;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use common::{Memory, Object};
use delta_fifo::{Backoff, Builder, TokioTimer, WorkQueue};
use delta_fifo_informer::{
    Controller, EventHandler, Handler, HandlerOptions, IndexerBuilder, NamedWorkQueue, Notification,
    Reflector, SharedInformer, SourceQueue,
};
use metrics_util::debugging::{DebugValue, DebuggingRecorder, Snapshotter};
use tokio::time::sleep;

/// Takes two seconds for each, and fails with the number 7 the first time.
#[derive(Default)]
struct Slow {
    has_failed: std::sync::atomic::AtomicBool,
}

impl Handler<String, Object> for Slow {
    type Error = &'static str;

    async fn handle(&self, _: &String, notification: Notification<Object>) -> Result<(), &'static str> {
        sleep(Duration::from_secs(2)).await;
        let is_seven = notification.object().number == 7;
        let fails = is_seven && !self.has_failed.swap(true, std::sync::atomic::Ordering::Relaxed);
        if fails { Err("as it was told to") } else { Ok(()) }
    }
}

impl EventHandler<String, Object> for Slow {
    async fn on_add(&self, _: &String, _: Arc<Object>, _: bool) {
        sleep(Duration::from_secs(2)).await;
    }
}

/// All values by `metric name`: counters and gauges as they are, of histograms the number of values and their sum.
fn values(snapshotter: &Snapshotter) -> BTreeMap<String, (f64, f64)> {
    let all = snapshotter.snapshot().into_vec().into_iter();
    all.map(|(key, _, _, value)| {
        let key = key.key();
        let name = key.labels().find(|label| label.key() == "name").expect("each has a name").value();
        let value = match value {
            DebugValue::Counter(count) => (count as f64, 0.0),
            DebugValue::Gauge(value) => (value.0, 0.0),
            DebugValue::Histogram(values) => (values.len() as f64, values.iter().map(|value| value.0).sum()),
        };
        (format!("{} {name}", key.name()), value)
    })
    .collect()
}

fn source() -> (Memory, Reflector<Memory>) {
    let source = Memory::default();
    (0..3).for_each(|number| _ = source.put(&format!("key-{number}"), number));
    let backoff = Backoff::exponential(Duration::from_secs(1), Duration::from_secs(1));
    let queue: Arc<SourceQueue<Memory>> =
        Arc::new(Builder::new().backoff(backoff).timer(TokioTimer::current()).measure().build());
    let reflector = Reflector::builder(source.clone()).name("pods").build(queue);
    (source, reflector)
}

#[tokio::test(start_paused = true)]
async fn a_controller_measures_under_the_names_of_client_go() {
    let recorder = DebuggingRecorder::new();
    let snapshotter = recorder.snapshotter();
    let _guard = metrics::set_default_local_recorder(&recorder);
    let (source, reflector) = source();
    let controller = tokio::spawn(Controller::new(reflector, Slow::default()).run(std::future::pending()));
    sleep(Duration::from_millis(3_700)).await;
    let at_work = values(&snapshotter);
    for (name, value) in [
        ("workqueue_adds_total pods", 3.0),
        ("workqueue_depth pods", 1.0),
        ("reflector_lists_total pods", 1.0),
        ("reflector_watches_total pods", 1.0),
        ("reflector_last_resource_version pods", 3.0),
    ] {
        assert_eq!(at_work.get(name).map(|value| value.0), Some(value), "{name} in {at_work:?}");
    }
    // The second key has been worked on since two seconds after the start.
    for name in ["workqueue_unfinished_work_seconds pods", "workqueue_longest_running_processor_seconds pods"]
    {
        assert!((1.4..1.6).contains(&at_work[name].0), "{name} in {at_work:?}");
    }
    assert_eq!(at_work["reflector_items_per_list pods"], (1.0, 3.0));

    source.put("key-0", 7);
    sleep(Duration::from_secs(20)).await;
    source.disconnect();
    sleep(Duration::from_secs(3)).await;
    let later = values(&snapshotter);
    // Since the first: a snapshot begins counters and histograms anew.
    assert_eq!(later["workqueue_work_duration_seconds pods"].0, 4.0, "{later:?}");
    assert!((7.9..8.1).contains(&later["workqueue_work_duration_seconds pods"].1), "{later:?}");
    assert_eq!(later["workqueue_retries_total pods"].0, 1.0);
    // Of those that were taken since the first look: four seconds, two and what was left of the key before, and none after the back-off.
    let waited = later["workqueue_queue_duration_seconds pods"];
    assert!(waited.0 == 3.0 && (6.25..6.35).contains(&waited.1), "{later:?}");
    assert_eq!(later["workqueue_depth pods"].0, 0.0);
    assert_eq!(later["workqueue_unfinished_work_seconds pods"].0, 0.0);
    assert_eq!(later["reflector_watches_total pods"].0, 1.0);
    assert_eq!(later["reflector_items_per_watch pods"], (1.0, 1.0));
    assert!((23.0..24.0).contains(&later["reflector_watch_duration_seconds pods"].1), "{later:?}");
    controller.abort();
}

#[tokio::test(start_paused = true)]
async fn each_handler_of_an_informer_has_its_own() {
    let recorder = DebuggingRecorder::new();
    let snapshotter = recorder.snapshotter();
    let _guard = metrics::set_default_local_recorder(&recorder);
    let (source, reflector) = source();
    let informer = SharedInformer::new(reflector, IndexerBuilder::default());
    let options = HandlerOptions { name: Some("mirror".to_owned()), ..HandlerOptions::default() };
    let mirror = informer.handle().add_handler(Slow::default(), options).expect("it has not ended");
    informer.handle().add_handler(Slow::default(), HandlerOptions::default()).expect("it has not ended");
    let informer = tokio::spawn(informer.run(std::future::pending()));
    sleep(Duration::from_millis(2_700)).await;
    let at_work = values(&snapshotter);
    assert_eq!(at_work["workqueue_depth pods/mirror"].0, 1.0, "{at_work:?}");
    assert_eq!(at_work["workqueue_depth pods/1"].0, 1.0, "{at_work:?}");
    mirror.caught_up().await;
    source.put("key-1", 5);
    sleep(Duration::from_secs(1)).await;
    let later = values(&snapshotter);
    assert_eq!(later["workqueue_adds_total pods/mirror"].0, 1.0, "{later:?}");
    assert_eq!(later["workqueue_work_duration_seconds pods/mirror"].0, 3.0, "{later:?}");
    assert_eq!(later["workqueue_queue_duration_seconds pods/mirror"].0, 2.0, "{later:?}");
    informer.abort();
}

#[tokio::test(start_paused = true)]
async fn a_work_queue_has_a_name() {
    let recorder = DebuggingRecorder::new();
    let snapshotter = recorder.snapshotter();
    let _guard = metrics::set_default_local_recorder(&recorder);
    let queue = NamedWorkQueue::new("web", WorkQueue::builder().timer(TokioTimer::current()));
    queue.add("a").expect("it is open");
    queue.add("b").expect("it is open");
    sleep(Duration::from_secs(2)).await;
    let work = queue.get().await.expect("a");
    sleep(Duration::from_millis(1_100)).await;
    let at_work = values(&snapshotter);
    assert_eq!(at_work["workqueue_depth web"].0, 1.0, "{at_work:?}");
    assert_eq!(at_work["workqueue_adds_total web"].0, 2.0, "{at_work:?}");
    assert!((1.0..1.1).contains(&at_work["workqueue_unfinished_work_seconds web"].0), "{at_work:?}");
    let waited = at_work["workqueue_queue_duration_seconds web"];
    assert!(waited.0 == 1.0 && (2.0..2.1).contains(&waited.1), "{at_work:?}");
    queue.add_rate_limited(*work).expect("it is open");
    work.done();
    queue.get().await.expect("b").done();
    queue.get().await.expect("a, after its delay").done();
    let later = values(&snapshotter);
    assert_eq!(later["workqueue_retries_total web"].0, 1.0, "{later:?}");
    assert_eq!(later["workqueue_work_duration_seconds web"].0, 3.0, "{later:?}");
    tokio::join!(queue.shut_down_with_drain_async(), async { assert!(queue.get().await.is_err()) });
}
