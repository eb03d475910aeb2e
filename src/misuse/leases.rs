//! Leases.

/// A lease borrows its queue.
///
/// ```
/// # use delta_fifo::{DeltaFifo, DeltaQueue, KnownView};
/// # let queue = DeltaFifo::<u32, u32>::new();
/// # queue.add(1, 1)?;
/// let lease = queue.pop()?;
/// lease.done();
/// drop(queue);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// ```compile_fail,E0505
/// # use delta_fifo::{DeltaFifo, DeltaQueue, KnownView};
/// # let queue = DeltaFifo::<u32, u32>::new();
/// # queue.add(1, 1)?;
/// let lease = queue.pop()?;
/// drop(queue);
/// lease.done();
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
fn a_lease_outlives_its_queue() {}

/// Nor may it be handed out of where the queue is.
///
/// ```
/// # use delta_fifo::{DeltaFifo, DeltaQueue, KnownView};
/// # use delta_fifo::{Closed, Lease};
/// fn first(queue: &DeltaFifo<u32, u32>) -> Result<Lease<'_, DeltaFifo<u32, u32>>, Closed> {
///     queue.pop()
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// ```compile_fail,E0515
/// # use delta_fifo::{DeltaFifo, DeltaQueue, KnownView};
/// # use delta_fifo::{Closed, Lease};
/// fn first(queue: DeltaFifo<u32, u32>) -> Result<Lease<'static, DeltaFifo<u32, u32>>, Closed> {
///     queue.pop()
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
fn a_lease_leaves_its_queues_scope() {}

/// A lease ends once.
///
/// ```
/// # use delta_fifo::{DeltaFifo, DeltaQueue, KnownView};
/// # let queue = DeltaFifo::<u32, u32>::new();
/// # queue.add(1, 1)?;
/// let lease = queue.pop()?;
/// lease.requeue();
/// queue.pop()?.done();
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// ```compile_fail,E0382
/// # use delta_fifo::{DeltaFifo, DeltaQueue, KnownView};
/// # let queue = DeltaFifo::<u32, u32>::new();
/// # queue.add(1, 1)?;
/// let lease = queue.pop()?;
/// lease.requeue();
/// lease.done();
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
fn a_lease_ends_twice() {}

/// ```
/// # use delta_fifo::{DeltaFifo, DeltaQueue, KnownView};
/// # let queue = DeltaFifo::<u32, u32>::new();
/// # queue.add(1, 1)?;
/// let lease = queue.pop()?;
/// let key = *lease.key();
/// lease.done();
/// assert_eq!(key, 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// ```compile_fail,E0382
/// # use delta_fifo::{DeltaFifo, DeltaQueue, KnownView};
/// # let queue = DeltaFifo::<u32, u32>::new();
/// # queue.add(1, 1)?;
/// let lease = queue.pop()?;
/// lease.done();
/// let key = *lease.key();
/// assert_eq!(key, 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
fn a_lease_is_used_after_its_end() {}

/// What a lease shows goes with it.
///
/// ```
/// # use delta_fifo::{DeltaFifo, DeltaQueue, KnownView};
/// # let queue = DeltaFifo::<u32, u32>::new();
/// # queue.add(1, 1)?;
/// let lease = queue.pop()?;
/// let deltas = lease.deltas();
/// assert_eq!(deltas.len(), 1);
/// lease.done();
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// ```compile_fail,E0505
/// # use delta_fifo::{DeltaFifo, DeltaQueue, KnownView};
/// # let queue = DeltaFifo::<u32, u32>::new();
/// # queue.add(1, 1)?;
/// let lease = queue.pop()?;
/// let deltas = lease.deltas();
/// lease.done();
/// assert_eq!(deltas.len(), 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
fn deltas_outlive_their_lease() {}

/// ```
/// # use delta_fifo::{DeltaFifo, DeltaQueue, KnownView};
/// # let queue = DeltaFifo::<u32, u32>::new();
/// # queue.add(1, 1)?;
/// let lease = queue.pop()?;
/// let object = lease.deltas().newest().object().copied();
/// lease.done();
/// assert_eq!(object, Some(1));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// ```compile_fail,E0505
/// # use delta_fifo::{DeltaFifo, DeltaQueue, KnownView};
/// # let queue = DeltaFifo::<u32, u32>::new();
/// # queue.add(1, 1)?;
/// let lease = queue.pop()?;
/// let object = lease.deltas().newest().object();
/// lease.done();
/// assert_eq!(object, Some(&1));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
fn an_object_outlives_its_lease() {}

