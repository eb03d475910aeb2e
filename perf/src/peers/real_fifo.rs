//! B4, RealFIFO's structure: a line of deltas that knows no keys, and one consumer.
//!
//! Nothing is gathered by key: each change is handed out by itself, in the order of arrival. A batch ends before the second
//! change of a key, at 1,000 at the latest, and becomes known in one transaction. Only one consumer works at a time, the
//! others wait for it, handlers included: so no key is in two. With 2,000 changes queued it keeps the lock of the line while
//! it processes, and producers wait.
//!
//! What is better than the original: the consumer takes all that is in line at once, producers wake it only if it sleeps, a
//! batch of changes takes the lock once, keys are hashed and objects are made and dropped outside of it.

use std::collections::VecDeque;
use std::hash::BuildHasher;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use crossbeam_utils::CachePadded;
use parking_lot::{Condvar, Mutex, MutexGuard, RwLock};

use super::known::Known;
use super::pending::Value;
use super::sleep::spin_while;
use super::{Handler, Hashing, Kind, Peer};
use crate::workload::{Key, Object};

/// As client-go has it.
const MOST_IN_A_BATCH: usize = 1_000;
const UNLOCKED_BELOW: usize = 2 * MOST_IN_A_BATCH;

pub struct RealFifo {
    state: CachePadded<Mutex<CachePadded<State>>>,
    /// Whether the line is empty, for the consumer that spins a little before it sleeps.
    empty: CachePadded<AtomicBool>,
    changed: Condvar,
    consumer: CachePadded<Mutex<Taken>>,
    /// What the consumer has taken and not handed out. Written by the consumer alone.
    taken: CachePadded<AtomicUsize>,
    leased: AtomicUsize,
    known: CachePadded<RwLock<Known>>,
    hashing: Hashing,
}

#[derive(Default)]
struct State {
    line: VecDeque<Delta>,
    /// The one consumer sleeps and nobody has woken it yet.
    sleeps: bool,
    closed: bool,
}

/// What belongs to whoever is the consumer.
#[derive(Default)]
struct Taken {
    deltas: VecDeque<Delta>,
    batch: Vec<Delta>,
    distinct: Distinct,
    replaced: Vec<(Option<Key>, Value)>,
}

struct Delta {
    hash: u64,
    key: Key,
    kind: Kind,
    value: Value,
}

/// The keys of one batch: an open table, in which what other batches have left counts as free.
struct Distinct {
    /// The batch's number and the place in it.
    slots: Box<[(u32, u32)]>,
    batch: u32,
}

impl Default for Distinct {
    fn default() -> Self {
        Self { slots: vec![(0, 0); (2 * MOST_IN_A_BATCH).next_power_of_two()].into(), batch: 0 }
    }
}

impl Distinct {
    fn begin(&mut self) {
        self.batch = self.batch.wrapping_add(1);
        if self.batch == 0 {
            self.slots.fill((0, 0));
            self.batch = 1;
        }
    }

    /// Whether the key of `next` is none of the batch's so far; then it is from now on.
    #[inline]
    fn insert(&mut self, batch: &[Delta], next: &Delta) -> bool {
        let mask = self.slots.len() - 1;
        let mut slot = next.hash as usize & mask;
        while self.slots[slot].0 == self.batch {
            let other = &batch[self.slots[slot].1 as usize];
            if other.hash == next.hash && other.key == next.key {
                return false;
            }
            slot = (slot + 1) & mask;
        }
        self.slots[slot] = (self.batch, batch.len() as u32);
        true
    }
}

impl RealFifo {
    #[inline]
    fn delta(&self, kind: Kind, key: Key, object: Object) -> Delta {
        Delta { hash: self.hashing.hash_one(&key), key, kind, value: Arc::new(object) }
    }

    #[inline]
    fn push(&self, deltas: impl Iterator<Item = Delta>) {
        let mut state = self.state.lock();
        state.line.extend(deltas);
        let wake = std::mem::take(&mut state.sleeps);
        // Relaxed: a hint; whoever acts on it takes the lock. Written only when it changes: the line is read by a spinner.
        if self.empty.load(Ordering::Relaxed) {
            self.empty.store(false, Ordering::Relaxed);
        }
        drop(state);
        if wake {
            self.changed.notify_one();
        }
    }

    /// Takes all that is in line, if nothing is left of what was taken before. `false`: closed, and there is nothing.
    #[inline]
    fn take(&self, taken: &mut Taken) -> bool {
        if !taken.deltas.is_empty() {
            return true;
        }
        spin_while(|| self.empty.load(Ordering::Relaxed));
        let mut state = self.state.lock();
        while state.line.is_empty() {
            if state.closed {
                return false;
            }
            state.sleeps = true;
            self.changed.wait(&mut state);
        }
        std::mem::swap(&mut state.line, &mut taken.deltas);
        self.taken.store(taken.deltas.len(), Ordering::Relaxed);
        self.empty.store(true, Ordering::Relaxed);
        true
    }

