//! The invariants under loom, each with the broken twins that show that its model can see what it looks for. Here those of
//! one life of a segment; those from life to life are in `lives`.
//!
//! `RUSTFLAGS="--cfg delta_fifo_loom" cargo test --release --lib key_queue -- --nocapture` prints what each explored.

mod lives;

use super::{Handle, KeyQueue};
use crate::sync::atomic::Ordering::{Relaxed, SeqCst};
use crate::sync::atomic::{AtomicBool, fence};
use crate::sync::cell::UnsafeCell;
use crate::sync::model::model;
use crate::sync::stopped::{Gate, stop_me_at};
use crate::sync::thread::{JoinHandle, spawn};
use crate::sync::{Arc, planted};

model! { i2_each_handle_is_popped_once, preemptions: Some(3),
    fails: fails_if_a_claim_is_a_store "the claim is a store" "popped twice",
    fails: fails_if_poison_is_a_store "poison by a store" "lost",
}
model! { i2_each_handle_of_a_batch_is_popped_once, preemptions: Some(3),
    fails: fails_if_a_claim_is_a_store "the claim is a store" "popped twice",
}
model! { a_pusher_keeps_its_order, preemptions: Some(3), }
model! { a_batch_keeps_its_order, preemptions: Some(3),
    fails: fails_if_filled_backwards "a batch is filled back to front" "out of order",
    fails: fails_if_poison_is_a_store "poison by a store" "lost",
}
model! { what_was_before_a_push_is_before_the_pop, preemptions: None,
    fails: fails_if_filled_relaxed "the cell is filled by a relaxed exchange" "Causality violation",
    fails: fails_if_read_relaxed "the cell is read by a relaxed load" "Causality violation",
}
model! { what_was_before_a_batch_is_before_the_pop, preemptions: None,
    fails: fails_if_filled_relaxed "the cell is filled by a relaxed exchange" "Causality violation",
    fails: fails_if_read_on_relaxed "a batch reads on by a relaxed load" "Causality violation",
    fails: fails_if_found_filled_relaxed "a late cell is found filled by a relaxed exchange" "Causality violation",
}
model! { nothing_is_found_only_if_there_was_nothing, preemptions: None,
    fails: fails_if_popped_is_read_relaxed "a relaxed load of popped" "there always was one",
    fails: fails_if_claimed_relaxed "a relaxed claim" "there always was one",
}
model! { a_fence_on_each_side_loses_no_sleeper, preemptions: None,
    fails: fails_without_the_pushers "no fence after the push" "both missed",
    fails: fails_without_the_sleepers "no fence before the second look" "both missed",
}
model! { a_stopped_pusher_is_passed, preemptions: Some(3),
    fails: fails_if_the_popper_waits "the popper waits for the pusher" "exceeded maximum number of branches",
}
model! { a_stopped_linker_is_passed, preemptions: Some(3), }
model! { a_stopped_popper_is_passed, preemptions: Some(3), }
model! { i4_segments_are_handed_over, preemptions: Some(3),
    fails: fails_if_linked_relaxed "a link is written by a relaxed exchange" "a chain has a first",
    fails: fails_if_links_are_read_relaxed "a link is read by a relaxed load" "a chain has a first",
    fails: fails_if_a_loser_thinks_it_won "who loses the link thinks it won" "lost",
}

type Queue<const N: usize> = Arc<KeyQueue<N>>;

fn queue<const N: usize>() -> Queue<N> {
    Arc::new(KeyQueue::new())
}

fn handle(bits: u64) -> Handle {
    Handle::new(bits).expect("a handle")
}

fn push<const N: usize>(queue: &KeyQueue<N>, bits: u64) {
    queue.push(handle(bits));
}

fn pop<const N: usize>(queue: &KeyQueue<N>) -> Option<u64> {
    queue.pop().map(Handle::get)
}

fn pop_batch<const N: usize>(queue: &KeyQueue<N>, max: usize) -> Vec<u64> {
    let mut popped = Vec::new();
    queue.pop_batch(max, &mut popped);
    popped.into_iter().map(Handle::get).collect()
}

fn pusher<const N: usize>(queue: &Queue<N>, handles: &'static [u64]) -> JoinHandle<()> {
    let queue = Arc::clone(queue);
    spawn(move || handles.iter().for_each(|bits| push(&queue, *bits)))
}