/// ```
/// # use delta_fifo::{DeltaFifo, DeltaQueue, KnownView};
/// # let queue = DeltaFifo::<u32, u32>::new();
/// # queue.add(1, 1)?;
/// let lease = queue.pop()?;
/// let previous = lease.previous();
/// assert_eq!(previous, None);
/// lease.done();
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// ```compile_fail,E0505
/// # use delta_fifo::{DeltaFifo, DeltaQueue, KnownView};
/// # let queue = DeltaFifo::<u32, u32>::new();
/// # queue.add(1, 1)?;
/// let lease = queue.pop()?;
/// let previous = lease.previous();
/// lease.done();
/// assert_eq!(previous, None);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
fn the_old_object_outlives_its_lease() {}

/// ```
/// # use delta_fifo::{DeltaFifo, DeltaQueue, KnownView};
/// # let queue = DeltaFifo::<u32, u32>::new();
/// # queue.add(1, 1)?;
/// let lease = queue.pop()?;
/// let key = *lease.key();
/// drop(lease);
/// assert_eq!(key, 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// ```compile_fail,E0505
/// # use delta_fifo::{DeltaFifo, DeltaQueue, KnownView};
/// # let queue = DeltaFifo::<u32, u32>::new();
/// # queue.add(1, 1)?;
/// let lease = queue.pop()?;
/// let key = lease.key();
/// drop(lease);
/// assert_eq!(*key, 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
fn a_key_outlives_its_lease() {}

/// Of two leases each shows its own, as long as it lasts.
///
/// ```
/// # use delta_fifo::{DeltaFifo, DeltaQueue, KnownView};
/// # let queue = DeltaFifo::<u32, u32>::new();
/// # queue.add(1, 1)?;
/// # queue.add(2, 2)?;
/// let (first, second) = (queue.pop()?, queue.pop()?);
/// let deltas = [first.deltas(), second.deltas()];
/// assert_eq!(deltas[1].len(), 1);
/// first.done();
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// ```compile_fail,E0505
/// # use delta_fifo::{DeltaFifo, DeltaQueue, KnownView};
/// # let queue = DeltaFifo::<u32, u32>::new();
/// # queue.add(1, 1)?;
/// # queue.add(2, 2)?;
/// let (first, second) = (queue.pop()?, queue.pop()?);
/// let deltas = [first.deltas(), second.deltas()];
/// first.done();
/// assert_eq!(deltas[1].len(), 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
fn deltas_of_one_lease_are_held_over_another() {}

/// ```
/// # use delta_fifo::{DeltaFifo, DeltaQueue, KnownView};
/// # let queue = DeltaFifo::<u32, u32>::new();
/// # queue.add(1, 1)?;
/// let batch = queue.pop_batch(2)?;
/// assert_eq!(batch.len(), 1);
/// batch.done();
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// ```compile_fail,E0382
/// # use delta_fifo::{DeltaFifo, DeltaQueue, KnownView};
/// # let queue = DeltaFifo::<u32, u32>::new();
/// # queue.add(1, 1)?;
/// let batch = queue.pop_batch(2)?;
/// batch.done();
/// assert_eq!(batch.len(), 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
fn a_batch_is_used_after_its_end() {}

/// What becomes of a lease within `process` is said by the result.
///
/// ```
/// # use delta_fifo::{DeltaFifo, DeltaQueue, KnownView};
/// # let queue = DeltaFifo::<u32, u32>::new();
/// # queue.add(1, 1)?;
/// queue.process(|lease| drop(lease.key()))?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// ```compile_fail,E0507
/// # use delta_fifo::{DeltaFifo, DeltaQueue, KnownView};
/// # let queue = DeltaFifo::<u32, u32>::new();
/// # queue.add(1, 1)?;
/// queue.process(|lease| lease.done())?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
fn a_handler_ends_its_lease() {}

/// ```
/// # use delta_fifo::{DeltaFifo, DeltaQueue, KnownView};
/// # let queue = DeltaFifo::<u32, u32>::new();
/// # queue.add(1, 1)?;
/// let mut kept = None;
/// queue.process(|lease| kept = Some(*lease.key()))?;
/// assert_eq!(kept, Some(1));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// ```compile_fail
/// # use delta_fifo::{DeltaFifo, DeltaQueue, KnownView};
/// # let queue = DeltaFifo::<u32, u32>::new();
/// # queue.add(1, 1)?;
/// let mut kept = None;
/// queue.process(|lease| kept = Some(lease.key()))?;
/// assert_eq!(kept, Some(&1));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
fn a_handler_keeps_its_lease() {}

