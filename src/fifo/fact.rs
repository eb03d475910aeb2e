//! What a producer appends: a fact, in the head of the cell that holds its object; and which facts it makes superfluous.

use crate::delta::{Compression, FactHead, RawKind};
use crate::slab::Index;
use crate::sync::atomic::Ordering::Relaxed;
use crate::sync::planted;

use super::word::Newest;

/// What stands in a fact's head. Written before the fact is published and not changed after.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Fact {
    pub(super) kind: RawKind,
    /// A deletion into which live deltas were merged.
    pub(super) absorbed: bool,
    /// May stand in the background line.
    pub(super) background: bool,
    /// The replace that waits for its completion; 0 if none.
    pub(super) debt: u64,
    /// 2·n for replace n, 2·n + 1 for a change that was made after it began.
    pub(super) settled: u64,
    /// The cell with the object of a deletion that has none itself: that of a live delta which it absorbed.
    pub(super) carrier: Option<Index>,
}

const KINDS: [RawKind; 7] = [
    RawKind::Added,
    RawKind::Updated,
    RawKind::Applied,
    RawKind::Replaced,
    RawKind::Sync,
    RawKind::Deleted,
    RawKind::Tombstone,
];
const KIND: u8 = 7;
const ABSORBED: u8 = 8;
const BACKGROUND: u8 = 16;

impl Fact {
    /// A change of a producer, made when `newest` was the number of the newest replace.
    #[inline(always)]
    pub(super) fn change(kind: RawKind, newest: u64) -> Self {
        Fact { kind, absorbed: false, background: false, debt: 0, settled: 2 * newest + 1, carrier: None }
    }

    /// An object of the list of replace `number`, or a tombstone of its sweep.
    pub(super) fn listed(kind: RawKind, number: u64, background: bool) -> Self {
        Fact { background, debt: number, settled: 2 * number, ..Fact::change(kind, number) }
    }

    pub(super) fn resync(background: bool) -> Self {
        Fact { background, settled: 0, ..Fact::change(RawKind::Sync, 0) }
    }

    /// What the key is after this fact.
    pub(super) fn newest(&self) -> Newest {
        Newest::of(!self.kind.is_deletion())
    }

    #[inline(always)]
    pub(super) fn write(&self, head: &FactHead) {
        let flag = |set: bool, bit: u8| if set { bit } else { 0 };
        let info = self.kind as u8 | flag(self.absorbed, ABSORBED) | flag(self.background, BACKGROUND);
        // Relaxed, all: the compare-and-swap that publishes the fact publishes its head.
        head.info.store(info, Relaxed);
        head.debt.store(self.debt, Relaxed);
        head.settled.store(self.settled, Relaxed);
        head.carrier.store(self.carrier.map_or(0, Index::get), Relaxed);
    }

    /// Kind of a fact, and whether it absorbed something, if it is one with nothing besides: no replace waits for it, and its object, if it has
    /// one, is in the same cell. For who has its reference.
    #[inline(always)]
    pub(super) fn read_plain(head: &FactHead) -> Option<(RawKind, bool)> {
        // Relaxed, all: as in `read`.
        let info = head.info.load(Relaxed);
        let kind = match KINDS[usize::from(info & KIND).min(6)] {
            RawKind::Replaced | RawKind::Sync | RawKind::Tombstone => return None,
            kind => kind,
        };
        let besides = head.debt.load(Relaxed) != 0 || head.carrier.load(Relaxed) != 0;
        (!besides).then_some((kind, info & ABSORBED != 0))
    }

    /// Right only for who has the fact's reference, or finds afterwards that it is still what it was.
    pub(super) fn read(head: &FactHead) -> Self {
        // Relaxed, all: who has the fact got it by an Acquire of the word.
        let info = head.info.load(Relaxed);
        Fact {
            kind: KINDS[(info & KIND).min(6) as usize],
            absorbed: info & ABSORBED != 0,
            background: info & BACKGROUND != 0,
            debt: head.debt.load(Relaxed),
            settled: head.settled.load(Relaxed),
            carrier: Index::new(head.carrier.load(Relaxed)),
        }
    }
}

/// What becomes of a new fact and of the one that is newest so far. The same as [`append`](crate::delta::append) does
/// to lists, told in links: nothing is moved, and a cell is let go of only as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Merge {
    /// It is put on top.
    Top,
    /// It is superfluous: the one that is there says as much.
    Drop,
    /// It takes the place of the newest one.
    Replace(Fact),
    /// It takes the place of everything.
    Absorb(Fact),
}

/// How a `new` fact meets the newest one, `last`. Where facts owe different replaces both stay, and are merged when they
/// are taken: so what a key keeps is bounded by the replaces that somebody waits for. So do two deletions with a replace that began between
/// them: what is published is not changed any more, and an item of that replace must meet the number of the second (E7).
pub(super) fn merge(last: &Fact, last_has_object: bool, new: Fact, compression: Compression) -> Merge {
    let (was, is) = (last.kind.is_deletion(), new.kind.is_deletion());
    if last.debt != 0 && new.debt != 0 && last.debt != new.debt {
        return Merge::Top;
    }
    let mut joined = Fact {
        debt: last.debt.max(new.debt),
        settled: last.settled.max(new.settled),
        background: last.background && new.background,
        ..new
    };
    match (was, is) {
        (true, true) if last.kind == RawKind::Deleted && !new.absorbed => {
            // The older one stays, and owes what it owes.
            let owes_no_more = new.debt == 0 || last.debt == new.debt;
            let is_as_old = new.settled <= last.settled || planted("a newer deletion is dropped");
            if owes_no_more && is_as_old { Merge::Drop } else { Merge::Top }
        }
        (true, true) => {
            joined.absorbed |= last.absorbed;
            if new.kind == RawKind::Tombstone {
                joined.carrier = last.carrier;
            }
            Merge::Replace(joined)
        }
        (false, true) if compression == Compression::Latest => {
            joined.absorbed = true;
            Merge::Absorb(joined)
        }
        (false, false) if compression == Compression::Latest => {
            let open_sync = last.kind == RawKind::Sync && !last_has_object;
            if new.kind == RawKind::Applied && !open_sync {
                joined.kind = RawKind::Updated;
            }
            if last.kind.rank() > joined.kind.rank() {
                joined.kind = last.kind;
            }
            Merge::Replace(joined)
        }
        _ => Merge::Top,
    }
}
