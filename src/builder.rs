//! What can be chosen when a queue is built.

use std::fmt;
use std::hash::{BuildHasher, Hash};
use std::sync::Arc;
use std::time::Duration;

use ahash::RandomState;

use crate::delay::{Backoff, Timer};
use crate::delta::Compression;
use crate::error::{BoxError, ErrorEvent};
use crate::extras::Extras;
use crate::keyed::KeyedBuilder;
use crate::known::KnownObjects;
use crate::queue::DeltaQueue;
use crate::slow::{OnSlow, SlowEvent};

/// What a replace appends for an item of its list.
///
/// ```
/// use delta_fifo::{Builder, DeltaKind, DeltaQueue, Emit, baseline::MutexDeltaFifo};
///
/// let queue: MutexDeltaFifo<&str, u32> = Builder::new().replace_emits(Emit::Sync).build();
/// queue.replace([("a", 1)])?;
/// assert_eq!(queue.pop()?.deltas().newest().kind(), DeltaKind::Sync);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Emit {
    /// `Replaced`.
    #[default]
    Replaced,
    /// `Sync`, as client-go did before it had `Replaced`.
    Sync,
}

/// What becomes of a lease that is dropped without being ended: by a panic, or with a cancelled task.
///
/// ```
/// use delta_fifo::{Builder, DeltaQueue, OnAbandon, baseline::MutexDeltaFifo};
///
/// let queue: MutexDeltaFifo<&str, u32> = Builder::new().on_abandon(OnAbandon::Requeue).build();
/// queue.add("a", 1)?;
/// drop(queue.pop()?);
/// assert_eq!(queue.try_pop()?.attempts(), 2); // in line again at once
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnAbandon {
    /// The deltas come back after the back-off for this number of attempts.
    #[default]
    Backoff,
    /// The deltas come back at once.
    Requeue,
    /// The deltas are given up, which the error hook is told.
    GiveUp,
}

/// Keys that may stand in a second line, which is served when the first is empty and at least every 16th pop.
///
/// ```
/// use delta_fifo::{Background, Builder, DeltaQueue, baseline::MutexDeltaFifo};
///
/// let queue: MutexDeltaFifo<&str, u32> = Builder::new().background(Background::Resync).build();
/// queue.add("known", 1)?;
/// queue.pop()?.done();
/// queue.resync()?;
/// queue.add("fresh", 1)?;
/// assert_eq!(*queue.pop()?.key(), "fresh"); // before the resync that came first
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Background {
    /// Keys that go in line only by a resync.
    Resync,
    /// Keys that go in line only by the first replace.
    Initial,
}

pub(crate) type Transform<V> = Box<dyn Fn(&mut V) -> Result<(), BoxError> + Send + Sync>;
pub(crate) type ErrorHook<K> = Box<dyn Fn(&ErrorEvent<'_, K>) + Send + Sync>;

/// Where the known objects are.
pub(crate) enum Known<K, V> {
    Inside,
    None,
    Store(Arc<dyn KnownObjects<K, V>>),
}

/// A part of the keys that one source lists.
pub(crate) struct ScopeDecl<K> {
    pub(crate) name: String,
    pub(crate) holds: Box<dyn Fn(&K) -> bool + Send + Sync>,
}

/// Builds a queue.
///
/// ```
/// use delta_fifo::{Builder, Compression, DeltaQueue, baseline::MutexDeltaFifo};
///
/// let queue: MutexDeltaFifo<String, u32> = Builder::new()
///     .compression(Compression::Latest)
///     .on_error(|event| eprintln!("{event}"))
///     .build();
/// queue.add("a".to_string(), 1)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Builder<K, V, S = RandomState> {
    pub(crate) hasher: S,
    pub(crate) emit: Emit,
    pub(crate) compression: Compression,
    pub(crate) background_resync: bool,
    pub(crate) background_initial: bool,
    pub(crate) transform: Option<Transform<V>>,
    pub(crate) on_error: Option<ErrorHook<K>>,
    pub(crate) on_abandon: OnAbandon,
    pub(crate) backoff: Backoff,
    pub(crate) timer: Option<Arc<dyn Timer>>,
    pub(crate) known: Known<K, V>,
    pub(crate) scopes: Vec<ScopeDecl<K>>,
    pub(crate) disjoint_scopes: bool,
    pub(crate) shards: Option<usize>,
    pub(crate) lines: usize,
    pub(crate) publish_every: Duration,
    pub(crate) on_slow: Option<OnSlow<K>>,
    pub(crate) measure: bool,
    pub(crate) extras: Extras<V>,
}

