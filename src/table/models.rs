//! The invariants under loom, each with the broken twins that show that its model can see what it looks for.
//!
//! `RUSTFLAGS="--cfg delta_fifo_loom" cargo test --release --lib table::models -- --nocapture` prints what each explored.
//! Who only loads runs in a spawned thread and who writes in the model's own: loom remembers one last access of an atomic,
//! and does not come back to a load that was followed by the writer's own. A model's table has two buckets and an insert that passes one node calls it long.

use std::time::Instant;

use super::link::{Link, Target};
use super::{Index, Node, Position, Slab, Slot, Table};
use crate::sync::atomic::AtomicU32;
use crate::sync::cell::UnsafeCell;
use crate::sync::epoch::{self, Guard};
use crate::sync::stopped::{Gate, stop_me_at};
use crate::sync::thread::{JoinHandle, spawn};
use crate::sync::{Arc, explore};

/// The model as it is, then with each bug planted.
macro_rules! model {
    ($name:ident, preemptions: $bound:expr, $(fails: $twin:ident $bug:literal $says:literal,)*) => {
        mod $name {
            use super::*;

            #[test]
            fn holds() {
                let start = Instant::now();
                let executions = explore("", $bound, bodies::$name);
                println!("{}: {executions} executions, {:.2?}", stringify!($name), start.elapsed());
            }

            $(
                #[test]
                #[should_panic(expected = $says)]
                fn $twin() {
                    explore($bug, $bound, bodies::$name);
                }
            )*
        }
    };
}

model! { an_insert_hands_its_node_over, preemptions: None,
    fails: fails_if_set_relaxed "a link is set relaxed" "Causality violation",
    fails: fails_if_read_relaxed "a link is read relaxed" "Causality violation",
}
model! { i4_two_inserters_of_one_key, preemptions: Some(3),
    fails: fails_if_an_insert_is_a_store "an insert is a store" "both inserted",
}
model! { i4_two_inserters_and_a_remover_before_them, preemptions: Some(3),
    fails: fails_if_a_marked_link_may_change "a marked link may change" "both inserted",
}
model! { i2_an_insert_against_the_removal_of_its_predecessor, preemptions: Some(3),
    fails: fails_if_a_marked_link_may_change "a marked link may change" "lost",
    fails: fails_if_an_insert_is_a_store "an insert is a store" "Causality violation",
}
model! { i6_removals_of_neighbours, preemptions: Some(3),
    fails: fails_if_a_marked_link_may_change "a marked link may change" "still reached",
}
model! { i6_removals_of_one_node, preemptions: Some(3),
    fails: fails_if_a_mark_is_a_store "a mark is a store" "removed twice",
    fails: fails_if_only_the_marker_unlinks "who did not mark does not unlink" "still reached",
}
model! { i5_a_removed_slot_is_used_again, preemptions: Some(3),
    fails: fails_if_only_the_marker_unlinks "who did not mark does not unlink" "Causality violation",
}
model! { what_is_missed_was_removed_before, preemptions: None,
    fails: fails_if_a_mark_is_relaxed "a mark is relaxed" "both missed",
}
model! { a_stopped_remover_is_passed, preemptions: Some(2),
    fails: fails_if_only_the_marker_unlinks "who did not mark does not unlink" "still reached",
}
model! { a_walk_shows_what_stays_once, preemptions: Some(3), }

mod buckets;
mod shrink;

#[derive(Default)]
struct Item {
    link: AtomicU32,
    next: AtomicU32,
    order: AtomicU32,
    /// Plain memory, so that loom sees who reads a slot that may be written. 0: not in use.
    key: UnsafeCell<u64>,
}

impl Slot for Item {
    fn link(&self) -> &AtomicU32 {
        &self.link
    }
}

impl Node for Item {
    fn next(&self) -> &AtomicU32 {
        // Whoever follows a link to a slot uses it.
        self.key();
        &self.next
    }

    fn order(&self) -> &AtomicU32 {
        &self.order
    }
}

#[expect(unsafe_code, reason = "plain memory is what the table orders")]
impl Item {
    fn set_key(&self, key: u64) {
        // SAFETY: the caller has a slot that nobody reaches; loom judges.
        self.key.with_mut(|place| unsafe { *place = key });
    }

    fn key(&self) -> u64 {
        // SAFETY: the slot is in the table and the caller has a guard; loom judges.
        self.key.with(|place| unsafe { *place })
    }
}

/// A table of keys whose hashes are the keys without the tens: 10 and 20 collide.
struct Set {
    table: Table,
    nodes: Slab<Item>,
}

