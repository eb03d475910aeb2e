//! One queue, all that is true of its keys, and what its threads share.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use delta_fifo::{DeltaQueue, FifoSnapshot, KnownView, OwnedLease};
use serde::Serialize;

use super::leases::Taken;
use super::plan::{Known, Plan, Queue, Store};
use super::things::{Key, Object, Subject};

pub(super) type Snapshot = FifoSnapshot<Key, Object, ahash::RandomState>;

/// A snapshot that is held, and what it showed when it was taken.
pub(super) struct Held {
    pub(super) snapshot: Snapshot,
    pub(super) sum: u64,
    pub(super) len: usize,
}

macro_rules! totals {
    ($($name:ident,)*) => {
        /// What has been done so far.
        #[derive(Default)]
        pub(super) struct Counters {
            $(pub(super) $name: AtomicU64,)*
        }

        #[derive(Clone, Copy, Debug, Default, Serialize)]
        pub(super) struct Totals {
            $(pub(super) $name: u64,)*
        }

        impl Counters {
            pub(super) fn totals(&self) -> Totals {
                Totals { $($name: self.$name.load(Ordering::SeqCst),)* }
            }
        }

        impl std::ops::AddAssign for Totals {
            fn add_assign(&mut self, other: Self) {
                $(self.$name += other.$name;)*
            }
        }
    };
}

totals! {
    changes, refused, items, replaces, resyncs, syncs, marks, snapshots, looks, leases, completed, requeued,
    abandoned, panics, cancelled, merged,
}

pub(super) struct World {
    pub(super) plan: Plan,
    pub(super) queue: Arc<Queue>,
    pub(super) store: Store,
    pub(super) subjects: Vec<Subject>,
    /// Read by who changes a truth and tells the queue, written by who lists all truths for a list that is one moment.
    pub(super) listing: RwLock<()>,
    /// Leases that any consumer may end.
    pub(super) shelf: Mutex<Vec<(Taken, OwnedLease<Queue>)>>,
    pub(super) held: Mutex<Vec<Held>>,
    pub(super) marks: AtomicU64,
    pub(super) counters: Counters,
    /// Changers of the beat that have not stopped.
    pub(super) changing: AtomicU32,
    pub(super) stop: AtomicBool,
    pub(super) failed: AtomicBool,
}

impl World {
    pub(super) fn new(plan: Plan) -> Self {
        let store = Store::default();
        Self {
            queue: Arc::new(plan.build(&store)),
            store,
            subjects: (0..plan.keys).map(|_| Subject::default()).collect(),
            listing: RwLock::new(()),
            shelf: Mutex::default(),
            held: Mutex::default(),
            marks: AtomicU64::new(0),
            counters: Counters::default(),
            changing: AtomicU32::new(0),
            stop: AtomicBool::new(false),
            failed: AtomicBool::new(false),
            plan,
        }
    }

    pub(super) fn subject(&self, key: u32) -> &Subject {
        &self.subjects[key as usize]
    }

    /// Whether those that change should come to their end.
    pub(super) fn stops(&self) -> bool {
        self.stop.load(Ordering::SeqCst)
    }

    /// Nothing is left for a consumer, and nothing can come.
    pub(super) fn is_quiet(&self) -> bool {
        self.failed.load(Ordering::SeqCst)
            || self.changing.load(Ordering::SeqCst) == 0
                && self.queue.pending_len() == 0
                && self.queue.leased_len() == 0
    }

    pub(super) fn fail(&self) {
        self.failed.store(true, Ordering::SeqCst);
        self.stop.store(true, Ordering::SeqCst);
        // Nobody shall sleep any more.
        self.queue.close_discard();
        lock(&self.shelf).clear();
    }

    /// Deltas that wait: producers let consumers catch up.
    pub(super) fn is_behind(&self) -> bool {
        let [offered, completed] =
            [&self.counters.changes, &self.counters.completed].map(|count| count.load(Ordering::Relaxed));
        !self.plan.latest && offered.saturating_sub(completed) > 100_000
    }

    /// After everything has come to rest: the queue says of each key what is true.
    pub(super) fn check(&self) {
        let queue = &self.queue;
        assert_eq!((queue.pending_len(), queue.leased_len()), (0, 0), "pending and leased at rest");
        assert!(queue.has_synced() && queue.has_delivered(), "not synced at rest");
        let marks = self.marks.load(Ordering::SeqCst);
        let through =
            queue.processed_through().map_or(0, |version| version.to_string().parse().expect("a number"));
        assert_eq!(through, marks, "the mark through which all is processed");
        for (key, subject) in (0..).zip(&self.subjects) {
            self.check_subject(key, subject);
        }
        if self.plan.known == Known::Inside {
            let expected = self.subjects.iter().filter(|subject| subject.truth().exists).count();
            let snapshot = queue.snapshot();
            let lens =
                [queue.known().len(), queue.known().iter().count(), snapshot.len(), snapshot.iter().count()];
            assert_eq!(
                lens, [expected; 4],
                "known objects by count and by iteration, live and in a snapshot"
            );
        }
        self.check_counts();
    }

    fn check_subject(&self, key: u32, subject: &Subject) {
        let truth = subject.truth();
        let (offered, delivered) =
            (subject.offered.load(Ordering::SeqCst), subject.delivered.load(Ordering::SeqCst));
        assert!(delivered <= offered, "key {key}: {delivered} of {offered} changes delivered");
        assert!(
            self.plan.latest || delivered == offered,
            "key {key}: {delivered} of {offered} changes delivered"
        );
        let expected = truth.exists.then_some(truth.state);
        let handed = subject.known.load(Ordering::SeqCst).checked_sub(1);
        // With nothing known, who deletes what has been handed out is not heard.
        if truth.exists || self.plan.known != Known::None {
            assert_eq!(handed, expected, "what the last lease of key {key} has left");
        }
        if self.plan.known == Known::Inside {
            let state = |object: &Object| {
                object.check(key);
                object.state
            };
            assert_eq!(self.queue.known().get_with(&key, state), expected, "known of key {key}");
            assert_eq!(self.queue.snapshot().get_with(&key, state), expected, "a snapshot's of key {key}");
        }
    }

    /// Offered = delivered + merged, where it can be told one by one.
    fn check_counts(&self) {
        let totals = self.counters.totals();
        let offered = totals.changes + totals.items + totals.syncs;
        let merged = self.queue.merged();
        if self.plan.is_countable() {
            assert_eq!(totals.completed + merged, offered, "delivered + {merged} merged, and offered");
        }
    }
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
