//! Keys that are to be added later: each once, at the earliest time that anybody has asked for.

use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use crate::RandomState;

/// When, and as which of those that come at the same time.
type Place = (Instant, u64);

/// Invariants: each key stands in both. No clone of its `Arc` outlives the lock but that of who has taken it out, who has it alone.
struct State<K> {
    by_key: HashMap<Arc<K>, Place, RandomState>,
    by_time: BTreeMap<Place, Arc<K>>,
    next: u64,
}

impl<K: Hash + Eq> State<K> {
    fn take(&mut self, place: Place) -> Option<Arc<K>> {
        let key = Arc::clone(self.by_time.get(&place)?);
        // User code first, here and in `put`: if it panics nothing has changed.
        self.by_key.remove(&key);
        self.by_time.remove(&place);
        Some(key)
    }
}

pub(super) struct Waiting<K>(Mutex<State<K>>);

impl<K> Default for Waiting<K> {
    fn default() -> Self {
        let state = State { by_key: HashMap::default(), by_time: BTreeMap::new(), next: 0 };
        Waiting(Mutex::new(state))
    }
}

impl<K> Waiting<K> {
    fn state(&self) -> MutexGuard<'_, State<K>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn len(&self) -> usize {
        self.state().by_time.len()
    }

    pub(super) fn earliest(&self) -> Option<Instant> {
        self.state().by_time.keys().next().map(|place| place.0)
    }

    /// Forgets all keys, for the caller to drop outside the lock.
    pub(super) fn clear(&self) -> impl Sized + use<K> {
        let mut state = self.state();
        (std::mem::take(&mut state.by_key), std::mem::take(&mut state.by_time))
    }
}

impl<K: Hash + Eq> Waiting<K> {
    /// Where it stands from now on. None: it comes no later anyway.
    pub(super) fn put(&self, key: K, at: Instant) -> Option<Place> {
        let mut state = self.state();
        let place = (at, state.next);
        let old = match state.by_key.get_mut(&key) {
            Some(old) if old.0 <= at => return None,
            Some(old) => Some(std::mem::replace(old, place)),
            None => None,
        };
        // What is not needed goes outside the lock: it is the user's.
        let (key, _unused) = match old.and_then(|old| state.by_time.remove(&old)) {
            Some(known) => (known, Some(key)),
            None => {
                let key = Arc::new(key);
                state.by_key.insert(Arc::clone(&key), place);
                (key, None)
            }
        };
        state.by_time.insert(place, key);
        state.next += 1;
        drop(state);
        Some(place)
    }

    /// None: it is there no more.
    pub(super) fn take_back(&self, place: Place) -> Option<K> {
        let key = self.state().take(place)?;
        Arc::into_inner(key)
    }

    /// The first key whose time has come.
    pub(super) fn take_due(&self, now: Instant) -> Option<K> {
        let mut state = self.state();
        let place = *state.by_time.keys().next().filter(|place| place.0 <= now)?;
        let key = state.take(place)?;
        drop(state);
        Arc::into_inner(key)
    }
}
