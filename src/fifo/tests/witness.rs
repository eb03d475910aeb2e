//! Keys and objects that are counted, and the book in which every completed lease is entered.

use std::borrow::Borrow;
use std::cell::Cell;
use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher, Hash, Hasher};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};

use crate::builder::Builder;
use crate::delta::DeltaKind;
use crate::fifo::DeltaFifo;
use crate::known::KnownView;
use crate::lease::Lease;
use crate::queue::DeltaQueue;

/// Nothing that is waited for here takes so long.
pub(super) const LONG: Duration = Duration::from_secs(60);

pub(super) type Queue = DeltaFifo<Name, Thing, Hashed>;

/// How many there are of something.
#[derive(Clone, Debug, Default)]
pub(super) struct Census(Arc<AtomicUsize>);

impl Census {
    pub(super) fn alive(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }

    fn born(&self) -> Alive {
        self.0.fetch_add(1, Ordering::SeqCst);
        Alive(self.clone())
    }
}

#[derive(Debug)]
struct Alive(Census);

impl Clone for Alive {
    fn clone(&self) -> Self {
        self.0.born()
    }
}

impl Drop for Alive {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// A key.
#[derive(Clone, Debug)]
pub(super) struct Name {
    name: u32,
    _alive: Alive,
}

impl PartialEq for Name {
    fn eq(&self, other: &Self) -> bool {
        if FUSED.get() {
            resume_unwind(Box::new("a key's Eq panics"));
        }
        self.name == other.name
    }
}

impl Eq for Name {}

thread_local! {
    static FUSED: Cell<bool> = const { Cell::new(false) };
}

/// User code panics meanwhile, in this thread: the keys' `Eq`, and whatever asks [`stumble_over`]. It comes to nothing here.
pub(super) fn panicking(step: impl FnOnce()) {
    FUSED.set(true);
    let stepped = catch_unwind(AssertUnwindSafe(step));
    FUSED.set(false);
    drop(stepped);
}

/// Panics over the key of this name, within [`panicking`].
pub(super) fn stumble_over(key: &Name, name: u32) {
    if FUSED.get() && key.name == name {
        resume_unwind(Box::new("a user's code panics"));
    }
}

impl Hash for Name {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name.hash(state);
    }
}

impl Borrow<u32> for Name {
    fn borrow(&self) -> &u32 {
        &self.name
    }
}

/// An object: no two have the same number.
#[derive(Clone, Debug)]
pub(super) struct Thing {
    pub(super) number: u32,
    _alive: Alive,
}

impl Thing {
    /// In nobody's book.
    pub(super) fn of_a_store() -> Self {
        Thing { number: 0, _alive: Census::default().born() }
    }
}

/// Keys are either spread over the buckets or all equal, which makes them neighbours everywhere.
#[derive(Clone, Copy)]
pub(super) enum Hashed {
    Alike,
    Apart,
}

pub(super) struct Number(Hashed, u64);

impl Hasher for Number {
    fn finish(&self) -> u64 {
        match self.0 {
            Hashed::Alike => 0,
            Hashed::Apart => self.1,
        }
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.1 = self.1 << 8 | u64::from(*byte));
    }

    fn write_u32(&mut self, number: u32) {
        self.1 = u64::from(number) + 1;
    }
}

impl BuildHasher for Hashed {
    type Hasher = Number;

    fn build_hasher(&self) -> Number {
        Number(*self, 0)
    }
}

/// One delta of a lease that was completed.
#[derive(Clone, Copy, Debug)]
struct Entry {
    key: u32,
    kind: DeltaKind,
    number: Option<u32>,
}

/// A queue, and what has been seen of it.
pub(super) struct World {
    pub(super) queue: Arc<Queue>,
    keys: Census,
    things: Census,
    numbers: AtomicU32,
    /// Who made which object.
    makers: Mutex<HashMap<u32, ThreadId>>,
    completed: Mutex<Vec<Entry>>,
    /// Of changes that were accepted.
    accepted: Mutex<Vec<u32>>,
}

impl World {
    pub(super) fn new(
        hashed: Hashed,
        choose: impl FnOnce(Builder<Name, Thing, Hashed>) -> Builder<Name, Thing, Hashed>,
    ) -> Self {
        World {
            queue: Arc::new(choose(Builder::with_hasher(hashed).shards(1)).build()),
            keys: Census::default(),
            things: Census::default(),
            numbers: AtomicU32::new(1),
            makers: Mutex::default(),
            completed: Mutex::default(),
            accepted: Mutex::default(),
        }
    }

    pub(super) fn key(&self, name: u32) -> Name {
        Name { name, _alive: self.keys.born() }
    }