    /// The next deltas of different keys go into the batch, and become known. `None`: closed, and there is nothing.
    /// Otherwise the lock of the line, if too much is queued.
    #[inline]
    fn begin(&self, max: usize, taken: &mut Taken) -> Option<Option<MutexGuard<'_, CachePadded<State>>>> {
        while taken.batch.is_empty() {
            if !self.take(taken) {
                return None;
            }
            let Taken { deltas, batch, distinct, .. } = taken;
            if max > 1 {
                distinct.begin();
            }
            let most = max.min(MOST_IN_A_BATCH).min(deltas.len());
            while batch.len() < most {
                if max > 1 && !distinct.insert(batch, &deltas[0]) {
                    break;
                }
                batch.extend(deltas.pop_front());
            }
            self.taken.store(deltas.len(), Ordering::Relaxed);
            self.make_known(taken);
        }
        self.leased.store(taken.batch.len(), Ordering::Relaxed);
        Some((taken.deltas.len() >= UNLOCKED_BELOW).then(|| self.state.lock()))
    }

    /// A deletion of what is not known is handed out to nobody.
    #[inline]
    fn make_known(&self, taken: &mut Taken) {
        let Taken { batch, replaced, .. } = taken;
        let mut known = self.known.write();
        batch.retain(|delta| match delta.kind {
            Kind::Deleted => match known.remove(delta.hash, &delta.key) {
                Some((key, value)) => {
                    replaced.push((Some(key), value));
                    true
                }
                None => false,
            },
            _ => {
                let previous = known.insert(delta.hash, &delta.key, Value::clone(&delta.value));
                replaced.extend(previous.map(|value| (None, value)));
                true
            }
        });
    }

    fn process(&self, max: usize, handler: &mut impl Handler) -> usize {
        let mut taken = self.consumer.lock();
        let Some(locked) = self.begin(max, &mut taken) else { return 0 };
        for delta in &taken.batch {
            handler.lease(&delta.key, std::iter::once((delta.kind, &*delta.value)));
        }
        drop(locked);
        self.leased.store(0, Ordering::Relaxed);
        let count = taken.batch.len();
        taken.batch.clear();
        taken.replaced.clear();
        count
    }
}

impl Peer for RealFifo {
    type Scratch = Vec<Prepared>;

    /// A change is handed out by itself.
    const GATHERS: bool = false;

    fn new() -> Self {
        Self {
            state: CachePadded::default(),
            empty: CachePadded::new(AtomicBool::new(true)),
            changed: Condvar::new(),
            consumer: CachePadded::default(),
            taken: CachePadded::default(),
            leased: AtomicUsize::new(0),
            known: CachePadded::default(),
            hashing: Hashing::default(),
        }
    }

    #[inline]
    fn add(&self, key: Key, object: Object) {
        self.push(std::iter::once(self.delta(Kind::Added, key, object)));
    }

    #[inline]
    fn update(&self, key: Key, object: Object) {
        self.push(std::iter::once(self.delta(Kind::Updated, key, object)));
    }

    fn delete(&self, key: Key, object: Object) {
        self.push(std::iter::once(self.delta(Kind::Deleted, key, object)));
    }

    fn update_all(&self, batch: &mut Vec<(Key, Object)>, scratch: &mut Vec<Prepared>) {
        let deltas = batch.drain(..).map(|(key, object)| self.delta(Kind::Updated, key, object));
        scratch.extend(deltas.map(Prepared));
        self.push(scratch.drain(..).map(|Prepared(delta)| delta));
    }

    fn pop(&self, handler: &mut impl Handler) -> bool {
        self.process(1, handler) > 0
    }

    fn pop_batch(&self, max: usize, handler: &mut impl Handler, _: &mut Vec<Prepared>) -> usize {
        self.process(max, handler)
    }

    fn close(&self) {
        let mut state = self.state.lock();
        (state.closed, state.sleeps) = (true, false);
        drop(state);
        self.changed.notify_one();
    }

    #[inline]
    fn get_with<R>(&self, key: &Key, f: impl FnOnce(&Object) -> R) -> Option<R> {
        let value = self.known.read().get(self.hashing.hash_one(key), key)?;
        Some(f(&value))
    }

    fn known_len(&self) -> usize {
        self.known.read().len()
    }

    fn pending_len(&self) -> usize {
        self.state.lock().line.len() + self.taken.load(Ordering::Relaxed)
    }

    fn leased_len(&self) -> usize {
        self.leased.load(Ordering::Relaxed)
    }

    fn merged(&self) -> u64 {
        0
    }
}

/// A change of a batch before the lock is taken.
pub struct Prepared(Delta);
