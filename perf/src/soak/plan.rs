//! What a configuration, and a beat of it, is run with: decided by the seed.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use ahash::RandomState;
use delta_fifo::{Background, Backoff, Builder, Compression, DeltaFifo, Emit, OnAbandon};
use rand::rngs::SmallRng;
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};

use super::things::{Key, Object};

pub(super) type Queue = DeltaFifo<Key, Object, RandomState>;
pub(super) type Store = Arc<Mutex<HashMap<u32, Object>>>;

pub(super) const SCOPES: [&str; 4] = ["0", "1", "2", "3"];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Known {
    Inside,
    None,
    /// A user's.
    Store,
}

/// How a configuration ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// Everything is handed out, beside producers that are being refused.
    Drained,
    Discarded,
    /// The queue goes with all that is in it.
    Dropped,
}

/// How one queue is built, and used as long as it lives.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub(super) seed: u64,
    pub(super) keys: u32,
    shards: usize,
    lines: usize,
    pub(super) latest: bool,
    background: Vec<Background>,
    pub(super) known: Known,
    emit: Emit,
    pub(super) on_abandon: OnAbandon,
    publish_every: Duration,
    pub(super) scopes: bool,
    pub(super) deletes: bool,
    /// All keys are listed by threads that do nothing else.
    pub(super) replaces: bool,
    pub(super) time: Duration,
    pub(super) end: End,
}

impl Plan {
    pub(super) fn new(seed: u64, most: Duration) -> Self {
        let random = &mut SmallRng::seed_from_u64(seed);
        let shards = *[1, 2, 16, 64].choose(random).expect("some");
        let lines = *[1, 1, 4].choose(random).expect("some");
        let both = [Background::Resync, Background::Initial];
        let deletes = random.random_bool(0.8);
        let scopes = deletes && random.random_bool(0.25);
        Self {
            seed,
            keys: *[1, 4, 64, 1_000, 20_000].choose(random).expect("some"),
            shards,
            lines,
            latest: random.random_bool(0.3),
            background: both.into_iter().filter(|_| random.random_bool(0.25)).collect(),
            known: *[Known::Inside, Known::Inside, Known::Inside, Known::None, Known::Store]
                .choose(random)
                .expect("some"),
            emit: if random.random_bool(0.2) { Emit::Sync } else { Emit::Replaced },
            on_abandon: *[OnAbandon::Backoff, OnAbandon::Requeue, OnAbandon::GiveUp]
                .choose(random)
                .expect("some"),
            publish_every: Duration::from_millis(*[0, 1, 100].choose(random).expect("some")),
            scopes,
            deletes,
            // Each scope is listed by who changes its keys.
            replaces: deletes && !scopes && random.random_bool(0.7),
            time: most.mul_f64(random.random_range(0.3..1.0)),
            end: *[End::Drained, End::Drained, End::Discarded, End::Dropped].choose(random).expect("some"),
        }
    }

    /// Everything that was offered can be counted one by one.
    pub(super) fn is_countable(&self) -> bool {
        !self.deletes && !self.replaces && self.known != Known::Store
    }

    pub(super) fn build(&self, store: &Store) -> Queue {
        let back = Backoff::custom(|attempts| Duration::from_micros(500) * attempts.min(8));
        let mut builder = Builder::with_hasher(RandomState::new())
            .shards(self.shards)
            .lines(self.lines)
            .replace_emits(self.emit)
            .on_abandon(self.on_abandon)
            .publish_every(self.publish_every)
            .backoff(back);
        for background in &self.background {
            builder = builder.background(*background);
        }
        if self.latest {
            builder = builder.compression(Compression::Latest);
        }
        if self.scopes {
            for (number, name) in (0..).zip(SCOPES) {
                builder = builder.scope(name, move |key: &Key| key.number % 4 == number);
            }
            builder = builder.disjoint_scopes();
        }
        match self.known {
            Known::Inside => builder,
            Known::None => builder.no_known_objects(),
            Known::Store => {
                let (keys, get) = (Arc::clone(store), Arc::clone(store));
                builder.known_objects((
                    move || Ok(locked(&keys).keys().map(|&number| Key::new(number)).collect()),
                    move |key: &Key| Ok(locked(&get).get(&key.number).cloned()),
                ))
            }
        }
        .build()
    }
}

pub(super) fn locked(store: &Store) -> std::sync::MutexGuard<'_, HashMap<u32, Object>> {
    store.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Who runs until everything stops and is checked.
#[derive(Clone, Copy, Debug)]
pub(super) struct Beat {
    pub(super) time: Duration,
    pub(super) producers: u32,
    pub(super) consumers: u32,
    pub(super) readers: u32,
    pub(super) replacers: u32,
    pub(super) resyncer: bool,
    pub(super) markers: u32,
    /// Percent of calls after which a thread rests.
    pub(super) rest: u32,
    pub(super) cancels: bool,
    /// The queue is closed meanwhile, and consumers sleep until it is.
    pub(super) closes: bool,
    /// Consumers stop with the others, whatever is left.
    pub(super) leaves: bool,
}

impl Beat {
    pub(super) fn new(plan: &Plan, random: &mut SmallRng, last: bool) -> Self {
        let closes = last && plan.end != End::Dropped;
        Self {
            time: Duration::from_millis(random.random_range(20..800)),
            // With scopes each has whole ones.
            producers: *if plan.scopes { &[1, 2, 4][..] } else { &[1, 2, 3, 4] }
                .choose(random)
                .expect("some"),
            consumers: random.random_range(1..=4),
            readers: random.random_range(0..=2),
            // While the queue is being closed, what a list takes back is not known.
            replacers: if plan.replaces && !closes { random.random_range(0..=2) } else { 0 },
            resyncer: random.random_bool(0.5),
            markers: random.random_range(0..=1),
            rest: *[0, 1, 20].choose(random).expect("some"),
            cancels: random.random_bool(0.5),
            closes,
            leaves: last && !closes,
        }
    }
}
