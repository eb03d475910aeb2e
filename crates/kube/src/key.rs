//! Keys, each kept once.

use std::borrow::Borrow;
use std::cell::RefCell;
use std::fmt;
use std::hash::{BuildHasher, Hasher};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use delta_fifo::RandomState;
use hashbrown::HashTable;
use kube::Resource;
use kube::runtime::reflector::ObjectRef;

thread_local! {
    /// Where a key is put together, so that only its own memory is allocated.
    static WRITTEN: RefCell<String> = const { RefCell::new(String::new()) };
}

/// `namespace/name`, or `name` alone for what is in no namespace. A clone is a reference.
///
/// ```
/// use delta_fifo_kube::ObjectKey;
///
/// let key = ObjectKey::new(Some("prod"), "web");
/// assert_eq!((key.namespace(), key.name()), (Some("prod"), "web"));
/// assert_eq!(key, ObjectKey::from("prod/web"));
/// ```
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ObjectKey(Arc<str>);

impl ObjectKey {
    /// One that shares its memory with no other, and costs one allocation. O(length).
    #[must_use]
    pub fn new(namespace: Option<&str>, name: &str) -> Self {
        let Some(namespace) = namespace.filter(|namespace| !namespace.is_empty()) else {
            return ObjectKey(name.into());
        };
        WRITTEN.with_borrow_mut(|text| {
            text.clear();
            text.extend([namespace, "/", name]);
            ObjectKey(text.as_str().into())
        })
    }

    /// The key of an object; none if it has no name, which the API server gives to every one.
    pub fn of<K: Resource>(object: &K) -> Option<Self> {
        let metadata = object.meta();
        Some(ObjectKey::new(metadata.namespace.as_deref(), metadata.name.as_deref()?))
    }

    /// The namespace, if it has one. O(length).
    #[must_use]
    pub fn namespace(&self) -> Option<&str> {
        // No name has a slash.
        self.0.split_once('/').map(|(namespace, _)| namespace)
    }

    /// The name. O(length).
    #[must_use]
    pub fn name(&self) -> &str {
        self.0.split_once('/').map_or(&*self.0, |(_, name)| name)
    }

    /// As it is written. O(1).
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// As kube-runtime names an object.
    #[must_use]
    pub fn to_object_ref<K: Resource>(&self, dyntype: K::DynamicType) -> ObjectRef<K> {
        let object = ObjectRef::new_with(self.name(), dyntype);
        match self.namespace() {
            Some(namespace) => object.within(namespace),
            None => object,
        }
    }
}

impl From<&str> for ObjectKey {
    fn from(text: &str) -> Self {
        ObjectKey(text.into())
    }
}

impl AsRef<str> for ObjectKey {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl Borrow<str> for ObjectKey {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&*self.0, f)
    }
}

/// The key of an object, kept once where keys are shared.
pub(crate) fn key_of<K: Resource>(shared: Option<&Interner>, object: &K) -> Option<ObjectKey> {
    match shared {
        Some(keys) => keys.key_of(object),
        None => ObjectKey::of(object),
    }
}

/// Fewer keys than this are never looked through.
const FEW: usize = 1024;

/// Keeps each key once, for as long as anybody has it: for several sources of the same objects.
///
/// A queue keeps a key once by itself, and what comes after it has references of that: indexes, handlers, leases. What an interner saves is the
/// memory of the keys of each source but the first, about 50 bytes each, and the allocation that an event makes for its key. It costs
/// about 20 bytes a key, and a look-up for each event that takes longer than the allocation does.
///
/// Keys that nobody else has any more go when there have come twice as many as were left the last time: so it has at most twice the
/// keys that are in use, or 1024, and each call costs O(length) over time.
#[derive(Debug)]
pub struct Interner {
    keys: Mutex<Keys>,
    hasher: RandomState,
}

#[derive(Debug)]
struct Keys {
    all: HashTable<ObjectKey>,
    sweep_at: usize,
}

impl Default for Interner {
    fn default() -> Self {
        let keys = Keys { all: HashTable::new(), sweep_at: FEW };
        Interner { keys: Mutex::new(keys), hasher: RandomState::new() }
    }
}

fn parts_of(key: &ObjectKey) -> (Option<&str>, &str) {
    (key.namespace(), key.name())
}

impl Interner {
    /// Without a key.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    fn lock(&self) -> MutexGuard<'_, Keys> {
        // No user code runs under it.
        self.keys.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn hash(&self, (namespace, name): (Option<&str>, &str)) -> u64 {
        let mut hasher = self.hasher.build_hasher();
        hasher.write(namespace.unwrap_or_default().as_bytes());
        hasher.write_u8(b'/');
        hasher.write(name.as_bytes());
        hasher.finish()
    }

    /// The key of these parts.
    pub fn key(&self, namespace: Option<&str>, name: &str) -> ObjectKey {
        let parts = (namespace.filter(|namespace| !namespace.is_empty()), name);
        let hash = self.hash(parts);
        let mut keys = self.lock();
        if let Some(key) = keys.all.find(hash, |key| parts_of(key) == parts) {
            return key.clone();
        }
        if keys.all.len() >= keys.sweep_at {
            // Nobody can get at a key of which only this reference is left: that is only done here, under the lock.
            keys.all.retain(|key| Arc::strong_count(&key.0) > 1);
            keys.sweep_at = FEW.max(2 * keys.all.len());
            let few = keys.sweep_at;
            keys.all.shrink_to(few, |key| self.hash(parts_of(key)));
        }
        let key = ObjectKey::new(namespace, name);
        keys.all.insert_unique(hash, key.clone(), |key| self.hash(parts_of(key)));
        key
    }

    /// The key of an object; none if it has no name, which the API server gives to every one.
    pub fn key_of<K: Resource>(&self, object: &K) -> Option<ObjectKey> {
        let metadata = object.meta();
        Some(self.key(metadata.namespace.as_deref(), metadata.name.as_deref()?))
    }

    /// How many keys it has, those that nobody else has any more included. O(1).
    #[must_use]
    pub fn len(&self) -> usize {
        self.lock().all.len()
    }

    /// Whether it has none. O(1).
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_keys_are_one_and_go_when_nobody_has_them() {
        let interner = Interner::new();
        let kept: Vec<ObjectKey> =
            (0..100).map(|n| interner.key(Some("prod"), &format!("kept-{n}"))).collect();
        for round in 0..100 {
            for n in 0..500 {
                interner.key(Some("prod"), &format!("passing-{round}-{n}"));
                assert!(interner.len() <= FEW + 1, "{}", interner.len());
            }
        }
        for (n, key) in kept.iter().enumerate() {
            assert!(Arc::ptr_eq(&key.0, &interner.key(Some("prod"), &format!("kept-{n}")).0));
        }
        let alone = interner.key(None, "node");
        assert_eq!((alone.namespace(), alone.name(), alone.as_str()), (None, "node", "node"));
        assert!(Arc::ptr_eq(&alone.0, &interner.key(Some(""), "node").0));
        assert_ne!(interner.key(Some("a"), "b"), interner.key(Some("b"), "a"));
    }

    #[test]
    fn more_keys_in_use_than_are_few_all_stay() {
        let interner = Interner::new();
        let all: Vec<ObjectKey> = (0..5 * FEW).map(|n| interner.key(Some("prod"), &n.to_string())).collect();
        assert_eq!(interner.len(), 5 * FEW);
        drop(all);
        (0..6 * FEW).for_each(|n| _ = interner.key(None, &n.to_string()));
        assert!(interner.len() < 6 * FEW, "{}", interner.len());
    }
}
