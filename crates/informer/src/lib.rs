//! List and watch anything into a [`DeltaFifo`](delta_fifo::DeltaFifo).
//!
//! - [`ListWatch`] is a source: a list in pages, and changes from a version on.
//! - [`Reflector`] keeps a queue in step with a source, through broken lists, closed watches and versions that are gone; [`Progress`] says
//!   how far it is.
//! - [`Controller`] is the loop around one queue and one [`Handler`]: workers, retries, a graceful stop.
//! - [`SharedInformer`] tells many [`EventHandler`]s, or streams, of one source, each through a queue of its own.
//! - [`Indexer`] finds known objects by what they say of themselves.
//! - [`NamedWorkQueue`] is a [`WorkQueue`](delta_fifo::WorkQueue) that is measured.
//!
//! ```text
//!  source ─▶ Reflector ─▶ DeltaFifo ─▶ Controller: workers ─▶ Handler
//!                             │    ╰─▶ SharedInformer ─▶ a queue each ─▶ EventHandler, Subscription
//!                             ╰ known objects, Indexer
//! ```
//!
//! The README has an example, and what is different from client-go and kube-runtime.

#![deny(missing_docs)]
#![forbid(unsafe_code)]

mod backoff;
mod controller;
mod indexer;
mod metrics;
mod notification;
mod progress;
mod reflector;
mod resync;
mod shared;
mod source;
mod synced;
mod tasks;
mod versions;
mod work_queue;

pub use backoff::RetryPolicy;
pub use controller::{Controller, Counts, Handler};
pub use indexer::{IndexSnapshot, Indexer, IndexerBuilder, NAMESPACE, Namespaced, NoSuchIndex};
pub use notification::Notification;
pub use progress::{Progress, WaitProcessedError};
pub use reflector::{Reflector, ReflectorBuilder, ReflectorError, SourceQueue};
pub use shared::{
    EventHandler, HandlerOptions, InformerEnded, InformerHandle, Registration, SharedInformer, StoreSnapshot,
    Subscription,
};
pub use source::{ListWatch, Page, PageRequest, SourceError, WatchEvent};
pub use synced::{NeverSynced, Synced};
pub use versions::ResourceVersion;
pub use work_queue::{NamedWork, NamedWorkQueue};

/// The README's example is a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
