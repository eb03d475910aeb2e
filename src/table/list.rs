//! The sorted list of all nodes and linked buckets, as one call goes along it.

use super::link::{Link, Target};
use super::{Node, Table};
use crate::slab::{Index, Slab};
use crate::sync::atomic::AtomicU32;
use crate::sync::atomic::Ordering::{Acquire, Relaxed};
use crate::sync::epoch::Guard;
use crate::sync::{pause_point, planted};

/// Where a node with this hash stands: odd, the bits reversed, so that growth splits each bucket into two stretches.
#[inline(always)]
pub(super) fn order_of_hash(hash: u64) -> u32 {
    // The cast keeps the low bits; the highest of them makes room for the mark of a node.
    (hash as u32).reverse_bits() | 1
}

/// Where a bucket stands: even, before the nodes of all hashes that end in its number.
#[inline(always)]
fn order_of_bucket(bucket: u32) -> u32 {
    bucket.reverse_bits()
}

pub(super) struct List<'c, N> {
    pub(super) table: &'c Table,
    pub(super) nodes: &'c Slab<N>,
    /// I5: what was reached stays what it is while the call runs.
    pub(super) guard: &'c Guard,
}

/// Between two neighbours.
pub(super) struct Place<'c> {
    before: &'c AtomicU32,
    /// What `before` said: unmarked.
    link: Link,
    /// How many nodes it took to get here.
    pub(super) passed: usize,
}

impl Place<'_> {
    /// What will come behind whatever is put here.
    pub(super) fn next(&self) -> Link {
        self.link
    }

    /// Puts something here whose own link is `next`. Fails if somebody else put something here or removed a neighbour.
    pub(super) fn fill(&self, with: Link) -> bool {
        if planted("an insert is a store") {
            with.store(self.before);
            return true;
        }
        Link::swing(self.before, self.link, with)
    }
}

