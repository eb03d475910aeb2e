//! W11: what an API server once told a client, told to a queue again, round and round, at a fixed rate.
//!
//! The trace says which keys change in which order, and when there is a list; every change is a new object, also in later
//! rounds, each of which begins with the trace's first list. Changes come in pieces, as they do from a network: one every
//! [`PIECE`], with as many calls as the rate makes of it. The producer sleeps between pieces and consumers wait for keys, so that
//! a thread that has nothing to do takes no processor time, and what the process takes can be told. A latency counts from the
//! moment when its piece was due to the lease.
//!
//! [`nothing`] does the same without a queue: the producer makes the pieces, and hands every change to the same handler itself.
//! What a queue takes is what a run of it takes beyond that.

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use parking_lot::Mutex;

use super::paced::{latencies, record};
use super::{Key, Object};
use crate::peers::{Handler, Kind, Lists};

pub const PIECE: Duration = Duration::from_millis(1);
/// Until all threads are there.
const AHEAD: Duration = Duration::from_millis(20);
/// More would be the same again.
const REPORTED: usize = 10;

/// A recording, decoded: keys by their numbers.
#[derive(Debug, PartialEq)]
pub struct Trace {
    pub keys: Vec<Key>,
    pub steps: Vec<Step>,
    /// By key: whether the server had it at the end.
    pub end: Vec<bool>,
}

#[derive(Debug, PartialEq)]
pub enum Step {
    /// All that there is.
    List(Vec<u32>),
    Add(u32),
    Update(u32),
    Delete(u32),
}

impl Trace {
    /// That are told in one round; what a list does not name is not told.
    pub fn changes(&self) -> usize {
        let of = |step: &Step| match step {
            Step::List(items) => items.len(),
            _ => 1,
        };
        self.steps.iter().map(of).sum()
    }
}

#[derive(Debug, Clone, Copy)]
pub struct Replay {
    pub consumers: usize,
    /// Changes in a second.
    pub rate: f64,
    pub rounds: usize,
    /// The processor time that this process has taken.
    pub processor: fn() -> Duration,
}

#[derive(Debug)]
pub struct Replayed {
    /// That were told.
    pub changes: usize,
    /// From the first piece until everything was handled, by all threads.
    pub processor: Duration,
    /// Nanoseconds from the moment when a change was due to its lease.
    pub latencies: Histogram<u64>,
    pub violations: Vec<String>,
}

/// `looks`: one is called when all is ready to begin, the other when all has been handled and the queue is still there.
pub fn run<P: Lists>(peer: &P, replay: Replay, trace: &Trace, looks: [&mut dyn FnMut(); 2]) -> Replayed {
    let books = Books::new(trace, P::BURIES_NEWEST);
    let start = Instant::now() + AHEAD;
    let (mut all, mut model) = (Watcher::new(&books, start), Model::new(trace));
    let [at_start, at_end] = looks;
    let processor = thread::scope(|scope| {
        let consumers: Vec<_> = (0..replay.consumers)
            .map(|_| {
                let mut watcher = Watcher::new(&books, start);
                scope.spawn(move || {
                    while peer.pop(&mut watcher) {}
                    watcher
                })
            })
            .collect();
        thread::sleep(start.saturating_duration_since(Instant::now()));
        at_start();
        let before = (replay.processor)();
        produce(&mut ToPeer(peer), replay, trace, start, &mut model);
        peer.close();
        consumers.into_iter().for_each(|consumer| all.merge(consumer.join().expect("no panic")));
        (replay.processor)() - before
    });
    at_end();
    let Watcher { latencies, changes, .. } = all;
    model.check(&books, changes + peer.merged());
    model.check_end(&books, peer);
    let violations = books.violations.into_inner();
    Replayed { changes: model.told as usize, processor, latencies, violations }
}

/// The same without a queue.
pub fn nothing(replay: Replay, trace: &Trace) -> Replayed {
    let (books, mut model) = (Books::new(trace, true), Model::new(trace));
    let start = Instant::now() + AHEAD;
    thread::sleep(AHEAD);
    let before = (replay.processor)();
    let mut direct = Direct { watcher: Watcher::new(&books, start), newest: vec![None; trace.keys.len()] };
    produce(&mut direct, replay, trace, start, &mut model);
    let processor = (replay.processor)() - before;
    let Watcher { latencies, changes, .. } = direct.watcher;
    model.check(&books, changes);
    let violations = books.violations.into_inner();
    Replayed { changes: model.told as usize, processor, latencies, violations }
}

/// To whom the trace is told.
trait Sink {
    fn change(&mut self, kind: Kind, key: &Key, object: Object);
    fn list(&mut self, list: Vec<(Key, Object)>);
}

struct ToPeer<'p, P>(&'p P);

