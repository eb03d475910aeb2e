//! Records: what is known of a key that may have no entry.
//!
//! In a queue that keeps the known objects itself a record stands for a known object, or, while a replace is open, for a
//! key that is gone. Otherwise there are records while a replace is open only, of the keys whose leases ended meanwhile.
//!
//! # Invariants
//!
//! - **R1** A record is made, and its object changed, by the holder of the key's lease only; many read it meanwhile.
//! - **R2** `number` only rises: 2·n for the list of replace n, 2·n + 1 for a change that was made after it began. It is
//!   written before the object that came with it.
//! - **R3** A record without an object is removed by whoever brings its version from absent to gone, by one
//!   compare-and-swap; then it is unlinked. A holder that finds a record without an object reserves it before it goes on, by
//!   one compare-and-swap too; if it comes too late it makes another. So nothing is installed in a record that nobody finds.
//! - **R4** The version owns one reference to the object's cell. A reader takes another one and then looks whether the version
//!   is still the same: if so, the reference is to the object that was known at that moment; if not, it lets go. (Cells are
//!   type-stable, so the attempt harms nobody, and no grace period stands between an object and its `Drop`.)
//! - **R5** The key is put in before the record gets into the table, and taken out a grace period after it was unlinked.

#![expect(unsafe_code, reason = "a record's key is plain data that many read (R5)")]

use crate::delta::Object;
use crate::object::Key;
use crate::slab::{Index, Slot};
use crate::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use crate::sync::hint::spin_loop;
use crate::sync::{pause_point, planted};
use crate::table::Node;

use super::Objects;
use super::cells::Kept;

/// What a record's version says.
const ABSENT: u64 = 0;
/// The key exists, and its object is elsewhere.
const LIVE: u64 = 1 << 32;
/// The record is removed (R3).
const GONE: u64 = 2 << 32;
/// As absent, but a lease's holder is about to install something (R3).
const RESERVED: u64 = 3 << 32;

pub(super) struct Record<K> {
    next: AtomicU64,
    order: AtomicU64,
    key: Kept<Key<K>>,
    version: AtomicU64,
    number: AtomicU64,
    link: AtomicU32,
}

impl<K> Default for Record<K> {
    fn default() -> Self {
        Record {
            next: AtomicU64::new(0),
            order: AtomicU64::new(0),
            key: Kept::default(),
            version: AtomicU64::new(ABSENT),
            number: AtomicU64::new(0),
            link: AtomicU32::new(0),
        }
    }
}

impl<K> Slot for Record<K> {
    fn link(&self) -> &AtomicU32 {
        &self.link
    }
}

impl<K> Node for Record<K> {
    fn next(&self) -> &AtomicU64 {
        &self.next
    }

    fn order(&self) -> &AtomicU64 {
        &self.order
    }
}

/// What is known of a key.
pub(super) enum State {
    Absent,
    /// It exists, but the object is elsewhere.
    Live,
    Object(Index),
}

/// Whether a holder may install something.
pub(super) enum Reserved {
    AsItWas,
    WasAbsent,
    Gone,
}

impl<K> Record<K> {
    /// The slot is fresh from the slab, and the holder will install something.
    pub(super) fn prepare(&self, key: Key<K>) {
        // SAFETY: R5: the slot is fresh from the slab, so this thread alone can reach it.
        unsafe { self.key.put(key) };
        // Relaxed: the insertion into the table publishes them.
        self.number.store(0, Ordering::Relaxed);
        self.version.store(RESERVED, Ordering::Relaxed);
    }

    /// Of a record that was met in its table under a guard that is still alive.
    pub(super) fn key(&self) -> &Key<K> {
        // SAFETY: R5, and the caller has met it under a guard that is still alive.
        unsafe { self.key.get() }.expect("a record in the table has a key")
    }

    pub(super) fn clear(&self) -> Option<Key<K>> {
        // SAFETY: R5: called after the grace period, or for a record that never got into the table.
        unsafe { self.key.take() }
    }

    pub(super) fn number(&self) -> u64 {
        // Acquire: pairs with `raise` (Release); whoever acts on a number has seen what led to it.
        self.number.load(Ordering::Acquire)
    }

    /// R2.
    pub(super) fn raise(&self, number: u64) {
        // Relaxed: only the holder raises it.
        if self.number.load(Ordering::Relaxed) < number {
            // Release: pairs with `number` (Acquire).
            self.number.store(number, Ordering::Release);
        }
    }

    pub(super) fn state(&self) -> State {
        // Acquire: pairs with `set` (Release); publishes the object.
        match self.version.load(Ordering::Acquire) {
            ABSENT | GONE | RESERVED => State::Absent,
            LIVE => State::Live,
            version => State::Object(Index::new(version as u32).expect("a version is an object")),
        }
    }

    pub(super) fn exists(&self) -> bool {
        !matches!(self.state(), State::Absent)
    }

    pub(super) fn has_object(&self) -> bool {
        matches!(self.state(), State::Object(_))
    }

    /// R4.
    pub(super) fn object<V>(&self, objects: &Objects<V>) -> Option<Object<V>> {
        // Repeats when the object has changed in between: that lease has gone on.
        loop {
            let State::Object(index) = self.state() else { return None };
            pause_point("record: version read");
            if let Some(object) = objects.hold(index) {
                pause_point("record: object held");
                let same = matches!(self.state(), State::Object(now) if now == index);
                if same || planted("a version is looked at once") {
                    return Some(object);
                }
            }
            // As in `Shard::grip`.
            spin_loop();
        }
    }

    /// The holder will install something (R3). Whether it may: else the record is removed, or about to be.
    pub(super) fn reserve(&self) -> Reserved {
        // Relaxed: the exchange says whether it is still so, and only the holder changes anything but absent.
        match self.version.load(Ordering::Relaxed) {
            GONE => Reserved::Gone,
            ABSENT if planted("no reserve") => Reserved::WasAbsent,
            // AcqRel: as in `set`.
            ABSENT => {
                match self.version.compare_exchange(ABSENT, RESERVED, Ordering::AcqRel, Ordering::Relaxed) {
                    Ok(_) => Reserved::WasAbsent,
                    Err(_) => Reserved::Gone,
                }
            }
            _ => Reserved::AsItWas,
        }
    }

    /// The holder changes what is known (R1), and has reserved the record. Returns what the version owned before.
    pub(super) fn set(&self, state: &State) -> Option<Index> {
        let version = match *state {
            State::Absent => ABSENT,
            State::Live => LIVE,
            State::Object(index) => u64::from(index.get()),
        };
        // AcqRel: pairs with `state` (Acquire), publishes the object; and takes over the reference to the old one.
        Index::new(self.version.swap(version, Ordering::AcqRel) as u32)
    }

    /// R3, for a record that holds no object. Whether the caller has to unlink it.
    pub(super) fn remove(&self) -> bool {
        // AcqRel: comes after the holder's `set`, and before what another holder does with a record of its own.
        let gone =
            |from| self.version.compare_exchange(from, GONE, Ordering::AcqRel, Ordering::Relaxed).is_ok();
        gone(ABSENT) || gone(LIVE)
    }

    /// What it holds, when the queue is dropped.
    pub(super) fn dismantle(&self) -> (Option<Key<K>>, Option<Index>) {
        // Relaxed: the caller has the queue to itself.
        let version = self.version.swap(ABSENT, Ordering::Relaxed);
        // SAFETY: as above; the caller has everything to itself.
        (unsafe { self.key.take() }, Index::new(version as u32))
    }
}
