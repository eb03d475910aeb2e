//! The line against a model of it, under stress, and with threads stopped for good.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Barrier, Mutex, mpsc};
use std::time::{Duration, Instant};

use proptest::prelude::*;

use super::{Handle, KeyQueue, OutOfMemory, Room, memory};
use crate::sync::stopped::{Gate, is_armed, stop_me_at, stumble};
use crate::sync::{epoch, thread};

fn handle(bits: u64) -> Handle {
    Handle::new(bits).expect("a handle")
}

fn queue<const N: usize>() -> KeyQueue<N> {
    KeyQueue::new().expect("memory")
}

fn push<const N: usize>(queue: &KeyQueue<N>, bits: u64) {
    queue.push(handle(bits), &mut Room::new(), &epoch::pin()).expect("memory");
}

fn pop<const N: usize>(queue: &KeyQueue<N>) -> Option<u64> {
    queue.pop(&epoch::pin()).map(Handle::get)
}

#[test]
fn two_bit_patterns_are_no_handles() {
    assert_eq!(Handle::new(0), None);
    assert_eq!(Handle::new(u64::MAX), None);
    assert_eq!(handle(1).get(), 1);
    assert_eq!(size_of::<Option<Handle>>(), 8);
}

#[test]
#[should_panic(expected = "longer than a segment")]
fn a_batch_fits_a_segment() {
    let handles = [handle(1), handle(2), handle(3)];
    let _ = queue::<2>().push_batch(&handles, &mut Room::new(), &epoch::pin());
}

#[derive(Clone, Debug)]
enum Step {
    Push,
    PushBatch(usize),
    Pop,
    PopBatch(usize),
    /// The next allocation fails, and so does a push that needs it, if it is the next step.
    Starve,
    Provide,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        4 => Just(Step::Push),
        2 => (0..=4usize).prop_map(Step::PushBatch),
        4 => Just(Step::Pop),
        2 => (0..10usize).prop_map(Step::PopBatch),
        1 => Just(Step::Starve),
        1 => Just(Step::Provide),
    ];
    prop::collection::vec(step, 0..200)
}

fn against_a_deque<const N: usize>(steps: &[Step]) {
    let (queue, mut room, mut model) = (queue::<N>(), Room::new(), VecDeque::new());
    let mut number = 0;
    let mut starving = false;
    for step in steps {
        let guard = epoch::pin();
        let provided = room.0.is_some();
        memory::allow(if starving { 0 } else { usize::MAX });
        starving = false;
        let next = number + 1;
        let mut pushed = |count: usize, result: Result<(), OutOfMemory>| match result {
            Ok(()) => (0..count).for_each(|_| {
                number += 1;
                model.push_back(handle(number));
            }),
            Err(OutOfMemory) => assert!(!provided, "a push with room failed"),
        };
        match *step {
            Step::Push => pushed(1, queue.push(handle(next), &mut room, &guard)),
            Step::PushBatch(count) => {
                let count = count.min(N);
                let handles: Vec<_> = (next..).map(handle).take(count).collect();
                pushed(count, queue.push_batch(&handles, &mut room, &guard));
            }
            Step::Pop => assert_eq!(queue.pop(&guard), model.pop_front()),
            Step::PopBatch(max) => {
                let mut popped = vec![handle(77)];
                let count = queue.pop_batch(max, &mut popped, &guard);
                assert_eq!(count, max.min(model.len()));
                let expected: Vec<_> = model.drain(..count).collect();
                assert_eq!(popped[1..], expected);
            }
            Step::Starve => starving = true,
            Step::Provide => assert!(room.provide().is_ok() || !provided),
        }
    }
    memory::allow(usize::MAX);
    let guard = epoch::pin();
    assert!(std::iter::from_fn(|| queue.pop(&guard)).eq(model));
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn it_does_what_a_deque_does(steps in steps()) {
        against_a_deque::<1>(&steps);
        against_a_deque::<2>(&steps);
        against_a_deque::<3>(&steps);
        against_a_deque::<64>(&steps);
    }
}

#[test]
fn a_push_without_memory_changes_nothing() {
    let queue = queue::<2>();
    push(&queue, 1);
    memory::allow(0);
    let (guard, mut room) = (epoch::pin(), Room::new());
    assert_eq!(queue.push_batch(&[handle(2), handle(3)], &mut room, &guard), Err(OutOfMemory));
    assert_eq!(queue.push(handle(2), &mut room, &guard), Ok(()), "the segment has a cell left");
    assert_eq!(queue.push(handle(3), &mut room, &guard), Err(OutOfMemory));
    assert_eq!(room.provide(), Err(OutOfMemory));
    memory::allow(1);
    assert_eq!(room.provide(), Ok(()));
    assert_eq!(queue.push_batch(&[handle(3), handle(4)], &mut room, &guard), Ok(()));
    memory::allow(usize::MAX);
    assert_eq!(std::iter::from_fn(|| pop(&queue)).collect::<Vec<_>>(), [1, 2, 3, 4]);
}

