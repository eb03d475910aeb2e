//! The table against a model of it, under stress, and with threads stopped for good.

mod shrink;

use std::collections::{HashMap, HashSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Barrier, Mutex};

use super::{Index, Node, Position, Slab, Slot, Table};
use crate::sync::stopped::{Gate, is_armed, stop_me_at, stumble};
use crate::sync::{epoch, thread};

#[derive(Default)]
struct Item {
    link: AtomicU32,
    next: AtomicU32,
    order: AtomicU32,
    key: AtomicU64,
}

impl Slot for Item {
    fn link(&self) -> &AtomicU32 {
        &self.link
    }
}

impl Node for Item {
    fn next(&self) -> &AtomicU32 {
        &self.next
    }

    fn order(&self) -> &AtomicU32 {
        &self.order
    }
}

/// A table of numbers. Removed slots are used again after grace.
struct Set {
    table: Table,
    nodes: Arc<Slab<Item>>,
    /// Removed, after grace. Not given to the slab by the collector's callback, which any thread may run: also one whose pause
    /// points are written down.
    spare: Arc<Mutex<Vec<Index>>>,
    len: AtomicUsize,
    hash: fn(u64) -> u64,
}

/// Fibonacci hashing, folded so that the low bits are good too.
fn mixed(key: u64) -> u64 {
    let product = key.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    product ^ product >> 32
}

impl Set {
    fn new(hash: fn(u64) -> u64) -> Self {
        Set {
            table: Table::new(),
            nodes: Arc::new(Slab::new()),
            spare: Arc::default(),
            len: AtomicUsize::new(0),
            hash,
        }
    }

    fn find(&self, key: u64) -> Option<Index> {
        let eq = |item: &Item| item.key.load(SeqCst) == key;
        self.table.find(&self.nodes, (self.hash)(key), eq, &epoch::pin()).map(|(index, _)| index)
    }

    fn insert(&self, key: u64) -> bool {
        let spare = self.spare.lock().unwrap().pop();
        let node = spare.unwrap_or_else(|| self.nodes.take());
        self.nodes.get(node).key.store(key, SeqCst);
        let eq = |item: &Item| item.key.load(SeqCst) == key;
        let len = || self.len.load(SeqCst);
        let inserted = self.table.insert(&self.nodes, (self.hash)(key), node, eq, len, &epoch::pin()).is_ok();
        if inserted {
            self.len.fetch_add(1, SeqCst);
        } else {
            self.nodes.give(node);
        }
        inserted
    }

    fn remove(&self, key: u64) -> bool {
        let guard = epoch::pin();
        let eq = |item: &Item| item.key.load(SeqCst) == key;
        let Some((node, _)) = self.table.find(&self.nodes, (self.hash)(key), eq, &guard) else {
            return false;
        };
        self.remove_node(node, &guard)
    }

    fn remove_node(&self, node: Index, guard: &epoch::Guard) -> bool {
        let removed = self.table.remove(&self.nodes, node, guard);
        if removed {
            self.len.fetch_sub(1, SeqCst);
            self.table.shrink(&self.nodes, || self.len.load(SeqCst), guard);
            let (nodes, spare) = (Arc::clone(&self.nodes), Arc::clone(&self.spare));
            guard.defer(move || {
                // What nobody may read any more.
                nodes.get(node).key.store(u64::MAX, SeqCst);
                spare.lock().unwrap().push(node);
            });
        }
        removed
    }

    fn grow(&self) {
        self.table.grow(&self.table.list(&self.nodes, &epoch::pin()));
    }

    fn walk(&self, max: usize) -> Vec<u64> {
        let (mut seen, mut position) = (Vec::new(), Some(Position::default()));
        while let Some(from) = position {
            position = self.table.walk(&self.nodes, from, max, &epoch::pin(), |_, item| {
                seen.push(item.key.load(SeqCst));
            });
            assert!(position.is_none_or(|position| position.0 > from.0), "a walk goes on");
        }
        seen
    }
}

/// Knuth's generator; the upper bits are good.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % sides
    }
}

fn sorted(mut keys: Vec<u64>) -> Vec<u64> {
    keys.sort_unstable();
    keys
}

