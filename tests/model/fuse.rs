//! User code that panics at a chosen call.

use std::borrow::Borrow;
use std::hash::{Hash, Hasher};
use std::sync::{Arc, Mutex};

/// Where user code runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Site {
    Hash,
    Eq,
    DropKey,
    DropValue,
    Transform,
    StoreKeys,
    StoreGet,
    Scope,
    ErrorHook,
    Backoff,
    Iterator,
}

#[derive(Default)]
struct State {
    armed: Option<(Site, u32)>,
    exploded: bool,
}

/// Panics at the n-th call of one site.
#[derive(Clone, Default)]
pub(crate) struct Fuse(Arc<Mutex<State>>);

/// What the fuse panics with.
pub(crate) struct Boom;

impl Fuse {
    pub(crate) fn arm(&self, site: Site, nth: u32) {
        *self.0.lock().unwrap() = State { armed: Some((site, nth)), exploded: false };
    }

    /// Whether it has exploded.
    pub(crate) fn disarm(&self) -> bool {
        let mut state = self.0.lock().unwrap();
        state.armed = None;
        state.exploded
    }

    pub(crate) fn tick(&self, site: Site) {
        let mut state = self.0.lock().unwrap();
        if let Some((armed, left)) = &mut state.armed {
            if *armed == site {
                *left -= 1;
                if *left == 0 {
                    state.armed = None;
                    state.exploded = true;
                    drop(state);
                    // Without the hook, which would print it.
                    std::panic::resume_unwind(Box::new(Boom));
                }
            }
        }
    }
}

/// All keys hash alike, so that every look-up compares with every key.
pub(crate) struct Key {
    pub(crate) name: u32,
    fuse: Fuse,
}

impl Key {
    pub(crate) fn new(name: u32, fuse: &Fuse) -> Self {
        Key { name, fuse: fuse.clone() }
    }
}

impl Hash for Key {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.fuse.tick(Site::Hash);
        0_u32.hash(state);
    }
}

impl PartialEq for Key {
    fn eq(&self, other: &Self) -> bool {
        self.fuse.tick(Site::Eq);
        self.name == other.name
    }
}

impl Eq for Key {}

impl Borrow<u32> for Key {
    fn borrow(&self) -> &u32 {
        &self.name
    }
}

impl Drop for Key {
    fn drop(&mut self) {
        self.fuse.tick(Site::DropKey);
    }
}

impl std::fmt::Debug for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.name.fmt(f)
    }
}

#[derive(Clone)]
pub(crate) struct Value {
    pub(crate) number: u32,
    fuse: Fuse,
}

impl Value {
    pub(crate) fn new(number: u32, fuse: &Fuse) -> Self {
        Value { number, fuse: fuse.clone() }
    }
}

impl Drop for Value {
    fn drop(&mut self) {
        self.fuse.tick(Site::DropValue);
    }
}

impl std::fmt::Debug for Value {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.number.fmt(f)
    }
}
