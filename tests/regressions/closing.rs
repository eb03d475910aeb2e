//! A closed queue: who waits hears of it, and what it refuses comes back.

use std::sync::{Arc, Barrier, mpsc};
use std::task::Poll;
use std::thread;
use std::time::{Duration, Instant};

use delta_fifo::{Closed, DeltaQueue, OwnedLease, TryPopError};

use crate::common::{
    Family, LONG, Queue, Woken, block_on, for_each_queue, key, lease_text, play, poll_once, queue,
};

for_each_queue!(
    blocked_pops_end_when_one_takes_the_last_key,
    blocked_async_pops_end_when_one_takes_the_last_key,
    pending_async_pops_are_woken_when_one_takes_the_last_key,
    nothing_comes_any_more_though_a_lease_is_open,
    resync_key_gives_the_key_back,
);

type Pop<F> = fn(&Arc<Queue<F>>) -> Result<OwnedLease<Queue<F>>, Closed>;

/// A closed queue, and the lease of its last key, which is dirty.
fn closed_with_a_dirty_key<F: Family>() -> (Arc<Queue<F>>, OwnedLease<Queue<F>>) {
    let queue = Arc::new(queue::<F>());
    play(&*queue, "add a1");
    let lease = queue.pop_owned().unwrap();
    play(&*queue, "add a2; close");
    (queue, lease)
}

/// One of two pops gets the last key and keeps its lease; the other one must not wait for that lease.
fn one_ends_with_closed<F: Family>(pop: Pop<F>) {
    for round in 0..60_u64 {
        let (queue, lease) = closed_with_a_dirty_key::<F>();
        let (sender, results) = mpsc::channel();
        let start = Arc::new(Barrier::new(3));
        for _ in 0..2 {
            let (queue, sender, start) = (Arc::clone(&queue), sender.clone(), Arc::clone(&start));
            thread::spawn(move || {
                start.wait();
                sender.send(pop(&queue)).unwrap();
            });
        }
        drop(sender);
        start.wait();
        // Nobody can see that both are parked: whatever the order is, the outcome is the same. Later rounds give
        // them more time.
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_micros(50 * round) {
            thread::yield_now();
        }
        lease.done();
        let ended = [(); 2].map(|()| results.recv_timeout(LONG).expect("a pop waits for ever"));
        let mut texts: Vec<String> = ended
            .iter()
            .map(|result| match result {
                Ok(lease) => lease_text(lease),
                Err(Closed) => "closed".into(),
            })
            .collect();
        texts.sort();
        assert_eq!(texts, ["a:[A2]", "closed"]);
    }
}

fn blocked_pops_end_when_one_takes_the_last_key<F: Family>() {
    one_ends_with_closed::<F>(|queue| queue.pop_owned());
}

fn blocked_async_pops_end_when_one_takes_the_last_key<F: Family>() {
    one_ends_with_closed::<F>(|queue| block_on(queue.pop_async_owned()));
}

fn pending_async_pops_are_woken_when_one_takes_the_last_key<F: Family>() {
    let (queue, lease) = closed_with_a_dirty_key::<F>();
    let mut pops = [(); 2].map(|()| (Box::pin(queue.pop_async()), Woken::new(), 0));
    for (pop, woken, _) in &mut pops {
        assert!(poll_once(pop, woken).is_pending());
    }
    lease.done();
    let (mut waiting, mut leases, mut closed) = (Vec::from(pops), Vec::new(), 0);
    let limit = Instant::now() + LONG;
    while !waiting.is_empty() {
        assert!(Instant::now() < limit, "a pop was not woken");
        thread::yield_now();
        waiting.retain_mut(|(pop, woken, seen)| {
            if woken.count() == *seen {
                return true;
            }
            *seen = woken.count();
            match poll_once(pop, woken) {
                Poll::Pending => return true,
                // Kept open: the other one must not wait for its end.
                Poll::Ready(Ok(lease)) => leases.push(lease),
                Poll::Ready(Err(Closed)) => closed += 1,
            }
            false
        });
    }
    assert_eq!((leases.iter().map(lease_text).collect::<String>().as_str(), closed), ("a:[A2]", 1));
}

fn nothing_comes_any_more_though_a_lease_is_open<F: Family>() {
    let (queue, lease) = closed_with_a_dirty_key::<F>();
    assert!(matches!(queue.try_pop(), Err(TryPopError::Empty)));
    lease.done();
    let last = queue.try_pop().unwrap();
    assert!(matches!(queue.try_pop(), Err(TryPopError::Closed)));
    // What is given back does come.
    last.requeue();
    play(&*queue, "pop a:[A2] try 2; closed");
}

fn resync_key_gives_the_key_back<F: Family>() {
    let queue = queue::<F>();
    play(&queue, "known a1; close");
    for name in ["a", "unknown"] {
        let error = queue.resync_key(key(name)).unwrap_err();
        assert_eq!(error.key, name);
        assert!(format!("{error}").contains(name) && format!("{error:?}").contains(name), "{error}");
    }
    play(&queue, "pending 0; closed");
}