fn against_a_hash_set(hash: fn(u64) -> u64, keys: u64, steps: usize) {
    let (set, mut model, mut dice) = (Set::new(hash), HashSet::new(), Dice(keys));
    for step in 0..steps {
        let key = dice.roll(keys);
        match dice.roll(8) {
            0..3 => assert_eq!(set.insert(key), model.insert(key)),
            3..5 => assert_eq!(set.remove(key), model.remove(&key)),
            _ => assert_eq!(set.find(key).is_some(), model.contains(&key)),
        }
        if step % 997 == 0 {
            let expected = sorted(model.iter().copied().collect());
            let max = 1 + dice.roll(40) as usize;
            assert_eq!(sorted(set.walk(max)), expected);
        }
        if step % 5003 == 0 {
            set.grow();
        }
    }
}

#[test]
fn it_does_what_a_hash_set_does() {
    against_a_hash_set(mixed, 10, 20_000);
    against_a_hash_set(mixed, 1_000, 50_000);
    against_a_hash_set(mixed, 20_000, 100_000);
}

#[test]
fn keys_of_one_hash_are_told_apart() {
    against_a_hash_set(|_| 0, 20, 10_000);
    against_a_hash_set(|_| u64::MAX, 20, 10_000);
    // The highest bit is not part of the order; the others are few.
    against_a_hash_set(|key| mixed(key) & (1 << 63 | 5), 50, 20_000);
}

#[test]
fn buckets_follow_the_nodes() {
    let set = Set::new(mixed);
    assert_eq!(set.table.buckets(), 8);
    (0..100_000).for_each(|key| assert!(set.insert(key)));
    let buckets = set.table.buckets();
    assert!((16_384..=131_072).contains(&buckets), "{buckets} buckets");
    (0..100_000).for_each(|key| assert!(set.find(key).is_some()));
    assert_eq!(sorted(set.walk(1_000)), Vec::from_iter(0..100_000));
    (0..100_000).for_each(|key| assert!(set.remove(key)));
    assert_eq!(set.walk(1_000), []);
}

#[test]
fn removal_is_idempotent() {
    let set = Set::new(mixed);
    set.insert(1);
    let node = set.find(1).expect("inserted");
    let guard = epoch::pin();
    assert!(set.table.remove(&set.nodes, node, &guard));
    assert!(!set.table.remove(&set.nodes, node, &guard));
    assert_eq!(set.find(1), None);
    assert_eq!(set.walk(1), []);
}

#[test]
fn a_panic_leaves_the_table_as_it_was() {
    let set = Set::new(|_| 6);
    (0..10).for_each(|key| assert!(set.insert(key)));
    let guard = epoch::pin();
    let panics = |call: &mut dyn FnMut()| assert!(catch_unwind(AssertUnwindSafe(call)).is_err());
    let node = set.nodes.take();
    panics(&mut || {
        let _ = set.table.insert(&set.nodes, 6, node, |_| panic!("eq"), || 0, &guard);
    });
    panics(&mut || {
        let _ = set.table.insert(&set.nodes, 6, node, |_| false, || panic!("len"), &guard);
    });
    panics(&mut || {
        set.table.find(&set.nodes, 6, |_| panic!("eq"), &guard);
    });
    panics(&mut || {
        set.table.walk(&set.nodes, Position::default(), 9, &guard, |_, _| panic!("walk"));
    });
    assert_eq!(set.walk(3), Vec::from_iter(0..10));
    assert_eq!(set.table.insert(&set.nodes, 6, node, |_| false, || 0, &guard), Ok(()));
}

/// Threads race to insert the same keys and then to remove them: each round each key has one winner.
#[test]
fn each_key_is_inserted_once_and_removed_once() {
    const THREADS: usize = 4;
    const KEYS: u64 = 64;
    let set = Arc::new(Set::new(|key| mixed(key) & (1 << 63 | 0xf)));
    let wins: Arc<[AtomicUsize; 2]> = Arc::default();
    let barrier = Arc::new(Barrier::new(THREADS));
    let threads = (0..THREADS as u64).map(|seed| {
        let (set, wins, barrier) = (Arc::clone(&set), Arc::clone(&wins), Arc::clone(&barrier));
        thread::spawn(move || {
            stumble(seed + 1);
            for round in 0..200 {
                let key = |at: u64| (at + seed * 7 * (round & 1)) % KEYS;
                barrier.wait();
                let won = (0..KEYS).filter(|at| set.insert(key(*at))).count();
                wins[0].fetch_add(won, SeqCst);
                barrier.wait();
                if seed == 0 {
                    assert_eq!(wins[0].swap(0, SeqCst), KEYS as usize);
                    assert_eq!(sorted(set.walk(5)), Vec::from_iter(0..KEYS));
                }
                barrier.wait();
                let won = (0..KEYS).filter(|at| set.remove(key(*at))).count();
                wins[1].fetch_add(won, SeqCst);
                barrier.wait();
                if seed == 0 {
                    assert_eq!(wins[1].swap(0, SeqCst), KEYS as usize);
                    assert_eq!(set.walk(5), []);
                }
            }
        })
    });
    threads.collect::<Vec<_>>().into_iter().for_each(|thread| thread.join().unwrap());
}

