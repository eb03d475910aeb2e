//! W4 and W5: a replace of many objects, while a producer goes on changing some of them.
//!
//! The producer calls at a fixed rate, and a latency counts from the moment when its call was due: one that is held up delays
//! those after it. It runs for a while before the replace, which is the steady state, and until it has ended. No consumer pops
//! meanwhile: the producer has a processor to itself, the replace another. Then everything is popped and checked: each item of
//! the list once, each missing key one tombstone with the object that was known, each change in its order.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;

use super::paced::{latencies, record};
use super::{Key, KeySet, Object};
use crate::peers::{Handler, Kind, Lists};

#[derive(Debug, Clone, Copy)]
pub struct Relist {
    /// All keys are known before; else the replace is the first.
    pub known: bool,
    /// So many of the keys are not in the list: the last ones.
    pub missing: usize,
    /// Calls of the producer in a second.
    pub rate: f64,
    /// How long it runs before the replace, and until it has made the calls that were due in this time.
    pub steady: Duration,
    pub patience: Duration,
}

impl Relist {
    fn steady_calls(&self) -> usize {
        (self.rate * self.steady.as_secs_f64()) as usize
    }
}

#[derive(Debug)]
pub struct Listed {
    /// The call.
    pub replace: Duration,
    /// The pops after it, by one consumer.
    pub handling: Duration,
    /// Nanoseconds of a producer's calls, from when they were due.
    pub steady: Histogram<u64>,
    pub during: Histogram<u64>,
    pub violations: Vec<String>,
}

/// What the process has asked of its allocator.
#[derive(Debug, Clone, Copy)]
pub struct Meter {
    pub live: fn() -> u64,
    /// The most since it was forgotten.
    pub peak: fn() -> u64,
    pub forget_peak: fn(),
}

/// By whom an object is.
const PRODUCER: u32 = 0;
const LIST: u32 = 1;
/// More would be the same again.
const REPORTED: usize = 10;
const BATCH: usize = 256;

pub fn run<P: Lists>(peer: &P, relist: Relist, keys: &KeySet) -> Listed {
    let mut run = Run::new(peer, relist, keys);
    run.fill();
    let list = run.list();
    let (made, stop) = (AtomicUsize::new(0), AtomicBool::new(false));
    let (calls, began, ended) = thread::scope(|scope| {
        let producer = scope.spawn(|| run.produce(&made, &stop));
        thread::sleep(relist.steady);
        // Acquire: those calls ended before the replace began. A producer that is stuck makes no more.
        while made.load(Ordering::Acquire) < relist.steady_calls() && !producer.is_finished() {
            thread::sleep(Duration::from_micros(100));
        }
        let began = Instant::now();
        peer.replace(list);
        let ended = Instant::now();
        // Relaxed: nothing is published with it.
        stop.store(true, Ordering::Relaxed);
        (producer.join().expect("no panic"), began, ended)
    });
    let (mut steady, mut during) = (latencies(), latencies());
    for Call { due, ended: end } in &calls.made {
        if *end < began {
            record(&mut steady, *end - *due);
        } else if *due <= ended {
            record(&mut during, *end - *due);
        }
    }
    for (number, call) in calls.made.iter().enumerate() {
        run.books.wins[number % calls.last.len()] = call.ended >= began;
    }
    run.books.made[..calls.last.len()].copy_from_slice(&calls.last);
    run.books.stuck = calls.stuck;
    let (handling, violations) = run.drain();
    Listed { replace: ended - began, handling, steady, during, violations }
}

/// Nobody else does anything meanwhile. The most bytes that the replace had asked for at once, for each key.
pub fn count<P: Lists>(peer: &P, relist: Relist, keys: &KeySet, meter: Meter) -> (f64, Vec<String>) {
    let mut run = Run::new(peer, relist, keys);
    run.fill();
    let list = run.list();
    let before = (meter.live)();
    (meter.forget_peak)();
    peer.replace(list);
    let bytes = (meter.peak)() - before;
    (bytes as f64 / keys.len() as f64, run.drain().1)
}

struct Run<'a, P> {
    peer: &'a P,
    relist: Relist,
    keys: &'a KeySet,
    books: Books<'a>,
}

/// One call of the producer.
struct Call {
    due: Instant,
    ended: Instant,
}

struct Calls {
    made: Vec<Call>,
    /// The last change of each of its keys.
    last: Vec<u64>,
    stuck: bool,
}

impl<'a, P: Lists> Run<'a, P> {
    fn new(peer: &'a P, relist: Relist, keys: &'a KeySet) -> Self {
        Self { peer, relist, keys, books: Books::new(relist, keys) }
    }

    /// The keys that the producer changes: a few of those that are listed.
    fn busy(&self) -> usize {
        (self.books.listed() / 10).clamp(1, 1_000)
    }

    fn fill(&mut self) {
        if !self.relist.known {
            return;
        }
        let mut scratch = P::Scratch::default();
        for number in 0..self.keys.len() {
            self.peer.add(self.keys.key(number).clone(), Object::new(PRODUCER, number as u32, 1));
            if number % BATCH == BATCH - 1 || number + 1 == self.keys.len() {
                let mut left = number % BATCH + 1;
                while left > 0 {
                    left -= self.peer.pop_batch(left, &mut self.books, &mut scratch);
                }
            }
        }
    }

    fn list(&self) -> Vec<(Key, Object)> {
        let item = |number| (self.keys.key(number).clone(), Object::new(LIST, number as u32, 0));
        (0..self.books.listed()).map(item).collect()
    }

