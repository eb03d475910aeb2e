//! Everything that may outlive the handle of its queue, dropped in every order: leases, a replace or its completion, snapshots,
//! an object, and a task that waits.

use std::pin::Pin;
use std::task::Waker;

use super::*;
use crate::model::tasks::poll;

/// In the order in which they are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Queue,
    Lease,
    List,
    Waiter,
    Older,
    Newer,
    Object,
}

use Part::{Lease, List, Newer, Object, Older, Waiter};

const PARTS: [Part; 7] = [Part::Queue, Lease, List, Waiter, Older, Newer, Object];

/// What ends with a part.
type Ends = Box<dyn FnOnce()>;

/// `variant` says how the lease ends, what the list has come to, and how the task waits.
fn scene<F: Family>(count: &Count, variant: usize) -> [Ends; 7] {
    let queue: Arc<Queue<F>> = Arc::new(common::with_shards(Builder::new(), 2).build());
    know::<F>(&queue, count, 1);
    know::<F>(&queue, count, 2);
    let older = queue.snapshot();
    let object = queue.known().find(&count.key(2)).unwrap();
    know::<F>(&queue, count, 2);
    queue.delete_key(count.key(1)).unwrap();
    queue.try_pop().unwrap().done();
    let newer = queue.snapshot();
    add::<F>(&queue, count, 2);
    add::<F>(&queue, count, 2);
    let lease = queue.pop_owned().unwrap();
    add::<F>(&queue, count, 2);
    let owner = Arc::clone(&queue);
    let mut waiter: Pin<Box<dyn Future<Output = ()>>> = match variant % 2 {
        0 => Box::pin(async move { drop(owner.pop_async_owned().await) }),
        #[cfg(feature = "async")]
        _ => {
            use futures_util::StreamExt as _;
            Box::pin(async move { drop(owner.leases_owned().next().await) })
        }
        #[cfg(not(feature = "async"))]
        _ => Box::pin(async move { _ = owner.pop_batch_async(2).await.map(drop) }),
    };
    assert!(poll(waiter.as_mut(), Waker::noop()).is_pending());
    // It is woken for what the list brings in line, and does not look.
    let list = queue.begin_replace_owned().unwrap();
    let (key, value) = count.pair(4);
    list.upsert(key, value).unwrap();
    let list: Ends = match variant / 2 % 2 {
        0 => Box::new(|| drop(list)),
        _ => {
            let completion = list.commit().unwrap();
            assert!(!completion.is_complete());
            Box::new(|| drop(completion))
        }
    };
    let lease: Ends = match variant % 5 {
        0 => Box::new(|| drop(lease)),
        1 => Box::new(|| lease.done()),
        2 => Box::new(|| lease.requeue()),
        3 => Box::new(|| lease.requeue_after(Duration::from_secs(3600))),
        _ => Box::new(|| lease.give_up()),
    };
    [
        Box::new(move || drop(queue)),
        lease,
        list,
        Box::new(move || drop(waiter)),
        Box::new(move || {
            assert_eq!(older.len(), 2);
            assert!(older.iter().all(|known| known.key().name <= 2));
        }),
        Box::new(move || {
            assert_eq!(newer.iter().map(|known| known.key().name).collect::<Vec<_>>(), [2]);
        }),
        Box::new(move || assert_eq!(object.key().name, 2)),
    ]
}

/// Every order of `0..order.len()`, the rest of which begins at `from`.
fn each_order(order: &mut [usize; 7], from: usize, f: &mut impl FnMut(&[usize; 7])) {
    if from == order.len() {
        return f(order);
    }
    for at in from..order.len() {
        order.swap(from, at);
        each_order(order, from + 1, f);
        order.swap(from, at);
    }
}

/// Once the last owner of the queue has gone, what the others show is alive and nothing else is.
fn check(count: &Count, left: &[Part]) {
    if [Part::Queue, Lease, List, Waiter].iter().any(|owner| left.contains(owner)) {
        return;
    }
    let has = |part| left.contains(&part);
    // The first object of 1; the first and the second of 2.
    let values = [has(Older), has(Older) || has(Object), has(Newer)];
    count.expect_values(values.into_iter().filter(|alive| *alive).count());
    if !has(Older) && !has(Newer) {
        assert_eq!(count.keys(), usize::from(has(Object)), "{left:?}");
    }
}

pub(crate) fn dropped_in_any_order<F: Family>() {
    let mut number = 0;
    each_order(&mut [0, 1, 2, 3, 4, 5, 6], 0, &mut |order| {
        let count = Count::default();
        let mut parts = scene::<F>(&count, number).map(Some);
        number += 1;
        for (at, part) in order.iter().enumerate() {
            let end = parts[*part].take().expect("each once");
            end();
            let left: Vec<Part> = order[at + 1..].iter().map(|part| PARTS[*part]).collect();
            check(&count, &left);
        }
        count.expect(0, 0);
    });
    assert_eq!(number, 5_040);
}
