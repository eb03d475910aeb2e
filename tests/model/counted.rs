//! Keys and objects that are counted: which are alive, and whether one was dropped twice.

use std::collections::BTreeSet;
use std::hash::{Hash, Hasher};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use crate::common::Family;

#[derive(Default)]
struct Tally {
    made: AtomicU64,
    dropped_twice: AtomicU64,
    alive: Mutex<BTreeSet<u64>>,
}

/// Something that exists once.
struct Token {
    tally: Arc<Tally>,
    id: u64,
}

impl Token {
    fn new(tally: &Arc<Tally>) -> Self {
        let id = tally.made.fetch_add(1, Ordering::Relaxed);
        tally.alive.lock().unwrap().insert(id);
        Token { tally: Arc::clone(tally), id }
    }
}

impl Drop for Token {
    fn drop(&mut self) {
        if !self.tally.alive.lock().unwrap().remove(&self.id) {
            self.tally.dropped_twice.fetch_add(1, Ordering::Relaxed);
        }
    }
}

pub(crate) struct Key {
    pub(crate) name: u32,
    _token: Token,
}

impl PartialEq for Key {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for Key {}

impl Hash for Key {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name.hash(state);
    }
}

impl std::fmt::Debug for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.name.fmt(f)
    }
}

pub(crate) struct Value {
    token: Token,
}

impl Value {
    /// A number that no other object has.
    pub(crate) fn id(&self) -> u64 {
        self.token.id
    }
}

/// Makes counted keys and objects.
#[derive(Default)]
pub(crate) struct Count {
    keys: Arc<Tally>,
    values: Arc<Tally>,
}

impl Count {
    pub(crate) fn key(&self, name: u32) -> Key {
        Key { name, _token: Token::new(&self.keys) }
    }

    pub(crate) fn value(&self) -> Value {
        Value { token: Token::new(&self.values) }
    }

    pub(crate) fn pair(&self, name: u32) -> (Key, Value) {
        (self.key(name), self.value())
    }

    /// How many keys and how many objects are alive.
    #[track_caller]
    pub(crate) fn expect(&self, keys: usize, values: usize) {
        assert_eq!(self.alive(), [keys, values], "keys and objects alive");
    }

    /// The same while the queue lives: some drop keys a little later.
    #[track_caller]
    pub(crate) fn expect_alive<F: Family>(&self, keys: usize, values: usize) {
        let [seen, values_seen] = self.alive();
        assert_eq!(values_seen, values, "objects alive");
        assert!((keys..=keys + F::LATE_KEYS).contains(&seen), "{seen} keys alive, expected {keys}");
    }

    /// The same while changes are merged and no consumer comes.
    #[track_caller]
    pub(crate) fn expect_merged<F: Family>(&self, keys: usize, values: usize) {
        let [seen, values_seen] = self.alive();
        assert!((keys..=keys + F::LATE_KEYS).contains(&seen), "{seen} keys alive, expected {keys}");
        let late = values..=values + F::LATE_OBJECTS;
        assert!(late.contains(&values_seen), "{values_seen} objects alive, expected {values}");
    }

    /// How many objects are alive.
    #[track_caller]
    pub(crate) fn expect_values(&self, values: usize) {
        assert_eq!(self.alive()[1], values, "objects alive");
    }

    /// How many keys are alive.
    pub(crate) fn keys(&self) -> usize {
        self.alive()[0]
    }

    /// How many objects are alive.
    pub(crate) fn values(&self) -> usize {
        self.alive()[1]
    }

    #[track_caller]
    fn alive(&self) -> [usize; 2] {
        let twice = [&self.keys, &self.values].map(|tally| tally.dropped_twice.load(Ordering::Relaxed));
        assert_eq!(twice, [0, 0], "dropped twice");
        [&self.keys, &self.values].map(|tally| tally.alive.lock().unwrap().len())
    }
}
