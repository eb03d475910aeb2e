//! Buckets go when nodes have gone, and come back.

use super::super::directory::FIRST;
use super::super::extent::Phase;
use super::*;

/// What a thread does that shrinks, until the grace periods of this process have let it end.
fn shrink_to(set: &Set, buckets: usize) {
    for _ in 0..1_000_000 {
        if set.table.buckets() <= buckets && set.phase() == Phase::Steady {
            return;
        }
        set.shrink();
        // Other tests' threads may hold guards.
        thread::yield_now();
    }
    panic!("{} buckets in phase {:?}", set.table.buckets(), set.phase());
}

impl Set {
    fn shrink(&self) {
        self.table.shrink(&self.nodes, || self.len.load(SeqCst), &epoch::pin());
    }

    fn phase(&self) -> Phase {
        self.table.extent(SeqCst).phase()
    }
}

#[test]
fn buckets_go_and_come_back() {
    const KEYS: u64 = 20_000;
    let set = Set::new(mixed);
    for _ in 0..3 {
        (0..KEYS).for_each(|key| assert!(set.insert(key) || key % 500 == 0));
        let buckets = set.table.buckets();
        assert!((8_192..=32_768).contains(&buckets), "{buckets} buckets");
        assert!((0..KEYS).all(|key| set.find(key).is_some()));
        (0..KEYS).filter(|key| key % 500 != 0).for_each(|key| assert!(set.remove(key)));
        shrink_to(&set, 256);
        assert!(set.table.buckets() > 40, "so many nodes are left");
        assert!((0..KEYS).all(|key| set.find(key).is_some() == (key % 500 == 0)));
        assert_eq!(sorted(set.walk(7)), Vec::from_iter((0..KEYS).step_by(500)));
    }
    (0..KEYS).step_by(500).for_each(|key| assert!(set.remove(key)));
    shrink_to(&set, FIRST as usize);
    assert_eq!(set.walk(7), []);
}

/// A guard that does not end keeps buckets from going, at whatever phase, and nobody from growing.
#[test]
fn a_table_grows_in_each_phase() {
    const KEYS: u64 = 4_000;
    for phase in [Phase::Leaving, Phase::Unlinking, Phase::Resting] {
        let set = Set::new(mixed);
        (0..KEYS).for_each(|key| assert!(set.insert(key)));
        let buckets = set.table.buckets();
        let left = 100;
        let gone: Vec<u64> = (left..KEYS).collect();
        let all: Vec<_> = gone.iter().map(|key| set.find(*key).expect("inserted")).collect();
        for node in &all {
            // Without `shrink`.
            let guard = epoch::pin();
            assert!(set.table.remove(&set.nodes, *node, &guard));
        }
        set.len.store(left as usize, SeqCst);
        set.shrink();
        while set.phase() != phase {
            set.shrink();
            thread::yield_now();
        }
        assert_eq!(set.table.buckets(), buckets / 2);
        // From now on no grace period ends.
        let guard = epoch::pin();
        assert_eq!(set.phase(), phase);
        gone.iter().for_each(|key| assert!(set.insert(*key)));
        (KEYS..4 * KEYS).for_each(|key| assert!(set.insert(key)));
        assert!(set.table.buckets() > 2 * buckets, "{phase:?}: {} buckets", set.table.buckets());
        assert!((0..4 * KEYS).all(|key| set.find(key).is_some()));
        (0..4 * KEYS).filter(|key| key % 3 != 0).for_each(|key| assert!(set.remove(key)));
        assert_eq!(sorted(set.walk(9)), Vec::from_iter((0..4 * KEYS).step_by(3)));
        drop(guard);
        (0..4 * KEYS).step_by(3).for_each(|key| assert!(set.remove(key)));
        shrink_to(&set, FIRST as usize);
        assert_eq!(set.walk(9), []);
    }
}

fn rounds() -> u64 {
    std::env::var("DELTA_FIFO_TABLE_ROUNDS").map_or(3, |number| number.parse().expect("a number"))
}

