//! For models: what is freed there can still be read, and loom's objects must not be dropped in a later execution.

#![expect(unsafe_code, reason = "the type of what is buried is forgotten")]

use crate::sync::{Canary, Mortal};

/// A box of any type. Its canary dies; the memory is leaked, a few kilobytes an execution.
pub(super) struct Grave(*const Canary);

impl Grave {
    pub(super) fn new<T>(dead: Box<T>, canary: fn(&T) -> &Canary) -> Self {
        Grave(canary(Box::leak(dead)))
    }
}

impl Mortal for Grave {
    fn canary(&self) -> &Canary {
        // SAFETY: it lies in what `new` leaked.
        unsafe { &*self.0 }
    }
}
