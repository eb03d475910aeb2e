//! What one step leaves behind, looked at in the moment after it.

use std::hash::{Hash, Hasher};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, JoinHandle, ThreadId};
use std::time::Duration;

use crate::builder::Background;
use crate::delta::{Change, Compression, DeltaKind};
use crate::queue::DeltaQueue;
use crate::replace::Upsert;
use crate::sync::stopped::{Gate, stop_me_at};
use crate::{Builder, DeltaFifo};

use super::stopped::{arrives, go_on};

const HOUR: Duration = Duration::from_secs(3_600);

#[derive(Default)]
struct Count(AtomicUsize);

impl Wake for Count {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

fn poll<T>(future: std::pin::Pin<&mut impl Future<Output = T>>, count: &Arc<Count>) -> Poll<T> {
    future.poll(&mut Context::from_waker(&Waker::from(Arc::clone(count))))
}

#[test]
fn a_batch_wakes_as_many_as_it_has_keys() {
    let queue: DeltaFifo<u32, u32> = Builder::new().build();
    let (count, mut first, mut second) =
        (Arc::new(Count::default()), pin!(queue.pop_async()), pin!(queue.pop_async()));
    assert!(poll(first.as_mut(), &count).is_pending() && poll(second.as_mut(), &count).is_pending());
    queue.change_all([Change::Add(1, 1), Change::Add(2, 2)]).expect("it is open");
    assert_eq!(count.0.load(Ordering::SeqCst), 2);
}

#[test]
fn what_a_list_has_placed_stands_in_line_once() {
    let queue: DeltaFifo<u32, u32> = Builder::new().build();
    queue.add(1, 1).expect("it is open");
    queue.try_pop().expect("it is in line").done();
    drop(queue.replace([(1, 2), (2, 2)]).expect("it is the only one"));
    assert_eq!(std::iter::from_fn(|| queue.lines.pop()).count(), 2);
}

#[test]
fn a_delay_that_is_the_earliest_wakes_who_waits() {
    let queue: DeltaFifo<u32, u32> = Builder::new().build();
    queue.add(1, 1).expect("it is open");
    let lease = queue.try_pop().expect("it is in line");
    let (count, mut pop) = (Arc::new(Count::default()), pin!(queue.pop_async()));
    assert!(poll(pop.as_mut(), &count).is_pending());
    lease.requeue_after(HOUR);
    assert_eq!(count.0.load(Ordering::SeqCst), 1, "so that it sets the alarm");
}

#[test]
fn a_key_that_is_pending_again_waits_for_no_time() {
    let queue: DeltaFifo<u32, u32> = Builder::new().build();
    queue.add(1, 1).expect("it is open");
    queue.try_pop().expect("it is in line").requeue_after(HOUR);
    assert!(queue.delays.earliest().is_some());
    queue.update(1, 2).expect("it is open");
    assert_eq!(queue.delays.earliest(), None);
    assert_eq!(queue.try_pop().expect("it is in line").deltas().len(), 2);
}

/// Says in which thread it is dropped.
struct Loud(Arc<Mutex<Vec<ThreadId>>>);

impl Drop for Loud {
    fn drop(&mut self) {
        self.0.lock().unwrap().push(thread::current().id());
    }
}

#[test]
fn a_producer_drops_no_object() {
    let queue: DeltaFifo<u32, Loud> = Builder::new().compression(Compression::Latest).shards(1).build();
    let dropped = Arc::default();
    thread::scope(|scope| {
        let producer = || (0..8).try_for_each(|_| queue.update(1, Loud(Arc::clone(&dropped))));
        scope.spawn(producer).join().expect("it ends").expect("it is open");
    });
    assert_eq!(dropped.lock().unwrap().len(), 0);
    queue.try_pop().expect("it is in line").done();
    assert_eq!(*dropped.lock().unwrap(), [thread::current().id(); 7]);
}

/// All of one hash, and a comparison that may panic.
#[derive(Clone, Debug)]
struct Key(u32, Arc<AtomicUsize>);

impl PartialEq for Key {
    fn eq(&self, other: &Self) -> bool {
        // Who counts down from 1 panics; 0 counts nothing.
        let left = self.1.load(Ordering::SeqCst);
        self.1.store(left.saturating_sub(1), Ordering::SeqCst);
        assert_ne!(left, 1, "a comparison panics");
        self.0 == other.0
    }
}

impl Eq for Key {}

impl Hash for Key {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u32(0);
    }
}

#[test]
fn a_change_that_panics_is_not_counted() {
    let queue: DeltaFifo<Key, u32> = Builder::new().shards(1).build();
    let fuse = Arc::new(AtomicUsize::new(0));
    queue.add(Key(1, Arc::clone(&fuse)), 1).expect("it is open");
    // The search compares, then the insertion; there the change is counted already.
    fuse.store(2, Ordering::SeqCst);
    let panicked = catch_unwind(AssertUnwindSafe(|| queue.add(Key(2, Arc::clone(&fuse)), 2)));
    assert!(panicked.is_err());
    assert_eq!(queue.pending_len(), 1);
    drop(queue);
    assert_eq!(Arc::strong_count(&fuse), 1, "both keys are gone");
}

