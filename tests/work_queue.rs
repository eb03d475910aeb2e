//! The work queue: what client-go's own tests pin of it and of its delays and limits, and what is this crate's. Its recorded runs are replayed
//! by `oracle.rs`.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::{Duration, Instant};

use delta_fifo::{
    AddError, Bucket, Closed, ItemExponential, Larger, ManualClock, PopTimeoutError, RateLimiter,
    TryPopError, WaitError, WorkQueue,
};

const LONG: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3_600);

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// All that is in line now, each done at once.
fn drain<K: std::hash::Hash + Eq + Clone + Send + Sync + 'static>(queue: &WorkQueue<K>) -> Vec<K> {
    std::iter::from_fn(|| queue.try_get().ok())
        .map(|work| {
            let key = (*work).clone();
            work.done();
            key
        })
        .collect()
}

#[test]
fn a_key_is_in_one_pair_of_hands_and_every_add_is_worked_on() {
    const KEYS: usize = 40;
    const PRODUCERS: usize = 50;
    const WORKERS: usize = 10;
    let queue: WorkQueue<usize> = WorkQueue::new();
    let added: Vec<AtomicUsize> = (0..KEYS).map(|_| AtomicUsize::new(0)).collect();
    let seen: Vec<AtomicUsize> = (0..KEYS).map(|_| AtomicUsize::new(0)).collect();
    let hands: Vec<AtomicUsize> = (0..KEYS).map(|_| AtomicUsize::new(0)).collect();
    let start = Barrier::new(PRODUCERS);
    thread::scope(|scope| {
        for _ in 0..WORKERS {
            scope.spawn(|| {
                while let Ok(work) = queue.get() {
                    assert_eq!(hands[*work].fetch_add(1, Ordering::SeqCst), 0, "key {} in two hands", *work);
                    seen[*work].store(added[*work].load(Ordering::SeqCst), Ordering::SeqCst);
                    thread::yield_now();
                    hands[*work].fetch_sub(1, Ordering::SeqCst);
                    work.done();
                }
            });
        }
        let producers: Vec<_> = (0..PRODUCERS)
            .map(|producer| {
                let (queue, added, start) = (&queue, &added, &start);
                scope.spawn(move || {
                    start.wait();
                    for turn in 0..200 {
                        let key = (producer * 7 + turn) % KEYS;
                        added[key].fetch_add(1, Ordering::SeqCst);
                        queue.add(key).expect("it is open");
                    }
                })
            })
            .collect();
        producers.into_iter().for_each(|producer| producer.join().expect("it ends well"));
        queue.shut_down_with_drain_timeout(LONG).expect("workers go on");
    });
    for key in 0..KEYS {
        assert_eq!(seen[key].load(Ordering::SeqCst), added[key].load(Ordering::SeqCst), "key {key}");
    }
}

#[test]
fn added_while_it_is_worked_on_it_has_one_more_turn() {
    let queue = WorkQueue::new();
    queue.add("a").unwrap();
    let work = queue.get().unwrap();
    queue.add("a").unwrap();
    queue.add("a").unwrap();
    assert_eq!((queue.len(), queue.try_get().err()), (0, Some(TryPopError::Empty)));
    work.done();
    assert_eq!((queue.len(), drain(&queue)), (1, vec!["a"]));
}

#[test]
fn it_goes_to_the_tail() {
    let queue = WorkQueue::new();
    ["a", "b"].into_iter().for_each(|key| queue.add(key).unwrap());
    let work = queue.get().unwrap();
    ["a", "c"].into_iter().for_each(|key| queue.add(key).unwrap());
    work.done();
    assert_eq!(drain(&queue), ["b", "c", "a"]);
}

#[test]
fn a_shut_down_hands_out_what_is_in_line_and_takes_no_more() {
    let queue = WorkQueue::new();
    queue.add("a").unwrap();
    assert!(queue.shut_down() && queue.is_shut_down() && !queue.shut_down());
    let AddError::ShutDown(key) = queue.add("b").unwrap_err() else { panic!("it is shut down") };
    assert_eq!(key, "b");
    assert!(matches!(queue.add_after("c", HOUR), Err(AddError::ShutDown("c"))));
    assert!(matches!(queue.add_rate_limited("d"), Err(AddError::ShutDown("d"))));
    assert_eq!(drain(&queue), ["a"]);
    assert_eq!(queue.get().err(), Some(Closed));
    assert_eq!(queue.try_get().err(), Some(TryPopError::Closed));
    assert_eq!(queue.get_timeout(HOUR).err(), Some(PopTimeoutError::Closed));
}

