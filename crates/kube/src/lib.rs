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

/// Options of a [`Queue`].
#[must_use]
pub fn builder<K: kube::Resource>() -> Builder<ObjectKey, Arc<K>> {
    Builder::new()
}

/// A [`Queue`] as [`builder`] has it.
#[must_use]
pub fn queue<K: kube::Resource + Send + Sync>() -> Arc<Queue<K>> {
    Arc::new(builder().build())
}

/// The README's examples are tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
