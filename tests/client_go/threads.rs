//! Behaviours that take several threads.

use std::collections::{BTreeMap, HashMap};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Barrier, Mutex};
use std::thread;
use std::time::Duration;

use delta_fifo::{Closed, Delta, DeltaQueue, KnownView, OnAbandon, PopTimeoutError};

use crate::common::{Family, LONG, Queue, builder, finishes, for_each_queue, key, play, pop_soon, queue};

for_each_queue!(
    two_producers_keep_their_order,
    ten_parked_pops_end_on_close,
    hammered_objects_show_only_legal_transitions,
    a_panic_leaves_the_run_loop,
);

fn two_producers_keep_their_order<F: Family>() {
    const EACH: u32 = 2_000;
    let queue = queue::<F>();
    let barrier = Barrier::new(2);
    thread::scope(|scope| {
        for producer in 0..2 {
            let (queue, barrier) = (&queue, &barrier);
            scope.spawn(move || {
                barrier.wait();
                for number in 0..EACH {
                    queue.add(key(["a", "b", "c"][number as usize % 3]), producer * EACH + number).unwrap();
                }
            });
        }
        let mut seen: HashMap<(String, u32), Vec<u32>> = HashMap::new();
        let mut total = 0;
        while total < 2 * EACH as usize {
            let lease = pop_soon(&queue);
            for delta in lease.deltas() {
                let value = *delta.object().unwrap();
                seen.entry((lease.key().clone(), value / EACH)).or_default().push(value % EACH);
                total += 1;
            }
            lease.done();
        }
        for ((name, producer), numbers) in seen {
            let first = ["a", "b", "c"].iter().position(|key| *key == name).unwrap() as u32;
            let expected: Vec<u32> = (first..EACH).step_by(3).collect();
            assert_eq!(numbers, expected, "{name} of producer {producer}");
        }
    });
    play(&queue, "empty; pending 0");
}

fn ten_parked_pops_end_on_close<F: Family>() {
    for _ in 0..20 {
        let queue = Arc::new(queue::<F>());
        let barrier = Arc::new(Barrier::new(11));
        let pops: Vec<_> = (0..10)
            .map(|_| {
                let (queue, barrier) = (Arc::clone(&queue), Arc::clone(&barrier));
                thread::spawn(move || {
                    barrier.wait();
                    queue.pop().map(drop)
                })
            })
            .collect();
        barrier.wait();
        assert!(queue.close());
        let results = finishes("one of ten pops", move || {
            pops.into_iter().map(|pop| pop.join().unwrap()).collect::<Vec<_>>()
        });
        assert_eq!(results, [Err(Closed); 10]);
        assert!(!queue.close());
    }
}

/// What the objects of a key have gone through, as its leases tell it.
#[derive(Default)]
struct Life {
    object: Option<u32>,
}

impl Life {
    fn step(&mut self, delta: Delta<'_, String, u32>) {
        let legal = match (delta, self.object) {
            (Delta::Added(_), None) => true,
            (Delta::Updated(new), Some(old)) => *new > old,
            (Delta::Sync(new), Some(old)) => *new == old,
            (Delta::Deleted(last), Some(old)) => *last == old,
            _ => false,
        };
        assert!(legal, "{delta:?} after {:?}", self.object);
        self.object = if delta.is_deletion() { None } else { delta.object().copied() };
    }
}

fn hammered_objects_show_only_legal_transitions<F: Family>() {
    const EACH: u32 = 1_000;
    let queue = queue::<F>();
    // The source of truth: its changes and the calls that tell of them have one order.
    let source: Mutex<BTreeMap<String, u32>> = Mutex::default();
    let producer = |seed: u32| {
        let mut random = seed;
        for number in 1..=EACH {
            random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let name = format!("{}", (random >> 16) % 20);
            let value = number * 3 + seed;
            let mut source = source.lock().unwrap();
            match source.get(&name).copied() {
                None => {
                    source.insert(name.clone(), value);
                    queue.add(name, value).unwrap();
                }
                Some(old) if (random >> 8) % 3 == 0 => {
                    source.remove(&name);
                    queue.delete(name, old).unwrap();
                }
                Some(old) => {
                    source.insert(name.clone(), old + value);
                    queue.update(name, old + value).unwrap();
                }
            }
        }
    };
    let lives = thread::scope(|scope| {
        let (stop, stopped) = mpsc::channel::<()>();
        let queue = &queue;
        let resyncs = scope.spawn(move || {
            let mut resyncs = 0;
            while stopped.recv_timeout(Duration::from_millis(1)) == Err(RecvTimeoutError::Timeout) {
                queue.resync().unwrap();
                resyncs += 1;
            }
            queue.resync().unwrap();
            resyncs + 1
        });
        let consumer = scope.spawn(|| {
            let mut lives: BTreeMap<String, Life> = BTreeMap::new();
            loop {
                match queue.pop_timeout(LONG) {
                    Ok(lease) => {
                        let life = lives.entry(lease.key().clone()).or_default();
                        assert_eq!(lease.previous().copied(), life.object, "{lease:?}");
                        lease.deltas().iter().for_each(|delta| life.step(delta));
                        lease.done();
                    }
                    Err(error) => {
                        assert_eq!(error, PopTimeoutError::Closed);
                        return lives;
                    }
                }
            }
        });
        let producers = [0, 1, 2].map(|seed| scope.spawn(move || producer(seed)));
        producers.into_iter().for_each(|producer| producer.join().unwrap());
        stop.send(()).unwrap();
        assert!(resyncs.join().unwrap() > 0);
        queue.close();
        consumer.join().unwrap()
    });
    let source = source.into_inner().unwrap();
    let alive: BTreeMap<String, u32> =
        lives.into_iter().filter_map(|(name, life)| life.object.map(|object| (name, object))).collect();
    assert_eq!(alive, source);
    let known: BTreeMap<String, u32> =
        queue.known().iter().map(|known| (known.key().clone(), *known.object())).collect();
    assert_eq!(known, source);
}

fn a_panic_leaves_the_run_loop<F: Family>() {
    let queue: Queue<F> = builder().on_abandon(OnAbandon::Requeue).build();
    play(&queue, "add a1; add b1");
    let mut handled = Vec::new();
    let run = catch_unwind(AssertUnwindSafe(|| {
        loop {
            let result = queue.process(|lease| {
                assert_ne!(lease.key(), "b", "the handler cannot do this");
                handled.push(lease.key().clone());
            });
            result.unwrap();
        }
    }));
    let panic = run.unwrap_err();
    let message = panic.downcast_ref::<String>().unwrap();
    assert!(message.contains("the handler cannot do this"), "{message}");
    assert_eq!(handled, ["a"]);
    play(&queue, "leased 0; pop b:[A1] try 2; empty");
}
