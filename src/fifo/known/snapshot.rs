//! The known objects as of one moment.

use std::borrow::Borrow;
use std::collections::HashMap;
use std::fmt;
use std::hash::{BuildHasher, Hash};
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::sync::Arc;

use smallvec::SmallVec;

use crate::delta::FactHead;
use crate::fifo::chain::InView;
use crate::fifo::core::Core;
use crate::fifo::entry::{Slot, key_shown};
use crate::fifo::epochs::Moment;
use crate::fifo::hashing::{mix, shard_of};
use crate::fifo::shard::Shard;
use crate::fifo::{DeltaFifo, Published};
use crate::known::{KnownObject, KnownView};
use crate::object::Spot;
use crate::slab::Index;
use crate::sync::Arc as Shared;
use crate::sync::atomic::{AtomicUsize, Ordering};
use crate::sync::epoch;

/// So many objects an iteration asks for together.
const AHEAD: usize = 16;

/// The known objects of a [`DeltaFifo`] as of one moment.
///
/// A consistent cut: what was popped before it was taken is in it, and if the object of one pop is, so are those of all pops
/// that had returned before that one began. Taking it costs **O(1)**, however many objects there are, and is lock-free, as
/// are looking up, O(1) expected, and iterating, O(most keys that there ever were at once), fastest by
/// [`for_each`](KnownView::for_each). [`len`](KnownView::len) counts the objects, the first time, and costs O(1) after that, also for
/// clones. Cloning is wait-free.
///
/// It owns what it shows, and needs the queue no more, which may be gone. As long as it is held, the queue keeps of every key that
/// changes the version that it shows, one for each key and snapshot at most. They go when it is dropped: that looks
/// at up to 256 itself, and consumers at the others, 16 with each lease that ends and 1,024 when they find nothing in line.
///
/// Over a user's store it is what the store has: the handles of all objects, collected one by one, O(n), and no consistent cut.
///
/// ```
/// use delta_fifo::{DeltaFifo, DeltaQueue, KnownView};
///
/// let queue = DeltaFifo::<&str, u32>::new();
/// queue.add("a", 1)?;
/// queue.pop()?.done();
/// let snapshot = queue.snapshot();
/// queue.update("a", 2)?;
/// queue.pop()?.done();
/// drop(queue);
/// assert_eq!(snapshot.get(&"a"), Some(1));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct FifoSnapshot<K, V, S> {
    pub(super) inner: Arc<Inner<K, V>>,
    hasher: Arc<S>,
}

/// A panic leaves nothing half done in the queue that it looks into; what it lends of keys and objects is theirs to say.
impl<K: RefUnwindSafe, V: RefUnwindSafe, S: RefUnwindSafe> UnwindSafe for FifoSnapshot<K, V, S> {}
impl<K: RefUnwindSafe, V: RefUnwindSafe, S: RefUnwindSafe> RefUnwindSafe for FifoSnapshot<K, V, S> {}

pub(super) enum Inner<K, V> {
    Cut(Cut<K, V>),
    Collected { of: Shared<Core<K, V>>, epoch: u64, table: HashMap<u64, Vec<KnownObject<K, V>>>, len: usize },
}

/// An epoch of the queue's own known objects.
pub(super) struct Cut<K, V> {
    pub(super) core: Shared<Core<K, V>>,
    moment: Moment,
    /// One more than how many objects there are; 0 before anybody has counted.
    counted: AtomicUsize,
}

impl<K, V> Drop for Cut<K, V> {
    fn drop(&mut self) {
        self.core.end_snapshot(self.moment);
    }
}

/// Slots of a shard, side by side, up to [`AHEAD`].
struct Stretch<'c, K, V> {
    shard: &'c Shard<K, V>,
    first: u32,
    slots: &'c [Slot<K>],
}

/// Where an entry may be.
pub(super) struct Place<'c, K, V> {
    shard: &'c Shard<K, V>,
    index: Index,
    slot: &'c Slot<K>,
}

impl<K, V> Clone for Place<'_, K, V> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<K, V> Copy for Place<'_, K, V> {}

/// What a snapshot shows at a place.
pub(super) struct Seen<'c, K, V> {
    place: Place<'c, K, V>,
    object: InView<'c, V>,
}

impl<K, V> Cut<K, V> {
    fn look_up<Q>(&self, hash: u64, key: &Q) -> Option<Seen<'_, K, V>>
    where
        K: Borrow<Q>,
        Q: Eq + ?Sized,
    {
        let shards = &self.core.shards;
        let shard = &shards[shard_of(hash, shards.len())];
        let index = shard.find_entry(hash, key, &epoch::pin())?.index();
        self.see(Place { shard, index, slot: shard.entries.slots().get(index) })
    }