    /// Round its keys, at the rate, until it has been told to stop and owes no call.
    fn produce(&self, calls: &AtomicUsize, stop: &AtomicBool) -> Calls {
        let Relist { known, rate, patience, .. } = self.relist;
        let mut last = vec![u64::from(known); self.busy()];
        let mut made: Vec<Call> =
            Vec::with_capacity((rate * (self.relist.steady.as_secs_f64() + 2.0)) as usize);
        let start = Instant::now();
        for number in 0.. {
            let due = start + Duration::from_secs_f64(number as f64 / rate);
            let mut now = Instant::now();
            while now < due {
                if stop.load(Ordering::Relaxed) {
                    return Calls { made, last, stuck: false };
                }
                std::hint::spin_loop();
                now = Instant::now();
            }
            if now - due > patience {
                return Calls { made, last, stuck: true };
            }
            let key = number % last.len();
            last[key] += 1;
            let (handle, object) = (self.keys.key(key).clone(), Object::new(PRODUCER, key as u32, last[key]));
            if last[key] == 1 {
                self.peer.add(handle, object);
            } else {
                self.peer.update(handle, object);
            }
            made.push(Call { due, ended: Instant::now() });
            // Release: see where it is read.
            calls.store(made.len(), Ordering::Release);
        }
        unreachable!("numbers do not end")
    }

    /// Pops all that is there, and looks whether it was all that had to be.
    fn drain(mut self) -> (Duration, Vec<String>) {
        self.peer.close();
        let began = Instant::now();
        while self.peer.pop(&mut self.books) {}
        let handling = began.elapsed();
        self.books.end(self.peer);
        (handling, self.books.violations)
    }
}

/// What has been handed out, by key.
struct Books<'a> {
    keys: &'a KeySet,
    relist: Relist,
    /// The last change that was made.
    made: Vec<u64>,
    /// Its call ended after the replace had begun, and so it may win over the list.
    wins: Vec<bool>,
    stuck: bool,
    seen: Vec<Seen>,
    violations: Vec<String>,
}

#[derive(Clone, Default)]
struct Seen {
    /// The last change.
    change: u64,
    /// How often it came by the list, and as missing in it.
    replaced: u8,
    buried: u8,
    /// By whom the last object was.
    by_list: bool,
}

impl<'a> Books<'a> {
    fn new(relist: Relist, keys: &'a KeySet) -> Self {
        let seen = vec![Seen::default(); keys.len()];
        let made = vec![u64::from(relist.known); keys.len()];
        let wins = vec![false; keys.len()];
        Self { keys, relist, made, wins, stuck: false, seen, violations: Vec::new() }
    }

    fn listed(&self) -> usize {
        self.keys.len() - self.relist.missing
    }

    #[cold]
    fn violation(&mut self, text: String) {
        if self.violations.len() < REPORTED {
            self.violations.push(text);
        }
    }

    fn see(&mut self, kind: Kind, object: &Object, key: &Key) {
        let number = object.key as usize;
        let is_listed = number < self.listed();
        let is_it = number < self.keys.len() && self.keys.key(number) == key && object.is_whole();
        if !is_it {
            return self.violation(format!("{key}: handed out with an object of key {number}"));
        }
        let seen = &mut self.seen[number];
        seen.by_list = object.producer == LIST;
        let sound = match kind {
            Kind::Added | Kind::Updated => {
                seen.change += 1;
                object.seq == seen.change && !seen.by_list && (kind == Kind::Added) == (object.seq == 1)
            }
            Kind::Replaced => {
                seen.replaced += 1;
                is_listed && seen.by_list && seen.replaced == 1
            }
            Kind::Tombstone => {
                seen.buried += 1;
                !is_listed && object.seq == seen.change && !seen.by_list && seen.buried == 1
            }
            Kind::Deleted | Kind::Sync => false,
        };
        if !sound {
            let (seen, seq) = (seen.clone(), object.seq);
            let Seen { change, replaced, buried, .. } = seen;
            self.violation(format!(
                "{key}: {kind:?} {seq}, the last change {change}, replaced {replaced} times, deleted {buried} times"
            ));
        }
    }

    fn end<P: Lists>(&mut self, peer: &P) {
        if self.stuck {
            self.violation("stuck: the producer waits in vain".into());
        }
        let (listed, known, merged) = (self.listed(), peer.known_len(), peer.merged());
        if known != listed || merged != 0 {
            self.violation(format!(
                "{known} known objects for {listed} in the list, {merged} changes merged"
            ));
        }
        let (pending, leased) = (peer.pending_len(), peer.leased_len());
        if pending != 0 || leased != 0 {
            self.violation(format!("{pending} keys pending and {leased} leased at the end"));
        }
        for number in 0..self.keys.len() {
            let Seen { change, replaced, buried, by_list } = self.seen[number];
            let made = self.made[number];
            // A change that came after the replace wins over the list for its key.
            let replaced_enough = replaced == 1 && (by_list || self.wins[number])
                || replaced == 0 && self.wins[number] && !by_list;
            let sound =
                if number < listed { replaced_enough && buried == 0 } else { replaced == 0 && buried == 1 };
            let last = peer.get_with(self.keys.key(number), |object| (object.producer == LIST, object.seq));
            let expected = (number < listed).then_some((by_list, if by_list { 0 } else { change }));
            if !sound || change != made || last != expected {
                let key = self.keys.key(number);
                self.violation(format!(
                    "{key}: {change} of {made} changes, replaced {replaced} times, deleted {buried} times, known at the end {last:?}"
                ));
            }
        }
    }
}

impl Handler for Books<'_> {
    #[inline]
    fn lease<'d>(&mut self, key: &Key, deltas: impl Iterator<Item = (Kind, &'d Object)>) {
        let mut empty = true;
        for (kind, object) in deltas {
            empty = false;
            self.see(kind, object, key);
        }
        if empty {
            self.violation(format!("{key}: a lease without deltas"));
        }
    }
}

#[cfg(test)]
mod tests;
