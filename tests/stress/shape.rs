//! What a round is run with: the shape of the queue and of the load, and counted keys and objects.

use std::collections::BTreeMap;
use std::hash::{Hash, Hasher};
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use delta_fifo::{Background, Backoff, Builder, Compression, DeltaQueue};

use crate::common::{Random, threads, with_shards};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Variant {
    Default,
    Latest,
    Background,
    NoStore,
    OwnStore,
    Scopes,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    pub(crate) variant: Variant,
    pub(crate) keys: u32,
    pub(crate) threads: usize,
    pub(crate) shards: usize,
}

/// What the seed of a round decides for all its threads.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    /// The first replace comes before all else, so that the first sync is certain.
    pub(crate) first_list: bool,
    /// Without deletions all deltas can be accounted for, also under `Compression::Latest`.
    pub(crate) deletes: bool,
    pub(crate) delete_keys: bool,
    /// A cancelled pop may move the known object ahead of the lease that is seen.
    pub(crate) cancels: bool,
    /// Consumers sleep until the queue is closed, so that a lost wake-up ends the round for good.
    pub(crate) blocking: bool,
    pub(crate) closer: bool,
    pub(crate) discards: bool,
    /// Some of what runs between a pop and its end panics.
    pub(crate) panics: bool,
    /// No thread makes more calls.
    pub(crate) calls: u64,
}

impl Plan {
    pub(crate) fn new(random: &mut Random) -> Self {
        let deletes = !random.one_in(4);
        let closer = random.one_in(4);
        Plan {
            first_list: !random.one_in(4),
            deletes,
            delete_keys: deletes && random.one_in(2),
            cancels: random.one_in(2),
            blocking: random.one_in(2),
            closer,
            discards: closer && random.one_in(3),
            panics: true,
            calls: u64::MAX,
        }
    }
}

/// Who made an object, and as its how-manieth.
pub(crate) type Id = (u16, u32);

/// How often each thing was dropped.
pub(crate) struct Tally {
    made: AtomicUsize,
    dropped: AtomicUsize,
    drops: Vec<AtomicU8>,
}

impl Tally {
    pub(crate) fn new() -> Arc<Self> {
        let drops = (0..1 << 15).map(|_| AtomicU8::new(0)).collect();
        Arc::new(Tally { made: AtomicUsize::new(0), dropped: AtomicUsize::new(0), drops })
    }

    /// Everything is gone.
    pub(crate) fn check(&self) {
        let made = self.made.load(Ordering::SeqCst);
        let dropped = self.dropped.load(Ordering::SeqCst);
        assert_eq!(made, dropped, "keys and objects that were made, and dropped");
        for (token, drops) in self.drops.iter().enumerate().take(made) {
            assert_eq!(drops.load(Ordering::SeqCst), 1, "drops of token {token}");
        }
    }
}

/// Exists once; its clone is another.
struct Token(Arc<Tally>, usize);

impl Token {
    fn new(tally: &Arc<Tally>) -> Self {
        Token(Arc::clone(tally), tally.made.fetch_add(1, Ordering::Relaxed))
    }
}

impl Clone for Token {
    fn clone(&self) -> Self {
        Token::new(&self.0)
    }
}

impl Drop for Token {
    fn drop(&mut self) {
        self.0.dropped.fetch_add(1, Ordering::Relaxed);
        if let Some(drops) = self.0.drops.get(self.1) {
            drops.fetch_add(1, Ordering::Relaxed);
        }
    }
}

#[derive(Clone)]
pub(crate) struct Key {
    pub(crate) name: u32,
    _token: Token,
}

impl Key {
    pub(crate) fn new(tally: &Arc<Tally>, name: u32) -> Self {
        Key { name, _token: Token::new(tally) }
    }
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

#[derive(Clone)]
pub(crate) struct Object {
    pub(crate) id: Id,
    pub(crate) key: u32,
    _token: Token,
}

impl Object {
    pub(crate) fn new(tally: &Arc<Tally>, id: Id, key: u32) -> Self {
        Object { id, key, _token: Token::new(tally) }
    }
}

/// The user's own store.
pub(crate) type Store = Arc<Mutex<BTreeMap<u32, Object>>>;

pub(crate) const SCOPES: [&str; 2] = ["even", "odd"];

impl Shape {
    pub(crate) fn build<Q>(&self, tally: &Arc<Tally>, store: &Store) -> Q
    where
        Q: DeltaQueue<Key = Key, Value = Object, Hasher = ahash::RandomState>,
    {
        let builder: Builder<Key, Object> =
            threads::builder().backoff(Backoff::custom(|attempts| Duration::from_micros(100) * attempts));
        let builder = with_shards(builder, self.shards);
        match self.variant {
            Variant::Default => builder,
            Variant::Latest => builder.compression(Compression::Latest),
            Variant::Background => builder.background(Background::Resync).background(Background::Initial),
            Variant::NoStore => builder.no_known_objects(),
            Variant::OwnStore => {
                let (keys, get, tally) = (Arc::clone(store), Arc::clone(store), Arc::clone(tally));
                builder.known_objects((
                    move || Ok(keys.lock().unwrap().keys().map(|&name| Key::new(&tally, name)).collect()),
                    move |key: &Key| Ok(get.lock().unwrap().get(&key.name).cloned()),
                ))
            }
            Variant::Scopes => builder
                .scope(SCOPES[0], |key: &Key| key.name % 2 == 0)
                .scope(SCOPES[1], |key: &Key| key.name % 2 == 1)
                .disjoint_scopes(),
        }
        .build()
    }

    pub(crate) fn latest(&self) -> bool {
        self.variant == Variant::Latest
    }
}
