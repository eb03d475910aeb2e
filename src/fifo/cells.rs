//! Plain data in slots: what makes access to it exclusive is a rule of its owner, which stands at each use.

#![expect(unsafe_code, reason = "a word says who may touch these, which the compiler cannot know")]

use crate::sync::cell::UnsafeCell;

/// Belongs to one thread at a time.
#[derive(Default)]
pub(super) struct Own<T>(UnsafeCell<T>);

// SAFETY: it is handed from owner to owner, each of whom happens before the next (see `with_mut`).
unsafe impl<T: Send> Send for Own<T> {}
// SAFETY: as above; a shared reference gives access to the owner alone.
unsafe impl<T: Send> Sync for Own<T> {}

impl<T> Own<T> {
    /// # Safety
    ///
    /// The caller is the owner: nobody else accesses it during the call, and what earlier owners did happened before.
    pub(super) unsafe fn with_mut<R>(&self, f: impl FnOnce(&mut T) -> R) -> R {
        // SAFETY: the caller's promise.
        self.0.with_mut(|own| f(unsafe { &mut *own }))
    }
}

/// Written while nobody else can reach the slot, read by many, taken out when nobody can any more.
pub(super) struct Kept<T>(UnsafeCell<Option<T>>);

// SAFETY: it is dropped by whoever recycles the slot.
unsafe impl<T: Send> Send for Kept<T> {}
// SAFETY: shared references to it are handed out, and whoever recycles the slot takes it.
unsafe impl<T: Send + Sync> Sync for Kept<T> {}

impl<T> Default for Kept<T> {
    fn default() -> Self {
        Kept(UnsafeCell::new(None))
    }
}

impl<T> Kept<T> {
    /// # Safety
    ///
    /// Nobody else can reach the slot.
    pub(super) unsafe fn put(&self, value: T) {
        // SAFETY: the caller's promise.
        self.0.with_mut(|kept| unsafe { *kept = Some(value) });
    }

    /// # Safety
    ///
    /// It is visible to the caller, and nobody writes while the reference lives.
    pub(super) unsafe fn get(&self) -> Option<&T> {
        // SAFETY: the caller's promise.
        self.0.with(|kept| unsafe { (*kept).as_ref() })
    }

    /// # Safety
    ///
    /// Nobody else can reach the slot any more, nor has a reference from `get`.
    pub(super) unsafe fn take(&self) -> Option<T> {
        // SAFETY: the caller's promise.
        self.0.with_mut(|kept| unsafe { (*kept).take() })
    }
}