/// Makes a call in a thread that stops at a point.
fn stopped(
    queue: &Arc<DeltaFifo<u32, u32>>,
    at: &'static str,
    call: fn(&DeltaFifo<u32, u32>),
) -> (JoinHandle<()>, Gate) {
    let (gate, queue) = (Gate::new(), Arc::clone(queue));
    let thread = thread::spawn({
        let gate = gate.clone();
        move || {
            stop_me_at(at, &gate);
            call(&queue);
        }
    });
    assert!(arrives(&thread, &gate));
    (thread, gate)
}

#[test]
fn a_change_is_counted_before_it_is_there() {
    let queue: Arc<DeltaFifo<u32, u32>> = Arc::new(Builder::new().build());
    queue.add(1, 1).expect("it is open");
    queue.try_pop().expect("it is in line").done();
    let (update, appended) = stopped(&queue, "push: appended", |queue| _ = queue.update(1, 2));
    assert_eq!(queue.pending_len(), 1);
    go_on(update, &appended);
    assert_eq!(queue.pending_len(), 1);
}

/// A resync has helped to put a key in the background line and is stopped before it says so; a real change, stopped before the first
/// line, moves the key there. Whoever comes late must not say that it stands where it does not.
#[test]
fn a_mark_of_the_background_is_none_of_the_first_line() {
    let queue: Arc<DeltaFifo<u32, u32>> =
        Arc::new(Builder::new().background(Background::Resync).shards(1).build());
    queue.add(1, 1).expect("it is open");
    queue.try_pop().expect("it is in line").done();
    let (first, half) = stopped(&queue, "link: owed", |queue| _ = queue.resync());
    let (resync, woken) = stopped(&queue, "link: woken", |queue| _ = queue.resync_key(1));
    let (update, owed) = stopped(&queue, "link: owed", |queue| _ = queue.update(1, 2));
    go_on(resync, &woken);
    go_on(first, &half);
    let lease = queue.try_pop().expect("the handle in the background is good until the key stands in front");
    assert_eq!(lease.deltas().len(), 2);
    lease.done();
    go_on(update, &owed);
    assert!(queue.try_pop().is_err());
}

/// A key that is deleted twice, the second time while a list is on its way and a consumer takes the key. That deletion has come too late for the
/// lease, so it is of nothing; and an item of the list that is placed is handed out.
#[test]
fn an_item_that_is_placed_is_handed_out() {
    let queue: Arc<DeltaFifo<u32, u32>> = Arc::new(Builder::new().shards(1).build());
    queue.add(1, 1).expect("it is open");
    queue.delete(1, 2).expect("it is open");
    let replace = queue.begin_replace().expect("it is the only one");
    let (delete, held) = stopped(&queue, "push: chain held", |queue| _ = queue.delete(1, 3));
    let (pop, begun) = stopped(&queue, "lease: begun", |queue| {
        let lease = queue.try_pop().expect("it is in line");
        assert_eq!(lease.deltas().len(), 2);
        lease.done();
    });
    go_on(delete, &held);
    assert_eq!(replace.upsert(1, 4).expect("it is open"), Upsert::Placed);
    queue.delete(1, 5).expect("it is open");
    go_on(pop, &begun);
    let lease = queue.try_pop().expect("it is in line");
    let kinds = lease.deltas().iter().map(|delta| delta.kind());
    assert_eq!(kinds.collect::<Vec<_>>(), [DeltaKind::Replaced, DeltaKind::Deleted]);
    lease.done();
    let _ = replace.commit().expect("it is open");
    assert!(queue.try_pop().is_err());
}

#[test]
fn a_batch_that_panics_stands_in_line_as_far_as_it_came() {
    let queue: DeltaFifo<Key, u32> = Builder::new().shards(1).build();
    let fuse = Arc::new(AtomicUsize::new(1));
    let changes = [1, 2].map(|number| Change::Add(Key(number, Arc::clone(&fuse)), number));
    assert!(catch_unwind(AssertUnwindSafe(|| queue.change_all(changes))).is_err());
    assert_eq!(queue.try_pop().expect("the first").key().0, 1);
    assert!(queue.try_pop().is_err());
}

#[test]
fn an_item_that_panics_is_not_waited_for() {
    let queue: DeltaFifo<Key, u32> = Builder::new().shards(1).build();
    let fuse = Arc::new(AtomicUsize::new(0));
    let replace = queue.begin_replace().expect("it is the only one");
    replace.upsert(Key(1, Arc::clone(&fuse)), 1).expect("it is open");
    fuse.store(1, Ordering::SeqCst);
    let item = Key(2, Arc::clone(&fuse));
    assert!(catch_unwind(AssertUnwindSafe(|| replace.upsert(item, 2))).is_err());
    let _ = replace.commit().expect("it is open");
    queue.try_pop().expect("the first").done();
    assert!(queue.has_synced());
}

#[test]
fn a_replace_that_panics_is_over() {
    let transform = |object: &mut u32| -> Result<(), crate::BoxError> {
        assert_ne!(*object, 1, "a transform panics");
        Ok(())
    };
    let queue: DeltaFifo<u32, u32> = Builder::new().transform(transform).build();
    assert!(catch_unwind(AssertUnwindSafe(|| queue.replace([(1, 1)]))).is_err());
    let _ = queue.replace([(1, 2)]).expect("no other is open");
}