impl<'c, N: Node> List<'c, N> {
    /// The link of a bucket.
    #[inline(always)]
    fn bucket(&self, bucket: u32) -> &'c AtomicU32 {
        self.table.directory.bucket(bucket, self.guard)
    }

    /// A bucket in the list from which the nodes of `bucket` can be reached, and its link.
    #[inline(always)]
    pub(super) fn entrance(&self, bucket: u32) -> (&'c AtomicU32, Link) {
        let start = self.bucket(bucket);
        let link = Link::load(start);
        if link.is_linked() { (start, link) } else { self.make_entrance(bucket) }
    }

    /// Puts the bucket in the list, and before it those that it was split from, but for what somebody else is just
    /// putting there: nobody waits for them.
    #[cold]
    fn make_entrance(&self, bucket: u32) -> (&'c AtomicU32, Link) {
        while planted("who finds a claimed bucket waits") && Link::load(self.bucket(bucket)).is_claimed() {
            crate::sync::thread::yield_now();
        }
        let (mut start, mut from) = (bucket, self.bucket(bucket));
        // Ends at bucket 0 at the latest, which is in the list from the beginning.
        while !Link::load(from).is_linked() {
            start ^= 1 << start.ilog2();
            from = self.bucket(start);
        }
        let mut rest = bucket ^ start;
        while rest != 0 {
            start |= rest & rest.wrapping_neg();
            rest &= rest - 1;
            if self.link(from, start) {
                from = self.bucket(start);
            }
        }
        (from, Link::load(from))
    }

    /// Puts the bucket in the list, looking for its place from `from`. Returns whether it is there: not if somebody
    /// else has claimed it.
    fn link(&self, from: &'c AtomicU32, bucket: u32) -> bool {
        let own = self.bucket(bucket);
        if let Err(link) = Link::claim(own, Link::UNLINKED) {
            // Acquire: what is no longer doomed has rested: all that was done to the link happened before (I9). No model misses
            // it: what is stale in the list makes exchanges fail, and that no late write to the link comes after the claim is
            // what loom takes for granted, for which the order of execution is that of the writes.
            let is_free = link.is_marked()
                && (!self.table.extent(Acquire).has_closed(bucket) || planted("the doomed are claimed"));
            if !is_free || Link::claim(own, link).is_err() {
                return Link::load(own).is_linked() || planted("a claimed bucket counts as linked");
            }
        }
        pause_point("link: claimed");
        // Repeats only if somebody else put something there or removed a neighbour.
        loop {
            let place = self.behind(from, order_of_bucket(bucket));
            // I3: nobody else writes it before it is in the list.
            place.next().claimed().store(own);
            if planted("a bucket is settled before it is linked") {
                Link::settle(own);
            }
            pause_point("link: ready");
            if place.fill(Link::to_bucket(bucket)) {
                break;
            }
        }
        pause_point("link: linked");
        Link::settle(own);
        true
    }

    /// Comes to a bucket along the list, which shows that it is there, even if whoever put it there has yet to say so.
    #[inline(always)]
    fn arrive(&self, bucket: u32) -> (&'c AtomicU32, Link) {
        let own = self.bucket(bucket);
        let link = Link::load(own);
        (own, if link.is_claimed() { Link::settle(own) } else { link })
    }

    /// Marks a doomed bucket, and unlinks it if it is in the list. Idempotent; anybody may help. When this returns, no link
    /// that can be reached from a bucket leads to it.
    pub(super) fn unlink(&self, bucket: u32) {
        let own = self.bucket(bucket);
        if Link::shut(own) {
            return;
        }
        let marked = Link::mark(own);
        pause_point("unlink: marked");
        if marked || !planted("who did not mark does not unlink a bucket") {
            // In the lower half, so not doomed.
            let (start, _) = self.entrance(bucket ^ 1 << bucket.ilog2());
            self.behind(start, order_of_bucket(bucket) | 1);
        }
    }

    /// The place behind all nodes up to `order`. Unlinks marked nodes on the way.
    pub(super) fn behind(&self, start: &'c AtomicU32, order: u32) -> Place<'c> {
        self.search(start, order, |_| false).unwrap_or_else(|_| unreachable!("nothing is equal"))
    }

    /// The first node of this order that `eq` says is it, or the place behind all nodes up to `order`. Unlinks marked
    /// nodes on the way, and begins again where that fails.
    pub(super) fn search(
        &self,
        start: &'c AtomicU32,
        order: u32,
        mut eq: impl FnMut(&N) -> bool,
    ) -> Result<Place<'c>, Index> {
        'again: loop {
            let mut place = Place { before: start, link: Link::load(start), passed: 0 };
            debug_assert!(!place.link.is_marked(), "I9: who has entered a bucket keeps it from being marked");
            loop {
                match place.link.target() {
                    Target::Node(index) => {
                        let node = self.nodes.get(index);
                        let next = Link::load(node.next());
                        if next.is_marked() {
                            pause_point("search: marked");
                            // Fails if somebody else put something here, unlinked the node, or removed the one before.
                            if !Link::swing(place.before, place.link, next.unmarked()) {
                                continue 'again;
                            }
                            place.link = next.unmarked();
                            continue;
                        }
                        // Relaxed: written before the node was linked, and the link was acquired.
                        let found = node.order().load(Relaxed);
                        if found > order {
                            return Ok(place);
                        }
                        if found == order && eq(node) {
                            return Err(index);
                        }
                        place.before = node.next();
                        place.link = next;
                        place.passed += 1;
                    }
                    Target::Bucket(bucket) if order_of_bucket(bucket) < order => {
                        let (own, link) = self.arrive(bucket);
                        if link.is_marked() {
                            pause_point("search: marked bucket");
                            // Fails as above.
                            if !Link::swing(place.before, place.link, link.unmarked()) {
                                continue 'again;
                            }
                            place.link = link.unmarked();
                            continue;
                        }
                        (place.before, place.link) = (own, link);
                    }
                    Target::Bucket(_) | Target::End => return Ok(place),
                }
            }
        }
    }

    /// Goes along the list from `start`, through what is marked too, and shows `see` each node that is not marked, with
    /// its order, and each bucket, until it says something.
    #[inline(always)]
    pub(super) fn scan<R>(
        &self,
        start: (&'c AtomicU32, Link),
        mut see: impl FnMut(Seen<'c, N>, u32) -> Option<R>,
    ) -> Option<R> {
        let (mut before, mut link) = start;
        loop {
            match link.target() {
                Target::Node(index) => {
                    let node: &'c N = self.nodes.get(index);
                    let next = Link::load(node.next());
                    if next.is_marked() {
                        // Helps, but need not have helped: what is behind a marked node stays in the list or was
                        // removed meanwhile.
                        if !Link::swing(before, link, next.unmarked()) {
                            before = node.next();
                        }
                        link = next.unmarked();
                        continue;
                    }
                    // Relaxed: as in `search`.
                    let order = node.order().load(Relaxed);
                    if let Some(said) = see(Seen::Node(index, node), order) {
                        return Some(said);
                    }
                    (before, link) = (node.next(), next);
                }
                Target::Bucket(bucket) => {
                    if let Some(said) = see(Seen::Bucket, order_of_bucket(bucket)) {
                        return Some(said);
                    }
                    let (own, next) = self.arrive(bucket);
                    // As with a node.
                    if !next.is_marked() || !Link::swing(before, link, next.unmarked()) {
                        before = own;
                    }
                    link = next.unmarked();
                }
                Target::End => return None,
            }
        }
    }
}

/// What a scan comes by.
pub(super) enum Seen<'c, N> {
    Node(Index, &'c N),
    Bucket,
}
