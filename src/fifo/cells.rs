//! Plain data in entries: what makes access to it exclusive is the entry's word, and stands there (E2, E6).

#![expect(
    unsafe_code,
    reason = "the word of an entry says who may touch these, which the compiler cannot know"
)]

use crate::sync::cell::UnsafeCell;

/// The holder's part of an entry.
#[derive(Default)]
pub(super) struct Own<T>(UnsafeCell<T>);

// SAFETY: E2: one holder at a time, each of whom happens before the next by the word.
unsafe impl<T: Send> Send for Own<T> {}
// SAFETY: as above; a shared reference gives access to the holder alone.
unsafe impl<T: Send> Sync for Own<T> {}

impl<T> Own<T> {
    /// For the holder, and for who has the entry to itself.
    pub(super) fn with_mut<R>(&self, f: impl FnOnce(&mut T) -> R) -> R {
        // SAFETY: E2: the callers in `entry` have the tenure, or the queue to themselves.
        self.0.with_mut(|own| f(unsafe { &mut *own }))
    }
}

/// Written while nobody else can reach the entry, read by many, taken out when nobody can any more.
pub(super) struct Kept<T>(UnsafeCell<Option<T>>);

// SAFETY: E6: it moves to the thread that recycles the entry.
unsafe impl<T: Send> Send for Kept<T> {}
// SAFETY: E6: shared references to it are handed out, and whoever recycles the entry takes it.
unsafe impl<T: Send + Sync> Sync for Kept<T> {}

impl<T> Default for Kept<T> {
    fn default() -> Self {
        Kept(UnsafeCell::new(None))
    }
}

impl<T> Kept<T> {
    pub(super) fn put(&self, value: T) {
        // SAFETY: E6: the caller has a slot that nobody else can reach.
        self.0.with_mut(|kept| unsafe { *kept = Some(value) });
    }

    pub(super) fn get(&self) -> Option<&T> {
        // SAFETY: E6: while the caller's guard or tenure lives nobody writes.
        self.0.with(|kept| unsafe { (*kept).as_ref() })
    }

    pub(super) fn take(&self) -> Option<T> {
        // SAFETY: E6: the grace period has passed, or nobody has ever reached the entry.
        self.0.with_mut(|kept| unsafe { (*kept).take() })
    }
}
