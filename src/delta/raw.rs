//! Deltas as the queues store them, and how they are merged.

use std::num::NonZeroU64;

use smallvec::SmallVec;

use super::{Delta, DeltaInfo, Tombstone};
use crate::object::{Body, Head, Shared};
use crate::sync::atomic::{AtomicU8, AtomicU32, AtomicU64};
use crate::sync::planted;

/// How much of what is pending for one key may be merged.
///
/// Merging changes how many deltas are handed out, never the last state.
///
/// ```
/// use delta_fifo::{Builder, Compression, DeltaQueue, baseline::MutexDeltaFifo};
///
/// let queue: MutexDeltaFifo<&str, u32> = Builder::new().compression(Compression::Latest).build();
/// queue.add("a", 1)?;
/// queue.update("a", 2)?;
/// let lease = queue.pop()?;
/// assert_eq!(format!("{:?}", lease.deltas()), "[Added(2)]");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Compression {
    /// Only deletions that follow each other directly are merged, as in client-go: a real `Deleted` wins over a
    /// tombstone, the older of two real ones and the newer of two tombstones stays.
    #[default]
    Deletions,
    /// At most the newest deletion and, after it, one live delta are kept, so that memory is bounded by the
    /// number of keys however slow the consumers are. The live delta carries the newest object; it is `Added` if
    /// an `Added` was merged into it, else `Updated`, else `Replaced`, else `Sync`.
    Latest,
}

/// The handle by which the queue, the known objects and the leases share one object.
pub(crate) type Object<V> = Shared<V, FactHead>;

/// What a lock-free queue writes beside an object while it is a fact on its way to a consumer.
#[derive(Debug, Default)]
pub(crate) struct FactHead {
    pub(crate) settled: AtomicU64,
    pub(crate) debt: AtomicU64,
    pub(crate) carrier: AtomicU32,
    pub(crate) info: AtomicU8,
    body: Body,
}

impl Head for FactHead {
    type Align = ();

    fn body(&self) -> Option<&Body> {
        Some(&self.body)
    }
}

/// The kind of a [`RawDelta`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RawKind {
    Added,
    Updated,
    /// `Added` or `Updated`: settled by [`resolve`](crate::resolve::resolve), never handed out.
    Applied,
    Replaced,
    Sync,
    Deleted,
    Tombstone,
}

impl RawKind {
    pub(crate) fn is_deletion(self) -> bool {
        matches!(self, RawKind::Deleted | RawKind::Tombstone)
    }

    /// Under `Compression::Latest` the live kind of the higher rank survives. An `Applied` turns out as `Added` or
    /// `Updated`, so it stands between the two: merged with `Updated` it still decides.
    pub(crate) fn rank(self) -> u8 {
        match self {
            RawKind::Added => 4,
            RawKind::Applied => 3,
            RawKind::Updated => 2,
            RawKind::Replaced => 1,
            RawKind::Sync | RawKind::Deleted | RawKind::Tombstone => 0,
        }
    }
}

/// A delta as the queues store it. A `Sync` or tombstone without an object refers to the one before it: the delta
/// that precedes it, else the known object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RawDelta<O> {
    pub(crate) kind: RawKind,
    pub(crate) object: Option<O>,
    pub(crate) note: Note,
}

/// What else is known of a [`RawDelta`]. Fits beside its kind: a lease with more in it is moved by calls of the C library.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Note([u8; 7]);

impl Note {
    const ABSORBED: u8 = 1;
    const UNCHANGED: u8 = 2;
    /// Where the number begins. It wraps after 2^54, which no shard sees.
    const NUMBER: u32 = 2;

    #[inline(always)]
    pub(crate) fn of_absorbed(absorbed: bool) -> Self {
        let flags = if absorbed { Self::ABSORBED } else { 0 };
        Note([flags, 0, 0, 0, 0, 0, 0])
    }

    /// A deletion into which live deltas were merged: it is newer than any deletion before it.
    pub(crate) fn is_absorbed(self) -> bool {
        self.0[0] & Self::ABSORBED != 0
    }

    pub(crate) fn set_absorbed(&mut self) {
        self.0[0] |= Self::ABSORBED;
    }

    /// An item of a list that looks like the object before it, in a queue that compares them.
    pub(crate) fn is_unchanged(self) -> bool {
        self.0[0] & Self::UNCHANGED != 0
    }

