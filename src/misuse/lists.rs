//! Lists, marks and builders.

/// A list ends once.
///
/// ```
/// # use delta_fifo::{DeltaFifo, DeltaQueue, KnownView};
/// # let queue = DeltaFifo::<u32, u32>::new();
/// let list = queue.begin_replace()?;
/// list.upsert(1, 1)?;
/// list.commit()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// ```compile_fail,E0382
/// # use delta_fifo::{DeltaFifo, DeltaQueue, KnownView};
/// # let queue = DeltaFifo::<u32, u32>::new();
/// let list = queue.begin_replace()?;
/// list.commit()?;
/// list.upsert(1, 1)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
fn a_replace_is_used_after_its_commit() {}

/// Who has only borrowed it does not end it.
///
/// ```
/// # use delta_fifo::{DeltaFifo, DeltaQueue, KnownView};
/// # use delta_fifo::{CommitError, Replace};
/// fn end(list: Replace<'_, DeltaFifo<u32, u32>>) -> Result<(), CommitError> {
///     list.commit().map(drop)
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// ```compile_fail,E0507
/// # use delta_fifo::{DeltaFifo, DeltaQueue, KnownView};
/// # use delta_fifo::{CommitError, Replace};
/// fn end(list: &Replace<'_, DeltaFifo<u32, u32>>) -> Result<(), CommitError> {
///     list.commit().map(drop)
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
fn a_borrowed_replace_is_committed() {}

/// ```
/// # use delta_fifo::{DeltaFifo, DeltaQueue, KnownView};
/// # let queue = DeltaFifo::<u32, u32>::new();
/// let list = queue.begin_replace()?;
/// list.commit()?;
/// drop(queue);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// ```compile_fail,E0505
/// # use delta_fifo::{DeltaFifo, DeltaQueue, KnownView};
/// # let queue = DeltaFifo::<u32, u32>::new();
/// let list = queue.begin_replace()?;
/// drop(queue);
/// list.commit()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
fn a_replace_outlives_its_queue() {}

/// ```
/// # use delta_fifo::{DeltaFifo, DeltaQueue, KnownView};
/// # let queue = DeltaFifo::<u32, u32>::new();
/// let mark = queue.mark(1_u64)?;
/// assert!(mark.is_complete());
/// drop(mark);
/// drop(queue);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// ```compile_fail,E0505
/// # use delta_fifo::{DeltaFifo, DeltaQueue, KnownView};
/// # let queue = DeltaFifo::<u32, u32>::new();
/// let mark = queue.mark(1_u64)?;
/// drop(queue);
/// assert!(mark.is_complete());
/// drop(mark);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
fn a_completion_outlives_its_queue() {}

/// ```
/// #![deny(unused_must_use)]
/// # use delta_fifo::{DeltaFifo, DeltaQueue, KnownView};
/// # let queue = DeltaFifo::<u32, u32>::new();
/// let _list = queue.begin_replace()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// ```compile_fail
/// #![deny(unused_must_use)]
/// # use delta_fifo::{DeltaFifo, DeltaQueue, KnownView};
/// # let queue = DeltaFifo::<u32, u32>::new();
/// queue.begin_replace()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
fn a_replace_is_dropped_unseen() {}

/// A builder builds once.
///
/// ```
/// # use delta_fifo::{DeltaFifo, DeltaQueue, KnownView};
/// # use delta_fifo::Builder;
/// let builder = Builder::<u32, u32>::new().shards(2);
/// let queue: DeltaFifo<u32, u32> = builder.build();
/// queue.add(1, 1)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// ```compile_fail,E0382
/// # use delta_fifo::{DeltaFifo, DeltaQueue, KnownView};
/// # use delta_fifo::Builder;
/// let builder = Builder::<u32, u32>::new().shards(2);
/// let queue: DeltaFifo<u32, u32> = builder.build();
/// let other: DeltaFifo<u32, u32> = builder.build();
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
fn a_builder_is_used_after_the_build() {}

