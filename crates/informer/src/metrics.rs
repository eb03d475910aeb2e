//! client-go's metrics, under its names, through the [`metrics`] facade: without a recorder they cost next to nothing.
//!
//! Every one has the label `name`.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use metrics::{Counter, Gauge, Histogram, Unit, counter, gauge, histogram};
use metrics::{describe_counter, describe_gauge, describe_histogram};
use tokio::time::{Instant, Interval, MissedTickBehavior, interval};

use crate::versions::ResourceVersion;

/// When to look at what is under way: as often as client-go does.
pub(crate) fn looks() -> Interval {
    let mut ticks = interval(Duration::from_millis(500));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ticks
}

/// Of a queue that workers take keys from.
pub(crate) struct QueueMetrics {
    depth: Gauge,
    adds: Counter,
    waited: Histogram,
    worked: Histogram,
    unfinished: Gauge,
    longest: Gauge,
    retries: Counter,
    under_way: Mutex<UnderWay>,
}

/// When work that has not ended began, oldest first.
#[derive(Default)]
struct UnderWay {
    begun: BTreeMap<u64, Instant>,
    next: u64,
}

/// One key's work; it has ended when this goes.
pub(crate) struct Working {
    metrics: Arc<QueueMetrics>,
    number: u64,
}

impl QueueMetrics {
    pub(crate) fn new(name: &str) -> Self {
        describe_queues();
        let name = || name.to_owned();
        QueueMetrics {
            depth: gauge!("workqueue_depth", "name" => name()),
            adds: adds(&name()),
            waited: histogram!("workqueue_queue_duration_seconds", "name" => name()),
            worked: histogram!("workqueue_work_duration_seconds", "name" => name()),
            unfinished: gauge!("workqueue_unfinished_work_seconds", "name" => name()),
            longest: gauge!("workqueue_longest_running_processor_seconds", "name" => name()),
            retries: counter!("workqueue_retries_total", "name" => name()),
            under_way: Mutex::default(),
        }
    }

    pub(crate) fn added(&self, changes: usize) {
        self.adds.increment(changes as u64);
    }

    pub(crate) fn retried(&self) {
        self.retries.increment(1);
    }

    /// A key was taken; `waited`: since it came in line.
    pub(crate) fn begin(self: &Arc<Self>, waited: Option<Duration>) -> Working {
        if let Some(waited) = waited {
            self.waited.record(waited);
        }
        let mut under_way = self.under_way();
        let number = under_way.next;
        under_way.next += 1;
        under_way.begun.insert(number, Instant::now());
        drop(under_way);
        Working { metrics: Arc::clone(self), number }
    }

    /// What is in line and what is under way; to be called at the ticks of [`looks`].
    pub(crate) fn look(&self, depth: usize) {
        self.depth.set(depth as f64);
        let under_way = self.under_way();
        let ages = || under_way.begun.values().map(|begun| begun.elapsed().as_secs_f64());
        self.unfinished.set(ages().fold(0.0, |sum, age| sum + age));
        self.longest.set(ages().next().unwrap_or(0.0));
    }

    fn under_way(&self) -> MutexGuard<'_, UnderWay> {
        self.under_way.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Nothing is in line or under way any more.
impl Drop for QueueMetrics {
    fn drop(&mut self) {
        for gauge in [&self.depth, &self.unfinished, &self.longest] {
            gauge.set(0.0);
        }
    }
}

impl Drop for Working {
    fn drop(&mut self) {
        let begun = self.metrics.under_way().begun.remove(&self.number);
        if let Some(begun) = begun {
            self.metrics.worked.record(begun.elapsed());
        }
    }
}

fn adds(name: &str) -> Counter {
    counter!("workqueue_adds_total", "name" => name.to_owned())
}

fn describe_queues() {
    describe_gauge!("workqueue_depth", Unit::Count, "Keys in line");
    describe_counter!("workqueue_adds_total", Unit::Count, "Changes that were appended");
    describe_histogram!("workqueue_queue_duration_seconds", Unit::Seconds, "How long a key was in line");
    describe_histogram!("workqueue_work_duration_seconds", Unit::Seconds, "How long work on a key took");
    describe_gauge!(
        "workqueue_unfinished_work_seconds",
        Unit::Seconds,
        "How long all work that has not ended has taken so far"
    );
    describe_gauge!(
        "workqueue_longest_running_processor_seconds",
        Unit::Seconds,
        "How long the oldest work that has not ended has taken so far"
    );
    describe_counter!("workqueue_retries_total", Unit::Count, "Keys that came back after a failure");
}

/// Of a reflector.
pub(crate) struct ReflectorMetrics {
    /// To the queue that it feeds.
    adds: Counter,
    lists: Counter,
    list_duration: Histogram,
    items_per_list: Histogram,
    watches: Counter,
    short_watches: Counter,
    watch_duration: Histogram,
    items_per_watch: Histogram,
    last_version: Gauge,
}

impl ReflectorMetrics {
    pub(crate) fn new(name: &str) -> Self {
        describe_reflectors();
        let name = || name.to_owned();
        ReflectorMetrics {
            adds: adds(&name()),
            lists: counter!("reflector_lists_total", "name" => name()),
            list_duration: histogram!("reflector_list_duration_seconds", "name" => name()),
            items_per_list: histogram!("reflector_items_per_list", "name" => name()),
            watches: counter!("reflector_watches_total", "name" => name()),
            short_watches: counter!("reflector_short_watches_total", "name" => name()),
            watch_duration: histogram!("reflector_watch_duration_seconds", "name" => name()),
            items_per_watch: histogram!("reflector_items_per_watch", "name" => name()),
            last_version: gauge!("reflector_last_resource_version", "name" => name()),
        }
    }

    pub(crate) fn added(&self, changes: usize) {
        self.adds.increment(changes as u64);
    }

    pub(crate) fn list_begins(&self) {
        self.lists.increment(1);
    }

    pub(crate) fn listed(&self, items: usize, took: Duration) {
        self.items_per_list.record(items as f64);
        self.list_duration.record(took);
    }

    pub(crate) fn watch_begins(&self) {
        self.watches.increment(1);
    }

    /// `is_short`: it was closed at once, without an event.
    pub(crate) fn watched(&self, items: usize, took: Duration, is_short: bool) {
        self.items_per_watch.record(items as f64);
        self.watch_duration.record(took);
        self.short_watches.increment(u64::from(is_short));
    }

    pub(crate) fn observed(&self, version: &ResourceVersion) {
        if let Ok(number) = version.as_str().parse::<f64>() {
            self.last_version.set(number);
        }
    }
}

fn describe_reflectors() {
    describe_counter!("reflector_lists_total", Unit::Count, "Lists that were begun");
    describe_histogram!("reflector_list_duration_seconds", Unit::Seconds, "How long a list took");
    describe_histogram!("reflector_items_per_list", Unit::Count, "Objects in a list");
    describe_counter!("reflector_watches_total", Unit::Count, "Watches that were begun");
    describe_counter!("reflector_short_watches_total", Unit::Count, "Watches that were closed at once");
    describe_histogram!("reflector_watch_duration_seconds", Unit::Seconds, "How long a watch was open");
    describe_histogram!("reflector_items_per_watch", Unit::Count, "Events of a watch");
    describe_gauge!("reflector_last_resource_version", "The newest version that was observed");
}