    pub(super) fn thing(&self) -> Thing {
        let number = self.numbers.fetch_add(1, Ordering::SeqCst);
        self.makers.lock().unwrap().insert(number, thread::current().id());
        Thing { number, _alive: self.things.born() }
    }

    fn live<E>(&self, change: impl FnOnce(Thing) -> Result<(), E>) -> Option<u32> {
        let thing = self.thing();
        let number = thing.number;
        change(thing).is_ok().then(|| {
            self.accepted.lock().unwrap().push(number);
            number
        })
    }

    /// The number of the object, if the queue took it; so with the others.
    pub(super) fn add(&self, name: u32) -> Option<u32> {
        self.live(|thing| self.queue.add(self.key(name), thing))
    }

    pub(super) fn update(&self, name: u32) -> Option<u32> {
        self.live(|thing| self.queue.update(self.key(name), thing))
    }

    pub(super) fn apply(&self, name: u32) -> Option<u32> {
        self.live(|thing| self.queue.apply(self.key(name), thing))
    }

    pub(super) fn delete(&self, name: u32) {
        let _ = self.queue.delete(self.key(name), self.thing());
    }

    /// Enters what the lease hands out, and completes it.
    pub(super) fn complete<Q>(&self, lease: Lease<'_, Q>)
    where
        Q: DeltaQueue<Key = Name, Value = Thing>,
    {
        let key = lease.key().name;
        let entry = |(kind, number)| Entry { key, kind, number };
        let deltas =
            lease.deltas().iter().map(|delta| (delta.kind(), delta.object().map(|thing| thing.number)));
        self.completed.lock().unwrap().extend(deltas.map(entry));
        lease.done();
    }

    pub(super) fn has_completed(&self, number: u32) -> bool {
        self.completed.lock().unwrap().iter().any(|entry| entry.number == Some(number))
    }

    /// Takes what is in line until the object has been handed out.
    pub(super) fn pop_until(&self, number: u32) {
        let until = Instant::now() + LONG;
        while !self.has_completed(number) {
            assert!(Instant::now() < until, "an object that was added is not handed out: {:?}", self.queue);
            match self.queue.try_pop() {
                Ok(lease) => self.complete(lease),
                Err(_) => thread::yield_now(),
            }
        }
    }

    /// Until a consumer sleeps.
    pub(super) fn wait_for_sleeper(&self) {
        let until = Instant::now() + LONG;
        while !self.queue.consumers.has_sleeping() {
            assert!(Instant::now() < until, "it does not go to sleep");
            thread::sleep(Duration::from_micros(50));
        }
    }

    /// Closes the queue and takes what is left of it. Then everything must add up.
    pub(super) fn end(self, merges: bool) {
        self.queue.close();
        while let Ok(lease) = self.queue.pop() {
            self.complete(lease);
        }
        assert_eq!((self.queue.pending_len(), self.queue.leased_len()), (0, 0), "{:?}", self.queue);
        if self.queue.keeps_known() {
            self.check_known();
        }
        if !merges {
            self.check_each_once();
        }
        let queue = Arc::into_inner(self.queue).expect("nobody else has it");
        drop(queue);
        assert_eq!((self.keys.alive(), self.things.alive()), (0, 0), "keys and objects are left");
    }

    /// What is known is what the last lease of each key said.
    fn check_known(&self) {
        let mut last = HashMap::new();
        for entry in &*self.completed.lock().unwrap() {
            last.insert(entry.key, if entry.kind.is_deletion() { None } else { entry.number });
        }
        let known: HashMap<u32, u32> =
            self.queue.known().iter().map(|known| (known.key().name, known.object().number)).collect();
        last.retain(|_, number| number.is_some());
        let last: HashMap<u32, u32> =
            last.into_iter().filter_map(|(key, number)| Some((key, number?))).collect();
        assert_eq!(known, last);
        assert_eq!(self.queue.known().len(), known.len());
    }

    /// Every change was completed once, and those of one key by one thread in their order.
    fn check_each_once(&self) {
        let (mut once, mut newest) = (HashSet::new(), HashMap::new());
        let makers = self.makers.lock().unwrap();
        for entry in &*self.completed.lock().unwrap() {
            if !matches!(entry.kind, DeltaKind::Added | DeltaKind::Updated | DeltaKind::Replaced) {
                continue;
            }
            let number = entry.number.expect("it has an object");
            assert!(once.insert(number), "{entry:?} was handed out twice");
            if entry.kind != DeltaKind::Replaced {
                let before = newest.insert((entry.key, makers[&number]), number);
                assert!(before.is_none_or(|before| before < number), "{entry:?} came after {before:?}");
            }
        }
        for number in &*self.accepted.lock().unwrap() {
            assert!(once.contains(number), "object {number} is lost");
        }
    }
}
