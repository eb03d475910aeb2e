//! Rows L6, L7, L10 and L13 to L16: calls that run at the same time.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::Poll;
use std::thread;
use std::time::{Duration, Instant};

use delta_fifo::{BeginReplaceError, DeltaQueue, KnownView, PopTimeoutError, ReplaceErrorKind};

use crate::common::{
    Family, LONG, Queue, Woken, deltas_text, for_each_queue, key, known_text, lease_text, play, poll_once,
    pop_soon, queue, race,
};

for_each_queue!(seq_l06, seq_l07, seq_l10, seq_l13_cancelled, seq_l13_timed_out, seq_l14, seq_l15, seq_l16);

const ROUNDS: usize = 300;

fn seq_l06<F: Family>() {
    // A change called while the replace runs wins: no tombstone, and the list's older object is not behind it.
    let queue = queue::<F>();
    play(&queue, "known x1 y1");
    let list = [("x", 5), ("z", 5)].into_iter().inspect(|_| {
        let _ = queue.update(key("x"), 7);
        let _ = queue.update(key("y"), 8);
    });
    queue.replace(list.map(|(name, value)| (key(name), value))).unwrap();
    play(&queue, "pop x:[U7 U7]; pop y:[U8 U8]; pop z:[R5]; empty");

    struct Round<Q> {
        queue: Q,
        began: AtomicBool,
        add_began_later: AtomicBool,
    }
    let list = |round: &Round<Queue<F>>, list: &[(&str, u32)]| {
        let list: Vec<_> = list.iter().map(|&(name, value)| (key(name), value)).collect();
        // The first look at the list comes after the replace began.
        let began = std::iter::from_fn(|| {
            round.began.store(true, Ordering::SeqCst);
            None
        });
        round.queue.replace(began.chain(list)).unwrap();
    };
    let add = |round: &Round<Queue<F>>| {
        round.add_began_later.store(round.began.load(Ordering::SeqCst), Ordering::SeqCst);
        round.queue.add(key("x"), 2).unwrap();
    };
    let set_up = |_| {
        let round =
            Round { queue: crate::common::queue::<F>(), began: false.into(), add_began_later: false.into() };
        play(&round.queue, "known x1 y1");
        round
    };
    let outcome = |round: &Round<Queue<F>>| {
        let mut texts = BTreeMap::new();
        while let Ok(lease) = round.queue.try_pop() {
            texts.insert(lease.key().clone(), deltas_text(lease.deltas()));
            lease.done();
        }
        (texts.remove("x").unwrap(), round.add_began_later.load(Ordering::SeqCst))
    };
    // x is not in the list.
    race(ROUNDS, set_up, &[&|round| list(round, &[("y", 3)]), &add], |round| match outcome(&round) {
        (x, _) if x == "A2" || x == "T(x1) A2" => {}
        (x, false) if x == "A2 T(x2)" => {}
        (x, later) => panic!("x: {x}, add called after the replace began: {later}"),
    });
    // x is in the list.
    race(ROUNDS, set_up, &[&|round| list(round, &[("x", 3), ("y", 3)]), &add], |round| {
        match outcome(&round) {
            (x, _) if x == "A2" || x == "R3 A2" => {}
            (x, false) if x == "A2 R3" => {}
            (x, later) => panic!("x: {x}, add called after the replace began: {later}"),
        }
    });
}

fn seq_l07<F: Family>() {
    struct Round<Q> {
        queue: Q,
        done: Mutex<Vec<&'static str>>,
    }
    let side = |round: &Round<Queue<F>>, list: [(&str, u32); 2], known: &'static str| match round
        .queue
        .replace(list.map(|(name, value)| (key(name), value)))
    {
        Ok(_) => round.done.lock().unwrap().push(known),
        Err(error) => {
            let in_progress = ReplaceErrorKind::Begin(BeginReplaceError::ReplaceInProgress);
            assert_eq!(format!("{:?}", error.kind), format!("{in_progress:?}"));
            assert_eq!(error.list.len(), 2);
        }
    };
    race(
        ROUNDS,
        |_| {
            let queue = queue::<F>();
            play(&queue, "known a1 d1");
            Round { queue, done: Mutex::default() }
        },
        &[&|round| side(round, [("a", 2), ("b", 2)], "a2 b2"), &|round| {
            side(round, [("b", 3), ("c", 3)], "b3 c3")
        }],
        |round| {
            while let Ok(lease) = round.queue.try_pop() {
                lease.done();
            }
            let done = round.done.into_inner().unwrap();
            assert!(!done.is_empty(), "nobody replaced");
            let known = known_text(&round.queue.known());
            assert!(done.contains(&known.as_str()), "{known:?} after {done:?}");
        },
    );
}

