//! A clock of the timer's own: all that takes time goes by it, and whoever sleeps wakes when it is moved.

use std::task::Poll;
use std::thread;
use std::time::{Duration, Instant};

use delta_fifo::{Backoff, DeltaQueue, ManualClock, PopTimeoutError, Timer, WaitError};

use crate::common::{
    Family, LONG, Queue, Woken, block_on, builder, finishes, for_each_queue, key, lease_text, play,
    poll_once, pop_soon, race,
};

for_each_queue!(
    delays_end_when_the_clock_says_so,
    backoff_goes_by_the_clock,
    sleeping_consumer_wakes_when_the_clock_is_moved,
    async_consumer_wakes_when_the_clock_is_moved,
    timeouts_end_when_the_clock_says_so,
    waits_end_when_the_clock_says_so,
    clock_that_is_moved_meanwhile_leaves_nobody_asleep,
    earlier_delay_wakes_before_a_later_one,
    close_needs_no_clock,
    clock_that_panics_is_the_systems,
);

const HOUR: Duration = Duration::from_secs(3600);
const MS: Duration = Duration::from_millis(1);

fn with_clock<F: Family>() -> (ManualClock, Queue<F>) {
    let clock = ManualClock::new();
    (clock.clone(), builder().timer(clock).build())
}

/// Until somebody has gone to sleep for this time.
fn asleep_until(clock: &ManualClock, at: Instant) {
    let limit = Instant::now() + LONG;
    while clock.next_wake() != Some(at) {
        assert!(Instant::now() < limit, "nobody sleeps until {at:?}: {clock:?}");
        thread::yield_now();
    }
}

fn delays_end_when_the_clock_says_so<F: Family>() {
    let (clock, queue) = with_clock::<F>();
    play(&queue, "add a1; add b1");
    queue.pop().unwrap().requeue_after(HOUR);
    queue.pop().unwrap().requeue_after(HOUR * 2);
    clock.advance(HOUR - MS);
    play(&queue, "empty; pending 2");
    clock.advance(MS);
    play(&queue, "pop a:[A1] try 2; empty");
    clock.advance(HOUR);
    play(&queue, "pop b:[A1] try 2; empty; pending 0");
}

fn backoff_goes_by_the_clock<F: Family>() {
    let clock = ManualClock::new();
    let backoff = Backoff::exponential(HOUR, HOUR * 2);
    let queue: Queue<F> = builder().timer(clock.clone()).backoff(backoff).build();
    play(&queue, "add a1");
    drop(queue.pop().unwrap());
    clock.advance(HOUR - MS);
    play(&queue, "empty");
    clock.advance(MS);
    queue.try_pop().expect("an hour is over").requeue_with_backoff();
    clock.advance(HOUR);
    play(&queue, "empty");
    clock.advance(HOUR);
    play(&queue, "pop a:[A1] try 3");
}

fn sleeping_consumer_wakes_when_the_clock_is_moved<F: Family>() {
    let (clock, queue) = with_clock::<F>();
    play(&queue, "add a1");
    let at = clock.now() + HOUR;
    queue.pop().unwrap().requeue_after(HOUR);
    thread::scope(|scope| {
        let began = Instant::now();
        let pops: Vec<_> = (0..3)
            .map(|_| scope.spawn(|| queue.pop().map(|lease| (lease_text(&lease), lease.done()).0)))
            .collect();
        asleep_until(&clock, at);
        clock.advance(HOUR);
        while queue.pending_len() > 0 {
            assert!(began.elapsed() < LONG, "nobody has come for the key");
            thread::yield_now();
        }
        queue.close();
        let texts: Vec<String> = pops.into_iter().filter_map(|pop| pop.join().unwrap().ok()).collect();
        assert_eq!(texts, ["a:[A1]"]);
    });
}

