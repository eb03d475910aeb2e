//! What the types promise to the compiler: threads, tasks, unwinding, and what they do not ask of keys and values.

#[path = "traits/auto.rs"]
mod auto;
#[path = "traits/variance.rs"]
mod variance;

use std::sync::Arc;

use delta_fifo::baseline::MutexDeltaFifo;
use delta_fifo::{DeltaFifo, DeltaQueue, Lease, OwnedLease, OwnedReplace};

/// Neither `Clone` nor `Debug` nor `Default`.
#[derive(PartialEq, Eq, Hash)]
struct Key(u32);
struct Value(u32);

type Queue = MutexDeltaFifo<Key, Value>;

fn is_static<T: 'static>() {}

#[test]
fn owned_handles_are_static() {
    is_static::<OwnedLease<Queue>>();
    is_static::<OwnedReplace<Queue>>();
}

#[test]
fn neither_keys_nor_values_need_more_than_their_use() {
    let queue = Queue::new();
    queue.add(Key(1), Value(1)).unwrap_or_else(|_| panic!("the queue is open"));
    let lease = queue.pop().expect("a key is in line");
    assert_eq!(lease.key().0, 1);
    assert_eq!(lease.deltas().newest().object().map(|value| value.0), Some(1));
}

/// Keys and values may borrow from something that outlives the queue.
#[test]
fn keys_and_values_need_not_be_static() {
    let names = [String::from("a"), String::from("b")];
    let queue = MutexDeltaFifo::<&str, &String>::new();
    for name in &names {
        queue.add(name, name).expect("the queue is open");
    }
    std::thread::scope(|scope| {
        for _ in &names {
            scope.spawn(|| {
                let lease = queue.pop().expect("a key is in line");
                assert_eq!(
                    Some(lease.key()),
                    lease.deltas().newest().object().map(|name| name.as_str()).as_ref()
                );
                lease.done();
            });
        }
    });
    assert_eq!(queue.pending_len() + queue.leased_len(), 0);
}

/// A borrow of a lease is held over an await, in a task that other threads may go on with, and by several threads at once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn leases_are_looked_at_together() {
    async fn together<Q>(queue: Q)
    where
        Q: DeltaQueue<Key = u32, Value = u32> + 'static,
    {
        async fn look<Q: DeltaQueue<Key = u32, Value = u32>>(lease: &Lease<'_, Q>) -> Option<u32> {
            tokio::task::yield_now().await;
            lease.deltas().newest().object().copied()
        }
        queue.add(1, 7).expect("the queue is open");
        let queue = Arc::new(queue);
        let task = tokio::spawn(async move {
            let lease = queue.pop_async_owned().await.expect("a key is in line");
            assert_eq!(look(&lease).await, Some(7));
            std::thread::scope(|scope| {
                for _ in 0..2 {
                    scope.spawn(|| {
                        assert_eq!((*lease.key(), lease.deltas().len(), lease.attempts()), (1, 1, 1))
                    });
                }
            });
            lease.done();
            queue.leased_len()
        });
        assert_eq!(task.await.expect("nothing panics"), 0);
    }
    together(MutexDeltaFifo::new()).await;
    together(DeltaFifo::new()).await;
}

/// An owned lease goes where a borrow cannot, and outlives every other handle of its queue.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn owned_leases_move_into_tasks() {
    let queue = Arc::new(MutexDeltaFifo::<u32, u32>::new());
    let tasks: Vec<_> = (0..8)
        .map(|_| {
            let queue = Arc::clone(&queue);
            tokio::spawn(async move {
                let lease = queue.pop_async_owned().await.expect("a key comes in line");
                drop(queue);
                tokio::spawn(async move {
                    let key = *lease.key();
                    lease.done();
                    key
                })
                .await
                .expect("nothing panics")
            })
        })
        .collect();
    for key in 0..8 {
        queue.add(key, key).expect("the queue is open");
    }
    drop(queue);
    let mut keys = Vec::new();
    for task in tasks {
        keys.push(task.await.expect("nothing panics"));
    }
    keys.sort_unstable();
    assert_eq!(keys, [0, 1, 2, 3, 4, 5, 6, 7]);
}
