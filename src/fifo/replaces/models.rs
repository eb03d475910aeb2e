//! The first sync, ends of replaces and the last completion under loom, each with the broken twins that show that its
//! model can see what it looks for. loom remembers only the last access to an atomic, so a thread that loads one before
//! it writes it hides races with others' loads: the code under test does not do so where that would hide one.
//!
//! `RUSTFLAGS="--cfg delta_fifo_loom" cargo test --release --lib replaces -- --nocapture` prints what each explored.

use super::{Debts, Progress, Replaces};
use crate::sync::Arc;
use crate::sync::cell::UnsafeCell;
use crate::sync::model::model;
use crate::sync::thread::spawn;

model! { the_first_sync_comes_after_all_completions, preemptions: Some(3),
    fails: fails_without_a_bias "no bias" "too early",
    fails: fails_if_completed_relaxed "a relaxed completion" "Causality violation",
    fails: fails_if_published_relaxed "the first sync is relaxed" "Causality violation",
    fails: fails_if_read_relaxed "the first is read relaxed" "Causality violation",
}
model! { the_last_completion_and_the_commit, preemptions: None,
    fails: fails_without_a_bias "no bias" "once",
}
model! { a_complete_replace_has_synced, preemptions: None,
    fails: fails_if_the_batch_goes_first "the batch goes before the first sync" "complete and not synced",
}
model! { who_sees_it_complete_sees_what_was_done, preemptions: None,
    fails: fails_if_answered_relaxed "a relaxed answer" "Causality violation",
}
model! { a_change_decides_when_the_first_is_dropped, preemptions: None,
    fails: fails_if_a_drop_is_a_store "a drop is a store" "the change is lost",
}
model! { a_change_decides_when_a_close_drops_the_first, preemptions: None,
    fails: fails_if_a_drop_is_a_store "a drop is a store" "the change is lost",
}
model! { the_next_replace_is_the_first_after_a_drop, preemptions: None, }
model! { who_sees_the_newest_sees_it_open, preemptions: None,
    fails: fails_if_shown_too_early "the newest before the oldest" "not open",
    fails: fails_if_read_relaxed "the newest is read relaxed" "not open",
}
model! { who_sees_none_running_sees_the_list, preemptions: None,
    fails: fails_if_read_relaxed "running is read relaxed" "Causality violation",
}
model! { delivered_follows_synced, preemptions: Some(3), }
model! { who_sees_it_delivered_sees_what_was_done, preemptions: None,
    fails: fails_if_read_relaxed "the first is read again relaxed" "Causality violation",
}
model! { who_sees_it_synced_sees_the_change, preemptions: None,
    fails: fails_if_decided_relaxed "a change decides relaxed" "Causality violation",
    fails: fails_if_read_relaxed "the first is read relaxed" "Causality violation",
}

fn replaces() -> Arc<Replaces> {
    Arc::new(Replaces::new(0, false))
}

fn one_fact() -> Debts {
    let mut debts = Debts::default();
    debts.add(1, 1);
    debts
}

fn done(progress: Progress) -> bool {
    progress.is_made()
}

mod bodies {
    use super::*;

    /// A list of two facts, a consumer for each; what they did is visible to who sees the first sync.
    pub(super) fn the_first_sync_comes_after_all_completions() {
        let replaces = replaces();
        let done: [_; 2] = std::array::from_fn(|_| Arc::new(UnsafeCell::new(())));
        let open = replaces.begin(None, false).unwrap();
        replaces.owe(1);
        let consumer = |index: usize| {
            let (replaces, done) = (Arc::clone(&replaces), Arc::clone(&done[index]));
            spawn(move || {
                done.with_mut(|_| ());
                let _ = replaces.complete(&one_fact());
            })
        };
        let first = consumer(0);
        if crate::sync::planted("no bias") {
            first.join().unwrap();
            assert!(!replaces.synced(), "too early");
            return;
        }
        replaces.owe(1);
        let second = consumer(1);
        let _ = replaces.commit(&open);
        if replaces.synced() {
            done.iter().for_each(|done| done.with(|_| ()));
        }
        first.join().unwrap();
        second.join().unwrap();
        assert!(replaces.synced() && replaces.delivered(), "never");
        assert_eq!(replaces.is_complete(1), Some(true));
    }

    pub(super) fn the_last_completion_and_the_commit() {
        let replaces = replaces();
        let open = replaces.begin(None, false).unwrap();
        replaces.owe(1);
        let consumer = {
            let replaces = Arc::clone(&replaces);
            spawn(move || done(replaces.complete(&one_fact())))
        };
        let committer = {
            let replaces = Arc::clone(&replaces);
            spawn(move || {
                let before = replaces.synced();
                assert!(done(replaces.commit(&open)));
                assert!(!done(replaces.commit(&open)) && !done(replaces.abort(&open)));
                before
            })
        };
        consumer.join().unwrap();
        assert!(!committer.join().unwrap(), "synced more than once, or before the commit");
        assert!(replaces.synced() && !replaces.is_awaited(1));
        assert!(!replaces.running() && replaces.oldest_open() == u64::MAX);
    }

