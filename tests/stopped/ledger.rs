//! What was made, accepted, handed out and dropped.

use std::hash::{Hash, Hasher};
use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicI64, AtomicU8, AtomicU32, AtomicUsize};

use delta_fifo::{DeltaFifo, DeltaKind, KnownView, Lease};

pub(crate) type Queue = DeltaFifo<Key, Object>;

pub(crate) const KEYS: u8 = 16;
/// Who makes objects: the one that is stopped, and the others.
const MAKERS: usize = 2;
/// So many objects can be made in a round.
const MOST: usize = 1 << 19;

/// Without any lock: the one that is stopped writes in here too.
static OBJECTS: [AtomicU8; MOST] = [const { AtomicU8::new(0) }; MOST];
static NAMES: [AtomicU8; MOST] = [const { AtomicU8::new(0) }; MOST];
static MADE: AtomicUsize = AtomicUsize::new(0);
/// The first of the queue that the one that is stopped has to do with.
static FIRST: AtomicUsize = AtomicUsize::new(0);
static KEYS_ALIVE: AtomicI64 = AtomicI64::new(0);
/// For each key and maker the newest object that was handed out.
static NEWEST: [[AtomicU32; MAKERS]; KEYS as usize] =
    [const { [const { AtomicU32::new(0) }; MAKERS] }; KEYS as usize];
/// For each key what is known of it: an object's number and 1, or 0.
static KNOWN: [AtomicU32; KEYS as usize] = [const { AtomicU32::new(0) }; KEYS as usize];

const ALIVE: u8 = 1;
/// A call that brought it has returned, and it must be handed out.
const OWED: u8 = 2;
const HANDED_OUT: u8 = 4;

pub(crate) struct Key(u8);

impl Key {
    pub(crate) fn new(name: u8) -> Self {
        KEYS_ALIVE.fetch_add(1, SeqCst);
        Key(name)
    }
}

impl Drop for Key {
    fn drop(&mut self) {
        KEYS_ALIVE.fetch_sub(1, SeqCst);
    }
}

impl PartialEq for Key {
    fn eq(&self, other: &Self) -> bool {
        self.0 == other.0
    }
}

impl Eq for Key {}

impl Hash for Key {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.hash(state);
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Maker {
    Stopped,
    Others,
}

pub(crate) struct Object {
    number: u32,
    maker: Maker,
}

impl Object {
    pub(crate) fn new(name: u8, maker: Maker) -> Self {
        let number = MADE.fetch_add(1, SeqCst);
        NAMES[number].store(name, SeqCst);
        OBJECTS[number].store(ALIVE, SeqCst);
        Object { number: number as u32, maker }
    }

    pub(crate) fn number(&self) -> u32 {
        self.number
    }
}

impl Drop for Object {
    fn drop(&mut self) {
        let before = OBJECTS[self.number as usize].fetch_and(!ALIVE, SeqCst);
        assert_eq!(before & ALIVE, ALIVE, "object {} is dropped twice", self.number);
    }
}

/// Whether a round had better end.
pub(crate) fn is_nearly_full() -> bool {
    MADE.load(SeqCst) > MOST * 3 / 4
}

/// Whoever brought the object was told that it was accepted.
pub(crate) fn accepted(number: u32) {
    OBJECTS[number as usize].fetch_or(OWED, SeqCst);
}

/// A lease that is about to be done.
pub(crate) fn handed_out(lease: &Lease<'_, Queue>) {
    let name = lease.key().0 as usize;
    for delta in lease.deltas() {
        let (kind, object) = (delta.kind(), delta.object());
        let known = object.filter(|_| !kind.is_deletion()).map_or(0, |object| object.number + 1);
        KNOWN[name].store(known, SeqCst);
        // The others show an object that was handed out before.
        let is_new = !matches!(kind, DeltaKind::Sync | DeltaKind::DeletedFinalStateUnknown);
        let Some(object) = object.filter(|_| is_new) else { continue };
        let number = object.number;
        assert_eq!(NAMES[number as usize].load(SeqCst) as usize, name, "object {number} is of another key");
        let before = OBJECTS[number as usize].fetch_or(HANDED_OUT, SeqCst);
        assert_eq!(before & (HANDED_OUT | ALIVE), ALIVE, "object {number} is handed out twice, or too late");
        let newest = NEWEST[name][object.maker as usize].swap(number + 1, SeqCst);
        assert!(newest <= number, "object {number} of key {name} comes after {newest}");
    }
}

/// What is made and handed out from here on is another queue's.
pub(crate) fn begin_queue() {
    FIRST.store(MADE.load(SeqCst), SeqCst);
    NEWEST.iter().flatten().for_each(|cell| cell.store(0, SeqCst));
}

/// Of how many keys of the queue something was accepted that nobody was given.
pub(crate) fn keys_behind() -> usize {
    behind_since(FIRST.load(SeqCst))
}

/// The same of all queues.
pub(crate) fn check_all_handed_out() {
    assert_eq!(behind_since(0), 0, "something was never handed out");
}

fn behind_since(first: usize) -> usize {
    let mut behind = [false; KEYS as usize];
    for number in first..MADE.load(SeqCst) {
        if OBJECTS[number].load(SeqCst) & (OWED | HANDED_OUT) == OWED {
            behind[NAMES[number].load(SeqCst) as usize] = true;
        }
    }
    behind.into_iter().filter(|is| *is).count()
}

/// The known objects are what was handed out last.
pub(crate) fn check_known(view: &impl KnownView<Key, Object>) {
    for name in 0..KEYS {
        let seen = view.find(&Key::new(name)).map_or(0, |known| known.object().number + 1);
        assert_eq!(seen, KNOWN[name as usize].load(SeqCst), "what is known of key {name}");
    }
}

/// Everything must be gone; then all is as for a queue that has never handed out anything.
pub(crate) fn check_gone_and_begin() {
    let alive = |number: &usize| OBJECTS[*number].load(SeqCst) & ALIVE != 0;
    let made = MADE.swap(0, SeqCst);
    assert_eq!((0..made).filter(alive).count(), 0, "objects of {made} are alive");
    FIRST.store(0, SeqCst);
    assert_eq!(KEYS_ALIVE.load(SeqCst), 0, "keys are alive");
    NEWEST.iter().flatten().chain(&KNOWN).for_each(|cell| cell.store(0, SeqCst));
}
