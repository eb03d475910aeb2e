//! The line against a model of it, under stress, and with threads stopped for good.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Barrier, Mutex, mpsc};
use std::time::{Duration, Instant};

use proptest::prelude::*;

use super::segment::Segment;
use super::{CELLS, FEW, Handle, KeyQueue};
use crate::sync::stopped::{Gate, is_armed, stop_me_at, stumble};
use crate::sync::thread;

fn handle(bits: u64) -> Handle {
    Handle::new(bits).expect("a handle")
}

fn push<const N: usize>(queue: &KeyQueue<N>, bits: u64) {
    queue.push(handle(bits));
}

fn pop<const N: usize>(queue: &KeyQueue<N>) -> Option<u64> {
    queue.pop().map(Handle::get)
}

fn rest<const N: usize>(queue: &KeyQueue<N>) -> Vec<u64> {
    std::iter::from_fn(|| pop(queue)).collect()
}

#[test]
fn the_highest_bit_is_no_handles() {
    assert_eq!([0, 1 << 63, u64::MAX].map(Handle::new), [None; 3]);
    assert_eq!([1, u64::MAX >> 1].map(|bits| handle(bits).get()), [1, u64::MAX >> 1]);
    assert_eq!(size_of::<Option<Handle>>(), 8);
}

#[test]
fn segments_fill_chunks() {
    // Of 8,192 bytes, whose header takes as much as slots are aligned.
    let room = 8_192 - align_of::<Segment<CELLS>>();
    assert_eq!(size_of::<Segment<CELLS>>(), room);
    assert_eq!(room / size_of::<Segment<FEW>>(), 6);
}

#[test]
fn a_batch_may_be_longer_than_a_segment() {
    let queue = KeyQueue::<2>::new();
    let handles: Vec<_> = (1..=7).map(handle).collect();
    queue.push_batch(&handles[..1]);
    queue.push_batch(&handles[1..]);
    assert_eq!(rest(&queue), [1, 2, 3, 4, 5, 6, 7]);
}

#[derive(Clone, Debug)]
enum Step {
    Push,
    PushBatch(usize),
    Pop,
    PopBatch(usize),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        4 => Just(Step::Push),
        2 => (0..=4usize).prop_map(Step::PushBatch),
        4 => Just(Step::Pop),
        2 => (0..10usize).prop_map(Step::PopBatch),
    ];
    prop::collection::vec(step, 0..200)
}

fn against_a_deque<const N: usize>(steps: &[Step]) {
    let (queue, mut model, mut longest) = (KeyQueue::<N>::lazy(), VecDeque::new(), 0);
    let mut numbers = (1..).map(handle);
    for step in steps {
        match *step {
            Step::Push => {
                model.extend(numbers.next());
                queue.push(model[model.len() - 1]);
            }
            Step::PushBatch(count) => {
                let handles: Vec<_> = numbers.by_ref().take(count).collect();
                queue.push_batch(&handles);
                model.extend(handles);
            }
            Step::Pop => assert_eq!(queue.pop(), model.pop_front()),
            Step::PopBatch(max) => {
                let mut popped = vec![handle(77)];
                let count = queue.pop_batch(max, &mut popped);
                assert_eq!(count, max.min(model.len()));
                let expected: Vec<_> = model.drain(..count).collect();
                assert_eq!(popped[1..], expected);
            }
        }
        longest = longest.max(model.len());
        let (made, free, lined) = queue.chain.census();
        assert_eq!(made, free + lined);
        assert!(made as usize <= longest.div_ceil(N) + 2, "{made} segments of {N} for {longest} handles");
    }
    assert!(std::iter::from_fn(|| queue.pop()).eq(model));
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

/// As many segments as the longest line took, and no more, full or drained.
#[test]
fn memory_follows_the_longest_line() {
    let queue = KeyQueue::<5>::new();
    let fill_and_drain = |handles: u64| {
        (1..=handles).for_each(|number| push(&queue, number));
        assert_eq!(rest(&queue), (1..=handles).collect::<Vec<_>>());
        queue.chain.census()
    };
    (0..100).for_each(|_| assert!(fill_and_drain(3).0 <= 2));
    let (made, free, lined) = fill_and_drain(500);
    assert!(made <= 101 && lined <= 2 && made == free + lined, "{made} made, {free} free, {lined} in line");
    (0..100).for_each(|_| assert!(fill_and_drain(495).0 <= made));
}

/// One thread stopped for good at each point, the others do everything.
#[test]
fn whoever_stops_anywhere_holds_up_nobody() {
    const PUSHING: [&str; 6] = [
        "push: reserved",
        "push: segment full",
        "take a segment: link read",
        "push: segment taken",
        "push: segment ready",
        "push: segment linked",
    ];
    const POPPING: [&str; 7] = [
        "pop: read",
        "pop: impatient",
        "pop: poisoned",
        "pop: used up",
        "pop: last moved",
        "pop: first moved",
        "give a segment: link written",
    ];
    for (point, is_push) in
        PUSHING.iter().map(|point| (*point, true)).chain(POPPING.iter().map(|point| (*point, false)))
    {
        let queue = Arc::new(KeyQueue::<2>::new());
        // So that there are free segments.
        (1..10).for_each(|number| push(&queue, number));
        rest(&queue);
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
                shared.push_batch(&[handle(number + 100), handle(number + 150)]);
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
    while !gate.is_reached() && !thread.is_finished() {
        std::thread::yield_now();
    }
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
    let queue = KeyQueue::<N>::lazy();
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
        in_rounds(&mut || {
            for some in numbers.chunks(batch) {
                match some {
                    [one] => queue.push(*one),
                    many => queue.push_batch(many),
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
                if batch == 1 {
                    got.extend(queue.pop());
                } else {
                    queue.pop_batch(batch, got);
                }
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
            None => {
                let (made, free, lined) = queue.chain.census();
                let all = free + lined == made && lined <= 2;
                if all { Ok(()) } else { Err(format!("{made} segments, {free} free, {lined} in line")) }
            }
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
                // So small that they are used again all the time.
                stress::<1>(shape, rounds);
                stress::<2>(shape, rounds);
                stress::<4>(shape, rounds);
                stress::<64>(shape, rounds);
            }
        }
        let shape = Shape { pushers, poppers, batch: 32, each: 640, stumbling: false };
        stress::<7>(shape, rounds);
        stress::<64>(shape, rounds);
        stress::<CELLS>(shape, rounds);
    }
}
