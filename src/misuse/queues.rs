//! Keys and objects, and what is seen of them.

/// Every consumer's thread drops objects.
///
/// ```
/// # use delta_fifo::{DeltaFifo, DeltaQueue, KnownView};
/// # use std::sync::Arc;
/// let queue = DeltaFifo::<u32, Arc<u32>>::new();
/// queue.add(1, Arc::new(1))?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// ```compile_fail,E0599
/// # use delta_fifo::{DeltaFifo, DeltaQueue, KnownView};
/// # use std::sync::Arc;
/// let queue = DeltaFifo::<u32, std::rc::Rc<u32>>::new();
/// queue.add(1, std::rc::Rc::new(1))?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
fn objects_that_no_other_thread_may_have() {}

/// Two may look at one.
///
/// ```
/// # use delta_fifo::{DeltaFifo, DeltaQueue, KnownView};
/// # use std::cell::Cell;
/// # use std::sync::Mutex;
/// let queue = DeltaFifo::<u32, Mutex<Cell<u32>>>::new();
/// queue.add(1, Mutex::default())?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// ```compile_fail,E0599
/// # use delta_fifo::{DeltaFifo, DeltaQueue, KnownView};
/// # use std::cell::Cell;
/// # use std::sync::Mutex;
/// let queue = DeltaFifo::<u32, Cell<u32>>::new();
/// queue.add(1, Cell::default())?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
fn objects_that_threads_may_not_share() {}

/// ```
/// # use delta_fifo::{DeltaFifo, DeltaQueue, KnownView};
/// # use std::sync::Arc;
/// let queue = DeltaFifo::<Arc<u32>, u32>::new();
/// queue.add(Arc::new(1), 1)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// ```compile_fail,E0599
/// # use delta_fifo::{DeltaFifo, DeltaQueue, KnownView};
/// # use std::sync::Arc;
/// let queue = DeltaFifo::<std::rc::Rc<u32>, u32>::new();
/// queue.add(std::rc::Rc::new(1), 1)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
fn keys_that_no_other_thread_may_have() {}

/// ```
/// # use delta_fifo::{DeltaFifo, DeltaQueue, KnownView};
/// # use delta_fifo::Builder;
/// let queue: DeltaFifo<u32, f64> = Builder::new().build();
/// queue.add(1, 1.0)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// ```compile_fail,E0277
/// # use delta_fifo::{DeltaFifo, DeltaQueue, KnownView};
/// # use delta_fifo::Builder;
/// let queue: DeltaFifo<f64, f64> = Builder::new().build();
/// queue.add(1.0, 1.0)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
fn keys_without_eq() {}

/// Threads look at a lease together; who has it ends it.
///
/// ```
/// # use delta_fifo::{DeltaFifo, DeltaQueue, KnownView};
/// # let queue = DeltaFifo::<u32, u32>::new();
/// # queue.add(1, 1)?;
/// let lease = queue.pop()?;
/// std::thread::scope(|scope| {
///     scope.spawn(|| assert_eq!(lease.deltas().len(), 1));
///     scope.spawn(|| assert_eq!(*lease.key(), 1));
/// });
/// lease.done();
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// ```compile_fail,E0382
/// # use delta_fifo::{DeltaFifo, DeltaQueue, KnownView};
/// # let queue = DeltaFifo::<u32, u32>::new();
/// # queue.add(1, 1)?;
/// let lease = queue.pop()?;
/// std::thread::scope(|scope| {
///     scope.spawn(|| lease.done());
///     scope.spawn(|| assert_eq!(*lease.key(), 1));
/// });
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
fn a_thread_ends_a_lease_that_another_looks_at() {}

/// What a key borrows lives as long as the queue.
///
/// ```
/// # use delta_fifo::{DeltaFifo, DeltaQueue, KnownView};
/// # let queue = DeltaFifo::<&str, u32>::new();
/// let name = String::from("a");
/// {
///     let queue = queue;
///     queue.add(&name, 1).unwrap();
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// ```compile_fail,E0597
/// # use delta_fifo::{DeltaFifo, DeltaQueue, KnownView};
/// # let queue = DeltaFifo::<&str, u32>::new();
/// {
///     let name = String::from("a");
///     queue.add(&name, 1).unwrap();
/// }
/// drop(queue);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
fn keys_outlive_what_they_borrow() {}

