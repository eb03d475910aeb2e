//! The invariants under loom, each with the broken twins that show that its model can see what it looks for.

use super::{Index, Slab, Slot};
use crate::sync::Arc;
use crate::sync::atomic::AtomicU32;
use crate::sync::atomic::Ordering::Relaxed;
use crate::sync::cell::UnsafeCell;
use crate::sync::model::model;
use crate::sync::thread::spawn;

model! { i4_a_slot_that_is_on_top_again_has_one_taker, preemptions: Some(3),
    fails: fails_if_the_tag_stays "a take leaves the tag" "taken twice",
}
model! { i2_two_takers_and_a_restock, preemptions: Some(3),
    fails: fails_if_a_loser_forgets "who loses a restock forgets the rest" "lost",
}
model! { i2_no_slot_is_lost, preemptions: Some(3),
    fails: fails_if_a_give_is_tried_once "a give is not repeated" "lost",
}
model! { i3_what_was_before_a_give_is_before_the_take, preemptions: Some(3),
    fails: fails_if_given_relaxed "given by a relaxed exchange" "Causality violation",
    fails: fails_if_swapped_relaxed "the given are taken by a relaxed swap" "Causality violation",
    fails: fails_if_restocked_relaxed "restocked by a relaxed exchange" "Causality violation",
    fails: fails_if_taken_relaxed "a head is read by a relaxed load" "Causality violation",
}
model! { i1_a_chunk_is_installed_once, preemptions: Some(3),
    fails: fails_if_by_a_store "a chunk is installed by a store" "moved",
    fails: fails_if_read_relaxed "a chunk is read by a relaxed load" "Causality violation",
    fails: fails_if_a_row_is_found_relaxed "a row is found by a relaxed load" "Causality violation",
    fails: fails_if_a_faster_row_is_used_relaxed "the row of who was faster is used relaxed" "Causality violation",
}
model! { i1_who_goes_over_slots_finds_them_made, preemptions: None,
    fails: fails_if_rows_are_read_relaxed "a row is gone over by a relaxed load" "Causality violation",
    fails: fails_if_chunks_are_read_relaxed "a chunk is gone over by a relaxed load" "Causality violation",
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

fn take_many<const N: usize>(slab: &Slab<Cell>) -> [Index; N] {
    std::array::from_fn(|_| take(slab))
}

/// The first is taken next.
fn give_all(slab: &Slab<Cell>, slots: &[Index]) {
    slots.iter().rev().for_each(|index| give(slab, *index));
}

mod bodies {
    use super::*;

    /// One is stopped in its take. The other takes both slots of the stock, and by a restock the first is on top again,
    /// with nothing behind it.
    pub(super) fn i4_a_slot_that_is_on_top_again_has_one_taker() {
        let slab = Arc::new(Slab::new());
        let slots = take_many::<3>(&slab);
        give_all(&slab, &slots);
        let spare = take(&slab);
        let shared = Arc::clone(&slab);
        let other = spawn(move || take_many::<2>(&shared));
        let [first, _second] = take_many(&slab);
        give_all(&slab, &[spare, first]);
        take(&slab);
        other.join().unwrap();
        assert_eq!(slab.allocated() - slab.close(), 4, "lost");
    }

    /// Both find the stock empty, and more is given in between.
    pub(super) fn i2_two_takers_and_a_restock() {
        let slab = Arc::new(Slab::new());
        let [a, b, c, d] = take_many(&slab);
        give_all(&slab, &[a, b]);
        let shared = Arc::clone(&slab);
        let other = spawn(move || _ = take(&shared));
        give_all(&slab, &[c, d]);
        take(&slab);
        other.join().unwrap();
        assert_eq!(slab.allocated() - slab.close(), 2, "lost");
    }

    pub(super) fn i2_no_slot_is_lost() {
        let slab = Arc::new(Slab::new());
        let [a, b] = take_many(&slab);
        let shared = Arc::clone(&slab);
        let other = spawn(move || give(&shared, a));
        give(&slab, b);
        other.join().unwrap();
        assert_eq!(slab.close(), 2, "lost");
    }

    /// Of two that are given, one is taken by who restocks, the other out of the stock.
    pub(super) fn i3_what_was_before_a_give_is_before_the_take() {
        let slab = Arc::new(Slab::new());
        let given = take_many::<2>(&slab);
        let takers = [1, 2].map(|owner| {
            let slab = Arc::clone(&slab);
            spawn(move || slab.get(take(&slab)).write(owner))
        });
        given.iter().for_each(|index| slab.get(*index).write(3));
        give_all(&slab, &given);
        takers.into_iter().for_each(|taker| taker.join().unwrap());
    }

    pub(super) fn i1_a_chunk_is_installed_once() {
        let slab = Arc::new(Slab::<Cell>::new());
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

    /// While the first ones are made.
    pub(super) fn i1_who_goes_over_slots_finds_them_made() {
        let slab = Arc::new(Slab::<Cell>::new());
        let shared = Arc::clone(&slab);
        let other = spawn(move || shared.for_each(|_, slot| _ = slot.link().load(Relaxed)));
        slab.take();
        other.join().unwrap();
    }
}
