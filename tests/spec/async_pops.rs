//! Waiting without blocking, on any executor.

use std::sync::{Arc, mpsc};
use std::task::Poll;
use std::thread;

use delta_fifo::{Closed, DeltaQueue};

use crate::common::{Family, LONG, Woken, block_on, for_each_queue, key, lease_text, play, poll_once, queue};

for_each_queue!(
    pop_is_ready_at_once_or_woken,
    cancelled_pop_keeps_the_key_and_its_place,
    lease_that_never_reached_the_caller_counts_no_attempt,
    closed_queue_wakes_all,
    batches_wait_for_the_first_key,
    async_and_blocking_consumers_share_a_queue,
    works_on_tokio,
    waits_for_sync_and_completions,
);

fn pop_is_ready_at_once_or_woken<F: Family>() {
    let queue = queue::<F>();
    queue.add(key("a"), 1).unwrap();
    let woken = Woken::new();
    let mut pop = Box::pin(queue.pop_async());
    let Poll::Ready(Ok(lease)) = poll_once(&mut pop, &woken) else { panic!("a key is in line") };
    lease.done();
    let mut pop = Box::pin(queue.pop_async());
    assert!(poll_once(&mut pop, &woken).is_pending());
    assert_eq!(woken.count(), 0);
    queue.add(key("b"), 1).unwrap();
    woken.wait();
    let Poll::Ready(Ok(lease)) = poll_once(&mut pop, &woken) else { panic!("a key is in line") };
    assert_eq!(lease_text(&lease), "b:[A1]");
}

fn cancelled_pop_keeps_the_key_and_its_place<F: Family>() {
    let queue = queue::<F>();
    let woken = Woken::new();
    let mut pop = Box::pin(queue.pop_async());
    assert!(poll_once(&mut pop, &woken).is_pending());
    play(&queue, "add a1; add b1");
    woken.wait();
    // Woken, and dropped before it looked.
    drop(pop);
    play(&queue, "pending 2; leased 0; pop a:[A1] try 1; pop b:[A1] try 1; empty");
    // Never polled at all.
    drop(queue.pop_async());
    play(&queue, "add c1; pop c:[A1] try 1; empty");
}

fn lease_that_never_reached_the_caller_counts_no_attempt<F: Family>() {
    let queue = queue::<F>();
    for round in 0..100 {
        let woken = Woken::new();
        let mut pops: Vec<_> = (0..3)
            .map(|_| {
                let mut pop = Box::pin(queue.pop_batch_async(2));
                assert!(poll_once(&mut pop, &woken).is_pending());
                pop
            })
            .collect();
        play(&queue, "add a1; add b1; add c1");
        drop(pops.remove(round % 3));
        drop(pops);
        play(&queue, "leased 0; pending 3; pop a:[A1] try 1; pop b:[A1] try 1; pop c:[A1] try 1; empty");
    }
}

fn closed_queue_wakes_all<F: Family>() {
    let queue = queue::<F>();
    let woken: Vec<_> = (0..5).map(|_| Woken::new()).collect();
    let mut pops: Vec<_> = woken
        .iter()
        .map(|woken| {
            let mut pop = Box::pin(queue.pop_async());
            assert!(poll_once(&mut pop, woken).is_pending());
            pop
        })
        .collect();
    queue.close();
    for (pop, woken) in pops.iter_mut().zip(&woken) {
        // Until producers that were in the middle of a call are through.
        let end = loop {
            woken.wait();
            if let Poll::Ready(end) = poll_once(pop, woken) {
                break end.map(|_| ());
            }
        };
        assert_eq!(end, Err(Closed));
    }
    assert!(matches!(block_on(queue.pop_batch_async(1)), Err(Closed)));
}

fn batches_wait_for_the_first_key<F: Family>() {
    let queue = queue::<F>();
    let woken = Woken::new();
    let mut pop = Box::pin(queue.pop_batch_async(5));
    assert!(poll_once(&mut pop, &woken).is_pending());
    play(&queue, "add a1; add b1");
    woken.wait();
    let Poll::Ready(Ok(batch)) = poll_once(&mut pop, &woken) else { panic!("keys are in line") };
    assert_eq!(batch.iter().map(lease_text).collect::<Vec<_>>(), ["a:[A1]", "b:[A1]"]);
    batch.done();
}

