//! A lock-free hash table of slab slots, which grows and shrinks while it is in use.
//!
//! A split-ordered list after Shalev and Shavit, *Split-Ordered Lists: Lock-Free Extensible Hash Tables* (J. ACM 53(3),
//! 2006); removal after Harris (DISC 2001) and Michael (SPAA 2002). All nodes are in one list, sorted by the reversed bits
//! of their hashes. A bucket is a link in the list before the nodes whose hashes end in its number:
//!
//! ```text
//! arrays of buckets   [0         1    ]   [2     3    ]   [4 ·  ·  7]
//!                      │         │         │     │               │
//! list                 ▼         │         ▼     │               │
//!                      0 ▶ n ▶ n │──────▶  2 ▶ n │               │
//!                                ▼               ▼               ▼
//!                                1 ▶ n ────────▶ 3 ▶ n ────────▶ 7 ▶ n ▶ end
//! ```
//!
//! (one list, left to right in each row: 0 2 1 3 7). When the count of buckets doubles, each bucket is split in place by
//! another one that is put in the list behind half of its nodes, when somebody first needs it. When the count halves, the
//! buckets of the upper half are taken out of the list, and their array is freed. No node moves.
//!
//! Links are the slots' indices and the buckets' numbers, in atomics of type-stable memory, so nothing here is `unsafe` but
//! the arrays of buckets.
//!
//! # Invariants
//!
//! - **I1, sorted.** Along the list orders never go down. A node's is odd and a bucket's even, so a bucket stands before all
//!   nodes whose hashes end in its number, and no bucket stands among nodes of one order.
//! - **I2, in the list or marked.** A node that was inserted and is not marked, and a bucket that was put in the list and is
//!   not, can be reached from bucket 0, and from every linked bucket before it. A node's mark is never taken off, and a
//!   marked link never changes: nothing is put behind what is on its way out, and what was unlinked is not linked again,
//!   but after grace (I5, I9).
//! - **I3, buckets.** A bucket's link is unlinked (all zeros) → claimed → claimed, with what will be next → the same in the
//!   list → settled → marked, and from there claimed again or freed (I9). While it is claimed and not in the list only its
//!   claimer writes it. Only a settled one is entered from the arrays. One that is met in the list is in the list, or marked:
//!   who meets one there that is claimed settles it, and takes one out that is marked.
//! - **I4, unique.** An insert goes behind all nodes of its order, by a CAS of the last one's link (or of what is before
//!   them if there are none). So if the CAS succeeds, nothing of this order was put behind those that the insert has seen.
//! - **I5, grace; the callers'.** Every call runs under a guard. A slot is given back, or inserted again, only after no
//!   guard is alive that was alive when a `remove` of it had returned. So an index that a call has read from a link stands
//!   for the same node while the call runs: no CAS takes one for another, and no order changes under a reader.
//! - **I6, gone.** When `remove` has returned, the node is marked, and no link that can be reached from a bucket leads to it:
//!   who pins from then on does not find it on any path.
//! - **I7, callers' code.** `eq`, `len` and what a walk calls run when nothing is claimed and no step is half done. If one of
//!   them panics, the table is as before the call; a new node is not in it.
//! - **I8, arrays.** A count of buckets is stored after the arrays that it needs. Who has read it under a guard finds them
//!   while the guard lives.
//! - **I9, shrinking.** It goes through phases, which are one word with the count ([`extent`]):
//!   *Steady* → *Leaving*: the count is halved; the array of the upper half is doomed. Who begins from now on neither enters
//!   its buckets nor claims them. → *Unlinking*, after a grace period: who had read the old count has ended, and what they had
//!   claimed is settled. Each doomed bucket is marked, and unlinked if it is in the list; nobody claims one. → *Resting*, when
//!   that is done: no link that can be reached leads to a doomed bucket. → *Freeing*, after a grace period: nobody
//!   has such a link any more, or is busy unlinking. The array is taken out, and the collector frees it. → *Steady*.
//! - **I10, growth** is possible in each phase. From Leaving it leads back to Steady. In Unlinking and Freeing who grows does
//!   another piece first, and those are finite. In Resting the array is there and is covered again; its buckets are passed over for
//!   the ones that they were split from, until the rest is over: from there it goes to Steady, and they are claimed anew. The
//!   doomed array is provided by nobody who has read that it is doomed, so while it is Freeing nobody provides it: who has read
//!   Steady, and so would, keeps the next shrinking in Leaving by their guard.
//!
//! *Why there are two grace periods.* Without the first, somebody could enter a bucket that is marked already, and put something
//! behind it; or put one in the list that was found not to be there. Without the second, somebody could follow a link
//! that they have read, by the number of a bucket, to an array that is gone, or to a new bucket that is not in the list yet.
//! The collector waits for a third one before it frees an array: so no array has the address of one that
//! somebody is about to take out.
//!
//! *Why I6 holds.* A search for the node's order goes from link to unmarked link and past all nodes of this order. The link
//! by which it passes from before the node to behind it was read from a node or bucket that was in the list, and did not
//! lead to the marked node; by I2 nothing will lead there again. What the search has read, its caller's deferral publishes
//! to whoever pins later. It is the same with a bucket.
//!
//! # Linearization
//!
//! - An insert takes place at the CAS that makes a link lead to the node; one that fails, as a `find` that finds, at its load
//!   of the link *of* the node, which showed it unmarked.
//! - A removal takes place at the mark.
//! - A `find` that finds nothing takes place at the load of the link that leads past the order; or if it came there by way of
//!   nodes or buckets that were unlinked under it, at its beginning or right after the removal of the equal node, if there was
//!   one: what it misses was put behind something already unlinked, so after the call began.
//! - A walk is not one moment. It shows each node that is in the table from its beginning to its end, once. Others it shows or
//!   not; an equal node that replaces one that was shown may be shown too.
//!
//! # Progress
//!
//! Lock-free; `find` and `walk` never begin again and need no CAS of theirs to succeed. A thread stopped anywhere in here keeps
//! nobody from completing. Stopped in `remove`, it leaves a marked node that the next search takes out. Stopped while it puts a
//! bucket in the list, it leaves the bucket's nodes to be reached from the one it splits: a longer way until it goes on, for
//! one bucket. A count that cannot double for want of memory stays, and ways get longer.
//!
//! Stopped in `shrink`, or anywhere else under a guard, it keeps the shrinking from its end, which is memory, and the buckets of one
//! array that is covered again while they rest from being used (I10): ways twice as long for the keys of these. One call unlinks a
//! bounded number of buckets, and whoever shrinks next goes on from there.
//!
//! Expected time is constant: there are two buckets for three nodes, or up to four. When nodes have gone, and there are eight buckets
//! for one, the count is halved by those who remove more, as often as it takes, but each time two grace periods have to pass. A bucket
//! is 4 bytes.