// Loom's cells are not `Sync`, and a slab of them need not be.
#[expect(unsafe_code, reason = "the cells are judged by loom")]
// SAFETY: all threads of a model are one, and loom judges each access to a cell.
unsafe impl Send for Set {}
#[expect(unsafe_code, reason = "the cells are judged by loom")]
// SAFETY: as above.
unsafe impl Sync for Set {}

type Shared = Arc<Set>;

impl Set {
    /// With these keys, and as many slots more, taken before the model begins. The slots of the keys come first.
    fn with(keys: &[u64], more: usize) -> (Shared, Vec<Index>) {
        let set = Set { table: Table::new(), nodes: Slab::new() };
        let slots: Vec<Index> = (0..keys.len() + more).map(|_| set.nodes.take()).collect();
        let guard = epoch::pin();
        for (key, slot) in keys.iter().zip(&slots) {
            set.insert(*key, *slot, &guard).expect("a new key");
        }
        drop(guard);
        (Arc::new(set), slots)
    }

    fn insert(&self, key: u64, slot: Index, guard: &Guard) -> Result<(), Index> {
        self.nodes.get(slot).set_key(key);
        self.table.insert(&self.nodes, key % 10, slot, |item| item.key() == key, || 0, guard)
    }

    fn find(&self, key: u64, guard: &Guard) -> Option<Index> {
        self.table.find(&self.nodes, key % 10, |item| item.key() == key, guard).map(|(index, _)| index)
    }

    fn remove(&self, slot: Index, guard: &Guard) -> bool {
        self.table.remove(&self.nodes, slot, guard)
    }

    fn grow(&self) {
        self.table.grow(&self.table.list(&self.nodes, &epoch::pin()));
    }

    /// All keys, by a walk in small steps.
    fn keys(&self) -> Vec<u64> {
        let (mut keys, mut from) = (Vec::new(), Some(Position::default()));
        while let Some(position) = from {
            from = self.table.walk(&self.nodes, position, 1, &epoch::pin(), |_, item| keys.push(item.key()));
        }
        keys
    }

    /// Whether any link that can be reached leads to the slot, marked or not.
    fn reaches(&self, slot: Index) -> bool {
        let guard = epoch::pin();
        let mut link = Link::load(self.table.directory.bucket(0, &guard));
        loop {
            link = match link.target() {
                Target::Node(index) if index == slot => return true,
                Target::Node(index) => Link::load(self.nodes.get(index).next()),
                Target::Bucket(bucket) => Link::load(self.table.directory.bucket(bucket, &guard)),
                Target::End => return false,
            }
        }
    }
}

fn inserter(set: &Shared, key: u64, slot: Index) -> JoinHandle<Result<(), Index>> {
    let set = Arc::clone(set);
    spawn(move || set.insert(key, slot, &epoch::pin()))
}

/// Removes, and checks that the slot is gone.
fn remover(set: &Shared, slot: Index) -> JoinHandle<bool> {
    let set = Arc::clone(set);
    spawn(move || remove(&set, slot))
}

fn remove(set: &Set, slot: Index) -> bool {
    let removed = set.remove(slot, &epoch::pin());
    assert!(!set.reaches(slot), "still reached");
    removed
}

fn stopped(
    set: &Shared,
    at: &'static str,
    call: impl FnOnce(&Set) + Send + 'static,
) -> (JoinHandle<()>, Gate) {
    let (set, gate) = (Arc::clone(set), Gate::new());
    let closed = gate.clone();
    let thread = spawn(move || {
        stop_me_at(at, &closed);
        call(&set);
    });
    (thread, gate)
}

fn go_on((thread, gate): (JoinHandle<()>, Gate)) {
    gate.open();
    thread.thread().unpark();
    thread.join().unwrap();
}

mod bodies {
    use super::*;

    pub(super) fn an_insert_hands_its_node_over() {
        let (set, slots) = Set::with(&[], 1);
        let shared = Arc::clone(&set);
        let reader = spawn(move || {
            shared.find(10, &epoch::pin());
        });
        // Before the key is written: a pin is a fence, and would publish it.
        let guard = epoch::pin();
        set.insert(10, slots[0], &guard).expect("a new key");
        drop(guard);
        reader.join().unwrap();
        assert_eq!(set.keys(), [10]);
    }

    pub(super) fn i4_two_inserters_of_one_key() {
        let (set, slots) = Set::with(&[], 2);
        let other = inserter(&set, 10, slots[0]);
        let mine = set.insert(10, slots[1], &epoch::pin());
        match (other.join().unwrap(), mine) {
            (Ok(()), Err(equal)) => assert_eq!(equal, slots[0]),
            (Err(equal), Ok(())) => assert_eq!(equal, slots[1]),
            (Ok(()), Ok(())) => panic!("both inserted"),
            (Err(_), Err(_)) => panic!("none inserted"),
        }
        assert_eq!(set.keys(), [10]);
    }