impl<K: Hash + Eq, V> Builder<K, V> {
    /// Everything at its default: known objects inside, `Replaced` for replaced items, only deletions merged. O(1).
    pub fn new() -> Self {
        Self::with_hasher(RandomState::new())
    }
}

impl<K: Hash + Eq, V> Default for Builder<K, V> {
    fn default() -> Self {
        Self::new()
    }
}

impl<K: Hash + Eq, V, S: BuildHasher> Builder<K, V, S> {
    /// The same with another hash function for the keys. O(1).
    pub fn with_hasher(hasher: S) -> Self {
        Builder {
            hasher,
            emit: Emit::default(),
            compression: Compression::default(),
            background_resync: false,
            background_initial: false,
            transform: None,
            on_error: None,
            on_abandon: OnAbandon::default(),
            backoff: Backoff::default(),
            timer: None,
            known: Known::Inside,
            scopes: Vec::new(),
            disjoint_scopes: false,
            shards: None,
            lines: 1,
            publish_every: Duration::from_millis(100),
            on_slow: None,
            measure: false,
            extras: Extras::default(),
        }
    }

    /// What a replace appends for an item of its list. O(1).
    pub fn replace_emits(mut self, emit: Emit) -> Self {
        self.emit = emit;
        self
    }

    /// How much of what is pending for one key may be merged. O(1).
    pub fn compression(mut self, compression: Compression) -> Self {
        self.compression = compression;
        self
    }

    /// Puts keys that go in line only by a resync, or only by the first replace, in a second line. A real change
    /// moves such a key to the first. Call it twice for both. Off by default. O(1).
    pub fn background(mut self, background: Background) -> Self {
        match background {
            Background::Resync => self.background_resync = true,
            Background::Initial => self.background_initial = true,
        }
        self
    }

    /// Sees every incoming object once, before anyone else does and outside every lock; tombstones and `Sync` never
    /// pass it. An object that it rejects goes back to the caller as the hook left it, and nothing has changed. O(1).
    pub fn transform(
        mut self,
        transform: impl Fn(&mut V) -> Result<(), BoxError> + Send + Sync + 'static,
    ) -> Self {
        self.transform = Some(Box::new(transform));
        self
    }