impl<P: Lists> Sink for ToPeer<'_, P> {
    fn change(&mut self, kind: Kind, key: &Key, object: Object) {
        match kind {
            Kind::Added => self.0.add(key.clone(), object),
            Kind::Deleted => self.0.delete(key.clone(), object),
            _ => self.0.update(key.clone(), object),
        }
    }

    fn list(&mut self, list: Vec<(Key, Object)>) {
        self.0.replace(list);
    }
}

/// The handler, without a queue between.
struct Direct<'a> {
    watcher: Watcher<'a>,
    newest: Vec<Option<Box<Object>>>,
}

impl Sink for Direct<'_> {
    fn change(&mut self, kind: Kind, key: &Key, object: Object) {
        let object = Box::new(object);
        self.watcher.lease(key, [(kind, &*object)].into_iter());
        let number = object.key as usize;
        self.newest[number] = (!kind.deletes()).then_some(object);
    }

    fn list(&mut self, list: Vec<(Key, Object)>) {
        let mut before = std::mem::take(&mut self.newest);
        self.newest.resize_with(before.len(), || None);
        for (key, object) in list {
            before[object.key as usize] = None;
            self.change(Kind::Replaced, &key, object);
        }
        for object in before.into_iter().flatten() {
            let keys = self.watcher.books.keys;
            self.watcher.lease(&keys[object.key as usize], [(Kind::Tombstone, &*object)].into_iter());
        }
    }
}

/// Tells the trace round and round, and what must come of it.
fn produce(sink: &mut impl Sink, replay: Replay, trace: &Trace, start: Instant, model: &mut Model) {
    let mut piece = 0;
    for step in (0..replay.rounds).flat_map(|_| &trace.steps) {
        // A change is told with the piece in which the rate has it.
        let due = (model.told as f64 / replay.rate / PIECE.as_secs_f64()) as u32;
        if due > piece {
            piece = due;
            thread::sleep((start + PIECE * piece).saturating_duration_since(Instant::now()));
        }
        let mut object = |number: u32, kind| Object::new(piece, number, model.tell(number as usize, kind));
        let mut change = |number: u32, kind| {
            let object = object(number, kind);
            sink.change(kind, &trace.keys[number as usize], object);
        };
        match step {
            Step::Add(number) => change(*number, Kind::Added),
            Step::Update(number) => change(*number, Kind::Updated),
            Step::Delete(number) => change(*number, Kind::Deleted),
            Step::List(items) => {
                let item = |&number| (trace.keys[number as usize].clone(), object(number, Kind::Replaced));
                let list: Vec<_> = items.iter().map(item).collect();
                model.bury_unlisted(items);
                sink.list(list);
            }
        }
    }
}

/// What was told, by key.
struct Model {
    keys: Vec<Told>,
    told: u64,
    tombstones: u64,
    end: Vec<bool>,
}

#[derive(Clone, Default)]
struct Told {
    changes: u64,
    exists: bool,
    tombstones: u64,
    listed: bool,
}

impl Model {
    fn new(trace: &Trace) -> Self {
        let keys = vec![Told::default(); trace.keys.len()];
        Self { keys, told: 0, tombstones: 0, end: trace.end.clone() }
    }

    /// One more change of a key; its number.
    fn tell(&mut self, number: usize, kind: Kind) -> u64 {
        self.told += 1;
        let key = &mut self.keys[number];
        key.exists = !kind.deletes();
        key.changes += 1;
        key.changes
    }

    fn bury_unlisted(&mut self, items: &[u32]) {
        items.iter().for_each(|&number| self.keys[number as usize].listed = true);
        for key in &mut self.keys {
            if key.exists && !key.listed {
                key.exists = false;
                key.tombstones += 1;
                self.tombstones += 1;
            }
            key.listed = false;
        }
    }

    /// All that was told has been handed out.
    fn check(&self, books: &Books<'_>, handed_out: u64) {
        let due = self.told + self.tombstones;
        if handed_out != due {
            books.violation(format!(
                "{} changes and {} tombstones, but {handed_out} handed out or merged",
                self.told, self.tombstones
            ));
        }
        for (number, told) in self.keys.iter().enumerate() {
            let seen = books.seen(number);
            let key = &books.keys[number];
            if (seen.changes, seen.exists, seen.tombstones) != (told.changes, told.exists, told.tombstones) {
                books.violation(format!("{key}: {seen:?} is not all of it, which is {told:?}"));
            }
            if told.exists != self.end[number] {
                books.violation(format!("{key}: the trace does not end as it was recorded"));
            }
        }
    }