/// A lease that is not used is a mistake.
///
/// ```
/// #![deny(unused_must_use)]
/// # use delta_fifo::{DeltaFifo, DeltaQueue, KnownView};
/// # let queue = DeltaFifo::<u32, u32>::new();
/// # queue.add(1, 1)?;
/// let _lease = queue.pop()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// ```compile_fail
/// #![deny(unused_must_use)]
/// # use delta_fifo::{DeltaFifo, DeltaQueue, KnownView};
/// # let queue = DeltaFifo::<u32, u32>::new();
/// # queue.add(1, 1)?;
/// queue.pop()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
fn a_lease_is_dropped_unseen() {}

/// A queue in use is shared.
///
/// ```
/// # use delta_fifo::{DeltaFifo, DeltaQueue, KnownView};
/// # let mut queue = DeltaFifo::<u32, u32>::new();
/// # queue.add(1, 1)?;
/// let lease = queue.pop()?;
/// lease.done();
/// let alone = &mut queue;
/// alone.add(1, 1)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// ```compile_fail,E0502
/// # use delta_fifo::{DeltaFifo, DeltaQueue, KnownView};
/// # let mut queue = DeltaFifo::<u32, u32>::new();
/// # queue.add(1, 1)?;
/// let lease = queue.pop()?;
/// let alone = &mut queue;
/// lease.done();
/// alone.add(1, 1)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
fn a_leased_queue_is_changed_as_a_whole() {}

/// What goes to a thread of its own owns its queue.
///
/// ```
/// # use delta_fifo::{DeltaFifo, DeltaQueue, KnownView};
/// # use std::sync::Arc;
/// # let queue = Arc::new(DeltaFifo::<u32, u32>::new());
/// # queue.add(1, 1)?;
/// let lease = queue.pop_owned()?;
/// std::thread::spawn(move || lease.done()).join().unwrap();
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// ```compile_fail,E0597
/// # use delta_fifo::{DeltaFifo, DeltaQueue, KnownView};
/// # use std::sync::Arc;
/// # let queue = Arc::new(DeltaFifo::<u32, u32>::new());
/// # queue.add(1, 1)?;
/// let lease = queue.pop()?;
/// std::thread::spawn(move || lease.done()).join().unwrap();
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
fn a_borrowed_lease_goes_to_a_thread() {}

/// ```
/// # use delta_fifo::{DeltaFifo, DeltaQueue, KnownView};
/// # use std::sync::Arc;
/// # fn spawn<T>(_: impl Future<Output = T> + Send + 'static) {}
/// # let queue = Arc::new(DeltaFifo::<u32, u32>::new());
/// let owner = Arc::clone(&queue);
/// spawn(async move { owner.pop_async_owned().await.map(drop) });
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// ```compile_fail,E0597
/// # use delta_fifo::{DeltaFifo, DeltaQueue, KnownView};
/// # use std::sync::Arc;
/// # fn spawn<T>(_: impl Future<Output = T> + Send + 'static) {}
/// # let queue = Arc::new(DeltaFifo::<u32, u32>::new());
/// spawn(queue.pop_async());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
fn a_borrowed_future_goes_to_a_task() {}

/// ```
/// # use delta_fifo::{DeltaFifo, DeltaQueue, KnownView};
/// # use std::sync::Arc;
/// # let queue = DeltaFifo::<u32, u32>::new();
/// # queue.add(1, 1)?;
/// let queue = Arc::new(queue);
/// let lease = queue.pop()?.into_owned(&queue);
/// lease.done();
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// ```compile_fail,E0308
/// # use delta_fifo::{DeltaFifo, DeltaQueue, KnownView};
/// # use std::sync::Arc;
/// # let queue = DeltaFifo::<u32, u32>::new();
/// # queue.add(1, 1)?;
/// let lease = queue.pop()?.into_owned(&queue);
/// lease.done();
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
fn an_owned_lease_of_a_borrowed_queue() {}

/// ```
/// # use delta_fifo::{DeltaFifo, DeltaQueue, KnownView};
/// # use std::sync::Arc;
/// # let name = String::from("a");
/// let queue = Arc::new(DeltaFifo::<&str, u32>::new());
/// queue.add(&name, 1).unwrap();
/// queue.pop()?.done();
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// ```compile_fail,E0597
/// # use delta_fifo::{DeltaFifo, DeltaQueue, KnownView};
/// # use std::sync::Arc;
/// # let name = String::from("a");
/// let queue = Arc::new(DeltaFifo::<&str, u32>::new());
/// queue.add(&name, 1).unwrap();
/// queue.pop_owned()?.done();
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
fn an_owned_lease_of_keys_that_borrow() {}