    /// What it shows, in the order of memory: keys and versions that a snapshot shows stay where they are (E9, V7), so no table has to
    /// be walked, and no guard be held.
    fn shown(&self) -> impl Iterator<Item = Seen<'_, K, V>> {
        self.stretches().flat_map(|stretch| {
            let mut shown = SmallVec::<[_; AHEAD]>::new();
            self.see_all(stretch, &mut |seen| shown.push(seen));
            shown
        })
    }

    /// The same, faster.
    fn each_shown<'c>(&'c self, mut f: impl FnMut(Seen<'c, K, V>)) {
        self.stretches().for_each(|stretch| self.see_all(stretch, &mut f));
    }

    /// All places where an entry may be.
    pub(super) fn places(&self) -> impl Iterator<Item = Place<'_, K, V>> {
        self.stretches().flat_map(Stretch::places)
    }

    fn stretches(&self) -> impl Iterator<Item = Stretch<'_, K, V>> {
        self.core.shards.iter().flat_map(|shard| {
            let stretches = shard.entries.slots().stretches(AHEAD);
            stretches.map(move |(first, slots)| Stretch { shard, first, slots })
        })
    }

    /// Brings all objects near before it looks at the first.
    #[inline(always)]
    fn see_all<'c>(&'c self, stretch: Stretch<'c, K, V>, f: &mut impl FnMut(Seen<'c, K, V>)) {
        let mut glances = [const { None }; AHEAD];
        for (slot, glance) in stretch.slots.iter().zip(&mut glances) {
            *glance = slot.head().version.glance(&stretch.shard.objects);
            glance.iter().for_each(Spot::prefetch);
        }
        // That of index 0 has none, so that each that has one is a place.
        for (place, glance) in stretch.places().zip(&glances[stretch.skipped()..]) {
            if let Some(seen) = glance.as_ref().and_then(|glance| self.see_at(place, glance)) {
                f(seen);
            }
        }
    }

    /// What it shows of the key of an entry.
    pub(super) fn see<'c>(&self, place: Place<'c, K, V>) -> Option<Seen<'c, K, V>> {
        let glance = place.slot.head().version.glance(&place.shard.objects)?;
        self.see_at(place, &glance)
    }

    #[inline(always)]
    fn see_at<'c>(&self, place: Place<'c, K, V>, glance: &Spot<'c, V, FactHead>) -> Option<Seen<'c, K, V>> {
        let (version, objects) = (&place.slot.head().version, &place.shard.objects);
        let object = version.in_view(glance, objects, &self.core.epochs, self.moment.epoch())?;
        Some(Seen { place, object })
    }

    /// Whoever comes while somebody counts does so too: nobody waits.
    fn len(&self) -> usize {
        // Relaxed, both: it is the same for everybody.
        match self.counted.load(Ordering::Relaxed) {
            0 => {
                let mut len = 0;
                self.each_shown(|_| len += 1);
                self.counted.store(len + 1, Ordering::Relaxed);
                len
            }
            counted => counted - 1,
        }
    }
}

impl<'c, K, V> Stretch<'c, K, V> {
    /// How many of its slots no entry can have: that of index 0.
    fn skipped(&self) -> usize {
        usize::from(self.first == 0)
    }

    #[inline(always)]
    fn places(self) -> impl Iterator<Item = Place<'c, K, V>> {
        let Stretch { shard, first, slots } = self;
        let indices = (first..).filter_map(Index::new);
        slots[self.skipped()..].iter().zip(indices).map(move |(slot, index)| Place { shard, index, slot })
    }
}

impl<K, V> Clone for Stretch<'_, K, V> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<K, V> Copy for Stretch<'_, K, V> {}

impl<'c, K, V> Seen<'c, K, V> {
    /// As long as the snapshot is there.
    #[inline]
    fn key(&self) -> &'c K {
        key_shown(self.place.slot)
    }

    /// As long as the snapshot is there.
    #[inline]
    fn object(&self) -> &'c V {
        self.object.object().expect("what is seen is not nothing")
    }

    /// Both, good for ever.
    pub(super) fn share(&self) -> KnownObject<K, V> {
        let key = self.place.shard.entries.share_shown(self.place.index);
        KnownObject::of_entry(key, self.object.share())
    }
}

