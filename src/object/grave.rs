//! For checkers: what is freed there can still be read, and is found dead.

#![expect(unsafe_code, reason = "the type of what is buried is forgotten")]

use crate::sync::Canary;
#[cfg(delta_fifo_loom)]
use crate::sync::{Mortal, bury};

/// A box of any type. Its canary dies; the memory is leaked, a few kilobytes an execution: loom's objects must not be
/// dropped in a later one.
#[cfg(delta_fifo_loom)]
struct Grave(*const Canary);

#[cfg(delta_fifo_loom)]
impl Mortal for Grave {
    fn canary(&self) -> &Canary {
        // SAFETY: it lies in what `bury_box` leaked.
        unsafe { &*self.0 }
    }
}

#[cfg(delta_fifo_loom)]
pub(super) fn bury_box<T>(dead: Box<T>, canary: fn(&T) -> &Canary) {
    bury(Grave(canary(Box::leak(dead))));
}

/// The value is dropped; its memory stays until the next execution.
#[cfg(delta_fifo_shuttle)]
pub(super) fn bury_box<T>(dead: Box<T>, canary: fn(&T) -> &Canary) {
    let alive = canary(&dead).die();
    let dead = Box::into_raw(dead);
    assert!(alive, "freed twice");
    // SAFETY: it was a box, which nobody has any more. A canary that was dropped is as it was.
    unsafe { std::ptr::drop_in_place(dead) };
    crate::sync::keep(Memory(dead.cast(), std::alloc::Layout::new::<T>()));
}

/// Of a box.
#[cfg(delta_fifo_shuttle)]
struct Memory(*mut u8, std::alloc::Layout);

#[cfg(delta_fifo_shuttle)]
impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: from a box of this layout, which has a size as it has a canary, and whose value is dropped.
        unsafe { std::alloc::dealloc(self.0, self.1) };
    }
}
