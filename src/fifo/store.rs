//! The user's code that a queue calls: its store of known objects, and its hook for errors.

use std::collections::HashSet;
use std::hash::{BuildHasher, Hash};
use std::panic::{AssertUnwindSafe, catch_unwind};

use ahash::RandomState;

use crate::builder::Known;
use crate::delta::Object;
use crate::error::{BoxError, ErrorEvent};
use crate::object::Key;
use crate::resolve::Before;

use super::DeltaFifo;
use super::resync::Hashed;

impl<K, V, S> DeltaFifo<K, V, S> {
    /// Whether the queue keeps the known objects itself.
    #[inline(always)]
    pub(super) fn keeps_known(&self) -> bool {
        self.core.keeps_known
    }

    /// Tells the error hook, whose panics end here.
    pub(super) fn report(&self, event: &ErrorEvent<'_, K>) {
        if let Some(hook) = &self.on_error {
            let _ = catch_unwind(AssertUnwindSafe(|| hook(event)));
        }
    }

    /// A key, or so many, has come in line; all are woken for what all must see.
    #[inline(always)]
    pub(super) fn wake_consumers(&self, keys: usize) {
        let panicked = match keys {
            usize::MAX => self.consumers.notify_all(),
            // Whoever puts a key in line does so by a read-modify-write.
            keys => self.consumers.notify_after_rmw(keys),
        };
        if panicked {
            self.report(&ErrorEvent::WakerPanicked);
        }
    }

    /// A lease or a replace has ended.
    pub(super) fn wake_watchers(&self) {
        if self.watchers.notify_all() {
            self.report(&ErrorEvent::WakerPanicked);
        }
    }

    /// What the user's store knows of a key.
    pub(super) fn ask_store(&self, key: &K) -> Before<Object<V>> {
        let Known::Store(store) = &self.known else { return Before::Absent };
        match store.get(key) {
            Ok(Some(object)) => Before::Known(Object::alone(object)),
            Ok(None) => Before::Absent,
            Err(error) => {
                self.report(&ErrorEvent::StoreGet { key, error: &*error });
                Before::CannotTell
            }
        }
    }
}

impl<K: Hash + Eq, V, S: BuildHasher> DeltaFifo<K, V, S> {
    /// The keys of the user's store, if there is one, each once.
    pub(super) fn list_store(&self) -> Result<Vec<Hashed<K>>, BoxError> {
        let Known::Store(store) = &self.known else { return Ok(Vec::new()) };
        match store.keys() {
            Ok(keys) => {
                // A store may list a key twice.
                let mut once = HashSet::with_hasher(RandomState::new());
                let keys = keys.into_iter().map(|key| (self.hash(&key), Key::alone(key)));
                let keys: Vec<_> = keys.filter(|(_, key)| once.insert(key.clone())).collect();
                drop(once);
                let own = |key: Key<K>| key.into_inner().expect("no other reference is left");
                Ok(keys.into_iter().map(|(hash, key)| Hashed { key: own(key), hash }).collect())
            }
            Err(error) => {
                self.report(&ErrorEvent::StoreKeys { error: &*error });
                Err(error)
            }
        }
    }
}
