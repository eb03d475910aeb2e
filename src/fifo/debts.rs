//! What a lease or an entry's given-back deltas owe to replaces.

use smallvec::SmallVec;

/// Facts of one replace that are not completed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Debt {
    pub(super) replace: u64,
    pub(super) facts: u64,
    /// So many of them have not been in a lease that has ended.
    pub(super) undelivered: u64,
}

/// Per replace how many facts, and of those how many undelivered. Usually of none or one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Debts(SmallVec<[Debt; 1]>);

impl Debts {
    /// So many facts of `replace`, never delivered.
    pub(crate) fn add(&mut self, replace: u64, facts: u64) {
        if facts > 0 {
            self.put(Debt { replace, facts, undelivered: facts });
        }
    }

    /// Takes over what others owe.
    #[cfg(all(test, not(any(delta_fifo_loom, delta_fifo_shuttle))))]
    pub(super) fn join(&mut self, newer: Debts) {
        newer.0.into_iter().for_each(|debt| self.put(debt));
    }

    #[inline(always)]
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn numbers(&self) -> impl Iterator<Item = u64> + '_ {
        self.0.iter().map(|debt| debt.replace)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Debt> {
        self.0.iter()
    }

    pub(super) fn retain(&mut self, keep: impl FnMut(&mut Debt) -> bool) {
        self.0.retain(keep);
    }

    fn put(&mut self, new: Debt) {
        match self.0.iter_mut().find(|debt| debt.replace == new.replace) {
            Some(debt) => {
                debt.facts += new.facts;
                debt.undelivered += new.undelivered;
            }
            None => self.0.push(new),
        }
    }
}