/// Segments are freed as they are used up, and the rest with the queue, full or empty.
#[test]
fn memory_follows_what_is_in_line() {
    const N: usize = 5; // of this test alone
    let alive = || {
        for _ in 0..1_000 {
            epoch::pin().flush();
        }
        memory::alive(N)
    };
    let queue = queue::<N>();
    for round in 1..100 {
        push(&queue, round);
        assert_eq!(pop(&queue), Some(round));
    }
    assert!(wait_until(|| alive() <= 2), "{} segments for an empty queue", alive());
    (1..=500).for_each(|number| push(&queue, number));
    assert!(alive() <= 101);
    (1..=500).for_each(|number| assert_eq!(pop(&queue), Some(number)));
    assert!(wait_until(|| alive() <= 2), "{} segments for an empty queue", alive());
    (1..=50).for_each(|number| push(&queue, number));
    let mut room = Room::<N>::new();
    room.provide().expect("memory");
    drop((queue, room));
    assert!(wait_until(|| alive() == 0), "{} segments without a queue", alive());
}

/// Other tests' guards may hold up the collector for a while.
fn wait_until(mut reached: impl FnMut() -> bool) -> bool {
    let end = Instant::now() + Duration::from_secs(20);
    while !reached() {
        if Instant::now() > end {
            return false;
        }
        thread::yield_now();
    }
    true
}

/// One thread stopped for good at each point, the others do everything.
#[test]
fn whoever_stops_anywhere_holds_up_nobody() {
    const PUSHING: [&str; 3] = ["push: reserved", "push: segment ready", "push: segment linked"];
    const POPPING: [&str; 6] = [
        "pop: read",
        "pop: impatient",
        "pop: poisoned",
        "pop: used up",
        "pop: last moved",
        "pop: first moved",
    ];
    for (point, is_push) in
        PUSHING.iter().map(|point| (*point, true)).chain(POPPING.iter().map(|point| (*point, false)))
    {
        let queue = Arc::new(queue::<2>());
        // For the points of impatience somebody must have stopped with a cell reserved.
        let idle = ["pop: impatient", "pop: poisoned"].contains(&point);
        let slow = idle.then(|| stopped(&queue, "push: reserved", |queue| push(queue, 500)));
        if !is_push && !idle {
            (100..110).for_each(|number| push(&queue, number));
        }
        let victim = stopped(&queue, point, move |queue| {
            for number in 900..1_900 {
                if !is_armed() {
                    break;
                }
                if is_push {
                    push(queue, number);
                } else {
                    pop(queue);
                }
            }
        });

        let (done, finished) = mpsc::channel();
        let shared = Arc::clone(&queue);
        let others = std::thread::spawn(move || {
            for number in 1..50 {
                push(&shared, number);
                push(&shared, number + 50);
                let batch = [handle(number + 100), handle(number + 150)];
                shared.push_batch(&batch, &mut Room::new(), &epoch::pin()).expect("memory");
                assert!((0..4).all(|_| pop(&shared).is_some()));
            }
            while pop(&shared).is_some() {}
            done.send(()).expect("the test waits");
        });
        finished
            .recv_timeout(Duration::from_secs(20))
            .unwrap_or_else(|_| panic!("stopped at {point}: others wait"));
        others.join().expect("no panic");
        for (thread, gate) in std::iter::once(victim).chain(slow) {
            gate.open();
            thread.thread().unpark();
            thread.join().expect("no panic");
        }
    }
}

/// A thread that has come to the point and stands there.
fn stopped<const N: usize>(
    queue: &Arc<KeyQueue<N>>,
    at: &'static str,
    call: impl FnOnce(&KeyQueue<N>) + Send + 'static,
) -> (std::thread::JoinHandle<()>, Gate) {
    let (queue, gate) = (Arc::clone(queue), Gate::new());
    let closed = gate.clone();
    let thread = std::thread::spawn(move || {
        stop_me_at(at, &closed);
        call(&queue);
        assert!(!is_armed(), "never came to {at}");
    });
    // It has no more to do than a few dozen steps.
    std::thread::sleep(Duration::from_millis(30));
    (thread, gate)
}