    /// Hears of what no call can return: failing stores, keys given up, panicking wakers. Runs outside every lock;
    /// its own panics are contained. O(1).
    pub fn on_error(mut self, hook: impl Fn(&ErrorEvent<'_, K>) + Send + Sync + 'static) -> Self {
        self.on_error = Some(Box::new(hook));
        self
    }

    /// What becomes of a lease that is dropped without being ended. O(1).
    pub fn on_abandon(mut self, on_abandon: OnAbandon) -> Self {
        self.on_abandon = on_abandon;
        self
    }

    /// How long `requeue_with_backoff`, and an abandoned lease, waits. O(1).
    pub fn backoff(mut self, backoff: Backoff) -> Self {
        self.backoff = backoff;
        self
    }

    /// Who wakes async consumers for delayed keys, and may be the queue's clock. Without one, a thread does that is started when first
    /// needed, and the clock is the system's. O(1).
    pub fn timer(mut self, timer: impl Timer + 'static) -> Self {
        self.timer = Some(Arc::new(timer));
        self
    }

    /// Builds the queue over the user's own store of known objects. O(1).
    pub fn known_objects(mut self, store: impl KnownObjects<K, V> + 'static) -> Self {
        self.known = Known::Store(Arc::new(store));
        self
    }

    /// Builds the queue over no known objects: only what is pending or leased exists. O(1).
    pub fn no_known_objects(mut self) -> Self {
        self.known = Known::None;
        self
    }

    /// Declares a part of the keys that [`replace_scope`](DeltaQueue::replace_scope) can replace on its own. With
    /// scopes declared, the queue has synced when each of them has, by its own replace or by a plain one, and an
    /// early change no longer decides it. `holds` runs outside every lock. O(scopes).
    ///
    /// # Panics
    ///
    /// If the name is declared already.
    pub fn scope(
        mut self,
        name: impl Into<String>,
        holds: impl Fn(&K) -> bool + Send + Sync + 'static,
    ) -> Self {
        let name = name.into();
        assert!(self.scopes.iter().all(|scope| scope.name != name), "scope {name:?} is declared twice");
        self.scopes.push(ScopeDecl { name, holds: Box::new(holds) });
        self
    }

    /// Declares that no key is in two scopes, so that replaces of different scopes may run side by side. If a key is
    /// in two nevertheless, it gets the deltas of both. O(1).
    pub fn disjoint_scopes(mut self) -> Self {
        self.disjoint_scopes = true;
        self
    }

    /// Into how many shards a [`DeltaFifo`](crate::DeltaFifo) divides its keys: at most 256, rounded up to a power of two.
    /// More of them let more threads work side by side and cost memory even when they are empty (about 1 KB each). By
    /// default four for each processor. Other queues have none. O(1).
    ///
    /// # Panics
    ///
    /// If it is 0 or more than 256.
    pub fn shards(mut self, shards: usize) -> Self {
        assert!((1..=256).contains(&shards), "{shards} shards: there are 1 to 256");
        self.shards = Some(shards.next_power_of_two());
        self
    }

    /// In how many lines the keys of a [`DeltaFifo`](crate::DeltaFifo) stand: one by default, at most 64 and no more than there are shards,
    /// rounded up to a power of two. Other queues have one. O(1).
    ///
    /// With one, keys are handed out in the order in which they became pending, whatever their shards, and all producers and all
    /// consumers meet at its two ends. With several only those of one line are: a key's shard says in which it stands, and each
    /// consumer takes from one after the other, so that a key may be overtaken by keys that came later, as many as stand before it in
    /// the other lines. [`try_pop`](crate::DeltaQueue::try_pop) may miss a key that becomes pending while it looks. All else stays as it
    /// is: one lease of a key at a time, its deltas in their order, first syncs, marks. Worth it where many processors work on one queue.
    ///
    /// # Panics
    ///
    /// If it is 0 or more than 64.
    pub fn lines(mut self, lines: usize) -> Self {
        assert!((1..=64).contains(&lines), "{lines} lines: there are 1 to 64");
        self.lines = lines.next_power_of_two();
        self
    }

    /// How old the snapshot may be that [`DeltaFifo::published`](crate::DeltaFifo::published) shares: one is taken anew at most
    /// every so often. By default 100 ms. Other queues have none. O(1).
    pub fn publish_every(mut self, time: Duration) -> Self {
        self.publish_every = time;
        self
    }

    /// Hears of each lease that was held for longer than `threshold`, when it ends in whatever way. Runs outside every lock; its own panics
    /// are contained. Without it, leases do not know when they began; with it each looks at the clock twice. O(1), and O(shards) for
    /// what it is told.
    pub fn on_slow(
        mut self,
        threshold: Duration,
        hook: impl Fn(&SlowEvent<'_, K>) + Send + Sync + 'static,
    ) -> Self {
        self.on_slow = Some(OnSlow { threshold, hook: Box::new(hook) });
        self
    }

    /// Measures how long keys wait and how many were in line at most, for [`stats`](DeltaQueue::stats). Costs a look at the clock for each key
    /// that goes in line, 8 bytes for each key, and a counter at which all producers and consumers meet. Off by default. O(1).
    pub fn measure(mut self) -> Self {
        self.measure = true;
        self
    }

    pub(crate) fn shard_count(&self) -> usize {
        let processors = || std::thread::available_parallelism().map_or(1, usize::from);
        self.shards.unwrap_or_else(|| (4 * processors()).next_power_of_two().min(256))
    }

    /// The queue takes objects alone and finds their keys by `key_fn`, after the transform. O(1).
    pub fn key_fn(
        self,
        key_fn: impl Fn(&V) -> Result<K, BoxError> + Send + Sync + 'static,
    ) -> KeyedBuilder<K, V, S> {
        KeyedBuilder::new(self, Box::new(key_fn))
    }

    /// The queue, of the type that the caller names. O(1).
    pub fn build<Q>(self) -> Q
    where
        Q: DeltaQueue<Key = K, Value = V, Hasher = S>,
    {
        Q::from_builder(self)
    }
}

impl<K, V, S> fmt::Debug for Builder<K, V, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Builder")
            .field("emit", &self.emit)
            .field("compression", &self.compression)
            .field("on_abandon", &self.on_abandon)
            .field("backoff", &self.backoff)
            .field("scopes", &self.scopes.iter().map(|scope| &scope.name).collect::<Vec<_>>())
            .finish_non_exhaustive()
    }
}
