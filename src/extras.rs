//! What a lease does with its deltas besides, if its queue was built so: objects are compared with those before them, and
//! deltas are numbered.

use std::hash::{BuildHasher, Hash};

use crate::builder::Builder;
use crate::delta::{DeltaList, Object};
use crate::sync::planted;

/// Of two objects of one key, the older one first.
type Comparison<V> = Box<dyn Fn(&V, &V) -> bool + Send + Sync>;

/// Whether two objects under one key are the same thing, or look the same.
pub(crate) trait Compare<O> {
    /// Whether `new` is another thing than the `old` one.
    fn is_other(&self, old: &O, new: &O) -> bool;

    /// Whether a list shows the `old` object once more.
    fn is_unchanged(&self, old: &O, new: &O) -> bool;
}

/// What a builder was asked for. Nothing is on by default.
pub(crate) struct Extras<V> {
    pub(crate) same_identity: Option<Comparison<V>>,
    pub(crate) unchanged: Option<Comparison<V>>,
    pub(crate) numbered: bool,
}

impl<V> Extras<V> {
    /// Whether leases have anything to do.
    pub(crate) fn any(&self) -> bool {
        self.same_identity.is_some() || self.unchanged.is_some() || self.numbered
    }
}

impl<V> Default for Extras<V> {
    fn default() -> Self {
        Extras { same_identity: None, unchanged: None, numbered: false }
    }
}

impl<V> Compare<Object<V>> for Extras<V> {
    fn is_other(&self, old: &Object<V>, new: &Object<V>) -> bool {
        self.same_identity.as_ref().is_some_and(|same| !same(old, new))
    }

    fn is_unchanged(&self, old: &Object<V>, new: &Object<V>) -> bool {
        self.unchanged.as_ref().is_some_and(|unchanged| unchanged(old, new))
    }
}

/// How many of these deltas have no number yet: they are the newest.
pub(crate) fn unnumbered<O>(deltas: &DeltaList<O>) -> usize {
    deltas.iter().rev().take_while(|delta| delta.note.number() == 0).count()
}

/// Numbers what has no number yet.
pub(crate) fn number<O>(deltas: &mut DeltaList<O>, numbers: impl Iterator<Item = u64>) {
    let again = planted("what came back is numbered anew");
    let new = deltas.iter_mut().filter(|delta| again || delta.note.number() == 0);
    new.zip(numbers).for_each(|(delta, number)| delta.note.set_number(number));
}

impl<K: Hash + Eq, V, S: BuildHasher> Builder<K, V, S> {
    /// What makes an object the same thing, beyond its key: for Kubernetes its UID. Where a change or a list shows another
    /// identity under the same key, the old object was deleted and nobody saw it. So the lease hands out a tombstone
    /// of the old object and then `Added` with the new one, in place of whatever the source said. Off by default. O(1).
    ///
    /// ```
    /// use delta_fifo::{Builder, DeltaQueue, baseline::MutexDeltaFifo};
    ///
    /// // A name and a UID.
    /// let queue: MutexDeltaFifo<&str, (u32, &str)> = Builder::new().identity(|object: &(u32, &str)| object.0).build();
    /// queue.add("a", (7, "old"))?;
    /// queue.pop()?.done();
    /// queue.update("a", (8, "new"))?; // deleted and made anew while the source was away
    /// let lease = queue.pop()?;
    /// assert_eq!(
    ///     format!("{:?}", lease.deltas()),
    ///     r#"[DeletedFinalStateUnknown(Tombstone { key: "a", object: Some((7, "old")) }), Added((8, "new"))]"#
    /// );
    /// assert_eq!(lease.previous(), Some(&(7, "old")));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// An object is compared with the live one before it in the same lease, else with the known one, when a lease first
    /// takes it. Where nothing is known (no known objects, a store that cannot tell, a key that is new or deleted) it is
    /// what the source says. What was handed out and comes back is not compared again; what arrived meanwhile is
    /// compared with it.
    ///
    /// - A *deletion* whose object has another identity becomes a tombstone of the object before: that is the deletion
    ///   that nobody saw. The one that the source deleted has come and gone in between; nobody was told that it was
    ///   there, so nobody is told that it is gone. If the object before is deleted already, nothing is said.
    /// - What a source said of a key that nobody has been handed may be merged
    ///   ([`Compression::Latest`](crate::Compression::Latest)); what is left of it is then compared with what is known. So an identity that came and went in
    ///   between is never seen, and the deletion that is handed out is always that of the object known before. With
    ///   deltas that were given back it is the same: the oldest deletion stays, and the newest object.
    /// - First syncs, marks, [`Lease::previous`](crate::Lease::previous), the known objects and snapshots are as without: the
    ///   new object is known when its lease has been handed out.
    ///
    /// The function runs in the pop, outside every lock and under no guard, as often as objects are compared, and
    /// must not depend on anything but the object. If it panics, so does the pop; nothing has happened, but that the key goes to
    /// the tail of its line. A pop of such a queue costs some more.
    pub fn identity<Id: PartialEq>(self, identity: impl Fn(&V) -> Id + Send + Sync + 'static) -> Self {
        self.identity_by(move |old, new| identity(old) == identity(new))
    }

