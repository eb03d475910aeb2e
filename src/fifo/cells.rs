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

// What panics while it has access leaves it as it should be: that is what the queue promises of all its parts.
impl<T> std::panic::RefUnwindSafe for Own<T> {}

impl<T> Own<T> {
    /// # Safety
    ///
    /// The caller is the owner: nobody else accesses it during the call, and what earlier owners did happened before.
    pub(super) unsafe fn with_mut<R>(&self, f: impl FnOnce(&mut T) -> R) -> R {
        // SAFETY: the caller's promise.
        self.0.with_mut(|own| f(unsafe { &mut *own }))
    }
}
