//! What one handler is told, and what is to be said of it: the same books for all rows.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use delta_fifo_perf::workload::paced::latencies;
use hdrhistogram::Histogram;
use k8s_openapi::api::core::v1::ConfigMap;

use super::cluster::Keys;

/// More are only counted.
const FEW: usize = 5;

/// One handler.
pub(super) struct Told {
    keys: Arc<Keys>,
    books: Mutex<Books>,
    arrived: Condvar,
    /// How long it takes for each event.
    sleep: Option<Duration>,
    /// What is left need not take long.
    is_over: AtomicBool,
}

#[derive(Default)]
struct Books {
    /// By key: the newest version it was told of; zero: of none.
    newest: Vec<u64>,
    /// By key: told that it is gone, and of nothing since.
    gone: Vec<bool>,
    /// By key: the version with which it is through; zero: with any.
    finals: Vec<u64>,
    left: usize,
    counts: Counts,
    violations: Vec<String>,
    pace: Option<Pace>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    /// Newer than all before, of their key.
    pub(super) versions: u64,
    /// Seen before, as after a list.
    pub(super) again: u64,
    pub(super) deletions: u64,
    violations: u64,
}

impl std::ops::Sub for Counts {
    type Output = Self;

    fn sub(self, before: Self) -> Self {
        Counts {
            versions: self.versions - before.versions,
            again: self.again - before.again,
            deletions: self.deletions - before.deletions,
            violations: self.violations - before.violations,
        }
    }
}

/// Writes that are due at fixed moments, of one key after the other.
struct Pace {
    start: Instant,
    period: Duration,
    /// The version of the first write.
    base: u64,
    /// By key: which of the first writes is its own.
    first: Vec<u64>,
    latencies: Histogram<u64>,
}

impl Pace {
    fn due(&self, write: u64) -> Instant {
        self.start + self.period.mul_f64(write as f64)
    }

    /// The writes of a key between these versions. One that was never told by itself is told with the one that came after it.
    fn told(&mut self, key: usize, after: u64, version: u64, now: Instant) {
        let keys = self.first.len() as u64;
        let mut write = if after < self.base { self.first[key] } else { after - self.base + keys };
        while self.base + write <= version {
            let waited = now.saturating_duration_since(self.due(write));
            self.latencies.saturating_record(waited.as_nanos() as u64);
            write += keys;
        }
    }
}

impl Books {
    fn wrong(&mut self, what: impl FnOnce() -> String) {
        self.counts.violations += 1;
        if self.violations.len() < FEW {
            self.violations.push(what());
        }
    }
}

fn version(object: &ConfigMap) -> u64 {
    object.metadata.resource_version.as_deref().and_then(|text| text.parse().ok()).unwrap_or(0)
}

impl Told {
    pub(super) fn new(keys: &Arc<Keys>, sleep: Option<Duration>) -> Arc<Self> {
        let books = Books { newest: vec![0; keys.len()], gone: vec![false; keys.len()], ..Books::default() };
        Arc::new(Told {
            keys: Arc::clone(keys),
            books: Mutex::new(books),
            arrived: Condvar::new(),
            sleep,
            is_over: AtomicBool::new(false),
        })
    }

    fn books(&self) -> MutexGuard<'_, Books> {
        self.books.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The object is there, and so.
    pub(super) async fn applied(&self, object: &ConfigMap) {
        self.note_applied(object);
        self.take_time().await;
    }

    /// The object is gone.
    pub(super) async fn deleted(&self, last: &ConfigMap) {
        self.note_deleted(last);
        self.take_time().await;
    }

    async fn take_time(&self) {
        // Relaxed: a hint, with which nothing is published.
        if let Some(sleep) = self.sleep.filter(|_| !self.is_over.load(Ordering::Relaxed)) {
            tokio::time::sleep(sleep).await;
        }
    }

