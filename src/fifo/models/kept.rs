//! Lists of versions that stay, with no queue around them (K1, K2, K4).

use super::objects::Object;
use super::*;
use crate::delta;
use crate::fifo::Objects;
use crate::fifo::epochs::{Epochs, Watched};
use crate::fifo::kept::{self, Kept};
use crate::slab::Index;
use crate::sync::atomic::AtomicUsize;
use crate::sync::model::model;
use crate::sync::stopped::stop_me_at;
use crate::sync::thread::yield_now;

model! { k1_a_version_is_put_while_its_list_comes_due, preemptions: Some(3),
    fails: fails_if_put_relaxed "a version is put in a list relaxed" "an index that was never handed out",
}
model! { k1_a_chain_comes_on_top_of_another, preemptions: Some(3),
    fails: fails_if_pushed_relaxed "a chain is pushed relaxed" "lost, or found twice",
    fails: fails_if_read_relaxed "a chain is read relaxed" "lost, or found twice",
    fails: fails_if_it_comes_first_relaxed "a chain that came first is read relaxed" "lost, or found twice",
}
model! { k4_a_chain_is_read_while_others_take_it, preemptions: Some(2),
    fails: fails_without_the_tag "a chain is taken and leaves the tag" "found twice",
}

type Version = delta::Object<Object>;

struct Lists {
    objects: Objects<Object>,
    lists: kept::Lists,
    kept: Kept,
    chains: AtomicUsize,
    watched: Watched,
}

impl Lists {
    fn new() -> Self {
        let epochs = Epochs::new();
        epochs.begin(|_| ());
        let watched = epochs.watched(1, 2).expect("it has begun");
        Lists {
            objects: Objects::new(),
            lists: kept::Lists::new(1),
            kept: Kept::new(0),
            chains: AtomicUsize::new(0),
            watched,
        }
    }

    fn version(&self, number: u32) -> Version {
        self.objects.draft(Some(Object::new(number))).share()
    }

    /// As of the entry of its number.
    fn put(&self, version: Version) {
        let entry = Index::new(version.read()).expect("not 0");
        self.kept.put(&self.lists, &self.objects, version, entry, self.watched);
    }

    fn make_due(&self) {
        self.kept.make_due(&self.lists, &self.objects, self.watched.watch, &self.chains);
    }

    /// Of those that are due.
    fn take(&self, max: usize) -> Vec<Version> {
        let batch = self.kept.take_due(&self.objects, max, &self.chains);
        let versions = batch.into_iter().flat_map(|batch| batch.versions(&self.objects));
        versions.map(|(version, entry)| check(version, entry)).collect()
    }
}

fn check(version: Version, entry: Index) -> Version {
    assert_eq!(version.read(), entry.get(), "of another entry");
    version
}

/// Each once.
fn all_are_found(found: &[Version], expected: &[u32]) {
    let mut found: Vec<_> = found.iter().map(|version| version.read()).collect();
    found.sort_unstable();
    assert_eq!(found, expected, "lost, or found twice");
}

mod bodies {
    use super::*;

    pub(super) fn k1_a_version_is_put_while_its_list_comes_due() {
        let lists = Arc::new(Lists::new());
        lists.put(lists.version(1));
        let keeper = {
            let lists = Arc::clone(&lists);
            spawn(move || lists.put(lists.version(2)))
        };
        lists.make_due();
        let mut found = lists.take(2);
        keeper.join().unwrap();
        lists.make_due();
        found.extend(lists.take(1));
        found.extend(lists.take(1));
        all_are_found(&found, &[1, 2]);
        assert!(lists.take(1).is_empty());
    }

    /// While somebody takes the other, and then both.
    pub(super) fn k1_a_chain_comes_on_top_of_another() {
        let lists = Arc::new(Lists::new());
        lists.put(lists.version(1));
        lists.make_due();
        lists.put(lists.version(2));
        let ender = {
            let lists = Arc::clone(&lists);
            spawn(move || lists.make_due())
        };
        let mut found = lists.take(1);
        found.extend(lists.take(1));
        ender.join().unwrap();
        found.extend(lists.take(1));
        all_are_found(&found, &[1, 2]);
    }

    /// The first one is there again when the reader goes on; what was the second is in other hands.
    pub(super) fn k4_a_chain_is_read_while_others_take_it() {
        let lists = Arc::new(Lists::new());
        for number in [1, 2] {
            lists.put(lists.version(number));
            lists.make_due();
        }
        let gate = Gate::new();
        let reader = {
            let (lists, gate) = (Arc::clone(&lists), gate.clone());
            spawn(move || {
                stop_me_at("kept: chain read", &gate);
                lists.take(1)
            })
        };
        yield_now();
        let mut found = lists.take(1);
        found.extend(lists.take(1));
        if found.len() == 2 {
            lists.put(found.remove(0));
            lists.make_due();
        }
        gate.open();
        reader.thread().unpark();
        found.extend(reader.join().unwrap());
        found.extend(lists.take(1));
        found.extend(lists.take(1));
        all_are_found(&found, &[1, 2]);
    }
}
