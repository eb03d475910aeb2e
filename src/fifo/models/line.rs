//! A key stands in line when the call that appended has returned, whoever is stopped (E4), with handles of its time (E5).

use std::future::Future;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

use super::*;
use crate::sync::atomic::{AtomicBool, Ordering};
use crate::sync::model::model;
use crate::sync::thread::yield_now;

use super::super::link::ToLink;
use super::super::word::{Newest, State};

model! { e4_an_add_ends_though_the_first_is_stopped_before_the_line, preemptions: Some(3),
    fails: fails_without_help "no help for a half-linked key" "not in line",
}
model! { e4_an_add_ends_though_the_first_is_stopped_in_line, preemptions: Some(3), }
model! { e4_an_add_ends_though_the_first_is_stopped_with_its_handle_half_pushed, preemptions: Some(3),
    fails: fails_without_help "no help for a half-linked key" "not in line",
}
model! { e4_an_add_wakes_though_the_first_is_stopped_before_its_wake, preemptions: Some(2),
    fails: fails_if_marked_before_the_wake "marked before the wake" "asleep",
    fails: fails_without_help "no help for a half-linked key" "asleep",
}
model! { e4_who_acts_on_a_half_linked_key_helps, preemptions: Some(2),
    fails: fails_without_help "no help for a half-linked key" "not in line",
}
model! { e4_a_sleeper_and_an_add, preemptions: Some(3),
    fails: fails_without_the_notifiers_fence "no notifier fence" "asleep",
    fails: fails_without_a_second_look "no second look" "asleep",
}
model! { e5_a_late_mark_does_not_mark_the_next_period, preemptions: Some(3),
    fails: fails_without_the_generation "no generation in the word" "not in line",
    fails: fails_if_a_handle_must_be_marked "a handle is no good before it is marked" "lost",
    fails: fails_if_a_dirty_key_keeps_it "a dirty key keeps its generation" "not in line",
    fails: fails_without_help "no help for a half-linked key" "not in line",
}
model! { e5_a_stale_handle_takes_no_place, preemptions: Some(3),
    fails: fails_if_a_handle_is_good_for_ever "a handle is good for ever" "out of its place",
    fails: fails_if_a_dirty_key_keeps_it "a dirty key keeps its generation" "out of its place",
}
model! { keys_stand_as_they_became_pending, preemptions: Some(2),
    fails: fails_if_a_batch_is_turned "a batch goes in line from its end" "out of its place",
}

#[derive(Default)]
struct Flag(std::sync::atomic::AtomicBool);

impl Wake for Flag {
    fn wake(self: Arc<Self>) {
        self.0.store(true, std::sync::atomic::Ordering::Relaxed);
    }
}

mod bodies {
    use super::*;

    /// The first add of a key is stopped, or has not begun: the second is popped.
    fn an_add_ends(at: &'static str) {
        let queue = Queue::new();
        let first = queue.stopped(at, |queue| queue.add(1, 10).unwrap());
        queue.add(1, 20).unwrap();
        let mine = pop(&queue).expect("not in line");
        assert!(mine.1.contains(&20), "lost");
        go_on(first);
        let mut all = of_key(1, [mine].into_iter().chain(rest(&queue)));
        all.sort_unstable();
        assert_eq!(all, [10, 20], "lost, or doubled");
    }

    pub(super) fn e4_an_add_ends_though_the_first_is_stopped_before_the_line() {
        an_add_ends("link: owed");
    }

    pub(super) fn e4_an_add_ends_though_the_first_is_stopped_in_line() {
        an_add_ends("link: in line");
    }

    /// In the key queue, with a cell reserved.
    pub(super) fn e4_an_add_ends_though_the_first_is_stopped_with_its_handle_half_pushed() {
        an_add_ends("push: reserved");
    }