fn async_and_blocking_consumers_share_a_queue<F: Family>() {
    const KEYS: usize = 2_000;
    let queue = queue::<F>();
    let counts = thread::scope(|scope| {
        let blocking = scope.spawn(|| {
            let mut count = 0;
            while let Ok(lease) = queue.pop_timeout(LONG) {
                count += 1;
                lease.done();
            }
            count
        });
        let waiting = scope.spawn(|| {
            let mut count = 0;
            while let Ok(lease) = block_on(queue.pop_async()) {
                count += 1;
                lease.done();
            }
            count
        });
        for index in 0..KEYS {
            queue.add(index.to_string(), 1).unwrap();
        }
        queue.close();
        blocking.join().unwrap() + waiting.join().unwrap()
    });
    assert_eq!(counts, KEYS);
    play(&queue, "closed; leased 0; pending 0");

    // One key at a time, to whichever side is waiting: no wake-up is lost between the two kinds.
    let queue = crate::common::queue::<F>();
    thread::scope(|scope| {
        let (sender, ended) = mpsc::channel();
        let (queue, blocking, waiting) = (&queue, sender.clone(), sender);
        scope.spawn(move || {
            while let Ok(lease) = queue.pop_timeout(LONG) {
                lease.done();
                blocking.send(()).unwrap();
            }
        });
        scope.spawn(move || {
            while let Ok(lease) = block_on(queue.pop_async()) {
                lease.done();
                waiting.send(()).unwrap();
            }
        });
        for round in 0..500 {
            queue.update(key("a"), round).unwrap();
            ended.recv_timeout(LONG / 2).expect("nobody was woken");
        }
        queue.close();
    });
}

fn works_on_tokio<F: Family>() {
    let queue = Arc::new(queue::<F>());
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_time().build().unwrap();
    let total: usize = runtime.block_on(async {
        let consumers: Vec<_> = (0..4)
            .map(|_| {
                let queue = Arc::clone(&queue);
                tokio::spawn(async move {
                    let mut deltas = 0;
                    while let Ok(lease) = queue.pop_async_owned().await {
                        // The lease is held across an await, in a task that may move.
                        tokio::task::yield_now().await;
                        deltas += lease.deltas().len();
                        lease.done();
                    }
                    deltas
                })
            })
            .collect();
        for value in 0..1_000u32 {
            queue.update((value % 7).to_string(), value).unwrap();
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
    // A cancelled task gives its lease back.
    let queue = Arc::new(crate::common::queue::<F>());
    queue.add(key("a"), 1).unwrap();
    runtime.block_on(async {
        let (sender, popped) = tokio::sync::oneshot::channel();
        let consumer = Arc::clone(&queue);
        let task = tokio::spawn(async move {
            let lease = consumer.pop_async_owned().await.unwrap();
            sender.send(()).unwrap();
            std::future::pending::<()>().await;
            lease.done();
        });
        popped.await.unwrap();
        task.abort();
        assert!(task.await.unwrap_err().is_cancelled());
        let lease = tokio::time::timeout(LONG, queue.pop_async()).await.unwrap().unwrap();
        assert_eq!((lease_text(&lease), lease.attempts()), ("a:[A1]".into(), 2));
        lease.done();
    });
}

fn waits_for_sync_and_completions<F: Family>() {
    let queue = queue::<F>();
    let woken = [Woken::new(), Woken::new(), Woken::new()];
    let mut synced = Box::pin(queue.wait_synced_async());
    assert!(poll_once(&mut synced, &woken[0]).is_pending());
    let replace = queue.replace([(key("a"), 1)]).unwrap();
    let mark = queue.mark(7).unwrap();
    let (mut replaced, mut marked) = (Box::pin(replace.wait_async()), Box::pin(mark.wait_async()));
    assert!(poll_once(&mut replaced, &woken[1]).is_pending());
    assert!(poll_once(&mut marked, &woken[2]).is_pending());
    play(&queue, "pop a:[R1]");
    woken.iter().for_each(|woken| woken.wait());
    // Each may have been woken for less; now nothing is missing.
    assert!(matches!(poll_once(&mut synced, &woken[0]), Poll::Ready(Ok(()))));
    assert!(matches!(poll_once(&mut replaced, &woken[1]), Poll::Ready(Ok(()))));
    assert!(matches!(poll_once(&mut marked, &woken[2]), Poll::Ready(Ok(()))));

    let queue = crate::common::queue::<F>();
    let mut synced = Box::pin(queue.wait_synced_async());
    assert!(poll_once(&mut synced, &woken[0]).is_pending());
    queue.close();
    assert_eq!(block_on(synced), Err(Closed));
}