/// ```
/// # use delta_fifo::{DeltaFifo, DeltaQueue, KnownView};
/// # use delta_fifo::Builder;
/// let queue: DeltaFifo<u32, u32> = Builder::<u32, u32>::new().build();
/// queue.close();
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// ```compile_fail,E0282
/// # use delta_fifo::{DeltaFifo, DeltaQueue, KnownView};
/// # use delta_fifo::Builder;
/// let queue = Builder::<u32, u32>::new().build();
/// queue.close();
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
fn a_builder_does_not_know_what_to_build() {}

/// ```
/// # use delta_fifo::{DeltaFifo, DeltaQueue, KnownView};
/// # use delta_fifo::Builder;
/// let queue: DeltaFifo<u32, u32> = Builder::<u32, u32>::new().build();
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// ```compile_fail,E0271
/// # use delta_fifo::{DeltaFifo, DeltaQueue, KnownView};
/// # use delta_fifo::Builder;
/// let queue: DeltaFifo<u32, String> = Builder::<u32, u32>::new().build();
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
fn a_builder_builds_another_queue() {}

/// What a builder is given lives as long as the queue, and runs on every thread.
///
/// ```
/// # use delta_fifo::{DeltaFifo, DeltaQueue, KnownView};
/// # use delta_fifo::Builder;
/// let most = 7;
/// let queue: DeltaFifo<u32, u32> =
///     Builder::new().transform(move |object: &mut u32| Ok(*object = most.min(*object))).build();
/// queue.add(1, 9)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// ```compile_fail,E0373
/// # use delta_fifo::{DeltaFifo, DeltaQueue, KnownView};
/// # use delta_fifo::Builder;
/// let most = 7;
/// let queue: DeltaFifo<u32, u32> =
///     Builder::new().transform(|object: &mut u32| Ok(*object = most.min(*object))).build();
/// queue.add(1, 9)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
fn a_transform_borrows() {}

/// ```
/// # use delta_fifo::{DeltaFifo, DeltaQueue, KnownView};
/// # use delta_fifo::Builder;
/// # use std::sync::Arc;
/// let most = Arc::new(7);
/// let queue: DeltaFifo<u32, u32> =
///     Builder::new().transform(move |object: &mut u32| Ok(*object = *most)).build();
/// queue.add(1, 9)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// ```compile_fail,E0277
/// # use delta_fifo::{DeltaFifo, DeltaQueue, KnownView};
/// # use delta_fifo::Builder;
/// # use std::sync::Arc;
/// let most = std::rc::Rc::new(7);
/// let queue: DeltaFifo<u32, u32> =
///     Builder::new().transform(move |object: &mut u32| Ok(*object = *most)).build();
/// queue.add(1, 9)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
fn a_transform_of_one_thread() {}

/// ```
/// # use delta_fifo::{DeltaFifo, DeltaQueue, KnownView};
/// # use delta_fifo::Builder;
/// # use std::sync::Mutex;
/// let seen = Mutex::new(0);
/// let queue: DeltaFifo<u32, u32> = Builder::new().on_error(move |_| *seen.lock().unwrap() += 1).build();
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// ```compile_fail,E0277
/// # use delta_fifo::{DeltaFifo, DeltaQueue, KnownView};
/// # use delta_fifo::Builder;
/// # use std::sync::Mutex;
/// let seen = std::cell::Cell::new(0);
/// let queue: DeltaFifo<u32, u32> = Builder::new().on_error(move |_| seen.set(1)).build();
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
fn a_hook_of_one_thread() {}

/// The trait grows, so nobody else implements it.
///
/// ```
/// # use delta_fifo::{DeltaFifo, DeltaQueue, KnownView};
/// # use delta_fifo::DeltaQueue as Trait;
/// fn any<Q: Trait>(queue: &Q) -> usize {
///     queue.pending_len()
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// ```compile_fail,E0603
/// # use delta_fifo::{DeltaFifo, DeltaQueue, KnownView};
/// # use delta_fifo::DeltaQueue as Trait;
/// fn any<Q: delta_fifo::raw::RawQueue>(queue: &Q) {}
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
fn a_queue_of_ones_own() {}