    pub(crate) fn set_unchanged(&mut self, unchanged: bool) {
        self.0[0] = self.0[0] & !Self::UNCHANGED | if unchanged { Self::UNCHANGED } else { 0 };
    }

    /// Given by the first lease that shows it, in a queue that numbers them; else 0.
    pub(crate) fn number(self) -> u64 {
        let [a, b, c, d, e, f, g] = self.0;
        u64::from_le_bytes([a, b, c, d, e, f, g, 0]) >> Self::NUMBER
    }

    /// Once.
    pub(crate) fn set_number(&mut self, number: u64) {
        let [a, b, c, d, e, f, g, _] = (number << Self::NUMBER).to_le_bytes();
        self.0 = [a | self.0[0], b, c, d, e, f, g];
    }
}

impl std::fmt::Debug for Note {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (absorbed, unchanged, number) = (self.is_absorbed(), self.is_unchanged(), self.number());
        f.debug_struct("Note")
            .field("absorbed", &absorbed)
            .field("unchanged", &unchanged)
            .field("number", &number)
            .finish()
    }
}

impl<O> RawDelta<O> {
    pub(crate) fn new(kind: RawKind, object: Option<O>) -> Self {
        RawDelta { kind, object, note: Note::default() }
    }

    /// The same of a deletion into which live deltas were merged, or not.
    #[inline(always)]
    pub(crate) fn absorbing(kind: RawKind, object: Option<O>, absorbed: bool) -> Self {
        RawDelta { kind, object, note: Note::of_absorbed(absorbed) }
    }

    fn is_open_sync(&self) -> bool {
        self.kind == RawKind::Sync && self.object.is_none()
    }
}

impl<V> RawDelta<Object<V>> {
    pub(super) fn lend<'a, K>(&'a self, key: &'a K) -> Delta<'a, K, V> {
        let object = self.object.as_deref();
        match (self.kind, object) {
            (RawKind::Added, Some(object)) => Delta::Added(object),
            (RawKind::Updated, Some(object)) => Delta::Updated(object),
            (RawKind::Replaced, Some(object)) => Delta::Replaced(object),
            (RawKind::Sync, Some(object)) => Delta::Sync(object),
            (RawKind::Deleted, Some(object)) => Delta::Deleted(object),
            (RawKind::Tombstone, object) => Delta::DeletedFinalStateUnknown(Tombstone { key, object }),
            (kind, _) => unreachable!("{kind:?} was not resolved before it was handed out"),
        }
    }

    pub(super) fn info(&self) -> DeltaInfo {
        DeltaInfo { number: NonZeroU64::new(self.note.number()), unchanged: self.note.is_unchanged() }
    }
}

/// Deltas of one key, oldest first. Most keys have one or two at a time.
pub(crate) type DeltaList<O> = SmallVec<[RawDelta<O>; 2]>;

/// Appends `new` to `list`, merged as `compression` says. What is merged away goes to `merged`, whose owner drops it
/// where dropping a user's object is harmless.
pub(crate) fn append<O: Clone>(
    list: &mut DeltaList<O>,
    mut new: RawDelta<O>,
    compression: Compression,
    merged: &mut Vec<RawDelta<O>>,
) {
    let Some(last) = list.last_mut() else {
        list.push(new);
        return;
    };
    // A `Sync` that has no object yet may come to nothing; what comes after it is then the first.
    if new.kind == RawKind::Applied && !last.is_open_sync() {
        new.kind = if last.kind.is_deletion() { RawKind::Added } else { RawKind::Updated };
    }
    if new.object.is_none() {
        // What `new` refers to may be merged away below.
        new.object = last.object.clone();
    }
    match (last.kind.is_deletion(), new.kind.is_deletion()) {
        (true, true) if last.kind == RawKind::Deleted && !new.note.is_absorbed() => merged.push(new),
        (true, true) => {
            if last.note.is_absorbed() {
                new.note.set_absorbed();
            }
            merged.push(std::mem::replace(last, new));
        }
        (false, true) if compression == Compression::Latest => {
            new.note.set_absorbed();
            merged.extend(list.drain(..));
            list.push(new);
        }
        (false, false) if compression == Compression::Latest => {
            if last.kind.rank() > new.kind.rank() {
                new.kind = last.kind;
            }
            let was_news = !last.note.is_unchanged() && !planted("what is merged with news is none");
            new.note.set_unchanged(new.note.is_unchanged() && !was_news);
            merged.push(std::mem::replace(last, new));
        }
        _ => list.push(new),
    }
}

#[cfg(test)]
mod tests;