#[test]
fn workers_that_wait_end_with_it() {
    let queue: WorkQueue<u32> = WorkQueue::new();
    thread::scope(|scope| {
        let workers: Vec<_> = (0..10).map(|_| scope.spawn(|| queue.get().err())).collect();
        thread::sleep(ms(5));
        queue.shut_down();
        workers.into_iter().for_each(|worker| assert_eq!(worker.join().unwrap(), Some(Closed)));
    });
}

#[test]
fn a_drain_waits_for_work_in_hand_and_for_what_was_added_meanwhile() {
    let queue = WorkQueue::new();
    queue.add(1).unwrap();
    let work = queue.get().unwrap();
    assert_eq!(queue.shut_down_with_drain_timeout(ms(1)), Err(WaitError::WouldDeadlock));
    drop(work);
    let queue = WorkQueue::new();
    queue.add(1).unwrap();
    let turns = AtomicUsize::new(0);
    let (got, drained) = (Barrier::new(2), AtomicUsize::new(0));
    thread::scope(|scope| {
        scope.spawn(|| {
            let work = queue.get().unwrap();
            queue.add(1).unwrap();
            got.wait();
            thread::sleep(ms(10));
            assert_eq!(drained.load(Ordering::SeqCst), 0, "it is still in hand");
            turns.fetch_add(1, Ordering::SeqCst);
            work.done();
            while let Ok(work) = queue.get() {
                turns.fetch_add(1, Ordering::SeqCst);
                work.done();
            }
        });
        got.wait();
        queue.shut_down_with_drain().expect("the worker goes on");
        drained.store(1, Ordering::SeqCst);
    });
    assert_eq!(turns.into_inner(), 2);
}

#[test]
fn a_drain_waits_for_nothing_where_nothing_is() {
    let queue: WorkQueue<u32> = WorkQueue::new();
    queue.add_after(1, HOUR).unwrap();
    queue.shut_down_with_drain().unwrap();
    assert_eq!(queue.waiting_len(), 0, "what would have come later is dropped");
}

#[test]
fn added_later_it_comes_then() {
    let queue = WorkQueue::new();
    let start = Instant::now();
    queue.add_after("b", ms(40)).unwrap();
    queue.add_after("a", ms(20)).unwrap();
    queue.add_after("c", Duration::ZERO).unwrap();
    assert_eq!((queue.len(), queue.waiting_len()), (1, 2));
    for (key, least) in [("c", 0), ("a", 20), ("b", 40)] {
        let work = queue.get_timeout(LONG).expect("its time comes");
        assert_eq!(*work, key);
        assert!(start.elapsed() >= ms(least), "{key} too early");
        work.done();
    }
    assert_eq!((queue.len(), queue.waiting_len()), (0, 0));
}

#[test]
fn of_two_times_the_earlier_counts_and_it_comes_once() {
    for times in [[20, 3_600_000], [3_600_000, 20]] {
        let queue = WorkQueue::new();
        times.into_iter().for_each(|time| queue.add_after("a", ms(time)).unwrap());
        assert_eq!(queue.waiting_len(), 1);
        queue.get_timeout(LONG).expect("its time comes").done();
        assert_eq!((queue.waiting_len(), queue.try_get().err()), (0, Some(TryPopError::Empty)));
    }
}

/// As client-go: whoever adds it now has not asked that it should not come later.
#[test]
fn added_now_as_well_it_comes_twice() {
    let queue = WorkQueue::new();
    queue.add_after("a", ms(20)).unwrap();
    queue.add("a").unwrap();
    for _ in 0..2 {
        queue.get_timeout(LONG).expect("its time comes").done();
    }
}

#[test]
fn a_time_that_no_clock_can_count_never_comes() {
    let queue = WorkQueue::new();
    queue.add_after("a", Duration::MAX).unwrap();
    queue.add_after("a", ms(1)).unwrap();
    queue.get_timeout(LONG).expect("the other one does").done();
}

