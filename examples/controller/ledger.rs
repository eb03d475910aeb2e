//! Watches the queue's promises from outside: one consumer per key, changes in the order in which they were
//! offered, each of them possible after the one before it.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use delta_fifo::Delta;

use crate::consume::Offered;
use crate::trace::Key;

/// A page for every key of a trace.
pub(crate) struct Ledger {
    pages: HashMap<Key, Page>,
}

/// What has been seen of one key.
#[derive(Default)]
pub(crate) struct Page {
    leased: AtomicBool,
    history: Mutex<History>,
}

/// Where a key stands after everything that consumers have been handed so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct History {
    exists: bool,
    /// Number of the newest change; 0 before the first.
    newest: u64,
}

impl Ledger {
    pub(crate) fn new(keys: &[Key]) -> Self {
        Ledger { pages: keys.iter().map(|key| (key.clone(), Page::default())).collect() }
    }

    /// None for a key that nobody has offered.
    pub(crate) fn page(&self, key: &str) -> Option<&Page> {
        self.pages.get(key)
    }
}

impl Page {
    /// A lease begins. False if another one of this key is open.
    #[must_use]
    pub(crate) fn open(&self) -> bool {
        // Relaxed: the flag is only compared with itself. If the queue does its work, the leases of one key are
        // ordered by it, and if it does not, any order shows that.
        !self.leased.swap(true, Ordering::Relaxed)
    }

    /// The lease is about to end.
    pub(crate) fn close(&self) {
        self.leased.store(false, Ordering::Relaxed);
    }

    /// Takes what a lease shows; returns how much of it cannot be.
    pub(crate) fn observe<'a>(
        &self,
        previous: Option<&Offered>,
        deltas: impl IntoIterator<Item = Delta<'a, Key, Offered>>,
    ) -> u64 {
        let mut history = self.history.lock().unwrap_or_else(PoisonError::into_inner);
        let mut violations = u64::from(!history.agrees_with(previous));
        for delta in deltas {
            violations += u64::from(!history.advance(delta));
        }
        violations
    }
}

impl History {
    /// Whether the known object is the one that was handed out last.
    fn agrees_with(&self, previous: Option<&Offered>) -> bool {
        previous.map(|offered| offered.number) == self.exists.then_some(self.newest)
    }

    /// Whether the delta can come now. The history goes on from it in any case.
    pub(crate) fn advance(&mut self, delta: Delta<'_, Key, Offered>) -> bool {
        let before = *self;
        let number = delta.object().map(|offered| offered.number);
        self.exists = !delta.is_deletion();
        self.newest = number.unwrap_or(before.newest);
        let newer = self.newest > before.newest;
        match delta {
            Delta::Added(_) => newer && !before.exists,
            Delta::Updated(_) | Delta::Deleted(_) => newer && before.exists,
            // A list says what is there, not how it came about.
            Delta::Replaced(_) => newer,
            // Both show once more what was seen last.
            Delta::DeletedFinalStateUnknown(_) | Delta::Sync(_) => {
                before.exists && number == Some(before.newest)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Instant;

    use delta_fifo::Tombstone;

    use super::*;
    use crate::trace::Object;

    #[test]
    fn the_ledger_knows_what_cannot_be() {
        let object = Arc::new(Object {
            key: "n/a".into(),
            namespace: "n".into(),
            uid: "u".into(),
            version: "1".into(),
            placement: None,
        });
        let offered: Vec<Offered> = (0..4)
            .map(|number| Offered { object: Arc::clone(&object), number, since: Instant::now() })
            .collect();
        let [_, one, two, three] = &offered[..] else { unreachable!() };
        let tombstone = |object| Delta::DeletedFinalStateUnknown(Tombstone { key: &one.object.key, object });
        let judge = |deltas: &[Delta<'_, Key, Offered>]| {
            let mut history = History::default();
            deltas.iter().map(|delta| history.advance(*delta)).collect::<Vec<_>>()
        };

        use Delta::{Added, Deleted, Replaced, Sync, Updated};
        assert_eq!(judge(&[Added(one), Updated(two), Deleted(three)]), [true, true, true]);
        assert_eq!(judge(&[Replaced(one), Sync(one), tombstone(Some(one)), Added(two)]), [true; 4]);
        assert_eq!(judge(&[Added(one), Added(two)]), [true, false], "added though it is there");
        assert_eq!(judge(&[Updated(one)]), [false], "updated though it is not there");
        assert_eq!(judge(&[Deleted(one)]), [false], "deleted though it is not there");
        assert_eq!(judge(&[Added(two), Updated(one)]), [true, false], "older after newer");
        assert_eq!(judge(&[Added(one), Updated(one)]), [true, false], "twice");
        assert_eq!(
            judge(&[Added(one), Updated(two), tombstone(Some(one))]),
            [true, true, false],
            "not the newest"
        );
        assert_eq!(judge(&[Added(one), tombstone(None)]), [true, false], "without the object it had");
        assert_eq!(judge(&[Added(one), Updated(two), Sync(one)]), [true, true, false], "a stale Sync");
    }
}