    /// The node behind which both would put theirs goes meanwhile.
    pub(super) fn i4_two_inserters_and_a_remover_before_them() {
        let (set, slots) = Set::with(&[20], 2);
        let remover = remover(&set, slots[0]);
        let other = inserter(&set, 10, slots[1]);
        let mine = set.insert(10, slots[2], &epoch::pin());
        let both = other.join().unwrap().is_ok() && mine.is_ok();
        remover.join().unwrap();
        assert!(!both, "both inserted");
        assert_eq!(set.keys(), [10]);
    }

    pub(super) fn i2_an_insert_against_the_removal_of_its_predecessor() {
        let (set, slots) = Set::with(&[10, 20], 1);
        let remover = remover(&set, slots[1]);
        set.insert(30, slots[2], &epoch::pin()).expect("a new key");
        assert!(remover.join().unwrap());
        assert!(set.find(30, &epoch::pin()).is_some(), "lost");
        assert_eq!(set.keys(), [10, 30]);
    }

    pub(super) fn i6_removals_of_neighbours() {
        let (set, slots) = Set::with(&[10, 20, 30], 0);
        let other = remover(&set, slots[0]);
        assert!(remove(&set, slots[1]));
        assert!(other.join().unwrap());
        assert_eq!(set.keys(), [30]);
    }

    pub(super) fn i6_removals_of_one_node() {
        let (set, slots) = Set::with(&[10, 20], 0);
        let other = remover(&set, slots[0]);
        let mine = remove(&set, slots[0]);
        let theirs = other.join().unwrap();
        assert!(!(mine && theirs), "removed twice");
        assert!(mine || theirs, "removed by nobody");
        assert_eq!(set.keys(), [20]);
    }

    /// Of two who remove, this one sees to the slot, whoever marked it. A third looks up meanwhile.
    pub(super) fn i5_a_removed_slot_is_used_again() {
        let (set, slots) = Set::with(&[10], 0);
        let slot = slots[0];
        let shared = Arc::clone(&set);
        let other = spawn(move || {
            let guard = epoch::pin();
            if let Some(slot) = shared.find(10, &guard) {
                shared.remove(slot, &guard);
            }
        });
        let shared = Arc::clone(&set);
        let reader = spawn(move || {
            shared.find(10, &epoch::pin());
        });
        let guard = epoch::pin();
        set.remove(slot, &guard);
        let shared = Arc::clone(&set);
        guard.defer(move || shared.nodes.get(slot).set_key(0));
        drop(guard);
        other.join().unwrap();
        reader.join().unwrap();
        drop(epoch::pin());
    }

    /// One of two keys is there at every moment.
    pub(super) fn what_is_missed_was_removed_before() {
        let (set, slots) = Set::with(&[10], 1);
        let shared = Arc::clone(&set);
        let reader = spawn(move || {
            let guard = epoch::pin();
            if shared.find(10, &guard).is_none() {
                assert!(shared.find(11, &guard).is_some(), "both missed");
            }
        });
        let guard = epoch::pin();
        set.insert(11, slots[1], &guard).expect("a new key");
        set.remove(slots[0], &guard);
        drop(guard);
        reader.join().unwrap();
    }

    /// Stopped with a node marked.
    pub(super) fn a_stopped_remover_is_passed() {
        for at in ["remove: marked", "search: marked"] {
            let (set, slots) = Set::with(&[10, 20], 1);
            let (first, second) = (slots[0], slots[1]);
            let remover = stopped(&set, at, move |set| {
                set.remove(second, &epoch::pin());
            });
            remove(&set, second);
            set.insert(30, slots[2], &epoch::pin()).expect("a new key");
            assert!(remove(&set, first));
            go_on(remover);
            assert_eq!(set.keys(), [30]);
        }
    }

    /// A walk in small steps, while what is before and behind a node changes.
    pub(super) fn a_walk_shows_what_stays_once() {
        let (set, slots) = Set::with(&[10, 20, 11], 1);
        let shared = Arc::clone(&set);
        let walker = spawn(move || shared.keys());
        assert!(remove(&set, slots[0]));
        set.insert(30, slots[3], &epoch::pin()).expect("a new key");
        let keys = walker.join().unwrap();
        let count = |key| keys.iter().filter(|seen| **seen == key).count();
        assert_eq!((count(20), count(11)), (1, 1), "{keys:?}");
        assert!(count(10) <= 1 && count(30) <= 1, "{keys:?}");
    }
}
