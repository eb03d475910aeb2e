//! The queue as a work queue: keys without objects, marked by updates.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

use delta_fifo::{Builder, DeltaQueue, PopTimeoutError, TryPopError};

use crate::common::{Family, LONG, finishes, for_each_queue, key};

for_each_queue!(
    fifty_producers_and_ten_consumers,
    marked_while_working_gives_one_more_turn,
    drain_waits_for_what_is_in_flight,
    popped_objects_are_freed,
);

fn marks<F: Family>() -> F::Queue<String, ()> {
    Builder::new().no_known_objects().build()
}

fn fifty_producers_and_ten_consumers<F: Family>() {
    const PRODUCERS: usize = 50;
    const CONSUMERS: usize = 10;
    const EACH: usize = 50;
    let queue = marks::<F>();
    let working: Mutex<HashMap<String, usize>> = Mutex::default();
    let marked: Vec<AtomicUsize> = (0..PRODUCERS).map(|_| AtomicUsize::new(0)).collect();
    let processed: Vec<AtomicUsize> = (0..PRODUCERS).map(|_| AtomicUsize::new(0)).collect();
    thread::scope(|scope| {
        let consumers: Vec<_> = (0..CONSUMERS)
            .map(|_| {
                scope.spawn(|| {
                    loop {
                        let lease = match queue.pop_timeout(LONG) {
                            Ok(lease) => lease,
                            Err(error) => break assert_eq!(error, PopTimeoutError::Closed),
                        };
                        let name = lease.key().clone();
                        let workers = {
                            let mut working = working.lock().unwrap();
                            let workers = working.entry(name.clone()).or_default();
                            *workers += 1;
                            *workers
                        };
                        assert_eq!(workers, 1, "{name} is with two workers");
                        // Everything that was marked before this turn began is seen by it.
                        let index: usize = name.parse().unwrap();
                        let seen = marked[index].load(Ordering::SeqCst);
                        thread::yield_now();
                        processed[index].fetch_max(seen, Ordering::SeqCst);
                        *working.lock().unwrap().get_mut(&name).unwrap() -= 1;
                        lease.done();
                    }
                })
            })
            .collect();
        let producers: Vec<_> = (0..PRODUCERS)
            .map(|producer| {
                let (queue, marked) = (&queue, &marked);
                scope.spawn(move || {
                    for number in 0..EACH {
                        let index = (producer + number) % PRODUCERS;
                        marked[index].fetch_add(1, Ordering::SeqCst);
                        queue.update(index.to_string(), ()).unwrap();
                    }
                })
            })
            .collect();
        producers.into_iter().for_each(|producer| producer.join().unwrap());
        queue.close();
        consumers.into_iter().for_each(|consumer| consumer.join().unwrap());
    });
    let counts = |counters: &[AtomicUsize]| -> Vec<usize> {
        counters.iter().map(|counter| counter.load(Ordering::SeqCst)).collect()
    };
    assert_eq!(counts(&processed), counts(&marked));
    assert_eq!(counts(&marked), [EACH; PRODUCERS]);
    assert_eq!((queue.pending_len(), queue.leased_len()), (0, 0));
}

fn marked_while_working_gives_one_more_turn<F: Family>() {
    let queue = marks::<F>();
    queue.update(key("a"), ()).unwrap();
    let lease = queue.pop().unwrap();
    for _ in 0..3 {
        queue.update(key("a"), ()).unwrap();
    }
    assert_eq!(queue.try_pop().map(drop), Err(TryPopError::Empty));
    lease.done();
    let lease = queue.try_pop().unwrap();
    assert_eq!((lease.deltas().len(), queue.pending_len()), (3, 0));
    lease.done();
    assert_eq!(queue.try_pop().map(drop), Err(TryPopError::Empty));
}

fn drain_waits_for_what_is_in_flight<F: Family>() {
    let queue = Arc::new(marks::<F>());
    queue.update(key("a"), ()).unwrap();
    queue.update(key("b"), ()).unwrap();
    let lease = queue.pop_owned().unwrap();
    let ended = Arc::new(AtomicBool::new(false));
    let drain = {
        let (queue, ended) = (Arc::clone(&queue), Arc::clone(&ended));
        thread::spawn(move || {
            queue.close_and_wait().unwrap();
            ended.load(Ordering::SeqCst)
        })
    };
    while !queue.is_closed() {
        thread::yield_now();
    }
    queue.pop().unwrap().done();
    assert!(queue.update(key("c"), ()).is_err());
    // Nothing is pending any more; the drain waits for the lease all the same.
    assert_eq!(queue.try_pop().map(drop), Err(TryPopError::Closed));
    assert!(!drain.is_finished());
    ended.store(true, Ordering::SeqCst);
    lease.done();
    let waited = finishes("the drain", move || drain.join().unwrap());
    assert!(waited, "the drain did not wait for the lease");
}

fn popped_objects_are_freed<F: Family>() {
    let queue: F::Queue<String, Arc<u32>> = Builder::new().no_known_objects().build();
    let objects: Vec<Arc<u32>> = (0..10).map(Arc::new).collect();
    for object in &objects {
        queue.update(object.to_string(), Arc::clone(object)).unwrap();
    }
    assert!(objects.iter().all(|object| Arc::strong_count(object) == 2));
    while let Ok(lease) = queue.try_pop() {
        let object = Arc::clone(lease.deltas().newest().object().unwrap());
        lease.done();
        // Ours, and the list's.
        assert_eq!(Arc::strong_count(&object), 2);
    }
    assert!(objects.iter().all(|object| Arc::strong_count(object) == 1));
}