#[test]
fn failures_outlive_the_work_until_they_are_forgotten() {
    let limiter = ItemExponential::new(ms(1), ms(4));
    let queue = WorkQueue::builder().rate_limiter(limiter).build();
    for failures in 1..=3 {
        queue.add_rate_limited("a").unwrap();
        assert_eq!(queue.num_requeues(&"a"), failures);
        queue.get_timeout(LONG).expect("its time comes").done();
    }
    queue.forget(&"a");
    assert_eq!((queue.num_requeues(&"a"), queue.num_requeues(&"b")), (0, 0));
}

#[test]
fn limits_are_client_gos() {
    let (now, item) = (Instant::now(), ItemExponential::default());
    let delays: Vec<u128> = (0..6).map(|_| item.when(&"a", now).as_millis()).collect();
    assert_eq!(delays, [5, 10, 20, 40, 80, 160]);
    assert_eq!(item.when(&"b", now), ms(5));
    for _ in 0..40 {
        item.when(&"a", now);
    }
    assert_eq!((item.when(&"a", now), item.num_requeues(&"a")), (Duration::from_secs(1_000), 47));

    let bucket = Bucket::default();
    let delays: Vec<Duration> = (0..110).map(|_| bucket.when(&"a", now)).collect();
    assert!(delays[..100].iter().all(Duration::is_zero), "the burst");
    let then: Vec<u128> = delays[100..].iter().map(Duration::as_millis).collect();
    assert_eq!(then, [100, 200, 300, 400, 500, 600, 700, 800, 900, 1_000], "ten a second");
    // A second later those have come, and one more may.
    assert_eq!(bucket.when(&"a", now + ms(1_000)), ms(100));
    assert_eq!(bucket.when(&"a", now + ms(60_000)), Duration::ZERO);
}

#[test]
fn of_two_limits_the_stricter_counts_and_both_forget() {
    let limiter = Larger(ItemExponential::new(ms(1), ms(50)), ItemExponential::new(ms(4), ms(5)));
    let delays: Vec<Duration> = (0..5).map(|_| limiter.when(&1, Instant::now())).collect();
    assert_eq!(delays, [ms(4), ms(5), ms(5), ms(8), ms(16)]);
    assert_eq!(limiter.num_requeues(&1), 5);
    limiter.forget(&1);
    assert_eq!((limiter.0.num_requeues(&1), limiter.1.num_requeues(&1)), (0, 0));
}

#[test]
fn work_that_panics_comes_back_as_failed() {
    let queue = WorkQueue::builder().rate_limiter(ItemExponential::new(ms(1), ms(1))).build();
    queue.add("a").unwrap();
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        let _work = queue.get().unwrap();
        panic!("as it goes");
    }));
    assert!(panicked.is_err());
    assert_eq!((queue.num_requeues(&"a"), queue.len()), (1, 0));
    queue.get_timeout(LONG).expect("it comes back").done();
}

/// Counts itself.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Key(u32, Arc<()>);

impl std::fmt::Debug for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.0)
    }
}

#[test]
fn nothing_is_kept_of_keys_that_are_done_or_dropped() {
    let alive = Arc::new(());
    let queue = WorkQueue::new();
    for number in 0..100 {
        queue.add(Key(number, Arc::clone(&alive))).unwrap();
        queue.add_after(Key(number, Arc::clone(&alive)), HOUR).unwrap();
        queue.add_after(Key(number, Arc::clone(&alive)), HOUR / 2).unwrap();
        let _ = queue.num_requeues(&Key(number, Arc::clone(&alive)));
    }
    drain(&queue);
    queue.shut_down();
    assert!(queue.add_after(Key(0, Arc::clone(&alive)), HOUR).is_err());
    drop(queue);
    assert_eq!(Arc::strong_count(&alive), 1);
}

#[test]
fn what_was_to_come_later_is_dropped_with_its_queue() {
    let alive = Arc::new(());
    let queue = WorkQueue::new();
    queue.add_after(Key(1, Arc::clone(&alive)), HOUR).unwrap();
    drop(queue);
    let until = Instant::now() + LONG;
    while Arc::strong_count(&alive) > 1 {
        assert!(Instant::now() < until, "the thread keeps it");
        thread::sleep(ms(1));
    }
}

