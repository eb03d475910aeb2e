//! W6: a resync of many keys, and how much longer a fresh change waits while they stand in line.
//!
//! First counted, by one thread: fresh changes come in bursts, alone up to 64 at once, of known keys, which may stand in line by
//! the resync, and of new ones; every one counts the pops from its push to its lease, and so it does once without a resync. Between
//! bursts some pops go by, so that every turn of a second line is met. Then timed, with a consumer that pops all the time and
//! a producer at a fixed rate, again without a resync and with one: from the moment a change is due to its lease. That begins
//! when the resync has returned: what its call does to others is a question of locks, as with a replace.

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;

use super::paced::{latencies, record};
use super::{Key, KeySet, Object};
use crate::peers::{Handler, Kind, Lists};

#[derive(Debug, Clone, Copy)]
pub struct Resync {
    /// Bursts of fresh changes whose pops are counted.
    pub bursts: usize,
    /// Changes in a second where time is measured.
    pub rate: f64,
    /// How many of them without a resync.
    pub quiet: usize,
    pub patience: Duration,
}

#[derive(Debug)]
pub struct Resynced {
    /// The call.
    pub resync: Duration,
    /// By change: pops from its push to its lease, without a resync and with one.
    pub pops: Vec<(u64, u64)>,
    /// Nanoseconds from the moment when a change was due to its lease.
    pub without: Histogram<u64>,
    pub with: Histogram<u64>,
    pub violations: Vec<String>,
}

/// Changes that come at once, in turn.
const BURSTS: [usize; 4] = [1, 4, 16, 64];
/// More would be the same again.
const REPORTED: usize = 10;
const BATCH: usize = 256;

/// A run has so many keys: those that are known in the beginning, and one for every other counted change.
pub fn keys(known: usize, bursts: usize) -> usize {
    known + 2 * changes(bursts).div_ceil(2)
}

fn changes(bursts: usize) -> usize {
    BURSTS.iter().cycle().take(bursts).sum()
}

pub fn run<P: Lists>(peer: &P, resync: Resync, keys: &KeySet, known: usize) -> Resynced {
    assert_eq!(keys.len(), self::keys(known, resync.bursts));
    let (books, made) = (Books::new(keys), vec![0; keys.len()]);
    let mut run = Run { peer, resync, keys, known, unknown: known, books, made, in_line: 0 };
    run.fill();
    let without = run.count_pops();
    let took = run.resync();
    let with = run.count_pops();
    run.drain();
    run.check("after the bursts");
    if !run.books.violations.is_empty() {
        // A consumer would wait for what does not come.
        return Resynced {
            resync: took,
            pops: Vec::new(),
            without: latencies(),
            with: latencies(),
            violations: run.books.violations,
        };
    }
    let without_ns = run.phase(|_, made| made < resync.quiet);
    run.resync();
    let with_ns = run.phase(|left, _| left > 0);
    run.peer.close();
    run.check("in the end");
    Resynced {
        resync: took,
        pops: without.into_iter().zip(with).collect(),
        without: without_ns,
        with: with_ns,
        violations: run.books.violations,
    }
}

struct Run<'a, P> {
    peer: &'a P,
    resync: Resync,
    keys: &'a KeySet,
    known: usize,
    /// The next key that nobody has seen.
    unknown: usize,
    books: Books<'a>,
    /// The last change of each key.
    made: Vec<u64>,
    /// Keys, as of the last look, without those that were popped since.
    in_line: usize,
}

