//! Segments that are used again, and callers who come late with a link of an earlier life.

use std::collections::BTreeSet;
use std::sync::atomic::AtomicBool as Flag;

use super::super::pool::Pool;
use super::*;
use crate::slab::Index;
use crate::sync::thread::yield_now;

model! { i5_last_is_not_left_behind, preemptions: Some(3),
    fails: fails_if_it_is "last is left behind" "a chain has a first and a last segment",
}
model! { i6_segments_are_freed_once, preemptions: Some(3),
    fails: fails_if_everybody_frees "everybody frees" "free twice",
    fails: fails_if_nobody_frees "nobody frees" "leaked",
}
model! { l2_a_late_fill_is_no_push, preemptions: Some(3),
    fails: fails_without_a_life_in_marks "marks without a life" "not there yet",
    fails: fails_if_fullness_is_read_relaxed "whether it is full is read relaxed" "exceeded maximum number of branches",
}
model! { l3_a_late_claim_fails, preemptions: Some(3),
    fails: fails_without_a_life_in_claims "a claim of any life" "popped twice",
}
model! { l3_a_late_popper_does_not_say_nothing, preemptions: Some(3),
    fails: fails_if_it_looks_at_the_count_alone "pushed of any life" "there always was one",
}
model! { l4_a_late_linker_links_nothing, preemptions: Some(3),
    fails: fails_without_a_life_in_links "links of any life" "lost",
}
model! { l4_a_late_mover_moves_nothing, preemptions: Some(3),
    fails: fails_without_a_life_in_links "links of any life" "exceeded maximum number of branches",
}
model! { a_late_glance_sees_what_its_handle_stands_for, preemptions: Some(3),
    fails: fails_if_relaxed "a life begins with relaxed handles" "Causality violation",
}
model! { p2_lives_follow_each_other, preemptions: Some(3),
    fails: fails_if_given_relaxed "a segment is given by a relaxed exchange" "begun twice",
    fails: fails_if_taken_relaxed "the free ones are read by a relaxed load" "begun twice",
}
model! { p3_a_segment_that_is_on_top_again_has_one_taker, preemptions: Some(3),
    fails: fails_if_the_tag_stays "a take leaves the tag" "taken twice",
}

model! { the_first_segment_is_made_once, preemptions: Some(3),
    fails: fails_if_the_loser_keeps_its_own "who loses the beginning keeps it" "leaked",
}

/// At rest: no segment is gone, or in two places.
fn take_stock<const N: usize>(queue: &KeyQueue<N>) {
    let (made, free, lined) = queue.chain.census();
    assert_eq!(free + lined, made, "leaked");
}

/// Stopped already.
fn standing<const N: usize>(
    queue: &Queue<N>,
    at: &'static str,
    call: fn(&KeyQueue<N>),
) -> (JoinHandle<()>, Gate) {
    let (thread, gate) = stopped(queue, at, call);
    while !gate.is_reached() {
        yield_now();
    }
    (thread, gate)
}

mod bodies {
    use super::*;

    /// Two pushers and a popper of a line that was never used.
    pub(super) fn the_first_segment_is_made_once() {
        let queue: Queue<2> = Arc::new(KeyQueue::lazy());
        let pushers = [pusher(&queue, &[10]), pusher(&queue, &[20])];
        let mut mine = Vec::from_iter(pop(&queue));
        pushers.into_iter().for_each(|pusher| pusher.join().unwrap());
        mine.extend(rest(&queue));
        judge(&[mine], &[10, 20]);
        take_stock(&queue);
    }

    /// One pusher is about to link, another has linked and not moved `last`; the segment before is used up, freed, and taken again by
    /// the first one.
    pub(super) fn i5_last_is_not_left_behind() {
        let queue = queue::<1>();
        push(&queue, 10);
        let late = standing(&queue, "push: segment full", |queue| push(queue, 20));
        let linker = standing(&queue, "push: segment linked", |queue| push(queue, 11));
        let mut mine = Vec::from_iter(pop(&queue));
        mine.extend(pop(&queue));
        go_on(late);
        go_on(linker);
        mine.extend(rest(&queue));
        judge(&[mine], &[10, 11, 20]);
        take_stock(&queue);
    }

    /// Two poppers meet at a segment's end while a pusher links, pushes, and takes what they free.
    pub(super) fn i6_segments_are_freed_once() {
        let queue = queue::<1>();
        push(&queue, 10);
        let pusher = pusher(&queue, &[11, 12]);
        let popper = popper(&queue, 2);
        let mut mine = Vec::from_iter(pop(&queue));
        mine.extend(pop(&queue));
        let theirs = popper.join().unwrap();
        pusher.join().unwrap();
        judge(&[theirs, mine, rest(&queue)], &[10, 11, 12]);
        take_stock(&queue);
    }

    /// Its cell is poisoned, and the segment used up and taken again, while the pusher is stopped with the cell reserved, or
    /// before that.
    pub(super) fn l2_a_late_fill_is_no_push() {
        let queue = queue::<2>();
        push(&queue, 1);
        let shared = Arc::clone(&queue);
        let late = spawn(move || {
            push(&shared, 10);
            pop(&shared)
        });
        push(&queue, 20);
        let mut mine = Vec::from_iter(pop(&queue));
        mine.extend(pop(&queue));
        push(&queue, 21);
        mine.extend(pop(&queue));
        push(&queue, 22);
        let theirs = late.join().unwrap();
        assert!(theirs.is_some() || mine.contains(&10), "not there yet");
        judge(&[Vec::from_iter(theirs), mine, rest(&queue)], &[1, 10, 20, 21, 22]);
        take_stock(&queue);
    }