    fn while_completed(look: impl Fn(&Replaces, &UnsafeCell<()>)) {
        let replaces = replaces();
        let work = Arc::new(UnsafeCell::new(()));
        let open = replaces.begin(None, false).unwrap();
        replaces.owe(1);
        let _ = replaces.commit(&open);
        let consumer = {
            let (replaces, work) = (Arc::clone(&replaces), Arc::clone(&work));
            spawn(move || {
                work.with_mut(|_| ());
                assert!(done(replaces.complete(&one_fact())));
            })
        };
        look(&replaces, &work);
        consumer.join().unwrap();
    }

    fn complete_then(look: impl Fn(&Replaces, &UnsafeCell<()>)) {
        while_completed(|replaces, work| {
            if replaces.is_complete(1) == Some(true) {
                look(replaces, work);
            }
        });
    }

    pub(super) fn a_complete_replace_has_synced() {
        complete_then(|replaces, _| assert!(replaces.synced(), "complete and not synced"));
    }

    pub(super) fn who_sees_it_complete_sees_what_was_done() {
        complete_then(|_, work| work.with(|_| ()));
    }

    pub(super) fn who_sees_it_delivered_sees_what_was_done() {
        while_completed(|replaces, work| {
            if replaces.delivered() {
                work.with(|_| ());
            }
        });
    }

    pub(super) fn who_sees_it_synced_sees_the_change() {
        let (replaces, change) = (replaces(), Arc::new(UnsafeCell::new(())));
        let asking = {
            let (replaces, change) = (Arc::clone(&replaces), Arc::clone(&change));
            spawn(move || {
                if replaces.synced() {
                    change.with(|_| ());
                }
            })
        };
        change.with_mut(|_| ());
        assert!(replaces.change());
        asking.join().unwrap();
    }

    pub(super) fn a_change_decides_when_the_first_is_dropped() {
        let replaces = replaces();
        let open = replaces.begin(None, true).unwrap();
        let producer = {
            let replaces = Arc::clone(&replaces);
            spawn(move || replaces.change())
        };
        let other = {
            let replaces = Arc::clone(&replaces);
            spawn(move || replaces.change())
        };
        let _ = replaces.abort(&open);
        let now = producer.join().unwrap();
        assert!(!(now & other.join().unwrap()), "synced twice");
        assert!(replaces.synced() && replaces.delivered() && replaces.can_sync(), "the change is lost");
    }

    pub(super) fn a_change_decides_when_a_close_drops_the_first() {
        let replaces = replaces();
        let open = replaces.begin(None, true).unwrap();
        let producer = {
            let replaces = Arc::clone(&replaces);
            spawn(move || replaces.change())
        };
        let committer = {
            let replaces = Arc::clone(&replaces);
            spawn(move || {
                let committed = done(replaces.commit(&open));
                assert_eq!(committed, !open.is_cut());
            })
        };
        let _ = replaces.close();
        producer.join().unwrap();
        committer.join().unwrap();
        assert!(replaces.synced(), "the change is lost");
        assert!(replaces.begin(None, false).is_err());
    }

    pub(super) fn the_next_replace_is_the_first_after_a_drop() {
        let replaces = replaces();
        let open = replaces.begin(None, true).unwrap();
        let next = {
            let replaces = Arc::clone(&replaces);
            spawn(move || {
                if let Ok(next) = replaces.begin(None, false) {
                    assert!(replaces.is_first(2), "the second is not the first");
                    let _ = replaces.commit(&next);
                    assert!(replaces.synced());
                }
            })
        };
        let _ = replaces.abort(&open);
        let _ = replaces.delivered() | replaces.can_sync();
        next.join().unwrap();
        assert_eq!(replaces.synced(), replaces.newest() == 2);
    }

    pub(super) fn who_sees_the_newest_sees_it_open() {
        let replaces = replaces();
        let beginner = {
            let replaces = Arc::clone(&replaces);
            spawn(move || replaces.begin(None, true).unwrap())
        };
        if replaces.newest() == 1 {
            assert!(replaces.oldest_open() <= 1, "not open");
            assert!(replaces.is_awaited(1) && replaces.is_first(1));
        }
        let open = beginner.join().unwrap();
        let _ = replaces.abort(&open);
        assert_eq!(replaces.oldest_open(), u64::MAX);
    }

    pub(super) fn who_sees_none_running_sees_the_list() {
        let replaces = replaces();
        let list = Arc::new(UnsafeCell::new(()));
        let open = replaces.begin(None, false).unwrap();
        let replacer = {
            let (replaces, list) = (Arc::clone(&replaces), Arc::clone(&list));
            spawn(move || {
                list.with_mut(|_| ());
                let _ = replaces.commit(&open);
            })
        };
        if !replaces.running() {
            list.with(|_| ());
        }
        replacer.join().unwrap();
    }

    /// Asked while the batch is settled and taken away; a requeue in between delivers and does not complete.
    pub(super) fn delivered_follows_synced() {
        let replaces = replaces();
        let open = replaces.begin(None, false).unwrap();
        replaces.owe(1);
        let _ = replaces.commit(&open);
        let consumer = {
            let replaces = Arc::clone(&replaces);
            spawn(move || {
                let mut debts = one_fact();
                let _ = replaces.deliver(&mut debts);
                assert!(!replaces.synced() && replaces.delivered());
                let _ = replaces.complete(&debts);
            })
        };
        let (synced, delivered) = (replaces.synced(), replaces.delivered());
        assert!(delivered || !synced, "synced and not delivered");
        assert!(replaces.can_sync());
        consumer.join().unwrap();
        assert!(replaces.synced() && replaces.delivered());
    }
}
