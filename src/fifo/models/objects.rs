//! Who owns an object (E3, R4): facts, given-back deltas, leases, versions and readers. Each is dropped once, when all have
//! let go.

use super::*;
use crate::delta::Compression;
use crate::known::KnownView;
use crate::sync::Canary;
use crate::sync::model::model;

model! { r4_an_object_lives_while_it_is_known_lent_or_read, preemptions: Some(2),
    fails: fails_if_a_version_owns_nothing "a version owns nothing" "another object",
    fails: fails_if_looked_at_once "a version is looked at once" "another object",
    fails: fails_if_the_one_before_is_forgotten "the version before is forgotten" "leaked",
}
model! { v2_a_lease_shows_what_its_version_owns, preemptions: Some(3),
    fails: fails_if_it_is_dropped "what is lent is dropped" "exceeded maximum number of branches",
    fails: fails_if_it_is_given_back "what is lent is given back" "the cell has a value",
}
model! { e3_a_merge_meets_a_lease, preemptions: Some(2),
    fails: fails_if_the_word_is_stored "the word is stored" "doubled",
}
model! { e3_two_merges_meet, preemptions: Some(2),
    fails: fails_if_the_word_is_stored "the word is stored" "the cell has a value",
}

/// Touched when it is read and when it is dropped; one that is never dropped is a leak.
pub(super) struct Object(u32, Canary);

#[expect(unsafe_code, reason = "the model checker's cells are for one thread, on which it runs them all")]
// SAFETY: a model's threads take turns on the thread that called it.
unsafe impl Send for Object {}
#[expect(unsafe_code, reason = "as above")]
// SAFETY: as above.
unsafe impl Sync for Object {}

impl Object {
    pub(super) fn new(number: u32) -> Self {
        Object(number, Canary::new())
    }

    pub(super) fn read(&self) -> u32 {
        self.1.touch();
        self.0
    }
}

impl Drop for Object {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.1.touch();
        }
    }
}

fn read(lease: &Lease<'_, Fifo<Object>>) -> Vec<u32> {
    lease.deltas().iter().map(|delta| delta.object().expect("each has one").read()).collect()
}

pub(super) fn pop_all(queue: &Fifo<Object>) -> Vec<Vec<u32>> {
    let pop = || queue.try_pop().ok();
    let done = |lease: Lease<'_, Fifo<Object>>| {
        let numbers = read(&lease);
        lease.done();
        numbers
    };
    std::iter::from_fn(pop).take(4).map(done).collect()
}

mod bodies {
    use super::*;

    /// A key's object is replaced, and its cell used by another key, while somebody reads it.
    pub(super) fn r4_an_object_lives_while_it_is_known_lent_or_read() {
        let queue = Queue::<Object>::new();
        queue.add(1, Object::new(10)).unwrap();
        pop_all(&queue);
        let reader = queue.thread(|queue| queue.known().get_with(&1, Object::read));
        queue.update(1, Object::new(11)).unwrap();
        assert_eq!(pop_all(&queue), [[11]]);
        queue.add(2, Object::new(20)).unwrap();
        let seen = reader.join().unwrap().expect("it is known all the time");
        assert!([10, 11].contains(&seen), "another object: {seen}");
        assert_eq!(pop_all(&queue), [[20]]);
    }

    /// A lease whose object is lent by the version comes back, or ends, while the next one replaces it and drops it.
    pub(super) fn v2_a_lease_shows_what_its_version_owns() {
        let queue = Queue::<Object>::new();
        queue.add(1, Object::new(10)).unwrap();
        queue.try_pop().unwrap().requeue();
        let consumer = queue.thread(pop_all);
        queue.update(1, Object::new(11)).unwrap();
        let mine = pop_all(&queue);
        let theirs = consumer.join().unwrap();
        let mut all = [mine, theirs, pop_all(&queue)].concat().concat();
        all.sort_unstable();
        assert_eq!(all, [10, 11], "lost, or doubled");
        // A reader would look for ever for an object that is gone.
        assert_eq!(queue.known().get_with(&1, Object::read), Some(11));
    }

    /// Only the newest is kept: it takes the place of one that is about to be leased.
    pub(super) fn e3_a_merge_meets_a_lease() {
        let queue = Queue::<Object>::built(|builder| builder.compression(Compression::Latest));
        queue.add(1, Object::new(10)).unwrap();
        let producer = queue.thread(|queue| queue.update(1, Object::new(11)).unwrap());
        let mine = pop_all(&queue);
        producer.join().unwrap();
        let all = [mine, pop_all(&queue)].concat().concat();
        assert!(all == [11] || all == [10, 11], "lost, or doubled: {all:?}");
    }

    pub(super) fn e3_two_merges_meet() {
        let queue = Queue::<Object>::built(|builder| builder.compression(Compression::Latest));
        queue.add(1, Object::new(10)).unwrap();
        let producer = queue.thread(|queue| queue.delete(1, Object::new(11)).unwrap());
        queue.update(1, Object::new(12)).unwrap();
        producer.join().unwrap();
        let all = pop_all(&queue).concat();
        assert!(all == [11] || all == [11, 12], "lost, or doubled: {all:?}");
    }
}
