//! What readers of many objects cost, and what they cost the writer.
//!
//! One writer goes round the keys in the order of their numbers, a change to each: so what a snapshot has to show follows from
//! the sum of its changes alone. Each key has as many as the one before it, or one less. Readers take a snapshot and scan it
//! twice, as long as the writer goes on: the first scan sums up, the second compares each object with what follows from that
//! sum. So a snapshot that changes while it is held, that is not of one moment, that has a key too many or too few, or an object
//! that is torn, makes the run void. The price is the same for every store.

use std::hint::black_box;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::{Key, KeySet, Object};
use crate::stores::{Plain, Plan, Snapshot, Store};

/// More would be the same again.
const REPORTED: usize = 10;
/// Operations between two looks at the clock, at most.
const CHUNK: usize = 64;

/// What one thread alone finds.
#[derive(Debug)]
pub struct Times {
    /// Nanoseconds for taking a snapshot: the median, without the clock's own.
    pub snapshot: f64,
    /// And for dropping it, with one change since.
    pub drop: f64,
    /// Nanoseconds per object of a scan that touches every object, of a snapshot that is there.
    pub scan: f64,
}

/// While the writer writes.
#[derive(Debug)]
pub struct Gets {
    /// Nanoseconds per call.
    pub ns: f64,
    pub writes: usize,
}

#[derive(Debug)]
pub struct Written {
    /// Nanoseconds per write.
    pub ns: f64,
    /// Scans that all readers have finished meanwhile.
    pub scans: usize,
}

/// Who reads while the writer writes.
#[derive(Clone, Copy, Debug)]
pub enum Reading {
    /// So many, the store that is written to.
    Of(usize),
    /// One, another map.
    Elsewhere,
}

pub struct Run<'a, S> {
    store: &'a S,
    keys: &'a KeySet,
    writes: usize,
    violations: Vec<String>,
}

/// What a scan has seen.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
struct Seen {
    objects: usize,
    /// A sum over the keys: no key can stand for another.
    keys: u64,
    changes: u64,
    torn: usize,
}

impl Seen {
    #[inline]
    fn add(&mut self, object: &Object) {
        self.objects += 1;
        self.keys = self.keys.wrapping_add(mixed(object.key));
        self.changes += object.seq;
        self.torn += usize::from(!object.is_whole());
    }
}

/// Touches every object.
#[inline]
fn scan(snapshot: &impl Snapshot) -> Seen {
    let mut seen = Seen::default();
    snapshot.scan(|_, object| seen.add(object));
    seen
}