fn popper<const N: usize>(queue: &Queue<N>, times: usize) -> JoinHandle<Vec<u64>> {
    let queue = Arc::clone(queue);
    spawn(move || (0..times).filter_map(|_| pop(&queue)).collect())
}

fn stopped<const N: usize>(
    queue: &Queue<N>,
    at: &'static str,
    call: fn(&KeyQueue<N>),
) -> (JoinHandle<()>, Gate) {
    let (queue, gate) = (Arc::clone(queue), Gate::new());
    let closed = gate.clone();
    let thread = spawn(move || {
        stop_me_at(at, &closed);
        call(&queue);
    });
    (thread, gate)
}

fn go_on((thread, gate): (JoinHandle<()>, Gate)) {
    gate.open();
    thread.thread().unpark();
    thread.join().unwrap();
}

fn rest<const N: usize>(queue: &KeyQueue<N>) -> Vec<u64> {
    std::iter::from_fn(|| pop(queue)).collect()
}

/// `popped` is what several poppers got, together `expected`; each pusher's handles (by tens) ascend in each list.
fn judge(popped: &[Vec<u64>], expected: &[u64]) {
    let mut all = popped.concat();
    all.sort_unstable();
    assert!(all.windows(2).all(|two| two[0] != two[1]), "popped twice: {popped:?}");
    assert_eq!(all, expected, "lost: {popped:?}");
    for list in popped {
        for (at, handle) in list.iter().enumerate() {
            let later = &list[at..];
            assert!(
                later.iter().all(|other| other / 10 != handle / 10 || other >= handle),
                "out of order: {popped:?}"
            );
        }
    }
}

/// What the handles 1 and 2 stand for.
#[derive(Default)]
struct Payloads([UnsafeCell<u64>; 2]);

impl Payloads {
    #[expect(unsafe_code, reason = "plain memory is what the queue orders")]
    fn write(&self, bits: u64) {
        // SAFETY: the writer is the only one who has the handle; loom judges.
        self.0[bits as usize - 1].with_mut(|payload| unsafe { *payload = 7 });
    }

    #[expect(unsafe_code, reason = "plain memory is what the queue orders")]
    fn read(&self, popped: Handle) {
        // SAFETY: the writer wrote before it pushed; loom judges.
        let payload = self.0[popped.get() as usize - 1].with(|payload| unsafe { *payload });
        assert_eq!(payload, 7);
    }
}

mod bodies {
    use super::*;

    /// Two pushers, two poppers (one is the model's own thread).
    pub(super) fn i2_each_handle_is_popped_once() {
        let queue = queue::<4>();
        let pushers = [pusher(&queue, &[10]), pusher(&queue, &[20])];
        let popper = popper(&queue, 1);
        let mine = Vec::from_iter(pop(&queue));
        let theirs = popper.join().unwrap();
        pushers.into_iter().for_each(|pusher| pusher.join().unwrap());
        judge(&[theirs, mine, rest(&queue)], &[10, 20]);
    }

    pub(super) fn i2_each_handle_of_a_batch_is_popped_once() {
        let queue = queue::<4>();
        push(&queue, 10);
        let pusher = pusher(&queue, &[11]);
        let popper = popper(&queue, 1);
        let mine = pop_batch(&queue, 2);
        let theirs = popper.join().unwrap();
        pusher.join().unwrap();
        judge(&[theirs, mine, rest(&queue)], &[10, 11]);
    }

    pub(super) fn a_pusher_keeps_its_order() {
        let queue = queue::<2>();
        let pushers = [pusher(&queue, &[10, 11]), pusher(&queue, &[20])];
        let mut mine = Vec::from_iter(pop(&queue));
        mine.extend(pop(&queue));
        pushers.into_iter().for_each(|pusher| pusher.join().unwrap());
        mine.extend(rest(&queue));
        judge(&[mine], &[10, 11, 20]);
    }

    pub(super) fn a_batch_keeps_its_order() {
        let queue = queue::<2>();
        let shared = Arc::clone(&queue);
        let batch = spawn(move || shared.push_batch(&[handle(10), handle(11)]));
        let other = pusher(&queue, &[20]);
        let mut mine = Vec::from_iter(pop(&queue));
        mine.extend(pop_batch(&queue, 2));
        batch.join().unwrap();
        other.join().unwrap();
        mine.extend(rest(&queue));
        judge(&[mine], &[10, 11, 20]);
    }