    /// What is known is what the server had at the end.
    fn check_end<P: Lists>(&self, books: &Books<'_>, peer: &P) {
        let (pending, leased, known) = (peer.pending_len(), peer.leased_len(), peer.known_len());
        let there = self.end.iter().filter(|exists| **exists).count();
        if pending != 0 || leased != 0 || known != there {
            books.violation(format!(
                "{pending} keys pending, {leased} leased and {known} known at the end, not {there}"
            ));
        }
        for (number, told) in self.keys.iter().enumerate() {
            let key = &books.keys[number];
            let last = peer.get_with(key, |object| (object.key as usize, object.seq));
            let expected = told.exists.then_some((number, told.changes));
            if last != expected {
                books.violation(format!("{key}: known at the end is {last:?}, not {expected:?}"));
            }
        }
    }
}

impl std::fmt::Debug for Told {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { changes, exists, tombstones, .. } = self;
        write!(f, "{changes} changes, {tombstones} tombstones, {}", if *exists { "there" } else { "gone" })
    }
}

/// What was handed out, by key.
struct Books<'a> {
    keys: &'a [Key],
    /// See [`word`].
    words: Vec<AtomicU64>,
    tombstones: Vec<AtomicU64>,
    /// See [`Lists::BURIES_NEWEST`].
    buries_newest: bool,
    violations: Mutex<Vec<String>>,
}

const LEASED: u64 = 1;
const EXISTS: u64 = 2;

/// The last change, whether the key exists, and whether a consumer has it.
fn word(changes: u64, exists: bool) -> u64 {
    changes << 2 | if exists { EXISTS } else { 0 }
}

impl<'a> Books<'a> {
    fn new(trace: &'a Trace, buries_newest: bool) -> Self {
        let zeros = || trace.keys.iter().map(|_| AtomicU64::new(0)).collect();
        Self {
            keys: &trace.keys,
            words: zeros(),
            tombstones: zeros(),
            buries_newest,
            violations: Mutex::default(),
        }
    }

    #[cold]
    fn violation(&self, text: String) {
        let mut violations = self.violations.lock();
        if violations.len() < REPORTED {
            violations.push(text);
        }
    }

    /// When all threads have gone home.
    fn seen(&self, number: usize) -> Told {
        let word = self.words[number].load(Ordering::Relaxed);
        let tombstones = self.tombstones[number].load(Ordering::Relaxed);
        Told { changes: word >> 2, exists: word & EXISTS != 0, tombstones, listed: false }
    }
}

/// A consumer's handler.
struct Watcher<'a> {
    books: &'a Books<'a>,
    start: Instant,
    latencies: Histogram<u64>,
    changes: u64,
}

impl<'a> Watcher<'a> {
    fn new(books: &'a Books<'a>, start: Instant) -> Self {
        Self { books, start, latencies: latencies(), changes: 0 }
    }

    fn merge(&mut self, other: Self) {
        self.latencies += other.latencies;
        self.changes += other.changes;
    }
}

impl Handler for Watcher<'_> {
    #[inline]
    fn lease<'d>(&mut self, key: &Key, deltas: impl Iterator<Item = (Kind, &'d Object)>) {
        let now = Instant::now();
        let books = self.books;
        let mut of = None;
        let (mut changes, mut exists) = (0, false);
        for (kind, object) in deltas {
            let number = object.key as usize;
            if of.is_none() {
                // AcqRel: who finds two leases at once finds them in the order of this word.
                let before = books.words[number].fetch_or(LEASED, Ordering::AcqRel);
                if before & LEASED != 0 {
                    books.violation(format!("{key}: in a second consumer during its lease"));
                }
                if books.keys[number] != *key {
                    books.violation(format!("{key}: handed out with an object of {}", books.keys[number]));
                }
                (of, changes, exists) = (Some(number), before >> 2, before & EXISTS != 0);
            }
            let follows = match kind {
                Kind::Added => !exists && object.seq == changes + 1,
                Kind::Updated | Kind::Deleted => exists && object.seq == changes + 1,
                Kind::Replaced => object.seq == changes + 1,
                Kind::Tombstone => {
                    exists && (object.seq == changes || object.seq < changes && !books.buries_newest)
                }
                Kind::Sync => false,
            };
            if of != Some(number) {
                books.violation(format!("{key}: handed out with an object of {}", books.keys[number]));
            } else if !follows || !object.is_whole() {
                let seq = object.seq;
                books.violation(format!("{key}: {kind:?} {seq} follows change {changes}"));
            }
            if kind == Kind::Tombstone {
                // Relaxed: counted by whoever has the lease, read at the end.
                books.tombstones[number].fetch_add(1, Ordering::Relaxed);
            } else {
                record(
                    &mut self.latencies,
                    now.saturating_duration_since(self.start + PIECE * object.producer),
                );
            }
            (changes, exists) = (object.seq.max(changes), !kind.deletes());
            self.changes += 1;
        }
        match of {
            // Release: pairs with the exchange of the next lease.
            Some(number) => books.words[number].store(word(changes, exists), Ordering::Release),
            None => books.violation(format!("{key}: a lease without deltas")),
        }
    }
}

#[cfg(test)]
mod tests;