/// Whatever several threads add for later, at times that come together: after each add there is work that began later.
#[test]
fn times_race() {
    const KEYS: usize = 8;
    let queue: WorkQueue<usize> = WorkQueue::new();
    let asked: Vec<AtomicUsize> = (0..KEYS).map(|_| AtomicUsize::new(0)).collect();
    let seen: Vec<AtomicUsize> = (0..KEYS).map(|_| AtomicUsize::new(0)).collect();
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while let Ok(work) = queue.get() {
                    seen[*work].store(asked[*work].load(Ordering::SeqCst), Ordering::SeqCst);
                    work.done();
                }
            });
        }
        let adders: Vec<_> = (0..4_u64)
            .map(|adder| {
                let (queue, asked) = (&queue, &asked);
                scope.spawn(move || {
                    for turn in 0..200 {
                        let key = (adder * 3 + turn) as usize % KEYS;
                        asked[key].fetch_add(1, Ordering::SeqCst);
                        let delay = Duration::from_micros(100 + (turn * 37 + adder * 11) % 900);
                        queue.add_after(key, delay).unwrap();
                        if turn % 16 == 0 {
                            thread::sleep(ms(1));
                        }
                    }
                })
            })
            .collect();
        adders.into_iter().for_each(|adder| adder.join().unwrap());
        let until = Instant::now() + LONG;
        let all = |of: &[AtomicUsize]| of.iter().map(|of| of.load(Ordering::SeqCst)).collect::<Vec<_>>();
        while all(&asked) != all(&seen) && Instant::now() < until {
            thread::sleep(ms(1));
        }
        queue.shut_down();
        assert_eq!(all(&asked), all(&seen), "a key never came");
    });
}

#[test]
fn all_that_takes_time_goes_by_the_timers_clock() {
    let clock = ManualClock::new();
    let limiter =
        Larger(ItemExponential::new(ms(5), HOUR), Bucket::new(10.try_into().unwrap(), 1.try_into().unwrap()));
    let queue = WorkQueue::builder().timer(clock.clone()).rate_limiter(limiter).build();
    queue.add_after("late", HOUR).unwrap();
    clock.advance(HOUR - ms(1));
    assert_eq!((queue.waiting_len(), drain(&queue)), (1, vec![]));
    clock.advance(ms(1));
    assert_eq!((queue.waiting_len(), drain(&queue)), (0, vec!["late"]));
    // The bucket has one for now, and the next in a tenth of a second.
    queue.add_rate_limited("a").unwrap();
    queue.add_rate_limited("b").unwrap();
    clock.advance(ms(5));
    assert_eq!(drain(&queue), ["a"]);
    clock.advance(ms(94));
    assert_eq!(drain(&queue), [""; 0]);
    clock.advance(ms(1));
    assert_eq!(drain(&queue), ["b"]);
    // Dropped work waits by it too, and so does who waits for that.
    queue.add("c").unwrap();
    drop(queue.get().unwrap());
    thread::scope(|scope| {
        let get = scope.spawn(|| queue.get_timeout(HOUR).map(|work| *work));
        while clock.next_wake().is_none() {
            thread::yield_now();
        }
        clock.advance(ms(100));
        assert_eq!(get.join().unwrap().ok(), Some("c"));
    });
}

#[test]
fn stats_count_all_that_is_to_be_added_later() {
    let clock = ManualClock::new();
    let queue = WorkQueue::builder().timer(clock.clone()).measure().build();
    ["a", "b", "c"].into_iter().for_each(|key| queue.add(key).unwrap());
    queue.add_after("d", HOUR).unwrap();
    let work = queue.get().unwrap();
    queue.add("a").unwrap();
    drop(queue.get().unwrap());
    let stats = queue.stats();
    assert_eq!((stats.depth, stats.leased, stats.dirty, stats.delayed), (1, 1, 1, 2));
    clock.advance(ms(5));
    assert_eq!((queue.stats().oldest_age, queue.stats().high_water), (Some(ms(5)), Some(3)));
    work.done();
}

