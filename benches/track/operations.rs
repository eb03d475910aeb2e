//! The operations that are counted: each in rounds on a queue of its own, whose keys are all known.
//!
//! A round does the operation for [`ROUND`] keys, or calls it that often, and then puts everything back, which is not counted. The first
//! rounds are not counted either: tables have grown then, and what is used again is there to be used. Nothing is left to chance: one
//! thread, fixed seeds, and no operation depends on the clock.

use std::cell::Cell;
use std::hint::black_box;
use std::time::Duration;

use delta_fifo::baseline::MutexDeltaFifo;
use delta_fifo::{Builder, Change, DeltaFifo, DeltaQueue, KnownView, Lease};
use delta_fifo_perf::peers::Hashing;
use delta_fifo_perf::workload::{Key, KeySet, Object};

use super::allocations;

const WARMING: usize = 2;
const COUNTED: usize = 4;
const ROUND: usize = 1_000;
const BATCH: usize = 32;
/// What is the default on two processors; it must not depend on how many this machine has.
const SHARDS: usize = 8;
/// Longer than any run.
const LATER: Duration = Duration::from_secs(1_000_000);

/// One operation of one queue.
pub(crate) struct Operation {
    /// `OPERATION/QUEUE/KEYS`, as criterion's names are.
    pub(crate) name: String,
    run: Box<dyn Fn() -> Counted>,
}

impl Operation {
    pub(crate) fn run(&self) -> Counted {
        (self.run)()
    }
}

/// What was counted, but for what callgrind counts.
#[derive(Default)]
pub(crate) struct Counted {
    /// How many operations.
    pub(crate) times: usize,
    /// Calls that ask for memory.
    pub(crate) allocations: usize,
}

/// All of them, in the order in which they run.
pub(crate) fn all() -> Vec<Operation> {
    let sharded = [1_000, 20_000].into_iter().flat_map(|known| {
        rounds::<DeltaFifo<Key, Object, Hashing>>()
            .map(move |(name, round)| of("sharded", known, name, round))
    });
    let few = |name: &str| ["update", "add", "delete", "pop", "done", "replace", "get_hit"].contains(&name);
    let mutex = rounds::<MutexDeltaFifo<Key, Object, Hashing>>()
        .filter(move |(name, _)| few(name) || name.contains("32"))
        .map(|(name, round)| of("mutex", 1_000, name, round));
    sharded.chain(mutex).collect()
}

fn of<Q: Target + 'static>(queue: &str, known: usize, name: &str, round: Round<Q>) -> Operation {
    Operation {
        name: format!("{name}/{queue}/{known}"),
        run: Box::new(move || {
            let mut stage = Stage::<Q>::new(known);
            let mut counted = Counted::default();
            for number in 0..WARMING + COUNTED {
                stage.number = number;
                let times = round(&stage);
                stage.check();
                if stage.counts() {
                    counted.times += times;
                }
            }
            end_of_operation();
            counted.allocations = stage.allocations.get();
            counted
        }),
    }
}

/// Callgrind counts what runs inside this function.
#[inline(never)]
fn counted_by_callgrind(what: &mut dyn FnMut()) {
    what();
}

/// Callgrind writes down what it has counted when this is called, and begins anew.
#[inline(never)]
fn end_of_operation() {
    black_box(());
}

/// The names of these two, as callgrind matches them.
pub(crate) const COUNTED_FUNCTION: &str = "*counted_by_callgrind*";
pub(crate) const END_FUNCTION: &str = "*end_of_operation*";

trait Target: DeltaQueue<Key = Key, Value = Object, Hasher = Hashing> {}
impl<Q: DeltaQueue<Key = Key, Value = Object, Hasher = Hashing>> Target for Q {}

/// What is counted in one round, and how many operations that was.
type Round<Q> = fn(&Stage<Q>) -> usize;

/// A queue whose keys are all known, between two rounds.
struct Stage<Q> {
    queue: Q,
    keys: KeySet,
    absent: KeySet,
    /// Of the round.
    number: usize,
    /// In what was counted.
    allocations: Cell<usize>,
}

impl<Q: Target> Stage<Q> {
    fn new(known: usize) -> Self {
        let queue: Q = Builder::with_hasher(Hashing::default()).shards(SHARDS).build();
        let (keys, absent) = (KeySet::new(known, 1), KeySet::absent(known, 1));
        let stage = Self { queue, keys, absent, number: 0, allocations: Cell::new(0) };
        for number in 0..known {
            stage.queue.add(stage.keys.key(number).clone(), Object::new(0, number as u32, 0)).unwrap();
        }
        stage.drain(known);
        stage.check();
        stage
    }

    fn counts(&self) -> bool {
        self.number >= WARMING
    }

    /// Runs what is to be counted.
    fn count(&self, what: impl FnOnce()) {
        let mut what = Some(what);
        let mut once = || what.take().expect("once")();
        if !self.counts() {
            return once();
        }
        let before = allocations::calls();
        counted_by_callgrind(&mut once);
        self.allocations.set(self.allocations.get() + allocations::calls() - before);
    }