/// A snapshot outlives its queue, and nothing that the keys borrow.
///
/// ```
/// # use delta_fifo::{DeltaFifo, DeltaQueue, KnownView};
/// # let name = String::from("a");
/// # let queue = DeltaFifo::<&str, u32>::new();
/// # queue.add(&name, 1).unwrap();
/// # queue.pop()?.done();
/// # let snapshot = queue.snapshot();
/// drop(queue);
/// assert_eq!(snapshot.len(), 1);
/// drop(snapshot);
/// drop(name);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// ```compile_fail,E0505
/// # use delta_fifo::{DeltaFifo, DeltaQueue, KnownView};
/// # let name = String::from("a");
/// # let queue = DeltaFifo::<&str, u32>::new();
/// # queue.add(&name, 1).unwrap();
/// # queue.pop()?.done();
/// # let snapshot = queue.snapshot();
/// drop(queue);
/// drop(name);
/// assert_eq!(snapshot.len(), 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
fn a_snapshot_outlives_what_its_keys_borrow() {}

/// Who could take it for that could put short-lived keys in it.
///
/// ```
/// # use delta_fifo::{DeltaFifo, DeltaQueue, KnownView};
/// # use delta_fifo::DeltaFifo as Queue;
/// fn shorter<'short>(queue: &'short Queue<&'static str, u32>) -> &'short Queue<&'static str, u32> {
///     queue
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// ```compile_fail
/// # use delta_fifo::{DeltaFifo, DeltaQueue, KnownView};
/// # use delta_fifo::DeltaFifo as Queue;
/// fn shorter<'short>(queue: &'short Queue<&'static str, u32>) -> &'short Queue<&'short str, u32> {
///     queue
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
fn a_queue_of_long_keys_passes_for_one_of_short() {}

/// ```
/// # use delta_fifo::{DeltaFifo, DeltaQueue, KnownView};
/// # use delta_fifo::DeltaFifo as Queue;
/// fn shorter<'short>(queue: &'short Queue<u32, &'static str>) -> &'short Queue<u32, &'static str> {
///     queue
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// ```compile_fail
/// # use delta_fifo::{DeltaFifo, DeltaQueue, KnownView};
/// # use delta_fifo::DeltaFifo as Queue;
/// fn shorter<'short>(queue: &'short Queue<u32, &'static str>) -> &'short Queue<u32, &'short str> {
///     queue
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
fn a_queue_of_long_objects_passes_for_one_of_short() {}

/// Who could take it for that could put short-lived keys in it.
///
/// ```
/// # use delta_fifo::{DeltaFifo, DeltaQueue, KnownView};
/// # use delta_fifo::baseline::MutexDeltaFifo as Queue;
/// fn shorter<'short>(queue: &'short Queue<&'static str, u32>) -> &'short Queue<&'static str, u32> {
///     queue
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// ```compile_fail
/// # use delta_fifo::{DeltaFifo, DeltaQueue, KnownView};
/// # use delta_fifo::baseline::MutexDeltaFifo as Queue;
/// fn shorter<'short>(queue: &'short Queue<&'static str, u32>) -> &'short Queue<&'short str, u32> {
///     queue
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
fn a_mutex_queue_of_long_keys_passes_for_one_of_short() {}

/// ```
/// # use delta_fifo::{DeltaFifo, DeltaQueue, KnownView};
/// # use delta_fifo::baseline::MutexDeltaFifo as Queue;
/// fn shorter<'short>(queue: &'short Queue<u32, &'static str>) -> &'short Queue<u32, &'static str> {
///     queue
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// ```compile_fail
/// # use delta_fifo::{DeltaFifo, DeltaQueue, KnownView};
/// # use delta_fifo::baseline::MutexDeltaFifo as Queue;
/// fn shorter<'short>(queue: &'short Queue<u32, &'static str>) -> &'short Queue<u32, &'short str> {
///     queue
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
fn a_mutex_queue_of_long_objects_passes_for_one_of_short() {}

/// What a requeue gives back must be what the queue takes.
///
/// ```
/// # use delta_fifo::{DeltaFifo, DeltaQueue, KnownView};
/// # use delta_fifo::Lease;
/// # type Queue<'k> = DeltaFifo<&'k str, u32>;
/// fn shorter<'short>(lease: Lease<'static, Queue<'static>>) -> Lease<'short, Queue<'static>> {
///     lease
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// ```compile_fail
/// # use delta_fifo::{DeltaFifo, DeltaQueue, KnownView};
/// # use delta_fifo::Lease;
/// # type Queue<'k> = DeltaFifo<&'k str, u32>;
/// fn shorter<'short>(lease: Lease<'static, Queue<'static>>) -> Lease<'short, Queue<'short>> {
///     lease
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
fn a_lease_of_long_keys_passes_for_one_of_short() {}