    /// [`identity`](Self::identity) by a comparison, for identities that are borrowed from their objects: whether both
    /// have the same. O(1).
    ///
    /// ```
    /// use delta_fifo::{Builder, DeltaQueue, baseline::MutexDeltaFifo};
    ///
    /// let queue: MutexDeltaFifo<u32, String> =
    ///     Builder::new().identity_by(|old: &String, new| old.split('/').next() == new.split('/').next()).build();
    /// queue.add(1, "uid-1/a".into())?;
    /// queue.update(1, "uid-1/b".into())?;
    /// assert_eq!(queue.pop()?.deltas().len(), 2);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn identity_by(mut self, same: impl Fn(&V, &V) -> bool + Send + Sync + 'static) -> Self {
        self.extras.same_identity = Some(Box::new(same));
        self
    }

    /// Whether a list shows an object (the second) that is no news after the one before it (the first): the same version,
    /// say. Such an item is handed out like any other, and marked, so that handlers can skip it:
    /// [`DeltaInfo::is_unchanged`](crate::DeltaInfo::is_unchanged). Off by default. O(1).
    ///
    /// ```
    /// use delta_fifo::{Builder, DeltaQueue, baseline::MutexDeltaFifo};
    ///
    /// let queue: MutexDeltaFifo<&str, u32> = Builder::new().unchanged(|old, new| old == new).build();
    /// queue.replace([("a", 1), ("b", 1)])?;
    /// queue.pop_batch(2)?.done();
    /// queue.replace([("a", 1), ("b", 2)])?; // the source was away and lists anew
    /// assert!(queue.pop()?.deltas().newest_info().is_unchanged());
    /// assert!(!queue.pop()?.deltas().newest_info().is_unchanged());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// Compared are the items of lists, with the live object before them in the same lease, else with the known one;
    /// neither changes, nor what a resync hands out. Whoever skips a marked delta has to look at those before it in the
    /// lease all the same. An item that is merged with what is not marked is not marked either.
    /// When the function runs, and what its panics do, is as of [`identity`](Self::identity); of another identity it is not asked.
    pub fn unchanged(mut self, unchanged: impl Fn(&V, &V) -> bool + Send + Sync + 'static) -> Self {
        self.extras.unchanged = Some(Box::new(unchanged));
        self
    }

    /// Gives every delta a number: [`DeltaInfo::number`](crate::DeltaInfo::number). Off by default, when a delta has none. O(1).
    ///
    /// Numbers are given by the lease that shows a delta first, and stay with it for as long as it comes back. Of two
    /// deltas of one key the newer has the higher number, over all leases, deletions and re-creations of the key. No two
    /// deltas of a queue have the same. They begin anew with each queue, are not without gaps, and say nothing of the order of
    /// deltas of different keys. What is merged from a delta that was handed out and a newer one has a number of its own,
    /// which is higher.
    ///
    /// ```
    /// use delta_fifo::{Builder, DeltaQueue, baseline::MutexDeltaFifo};
    ///
    /// let queue: MutexDeltaFifo<&str, u32> = Builder::new().numbered().build();
    /// queue.add("a", 1)?;
    /// let lease = queue.pop()?;
    /// let seen = lease.deltas().newest_info().number();
    /// lease.requeue();
    /// queue.update("a", 2)?;
    /// let lease = queue.pop()?;
    /// let numbers: Vec<_> = lease.deltas().infos().map(|info| info.number()).collect();
    /// assert_eq!(numbers[0], seen); // seen before
    /// assert!(numbers[1] > seen);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn numbered(mut self) -> Self {
        self.extras.numbered = true;
        self
    }
}
