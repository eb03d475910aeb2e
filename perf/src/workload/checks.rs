//! The checks that go with every run. They cost every peer the same: per change one exchange and one store on a word of
//! the key, which lie in the order in which producers go through their keys.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::Mutex;

use super::window::DoneCounters;
use super::{Key, KeySet, Object};
use crate::peers::{Handler, Kind, Peer};

/// More would be the same again.
const REPORTED: usize = 10;

/// Per key: the sequence number of its newest delivered change, and whether a consumer has the key.
pub(super) struct Ledger<'a> {
    keys: &'a KeySet,
    words: Vec<AtomicU64>,
    stopped: AtomicBool,
    violations: Mutex<Violations>,
}

#[derive(Default)]
struct Violations {
    reported: Vec<String>,
    more: usize,
}

/// A ledger word: the sequence number above, the lease bit below.
const LEASED: u64 = 1;

const fn word(seq: u64) -> u64 {
    seq << 1
}

impl<'a> Ledger<'a> {
    pub(super) fn new(keys: &'a KeySet) -> Self {
        Self {
            keys,
            words: (0..keys.len()).map(|_| AtomicU64::new(word(0))).collect(),
            stopped: AtomicBool::new(false),
            violations: Mutex::default(),
        }
    }

    #[cold]
    pub(super) fn violation(&self, text: fmt::Arguments<'_>) {
        let mut violations = self.violations.lock();
        if violations.reported.len() < REPORTED {
            violations.reported.push(text.to_string());
        } else {
            violations.more += 1;
        }
    }

    /// Ends the run: it can only be void.
    pub(super) fn stop(&self, text: fmt::Arguments<'_>) {
        // Relaxed: a flag that waits look at; nothing is published with it.
        if !self.stopped.swap(true, Ordering::Relaxed) {
            self.violation(text);
        }
    }

    pub(super) fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Relaxed)
    }

    pub(super) fn into_violations(self) -> Vec<String> {
        let Violations { mut reported, more } = self.violations.into_inner();
        if more > 0 {
            reported.push(format!("and {more} more"));
        }
        reported
    }

    #[inline]
    pub(super) fn is_completed(&self, key: usize, seq: u64) -> bool {
        // Acquire: pairs with `complete`; the lease has ended.
        self.words[key].load(Ordering::Acquire) == word(seq)
    }

    /// A consumer begins to process changes `first..=last` of a key.
    #[inline]
    fn begin(&self, key: usize, first: u64, last: u64) {
        // AcqRel: whoever finds two leases at once finds them in the order of this word.
        let before = self.words[key].swap(word(last) | LEASED, Ordering::AcqRel);
        if before != word(first - 1) {
            self.wrong_begin(key, before, first);
        }
    }

    #[cold]
    fn wrong_begin(&self, key: usize, before: u64, first: u64) {
        let key = self.keys.key(key);
        let seq = before >> 1;
        if before & LEASED != 0 {
            self.violation(format_args!(
                "{key}: change {first} in a second consumer during the lease of change {seq}"
            ));
        } else {
            self.violation(format_args!("{key}: change {first} delivered after change {seq}"));
        }
    }

    /// Some consumer has a key, or has not yet said that it is done with it.
    fn has_lease(&self) -> bool {
        // Acquire: pairs with `complete`; what was published before is seen.
        self.words.iter().any(|word| word.load(Ordering::Acquire) & LEASED != 0)
    }

    #[inline]
    fn complete(&self, key: usize, seq: u64) {
        // Release: pairs with `is_completed`.
        self.words[key].store(word(seq), Ordering::Release);
    }
}

/// The handler of one consumer: processes a lease by checking it.
pub(super) struct Checker<'a> {
    ledger: &'a Ledger<'a>,
    done: &'a DoneCounters,
    consumer: usize,
    /// Leases that were handled and have not ended, as far as this consumer knows.
    open: Vec<Open>,
    done_by_producer: Vec<u64>,
    pub(super) tally: Tally,
}

struct Open {
    producer: u32,
    key: u32,
    seq: u64,
    changes: u64,
}

/// What consumers have been handed.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) struct Tally {
    pub(super) leases: u64,
    pub(super) changes: u64,
}

impl<'a> Checker<'a> {
    pub(super) fn new(
        ledger: &'a Ledger<'a>,
        done: &'a DoneCounters,
        consumer: usize,
        producers: usize,
    ) -> Self {
        let done_by_producer = vec![0; producers];
        Self { ledger, done, consumer, open: Vec::new(), done_by_producer, tally: Tally::default() }
    }

