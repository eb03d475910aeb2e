//! What a link says: where it leads, and in what state its owner is.

use crate::slab::Index;
use crate::sync::atomic::AtomicU32;
use crate::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use crate::sync::{planted, weaken};

/// The low bits are a slot's index or a bucket's number; 0 that is no bucket's is the end of the list.
const NUMBER: u32 = (1 << NUMBER_BITS) - 1;
pub(super) const NUMBER_BITS: u32 = 28;
/// The number is a bucket's.
const BUCKET: u32 = 1 << 28;
/// The link leads somewhere. Clear only in a bucket that was never in the list, or is claimed to be put there.
const LEADS: u32 = 1 << 29;
/// Somebody has claimed the bucket and is putting it in the list.
const CLAIM: u32 = 1 << 30;
/// The node or bucket that owns the link is removed.
const MARK: u32 = 1 << 31;

/// A node's or a bucket's link to what comes next in the list.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Link(u32);

pub(super) enum Target {
    Node(Index),
    Bucket(u32),
    End,
}

impl Link {
    /// A bucket that was never in the list, and that nobody puts there. All zeros, as arrays of buckets begin.
    pub(super) const UNLINKED: Link = Link(0);
    /// A bucket that somebody puts in the list.
    pub(super) const CLAIMED: Link = Link(CLAIM);
    pub(super) const END: Link = Link(LEADS);

    #[inline]
    pub(super) fn to_node(index: Index) -> Self {
        debug_assert!(index.get() <= NUMBER, "see `MOST_NODES`");
        Link(LEADS | index.get())
    }

    #[inline]
    pub(super) fn to_bucket(bucket: u32) -> Self {
        Link(LEADS | BUCKET | bucket)
    }

    #[inline(always)]
    pub(super) fn target(self) -> Target {
        let number = self.0 & NUMBER;
        if self.0 & BUCKET != 0 {
            Target::Bucket(number)
        } else {
            Index::new(number).map_or(Target::End, Target::Node)
        }
    }

    #[inline(always)]
    pub(super) fn is_marked(self) -> bool {
        self.0 & MARK != 0
    }

    #[inline]
    pub(super) fn unmarked(self) -> Self {
        Link(self.0 & !MARK)
    }

    /// Whether a bucket with this link is in the list for sure.
    #[inline(always)]
    pub(super) fn is_linked(self) -> bool {
        self.0 & (LEADS | CLAIM | MARK) == LEADS
    }

    #[inline]
    pub(super) fn is_claimed(self) -> bool {
        self.0 & CLAIM != 0
    }

    /// The link of a bucket that may or may not be in the list.
    #[inline]
    pub(super) fn claimed(self) -> Self {
        Link(self.0 | CLAIM)
    }

    #[inline(always)]
    pub(super) fn load(from: &AtomicU32) -> Self {
        // Acquire: pairs with `swing`, `settle` and `mark` (Release); what is behind the link, and what was known to
        // whoever set it.
        Link(from.load(weaken("a link is read relaxed", Acquire)))
    }

    /// Before anybody else can come by.
    #[inline]
    pub(super) fn store(self, into: &AtomicU32) {
        // Relaxed: the `swing` that makes the owner reachable publishes it.
        into.store(self.0, Relaxed);
    }

    /// Makes a link that is unmarked and leads to `from` lead to `to`. Fails if something came between or went, or if
    /// its owner was removed, in each case by somebody else's step.
    #[inline]
    pub(super) fn swing(at: &AtomicU32, from: Link, to: Link) -> bool {
        // Release: pairs with `load` (Acquire); publishes the node or bucket that is new here, or, when one is left out,
        // what its own link showed of those behind it. Relaxed: a failure leads back to a load.
        match at.compare_exchange(from.0, to.0, weaken("a link is set relaxed", Release), Relaxed) {
            Err(now) if planted("a marked link may change") && now == from.0 | MARK => {
                at.compare_exchange(now, to.0 | MARK, Release, Relaxed).is_ok()
            }
            swung => swung.is_ok(),
        }
    }

    /// Claims a bucket whose link is `from`: not in the list yet, or no more. Says what it is if it is something else.
    pub(super) fn claim(bucket: &AtomicU32, from: Link) -> Result<(), Link> {
        // Relaxed, twice: a claim publishes nothing, and who fails loads what they need anew.
        bucket.compare_exchange(from.0, Link::CLAIMED.0, Relaxed, Relaxed).map(|_| ()).map_err(Link)
    }

    /// Marks a bucket that was never in the list. Returns whether it was not: otherwise it is in the list, or was.
    pub(super) fn shut(bucket: &AtomicU32) -> bool {
        // Relaxed, twice: nothing is known by it but that nobody is to claim it, and who fails loads what they need anew.
        match bucket.compare_exchange(Link::UNLINKED.0, MARK, Relaxed, Relaxed) {
            Ok(_) => true,
            Err(now) => now & LEADS == 0,
        }
    }

    /// Says that a bucket, which is in the list, is there. Returns its link.
    #[cold]
    pub(super) fn settle(bucket: &AtomicU32) -> Self {
        // Release: pairs with `load` (Acquire); publishes that the list leads here. Acquire: as in `load`, as the link need
        // not be the one that showed the claim.
        let ordering = match weaken("a bucket is settled relaxed", AcqRel) {
            AcqRel if planted("a settled link is read relaxed") => Release,
            ordering => ordering,
        };
        Link(bucket.fetch_and(!CLAIM, ordering) & !CLAIM)
    }

    /// Marks a node or a bucket as removed. Returns whether it was not.
    #[inline]
    pub(super) fn mark(owner: &AtomicU32) -> bool {
        // Release: pairs with `load` (Acquire); what was done before the removal. Acquire: what whoever was faster did
        // before theirs.
        let ordering = weaken("a mark is relaxed", AcqRel);
        if planted("a mark is a store") {
            let link = owner.load(Acquire);
            owner.store(link | MARK, Release);
            return link & MARK == 0;
        }
        owner.fetch_or(MARK, ordering) & MARK == 0
    }
}