/// How a stress run is set up.
#[derive(Clone, Copy, Debug)]
struct Shape {
    pushers: usize,
    poppers: usize,
    /// 1: by single handles.
    batch: usize,
    /// Handles of each pusher in each round.
    each: u64,
    /// Threads yield between atomic operations.
    stumbling: bool,
}

/// Threads that live through all rounds start each at a barrier; between rounds everything is checked at rest: every
/// handle popped once, each pusher's in order in the hands of each popper, the queue empty.
fn stress<const N: usize>(shape: Shape, rounds: u64) {
    let Shape { pushers, poppers, batch, each, stumbling } = shape;
    let queue = queue::<N>();
    let barrier = Barrier::new(pushers + poppers + 1);
    let ended = AtomicBool::new(false);
    let popped = AtomicU64::new(0);
    let total = pushers as u64 * each;
    let hands: Vec<Mutex<Vec<Handle>>> = (0..poppers).map(|_| Mutex::default()).collect();

    let in_rounds = |work: &mut dyn FnMut()| {
        loop {
            barrier.wait();
            if ended.load(SeqCst) {
                return;
            }
            work();
            barrier.wait();
        }
    };
    let push_all = |pusher: u64| {
        stumble(if stumbling { pusher + 1 } else { 0 });
        let numbers: Vec<_> = (1..=each).map(|number| handle(pusher * each + number)).collect();
        let mut room = Room::new();
        in_rounds(&mut || {
            for some in numbers.chunks(batch) {
                let guard = epoch::pin();
                match some {
                    [one] => queue.push(*one, &mut room, &guard).expect("memory"),
                    many => queue.push_batch(many, &mut room, &guard).expect("memory"),
                }
            }
        });
    };
    let pop_all = |popper: usize| {
        stumble(if stumbling { popper as u64 + 1_001 } else { 0 });
        in_rounds(&mut || {
            let got = &mut *hands[popper].lock().expect("no panic");
            got.clear();
            let patience = Instant::now() + Duration::from_secs(10);
            let mut counted = 0;
            while popped.load(SeqCst) < total {
                let guard = epoch::pin();
                if batch == 1 {
                    got.extend(queue.pop(&guard));
                } else {
                    queue.pop_batch(batch, got, &guard);
                }
                drop(guard);
                if got.len() > counted {
                    popped.fetch_add((got.len() - counted) as u64, SeqCst);
                    counted = got.len();
                } else if Instant::now() > patience {
                    return; // the judge will say what is missing
                } else {
                    thread::yield_now();
                }
            }
        });
    };
    let judge = || -> Result<(), String> {
        let mut times = vec![0; total as usize];
        for got in &hands {
            let got = got.lock().expect("no panic");
            let mut newest = vec![0; pushers];
            for handle in got.iter() {
                let index = handle.get() - 1;
                times[index as usize] += 1;
                let newest = &mut newest[(index / each) as usize];
                if *newest > handle.get() {
                    return Err(format!("{} was popped after {newest}", handle.get()));
                }
                *newest = handle.get();
            }
        }
        match times.iter().position(|times| *times != 1) {
            Some(index) => Err(format!("{} was popped {} times", index + 1, times[index])),
            None if pop(&queue).is_some() => Err("something is left in line".into()),
            None => Ok(()),
        }
    };

    let result = std::thread::scope(|scope| {
        (0..pushers as u64).for_each(|pusher| drop(scope.spawn(move || push_all(pusher))));
        (0..poppers).for_each(|popper| drop(scope.spawn(move || pop_all(popper))));
        let result = (0..rounds).try_for_each(|round| {
            barrier.wait();
            barrier.wait();
            popped.store(0, SeqCst);
            judge().map_err(|what| format!("{shape:?}, segments of {N}, round {round}: {what}"))
        });
        ended.store(true, SeqCst);
        barrier.wait();
        result
    });
    result.unwrap_or_else(|what| panic!("{what}"));
}

#[test]
fn stress_in_rounds() {
    let rounds = std::env::var("DELTA_FIFO_ROUNDS").ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(30);
    for (pushers, poppers) in [(1, 1), (2, 2), (1, 3), (3, 1), (4, 4)] {
        for (batch, each) in [(1, 1), (1, 40), (2, 40)] {
            for stumbling in [false, true] {
                let shape = Shape { pushers, poppers, batch, each, stumbling };
                stress::<2>(shape, rounds);
                stress::<7>(shape, rounds);
                stress::<64>(shape, rounds);
            }
        }
        let shape = Shape { pushers, poppers, batch: 32, each: 640, stumbling: false };
        stress::<64>(shape, rounds);
        stress::<1024>(shape, rounds);
    }
}