#[test]
fn slow_work_is_told() {
    let (clock, told) = (ManualClock::new(), Arc::new(AtomicUsize::new(0)));
    let hears = Arc::clone(&told);
    let queue = WorkQueue::builder()
        .timer(clock.clone())
        .on_slow(ms(100), move |slow| {
            assert_eq!((*slow.key, slow.time, slow.depth), ("a", ms(101), 1));
            hears.fetch_add(1, Ordering::SeqCst);
        })
        .build();
    ["a", "b"].into_iter().for_each(|key| queue.add(key).unwrap());
    let work = queue.get().unwrap();
    clock.advance(ms(101));
    work.done();
    queue.get().unwrap().done();
    assert_eq!(told.load(Ordering::SeqCst), 1);
}

#[test]
fn owned_work_keeps_its_queue_and_comes_back_to_it() {
    let clock = ManualClock::new();
    let queue = Arc::new(WorkQueue::builder().timer(clock.clone()).build());
    ["a", "b"].into_iter().for_each(|key| queue.add(key).unwrap());
    let (a, b) = (queue.get_owned().unwrap(), queue.try_get().unwrap().into_owned(&queue));
    assert_eq!((*a, *b), ("a", "b"));
    thread::spawn(move || a.done()).join().unwrap();
    thread::spawn(move || drop(b)).join().unwrap();
    assert_eq!((queue.stats().leased, queue.try_get().err()), (0, Some(TryPopError::Empty)));
    clock.advance(ms(5));
    let b = queue.get_owned().expect("it failed");
    assert_eq!((*b, queue.num_requeues(&"b")), ("b", 1));
    // The thread that has it may wait: the work is not its own any more.
    queue.shut_down();
    assert_eq!(queue.shut_down_with_drain_timeout(Duration::ZERO), Err(WaitError::Timeout));
    let watch = Arc::downgrade(&queue);
    drop(queue);
    assert!(watch.upgrade().is_some(), "the work has a handle");
    b.done();
    assert!(watch.upgrade().is_none());
}

#[test]
fn owned_work_of_another_queue_comes_back_as_failed() {
    let clock = ManualClock::new();
    let queue = Arc::new(WorkQueue::builder().timer(clock.clone()).build());
    queue.add("a").unwrap();
    let other = Arc::new(WorkQueue::new());
    let work = queue.get().unwrap();
    assert!(catch_unwind(AssertUnwindSafe(|| work.into_owned(&other))).is_err());
    assert!(queue.try_get().is_err());
    clock.advance(ms(5));
    assert_eq!(drain(&queue), ["a"]);
}

#[cfg(feature = "async")]
#[test]
fn tasks_own_their_work() {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    runtime.block_on(async {
        let queue = Arc::new(WorkQueue::builder().timer(delta_fifo::TokioTimer::current()).build());
        queue.add("a").unwrap();
        let working = Arc::clone(&queue);
        let (started, has_started) = tokio::sync::oneshot::channel();
        let task = tokio::spawn(async move {
            let work = working.get_async_owned().await.unwrap();
            started.send(*work).unwrap();
            std::future::pending::<()>().await;
            work.done();
        });
        assert_eq!(has_started.await, Ok("a"));
        // Cancelled, it gives the work back, after what the limiter says by the timer's clock.
        let began = tokio::time::Instant::now();
        task.abort();
        assert!(task.await.unwrap_err().is_cancelled());
        let work = queue.get_async_owned().await.unwrap();
        assert_eq!((*work, queue.num_requeues(&"a")), ("a", 1));
        assert!(began.elapsed() >= ms(5));
        tokio::spawn(async move { work.done() }).await.unwrap();
        queue.shut_down();
        assert_eq!(queue.get_async_owned().await.err(), Some(Closed));
    });
}

#[cfg(feature = "async")]
#[test]
fn tasks_work_too() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    runtime.block_on(async {
        let queue = WorkQueue::builder().timer(delta_fifo::TokioTimer::current()).build();
        queue.add_after("a", ms(1)).unwrap();
        queue.get_async().await.expect("its time comes").done();
        queue.shut_down();
        assert_eq!(queue.get_async().await.err(), Some(Closed));
    });
}