fn seq_l10<F: Family>() {
    struct Round<Q> {
        queue: Q,
        accepted: Mutex<BTreeSet<u32>>,
        delivered: Mutex<Vec<u32>>,
        closed_pops: AtomicUsize,
    }
    let consume = |round: &Round<Queue<F>>| {
        loop {
            match round.queue.pop_timeout(LONG) {
                Ok(lease) => {
                    let values = lease.deltas().iter().map(|delta| *delta.object().unwrap());
                    round.delivered.lock().unwrap().extend(values);
                    lease.done();
                }
                Err(PopTimeoutError::Closed) => break,
                Err(PopTimeoutError::Timeout) => panic!("the pop does not end"),
            }
        }
        round.closed_pops.fetch_add(1, Ordering::SeqCst);
    };
    let produce = |round: &Round<Queue<F>>, from: u32| {
        for value in from..from + 20 {
            match round.queue.add(key(["a", "b", "c"][value as usize % 3]), value) {
                Ok(()) => round.accepted.lock().unwrap().insert(value),
                Err(error) => {
                    assert_eq!(error.change.into_value(), Some(value));
                    break;
                }
            };
        }
    };
    race(
        ROUNDS,
        |_| Round {
            queue: queue::<F>(),
            accepted: Mutex::default(),
            delivered: Mutex::default(),
            closed_pops: AtomicUsize::new(0),
        },
        &[&consume, &consume, &|round| produce(round, 0), &|round| produce(round, 100), &|round| {
            assert!(round.queue.close());
        }],
        |round| {
            let mut delivered = round.delivered.into_inner().unwrap();
            delivered.sort_unstable();
            let accepted: Vec<u32> = round.accepted.into_inner().unwrap().into_iter().collect();
            assert_eq!(delivered, accepted);
            assert_eq!(round.closed_pops.into_inner(), 2);
            assert_eq!((round.queue.pending_len(), round.queue.leased_len()), (0, 0));
        },
    );
}

fn seq_l13_cancelled<F: Family>() {
    // Whichever waiter the change wakes is cancelled: the other one must be woken for it.
    for victim in 0..2 {
        let queue = queue::<F>();
        let woken = [Woken::new(), Woken::new()];
        let mut pops: Vec<_> = woken
            .iter()
            .map(|woken| {
                let mut pop = Box::pin(queue.pop_async());
                assert!(poll_once(&mut pop, woken).is_pending());
                pop
            })
            .collect();
        queue.add(key("a"), 1).unwrap();
        let first = woken.iter().position(|woken| woken.count() > 0).expect("nobody was woken");
        let victim = if victim == 0 { first } else { 1 - first };
        drop(pops.remove(victim));
        woken[1 - victim].wait();
        match poll_once(&mut pops[0], &woken[1 - victim]) {
            Poll::Ready(Ok(lease)) => {
                assert_eq!((lease_text(&lease), lease.attempts()), ("a:[A1]".into(), 1))
            }
            _ => panic!("the other waiter got nothing"),
        };
    }

    // A cancelled one beside a thread that blocks.
    race(
        ROUNDS,
        |_| queue::<F>(),
        &[
            &|queue: &Queue<F>| {
                let mut pop = Box::pin(queue.pop_async());
                if let Poll::Ready(Ok(lease)) = poll_once(&mut pop, &Woken::new()) {
                    lease.requeue();
                }
                drop(pop);
            },
            &|queue: &Queue<F>| pop_soon(queue).done(),
            &|queue: &Queue<F>| queue.add(key("a"), 1).unwrap(),
        ],
        |queue| assert_eq!((queue.pending_len(), queue.leased_len()), (0, 0)),
    );
}

fn seq_l13_timed_out<F: Family>() {
    race(
        ROUNDS,
        |round| (queue::<F>(), Duration::from_micros(round as u64 % 100)),
        &[
            &|(queue, timeout): &(Queue<F>, Duration)| match queue.pop_timeout(*timeout) {
                Ok(lease) => lease.requeue(),
                Err(error) => assert_eq!(error, PopTimeoutError::Timeout),
            },
            &|(queue, _)| pop_soon(queue).done(),
            &|(queue, timeout)| {
                let wait = *timeout / 2;
                let start = Instant::now();
                while start.elapsed() < wait {
                    std::hint::spin_loop();
                }
                queue.add(key("a"), 1).unwrap();
            },
        ],
        |(queue, _)| assert_eq!((queue.pending_len(), queue.leased_len()), (0, 0)),
    );
}