impl<K, V, S> DeltaFifo<K, V, S>
where
    K: Hash + Eq + Send + Sync,
    V: Send + Sync,
    S: BuildHasher + Send + Sync,
{
    pub(in crate::fifo) fn take_snapshot(&self) -> FifoSnapshot<K, V, S> {
        let inner = match self.keeps_known() {
            true => Inner::Cut(Cut {
                moment: self.core.begin_snapshot(),
                core: Shared::clone(&self.core),
                counted: AtomicUsize::new(0),
            }),
            false => self.collect_known(),
        };
        FifoSnapshot { inner: Arc::new(inner), hasher: Arc::clone(&self.hasher) }
    }

    /// The latest snapshot, shared by all who ask for it: taken anew at most [`every so often`](crate::Builder::publish_every),
    /// and only if something has changed. For many readers who list, and can do with what was a moment ago.
    ///
    /// Costs one load (of `arc-swap`), one more to see whether anything has changed, and if so a look at the clock. Lock-free. Over a
    /// user's store nobody can tell whether anything has changed: it is collected anew as often as it may be. It is
    /// kept until it is published anew, or the queue is dropped: once this was called, a key may keep one older version.
    ///
    /// ```
    /// use delta_fifo::{DeltaFifo, DeltaQueue, KnownView};
    ///
    /// let queue = DeltaFifo::<&str, u32>::new();
    /// queue.add("a", 1)?;
    /// queue.pop()?.done();
    /// assert_eq!(queue.published().get(&"a"), Some(1));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn published(&self) -> Published<K, V, S> {
        let newest = if self.keeps_known() { self.core.epochs.newest_stamp() } else { u64::MAX };
        self.publishing.read(newest, || self.take_snapshot())
    }

    fn collect_known(&self) -> Inner<K, V> {
        let moment = self.core.begin_snapshot();
        self.core.end_snapshot(moment);
        let mut table: HashMap<u64, Vec<KnownObject<K, V>>> = HashMap::new();
        let mut len = 0;
        for known in self.known_view().iter() {
            len += 1;
            table.entry(self.hash(known.key())).or_default().push(known);
        }
        Inner::Collected { of: Shared::clone(&self.core), epoch: moment.epoch(), table, len }
    }
}

impl<K, V, S> FifoSnapshot<K, V, S> {
    /// Which moment it is: of two snapshots of one queue the later has the higher number. Wait-free, O(1).
    pub fn epoch(&self) -> u64 {
        match &*self.inner {
            Inner::Cut(cut) => cut.moment.epoch(),
            Inner::Collected { epoch, .. } => *epoch,
        }
    }
}

impl<K, V, S> Clone for FifoSnapshot<K, V, S> {
    fn clone(&self) -> Self {
        FifoSnapshot { inner: Arc::clone(&self.inner), hasher: Arc::clone(&self.hasher) }
    }
}

impl<K, V, S> KnownView<K, V> for FifoSnapshot<K, V, S>
where
    K: Hash + Eq,
    S: BuildHasher,
{
    fn find<Q>(&self, key: &Q) -> Option<KnownObject<K, V>>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        let hash = mix(self.hasher.hash_one(key));
        match &*self.inner {
            Inner::Cut(cut) => cut.look_up(hash, key).map(|seen| seen.share()),
            Inner::Collected { table, .. } => {
                table.get(&hash)?.iter().find(|known| known.key().borrow() == key).cloned()
            }
        }
    }

    fn get_with<Q, R>(&self, key: &Q, f: impl FnOnce(&V) -> R) -> Option<R>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        match &*self.inner {
            Inner::Cut(cut) => cut.look_up(mix(self.hasher.hash_one(key)), key).map(|seen| f(seen.object())),
            Inner::Collected { .. } => self.find(key).map(|known| f(known.object())),
        }
    }

    fn len(&self) -> usize {
        match &*self.inner {
            Inner::Cut(cut) => cut.len(),
            Inner::Collected { len, .. } => *len,
        }
    }

    fn for_each(&self, mut f: impl FnMut(&K, &V)) {
        match &*self.inner {
            Inner::Cut(cut) => {
                cut.each_shown(|seen| f(seen.key(), seen.object()));
            }
            Inner::Collected { table, .. } => {
                table.values().flatten().for_each(|known| f(known.key(), known.object()));
            }
        }
    }

    fn iter(&self) -> impl Iterator<Item = KnownObject<K, V>> {
        let (cut, collected) = match &*self.inner {
            Inner::Cut(cut) => (Some(cut.shown().map(|seen| seen.share())), None),
            Inner::Collected { table, .. } => (None, Some(table.values().flatten().cloned())),
        };
        cut.into_iter().flatten().chain(collected.into_iter().flatten())
    }
}

impl<K, V, S> fmt::Debug for FifoSnapshot<K, V, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FifoSnapshot").field("epoch", &self.epoch()).finish_non_exhaustive()
    }
}