/// The finalizer of splitmix64: sums of it tell sets of numbers apart.
#[inline]
fn mixed(number: u32) -> u64 {
    let z = u64::from(number).wrapping_add(0x9e37_79b9_7f4a_7c15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// What is wrong with a snapshot of all of these keys, by two scans of it.
fn fault(snapshot: &impl Snapshot, keys: &KeySet) -> Option<String> {
    let seen = scan(snapshot);
    let all = (0..keys.len() as u32).map(mixed).fold(0, u64::wrapping_add);
    if (seen.objects, seen.keys) != (keys.len(), all) {
        return Some(format!("{} objects for {} keys, or other keys", seen.objects, keys.len()));
    }
    let (laps, place) = (seen.changes / keys.len() as u64, seen.changes % keys.len() as u64);
    let (mut again, mut strange) = (Seen::default(), 0);
    snapshot.scan(|key, object| {
        again.add(object);
        let expected = keys.key(object.key as usize);
        let is_its_key = Key::ptr_eq(expected, key) || expected == key;
        let is_of_the_moment = object.seq == laps + u64::from(u64::from(object.key) < place);
        strange += usize::from(!(is_its_key && is_of_the_moment));
    });
    if seen != again {
        return Some(format!("{seen:?}, and while it was held {again:?}"));
    }
    (seen.torn + strange > 0)
        .then(|| format!("{} objects torn, {strange} not of the moment or with another key", seen.torn))
}

impl<'a, S: Store> Run<'a, S> {
    pub fn new(store: &'a S, keys: &'a KeySet) -> Self {
        Self { store, keys, writes: 0, violations: Vec::new() }
    }

    pub fn into_violations(self) -> Vec<String> {
        self.violations
    }

    fn report(&mut self, what: &str, fault: Option<String>) {
        if let Some(fault) = fault.filter(|_| self.violations.len() < REPORTED) {
            self.violations.push(format!("{what}: {fault}"));
        }
    }

    pub fn times(&mut self, plan: &Plan) -> Times {
        let clock = median((0..plan.snapshots).map(|_| Instant::now().elapsed()).collect());
        let (mut taken, mut dropped) = (Vec::new(), Vec::new());
        let start = Instant::now();
        // What copies need not be asked as often as what does not.
        while taken.len() < plan.snapshots && (taken.len() < 3 || start.elapsed() < plan.time) {
            // Nothing that is kept ready is still right.
            write(self.store, self.keys, &mut self.writes);
            let (begin, snapshot) = (Instant::now(), self.store.snapshot());
            taken.push(begin.elapsed());
            let snapshot = black_box(snapshot);
            write(self.store, self.keys, &mut self.writes);
            let begin = Instant::now();
            drop(snapshot);
            dropped.push(begin.elapsed());
        }
        let snapshot = self.store.snapshot();
        self.report("a snapshot", fault(&snapshot, self.keys));
        let net = |times| (median(times) - clock).max(0.0);
        Times { snapshot: net(taken), drop: net(dropped), scan: scan_ns(&snapshot, plan.scanned) }
    }

    /// Of keys that are there (all of the store's), or of others, under a writer.
    pub fn gets(&mut self, asked: &KeySet, are_there: bool, time: Duration) -> Gets {
        let (store, keys, before) = (self.store, self.keys, self.writes);
        let (begin, end) = (Barrier::new(2), AtomicBool::new(false));
        let mut wrong = 0;
        let (elapsed, calls) = thread::scope(|scope| {
            scope.spawn(|| {
                begin.wait();
                // Relaxed: a flag; nothing is published with it.
                while !end.load(Ordering::Relaxed) {
                    write(store, keys, &mut self.writes);
                }
            });
            begin.wait();
            let mut numbers = (0..asked.len()).cycle();
            let counted = repeat(time, || {
                let number = numbers.next().expect("a cycle");
                let got = store.get_with(asked.key(number), |object| (object.key, object.is_whole()));
                wrong += usize::from(got != are_there.then_some((number as u32, true)));
            });
            end.store(true, Ordering::Relaxed);
            counted
        });
        self.report("gets", (wrong > 0).then(|| format!("{wrong} of {calls} wrong")));
        Gets { ns: per(elapsed, calls), writes: self.writes - before }
    }

    /// The writer's rate while others read.
    pub fn writes(&mut self, reading: Reading, elsewhere: &Plain, time: Duration) -> Written {
        let (store, keys) = (self.store, self.keys);
        let readers = if let Reading::Of(readers) = reading { readers } else { 1 };
        let (begin, end, scans) = (Barrier::new(readers + 1), AtomicBool::new(false), AtomicUsize::new(0));
        let read = || {
            begin.wait();
            let mut found = None;
            // Relaxed: a flag and a sum; nothing is published with them.
            while found.is_none() && !end.load(Ordering::Relaxed) {
                found = match reading {
                    Reading::Of(_) => fault(&store.snapshot(), keys),
                    Reading::Elsewhere => fault(elsewhere, keys),
                };
                scans.fetch_add(2, Ordering::Relaxed);
            }
            found
        };
        let (elapsed, writes, scanned, found) = thread::scope(|scope| {
            let readers: Vec<_> = (0..readers).map(|_| scope.spawn(read)).collect();
            begin.wait();
            let (elapsed, writes) = repeat(time, || write(store, keys, &mut self.writes));
            let scanned = scans.load(Ordering::Relaxed);
            end.store(true, Ordering::Relaxed);
            let found: Vec<_> = readers.into_iter().map(|it| it.join().expect("no panic")).collect();
            (elapsed, writes, scanned, found)
        });
        found.into_iter().for_each(|fault| self.report("a reader's snapshot", fault));
        // All writes are there, and nothing else.
        let now = scan(&store.snapshot());
        let expected = (keys.len() + self.writes) as u64;
        let lost = now.changes != expected;
        self.report("writes", lost.then(|| format!("{} changes of {expected} are known", now.changes)));
        Written { ns: per(elapsed, writes), scans: scanned }
    }
}

/// Nanoseconds per object of scans that touch every object, over so many objects at least.
pub fn scan_ns(snapshot: &impl Snapshot, objects: usize) -> f64 {
    let (start, mut seen) = (Instant::now(), 0);
    while seen < objects.max(1) {
        let scanned = black_box(scan(snapshot));
        seen += scanned.objects.max(1);
    }
    per(start.elapsed(), seen)
}

/// The next change, all in all the `written`th.
#[inline]
pub(super) fn write<S: Store>(store: &S, keys: &KeySet, written: &mut usize) {
    let number = *written % keys.len();
    let seq = 2 + (*written / keys.len()) as u64;
    store.write(keys.key(number), Object::new(0, number as u32, seq));
    *written += 1;
}

/// At least once. The clock is looked at so rarely that it does not count.
fn repeat(time: Duration, mut what: impl FnMut()) -> (Duration, usize) {
    let start = Instant::now();
    let (mut calls, mut chunk) = (0, 1);
    loop {
        (0..chunk).for_each(|_| what());
        calls += chunk;
        let elapsed = start.elapsed();
        if elapsed >= time {
            return (elapsed, calls);
        }
        // One call of some stores takes longer than all the time there is.
        chunk = if elapsed < time / 8 { (2 * chunk).min(CHUNK) } else { chunk };
    }
}

fn per(elapsed: Duration, calls: usize) -> f64 {
    elapsed.as_nanos() as f64 / calls as f64
}

fn median(mut times: Vec<Duration>) -> f64 {
    let middle = times.len() / 2;
    times.select_nth_unstable(middle).1.as_nanos() as f64
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A snapshot that shows what it is told, in the first scan and in later ones.
    struct Told {
        shown: [Vec<(Key, Object)>; 2],
        scans: AtomicUsize,
    }

    impl Snapshot for Told {
        fn scan(&self, mut see: impl FnMut(&Key, &Object)) {
            let number = self.scans.fetch_add(1, Ordering::Relaxed).min(1);
            self.shown[number].iter().for_each(|(key, object)| see(key, object));
        }
    }

    fn told(keys: &KeySet, spoil: impl Fn(usize, &mut Vec<(Key, Object)>)) -> Option<String> {
        let shown = [0, 1].map(|scan| {
            let seq = |number| if number < 2 { 3 } else { 2 };
            let mut shown: Vec<_> = (0..keys.len())
                .map(|it| (keys.key(it).clone(), Object::new(0, it as u32, seq(it))))
                .collect();
            spoil(scan, &mut shown);
            shown
        });
        fault(&Told { shown, scans: AtomicUsize::new(0) }, keys)
    }

    #[test]
    fn what_is_wrong_with_a_snapshot_is_found() {
        let keys = KeySet::new(5, 1);
        assert_eq!(told(&keys, |_, _| ()), None);
        let found = |spoil: fn(usize, &mut Vec<(Key, Object)>)| told(&keys, spoil).expect("it is spoiled");
        assert!(found(|_, shown| drop(shown.pop())).contains("4 objects for 5 keys"));
        assert!(found(|_, shown| shown[1].1.key = 0).contains("other keys"));
        let other_keys: fn(usize, &mut Vec<(Key, Object)>) = |_, shown| {
            let first = shown[0].0.clone();
            shown[0].0 = std::mem::replace(&mut shown[1].0, first);
        };
        assert!(found(other_keys).contains("2 not of the moment"));
        assert!(found(|_, shown| shown[0].1 = Object::new(0, 0, 2)).contains("not of the moment"));
        assert!(found(|_, shown| shown[4].1.seq = 3).contains("1 objects torn"));
        assert!(found(|scan, shown| shown[2].1 = Object::new(0, 2, 2 + scan as u64)).contains("held"));
    }

    #[test]
    fn the_clock_is_looked_at_after_each_slow_call() {
        let (elapsed, calls) = repeat(Duration::from_millis(1), || thread::sleep(Duration::from_millis(2)));
        assert!(calls == 1 && elapsed >= Duration::from_millis(2));
        let mut count = 0;
        let (_, calls) = repeat(Duration::from_millis(5), || count += 1);
        assert!(calls == count && calls > CHUNK);
    }
}