fn seq_l14<F: Family>() {
    struct Round<Q> {
        queue: Q,
        popped: Mutex<Vec<String>>,
    }
    race(
        ROUNDS,
        |_| {
            let queue = queue::<F>();
            play(&queue, "add a1");
            Round { queue, popped: Mutex::default() }
        },
        &[
            &|round: &Round<Queue<F>>| {
                let lease = pop_soon(&round.queue);
                round.popped.lock().unwrap().push(lease_text(&lease));
                lease.done();
            },
            &|round| round.queue.update(key("a"), 2).unwrap(),
        ],
        |round| {
            let mut popped = round.popped.into_inner().unwrap();
            while let Ok(lease) = round.queue.try_pop() {
                popped.push(lease_text(&lease));
                lease.done();
            }
            let together = popped == ["a:[A1 U2]"];
            assert!(together || popped == ["a:[A1]", "a:[U2]"], "{popped:?}");
            assert_eq!(round.queue.known().get("a"), Some(2));
        },
    );
}

fn seq_l15<F: Family>() {
    race(
        ROUNDS,
        |_| {
            let queue = queue::<F>();
            play(&queue, "known a1; delete a2");
            queue
        },
        &[
            &|queue: &Queue<F>| {
                let lease = pop_soon(queue);
                assert_eq!(lease.deltas().oldest().object(), Some(&2));
                lease.done();
            },
            &|queue: &Queue<F>| queue.add(key("a"), 3).unwrap(),
        ],
        |queue| {
            // In the same pop or in the next.
            while let Ok(lease) = queue.try_pop() {
                assert_eq!(lease_text(&lease), "a:[A3]");
                lease.done();
            }
            assert_eq!(known_text(&queue.known()), "a3");
            assert_eq!(queue.known().len(), 1);
        },
    );
}

fn seq_l16<F: Family>() {
    const KEYS: usize = 50;
    const VALUES: u32 = 200;
    let queue = queue::<F>();
    // For each key the newest value that a pop has shown, noted after the pop returned.
    let shown: Vec<AtomicUsize> = (0..KEYS).map(|_| AtomicUsize::new(0)).collect();
    let finished = AtomicBool::new(false);
    let popper = || {
        loop {
            match queue.pop_timeout(LONG) {
                Ok(lease) => {
                    let index: usize = lease.key().parse().unwrap();
                    let value = *lease.deltas().newest().object().unwrap() as usize;
                    shown[index].fetch_max(value, Ordering::SeqCst);
                    lease.done();
                }
                Err(error) => break assert_eq!(error, PopTimeoutError::Closed),
            }
        }
    };
    let viewer = || {
        let mut snapshots = 0;
        while !finished.load(Ordering::SeqCst) || snapshots == 0 {
            let before: Vec<usize> = shown.iter().map(|shown| shown.load(Ordering::SeqCst)).collect();
            let snapshot = queue.snapshot();
            let first: Vec<(String, u32)> =
                snapshot.iter().map(|known| (known.key().clone(), *known.object())).collect();
            let objects: BTreeMap<_, _> = first.iter().cloned().collect();
            assert_eq!(objects.len(), first.len(), "a key twice");
            assert_eq!(snapshot.len(), first.len());
            for (index, &value) in before.iter().enumerate().filter(|(_, value)| **value > 0) {
                let seen = objects.get(&index.to_string()).copied();
                assert!(seen.is_some_and(|seen| seen as usize >= value), "{index}: {seen:?} after {value}");
            }
            thread::yield_now();
            let again: BTreeMap<_, _> =
                snapshot.iter().map(|known| (known.key().clone(), *known.object())).collect();
            assert_eq!(again, objects, "the snapshot changed");
            snapshots += 1;
        }
    };
    thread::scope(|scope| {
        let poppers = [scope.spawn(popper), scope.spawn(popper)];
        let viewers = [scope.spawn(viewer), scope.spawn(viewer)];
        for value in 1..=VALUES {
            for index in 0..KEYS {
                queue.apply(index.to_string(), value).unwrap();
            }
        }
        queue.close();
        poppers.into_iter().for_each(|popper| popper.join().unwrap());
        finished.store(true, Ordering::SeqCst);
        viewers.into_iter().for_each(|viewer| viewer.join().unwrap());
    });
    let last = queue.snapshot();
    assert!(last.len() == KEYS && last.iter().all(|known| *known.object() == VALUES));
}