    /// This round's keys of a set, each with a new object.
    fn objects(&self, keys: &KeySet) -> Vec<(Key, Object)> {
        let first = self.number * ROUND % keys.len();
        let object =
            |number: usize| (keys.key(number).clone(), Object::new(0, number as u32, 1 + self.number as u64));
        (first..first + ROUND).map(object).collect()
    }

    fn update(&self, objects: Vec<(Key, Object)>) {
        for (key, object) in objects {
            self.queue.update(key, object).unwrap();
        }
    }

    /// Makes this round's keys pending.
    fn make_pending(&self) {
        self.update(self.objects(&self.keys));
    }

    /// Leases all that is in line, which are so many.
    fn leases(&self, count: usize) -> Vec<Lease<'_, Q>> {
        let mut leases = Vec::with_capacity(count);
        self.pop_into(&mut leases, count);
        leases
    }

    fn pop_into<'q>(&'q self, leases: &mut Vec<Lease<'q, Q>>, count: usize) {
        for _ in 0..count {
            leases.push(self.queue.try_pop().expect("it is in line"));
        }
    }

    fn drain(&self, count: usize) {
        self.leases(count).into_iter().for_each(Lease::done);
    }

    /// All is as it was before the round.
    fn check(&self) {
        assert_eq!((self.queue.pending_len(), self.queue.leased_len(), self.queue.merged()), (0, 0, 0));
        assert_eq!(self.queue.known().len(), self.keys.len());
    }
}

fn rounds<Q: Target>() -> impl Iterator<Item = (&'static str, Round<Q>)> {
    let rounds: [(&str, Round<Q>); 22] = [
        ("update", update),
        ("update_pending", update_pending),
        ("change_all_32", change_all),
        ("add", add),
        ("delete", delete),
        ("pop", pop),
        ("pop_nothing", pop_nothing),
        ("done", done),
        ("pop_done_batch_32", pop_batch),
        ("requeue", requeue),
        ("requeue_after", requeue_after),
        ("abandon", abandon),
        ("replace", replace),
        ("replace_gone", replace_gone),
        ("resync", resync),
        ("mark", mark),
        ("mark_pending", mark_pending),
        ("processed_through", processed_through),
        ("snapshot", snapshot),
        ("scan", scan),
        ("get_hit", |stage| get(stage, &stage.keys, true)),
        ("get_miss", |stage| get(stage, &stage.absent, false)),
    ];
    rounds.into_iter()
}

fn update<Q: Target>(stage: &Stage<Q>) -> usize {
    let objects = stage.objects(&stage.keys);
    stage.count(|| stage.update(objects));
    stage.drain(ROUND);
    ROUND
}

/// Of keys that wait already.
fn update_pending<Q: Target>(stage: &Stage<Q>) -> usize {
    stage.make_pending();
    update(stage)
}

fn change_all<Q: Target>(stage: &Stage<Q>) -> usize {
    let objects = stage.objects(&stage.keys);
    let change = |(key, object): &(Key, Object)| Change::Update(key.clone(), object.clone());
    let batches: Vec<Vec<_>> =
        objects.chunks(BATCH).map(|batch| batch.iter().map(change).collect()).collect();
    stage.count(|| {
        for batch in batches {
            stage.queue.change_all(batch).unwrap();
        }
    });
    stage.drain(ROUND);
    ROUND
}

fn add<Q: Target>(stage: &Stage<Q>) -> usize {
    let objects = stage.objects(&stage.absent);
    let added = objects.clone();
    stage.count(|| {
        for (key, object) in objects {
            stage.queue.add(key, object).unwrap();
        }
    });
    stage.drain(ROUND);
    for (key, object) in added {
        stage.queue.delete(key, object).unwrap();
    }
    stage.drain(ROUND);
    ROUND
}

fn delete<Q: Target>(stage: &Stage<Q>) -> usize {
    let objects = stage.objects(&stage.keys);
    let deleted = objects.clone();
    stage.count(|| {
        for (key, object) in objects {
            stage.queue.delete(key, object).unwrap();
        }
    });
    stage.drain(ROUND);
    for (key, object) in deleted {
        stage.queue.add(key, object).unwrap();
    }
    stage.drain(ROUND);
    ROUND
}

fn pop<Q: Target>(stage: &Stage<Q>) -> usize {
    stage.make_pending();
    let mut leases = Vec::with_capacity(ROUND);
    stage.count(|| stage.pop_into(&mut leases, ROUND));
    leases.into_iter().for_each(Lease::done);
    ROUND
}

fn pop_nothing<Q: Target>(stage: &Stage<Q>) -> usize {
    stage.count(|| {
        for _ in 0..ROUND {
            assert!(stage.queue.try_pop().is_err());
        }
    });
    ROUND
}

