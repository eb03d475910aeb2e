//! B2, what one writes first with a concurrent map at hand: papaya's with all keys, and crossbeam's `SegQueue` as the line.
//!
//! The map has room for all keys from the beginning. A key stays in it while it is known or anything of it is pending, so
//! that consumers look nothing up. What happens to one key is behind a small lock of its own.

use std::sync::Arc;

use crossbeam_queue::SegQueue;
use crossbeam_utils::CachePadded;
use papaya::{Guard, HashMap};
use parking_lot::Mutex;

use super::pending::{Deltas, Value};
use super::sleep::{Sleep, pop_or_wait};
use super::{Handler, Hashing, Kind, Peer, Setup};
use crate::workload::{Key, Object};

pub struct Papaya {
    slots: HashMap<Key, Arc<Slot>, Hashing>,
    line: CachePadded<SegQueue<Arc<Slot>>>,
    sleep: Sleep,
}

struct Slot {
    key: Key,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    deltas: Deltas,
    known: Option<Value>,
    place: Place,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Place {
    #[default]
    Idle,
    InLine,
    Leased,
    /// No longer in the map: whoever finds it looks again.
    Gone,
}

struct Lease {
    slot: Arc<Slot>,
    deltas: Deltas,
    /// The known object before these deltas, to be dropped outside the lock.
    _previous: Option<Value>,
}

impl Lease {
    fn deltas(&self) -> impl Iterator<Item = (Kind, &Object)> {
        self.deltas.iter().map(|(kind, value)| (*kind, &**value))
    }
}

impl Slot {
    fn new(key: Key) -> Arc<Self> {
        Arc::new(Self { key, state: Mutex::default() })
    }

    /// Its newest object becomes known, or is forgotten if it was deleted.
    #[inline]
    fn lease(self: Arc<Self>) -> Lease {
        let mut state = self.state.lock();
        state.place = Place::Leased;
        let deltas = std::mem::take(&mut state.deltas);
        let (kind, newest) = deltas.last().expect("in line with deltas");
        let _previous = match kind {
            Kind::Deleted => state.known.take(),
            _ => state.known.replace(Value::clone(newest)),
        };
        drop(state);
        Lease { slot: self, deltas, _previous }
    }
}

impl Papaya {
    /// Whether the key has gone in line.
    #[inline]
    fn change(&self, kind: Kind, key: Key, object: Object, guard: &impl Guard) -> bool {
        let value = Arc::new(object);
        loop {
            let slot = match self.slots.get(&key, guard) {
                Some(slot) => slot,
                None => {
                    self.slots.get_or_insert_with(Key::clone(&key), || Slot::new(Key::clone(&key)), guard)
                }
            };
            let mut state = slot.state.lock();
            if state.place != Place::Gone {
                state.deltas.push((kind, value));
                let goes_in_line = state.place == Place::Idle;
                if goes_in_line {
                    state.place = Place::InLine;
                    drop(state);
                    self.line.push(Arc::clone(slot));
                }
                return goes_in_line;
            }
        }
    }

    /// The same for one change alone.
    #[inline]
    fn change_one(&self, kind: Kind, key: Key, object: Object) {
        let fresh = self.change(kind, key, object, &self.slots.guard());
        self.sleep.wake(usize::from(fresh));
    }

    /// Whether the key has gone in line again.
    #[inline]
    fn end(&self, lease: &Lease) -> bool {
        let slot = &lease.slot;
        let mut state = slot.state.lock();
        if !state.deltas.is_empty() {
            state.place = Place::InLine;
            drop(state);
            self.line.push(Arc::clone(slot));
            return true;
        }
        state.place = if state.known.is_some() { Place::Idle } else { Place::Gone };
        if state.place == Place::Gone {
            // Under the lock: who waits for it finds the key gone from the map too.
            _ = self.slots.remove(&slot.key, &self.slots.guard());
        }
        false
    }

    fn count(&self, counts: impl Fn(&State) -> bool) -> usize {
        self.slots.pin().values().filter(|slot| counts(&slot.state.lock())).count()
    }
}

impl Peer for Papaya {
    type Scratch = ();

    fn new() -> Self {
        Self::set_up(&Setup { keys: 0, parts: crate::workload::Parts::default() })
    }

    fn set_up(setup: &Setup) -> Self {
        Self {
            slots: HashMap::with_capacity_and_hasher(setup.keys, Hashing::default()),
            line: CachePadded::default(),
            sleep: Sleep::default(),
        }
    }

    #[inline]
    fn add(&self, key: Key, object: Object) {
        self.change_one(Kind::Added, key, object);
    }

    #[inline]
    fn update(&self, key: Key, object: Object) {
        self.change_one(Kind::Updated, key, object);
    }

    fn delete(&self, key: Key, object: Object) {
        let guard = self.slots.guard();
        let Some(slot) = self.slots.get(&key, &guard) else { return };
        let mut state = slot.state.lock();
        let exists = match state.deltas.last() {
            Some((newest, _)) => *newest != Kind::Deleted,
            None => state.known.is_some(),
        };
        if !exists {
            return;
        }
        state.deltas.push((Kind::Deleted, Arc::new(object)));
        if state.place == Place::Idle {
            state.place = Place::InLine;
            drop(state);
            self.line.push(Arc::clone(slot));
            self.sleep.wake(1);
        }
    }

    /// Pins once, and decides once whom to wake.
    fn update_all(&self, batch: &mut Vec<(Key, Object)>, (): &mut ()) {
        let guard = self.slots.guard();
        let fresh = batch.drain(..).map(|(key, object)| self.change(Kind::Updated, key, object, &guard));
        self.sleep.wake(fresh.filter(|fresh| *fresh).count());
    }

    fn pop(&self, handler: &mut impl Handler) -> bool {
        let Some(slot) = pop_or_wait(&self.line, &self.sleep) else { return false };
        let lease = slot.lease();
        handler.lease(&lease.slot.key, lease.deltas());
        if self.end(&lease) {
            self.sleep.wake(1);
        }
        true
    }

    fn pop_batch(&self, max: usize, handler: &mut impl Handler, (): &mut ()) -> usize {
        let Some(first) = pop_or_wait(&self.line, &self.sleep) else { return 0 };
        let others = std::iter::from_fn(|| self.line.pop()).take(max - 1);
        let leases: Vec<Lease> = std::iter::once(first).chain(others).map(Slot::lease).collect();
        for lease in &leases {
            handler.lease(&lease.slot.key, lease.deltas());
        }
        self.sleep.wake(leases.iter().filter(|lease| self.end(lease)).count());
        leases.len()
    }

    fn close(&self) {
        self.sleep.close();
    }

    #[inline]
    fn get_with<R>(&self, key: &Key, f: impl FnOnce(&Object) -> R) -> Option<R> {
        let guard = self.slots.guard();
        let value = self.slots.get(key, &guard)?.state.lock().known.clone()?;
        Some(f(&value))
    }

    fn known_len(&self) -> usize {
        self.count(|state| state.known.is_some())
    }

    fn pending_len(&self) -> usize {
        self.count(|state| !state.deltas.is_empty())
    }

    fn leased_len(&self) -> usize {
        self.count(|state| state.place == Place::Leased)
    }

    fn merged(&self) -> u64 {
        0
    }
}