impl<P: Lists> Run<'_, P> {
    /// The known keys that change, all the others do not. More than there are in a burst.
    fn busy(&self) -> usize {
        (self.known / 10).clamp(64, 1_000)
    }

    fn change(&mut self, number: usize) {
        self.made[number] += 1;
        let seq = self.made[number];
        let (key, object) = (self.keys.key(number).clone(), Object::new(0, number as u32, seq));
        if seq == 1 { self.peer.add(key, object) } else { self.peer.update(key, object) }
    }

    fn fill(&mut self) {
        let mut scratch = P::Scratch::default();
        for number in 0..self.known {
            self.change(number);
            if number % BATCH == BATCH - 1 || number + 1 == self.known {
                let mut left = number % BATCH + 1;
                while left > 0 {
                    left -= self.peer.pop_batch(left, &mut self.books, &mut scratch);
                }
            }
        }
    }

    fn resync(&mut self) -> Duration {
        // All that has ever been changed is known, and at rest.
        let owed = self.made.iter().filter(|&&made| made > 0).count() as u64;
        self.books.resyncs += 1;
        self.books.left.store(owed, Ordering::Relaxed);
        let began = Instant::now();
        self.peer.resync();
        began.elapsed()
    }

    /// By change, in the order in which they are made.
    fn count_pops(&mut self) -> Vec<u64> {
        let mut event = 0;
        for burst in 0..self.resync.bursts {
            let events = event..event + BURSTS[burst % BURSTS.len()];
            for event in events.clone() {
                let number = if event % 2 == 0 { self.unknown } else { event / 2 % self.busy() };
                self.unknown += usize::from(event % 2 == 0);
                self.books.wait_for(number);
                self.change(number);
            }
            event = events.end;
            self.in_line = self.peer.pending_len();
            while self.books.waiting > 0 && self.pop() {}
            // Now and then as many that the next turn of a second line is at any place.
            let between = if burst % 5 == 4 { burst % 20 } else { 0 };
            (0..between).for_each(|_| _ = self.books.left() > 0 && self.pop());
        }
        std::mem::take(&mut self.books.waits)
    }

    /// False: what has to be in line is not.
    fn pop(&mut self) -> bool {
        if self.in_line == 0 {
            self.books.violation("what was pushed is not in line".into());
            return false;
        }
        self.in_line -= 1;
        self.peer.pop(&mut self.books)
    }

    fn drain(&mut self) {
        self.in_line = self.peer.pending_len();
        while self.books.left() > 0 && self.pop() {}
    }

    /// A consumer, and a producer at the rate, as long as it has to go on: what is left of the resync, and what it has made.
    fn phase(&mut self, go_on: impl Fn(u64, usize) -> bool) -> Histogram<u64> {
        let (busy, Resync { rate, patience, .. }) = (self.busy(), self.resync);
        let start = Instant::now();
        let due = |number: usize| start + Duration::from_secs_f64(number as f64 / rate);
        // Not known before the last change is made.
        let all = AtomicU64::new(u64::MAX);
        let mut clock = Clock { base: self.made[..busy].to_vec(), due, waits: latencies() };
        let before = self.books.changes;
        let Self { peer, keys, books, made, .. } = self;
        let left = books.left.clone();
        thread::scope(|scope| {
            let consumer = scope.spawn(|| {
                let mut timed = Timed { books, clock: &mut clock };
                // Relaxed: who is handed the last change has it from the producer, through the queue.
                while timed.books.changes - before < all.load(Ordering::Relaxed) && peer.pop(&mut timed) {}
            });
            let mut number = 0;
            // One more when it is over, by which the consumer learns it.
            let mut over = false;
            while !over {
                while Instant::now() < due(number) {
                    std::hint::spin_loop();
                }
                over = !go_on(left.load(Ordering::Relaxed), number);
                let stuck = start.elapsed() > patience;
                number += 1;
                if over || stuck {
                    all.store(number as u64, Ordering::Relaxed);
                }
                let key = (number - 1) % busy;
                made[key] += 1;
                peer.update(keys.key(key).clone(), Object::new(0, key as u32, made[key]));
                if stuck && !over {
                    // Whoever waits for something that does not come is let go.
                    peer.close();
                    break;
                }
            }
            consumer.join().expect("no panic");
        });
        clock.waits
    }

    fn check(&mut self, when: &str) {
        let (pending, leased, merged) = (self.peer.pending_len(), self.peer.leased_len(), self.peer.merged());
        if (pending, leased, merged) != (0, 0, 0) {
            self.books.violation(format!("{pending} pending, {leased} leased, {merged} merged {when}"));
        }
        if self.peer.known_len() != self.made.iter().filter(|&&made| made > 0).count() {
            self.books.violation(format!("{} known objects {when}", self.peer.known_len()));
        }
        for number in 0..self.keys.len() {
            let (made, key) = (self.made[number], self.keys.key(number));
            let Seen { change, syncs, .. } = self.books.seen[number];
            let known = self.peer.get_with(key, |object| object.seq);
            if change != made || known.unwrap_or(0) != made || syncs > self.books.resyncs {
                self.books.violation(format!(
                    "{key}: {change} of {made} changes and {syncs} syncs handed out, known is {known:?}, {when}"
                ));
            }
        }
        let left = self.books.left();
        if left != 0 {
            self.books.violation(format!("{left} syncs too few {when}"));
        }
    }
}