mod directory;
mod extent;
mod link;
mod list;
mod resize;

#[cfg(all(test, delta_fifo_loom))]
mod models;
#[cfg(all(test, not(any(delta_fifo_loom, delta_fifo_shuttle))))]
mod tests;

use crate::slab::{Index, Slab, Slot};
use crate::sync::atomic::Ordering::{self, Acquire, Relaxed};
use crate::sync::atomic::{AtomicU32, AtomicU64};
use crate::sync::epoch::Guard;
use crate::sync::{Arc, CHECKED, pause_point, planted, prefetch_to_write, weaken};

use directory::Directory;
use extent::Extent;
use link::{Link, Target};
use list::{List, Place, Seen, order_of_hash};

/// A slot that a table can hold.
pub(crate) trait Node: Slot {
    /// The table's: leads to the next node.
    fn next(&self) -> &AtomicU32;
    /// The table's: where the node stands.
    fn order(&self) -> &AtomicU32;
}

/// The same for what only has the links.
pub(crate) trait Links {
    fn next(&self) -> &AtomicU32;
    fn order(&self) -> &AtomicU32;
}

/// An insert that passed more nodes than this asks whether the table has become too small.
const LONG: usize = if CHECKED { 0 } else { 2 };

/// Where a walk goes on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Position(u32);

/// The nodes are in a slab that every call is given: always the same one.
pub(crate) struct Table {
    /// An [`Extent`].
    extent: AtomicU64,
    directory: Directory,
    /// Doomed buckets that have been unlinked, from the first on (I9).
    unlinked: AtomicU32,
    /// The term of the last grace period that has ended.
    over: Arc<AtomicU32>,
}

/// A table can hold nodes with indices below this.
pub(crate) const MOST_NODES: u32 = 1 << link::NUMBER_BITS;

/// The low 31 bits of a node's hash, which are all that a table goes by. The node is in a table.
#[inline]
pub(crate) fn hash_of<N: Node>(node: &N) -> u32 {
    // Relaxed: written before the node came into the table, where the caller met it.
    (node.order().load(Relaxed) & !1).reverse_bits()
}

impl Table {
    /// A few buckets.
    pub(crate) fn new() -> Self {
        Table {
            extent: AtomicU64::new(Extent::NEW.word()),
            directory: Directory::new(),
            unlinked: AtomicU32::new(0),
            over: Arc::new(AtomicU32::new(Extent::NEW.term())),
        }
    }

    /// Brings near what a search for this hash begins with.
    #[inline(always)]
    pub(crate) fn prefetch_bucket(&self, hash: u64) {
        self.directory.prefetch(self.bucket(hash));
    }

    /// The same for what it goes on with.
    #[inline(always)]
    pub(crate) fn prefetch_node<N: Node>(&self, nodes: &Slab<N>, hash: u64, guard: &Guard) {
        if let Target::Node(index) = Link::load(self.directory.bucket(self.bucket(hash), guard)).target() {
            prefetch_to_write(nodes.get(index).next());
        }
    }

