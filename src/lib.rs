//! A DeltaFIFO for large controllers.
//!
//! Controllers watch a large set of objects and must process every change. This crate is the queue between the watch
//! and the work: producers append changes, and consumers lease one key at a time together with everything that
//! happened to it since it was last handed out.
//!
//! ```
//! use delta_fifo::{Delta, DeltaFifo, DeltaQueue};
//!
//! let queue = DeltaFifo::<&str, u32>::new();
//!
//! // The source: what a list showed, then what a watch tells.
//! queue.replace([("prod/web", 1), ("prod/db", 1)])?;
//! queue.apply("prod/web", 2)?;
//! queue.delete("prod/db", 1)?;
//!
//! // Any number of consumers.
//! while let Ok(lease) = queue.try_pop() {
//!     match lease.deltas().newest() {
//!         Delta::Deleted(_) | Delta::DeletedFinalStateUnknown(_) => println!("{} is gone", lease.key()),
//!         newest => println!("{} is now {:?}", lease.key(), newest.object()),
//!     }
//!     lease.done(); // without this it would come back
//! }
//! assert!(queue.has_synced());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! - [`DeltaQueue`] is the face of every queue here: producers, consumers, first sync, close.
//! - [`DeltaFifo`] is the queue to use: sharded and lock-free. What each call promises, costs and may be held up by
//!   stands there in a table, as does what is promised about memory, drops and panics.
//! - [`baseline::MutexDeltaFifo`] is client-go's structure, complete, to compare with.
//! - [`Lease`] has a key to itself until it ends; dropped or panicked work comes back.
//! - [`WorkQueue`] is client-go's work queue: the same structure for keys alone, with delays and rate limits.
//! - [`Builder`] has the options, [`Keyed`] takes objects alone and finds their keys.
//!
//! How it works inside, and what was tried, stands in [`implementation`].

#![deny(missing_docs)]
#![deny(unsafe_code)]

mod alarm;
mod builder;
mod clock;
mod delay;
mod delta;
mod error;
mod extras;
mod fifo;
mod key_queue;
mod keyed;
mod known;
mod lease;
mod object;
mod owner;
mod queue;
mod raw;
mod replace;
mod resolve;
#[cfg(delta_fifo_shuttle)]
#[doc(hidden)]
pub mod scheduled;
mod scopes;
mod slab;
mod slow;
mod stats;
#[cfg(feature = "async")]
mod stream;
mod sync;
mod table;
mod wait;
#[cfg(not(any(delta_fifo_loom, delta_fifo_shuttle)))]
mod work_queue;

pub mod baseline;
#[cfg(doc)]
pub mod implementation;

#[cfg(doctest)]
mod misuse;

/// The README's examples are tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

/// The hash function of a queue whose builder was given none.
pub use ahash::RandomState;
pub use builder::{Background, Builder, Emit, OnAbandon};
pub use clock::ManualClock;
#[cfg(feature = "tokio")]
pub use delay::TokioTimer;
pub use delay::{Backoff, Timer};
pub use delta::{Change, Compression, Delta, DeltaInfo, DeltaKind, Deltas, DeltasIter, Tombstone};
pub use error::{
    AddError, BeginReplaceError, BoxError, ChangeAllError, ChangeError, ChangeErrorKind, Closed, CommitError,
    ErrorEvent, MarkError, PopTimeoutError, ReplaceError, ReplaceErrorKind, ResyncError, ResyncKeyError,
    TryPopError, UpsertError, UpsertErrorKind, WaitError,
};
pub use fifo::{DeltaFifo, FifoKnown, FifoSnapshot, KnownChange, OtherQueueError, Published};
pub use keyed::{
    KeyOf, KeyOfError, Keyed, KeyedBuilder, KeyedError, KeyedErrorKind, KeyedReplace, KeyedReplaceError,
    KeyedReplaceErrorKind,
};
pub use known::{KnownKey, KnownObject, KnownObjects, KnownView};
pub use lease::{Lease, LeaseBatch, Outcome, OwnedLease};
pub use queue::{DeltaQueue, Discarded};
pub use replace::{Completion, OwnedReplace, Replace, Upsert, Version};
pub use slow::SlowEvent;
pub use stats::Stats;
#[cfg(feature = "async")]
pub use stream::Leases;
#[cfg(not(any(delta_fifo_loom, delta_fifo_shuttle)))]
pub use work_queue::{
    Bucket, ItemExponential, Larger, OwnedWork, RateLimiter, Work, WorkQueue, WorkQueueBuilder,
};
