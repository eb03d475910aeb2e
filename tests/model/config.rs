//! How a queue is built for the comparison with the model.

use std::collections::BTreeMap;
use std::hash::{Hash, Hasher};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use delta_fifo::{Background, Backoff, Builder, Compression, DeltaQueue, Emit, OnAbandon};

/// Objects ending in this digit are rejected by the transform.
pub(crate) const BAD: u32 = 9;
/// A delay that does not end.
pub(crate) const LONG: Duration = Duration::from_secs(3600);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Known {
    Inside,
    None,
    Store,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scopes {
    None,
    /// Even and odd keys.
    Disjoint,
    /// The same, but not declared as disjoint.
    Overlapping,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Config {
    pub(crate) emit_sync: bool,
    pub(crate) latest: bool,
    pub(crate) known: Known,
    pub(crate) scopes: Scopes,
    pub(crate) background_resync: bool,
    pub(crate) background_initial: bool,
    pub(crate) on_abandon: OnAbandon,
    /// Objects have identities, see [`identity`].
    pub(crate) identity: bool,
    pub(crate) numbered: bool,
}

pub(crate) type Store = Arc<Mutex<BTreeMap<u8, u32>>>;

pub(crate) const SCOPES: [&str; 2] = ["even", "odd"];

/// Whether a key is in scope number `scope`.
pub(crate) fn in_scope(scope: usize, key: u8) -> bool {
    usize::from(key % 2) == scope
}

/// What the transform makes of an object; seen twice it would show.
pub(crate) fn transformed(value: u32) -> u32 {
    value + 1_000_000
}

/// Several objects in a row are the same thing, and some later ones once more.
pub(crate) fn identity(value: u32) -> u32 {
    value / 10 % 7 / 3
}

/// The policy of `requeue_with_backoff`: every other attempt comes back at once.
pub(crate) fn backoff(attempts: u32) -> Duration {
    if attempts % 2 == 1 { Duration::ZERO } else { LONG }
}

impl Default for Config {
    fn default() -> Self {
        Config {
            emit_sync: false,
            latest: false,
            known: Known::Inside,
            scopes: Scopes::None,
            background_resync: false,
            background_initial: false,
            on_abandon: OnAbandon::Requeue,
            identity: false,
            numbered: false,
        }
    }
}

/// All models that are compared have one configuration.
impl Hash for Config {
    fn hash<H: Hasher>(&self, _: &mut H) {}
}

impl Config {
    pub(crate) fn build<Q>(&self, store: &Store) -> Q
    where
        Q: DeltaQueue<Key = u8, Value = u32, Hasher = ahash::RandomState>,
    {
        let mut builder = Builder::new()
            .replace_emits(if self.emit_sync { Emit::Sync } else { Emit::Replaced })
            .compression(if self.latest { Compression::Latest } else { Compression::Deletions })
            .on_abandon(self.on_abandon)
            .backoff(Backoff::custom(backoff))
            .transform(|value: &mut u32| {
                if *value % 10 == BAD {
                    return Err("bad".into());
                }
                *value = transformed(*value);
                Ok(())
            });
        if self.background_resync {
            builder = builder.background(Background::Resync);
        }
        if self.background_initial {
            builder = builder.background(Background::Initial);
        }
        builder = match self.known {
            Known::Inside => builder,
            Known::None => builder.no_known_objects(),
            Known::Store => {
                let (keys, get) = (Arc::clone(store), Arc::clone(store));
                builder.known_objects((
                    move || Ok(keys.lock().unwrap().keys().copied().collect()),
                    move |key: &u8| Ok(get.lock().unwrap().get(key).copied()),
                ))
            }
        };
        if self.scopes != Scopes::None {
            for (number, name) in SCOPES.into_iter().enumerate() {
                builder = builder.scope(name, move |key| in_scope(number, *key));
            }
        }
        if self.identity {
            builder = builder.identity(|value| identity(*value));
        }
        if self.numbered {
            builder = builder.numbered();
        }
        if self.scopes == Scopes::Disjoint {
            builder = builder.disjoint_scopes();
        }
        builder.build()
    }
}