fn async_consumer_wakes_when_the_clock_is_moved<F: Family>() {
    let (clock, queue) = with_clock::<F>();
    play(&queue, "add a1");
    queue.pop().unwrap().requeue_after(HOUR);
    let woken = Woken::new();
    let mut pop = Box::pin(queue.pop_async());
    assert!(poll_once(&mut pop, &woken).is_pending());
    clock.advance(HOUR - MS);
    assert!(poll_once(&mut pop, &woken).is_pending());
    let before = woken.count();
    clock.advance(MS);
    assert_eq!(woken.count(), before + 1);
    let Poll::Ready(Ok(lease)) = poll_once(&mut pop, &woken) else { panic!("an hour is over") };
    assert_eq!(lease_text(&lease), "a:[A1]");
}

fn timeouts_end_when_the_clock_says_so<F: Family>() {
    finishes("a pop whose time is over", end_by_the_clock::<F>);
}

fn end_by_the_clock<F: Family>() {
    let (clock, queue) = with_clock::<F>();
    let queue = &queue;
    thread::scope(|scope| {
        let at = clock.now() + HOUR;
        let pops = [
            scope.spawn(|| queue.pop_timeout(HOUR).map(drop)),
            scope.spawn(|| queue.pop_batch_timeout(3, HOUR).map(drop)),
            scope.spawn(move || queue.pop_deadline(at).map(drop)),
        ];
        // Each of them has computed its deadline before the clock is moved.
        asleep_until(&clock, at);
        while !pops.iter().all(|pop| pop.is_finished()) {
            clock.advance(HOUR);
            thread::yield_now();
        }
        pops.into_iter().for_each(|pop| assert_eq!(pop.join().unwrap(), Err(PopTimeoutError::Timeout)));
    });
    play(queue, "add a1; pop a:[A1]");
    // What has been is over at once.
    assert_eq!(queue.pop_deadline(clock.now()).map(drop), Err(PopTimeoutError::Timeout));
}

fn waits_end_when_the_clock_says_so<F: Family>() {
    let wait = |wait: &(dyn Fn(&Queue<F>) -> Result<(), WaitError> + Sync)| {
        let (clock, queue) = with_clock::<F>();
        queue.replace([(key("a"), 1)]).unwrap();
        let lease = queue.pop().unwrap();
        thread::scope(|scope| {
            let at = clock.now() + HOUR;
            let waiting = scope.spawn(|| wait(&queue));
            asleep_until(&clock, at);
            clock.advance(HOUR);
            assert_eq!(waiting.join().unwrap(), Err(WaitError::Timeout));
        });
        lease.done();
        assert_eq!(wait(&queue), Ok(()));
    };
    wait(&|queue| queue.wait_synced_timeout(HOUR));
    wait(&|queue| queue.close_and_wait_timeout(HOUR));
    wait(&|queue| queue.mark(1u64).map_or(Ok(()), |mark| mark.wait_timeout(HOUR)));
}

fn clock_that_is_moved_meanwhile_leaves_nobody_asleep<F: Family>() {
    let set_up = |_| {
        let (clock, queue) = with_clock::<F>();
        play(&queue, "add a1");
        queue.pop().unwrap().requeue_after(HOUR);
        (clock, queue)
    };
    let pop = |(_, queue): &(ManualClock, Queue<F>)| queue.pop().unwrap().done();
    let wait = |(_, queue): &(ManualClock, Queue<F>)| block_on(queue.pop_async()).unwrap().done();
    let tick = |(clock, _): &(ManualClock, Queue<F>)| clock.advance(HOUR);
    let all_done = |(_, queue): (ManualClock, Queue<F>)| assert_eq!(queue.pending_len(), 0);
    race(300, set_up, &[&pop, &tick], all_done);
    race(300, set_up, &[&wait, &tick], all_done);
}

fn earlier_delay_wakes_before_a_later_one<F: Family>() {
    let (clock, queue) = with_clock::<F>();
    play(&queue, "add far1; add near1");
    let (far, near) = (queue.pop().unwrap(), queue.pop().unwrap());
    let start = clock.now();
    far.requeue_after(HOUR);
    thread::scope(|scope| {
        let pop = scope.spawn(|| queue.pop().map(|lease| lease.key().clone()));
        asleep_until(&clock, start + HOUR);
        near.requeue_after(MS);
        asleep_until(&clock, start + MS);
        clock.advance(MS);
        assert_eq!(pop.join().unwrap().unwrap(), "near");
    });
}

