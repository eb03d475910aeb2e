//! W3: keys that come, change three times and go, and are never seen again.
//!
//! One producer, one consumer. At each step one key is added, the one that is a quarter of the living behind it gets its first
//! update, and so on to the one that is deleted. The producer is at most as many changes ahead as lie between two changes of a
//! key: so nothing coalesces, every change is one pop, and the leases are the changes, in their order, each of which the
//! consumer knows beforehand.

use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::checks::Ledger;
use super::window::{DoneCounters, Stuck, Window};
use super::{Key, KeySet, Object};
use crate::peers::{Handler, Kind, Peer};

/// Of each key: an add, three updates, a delete.
pub const CHANGES: u64 = 5;
/// Of a key's number, at the end of its text, in hexadecimal.
const DIGITS: usize = 18;
/// Steps between two looks at the clock.
const CHUNK: u64 = 64;

#[derive(Debug, Clone, Copy)]
pub struct Churn {
    /// Keys that are there at once.
    pub living: u64,
    /// How long keys come.
    pub time: Duration,
    /// And at least so many changes are made, however long that takes.
    pub least: u64,
    pub patience: Duration,
}

#[derive(Debug)]
pub struct Churned {
    pub changes: u64,
    /// From the first of them to the last.
    pub elapsed: Duration,
    /// By the end: what was looked at, evenly over the time.
    pub looks: Vec<u64>,
    pub violations: Vec<String>,
}

impl Churned {
    pub fn ns_per_change(&self) -> f64 {
        self.elapsed.as_nanos() as f64 / self.changes as f64
    }
}

/// `look` is called by the producer, so many times: the last time when all keys have gone.
pub fn run<P: Peer>(peer: &P, churn: Churn, looks: usize, look: impl Fn() -> u64 + Sync) -> Churned {
    // Violations go to a ledger; its keys are not needed.
    let no_keys = KeySet::new(1, 0);
    let (ledger, done) = (Ledger::new(&no_keys), DoneCounters::new(1, 1));
    let end = AtomicU64::new(u64::MAX);
    let run = Run { peer, churn, ledger: &ledger, done: &done, end: &end };
    let mut churned = thread::scope(|scope| {
        let consumer = scope.spawn(|| {
            let mut follower = Follower { steps: Steps::new(churn), end: &end, ledger: &ledger, leases: 0 };
            while peer.pop(&mut follower) {
                done.publish(0, 0, follower.leases);
            }
            follower.leases
        });
        let churned = run.produce(looks, look);
        peer.close();
        let leases = consumer.join().expect("no panic");
        if leases != churned.changes {
            ledger.violation(format_args!("{leases} leases for {} changes", churned.changes));
        }
        churned
    });
    let (known, pending, leased) = (peer.known_len(), peer.pending_len(), peer.leased_len());
    if (known, pending, leased, peer.merged()) != (0, 0, 0, 0) {
        ledger.violation(format_args!(
            "{known} known, {pending} pending, {leased} leased, {} merged at the end",
            peer.merged()
        ));
    }
    churned.violations = ledger.into_violations();
    churned
}

/// Keys and objects alone: what a change costs without a queue.
pub fn empty(churn: Churn) -> Churned {
    let mut names = Names::new(churn);
    let (began, mut changes) = (Instant::now(), 0);
    for (key, seq) in Steps::new(churn) {
        if u64::is_multiple_of(changes, CHUNK * CHANGES) && began.elapsed() >= churn.time {
            break;
        }
        drop(std::hint::black_box((names.key(key, seq), Box::new(Object::new(0, key as u32, seq)))));
        changes += 1;
    }
    Churned { changes, elapsed: began.elapsed(), looks: Vec::new(), violations: Vec::new() }
}

/// All changes in their order, for ever: number of the key, and number of its change.
struct Steps {
    /// Between two changes of a key.
    apart: u64,
    step: u64,
    change: u64,
    /// No key is added from here on.
    end: u64,
}

impl Steps {
    fn new(churn: Churn) -> Self {
        Self { apart: (churn.living / (CHANGES - 1)).max(1), step: 0, change: 0, end: u64::MAX }
    }
}

impl Iterator for Steps {
    type Item = (u64, u64);

    fn next(&mut self) -> Option<(u64, u64)> {
        loop {
            let (step, change) = (self.step, self.change);
            if step >= self.end.saturating_add((CHANGES - 1) * self.apart) {
                return None;
            }
            (self.step, self.change) = if change + 1 == CHANGES { (step + 1, 0) } else { (step, change + 1) };
            // Long before the first key there is none.
            if let Some(key) = step.checked_sub(change * self.apart).filter(|&key| key < self.end) {
                return Some((key, change + 1));
            }
        }
    }
}

/// The keys that are there now.
struct Names {
    living: Vec<Option<Key>>,
    text: String,
}

impl Names {
    fn new(churn: Churn) -> Self {
        let places = Steps::new(churn).apart * (CHANGES - 1) + 1;
        Self { living: vec![None; places as usize], text: String::new() }
    }

    /// Made with its first change, forgotten with its last.
    #[inline]
    fn key(&mut self, number: u64, seq: u64) -> Key {
        let place = (number % self.living.len() as u64) as usize;
        if seq == 1 {
            self.text.clear();
            let _ = write!(self.text, "team-{:03}/churning-{number:0DIGITS$x}", number % 200);
            self.living[place] = Some(self.text.as_str().into());
        }
        let key = if seq == CHANGES { self.living[place].take() } else { self.living[place].clone() };
        key.expect("it lives")
    }
}

