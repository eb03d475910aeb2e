//! B1, the fair baseline: client-go's structure on parking_lot, with the mistakes that are easy to avoid avoided.
//!
//! One mutex over one map and one line; a producer wakes a consumer only if one sleeps; user code, hashing, allocation and
//! drops of objects happen outside the lock. A batch takes each lock once.

use std::collections::VecDeque;
use std::hash::BuildHasher;
use std::sync::atomic::{AtomicBool, Ordering};

use crossbeam_utils::CachePadded;
use parking_lot::{Condvar, Mutex, MutexGuard, RwLock};

use super::known::Known;
use super::pending::{Ended, Handle, Incoming, Lease, Pending, Pushed, Value};
use super::sleep::spin_while;
use super::{Handler, Hashing, Kind, Lists, Peer};
use crate::workload::{Key, Object};

/// With `FAIR` each release of the lock hands it to whoever has waited longest, as parking_lot's fair mode does.
pub struct OneLock<const FAIR: bool> {
    /// The lock has a line to itself: who waits for it must not take away what its holder works on.
    state: CachePadded<Mutex<CachePadded<State>>>,
    /// Whether the line is empty, for consumers that spin a little before they sleep: they need not take the lock to look.
    empty: CachePadded<AtomicBool>,
    in_line_or_closed: Condvar,
    known: CachePadded<RwLock<Known>>,
    hashing: Hashing,
}

/// B1.
pub type Parking = OneLock<false>;
/// B1f.
pub type FairParking = OneLock<true>;

#[derive(Default)]
struct State {
    pending: Pending,
    line: VecDeque<Handle>,
    /// Consumers that sleep and that nobody has woken yet.
    sleepers: usize,
    closed: bool,
    /// Number of the last list.
    list: u32,
}

#[derive(Default)]
pub struct Scratch {
    incoming: Vec<Incoming>,
    pushed: Vec<Pushed>,
    leases: Vec<Lease>,
    ended: Vec<Ended>,
}

impl<const FAIR: bool> OneLock<FAIR> {
    #[inline]
    fn unlock(guard: MutexGuard<'_, CachePadded<State>>) {
        if FAIR { MutexGuard::unlock_fair(guard) } else { drop(guard) }
    }

    /// The known objects as they are now: all handles are cloned under the store's lock.
    pub(crate) fn clone_known(&self) -> Known {
        self.known.read().clone()
    }

    #[inline]
    fn change(&self, kind: Kind, key: Key, object: Object) {
        let incoming = Incoming::new(self.hashing.hash_one(&key), key, kind, object);
        let mut state = self.state.lock();
        let pushed = state.pending.push(incoming);
        self.finish(state, pushed);
    }

    #[inline]
    fn finish(&self, mut state: MutexGuard<'_, CachePadded<State>>, pushed: Pushed) {
        let mut fresh = 0;
        if let Pushed::InLine(handle) = pushed {
            state.line.push_back(handle);
            fresh = 1;
        }
        self.unlock_and_wake(state, fresh);
        // `pushed` is dropped here, outside the lock.
    }

    /// Wakes as many sleepers as there are fresh keys, after the lock is free: a woken consumer should not run into it.
    #[inline]
    fn unlock_and_wake(&self, mut state: MutexGuard<'_, CachePadded<State>>, fresh: usize) {
        let wake = fresh.min(state.sleepers);
        state.sleepers -= wake;
        self.note_emptiness(&state);
        Self::unlock(state);
        for _ in 0..wake {
            self.in_line_or_closed.notify_one();
        }
    }

    #[inline]
    fn note_emptiness(&self, state: &State) {
        // Relaxed: a hint; whoever acts on it takes the lock. Written only when it changes: the line is read by spinners.
        let empty = state.line.is_empty();
        if empty != self.empty.load(Ordering::Relaxed) {
            self.empty.store(empty, Ordering::Relaxed);
        }
    }

    /// Every known key that is neither pending nor leased goes in line. How many.
    fn push_known(&self, state: &mut State, kind: Kind) -> usize {
        let before = state.line.len();
        for (hash, key, value) in self.known.read().records() {
            if !state.pending.contains(hash, key) {
                let incoming = Incoming::of(hash, Key::clone(key), kind, Value::clone(value));
                let Pushed::InLine(handle) = state.pending.push(incoming) else {
                    unreachable!("it was not there")
                };
                state.line.push_back(handle);
            }
        }
        state.line.len() - before
    }

    /// The known object of a leased key. Where its first object is on the way from the line to the store, which takes no
    /// lock but the store's, it is there in a moment.
    fn known_of_leased(&self, hash: u64, key: &Key) -> Value {
        loop {
            // The guard is gone before the next look.
            let known = self.known.read().get(hash, key);
            match known {
                Some(value) => return value,
                None => std::thread::yield_now(),
            }
        }
    }

    /// The lock, with at least one key in line. `None`: closed and the line is empty (what is still dirty then goes in line
    /// when its lease ends, and the consumer that ends it pops again).
    #[inline]
    fn wait_for_line(&self) -> Option<MutexGuard<'_, CachePadded<State>>> {
        spin_while(|| self.empty.load(Ordering::Relaxed));
        let mut state = self.state.lock();
        while state.line.is_empty() {
            if state.closed {
                return None;
            }
            state.sleepers += 1;
            self.in_line_or_closed.wait(&mut state);
        }
        Some(state)
    }
}

impl<const FAIR: bool> Peer for OneLock<FAIR> {
    type Scratch = Scratch;

    fn new() -> Self {
        Self {
            state: CachePadded::default(),
            empty: CachePadded::new(AtomicBool::new(true)),
            in_line_or_closed: Condvar::new(),
            known: CachePadded::default(),
            hashing: Hashing::default(),
        }
    }