/// Even keys stay; odd ones come and go while others walk and look up, and the table grows.
#[test]
fn what_stays_is_always_found() {
    const KEYS: u64 = 2_000;
    let set = Arc::new(Set::new(mixed));
    (0..KEYS).step_by(2).for_each(|key| assert!(set.insert(key)));
    let end = Arc::new(AtomicBool::new(false));
    let busy = [1, 2].map(|seed| {
        let (set, end) = (Arc::clone(&set), Arc::clone(&end));
        thread::spawn(move || {
            stumble(seed);
            let mut dice = Dice(seed);
            while !end.load(SeqCst) {
                let key = dice.roll(KEYS) | 1;
                if dice.roll(2) == 0 {
                    set.insert(key)
                } else {
                    set.remove(key)
                };
            }
        })
    });
    stumble(3);
    for round in 0..100 {
        let seen = set.walk(50);
        let mut counts = HashMap::new();
        seen.iter().for_each(|key| *counts.entry(*key).or_insert(0) += 1);
        assert!((0..KEYS).step_by(2).all(|key| counts.get(&key) == Some(&1)), "a walk missed a node");
        assert!(!counts.contains_key(&u64::MAX), "a walk saw a slot that was given back");
        assert!((0..KEYS).step_by(2).all(|key| set.find(key).is_some()), "a look-up missed a node");
        if round % 20 == 0 {
            set.grow();
        }
    }
    end.store(true, SeqCst);
    busy.into_iter().for_each(|thread| thread.join().unwrap());
    stumble(0);
}

/// Runs `call` in a thread that stops at `at`, then `meanwhile`; then lets the thread go on.
fn with_stopped(set: &Arc<Set>, at: &'static str, call: fn(&Set), meanwhile: impl FnOnce(&Set)) {
    let (gate, reached) = (Gate::new(), Arc::new(AtomicBool::new(false)));
    let (shared, closed, finished) = (Arc::clone(set), gate.clone(), Arc::clone(&reached));
    let thread = thread::spawn(move || {
        stop_me_at(at, &closed);
        call(&shared);
        finished.store(true, SeqCst);
        assert!(!is_armed(), "it never came to {at}");
    });
    // Until it is parked there; the park itself may yet be to come, which is all the same to the others.
    std::thread::sleep(std::time::Duration::from_millis(30));
    assert!(!reached.load(SeqCst), "it did not stop at {at}");
    meanwhile(set);
    gate.open();
    thread.thread().unpark();
    thread.join().unwrap();
}

#[test]
fn a_thread_stopped_anywhere_is_passed() {
    for at in ["link: claimed", "link: ready", "link: linked", "insert: ready"] {
        let set = Arc::new(Set::new(|key| key));
        (0..40).filter(|key| key % 8 != 3).for_each(|key| assert!(set.insert(key)));
        set.grow();
        with_stopped(
            &set,
            at,
            |set| assert!(set.insert(1_003)),
            |set| {
                assert!(set.insert(11) && set.insert(3) && !set.insert(11));
                assert!(set.remove(4) && set.find(4).is_none() && set.remove(3));
                assert_eq!(sorted(set.walk(1)).len(), 35);
            },
        );
        assert!(set.find(1_003).is_some() && set.find(11).is_some() && set.find(3).is_none());
        assert_eq!(set.walk(7).len(), 36);
    }
    for at in ["remove: marked", "search: marked"] {
        let set = Arc::new(Set::new(|_| 5));
        (0..10).for_each(|key| assert!(set.insert(key)));
        with_stopped(
            &set,
            at,
            |set| assert!(set.remove(4)),
            |set| {
                assert!(set.find(4).is_none() && !set.remove(4) && set.insert(4));
                assert!(set.remove(3) && set.remove(5));
                assert_eq!(sorted(set.walk(3)), [0, 1, 2, 4, 6, 7, 8, 9]);
            },
        );
        assert_eq!(sorted(set.walk(3)), [0, 1, 2, 4, 6, 7, 8, 9]);
    }
}
