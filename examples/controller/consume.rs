//! The consumers: they keep the index up to date from leases alone.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use delta_fifo::{Delta, DeltaKind, DeltaQueue, Lease};
use hdrhistogram::Histogram;

use crate::index::Index;
use crate::ledger::{Ledger, Page};
use crate::trace::{Key, Object};

/// Above this, times are only known to be long.
const LONGEST: Duration = Duration::from_secs(3600);

/// What the queue holds: an object of the trace, and which call of the producer offered it.
#[derive(Clone, Debug)]
pub(crate) struct Offered {
    pub(crate) object: Arc<Object>,
    /// Counts the producer's calls from 1, so that one key's changes can be told apart and put in order.
    pub(crate) number: u64,
    /// When the call began, or should have begun by the recording.
    pub(crate) since: Instant,
}

/// What the consumers of one run work on together.
pub(crate) struct Shared {
    pub(crate) ledger: Ledger,
    pub(crate) index: Mutex<Index>,
    /// Deltas processed so far, for the progress bar and to notice a standstill.
    pub(crate) processed: AtomicU64,
}

/// What one consumer has seen; sums are what all have seen.
#[derive(Clone)]
pub(crate) struct Tally {
    pub(crate) pops: u64,
    pub(crate) largest_pop: u64,
    /// Deltas that did not come alone.
    pub(crate) sharing: u64,
    pub(crate) added: u64,
    pub(crate) updated: u64,
    pub(crate) replaced: u64,
    pub(crate) sync: u64,
    pub(crate) deleted: u64,
    pub(crate) tombstones: u64,
    /// Pops after which another object has the name of the one that was there before.
    pub(crate) recreated: u64,
    pub(crate) order_violations: u64,
    pub(crate) double_leases: u64,
    /// Nanoseconds from offering to leasing, one value for each change.
    pub(crate) latency: Histogram<u64>,
}

/// Processes keys until the queue is closed and empty.
pub(crate) fn consume<Q>(queue: &Q, shared: &Shared, handler_delay: Duration) -> Tally
where
    Q: DeltaQueue<Key = Key, Value = Offered>,
{
    let mut tally = Tally::default();
    while let Ok(lease) = queue.pop() {
        let leased_at = Instant::now();
        let page = shared.ledger.page(lease.key());
        // A key that nobody offered comes in no order at all.
        tally.order_violations += u64::from(page.is_none());
        tally.double_leases += u64::from(page.is_some_and(|page| !page.open()));
        tally.count(&lease, page, leased_at);
        handle(&lease, &shared.index);
        if !handler_delay.is_zero() {
            thread::sleep(handler_delay);
        }
        // Relaxed: a number to look at.
        shared.processed.fetch_add(lease.deltas().len() as u64, Ordering::Relaxed);
        // Before the lease ends: after that, the next one may have begun.
        if let Some(page) = page {
            page.close();
        }
        lease.done();
    }
    tally
}

/// What a controller would do: compare the object as it was processed last with the object as it is now.
fn handle<Q>(lease: &Lease<'_, Q>, index: &Mutex<Index>)
where
    Q: DeltaQueue<Key = Key, Value = Offered>,
{
    let old = lease.previous().map(|offered| &*offered.object);
    let newest = lease.deltas().newest();
    let new = newest.object().filter(|_| !newest.is_deletion()).map(|offered| &*offered.object);
    index.lock().unwrap_or_else(PoisonError::into_inner).change(old, new);
}

impl Tally {
    fn count<Q>(&mut self, lease: &Lease<'_, Q>, page: Option<&Page>, leased_at: Instant)
    where
        Q: DeltaQueue<Key = Key, Value = Offered>,
    {
        let deltas = lease.deltas();
        let count = deltas.len() as u64;
        self.pops += 1;
        self.largest_pop = self.largest_pop.max(count);
        self.sharing += if count > 1 { count } else { 0 };
        for delta in deltas.iter() {
            self.count_delta(delta, leased_at);
        }
        let newest = deltas.newest();
        let uids = (lease.previous().map(uid), newest.object().map(uid));
        if let (Some(old), Some(new)) = uids {
            self.recreated += u64::from(old != new && !newest.is_deletion());
        }
        self.order_violations += page.map_or(0, |page| page.observe(lease.previous(), deltas.iter()));
    }

    fn count_delta(&mut self, delta: Delta<'_, Key, Offered>, leased_at: Instant) {
        *match delta.kind() {
            DeltaKind::Added => &mut self.added,
            DeltaKind::Updated => &mut self.updated,
            DeltaKind::Replaced => &mut self.replaced,
            DeltaKind::Sync => &mut self.sync,
            DeltaKind::Deleted => &mut self.deleted,
            DeltaKind::DeletedFinalStateUnknown => &mut self.tombstones,
        } += 1;
        // The object of a tombstone or a Sync was offered, and counted, when it was new.
        if let Delta::Added(new) | Delta::Updated(new) | Delta::Replaced(new) | Delta::Deleted(new) = delta {
            record(&mut self.latency, leased_at.saturating_duration_since(new.since));
        }
    }

    /// Deltas of all kinds.
    pub(crate) fn deltas(&self) -> u64 {
        self.added + self.updated + self.replaced + self.sync + self.deleted + self.tombstones
    }

    pub(crate) fn merge(&mut self, other: &Tally) {
        self.pops += other.pops;
        self.largest_pop = self.largest_pop.max(other.largest_pop);
        self.sharing += other.sharing;
        self.added += other.added;
        self.updated += other.updated;
        self.replaced += other.replaced;
        self.sync += other.sync;
        self.deleted += other.deleted;
        self.tombstones += other.tombstones;
        self.recreated += other.recreated;
        self.order_violations += other.order_violations;
        self.double_leases += other.double_leases;
        self.latency += &other.latency;
    }
}

impl Default for Tally {
    fn default() -> Self {
        Tally {
            pops: 0,
            largest_pop: 0,
            sharing: 0,
            added: 0,
            updated: 0,
            replaced: 0,
            sync: 0,
            deleted: 0,
            tombstones: 0,
            recreated: 0,
            order_violations: 0,
            double_leases: 0,
            latency: latencies(),
        }
    }
}

/// An empty histogram of nanoseconds, exact to three digits.
pub(crate) fn latencies() -> Histogram<u64> {
    Histogram::new_with_bounds(1, LONGEST.as_nanos() as u64, 3).expect("the bounds are in order")
}

/// Times above the longest count as the longest.
pub(crate) fn record(latencies: &mut Histogram<u64>, time: Duration) {
    latencies.saturating_record(time.min(LONGEST).as_nanos() as u64);
}

fn uid(offered: &Offered) -> &str {
    &offered.object.uid
}