    /// To be called when the leases have ended; by a handler, as its last deed, if keys may change meanwhile.
    #[inline]
    pub(super) fn complete(&mut self) {
        for open in self.open.drain(..) {
            let done = &mut self.done_by_producer[open.producer as usize];
            *done += open.changes;
            // In this order, for `is_drained`.
            self.done.publish(open.producer as usize, self.consumer, *done);
            self.ledger.complete(open.key as usize, open.seq);
        }
    }

    #[cold]
    fn wrong_delta(&self, key: &Key, what: fmt::Arguments<'_>) {
        self.ledger.violation(format_args!("{key}: {what}"));
    }
}

impl Handler for Checker<'_> {
    #[inline]
    fn lease<'d>(&mut self, key: &Key, mut deltas: impl Iterator<Item = (Kind, &'d Object)>) {
        let Some((kind, first)) = deltas.next() else {
            return self.wrong_delta(key, format_args!("a lease without deltas"));
        };
        let expected = self.ledger.keys.key(first.key as usize);
        if !Key::ptr_eq(expected, key) && expected != key {
            self.wrong_delta(key, format_args!("handed out with an object of {expected}"));
        }
        if kind != (if first.seq == 1 { Kind::Added } else { Kind::Updated }) {
            self.wrong_delta(key, format_args!("change {} handed out as {kind:?}", first.seq));
        }
        let mut last = first.seq;
        for (_, object) in deltas {
            if object.key != first.key || object.seq != last + 1 {
                self.wrong_delta(key, format_args!("change {} follows change {last} in a lease", object.seq));
            }
            last = object.seq;
        }
        let changes = (last + 1).saturating_sub(first.seq);
        self.ledger.begin(first.key as usize, first.seq, last);
        self.open.push(Open { producer: first.producer, key: first.key, seq: last, changes });
        self.tally.leases += 1;
        self.tally.changes += changes;
    }
}

/// What had come in when this was called has been handed out, its leases have ended, and what became of it is published. Of a
/// sound queue: one that says so wrongly, or never, is found out by that.
pub(super) fn is_drained<P: Peer>(peer: &P, ledger: &Ledger<'_>) -> bool {
    // In this order. What is not pending was handed out; when nothing is leased those leases have ended, after their handlers
    // had marked their keys; and where no mark is left all is published.
    peer.pending_len() == 0 && peer.leased_len() == 0 && !ledger.has_lease()
}

/// [`check_books`], and that nothing coalesced.
pub(super) fn check_end<P: Peer>(
    peer: &P,
    ledger: &Ledger<'_>,
    offered: u64,
    tally: Tally,
    newest: impl Fn(usize) -> u64,
) {
    if offered != tally.leases {
        ledger.violation(format_args!(
            "{} pops for {offered} changes: in the window every change is one pop",
            tally.leases
        ));
    }
    check_books(peer, ledger, offered, tally, newest);
}

/// What must hold when all threads have gone home: `newest` is the model, the last change of each key.
pub(super) fn check_books<P: Peer>(
    peer: &P,
    ledger: &Ledger<'_>,
    offered: u64,
    tally: Tally,
    newest: impl Fn(usize) -> u64,
) {
    let violation = |text: fmt::Arguments<'_>| ledger.violation(text);
    let merged = peer.merged();
    if offered != tally.changes + merged {
        violation(format_args!(
            "{offered} changes offered, but {} delivered and {merged} merged",
            tally.changes
        ));
    }
    let (pending, leased) = (peer.pending_len(), peer.leased_len());
    if pending != 0 || leased != 0 {
        violation(format_args!("{pending} keys pending and {leased} leased at the end"));
    }
    let known = peer.known_len();
    if known != ledger.keys.len() {
        violation(format_args!("{known} known objects for {} keys", ledger.keys.len()));
    }
    for number in 0..ledger.keys.len() {
        let (key, newest) = (ledger.keys.key(number), newest(number));
        if !ledger.is_completed(number, newest) {
            violation(format_args!("{key}: change {newest} was not delivered last"));
        }
        match peer.get_with(key, |object| (object.key as usize, object.seq)) {
            Some(known) if known == (number, newest) => {}
            Some((_, seq)) => violation(format_args!("{key}: change {seq} is known instead of {newest}")),
            None => violation(format_args!("{key}: not known")),
        }
    }
}
