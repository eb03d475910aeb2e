//! The numbers of deltas.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;

use delta_fifo::{Builder, Compression, DeltaQueue, Lease};

use crate::common::{Family, Queue, Script, Store, builder, for_each_queue, key, play, with_shards};

for_each_queue!(
    without_it_there_are_none,
    a_number_is_given_once_and_stays,
    newer_is_higher_over_all_leases_of_a_key,
    no_two_deltas_have_the_same,
    what_is_merged_is_newer,
    what_was_undone_is_not_newer,
    what_an_identity_makes_is_numbered,
    beside_threads,
);

fn numbers<Q: DeltaQueue<Key = String, Value = u32>>(lease: &Lease<'_, Q>) -> Vec<u64> {
    lease.deltas().infos().map(|info| info.number().expect("the queue numbers")).collect()
}

/// All deltas of the next lease, which is done.
fn next<Q: DeltaQueue<Key = String, Value = u32>>(queue: &Q) -> Vec<u64> {
    let lease = queue.try_pop().expect("a key is in line");
    let numbers = numbers(&lease);
    lease.done();
    numbers
}

fn numbered<F: Family>() -> Builder<String, u32> {
    with_shards(builder().numbered(), 4)
}

fn without_it_there_are_none<F: Family>() {
    let queue: Queue<F> = builder().build();
    queue.add(key("a"), 1).unwrap();
    assert_eq!(queue.try_pop().unwrap().deltas().newest_info().number(), None);
}

fn a_number_is_given_once_and_stays<F: Family>() {
    let queue: Queue<F> = numbered::<F>().build();
    play(&queue, "add a1; update a2; update a3");
    let lease = queue.try_pop().unwrap();
    let first = numbers(&lease);
    assert_eq!(first.len(), 3);
    lease.requeue();
    play(&queue, "delete a4; add a5");
    let lease = queue.try_pop().unwrap();
    let second = numbers(&lease);
    assert_eq!((second.len(), &second[..3]), (5, &first[..]));
    assert!(second.is_sorted_by(|older, newer| older < newer), "{second:?}");
    drop(lease);
    // In line again by the change.
    play(&queue, "update a6");
    let third = next(&queue);
    assert_eq!(third[..5], second[..]);
    assert!(third[5] > third[4]);
}

fn newer_is_higher_over_all_leases_of_a_key<F: Family>() {
    for store in [false, true] {
        let known = Store::new([]);
        let builder = numbered::<F>();
        let queue: Queue<F> = if store { builder.known_objects(known.clone()) } else { builder }.build();
        let mut newest = BTreeMap::<String, u64>::new();
        for turn in 0..50 {
            for name in ["a", "b", "c", "d", "e"] {
                match turn % 5 {
                    0 => queue.add(key(name), turn).unwrap(),
                    1 | 2 => queue.apply(key(name), turn).unwrap(),
                    3 => queue.delete(key(name), turn).unwrap(),
                    _ => queue.delete_key(key(name)).unwrap(),
                }
            }
            if turn % 2 == 0 {
                queue.resync().unwrap();
            }
            while let Ok(lease) = queue.try_pop() {
                let newest = newest.entry(lease.key().clone()).or_default();
                for number in numbers(&lease) {
                    assert!(number > *newest, "{number} of {} comes after {newest}", lease.key());
                    *newest = number;
                }
                known.note(&lease);
                lease.done();
            }
        }
        assert!(newest.values().all(|&number| number > 30), "{newest:?}");
    }
}

fn no_two_deltas_have_the_same<F: Family>() {
    let queue: Queue<F> = numbered::<F>().build();
    let mut seen = BTreeSet::new();
    for turn in 0..20 {
        for name in 0..30 {
            queue.update(name.to_string(), turn).unwrap();
            queue.update(name.to_string(), turn).unwrap();
        }
        for lease in queue.pop_batch(100).unwrap() {
            for number in numbers(&lease) {
                assert!(number > 0 && seen.insert(number), "{number} is given twice");
            }
            lease.done();
        }
    }
    assert_eq!(seen.len(), 20 * 30 * 2);
}

fn what_is_merged_is_newer<F: Family>() {
    let queue: Queue<F> = numbered::<F>().compression(Compression::Latest).build();
    play(&queue, "add a1");
    let lease = queue.try_pop().unwrap();
    let first = numbers(&lease);
    play(&queue, "update a2");
    lease.requeue();
    let lease = queue.try_pop().unwrap();
    let second = numbers(&lease);
    assert!(second.len() == 1 && second[0] > first[0], "{first:?} {second:?}");
    // What stays keeps its number.
    lease.done();
    play(&queue, "delete a3");
    let lease = queue.try_pop().unwrap();
    let third = numbers(&lease);
    play(&queue, "delete a4");
    lease.requeue();
    assert_eq!(next(&queue), third);
}

/// A pop that is undone has shown nothing; the deltas may have been numbered all the same.
fn what_was_undone_is_not_newer<F: Family>() {
    let queue: Queue<F> = numbered::<F>().build();
    play(&queue, "add a1; add b1");
    let lease = queue.try_pop().unwrap();
    let first = numbers(&lease);
    drop(lease);
    play(&queue, "pop b:[A1]; update a2");
    let second = next(&queue);
    assert!(second[0] == first[0] && second[1] > second[0], "{first:?} {second:?}");
}

fn what_an_identity_makes_is_numbered<F: Family>() {
    let queue: Queue<F> = numbered::<F>().identity(|object: &u32| object / 10).build();
    let mut script = Script::new(&queue);
    script.play("known a11; update a21");
    let lease = queue.try_pop().unwrap();
    let first = numbers(&lease);
    assert!(first.len() == 2 && first[1] > first[0], "{first:?}");
    lease.requeue();
    assert_eq!(next(&queue), first);
}

/// Consumers and producers side by side, with requeues.
fn beside_threads<F: Family>() {
    const KEYS: u32 = 20;
    let queue: Queue<F> = numbered::<F>().build();
    let newest = Mutex::new(BTreeMap::<String, (u64, u32)>::new());
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                while let Ok(lease) = queue.pop() {
                    let all: Vec<(u64, u32)> = numbers(&lease)
                        .into_iter()
                        .zip(lease.deltas().iter().map(|delta| *delta.object().expect("no tombstones")))
                        .collect();
                    if lease.attempts() == 1 && all[0].1 % 7 == 0 {
                        lease.requeue();
                        continue;
                    }
                    let mut newest = newest.lock().unwrap();
                    let newest = newest.entry(lease.key().clone()).or_default();
                    for delta in all {
                        assert!(delta.0 > newest.0 && delta.1 > newest.1, "{delta:?} after {newest:?}");
                        *newest = delta;
                    }
                    // The next lease of the key is another thread's.
                    lease.done();
                }
            });
        }
        let producers: Vec<_> = (0..2)
            .map(|half| {
                let queue = &queue;
                scope.spawn(move || {
                    for value in 1..500 {
                        for name in 0..KEYS / 2 {
                            queue.update((name + half * (KEYS / 2)).to_string(), value).unwrap();
                        }
                    }
                })
            })
            .collect();
        producers.into_iter().for_each(|producer| producer.join().unwrap());
        queue.close();
    });
    let newest = newest.into_inner().unwrap();
    assert!(newest.len() == KEYS as usize && newest.values().all(|newest| newest.1 == 499), "{newest:?}");
}