/// Keys come and go in waves, so that the table grows and shrinks all the time; others stay, and are found at each moment.
#[test]
fn what_stays_is_found_while_it_shrinks_and_grows() {
    const KEYS: u64 = 1_500;
    const STEADY: u64 = 10;
    for round in 0..rounds() {
        let set = Arc::new(Set::new(mixed));
        (0..STEADY).for_each(|key| assert!(set.insert(key)));
        let end = Arc::new(AtomicBool::new(false));
        let readers = [1, 2].map(|seed| {
            let (set, end) = (Arc::clone(&set), Arc::clone(&end));
            thread::spawn(move || {
                stumble(round * 10 + seed);
                let mut dice = Dice(round * 10 + seed);
                while !end.load(SeqCst) {
                    (0..STEADY).for_each(|key| assert!(set.find(key).is_some(), "a look-up missed {key}"));
                    set.find(dice.roll(KEYS));
                    if dice.roll(16) == 0 {
                        let mut seen = set.walk(1 + dice.roll(100) as usize);
                        seen.retain(|key| *key < STEADY);
                        assert_eq!(sorted(seen), Vec::from_iter(0..STEADY), "a walk missed a node");
                    }
                    // Or else a writer that stumbles waits for as long as a reader may run.
                    thread::yield_now();
                }
            })
        });
        let writers = [3, 4].map(|seed| {
            let set = Arc::clone(&set);
            thread::spawn(move || {
                stumble(round * 10 + seed);
                let mut dice = Dice(round * 10 + seed);
                // Keys of this thread's own, so that it knows what there is.
                let key = |at: u64| STEADY + at * 2 + seed % 2;
                for _ in 0..3 {
                    let most = 1 + dice.roll(KEYS / 2);
                    for at in 0..most {
                        assert!(set.insert(key(at)));
                        assert!(set.find(key(at)).is_some());
                    }
                    for at in 0..most {
                        assert!(set.remove(key(at)), "a removal missed {at}");
                        assert!(set.find(key(at)).is_none());
                        if dice.roll(64) == 0 {
                            let again = dice.roll(at + 1);
                            assert!(set.insert(key(again)) && set.find(key(again)).is_some());
                            assert!(set.remove(key(again)));
                        }
                    }
                    (0..most).for_each(|at| assert!(set.find(key(at)).is_none()));
                }
            })
        });
        writers.into_iter().for_each(|thread| thread.join().unwrap());
        end.store(true, SeqCst);
        readers.into_iter().for_each(|thread| thread.join().unwrap());
        stumble(0);
        shrink_to(&set, 128);
        assert_eq!(sorted(set.walk(3)), Vec::from_iter(0..STEADY));
    }
}

/// Something else than what the test is about: growth and shrinking, whether they are due or not, so that each phase comes often.
fn disturb(set: &Set, dice: &mut Dice) {
    match dice.roll(32) {
        0 => set.grow(),
        1..20 => set.table.shrink(&set.nodes, || 0, &epoch::pin()),
        20..24 => epoch::pin().flush(),
        24 => _ = set.walk(5),
        _ => (),
    }
}

/// In threads that all try the same: how many calls said that it was they.
fn race(set: &Arc<Set>, keys: u64, seed: u64, call: fn(&Set, u64) -> bool) -> u64 {
    let racers = [1, 2, 3].map(|racer| {
        let set = Arc::clone(set);
        thread::spawn(move || {
            stumble(seed * 3 + racer);
            let mut dice = Dice(seed * 3 + racer);
            let mut one = |key| {
                disturb(&set, &mut dice);
                call(&set, key)
            };
            (0..keys).map(|key| u64::from(one(key))).sum::<u64>()
        })
    });
    racers.map(|racer| racer.join().unwrap()).iter().sum()
}

#[test]
fn each_key_is_inserted_once_and_removed_once_while_it_shrinks_and_grows() {
    const WAVES: u64 = 10;
    for round in 0..rounds() {
        let set = Arc::new(Set::new(if round % 2 == 0 { mixed } else { |key| key }));
        let keys = 1 + Dice(round).roll(60);
        for wave in 0..WAVES {
            let race = |step, call| race(&set, keys, (round * WAVES + wave) * 3 + step, call);
            let inserted = race(0, |set, key| {
                let won = set.insert(key);
                assert!(set.find(key).is_some(), "{key} is lost");
                won
            });
            assert_eq!(inserted, keys, "inserted");
            assert_eq!(sorted(set.walk(1 + wave as usize * 9)), Vec::from_iter(0..keys));
            assert_eq!(race(1, |set, key| set.find(key).is_some()), 3 * keys, "found");
            let removed = race(2, |set, key| {
                let won = set.remove(key);
                assert!(set.find(key).is_none(), "{key} is still there");
                won
            });
            assert_eq!(removed, keys, "removed");
            assert_eq!(set.walk(3), []);
        }
    }
}
