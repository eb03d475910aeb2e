//! The invariants under loom, each with the broken twins that show that its model can see what it looks for.

use std::mem::ManuallyDrop;

use super::{Pool, Shared};
use crate::slab::Index;
use crate::sync::atomic::AtomicU32;
use crate::sync::atomic::Ordering::Relaxed;
use crate::sync::model::model;
use crate::sync::thread::spawn;
use crate::sync::{Arc, Canary};

model! { i1_the_last_drop_is_after_every_use, preemptions: None,
    fails: fails_if_dropped_relaxed "a reference is dropped by a relaxed subtraction" "Causality violation",
    fails: fails_if_the_last_does_not_acquire "the last does not acquire" "Causality violation",
}
model! { i1_a_hold_comes_before_the_last_drop_or_not_at_all, preemptions: None,
    fails: fails_if_it_revives "a hold revives" "Causality violation",
}
model! { i1_what_is_retracted_was_let_go_of, preemptions: None,
    fails: fails_if_retracted_relaxed "a draft is retracted relaxed" "Causality violation",
}
model! { i2_what_is_held_is_as_it_was_drafted, preemptions: None,
    fails: fails_if_published_relaxed "published by a relaxed store" "Causality violation",
    fails: fails_if_held_relaxed "a hold is relaxed" "Causality violation",
}
model! { i3_the_dead_are_buried_once, preemptions: Some(3),
    fails: fails_if_pushed_relaxed "the dead are pushed by a relaxed exchange" "Causality violation",
    fails: fails_if_taken_relaxed "the dead are taken by a relaxed swap" "Causality violation",
}
model! { i4_the_memory_goes_with_the_last_cell, preemptions: Some(3),
    fails: fails_if_some_are_forgotten "those before the count are forgotten" "leaked",
    fails: fails_if_the_pool_takes_it "a pool takes its memory along" "Causality violation",
    fails: fails_if_counted_relaxed "a cell is counted down by a relaxed subtraction" "Causality violation",
}

/// Each is dropped once, or loom reports a leak.
struct Value(u32, Canary);

impl Value {
    fn new(number: u32) -> Self {
        Value(number, Canary::new())
    }
}

impl Drop for Value {
    fn drop(&mut self) {
        self.1.touch();
    }
}

fn share(pool: &Pool<Value>, number: u32) -> Shared<Value> {
    pool.draft(Some(Value::new(number))).share()
}

mod bodies {
    use super::*;

    pub(super) fn i1_the_last_drop_is_after_every_use() {
        let mine = Shared::<Value>::alone(Value::new(1));
        let theirs = mine.clone();
        let other = spawn(move || {
            theirs.1.touch();
            assert_eq!(theirs.clone().0, 1);
        });
        mine.1.touch();
        drop(mine);
        other.join().unwrap();
    }

    /// The holder knows an index that is none any more.
    pub(super) fn i1_a_hold_comes_before_the_last_drop_or_not_at_all() {
        let pool = Arc::new(Pool::new());
        let shared = share(&pool, 1);
        let index = pool.index_of(&shared);
        let holder = Arc::clone(&pool);
        let other = spawn(move || {
            if let Some(held) = holder.hold(index) {
                // Kept while the twin fails: its drop would fail again.
                let held = ManuallyDrop::new(held);
                assert!(held.value().is_some(), "held nothing");
                drop(ManuallyDrop::into_inner(held));
            }
        });
        drop(shared);
        other.join().unwrap();
        assert!(pool.hold(index).is_none());
    }

    /// The holder was told an index that is not published after all.
    pub(super) fn i1_what_is_retracted_was_let_go_of() {
        let (pool, told) = (Arc::new(Pool::<Value>::new()), Arc::new(AtomicU32::new(0)));
        drop(share(&pool, 1));
        let (shared, tell) = (Arc::clone(&pool), Arc::clone(&told));
        let holder = spawn(move || {
            if let Some(held) = Index::new(tell.load(Relaxed)).and_then(|index| shared.hold(index)) {
                held.1.touch();
            }
        });
        let mut draft = pool.draft(Some(Value::new(2)));
        draft.expose();
        told.store(draft.index().get(), Relaxed);
        match draft.into_value() {
            Ok(value) => assert_eq!(value.map(|value| value.0), Some(2)),
            Err(draft) => drop(draft),
        }
        holder.join().unwrap();
    }

    /// The index is told without an edge; the cell was used before.
    pub(super) fn i2_what_is_held_is_as_it_was_drafted() {
        let (pool, told) = (Arc::new(Pool::<Value>::new()), Arc::new(AtomicU32::new(0)));
        drop(share(&pool, 1));
        let (shared, tell) = (Arc::clone(&pool), Arc::clone(&told));
        let other = spawn(move || {
            let draft = shared.draft(Some(Value::new(2)));
            tell.store(draft.index().get(), Relaxed);
            draft.share()
        });
        if let Some(held) = Index::new(told.load(Relaxed)).and_then(|index| pool.hold(index)) {
            assert_eq!(held.0, 2);
        }
        drop(other.join().unwrap());
    }

    pub(super) fn i3_the_dead_are_buried_once() {
        let pool = Arc::new(Pool::new());
        let (one, two) = (share(&pool, 1), share(&pool, 2));
        let other = {
            let pool = Arc::clone(&pool);
            spawn(move || {
                one.1.touch();
                pool.release_later(one);
                pool.bury_dead();
            })
        };
        pool.release_later(two);
        pool.bury_dead();
        other.join().unwrap();
        assert!(!pool.has_dead());
        drop(share(&pool, 3));
    }

    /// One cell is free, two are out when the pool goes.
    pub(super) fn i4_the_memory_goes_with_the_last_cell() {
        let pool = Pool::new();
        let (one, two, three) = (share(&pool, 1), share(&pool, 2), share(&pool, 3));
        drop(three);
        let first = spawn(move || drop(one));
        let second = spawn(move || drop(two));
        drop(pool);
        first.join().unwrap();
        second.join().unwrap();
    }
}
