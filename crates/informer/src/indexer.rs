//! Known objects by what they say of themselves: client-go's `Indexer`.
//!
//! Each index is a persistent map from a value to the objects that have it. Whoever holds a lease changes it, under a mutex that no reader
//! takes, and publishes it; so a snapshot is one moment of all indexes, and costs a reference.

use std::fmt;
use std::hash::Hash;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::ArcSwap;
use rpds::HashTrieMapSync;

/// The name of the index that [`IndexerBuilder::by_namespace`] makes.
pub const NAMESPACE: &str = "namespace";

type IndexFn<K, V> = Box<dyn Fn(&K, &V) -> Vec<String> + Send + Sync>;
type Objects<K, V> = HashTrieMapSync<K, Arc<V>>;
type Index<K, V> = HashTrieMapSync<Arc<str>, Objects<K, V>>;

/// A key that may lie in a namespace.
pub trait Namespaced {
    /// The namespace, if the object is in one.
    fn namespace(&self) -> Option<&str>;
}

/// `namespace/name`, or `name` alone.
impl<T: AsRef<str>> Namespaced for T {
    fn namespace(&self) -> Option<&str> {
        self.as_ref().split_once('/').map(|(namespace, _)| namespace)
    }
}

/// Which indexes there are.
pub struct IndexerBuilder<K, V> {
    names: Vec<String>,
    functions: Vec<IndexFn<K, V>>,
}

impl<K, V> Default for IndexerBuilder<K, V> {
    fn default() -> Self {
        IndexerBuilder { names: Vec::new(), functions: Vec::new() }
    }
}

impl<K, V> fmt::Debug for IndexerBuilder<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("IndexerBuilder").field(&self.names).finish()
    }
}

impl<K: Hash + Eq + Clone, V> IndexerBuilder<K, V> {
    /// One more index: `values` says under which values an object stands; any number, also none. It must say the same of the same object
    /// every time. An object over which it panics stands in no place of this index.
    ///
    /// # Panics
    ///
    /// There is one of that name.
    #[must_use]
    pub fn index(
        mut self,
        name: &str,
        values: impl Fn(&K, &V) -> Vec<String> + Send + Sync + 'static,
    ) -> Self {
        assert!(!self.names.iter().any(|other| other == name), "there is an index {name:?}");
        self.names.push(name.to_owned());
        self.functions.push(Box::new(values));
        self
    }

    /// [`NAMESPACE`]: by the namespaces of keys.
    ///
    /// # Panics
    ///
    /// It is there.
    #[must_use]
    pub fn by_namespace(self) -> Self
    where
        K: Namespaced,
    {
        self.index(NAMESPACE, |key, _| key.namespace().map(str::to_owned).into_iter().collect())
    }

    pub(crate) fn build(self) -> Indexer<K, V> {
        let empty = IndexSnapshot {
            indexes: self.names.iter().map(|name| (Arc::from(&**name), Index::new_sync())).collect(),
        };
        Indexer { functions: self.functions, writer: Mutex::new(()), published: ArcSwap::from_pointee(empty) }
    }
}

/// The indexes of what is known; changed by who holds the lease of a key, read by anybody.
pub struct Indexer<K, V> {
    functions: Vec<IndexFn<K, V>>,
    /// Who has it is the only one that publishes.
    writer: Mutex<()>,
    published: ArcSwap<IndexSnapshot<K, V>>,
}

impl<K, V> fmt::Debug for Indexer<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Indexer").field("indexes", &self.functions.len()).finish_non_exhaustive()
    }
}

/// There is no index of that name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no index {0:?}")]
pub struct NoSuchIndex(pub String);

impl<K: Hash + Eq + Clone, V> Indexer<K, V> {
    /// All indexes as of one moment. Wait-free, O(1).
    pub fn snapshot(&self) -> Arc<IndexSnapshot<K, V>> {
        self.published.load_full()
    }

    /// The object of a key is another, has come, or is gone. Only for who has the key to itself.
    pub(crate) fn change(&self, key: &K, old: Option<&Arc<V>>, new: Option<&Arc<V>>) {
        if self.functions.is_empty() {
            return;
        }
        // User code, outside the lock.
        let values = |object: Option<&Arc<V>>, function: &IndexFn<K, V>| {
            let values = || object.map_or_else(Vec::new, |object| function(key, object));
            catch_unwind(AssertUnwindSafe(values)).unwrap_or_else(|_| {
                tracing::error!("an index function panicked");
                Vec::new()
            })
        };
        let values: Vec<_> =
            self.functions.iter().map(|function| (values(old, function), values(new, function))).collect();
        let _writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        let mut next = IndexSnapshot::clone(&self.published.load());
        for ((_, index), (old, new_values)) in next.indexes.iter_mut().zip(values) {
            for value in old.iter().filter(|value| !new_values.contains(value)) {
                remove(index, value, key);
            }
            if let Some(new) = new {
                for value in new_values {
                    insert(index, &value, key, new);
                }
            }
        }
        self.published.store(Arc::new(next));
    }
}