/// What has been handed out.
struct Books<'a> {
    keys: &'a KeySet,
    seen: Vec<Seen>,
    pops: u64,
    changes: u64,
    /// So many of every key that was known may have come, each for one resync.
    resyncs: u32,
    /// Syncs that are still to come. Shared with the producer, which only looks.
    left: std::sync::Arc<AtomicU64>,
    /// By change that counts them: when it was pushed, and when it has been handed out the pops since then.
    waits: Vec<u64>,
    /// Those of them that have not been handed out, each of another key.
    waiting: usize,
    violations: Vec<String>,
}

#[derive(Clone, Default)]
struct Seen {
    change: u64,
    syncs: u32,
    /// The place of its change that waits.
    waits: Option<u32>,
}

impl<'a> Books<'a> {
    fn new(keys: &'a KeySet) -> Self {
        Self {
            keys,
            seen: vec![Seen::default(); keys.len()],
            pops: 0,
            changes: 0,
            resyncs: 0,
            left: Default::default(),
            waits: Vec::new(),
            waiting: 0,
            violations: Vec::new(),
        }
    }

    #[cold]
    fn violation(&mut self, text: String) {
        if self.violations.len() < REPORTED {
            self.violations.push(text);
        }
    }

    /// The next change of this key is counted.
    fn wait_for(&mut self, number: usize) {
        self.seen[number].waits = Some(self.waits.len() as u32);
        self.waits.push(self.pops);
        self.waiting += 1;
    }

    // Relaxed: the only writer, or nobody else is there.
    fn left(&self) -> u64 {
        self.left.load(Ordering::Relaxed)
    }

    /// What the lease of a key has; the number of its key and its last change.
    fn see<'d>(
        &mut self,
        key: &Key,
        deltas: impl Iterator<Item = (Kind, &'d Object)>,
    ) -> Option<(usize, u64)> {
        self.pops += 1;
        let mut last = None;
        for (kind, object) in deltas {
            let number = object.key as usize;
            if number >= self.keys.len() || self.keys.key(number) != key || !object.is_whole() {
                self.violation(format!("{key}: handed out with an object of key {number}"));
                continue;
            }
            last = Some((number, object.seq));
            let seen = &mut self.seen[number];
            let sound = match kind {
                Kind::Added | Kind::Updated => {
                    self.changes += 1;
                    seen.change += 1;
                    object.seq == seen.change && (kind == Kind::Added) == (object.seq == 1)
                }
                Kind::Sync => {
                    seen.syncs += 1;
                    // Relaxed: one writer at a time; the producer only wants to know when it is over.
                    let left = self.left.load(Ordering::Relaxed);
                    self.left.store(left.saturating_sub(1), Ordering::Relaxed);
                    object.seq == seen.change && seen.syncs <= self.resyncs && left > 0
                }
                Kind::Deleted | Kind::Tombstone | Kind::Replaced => false,
            };
            if !sound {
                let Seen { change, syncs, .. } = *seen;
                self.violation(format!(
                    "{key}: {kind:?} {}, the last change {change}, {syncs} syncs",
                    object.seq
                ));
            }
        }
        if last.is_none() {
            self.violation(format!("{key}: a lease without deltas"));
        }
        last
    }
}

impl Handler for Books<'_> {
    #[inline]
    fn lease<'d>(&mut self, key: &Key, deltas: impl Iterator<Item = (Kind, &'d Object)>) {
        let changes = self.changes;
        let Some((number, _)) = self.see(key, deltas) else { return };
        if changes < self.changes
            && let Some(place) = self.seen[number].waits.take()
        {
            let wait = &mut self.waits[place as usize];
            *wait = self.pops - *wait;
            self.waiting -= 1;
        }
    }
}

/// When a change was due, by its key and number.
struct Clock<F> {
    base: Vec<u64>,
    due: F,
    waits: Histogram<u64>,
}

struct Timed<'b, 'a, F> {
    books: &'b mut Books<'a>,
    clock: &'b mut Clock<F>,
}

impl<F: Fn(usize) -> Instant> Handler for Timed<'_, '_, F> {
    #[inline]
    fn lease<'d>(&mut self, key: &Key, deltas: impl Iterator<Item = (Kind, &'d Object)>) {
        let before = self.books.changes;
        let Some((number, last)) = self.books.see(key, deltas) else { return };
        let Some(base) = self.clock.base.get(number) else { return };
        let (now, fresh) = (Instant::now(), self.clock.base.len());
        let changes = self.books.changes - before;
        for seq in (last + 1).saturating_sub(changes)..=last {
            let event = seq.saturating_sub(base + 1) as usize * fresh + number;
            record(&mut self.clock.waits, now.saturating_duration_since((self.clock.due)(event)));
        }
    }
}

#[cfg(test)]
mod tests;
