//! Keys and objects that are counted, and what is true of each key.

use std::borrow::Borrow;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// How many keys and objects there are, in the whole process: one configuration runs at a time.
static KEYS: AtomicI64 = AtomicI64::new(0);
static OBJECTS: AtomicI64 = AtomicI64::new(0);

/// Keys and objects that have been made and not dropped.
pub(super) fn alive() -> (i64, i64) {
    (KEYS.load(Ordering::SeqCst), OBJECTS.load(Ordering::SeqCst))
}

/// Exists once; its clone is another.
struct Counted(&'static AtomicI64);

impl Counted {
    fn new(count: &'static AtomicI64) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Self(count)
    }
}

impl Clone for Counted {
    fn clone(&self) -> Self {
        Self::new(self.0)
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[derive(Clone)]
pub(super) struct Key {
    pub(super) number: u32,
    _counted: Counted,
}

impl Key {
    pub(super) fn new(number: u32) -> Self {
        Self { number, _counted: Counted::new(&KEYS) }
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.number.fmt(f)
    }
}

impl PartialEq for Key {
    fn eq(&self, other: &Self) -> bool {
        self.number == other.number
    }
}

impl Eq for Key {}

impl Hash for Key {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.number.hash(state);
    }
}

impl Borrow<u32> for Key {
    fn borrow(&self) -> &u32 {
        &self.number
    }
}

#[derive(Clone)]
pub(super) struct Object {
    pub(super) key: u32,
    /// The how-manieth state of its key this is.
    pub(super) state: u64,
    whole: [u64; 6],
    _counted: Counted,
}

impl Object {
    pub(super) fn new(key: u32, state: u64) -> Self {
        Self { key, state, whole: [mixed(key, state); 6], _counted: Counted::new(&OBJECTS) }
    }

    pub(super) fn check(&self, key: u32) {
        assert_eq!(self.key, key, "the object of another key");
        let whole = mixed(key, self.state);
        assert!(self.whole.iter().all(|&word| word == whole), "a torn object of key {key}");
    }
}

impl fmt::Debug for Object {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.key, self.state)
    }
}

fn mixed(key: u32, state: u64) -> u64 {
    (u64::from(key) << 32 ^ state).wrapping_mul(0x9E37_79B9_7F4A_7C15)
}

/// What a key's source holds. One producer at a time changes it, and tells the queue afterwards, as a watch does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Truth {
    pub(super) state: u64,
    pub(super) exists: bool,
}

/// One key: its truth, and what became of it in the queue.
#[derive(Default)]
pub(super) struct Subject {
    truth: Mutex<Truth>,
    /// Somebody has its lease.
    pub(super) leased: AtomicBool,
    /// The newest state in a completed lease, of whatever delta; and of the latest change.
    pub(super) seen: AtomicU64,
    pub(super) changed: AtomicU64,
    /// What is known after the last completed lease: the state and one more, or 0.
    pub(super) known: AtomicU64,
    /// The newest live change that the queue has accepted.
    pub(super) accepted: AtomicU64,
    /// How many live changes it has accepted, and how many completed leases have handed out.
    pub(super) offered: AtomicU64,
    pub(super) delivered: AtomicU64,
}

impl Subject {
    pub(super) fn truth(&self) -> Truth {
        *self.truth.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn set(&self, truth: Truth) {
        *self.truth.lock().unwrap_or_else(PoisonError::into_inner) = truth;
    }
}