fn done<Q: Target>(stage: &Stage<Q>) -> usize {
    stage.make_pending();
    let leases = stage.leases(ROUND);
    stage.count(|| leases.into_iter().for_each(Lease::done));
    ROUND
}

/// A batch, and its end.
fn pop_batch<Q: Target>(stage: &Stage<Q>) -> usize {
    stage.make_pending();
    stage.count(|| {
        let mut left = ROUND;
        while left > 0 {
            let batch = stage.queue.try_pop_batch(BATCH).expect("there are some in line");
            left -= batch.len();
            batch.done();
        }
    });
    ROUND
}

fn requeue<Q: Target>(stage: &Stage<Q>) -> usize {
    stage.make_pending();
    let leases = stage.leases(ROUND);
    stage.count(|| leases.into_iter().for_each(Lease::requeue));
    stage.drain(ROUND);
    ROUND
}

fn requeue_after<Q: Target>(stage: &Stage<Q>) -> usize {
    stage.make_pending();
    let leases = stage.leases(ROUND);
    stage.count(|| leases.into_iter().for_each(|lease| lease.requeue_after(LATER)));
    // A change ends the delay.
    stage.make_pending();
    stage.drain(ROUND);
    ROUND
}

/// A lease that is dropped without being ended.
fn abandon<Q: Target>(stage: &Stage<Q>) -> usize {
    stage.make_pending();
    let leases = stage.leases(ROUND);
    stage.count(|| drop(leases));
    stage.make_pending();
    stage.drain(ROUND);
    ROUND
}

/// With a list of all that is known, in one call.
fn replace<Q: Target>(stage: &Stage<Q>) -> usize {
    let listed = stage.keys.len();
    let list: Vec<_> = (0..listed)
        .map(|number| (stage.keys.key(number).clone(), Object::new(0, number as u32, 1)))
        .collect();
    stage.count(|| drop(stage.queue.replace(list).unwrap()));
    stage.drain(listed);
    listed
}

/// With an empty list: everything gets its tombstone.
fn replace_gone<Q: Target>(stage: &Stage<Q>) -> usize {
    let known = stage.keys.len();
    stage.count(|| drop(stage.queue.replace([]).unwrap()));
    stage.drain(known);
    for number in 0..known {
        stage.queue.add(stage.keys.key(number).clone(), Object::new(0, number as u32, 1)).unwrap();
    }
    stage.drain(known);
    known
}

fn resync<Q: Target>(stage: &Stage<Q>) -> usize {
    let known = stage.keys.len();
    stage.count(|| assert_eq!(stage.queue.resync().unwrap(), known));
    stage.drain(known);
    known
}

/// Of a queue with nothing pending.
fn mark<Q: Target>(stage: &Stage<Q>) -> usize {
    stage.count(|| {
        for number in 0..ROUND as u64 {
            drop(stage.queue.mark(number).unwrap());
        }
    });
    assert_eq!(stage.queue.processed_through(), Some((ROUND as u64 - 1).into()));
    ROUND
}

/// A look at how far it is, of a queue with nothing pending, when there is a new mark.
fn processed_through<Q: Target>(stage: &Stage<Q>) -> usize {
    const LOOKS: usize = 10;
    for number in 0..LOOKS as u64 {
        drop(stage.queue.mark(number).unwrap());
        stage.count(|| assert_eq!(stage.queue.processed_through(), Some(number.into())));
    }
    LOOKS
}

/// Each behind one more pending key.
fn mark_pending<Q: Target>(stage: &Stage<Q>) -> usize {
    for (number, (key, object)) in stage.objects(&stage.keys).into_iter().enumerate() {
        stage.queue.update(key, object).unwrap();
        stage.count(|| drop(stage.queue.mark(number as u64).unwrap()));
    }
    stage.drain(ROUND);
    assert_eq!(stage.queue.processed_through(), Some((ROUND as u64 - 1).into()));
    ROUND
}

/// And its drop, with a change since the last.
fn snapshot<Q: Target>(stage: &Stage<Q>) -> usize {
    for (key, object) in stage.objects(&stage.keys) {
        stage.queue.update(key, object).unwrap();
        stage.drain(1);
        stage.count(|| drop(black_box(stage.queue.snapshot())));
    }
    ROUND
}

/// Through all of a snapshot, for each object.
fn scan<Q: Target>(stage: &Stage<Q>) -> usize {
    let snapshot = stage.queue.snapshot();
    let mut sum = 0;
    stage.count(|| snapshot.for_each(|_, object| sum += u64::from(object.key)));
    let known = stage.keys.len() as u64;
    assert_eq!(sum, known * (known - 1) / 2);
    stage.keys.len()
}

fn get<Q: Target>(stage: &Stage<Q>, keys: &KeySet, are_there: bool) -> usize {
    stage.count(|| {
        for number in 0..ROUND {
            let got = stage.queue.known().get_with(black_box(keys.key(number)), |object| object.key);
            assert_eq!(got, are_there.then_some(number as u32));
        }
    });
    ROUND
}
