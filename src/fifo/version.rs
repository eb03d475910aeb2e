//! What is known of a key: its object, for the lease holder to change and for everybody to read.
//!
//! # Invariants
//!
//! - **V1, holder.** Only the key's lease holder changes a version, so there is one writer at a time.
//! - **V2, owner.** A version owns a reference to its object. Whoever replaces it gets that reference.
//! - **V3, hold and check.** A reader takes a reference of whatever object stands in the cell, and then looks whether the
//!   version still names that cell. If it does, the object is the key's: while the reader holds the cell it is not recycled,
//!   so it was not when it was held either, unless the very cell came back as an object of the same key; which is just as
//!   good.

use crate::delta::Object;
use crate::slab::Index;
use crate::sync::atomic::{AtomicU32, Ordering};
use crate::sync::hint::spin_loop;
use crate::sync::{pause_point, planted};

use super::Objects;

#[derive(Default)]
pub(super) struct Version(AtomicU32);

impl Version {
    /// The cell of the object, if one is known.
    pub(super) fn index(&self) -> Option<Index> {
        // Acquire: pairs with `replace` (Release); publishes the object.
        Index::new(self.0.load(Ordering::Acquire))
    }

    pub(super) fn exists(&self) -> bool {
        self.index().is_some()
    }

    /// V3. Lock-free: repeats when the object has changed in between, which is a lease that has gone on.
    pub(super) fn object<V>(&self, objects: &Objects<V>) -> Option<Object<V>> {
        loop {
            let index = self.index()?;
            pause_point("version: read");
            if let Some(object) = objects.hold(index) {
                pause_point("version: object held");
                if self.index() == Some(index) || planted("a version is looked at once") {
                    return Some(object);
                }
            }
            // Models let a thread read an old value for ever.
            spin_loop();
        }
    }

    /// V1, V2: the caller is the holder, hands over a reference, and gets the one that the version had.
    pub(super) fn replace(&self, with: Option<Index>) -> Option<Index> {
        // AcqRel: pairs with `index` (Acquire), publishes the object; and takes over the reference to the old one.
        Index::new(self.0.swap(with.map_or(0, Index::get), Ordering::AcqRel))
    }
}
