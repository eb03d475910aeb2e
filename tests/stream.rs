//! Leases as a stream, on any executor.
#![cfg(feature = "async")]

mod common;

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use common::{Family, LONG, Woken, block_on, for_each_queue, key, lease_text, play, queue};
use delta_fifo::{DeltaQueue, Lease, Leases};
use futures_core::Stream;
use futures_util::StreamExt;

for_each_queue!(
    yields_what_is_in_line_and_ends_with_the_queue,
    a_waiting_stream_is_woken,
    a_cancelled_next_keeps_the_key_and_its_place,
    a_dropped_stream_hands_its_wake_up_on,
    goes_on_if_a_lease_comes_back_after_the_end,
    streams_and_pops_share_a_queue,
    owned_streams_move_into_tasks,
);

fn poll<'q, Q: DeltaQueue>(leases: &mut Leases<'q, Q>, woken: &Arc<Woken>) -> Poll<Option<Lease<'q, Q>>> {
    Pin::new(leases).poll_next(&mut Context::from_waker(&Waker::from(Arc::clone(woken))))
}

fn yields_what_is_in_line_and_ends_with_the_queue<F: Family>() {
    let queue = queue::<F>();
    play(&queue, "add a1; add b1; update a2; close");
    let mut leases = queue.leases();
    let mut seen = Vec::new();
    while let Some(lease) = block_on(leases.next()) {
        seen.push(lease_text(&lease));
        lease.done();
    }
    assert_eq!(seen, ["a:[A1 U2]", "b:[A1]"]);
    assert!(block_on(leases.next()).is_none());
}

fn a_waiting_stream_is_woken<F: Family>() {
    let queue = queue::<F>();
    let (woken, mut leases) = (Woken::new(), queue.leases());
    assert!(poll(&mut leases, &woken).is_pending());
    assert_eq!(woken.count(), 0);
    play(&queue, "add a1");
    woken.wait();
    let Poll::Ready(Some(lease)) = poll(&mut leases, &woken) else { panic!("a key is in line") };
    assert_eq!(lease_text(&lease), "a:[A1]");
    lease.done();
    let closed = Woken::new();
    assert!(poll(&mut leases, &closed).is_pending());
    queue.close();
    closed.wait();
    assert!(matches!(poll(&mut leases, &closed), Poll::Ready(None)));
}

fn a_cancelled_next_keeps_the_key_and_its_place<F: Family>() {
    let queue = queue::<F>();
    let (woken, mut leases) = (Woken::new(), queue.leases());
    {
        let mut next = Box::pin(leases.next());
        assert!(common::poll_once(&mut next, &woken).is_pending());
        play(&queue, "add a1; add b1");
        woken.wait();
    }
    play(&queue, "pending 2; leased 0");
    let lease = block_on(leases.next()).unwrap();
    assert_eq!((lease_text(&lease), lease.attempts()), ("a:[A1]".into(), 1));
    lease.done();
    drop(leases);
    play(&queue, "pop b:[A1] try 1; empty");
}

fn a_dropped_stream_hands_its_wake_up_on<F: Family>() {
    let queue = queue::<F>();
    let (first, second) = (Woken::new(), Woken::new());
    let (mut leases, mut others) = (queue.leases(), queue.leases());
    assert!(poll(&mut leases, &first).is_pending());
    assert!(poll(&mut others, &second).is_pending());
    play(&queue, "add a1");
    // Whichever was woken is dropped.
    let (rest, woken) = if first.count() > 0 {
        drop(leases);
        (&mut others, &second)
    } else {
        drop(others);
        (&mut leases, &first)
    };
    woken.wait();
    let Poll::Ready(Some(lease)) = poll(rest, woken) else { panic!("a key is in line") };
    lease.done();
}

fn goes_on_if_a_lease_comes_back_after_the_end<F: Family>() {
    let queue = queue::<F>();
    play(&queue, "add a1; close");
    let mut leases = queue.leases();
    let lease = block_on(leases.next()).unwrap();
    assert!(block_on(leases.next()).is_none(), "nothing is pending");
    lease.requeue();
    let lease = block_on(leases.next()).unwrap();
    assert_eq!((lease_text(&lease), lease.attempts()), ("a:[A1]".into(), 2));
    lease.done();
    assert!(block_on(leases.next()).is_none());
}

fn streams_and_pops_share_a_queue<F: Family>() {
    const KEYS: usize = 2_000;
    let queue = queue::<F>();
    let count = std::thread::scope(|scope| {
        let streams: Vec<_> = (0..2)
            .map(|_| {
                scope.spawn(|| {
                    let mut leases = queue.leases();
                    let mut count = 0;
                    while let Some(lease) = block_on(leases.next()) {
                        count += 1;
                        lease.done();
                    }
                    count
                })
            })
            .collect();
        let blocking = scope.spawn(|| {
            let mut count = 0;
            while let Ok(lease) = queue.pop_timeout(LONG) {
                count += 1;
                lease.done();
            }
            count
        });
        for index in 0..KEYS {
            queue.add(index.to_string(), 1).unwrap();
        }
        queue.close();
        let streamed: usize = streams.into_iter().map(|stream| stream.join().unwrap()).sum();
        streamed + blocking.join().unwrap()
    });
    assert_eq!(count, KEYS);
    play(&queue, "closed; leased 0; pending 0");
}

fn owned_streams_move_into_tasks<F: Family>() {
    let queue = Arc::new(queue::<F>());
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_time().build().unwrap();
    let total = runtime.block_on(async {
        let consumers: Vec<_> = (0..3)
            .map(|_| {
                let mut leases = queue.leases_owned();
                tokio::spawn(async move {
                    let mut deltas = 0;
                    while let Some(lease) = leases.next().await {
                        tokio::task::yield_now().await;
                        deltas += lease.deltas().len();
                        lease.done();
                    }
                    deltas
                })
            })
            .collect();
        for value in 0..1_000u32 {
            queue.update(key(&(value % 7).to_string()), value).unwrap();
            if value % 100 == 0 {
                tokio::task::yield_now().await;
            }
        }
        queue.close();
        let mut total = 0;
        for consumer in consumers {
            total += tokio::time::timeout(LONG, consumer).await.unwrap().unwrap();
        }
        total
    });
    assert_eq!(total, 1_000);
}