fn close_needs_no_clock<F: Family>() {
    let (_, queue) = with_clock::<F>();
    play(&queue, "add a1");
    queue.pop().unwrap().requeue_after(HOUR);
    let woken = Woken::new();
    let mut pop = Box::pin(queue.pop_async());
    assert!(poll_once(&mut pop, &woken).is_pending());
    queue.close();
    block_on(pop).unwrap().done();
    assert!(block_on(queue.pop_async()).is_err());
    assert_eq!(queue.close_and_wait(), Ok(()));
}

struct Broken;

impl Timer for Broken {
    fn wake_at(&self, _: Instant, _: Box<dyn FnOnce() + Send>) {}

    fn now(&self) -> Option<Instant> {
        panic!("the clock is broken")
    }
}

fn clock_that_panics_is_the_systems<F: Family>() {
    let queue: Queue<F> = builder().timer(Broken).build();
    play(&queue, "add a1");
    let start = Instant::now();
    // While it is dropped by a panic, too: a second one would abort.
    let consumer = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let _lease = queue.pop().unwrap();
        panic!("a consumer panics");
    }));
    assert!(consumer.is_err());
    pop_soon(&queue).requeue_after(MS * 20);
    assert_eq!(lease_text(&pop_soon(&queue)), "a:[A1]");
    assert!(start.elapsed() >= MS * 20);
    assert_eq!(queue.pop_timeout(Duration::ZERO).map(drop), Err(PopTimeoutError::Timeout));
}

#[test]
fn published_snapshots_age_by_the_clock() {
    let clock = ManualClock::new();
    let queue: delta_fifo::DeltaFifo<u32, u32> = delta_fifo::Builder::new().timer(clock.clone()).build();
    use delta_fifo::KnownView;
    queue.add(1, 1).unwrap();
    queue.pop().unwrap().done();
    assert_eq!(queue.published().get(&1), Some(1));
    queue.update(1, 2).unwrap();
    queue.pop().unwrap().done();
    clock.advance(Duration::from_millis(99));
    assert_eq!(queue.published().get(&1), Some(1));
    clock.advance(MS);
    assert_eq!(queue.published().get(&1), Some(2));
}

#[cfg(feature = "tokio")]
mod tokio_clock {
    use std::sync::Arc;

    use delta_fifo::TokioTimer;

    use super::*;

    for_each_queue!(async_consumers_go_by_it, so_do_threads);

    fn paused() -> tokio::runtime::Runtime {
        tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap()
    }

    fn async_consumers_go_by_it<F: Family>() {
        paused().block_on(async {
            let queue: Queue<F> = builder().timer(TokioTimer::current()).build();
            play(&queue, "add a1");
            let start = tokio::time::Instant::now();
            queue.pop().unwrap().requeue_after(HOUR);
            play(&queue, "empty");
            // Where nothing else goes on, tokio moves its clock to what comes next.
            let lease = queue.pop_async().await.unwrap();
            assert_eq!((lease_text(&lease), start.elapsed().as_secs()), ("a:[A1]".into(), 3600));
            lease.requeue_after(HOUR);
            tokio::time::advance(HOUR).await;
            play(&queue, "pop a:[A1] try 3");
        });
    }

    fn so_do_threads<F: Family>() {
        paused().block_on(async {
            let queue: Arc<Queue<F>> = Arc::new(builder().timer(TokioTimer::current()).build());
            play(&*queue, "add a1");
            queue.pop().unwrap().requeue_after(HOUR);
            let popping = Arc::clone(&queue);
            let pop = tokio::task::spawn_blocking(move || lease_text(&popping.pop().unwrap()));
            tokio::time::advance(HOUR).await;
            assert_eq!(pop.await.unwrap(), "a:[A1]");
        });
    }
}