    /// The segment in which it has read a handle is taken again before its claim.
    pub(super) fn l3_a_late_claim_fails() {
        let queue = queue::<1>();
        push(&queue, 10);
        let late = popper(&queue, 1);
        let mut mine = Vec::from_iter(pop(&queue));
        push(&queue, 11);
        mine.extend(pop(&queue));
        push(&queue, 12);
        let theirs = late.join().unwrap();
        judge(&[theirs, mine, rest(&queue)], &[10, 11, 12]);
        take_stock(&queue);
    }

    /// It stands before a cell whose pusher is stopped. There are two handles or one in line all the time.
    pub(super) fn l3_a_late_popper_does_not_say_nothing() {
        let queue = queue::<2>();
        push(&queue, 1);
        assert_eq!(pop(&queue), Some(1));
        let pusher = stopped(&queue, "push: reserved", |queue| push(queue, 10));
        push(&queue, 20);
        let late = popper(&queue, 1);
        push(&queue, 21);
        assert!(pop(&queue).is_some(), "there always was one");
        push(&queue, 22);
        assert_eq!(late.join().unwrap().len(), 1, "there always was one");
        go_on(pusher);
    }

    /// The segment that it found full is taken again, and not full, before it links.
    pub(super) fn l4_a_late_linker_links_nothing() {
        let queue = queue::<2>();
        [1, 2].into_iter().for_each(|bits| push(&queue, bits));
        let late = pusher(&queue, &[10]);
        push(&queue, 20);
        let mut mine: Vec<u64> = (0..3).filter_map(|_| pop(&queue)).collect();
        push(&queue, 21);
        mine.extend(pop(&queue));
        push(&queue, 22);
        late.join().unwrap();
        mine.extend(rest(&queue));
        judge(&[mine], &[1, 2, 10, 20, 21, 22]);
        take_stock(&queue);
    }

    /// The segment that it found used up is taken again before it moves `last` and `first`.
    pub(super) fn l4_a_late_mover_moves_nothing() {
        let queue = queue::<1>();
        push(&queue, 10);
        assert_eq!(pop(&queue), Some(10));
        push(&queue, 11);
        let late = popper(&queue, 1);
        let mut mine = Vec::from_iter(pop(&queue));
        push(&queue, 12);
        mine.extend(pop(&queue));
        push(&queue, 13);
        let theirs = late.join().unwrap();
        push(&queue, 14);
        judge(&[theirs, mine, rest(&queue)], &[11, 12, 13, 14]);
        take_stock(&queue);
    }

    /// The segment at which it looks is taken again, and has a handle before it is linked.
    pub(super) fn a_late_glance_sees_what_its_handle_stands_for() {
        let (queue, payloads) = (queue::<1>(), Arc::new(Payloads::default()));
        push(&queue, 10);
        let (shared, written) = (Arc::clone(&queue), Arc::clone(&payloads));
        let late = spawn(move || {
            let first = shared.chain.first().expect("there was a push");
            if let Some(handle) = first.glance(0).filter(|handle| handle.get() == 1) {
                written.read(handle);
            }
        });
        assert_eq!(pop(&queue), Some(10));
        push(&queue, 11);
        assert_eq!(pop(&queue), Some(11));
        payloads.write(1);
        push(&queue, 1);
        late.join().unwrap();
    }

    /// Each takes a segment, begins a life, and gives it back.
    pub(super) fn p2_lives_follow_each_other() {
        let pool = Arc::new(Pool::<1>::new());
        let begin = |pool: &Pool<1>| {
            let index = pool.take();
            let life = pool.get(index).revive(&[]);
            pool.give(index);
            (index, life)
        };
        let made = [pool.take(), pool.take()];
        made.into_iter().for_each(|index| pool.give(index));
        let shared = Arc::clone(&pool);
        let other = spawn(move || [begin(&shared), begin(&shared)]);
        let mine = [begin(&pool), begin(&pool)];
        let all: BTreeSet<_> = mine.into_iter().chain(other.join().unwrap()).collect();
        assert_eq!(all.len(), 4, "begun twice");
        assert_eq!(pool.census(), (2, 2), "lost");
    }

    /// One is stopped in its take. The other takes both, and gives back the first.
    pub(super) fn p3_a_segment_that_is_on_top_again_has_one_taker() {
        let pool = Arc::new(Pool::<1>::new());
        let taken: Arc<[Flag; 8]> = Arc::new(std::array::from_fn(|_| Flag::new(false)));
        let order = std::sync::atomic::Ordering::SeqCst;
        let flag = move |taken: &[Flag; 8], index: Index, now| {
            assert_ne!(taken[index.get() as usize].swap(now, order), now, "taken twice");
        };
        let made = [pool.take(), pool.take()];
        made.into_iter().for_each(|index| pool.give(index));
        let (shared, flags) = (Arc::clone(&pool), Arc::clone(&taken));
        let other = spawn(move || [(); 2].map(|()| flag(&flags, shared.take(), true)));
        let mine = [(); 2].map(|()| {
            let index = pool.take();
            flag(&taken, index, true);
            index
        });
        flag(&taken, mine[0], false);
        pool.give(mine[0]);
        flag(&taken, pool.take(), true);
        other.join().unwrap();
    }
}
