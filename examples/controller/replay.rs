//! One run: a producer that does what a reflector does, consumers, and somebody who watches them.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex};
use std::thread::{self, ScopedJoinHandle};
use std::time::{Duration, Instant};

use delta_fifo::{BoxError, Completion, DeltaQueue, KnownView, Replace, WaitError};
use hdrhistogram::Histogram;

use crate::consume::{Offered, Shared, Tally, consume, latencies, record};
use crate::index::Index;
use crate::ledger::Ledger;
use crate::options::{Options, Speed};
use crate::trace::{Action, Key, Object, Trace};
use crate::verdict::{Mismatch, compare};

/// So long may the queue hand out nothing at the end, beyond what handlers take, before it counts as stuck.
const PATIENCE: Duration = Duration::from_secs(30);
const PROGRESS_INTERVAL: Duration = Duration::from_millis(100);

/// What came of a run.
pub(crate) struct Run {
    pub(crate) tally: Tally,
    pub(crate) merged: u64,
    pub(crate) known: u64,
    pub(crate) index: Index,
    /// Since the start; the whole run if it never came.
    pub(crate) first_sync: Duration,
    /// From the first step until the last change is processed.
    pub(crate) elapsed: Duration,
    /// Nanoseconds that the producer took for a step: a change and its mark.
    pub(crate) producer: Histogram<u64>,
    pub(crate) mismatches: Vec<Mismatch>,
}

/// Replays a trace through an empty queue. `progress` is told now and then how many deltas are processed.
pub(crate) fn run<Q>(queue: &Q, trace: &Trace, options: &Options, progress: impl Fn(u64)) -> Run
where
    Q: DeltaQueue<Key = Key, Value = Offered>,
{
    let shared = Shared {
        ledger: Ledger::new(&trace.keys),
        index: Mutex::new(Index::default()),
        processed: AtomicU64::new(0),
    };
    let start = Instant::now();
    let (ending, first_sync, tally) = thread::scope(|scope| {
        let consumers: Vec<_> = (0..options.consumers.get())
            .map(|_| scope.spawn(|| consume(queue, &shared, options.handler_delay)))
            .collect();
        let synced = scope.spawn(|| queue.wait_synced().map(|()| start.elapsed()));
        let (at_work, ended) = mpsc::channel::<()>();
        let shared = &shared;
        let producer = scope.spawn(move || {
            // Dropped at the end, by a panic too.
            let _at_work = at_work;
            Reflector::new(queue, options.speed, start).replay(trace, shared, options)
        });
        while ended.recv_timeout(PROGRESS_INTERVAL) == Err(RecvTimeoutError::Timeout) {
            progress(shared.processed.load(Ordering::Relaxed));
        }
        // Consumers end when everything is handed out; so does the wait for the sync, if it cannot come.
        queue.close();
        let mut tally = Tally::default();
        consumers.into_iter().map(join).for_each(|one| tally.merge(&one));
        (join(producer), join(synced), tally)
    });
    // Whoever waits for the sync may wake up after the end; it came before.
    let synced_at = first_sync.map_or(ending.elapsed, |at| at.min(ending.elapsed));
    let mut mismatches = ending.mismatches;
    mismatches.extend(first_sync.is_err().then_some(Mismatch::NeverSynced));
    mismatches.extend(compare(queue, trace, &shared, &tally));
    Run {
        merged: queue.merged(),
        known: queue.known().len() as u64,
        index: shared.index.into_inner().unwrap_or_default(),
        first_sync: synced_at,
        elapsed: ending.elapsed,
        producer: ending.calls,
        mismatches,
        tally,
    }
}

/// The producer.
struct Reflector<'q, Q: DeltaQueue> {
    queue: &'q Q,
    speed: Speed,
    start: Instant,
    /// The list in progress.
    list: Option<Replace<'q, Q>>,
    /// Complete when everything up to the newest resource version is.
    marked: Option<Completion<'q, Q>>,
    offered: u64,
    calls: Histogram<u64>,
}

/// How the producer ended.
struct Ending {
    elapsed: Duration,
    calls: Histogram<u64>,
    mismatches: Vec<Mismatch>,
}

impl<'q, Q> Reflector<'q, Q>
where
    Q: DeltaQueue<Key = Key, Value = Offered>,
{
    fn new(queue: &'q Q, speed: Speed, start: Instant) -> Self {
        Reflector { queue, speed, start, list: None, marked: None, offered: 0, calls: latencies() }
    }

    fn replay(mut self, trace: &Trace, shared: &Shared, options: &Options) -> Ending {
        let mut mismatches = Vec::new();
        for step in &trace.steps {
            let due = self.wait_until(step.at);
            if let Err(error) = self.step(&step.action, due) {
                mismatches.push(Mismatch::Producer(error.to_string()));
                break;
            }
        }
        // An unfinished list would keep the queue open for ever.
        self.list = None;
        mismatches.extend(self.wait_for_consumers(shared, options).err());
        Ending { elapsed: self.start.elapsed(), calls: self.calls, mismatches }
    }

    /// Waits for a recorded moment; returns it if there is anything to wait for.
    fn wait_until(&self, at: Duration) -> Option<Instant> {
        let due = self.start + self.speed.due(at)?;
        thread::sleep(due.saturating_duration_since(Instant::now()));
        Some(due)
    }

    fn step(&mut self, action: &Action, due: Option<Instant>) -> Result<(), BoxError> {
        let began = Instant::now();
        let since = due.unwrap_or(began);
        match action {
            Action::BeginList => self.list = Some(self.queue.begin_replace()?),
            Action::Item(object) => {
                let offered = self.offer(object, since);
                let list = self.list.as_ref().ok_or("an item without a list")?;
                list.upsert(object.key.clone(), offered)?;
            }
            Action::EndList { .. } => {
                let list = self.list.take().ok_or("the end of no list")?;
                list.commit()?;
            }
            Action::Apply(object) => self.queue.apply(object.key.clone(), self.offer(object, since))?,
            Action::Delete(object) => self.queue.delete(object.key.clone(), self.offer(object, since))?,
            Action::Bookmark { .. } => {}
        }
        if let Some(version) = action.version() {
            self.marked = Some(self.queue.mark(version)?);
        }
        record(&mut self.calls, began.elapsed());
        Ok(())
    }

    fn offer(&mut self, object: &Arc<Object>, since: Instant) -> Offered {
        self.offered += 1;
        Offered { object: Arc::clone(object), number: self.offered, since }
    }

    /// Waits until everything that was offered has been processed, as long as anything moves.
    fn wait_for_consumers(&self, shared: &Shared, options: &Options) -> Result<(), Mismatch> {
        let Some(marked) = &self.marked else { return Ok(()) };
        let patience = PATIENCE + 2 * options.handler_delay;
        let mut processed = shared.processed.load(Ordering::Relaxed);
        loop {
            match marked.wait_timeout(patience) {
                Ok(()) => return Ok(()),
                Err(WaitError::Timeout) => {}
                Err(error) => return Err(Mismatch::Producer(error.to_string())),
            }
            let now = shared.processed.load(Ordering::Relaxed);
            if now == processed {
                // Without what is pending the consumers can end, and the result can be told.
                self.queue.close_discard();
                return Err(Mismatch::Standstill);
            }
            processed = now;
        }
    }
}

/// The result of a thread; its panic goes on here.
fn join<T>(thread: ScopedJoinHandle<'_, T>) -> T {
    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}
