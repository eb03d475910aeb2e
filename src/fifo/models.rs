//! The queue as a whole under loom: its own calls, over one shard, with the table, the lines, the pools and the waiters that
//! it has in every build, only smaller. Each model is named after the invariant that it shows, and has broken twins.
//!
//! `RUSTFLAGS="--cfg delta_fifo_loom" cargo test --release --lib fifo::models -- --nocapture` prints what each explored.

mod arrivals;
mod delays;
mod kept;
mod leases;
mod life;
mod line;
mod measure;
mod objects;
mod snapshots;
mod versions;

use std::hash::{BuildHasherDefault, Hasher};
use std::ops::Deref;
// Not loom's, whose counting is a step: all threads are joined before the last handle goes.
use std::sync::Arc;

use super::DeltaFifo;
use super::lines::At;
use crate::builder::{Builder, OnAbandon};
use crate::lease::Lease;
use crate::queue::DeltaQueue;
use crate::slab::Index;
use crate::sync::epoch;
use crate::sync::stopped::{Gate, stop_me_at};
use crate::sync::thread::{JoinHandle, spawn};

/// The same hash for a key in every execution.
#[derive(Default)]
struct Plain(u64);

impl Hasher for Plain {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, _: &[u8]) {
        unreachable!("keys are numbers");
    }

    fn write_u32(&mut self, key: u32) {
        self.0 = key.into();
    }
}

type Hash = BuildHasherDefault<Plain>;
type Fifo<V = u32> = DeltaFifo<u32, V, Hash>;

/// A handle of a queue, which a model that has failed leaves alone: dropping it would fail again, and abort.
struct Queue<V: Send + Sync + 'static = u32>(Option<Arc<Fifo<V>>>);

impl<V: Send + Sync + 'static> Queue<V> {
    /// One shard. An abandoned lease comes back at once.
    fn new() -> Self {
        Self::built(|builder| builder)
    }

    fn built(how: impl FnOnce(Builder<u32, V, Hash>) -> Builder<u32, V, Hash>) -> Self {
        let builder = Builder::with_hasher(Hash::default()).shards(1).on_abandon(OnAbandon::Requeue);
        Queue(Some(Arc::new(how(builder).build())))
    }

    fn thread<T: 'static>(&self, f: impl FnOnce(&Fifo<V>) -> T + 'static) -> JoinHandle<T> {
        let queue = Queue(self.0.clone());
        spawn(move || f(&queue))
    }

    /// A thread that stops at a pause point, the first time it gets there, until [`go_on`].
    fn stopped(&self, at: &'static str, f: impl FnOnce(&Fifo<V>) + 'static) -> (JoinHandle<()>, Gate) {
        let gate = Gate::new();
        let closed = gate.clone();
        let thread = self.thread(move |queue| {
            stop_me_at(at, &closed);
            f(queue);
        });
        (thread, gate)
    }
}

fn go_on((thread, gate): (JoinHandle<()>, Gate)) {
    gate.open();
    thread.thread().unpark();
    thread.join().unwrap();
}

impl<V: Send + Sync + 'static> Deref for Queue<V> {
    type Target = Fifo<V>;

    fn deref(&self) -> &Fifo<V> {
        self.0.as_ref().expect("it is there until it is dropped")
    }
}

impl<V: Send + Sync + 'static> Drop for Queue<V> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            std::mem::forget(self.0.take());
        }
    }
}

/// The numbers of a lease's objects.
fn numbers(lease: &Lease<'_, Fifo>) -> Vec<u32> {
    lease.deltas().iter().map(|delta| *delta.object().expect("each has an object")).collect()
}

/// A key that is in line, and what happened to it.
fn pop(queue: &Fifo) -> Option<(u32, Vec<u32>)> {
    let lease = queue.try_pop().ok()?;
    let popped = (*lease.key(), numbers(&lease));
    lease.done();
    Some(popped)
}

/// What is in line when all others are done.
fn rest(queue: &Fifo) -> Vec<(u32, Vec<u32>)> {
    let rest = std::iter::from_fn(|| pop(queue)).take(8).collect();
    assert_eq!((queue.pending_len(), queue.leased_len()), (0, 0), "counted wrong, or lost: {rest:?}");
    rest
}

/// Everything that was popped of `key`, in this order.
fn of_key(key: u32, popped: impl IntoIterator<Item = (u32, Vec<u32>)>) -> Vec<u32> {
    popped.into_iter().filter(|(of, _)| *of == key).flat_map(|(_, numbers)| numbers).collect()
}

/// The key of the only entry is in line once more, as if it had been helped.
fn once_more(queue: &Fifo) {
    let index = Index::MIN;
    let generation = queue.core.shards[0].entries.get(index).word().generation();
    queue.lines.push(At { shard: 0, index, generation }, false);
}