fn remove<K: Hash + Eq + Clone, V>(index: &mut Index<K, V>, value: &str, key: &K) {
    let Some(objects) = index.get(value) else { return };
    let left = objects.remove(key);
    if left.is_empty() {
        index.remove_mut(value);
    } else {
        index.insert_mut(Arc::from(value), left);
    }
}

fn insert<K: Hash + Eq + Clone, V>(index: &mut Index<K, V>, value: &str, key: &K, object: &Arc<V>) {
    let objects = index.get(value).cloned().unwrap_or_else(Objects::new_sync);
    index.insert_mut(Arc::from(value), objects.insert(key.clone(), Arc::clone(object)));
}

/// All indexes as of one moment.
pub struct IndexSnapshot<K, V> {
    indexes: Vec<(Arc<str>, Index<K, V>)>,
}

impl<K: Hash + Eq, V> Clone for IndexSnapshot<K, V> {
    fn clone(&self) -> Self {
        IndexSnapshot { indexes: self.indexes.clone() }
    }
}

impl<K, V> fmt::Debug for IndexSnapshot<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.indexes.iter().map(|(name, _)| &**name).collect();
        f.debug_tuple("IndexSnapshot").field(&names).finish()
    }
}

impl<K: Hash + Eq, V> IndexSnapshot<K, V> {
    fn index(&self, name: &str) -> Result<&Index<K, V>, NoSuchIndex> {
        let found = self.indexes.iter().find(|(other, _)| &**other == name);
        found.map(|(_, index)| index).ok_or_else(|| NoSuchIndex(name.to_owned()))
    }

    /// The objects under a value, in any order. O(objects).
    ///
    /// # Errors
    ///
    /// There is no such index.
    pub fn by_index<'s>(
        &'s self,
        name: &str,
        value: &str,
    ) -> Result<impl Iterator<Item = (&'s K, &'s Arc<V>)> + use<'s, K, V>, NoSuchIndex> {
        Ok(self.index(name)?.get(value).into_iter().flat_map(Objects::iter))
    }

    /// The keys under a value, in any order. O(objects).
    ///
    /// # Errors
    ///
    /// There is no such index.
    pub fn index_keys<'s>(
        &'s self,
        name: &str,
        value: &str,
    ) -> Result<impl Iterator<Item = &'s K> + use<'s, K, V>, NoSuchIndex> {
        Ok(self.by_index(name, value)?.map(|(key, _)| key))
    }

    /// The values under which anything stands, in any order. O(values).
    ///
    /// # Errors
    ///
    /// There is no such index.
    pub fn list_index_values<'s>(
        &'s self,
        name: &str,
    ) -> Result<impl Iterator<Item = &'s str> + use<'s, K, V>, NoSuchIndex> {
        Ok(self.index(name)?.keys().map(|value| &**value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sorted<T: Ord>(all: impl Iterator<Item = T>) -> Vec<T> {
        let mut all: Vec<T> = all.collect();
        all.sort_unstable();
        all
    }

    #[test]
    fn objects_stand_where_they_say_and_snapshots_do_not_change() {
        let builder: IndexerBuilder<String, Vec<&'static str>> = IndexerBuilder::default();
        let labels = |_: &String, labels: &Vec<&'static str>| {
            assert!(!labels.contains(&"bad"), "as it was told to");
            labels.iter().map(|label| (*label).to_owned()).collect()
        };
        let indexer = builder.by_namespace().index("label", labels).build();
        let key = |key: &str| key.to_owned();
        let (first, second) = (Arc::new(vec!["x", "y"]), Arc::new(vec!["y", "z"]));
        indexer.change(&key("prod/a"), None, Some(&first));
        indexer.change(&key("prod/b"), None, Some(&second));
        indexer.change(&key("alone"), None, Some(&second));
        let before = indexer.snapshot();
        indexer.change(&key("prod/a"), Some(&first), Some(&second));
        indexer.change(&key("prod/b"), Some(&second), None);
        indexer.change(&key("alone"), Some(&second), Some(&Arc::new(vec!["bad"])));
        let after = indexer.snapshot();
        for (snapshot, values, in_prod, y) in [
            (&before, vec!["x", "y", "z"], vec!["prod/a", "prod/b"], vec!["alone", "prod/a", "prod/b"]),
            (&after, vec!["y", "z"], vec!["prod/a"], vec!["prod/a"]),
        ] {
            assert_eq!(sorted(snapshot.list_index_values("label").unwrap()), values);
            assert_eq!(sorted(snapshot.index_keys(NAMESPACE, "prod").unwrap()), in_prod);
            assert_eq!(sorted(snapshot.index_keys("label", "y").unwrap()), y);
        }
        let objects: Vec<_> = after.by_index("label", "z").unwrap().collect();
        assert!(objects.len() == 1 && Arc::ptr_eq(objects[0].1, &second));
        assert_eq!(after.by_index("name", "z").err(), Some(NoSuchIndex(key("name"))));
    }
}