    pub(super) fn what_was_before_a_push_is_before_the_pop() {
        let (queue, payloads) = (queue::<1>(), Arc::new(Payloads::default()));
        let (shared, written) = (Arc::clone(&queue), Arc::clone(&payloads));
        let pusher = spawn(move || {
            for bits in [1, 2] {
                written.write(bits);
                push(&shared, bits);
            }
        });
        for popped in std::iter::repeat_with(|| queue.pop()).take(2).flatten() {
            payloads.read(popped);
        }
        pusher.join().unwrap();
    }

    pub(super) fn what_was_before_a_batch_is_before_the_pop() {
        let (queue, payloads) = (queue::<2>(), Arc::new(Payloads::default()));
        let (shared, written) = (Arc::clone(&queue), Arc::clone(&payloads));
        let pusher = spawn(move || {
            [1, 2].into_iter().for_each(|bits| written.write(bits));
            shared.push_batch(&[handle(1), handle(2)]);
        });
        let mut popped = Vec::new();
        queue.pop_batch(2, &mut popped);
        popped.into_iter().for_each(|popped| payloads.read(popped));
        pusher.join().unwrap();
    }

    /// There are one or two handles in line all the time.
    pub(super) fn nothing_is_found_only_if_there_was_nothing() {
        let queue = queue::<4>();
        push(&queue, 10);
        let shared = Arc::clone(&queue);
        let busy = spawn(move || {
            push(&shared, 11);
            pop(&shared).expect("there are two")
        });
        assert!(pop(&queue).is_some(), "there always was one");
        busy.join().unwrap();
    }

    pub(super) fn a_fence_on_each_side_loses_no_sleeper() {
        let (queue, asleep) = (queue::<2>(), Arc::new(AtomicBool::new(false)));
        let (shared, flag) = (Arc::clone(&queue), Arc::clone(&asleep));
        let pusher = spawn(move || {
            push(&shared, 10);
            if !planted("no fence after the push") {
                fence(SeqCst);
            }
            flag.load(Relaxed)
        });
        asleep.store(true, Relaxed);
        if !planted("no fence before the second look") {
            fence(SeqCst);
        }
        let found = pop(&queue).is_some();
        let woken = pusher.join().unwrap();
        assert!(found || woken, "both missed");
    }

    /// Stopped with a cell reserved: others push and pop, past it.
    pub(super) fn a_stopped_pusher_is_passed() {
        let queue = queue::<2>();
        let pusher = stopped(&queue, "push: reserved", |queue| push(queue, 10));
        push(&queue, 20);
        assert_eq!(pop(&queue), Some(20));
        assert_eq!(pop(&queue), None);
        go_on(pusher);
        assert_eq!(pop(&queue), Some(10));
        assert_eq!(pop(&queue), None);
    }

    /// Stopped after it linked a segment, before `last` leads there.
    pub(super) fn a_stopped_linker_is_passed() {
        let queue = queue::<1>();
        push(&queue, 10);
        let pusher = stopped(&queue, "push: segment linked", |queue| push(queue, 11));
        push(&queue, 20);
        assert_eq!(pop(&queue), Some(10));
        let mut mine = Vec::from_iter(pop(&queue));
        assert_eq!(mine.len(), 1);
        go_on(pusher);
        mine.extend(rest(&queue));
        judge(&[mine], &[11, 20]);
    }

    /// Stopped with a segment used up, at each step of its removal.
    pub(super) fn a_stopped_popper_is_passed() {
        for at in ["pop: used up", "pop: last moved", "pop: first moved"] {
            let queue = queue::<1>();
            push(&queue, 10);
            assert_eq!(pop(&queue), Some(10));
            push(&queue, 11);
            let popper = stopped(&queue, at, |queue| assert!(pop(queue).is_some()));
            push(&queue, 12);
            assert!(pop(&queue).is_some());
            go_on(popper);
        }
    }

    pub(super) fn i4_segments_are_handed_over() {
        let queue = queue::<1>();
        let pushers = [pusher(&queue, &[10, 11]), pusher(&queue, &[20])];
        let mut mine = Vec::from_iter(pop(&queue));
        mine.extend(pop(&queue));
        pushers.into_iter().for_each(|pusher| pusher.join().unwrap());
        mine.extend(rest(&queue));
        judge(&[mine], &[10, 11, 20]);
    }
}
