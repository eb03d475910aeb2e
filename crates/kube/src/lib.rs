//! Kubernetes objects into a [`DeltaFifo`]: for controllers on kube-rs.
//!
//! - [`ApiListWatch`] lists and watches a [`kube::Api`], for [`delta_fifo_informer`]'s reflector, controller and shared informer.
//! - [`WatcherListWatch`] does so from a [`kube::runtime::watcher()`] stream that is there already; [`WatcherFeed`] feeds a queue from one, without more.
//! - [`Requests`] make of a queue what kube's own `Controller` and `applier` take.
//! - [`ObjectKey`] is `namespace/name`, kept once.

#![deny(missing_docs)]
#![forbid(unsafe_code)]

mod error;
mod key;
mod requests;
mod source;
mod watcher;
mod watcher_source;

pub use key::{Interner, ObjectKey};
pub use requests::Requests;
pub use source::ApiListWatch;
pub use watcher::{FeedEnd, FeedError, WatcherFeed};
pub use watcher_source::WatcherListWatch;

use std::sync::Arc;

use delta_fifo::{Builder, DeltaFifo};

/// A queue of objects of one kind.
pub type Queue<K> = DeltaFifo<ObjectKey, Arc<K>>;

/// Options of a [`Queue`], of which two are set: an object is the one that it was if its uid is the same, and no news if its version is.
///
/// So an object that was deleted and created again under its name, while nobody watched, is told as a deletion and an addition; and handlers
/// are not told what another list shows once more.
///
/// ```
/// use delta_fifo_kube::{Queue, builder};
/// use k8s_openapi::api::core::v1::Pod;
///
/// let queue: Queue<Pod> = builder().on_error(|event| eprintln!("{event}")).build();
/// ```
#[must_use]
pub fn builder<K: kube::Resource + 'static>() -> Builder<ObjectKey, Arc<K>> {
    Builder::new().identity_by(is_same_object).unchanged(is_same_version)
}

fn is_same_object<K: kube::Resource>(old: &Arc<K>, new: &Arc<K>) -> bool {
    old.meta().uid == new.meta().uid
}

fn is_same_version<K: kube::Resource>(old: &Arc<K>, new: &Arc<K>) -> bool {
    let version = new.meta().resource_version.as_deref();
    // Versions are compared for equality alone, which is all that every API server promises. None is no version.
    version.is_some_and(|version| old.meta().resource_version.as_deref() == Some(version))
}

/// A [`Queue`] as [`builder`] has it.
#[must_use]
pub fn queue<K: kube::Resource + Send + Sync + 'static>() -> Arc<Queue<K>> {
    Arc::new(builder().build())
}

/// The README's examples are tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