struct Run<'a, P> {
    peer: &'a P,
    churn: Churn,
    ledger: &'a Ledger<'a>,
    done: &'a DoneCounters,
    /// No key is added from here on.
    end: &'a AtomicU64,
}

impl<P: Peer> Run<'_, P> {
    fn produce(&self, looks: usize, look: impl Fn() -> u64) -> Churned {
        let (mut seen, mut made) = (Vec::with_capacity(looks), 0);
        let began = Instant::now();
        // Who is stuck has stopped the run and said why.
        let _ = self.changes(began, &mut made, |elapsed| {
            let due = self.churn.time.mul_f64((seen.len() + 1) as f64 / looks.max(1) as f64);
            if seen.len() + 1 < looks && elapsed >= due {
                seen.push(look());
            }
        });
        let elapsed = began.elapsed();
        seen.resize_with(looks, look);
        Churned { changes: made, elapsed, looks: seen, violations: Vec::new() }
    }

    fn changes(&self, began: Instant, made: &mut u64, mut look: impl FnMut(Duration)) -> Result<(), Stuck> {
        let (mut steps, mut names) = (Steps::new(self.churn), Names::new(self.churn));
        // In the beginning, when keys are only added, so many changes lie between two of a key.
        let width = steps.apart.min(1_024);
        // A change that is lost is missed by the consumer when the next one comes.
        let (drained, patience) = (|| false, self.churn.patience);
        let mut window = Window::new(&drained, self.done, self.ledger, 0, width as usize, patience);
        while let Some((key, seq)) = steps.next() {
            window.reserve(1)?;
            let (name, object) = (names.key(key, seq), Object::new(0, key as u32, seq));
            match seq {
                1 => self.peer.add(name, object),
                CHANGES => self.peer.delete(name, object),
                _ => self.peer.update(name, object),
            }
            *made += 1;
            if made.is_multiple_of(CHUNK * CHANGES) {
                let elapsed = began.elapsed();
                look(elapsed);
                if elapsed >= self.churn.time && *made >= self.churn.least {
                    steps.end = steps.end.min(steps.step + 1);
                    // Relaxed: who is handed a change that follows from it has it from us, through the queue.
                    self.end.store(steps.end, Ordering::Relaxed);
                }
            }
        }
        window.drain()
    }
}

/// Is handed what it expects.
struct Follower<'a> {
    steps: Steps,
    end: &'a AtomicU64,
    ledger: &'a Ledger<'a>,
    leases: u64,
}

impl Handler for Follower<'_> {
    #[inline]
    fn lease<'d>(&mut self, key: &Key, mut deltas: impl Iterator<Item = (Kind, &'d Object)>) {
        self.leases += 1;
        // Relaxed: see where it is stored.
        self.steps.end = self.end.load(Ordering::Relaxed);
        let Some((number, seq)) = self.steps.next() else {
            return self.ledger.stop(format_args!("{key}: a lease when all keys have gone"));
        };
        let kind = match seq {
            1 => Kind::Added,
            CHANGES => Kind::Deleted,
            _ => Kind::Updated,
        };
        let first = deltas.next().map(|(kind, object)| (kind, object.key, object.seq, object.is_whole()));
        let is_it = key.len() > DIGITS && u64::from_str_radix(&key[key.len() - DIGITS..], 16) == Ok(number);
        if !is_it || first != Some((kind, number as u32, seq, true)) || deltas.next().is_some() {
            self.ledger.stop(format_args!("{key}: {first:?} instead of change {seq} of key {number}"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{Broken, Fault};
    use super::*;
    use crate::peers::{Baseline, Parking, Sharded, ShardedMutex};

    const SHORT: Churn =
        Churn { living: 100, time: Duration::from_millis(20), least: 0, patience: Duration::from_secs(20) };

    #[test]
    fn every_key_changes_five_times() {
        let mut steps = Steps { end: 10, ..Steps::new(Churn { living: 8, ..SHORT }) };
        let all: Vec<_> = steps.by_ref().collect();
        assert_eq!(all.len() as u64, 10 * CHANGES);
        assert_eq!(all[..4], [(0, 1), (1, 1), (2, 1), (0, 2)]);
        for key in 0..10 {
            let seqs: Vec<u64> = all.iter().filter(|change| change.0 == key).map(|change| change.1).collect();
            assert_eq!(seqs, [1, 2, 3, 4, 5]);
        }
        assert_eq!(steps.next(), None);
    }

    fn check<P: Peer>() {
        for living in [4, 100] {
            let churned = run(&P::new(), Churn { living, ..SHORT }, 3, || 7);
            assert_eq!(churned.violations, [""; 0]);
            assert_eq!((churned.changes % CHANGES, &*churned.looks), (0, &[7; 3][..]));
            assert!(churned.changes > 0 && churned.ns_per_change() > 0.0);
        }
    }

    #[test]
    fn every_peer_forgets_what_is_gone() {
        check::<Sharded>();
        check::<Baseline>();
        check::<Parking>();
        check::<ShardedMutex>();
        assert!(empty(SHORT).ns_per_change() > 0.0);
    }

    #[test]
    fn broken_queues_are_found_out() {
        // They are so at change 1,500.
        let churn = Churn { least: 3_000, ..SHORT };
        for (fault, by) in [
            (Fault::LosesAChange, "instead of change"),
            (Fault::DeliversAChangeTwice, "instead of change"),
            (Fault::SwapsTheObjectsOfTwoKeys, "instead of change"),
            (Fault::CountsAMergeThatNeverWas, "1 merged"),
        ] {
            let violations = run(&Broken::with(fault), churn, 0, || 0).violations;
            assert!(violations.iter().any(|text| text.contains(by)), "{fault:?}: {violations:?}");
        }
    }
}