    #[inline]
    fn add(&self, key: Key, object: Object) {
        self.change(Kind::Added, key, object);
    }

    #[inline]
    fn update(&self, key: Key, object: Object) {
        self.change(Kind::Updated, key, object);
    }

    #[inline]
    fn delete(&self, key: Key, object: Object) {
        let incoming = Incoming::new(self.hashing.hash_one(&key), key, Kind::Deleted, object);
        let mut state = self.state.lock();
        // The other lock inside this one; nobody takes them the other way round.
        let known = |it: &Incoming| self.known.read().contains(it.hash(), it.key());
        let pushed = state.pending.push_deletion(incoming, known);
        self.finish(state, pushed);
    }

    #[inline]
    fn update_all(&self, batch: &mut Vec<(Key, Object)>, scratch: &mut Scratch) {
        let incoming = batch
            .drain(..)
            .map(|(key, object)| Incoming::new(self.hashing.hash_one(&key), key, Kind::Updated, object));
        scratch.incoming.extend(incoming);

        let mut state = self.state.lock();
        let mut fresh = 0;
        for incoming in scratch.incoming.drain(..) {
            match state.pending.push(incoming) {
                Pushed::InLine(handle) => {
                    state.line.push_back(handle);
                    fresh += 1;
                }
                joined => scratch.pushed.push(joined),
            }
        }
        self.unlock_and_wake(state, fresh);
        scratch.pushed.clear();
    }

    fn pop(&self, handler: &mut impl Handler) -> bool {
        let Some(mut state) = self.wait_for_line() else { return false };
        let handle = state.line.pop_front().expect("waited for it");
        let mut lease = state.pending.lease(handle);
        self.note_emptiness(&state);
        Self::unlock(state);

        self.known.write().update(&mut lease);
        handler.lease(&lease.key, lease.deltas());

        let mut state = self.state.lock();
        let ended = state.pending.done(&lease);
        match ended {
            Ended::Clean { .. } => Self::unlock(state),
            Ended::Dirty => {
                state.line.push_back(handle);
                self.unlock_and_wake(state, 1);
            }
        }
        true
        // `lease` and `ended` are dropped here, outside the lock.
    }

    fn pop_batch(&self, max: usize, handler: &mut impl Handler, scratch: &mut Scratch) -> usize {
        let Scratch { leases, ended, .. } = scratch;
        let Some(mut guard) = self.wait_for_line() else { return 0 };
        let state: &mut State = &mut guard;
        let count = max.min(state.line.len());
        leases.extend(state.line.drain(..count).map(|handle| state.pending.lease(handle)));
        self.note_emptiness(state);
        Self::unlock(guard);

        let mut known = self.known.write();
        leases.iter_mut().for_each(|lease| known.update(lease));
        drop(known);
        for lease in leases.iter() {
            handler.lease(&lease.key, lease.deltas());
        }

        let mut state = self.state.lock();
        let mut dirty = 0;
        for lease in leases.iter() {
            match state.pending.done(lease) {
                Ended::Dirty => {
                    state.line.push_back(lease.handle);
                    dirty += 1;
                }
                clean => ended.push(clean),
            }
        }
        self.unlock_and_wake(state, dirty);
        leases.clear();
        ended.clear();
        count
    }

    fn close(&self) {
        let mut state = self.state.lock();
        state.closed = true;
        state.sleepers = 0;
        Self::unlock(state);
        self.in_line_or_closed.notify_all();
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
        self.state.lock().pending.len()
    }

    fn leased_len(&self) -> usize {
        self.state.lock().pending.leased()
    }

    fn merged(&self) -> u64 {
        0
    }
}

/// One lock for the whole list, as in client-go. What can be done before it is: hashing, allocating, making room.
impl Lists for Parking {
    /// Between a lease and the store, which has it after the lock, a list finds the object before it.
    const BURIES_NEWEST: bool = false;

    fn replace(&self, list: Vec<(Key, Object)>) {
        let mut incoming: Vec<Incoming> = list
            .into_iter()
            .map(|(key, object)| Incoming::new(self.hashing.hash_one(&key), key, Kind::Replaced, object))
            .collect();
        let mut joined = Vec::new();

        let mut guard = self.state.lock();
        let state: &mut State = &mut guard;
        state.list += 1;
        let before = state.line.len();
        state.pending.reserve(incoming.len());
        state.line.reserve(incoming.len());
        for item in incoming.drain(..) {
            match state.pending.push_item(item, state.list) {
                Pushed::InLine(handle) => state.line.push_back(handle),
                other => joined.push(other),
            }
        }
        state.pending.bury_unlisted(state.list, |hash, key| self.known_of_leased(hash, key));
        // Now all that is listed is pending; what is known and is not has gone unseen.
        self.push_known(state, Kind::Tombstone);
        let fresh = state.line.len() - before;
        self.unlock_and_wake(guard, fresh);
        // `joined`, and the room that `incoming` had, go here, outside the lock.
    }

    fn resync(&self) {
        let mut guard = self.state.lock();
        let fresh = self.push_known(&mut guard, Kind::Sync);
        self.unlock_and_wake(guard, fresh);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_on_its_way_to_the_store_is_waited_for() {
        struct Ignore;
        impl Handler for Ignore {
            fn lease<'d>(&mut self, _: &Key, _: impl Iterator<Item = (Kind, &'d Object)>) {}
        }
        let (peer, key) = (Parking::new(), Key::from("namespace/name"));
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| peer.known_of_leased(peer.hashing.hash_one(&key), &key).seq);
            peer.add(Key::clone(&key), Object::new(0, 0, 7));
            assert!(peer.pop(&mut Ignore));
            assert_eq!(waits.join().unwrap(), 7);
        });
    }
}
