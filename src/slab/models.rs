//! The invariants under loom, each with the broken twins that show that its model can see what it looks for.

use super::{Index, Slab, Slot};
use crate::sync::atomic::AtomicU32;
use crate::sync::cell::UnsafeCell;
use crate::sync::thread::spawn;
use crate::sync::{Arc, explore};

/// The model as it is, then with each bug planted.
macro_rules! model {
    ($name:ident, preemptions: $bound:expr, $(fails: $twin:ident $bug:literal $says:literal,)*) => {
        mod $name {
            use super::*;

            #[test]
            fn holds() {
                let executions = explore("", $bound, bodies::$name);
                println!("{}: {executions} executions", stringify!($name));
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

model! { i2_a_slot_has_one_taker, preemptions: Some(3),
    fails: fails_if_the_tag_stays "a take leaves the tag" "taken twice",
}
model! { i2_no_slot_is_lost, preemptions: Some(3),
    fails: fails_if_a_give_is_tried_once "a give is not repeated" "lost",
}
model! { i3_what_was_before_a_give_is_before_the_take, preemptions: None,
    fails: fails_if_given_relaxed "given by a relaxed exchange" "Causality violation",
    fails: fails_if_taken_relaxed "a head is read by a relaxed load" "Causality violation",
}
model! { i1_a_chunk_is_installed_once, preemptions: Some(3),
    fails: fails_if_by_a_store "a chunk is installed by a store" "moved",
    fails: fails_if_read_relaxed "a chunk is read by a relaxed load" "Causality violation",
}

#[derive(Default)]
struct Cell {
    link: AtomicU32,
    /// Who has it.
    owner: UnsafeCell<u32>,
    taken: std::sync::atomic::AtomicBool,
}

impl Slot for Cell {
    fn link(&self) -> &AtomicU32 {
        &self.link
    }
}

#[expect(unsafe_code, reason = "plain memory is what the slab orders")]
impl Cell {
    fn write(&self, owner: u32) {
        // SAFETY: the writer took the slot; loom judges.
        self.owner.with_mut(|cell| unsafe { *cell = owner });
    }

    fn read(&self) -> u32 {
        // SAFETY: the reader took the slot; loom judges.
        self.owner.with(|cell| unsafe { *cell })
    }
}

fn take(slab: &Slab<Cell>) -> Index {
    let index = slab.take();
    let twice = slab.get(index).taken.swap(true, std::sync::atomic::Ordering::SeqCst);
    assert!(!twice, "taken twice");
    index
}

fn give(slab: &Slab<Cell>, index: Index) {
    slab.get(index).taken.store(false, std::sync::atomic::Ordering::SeqCst);
    slab.give(index);
}

/// With so many free slots.
fn slab(free: usize) -> Arc<Slab<Cell>> {
    let slab = Slab::new();
    let taken: Vec<Index> = (0..free).map(|_| slab.take()).collect();
    taken.into_iter().rev().for_each(|index| slab.give(index));
    Arc::new(slab)
}

mod bodies {
    use super::*;

    /// One is stopped in its take while the other takes two and gives the first back.
    pub(super) fn i2_a_slot_has_one_taker() {
        let slab = slab(2);
        let shared = Arc::clone(&slab);
        let other = spawn(move || {
            take(&shared);
            take(&shared);
        });
        let (first, _second) = (take(&slab), take(&slab));
        give(&slab, first);
        other.join().unwrap();
    }

    pub(super) fn i2_no_slot_is_lost() {
        let slab = slab(2);
        let (a, b) = (take(&slab), take(&slab));
        let shared = Arc::clone(&slab);
        let other = spawn(move || give(&shared, a));
        give(&slab, b);
        other.join().unwrap();
        assert_eq!(slab.close(), 2, "lost");
    }

    pub(super) fn i3_what_was_before_a_give_is_before_the_take() {
        let slab = slab(1);
        let shared = Arc::clone(&slab);
        let work = |slab: &Slab<Cell>, owner| {
            let index = take(slab);
            slab.get(index).write(owner);
            assert_eq!(slab.get(index).read(), owner);
            give(slab, index);
        };
        let other = spawn(move || work(&shared, 1));
        work(&slab, 2);
        other.join().unwrap();
    }

    pub(super) fn i1_a_chunk_is_installed_once() {
        let slab = slab(0);
        let shared = Arc::clone(&slab);
        let work = |slab: &Slab<Cell>, owner| {
            for _ in 0..2 {
                let index = slab.take();
                slab.get(index).write(owner);
                crate::sync::thread::yield_now();
                assert_eq!(slab.get(index).read(), owner, "moved");
            }
        };
        let other = spawn(move || work(&shared, 1));
        work(&slab, 2);
        other.join().unwrap();
        assert_eq!(slab.allocated(), 4);
    }
}