    /// The node of this hash that `eq` says is it.
    ///
    /// `hash` is well mixed; only its low 31 bits count, so they must not have chosen the table.
    #[inline(always)]
    pub(crate) fn find<'c, N: Node>(
        &'c self,
        nodes: &'c Slab<N>,
        hash: u64,
        mut eq: impl FnMut(&N) -> bool,
        guard: &'c Guard,
    ) -> Option<(Index, &'c N)> {
        let list = self.list(nodes, guard);
        let order = order_of_hash(hash);
        list.scan(list.entrance(self.bucket(hash)), |seen, found| match seen {
            Seen::Node(index, node) if found == order => eq(node).then_some(Some((index, node))),
            _ => (found > order).then_some(None),
        })
        .flatten()
    }

    /// Puts `node` in the table, or says which equal node is there. `node` must be in no table, and reached by nobody (I5).
    ///
    /// `len` says roughly how many nodes there are; it is asked, once at most, if the search was long.
    pub(crate) fn insert<N: Node>(
        &self,
        nodes: &Slab<N>,
        hash: u64,
        node: Index,
        mut eq: impl FnMut(&N) -> bool,
        len: impl FnOnce() -> usize,
        guard: &Guard,
    ) -> Result<(), Index> {
        let list = self.list(nodes, guard);
        let order = order_of_hash(hash);
        let (start, _) = list.entrance(self.bucket(hash));
        let new = nodes.get(node);
        // Relaxed: nobody reads it before the node is linked.
        new.order().store(order, Relaxed);
        let mut len = Some(len);
        // Repeats only if somebody else put a node there or removed a neighbour.
        loop {
            let place: Place<'_> = list.search(start, order, &mut eq)?;
            if place.passed > LONG {
                // Before the node is linked, as it may panic (I7).
                if len.take().is_some_and(|len| len() > self.buckets() / 2 * 3) {
                    self.grow(&list);
                }
            }
            place.next().store(new.next());
            pause_point("insert: ready");
            if place.fill(Link::to_node(node)) {
                return Ok(());
            }
        }
    }

    /// Marks the node and unlinks it. `node` was inserted, and was not given back since. When this returns, whoever pins
    /// from now on cannot reach the node (I6). Idempotent; anybody may help. Returns whether this call marked it.
    pub(crate) fn remove<N: Node>(&self, nodes: &Slab<N>, node: Index, guard: &Guard) -> bool {
        let list = self.list(nodes, guard);
        let removed = nodes.get(node);
        // Relaxed: written before the node was inserted, which the caller knows of.
        let order = removed.order().load(Relaxed);
        let marked = Link::mark(removed.next());
        pause_point("remove: marked");
        if marked || !planted("who did not mark does not unlink") {
            let (start, _) = list.entrance(self.bucket(order.reverse_bits().into()));
            // Also if somebody else has marked it: they may have been stopped.
            list.behind(start, order);
        }
        marked
    }

    /// Visits nodes in the table's order and says where to go on, or None at the end. Every node that is in the table
    /// all the time is visited, each at most once over the whole walk.
    ///
    /// Ends after about `max` steps, which are nodes and buckets; nodes of one order are visited together.
    pub(crate) fn walk<N: Node>(
        &self,
        nodes: &Slab<N>,
        from: Position,
        max: usize,
        guard: &Guard,
        mut f: impl FnMut(Index, &N),
    ) -> Option<Position> {
        let list = self.list(nodes, guard);
        let (mut left, mut last) = (max.max(1), from.0);
        let start = list.entrance(self.bucket(from.0.reverse_bits().into()));
        list.scan(start, |seen, order| {
            if order < from.0 {
                return None;
            }
            if left == 0 && order > last {
                return Some(Position(order));
            }
            if let Seen::Node(index, node) = seen {
                f(index, node);
            }
            left = left.saturating_sub(1);
            last = order;
            None
        })
    }

    /// How many there are. Doubles as the table grows, and halves as it shrinks.
    pub(crate) fn buckets(&self) -> usize {
        // Relaxed: just a number.
        self.extent(Relaxed).buckets() as usize
    }

    fn list<'c, N: Node>(&'c self, nodes: &'c Slab<N>, guard: &'c Guard) -> List<'c, N> {
        List { table: self, nodes, guard }
    }

    /// The bucket of a hash; its array is there.
    #[inline(always)]
    fn bucket(&self, hash: u64) -> u32 {
        // Acquire: pairs with `change` (Release): the arrays of that many buckets (I8). The cast keeps the low bits.
        hash as u32 & self.extent(weaken("the count is read relaxed", Acquire)).mask()
    }

    #[inline(always)]
    fn extent(&self, ordering: Ordering) -> Extent {
        Extent::of_word(self.extent.load(ordering))
    }
}
