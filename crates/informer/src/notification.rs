//! What handlers are told of a key: once for each delta, oldest first, as client-go's `processDeltas` does.

use std::sync::Arc;

use delta_fifo::{Delta, Deltas};

/// What has happened to an object, as a handler sees it.
///
/// If the queue is built with [`Builder::unchanged`](delta_fifo::Builder::unchanged), items of another list that show nothing new are left
/// out.
#[derive(Debug, PartialEq, Eq)]
pub enum Notification<V> {
    /// An object that was not there before.
    Added {
        /// The object.
        object: Arc<V>,
        /// It stems from the first list.
        is_initial: bool,
    },
    /// An object is another; or the same, after a resync or another list.
    Updated {
        /// As the handler was told of it last.
        old: Arc<V>,
        /// As it is now.
        new: Arc<V>,
    },
    /// An object is gone.
    Deleted {
        /// As it was last, as far as anybody saw.
        last: Arc<V>,
        /// A list without it said so: it may have changed unseen before it went.
        is_missed: bool,
    },
}

impl<V> Clone for Notification<V> {
    fn clone(&self) -> Self {
        match self {
            Notification::Added { object, is_initial } => {
                Notification::Added { object: Arc::clone(object), is_initial: *is_initial }
            }
            Notification::Updated { old, new } => {
                Notification::Updated { old: Arc::clone(old), new: Arc::clone(new) }
            }
            Notification::Deleted { last, is_missed } => {
                Notification::Deleted { last: Arc::clone(last), is_missed: *is_missed }
            }
        }
    }
}

impl<V> Notification<V> {
    /// The newest object that it speaks of.
    #[must_use]
    pub fn object(&self) -> &Arc<V> {
        match self {
            Notification::Added { object, .. } => object,
            Notification::Updated { new, .. } => new,
            Notification::Deleted { last, .. } => last,
        }
    }
}

/// The object that is there after these deltas, if one is.
pub(crate) fn left_by<'d, K, V>(deltas: Deltas<'d, K, Arc<V>>) -> Option<&'d Arc<V>> {
    let newest = deltas.newest();
    if newest.is_deletion() { None } else { newest.object() }
}

/// What the deltas of a lease come to for a handler that knows the object `before` them. Deltas without an object, of which nobody ever
/// saw one, say nothing, nor do items of a list that show nothing new ([`Builder::unchanged`](delta_fifo::Builder::unchanged)), nor deletions
/// of an object that was merged away before it was told, unless these deltas were told before (`was_told`).
pub(crate) fn notifications<K, V>(
    mut before: Option<Arc<V>>,
    deltas: Deltas<'_, K, Arc<V>>,
    is_initial: bool,
    was_told: bool,
) -> Vec<Notification<V>> {
    let mut all = Vec::with_capacity(deltas.len());
    for (delta, info) in deltas.iter().zip(deltas.infos()) {
        if info.is_unchanged() {
            before = delta.object().cloned();
            continue;
        }
        if delta.is_deletion() && before.is_none() && all.is_empty() && !was_told {
            continue;
        }
        let notification = match delta {
            Delta::Added(new) | Delta::Updated(new) | Delta::Replaced(new) | Delta::Sync(new) => {
                let object = Arc::clone(new);
                match before.replace(Arc::clone(new)) {
                    Some(old) => Notification::Updated { old, new: object },
                    None => Notification::Added { object, is_initial },
                }
            }
            Delta::Deleted(last) => {
                before = None;
                Notification::Deleted { last: Arc::clone(last), is_missed: false }
            }
            Delta::DeletedFinalStateUnknown(tombstone) => {
                let seen = before.take();
                let Some(last) = tombstone.object.cloned().or(seen) else { continue };
                Notification::Deleted { last, is_missed: true }
            }
        };
        all.push(notification);
    }
    all
}