    /// A task sleeps, and who helps is stopped before the wake, too.
    pub(super) fn e4_an_add_wakes_though_the_first_is_stopped_before_its_wake() {
        let queue = Queue::new();
        let flag = Arc::new(Flag::default());
        let waker = Waker::from(Arc::clone(&flag));
        let mut task = Box::pin(queue.pop_async());
        assert!(task.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
        let first = queue.stopped("link: owed", |queue| queue.add(1, 10).unwrap());
        let helper = queue.stopped("link: in line", |queue| queue.add(1, 15).unwrap());
        queue.add(1, 20).unwrap();
        assert!(flag.0.load(std::sync::atomic::Ordering::Relaxed), "asleep");
        drop(task);
        go_on(helper);
        go_on(first);
        rest(&queue);
    }

    /// A resync that appends nothing, as the key is pending, says so when it is in line.
    pub(super) fn e4_who_acts_on_a_half_linked_key_helps() {
        let queue = Queue::new();
        queue.add(1, 1).unwrap();
        pop(&queue);
        let first = queue.stopped("link: owed", |queue| queue.update(1, 10).unwrap());
        let _appended = queue.resync_key(1).unwrap();
        let mine = pop(&queue).expect("not in line");
        go_on(first);
        let all = of_key(1, [mine].into_iter().chain(rest(&queue)));
        assert_eq!(all.iter().filter(|number| **number == 10).count(), 1, "lost, or doubled");
    }

    pub(super) fn e4_a_sleeper_and_an_add() {
        let queue = Queue::new();
        let adder = queue.thread(|queue| queue.add(1, 10).unwrap());
        let flag = Arc::new(Flag::default());
        let waker = Waker::from(Arc::clone(&flag));
        let mut task = Box::pin(queue.pop_async());
        let polled = task.as_mut().poll(&mut Context::from_waker(&waker));
        adder.join().unwrap();
        let woken = flag.0.load(std::sync::atomic::Ordering::Relaxed);
        match polled {
            Poll::Ready(lease) => lease.unwrap().done(),
            Poll::Pending => assert!(woken, "asleep"),
        }
        drop(task);
        rest(&queue);
    }

    /// A lease takes the key before who helped has marked it, and ends dirty; its holder is stopped before the line.
    pub(super) fn e5_a_late_mark_does_not_mark_the_next_period() {
        let queue = Queue::new();
        let first = queue.stopped("link: owed", |queue| queue.add(1, 10).unwrap());
        yield_now();
        let Some(link) = half_linked(&queue) else {
            go_on(first);
            return drop(rest(&queue));
        };
        let helper = queue.thread(move |queue| queue.link(link, &epoch::pin()));
        let Ok(lease) = queue.try_pop() else {
            helper.join().unwrap();
            go_on(first);
            return drop(rest(&queue));
        };
        queue.add(1, 20).unwrap();
        let ended = stop_before_the_line(&queue, lease);
        queue.add(1, 30).unwrap();
        let mine = pop(&queue).expect("not in line");
        assert_eq!(mine.1, [20, 30], "lost");
        helper.join().unwrap();
        queue.mark_queued(ended, &epoch::pin());
        go_on(first);
        assert_eq!(rest(&queue), [], "doubled");
    }

    /// The key on its way into the line, for who helps the one that owes that; if it has come so far.
    fn half_linked(queue: &Fifo) -> Option<ToLink> {
        let guard = epoch::pin();
        let entry = queue.core.shards[0].find_entry(queue.hash(&1), &1, &guard)?;
        let link = ToLink::new(0, entry.index(), entry.word());
        (entry.word().state() == State::Linking).then_some(ToLink { marks: true, ..link })
    }

    /// The first half of the end of a lease, which stops there.
    fn stop_before_the_line(queue: &Fifo, lease: Lease<'_, Fifo>) -> ToLink {
        let held = lease.into_held();
        let entry = queue.core.shards[0].entries.get(held.tenure.index());
        let (index, mut tenure) = (held.tenure.index(), held.tenure);
        loop {
            let word = entry.word();
            assert_eq!(word.state(), State::Leased);
            let next = word.finish(Newest::Live, true);
            match entry.end(tenure, word, next) {
                Ok(()) => {
                    queue.ended(0);
                    return ToLink::new(0, index, next);
                }
                Err(back) => tenure = back,
            }
        }
    }

    /// Two handles; the key becomes pending again after another one, behind which it stands.
    pub(super) fn e5_a_stale_handle_takes_no_place() {
        let queue = Queue::new();
        queue.add(1, 10).unwrap();
        once_more(&queue);
        let added = Arc::new(AtomicBool::new(false));
        let set = Arc::clone(&added);
        let adder = queue.thread(move |queue| {
            queue.add(2, 10).unwrap();
            set.store(true, Ordering::Release);
        });
        let lease = queue.try_pop().unwrap();
        queue.add(1, 20).unwrap();
        let before = added.load(Ordering::Acquire);
        lease.done();
        let first = pop(&queue);
        adder.join().unwrap();
        assert!(first.is_some(), "not in line");
        if before {
            assert_eq!(first, Some((2, vec![10])), "out of its place");
        }
        rest(&queue);
    }

    /// A batch against the add of its first key: the first of them stands first, whoever put it there.
    pub(super) fn keys_stand_as_they_became_pending() {
        use crate::delta::Change;
        let queue = Queue::new();
        let adder = queue.thread(|queue| {
            queue.change_all([Change::Add(1, 10), Change::Add(2, 10)]).unwrap();
        });
        queue.add(1, 20).unwrap();
        adder.join().unwrap();
        let keys: Vec<u32> = rest(&queue).into_iter().map(|(key, _)| key).collect();
        assert_eq!(keys, [1, 2], "out of its place");
    }
}