    pub(super) fn note_applied(&self, object: &ConfigMap) {
        let now = Instant::now();
        let (version, books) = (version(object), &mut *self.books());
        let Some(number) = self.keys.number(object) else {
            return books.wrong(|| format!("told of {:?}, which nobody wrote", object.metadata.name));
        };
        let before = books.newest[number];
        if version < before {
            return books.wrong(|| format!("told version {version} of key {number} after {before}"));
        }
        if version == before {
            books.counts.again += 1;
            if books.gone[number] {
                books.wrong(|| format!("told version {version} of key {number} again after its deletion"));
            }
            return;
        }
        books.counts.versions += 1;
        books.newest[number] = version;
        books.gone[number] = false;
        if let Some(pace) = &mut books.pace {
            pace.told(number, before, version, now);
        }
        let last = books.finals.get(number).copied().unwrap_or(0);
        if before < last && version >= last {
            books.left -= 1;
            if books.left == 0 {
                self.arrived.notify_all();
            }
        }
    }

    fn note_deleted(&self, last: &ConfigMap) {
        let (version, books) = (version(last), &mut *self.books());
        let Some(number) = self.keys.number(last) else {
            return books.wrong(|| format!("told of {:?}, which nobody wrote", last.metadata.name));
        };
        if version < books.newest[number] {
            let before = books.newest[number];
            books.wrong(|| format!("told that key {number} went at version {version} after {before}"));
        }
        if std::mem::replace(&mut books.gone[number], true) {
            books.wrong(|| format!("told twice that key {number} went"));
        }
        books.counts.deletions += 1;
        books.newest[number] = books.newest[number].max(version);
    }

    /// It is through when it was told of these versions.
    pub(super) fn expect(&self, finals: Vec<u64>) {
        let books = &mut *self.books();
        books.left = finals.iter().zip(&books.newest).filter(|(last, newest)| newest < last).count();
        books.finals = finals;
    }

    /// Whether it gets through in time.
    pub(super) fn wait(&self, patience: Duration) -> bool {
        let wait = self.arrived.wait_timeout_while(self.books(), patience, |books| books.left > 0);
        !wait.unwrap_or_else(PoisonError::into_inner).1.timed_out()
    }

    /// From now on versions count from the moment at which they are due.
    pub(super) fn pace(&self, start: Instant, period: Duration, base: u64, first: Vec<u64>) {
        self.books().pace = Some(Pace { start, period, base, first, latencies: latencies() });
    }

    /// How long each of so many writes took to be told; one that was not has waited until now.
    pub(super) fn latencies(&self, writes: u64) -> Histogram<u64> {
        let (now, books) = (Instant::now(), &mut *self.books());
        let mut pace = books.pace.take().expect("it was told to keep them");
        let newest = pace.base + writes - 1;
        for number in 0..books.newest.len() {
            pace.told(number, books.newest[number], newest, now);
        }
        pace.latencies
    }

    /// Takes no more time.
    pub(super) fn hurry(&self) {
        // Relaxed: a hint.
        self.is_over.store(true, Ordering::Relaxed);
    }

    /// Takes it again.
    pub(super) fn take_your_time(&self) {
        // Relaxed: a hint.
        self.is_over.store(false, Ordering::Relaxed);
    }

    pub(super) fn counts(&self) -> Counts {
        self.books().counts
    }

    /// Of these keys, all of them gone: how many it was ever told of, and of how many of those it was not told that they went.
    pub(super) fn missed(&self, deleted: &[usize]) -> (usize, usize) {
        let books = self.books();
        let knew: Vec<usize> = deleted.iter().copied().filter(|number| books.newest[*number] > 0).collect();
        (knew.len(), knew.iter().filter(|number| !books.gone[**number]).count())
    }

    pub(super) fn violations(&self) -> Vec<String> {
        let books = self.books();
        let more = books.counts.violations as usize - books.violations.len();
        let more = (more > 0).then(|| format!("and {more} more"));
        books.violations.iter().cloned().chain(more).collect()
    }
}