/// The live view borrows its queue.
///
/// ```
/// # use delta_fifo::{DeltaFifo, DeltaQueue, KnownView};
/// # let queue = DeltaFifo::<u32, u32>::new();
/// # queue.add(1, 1)?;
/// let known = queue.known();
/// assert_eq!(known.len(), 0);
/// drop(queue);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// ```compile_fail,E0505
/// # use delta_fifo::{DeltaFifo, DeltaQueue, KnownView};
/// # let queue = DeltaFifo::<u32, u32>::new();
/// # queue.add(1, 1)?;
/// let known = queue.known();
/// drop(queue);
/// assert_eq!(known.len(), 0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
fn a_view_outlives_its_queue() {}

/// An iteration borrows its snapshot; what it yields does not.
///
/// ```
/// # use delta_fifo::{DeltaFifo, DeltaQueue, KnownView};
/// # let queue = DeltaFifo::<u32, u32>::new();
/// # queue.add(1, 1)?;
/// # queue.pop()?.done();
/// # let snapshot = queue.snapshot();
/// let mut known = snapshot.iter();
/// let first = known.next();
/// drop(known);
/// drop(snapshot);
/// assert!(first.is_some());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// ```compile_fail,E0505
/// # use delta_fifo::{DeltaFifo, DeltaQueue, KnownView};
/// # let queue = DeltaFifo::<u32, u32>::new();
/// # queue.add(1, 1)?;
/// # queue.pop()?.done();
/// # let snapshot = queue.snapshot();
/// let mut known = snapshot.iter();
/// drop(snapshot);
/// let first = known.next();
/// assert!(first.is_some());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
fn an_iteration_outlives_its_snapshot() {}

/// An object that is looked at in place stays there.
///
/// ```
/// # use delta_fifo::{DeltaFifo, DeltaQueue, KnownView};
/// # let queue = DeltaFifo::<u32, u32>::new();
/// # queue.add(1, 1)?;
/// # queue.pop()?.done();
/// let object = queue.known().get_with(&1, |object| *object);
/// assert_eq!(object, Some(1));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// ```compile_fail
/// # use delta_fifo::{DeltaFifo, DeltaQueue, KnownView};
/// # let queue = DeltaFifo::<u32, u32>::new();
/// # queue.add(1, 1)?;
/// # queue.pop()?.done();
/// let object = queue.known().get_with(&1, |object| object);
/// assert_eq!(object, Some(&1));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
fn an_object_is_taken_out_of_get_with() {}

/// ```
/// # use delta_fifo::{DeltaFifo, DeltaQueue, KnownView};
/// # let queue = DeltaFifo::<u32, u32>::new();
/// # queue.add(1, 1)?;
/// # queue.pop()?.done();
/// # let known = queue.known().find(&1).expect("known");
/// let object = known.object();
/// assert_eq!(*object, 1);
/// drop(known);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// ```compile_fail,E0505
/// # use delta_fifo::{DeltaFifo, DeltaQueue, KnownView};
/// # let queue = DeltaFifo::<u32, u32>::new();
/// # queue.add(1, 1)?;
/// # queue.pop()?.done();
/// # let known = queue.known().find(&1).expect("known");
/// let object = known.object();
/// drop(known);
/// assert_eq!(*object, 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
fn an_object_outlives_its_handle() {}

/// Known objects are shared and do not change.
///
/// ```
/// # use delta_fifo::{DeltaFifo, DeltaQueue, KnownView};
/// # let queue = DeltaFifo::<u32, u32>::new();
/// # queue.add(1, 1)?;
/// # queue.pop()?.done();
/// let mut copy = queue.known().get(&1).expect("known");
/// copy += 1;
/// assert_eq!(copy, 2);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// ```compile_fail,E0594
/// # use delta_fifo::{DeltaFifo, DeltaQueue, KnownView};
/// # let queue = DeltaFifo::<u32, u32>::new();
/// # queue.add(1, 1)?;
/// # queue.pop()?.done();
/// let known = queue.known().find(&1).expect("known");
/// *known.object() += 1;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
fn a_known_object_is_changed() {}
