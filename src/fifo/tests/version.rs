//! Versions and limbo, by one thread but for a reader that is stopped.

use std::sync::Arc;

use crate::delta::Object;
use crate::fifo::Objects;
use crate::fifo::chain;
use crate::fifo::entry::Entries;
use crate::fifo::epochs::{Epochs, Moment};
use crate::fifo::limbo::Limbo;
use crate::fifo::version::{Installed, Version};
use crate::queue::DeltaQueue;
use crate::slab::Index;
use crate::sync::epoch;
use crate::sync::stopped::{Gate, stop_me_at, stop_me_at_passage};

use super::stopped::{arrives, go_on};

/// The objects of a shard, and the versions of one key.
struct Known {
    objects: Objects<Arc<u8>>,
    epochs: Epochs,
    version: Version,
}

impl Known {
    fn new() -> Self {
        Known { objects: Objects::new(), epochs: Epochs::new(), version: Version::default() }
    }

    /// A reference that a version can own.
    fn keep(&self, object: &Arc<u8>) -> Index {
        chain::keep(&self.objects, self.objects.draft(Some(Arc::clone(object))).share())
    }

    /// Makes it the known object, and lets go of the one before.
    fn set(&self, object: Option<&Arc<u8>>) -> Installed<Arc<u8>> {
        let object = object.map(|object| self.keep(object));
        self.version.install(
            &self.objects,
            &self.epochs,
            object.map(|at| (at, self.objects.head(at))),
            &mut Vec::new(),
        )
    }

    fn read(&self) -> Option<u8> {
        self.version.object(&self.objects, &self.epochs).map(|object| **object)
    }

    fn read_at(&self, moment: Moment) -> Option<u8> {
        let glance = self.version.glance(&self.objects)?;
        let shown = self.version.in_view(&glance, &self.objects, &self.epochs, moment.epoch())?;
        shown.object().map(|object| **object)
    }

    /// How many objects went.
    fn trim(&self) -> usize {
        let mut gone = Vec::<Object<Arc<u8>>>::new();
        self.version.trim(&self.objects, &self.epochs, &mut gone, |_, _| ());
        gone.into_iter().filter_map(Object::into_inner).count()
    }
}

impl Drop for Known {
    fn drop(&mut self) {
        self.version.dismantle(&self.objects).for_each(drop);
    }
}

#[test]
fn v_of_nothing_there_is_no_object() {
    let known = Known::new();
    assert!(!known.version.exists());
    assert_eq!(
        (known.version.index(), known.read(), known.version.has_older(&known.objects)),
        (None, None, false)
    );
}

#[test]
fn v2_the_version_owns_one_reference() {
    let known = Known::new();
    let (first, second) = (Arc::new(1), Arc::new(2));
    known.set(Some(&first));
    let reader = known.version.object(&known.objects, &known.epochs).expect("there is an object");
    known.set(Some(&second));
    assert_eq!((**reader, Arc::strong_count(&first)), (1, 2), "a reader's is the reader's");
    drop(reader);
    assert_eq!(Arc::strong_count(&first), 1);
    // The cell is another object's by now; the version does not care.
    let other = known.objects.draft(Some(Arc::new(9))).share();
    assert_eq!(known.read(), Some(2));
    drop(other);
    let old = known.set(None).before.expect("the second is handed back");
    assert_eq!((known.version.exists(), Arc::strong_count(&second)), (false, 2));
    drop(old);
    assert_eq!(Arc::strong_count(&second), 1);
}

/// A reader is stopped at `point` when the object is 1. What it reads after `meanwhile`.
fn read_around(point: &'static str, meanwhile: impl FnOnce(&Known)) -> Option<u8> {
    let known = Arc::new(Known::new());
    known.set(Some(&Arc::new(1)));
    let (gate, read) = (Gate::new(), Arc::new(std::sync::Mutex::new(None)));
    let reader = std::thread::spawn({
        let (known, gate, read) = (Arc::clone(&known), gate.clone(), Arc::clone(&read));
        move || {
            stop_me_at(point, &gate);
            *read.lock().unwrap() = Some(known.read());
        }
    });
    assert!(arrives(&reader, &gate));
    meanwhile(&known);
    go_on(reader, &gate);
    read.lock().unwrap().expect("it has read")
}

#[test]
fn v4_a_snapshot_shows_what_was_there_when_it_began() {
    let known = Known::new();
    let before = known.epochs.begin(|_| ());
    let moments: Vec<_> = (1..=3_u8)
        .map(|number| {
            known.set(Some(&Arc::new(number)));
            known.set(Some(&Arc::new(10 * number)));
            known.epochs.begin(|_| ())
        })
        .collect();
    known.set(None);
    let deleted = known.epochs.begin(|_| ());
    known.set(Some(&Arc::new(4)));
    let shown = |known: &Known| moments.iter().map(|at| known.read_at(*at)).collect::<Vec<_>>();
    assert_eq!(shown(&known), [Some(10), Some(20), Some(30)]);
    assert_eq!((known.read_at(before), known.read_at(deleted), known.read()), (None, None, Some(4)));
    // One version for each of them, and each goes with its snapshot.
    assert_eq!(known.trim(), 0);
    for (gone, moment) in [1, 0, 2].into_iter().map(|at| (at, moments[at])) {
        known.epochs.end(moment, |_| ());
        assert_eq!(known.trim(), 1, "that of {gone}");
    }
    assert_eq!((known.read_at(before), known.read_at(deleted), known.read()), (None, None, Some(4)));
    assert!(!known.version.has_older(&known.objects), "nothing behind it is as good as nothing");
    assert_eq!(known.trim(), 0);
}

#[test]
fn v6_a_key_that_changes_often_keeps_one_version_for_each_snapshot() {
    let known = Known::new();
    let objects: Vec<_> = (0..100_u8).map(Arc::new).collect();
    let alive = || objects.iter().filter(|object| Arc::strong_count(object) > 1).count();
    known.set(Some(&objects[0]));
    let first = known.epochs.begin(|_| ());
    objects[1..50].iter().for_each(|object| drop(known.set(Some(object))));
    assert_eq!(alive(), 2);
    let second = known.epochs.begin(|_| ());
    objects[50..].iter().for_each(|object| drop(known.set(Some(object))));
    assert_eq!((alive(), known.read_at(first), known.read_at(second)), (3, Some(0), Some(49)));
    known.epochs.end(second, |_| ());
    // The next one finds out.
    known.set(Some(&objects[3]));
    assert_eq!((alive(), known.read_at(first)), (2, Some(0)));
}

#[test]
fn v3_what_was_held_is_checked() {
    for point in ["version: read", "version: object held"] {
        assert_eq!(read_around(point, |_| ()), Some(1));
        assert_eq!(read_around(point, |known| drop(known.set(None))), None, "{point}");
        assert_eq!(read_around(point, |known| drop(known.set(Some(&Arc::new(2))))), Some(2), "{point}");
    }
}

#[test]
fn v3_a_cell_that_is_another_keys_by_now_is_not_taken_for_the_object() {
    let other = std::cell::RefCell::new(None);
    let read = read_around("version: read", |known| {
        let cell = known.version.index();
        known.set(None);
        let draft = known.objects.draft(Some(Arc::new(9)));
        assert_eq!(Some(draft.index()), cell, "the same cell");
        *other.borrow_mut() = Some(draft.share());
    });
    assert_eq!(read, None);
    let other = other.into_inner().expect("shared above");
    assert_eq!(Arc::strong_count(&other), 1, "the reader has let go");
}

#[test]
fn v3_a_cell_that_comes_back_is_as_good() {
    let read = read_around("version: read", |known| {
        let cell = known.version.index();
        known.set(None);
        known.set(Some(&Arc::new(2)));
        assert_eq!(known.version.index(), cell, "the same cell");
    });
    assert_eq!(read, Some(2));
}

/// The queue goes, and its thread stops at a key that is known no more, and that a snapshot still shows; which ends then.
#[test]
fn e9_a_key_goes_with_its_snapshot_while_its_queue_goes() {
    let queue: crate::DeltaFifo<u32, Arc<()>> = crate::Builder::new().shards(1).build();
    let object = Arc::new(());
    for key in 1..=3 {
        queue.add(key, Arc::clone(&object)).expect("it is open");
        queue.pop().expect("it is in line").done();
    }
    let snapshot = queue.snapshot();
    for key in 1..=3 {
        queue.delete_key(key).expect("it is open");
        queue.pop().expect("it is in line").done();
    }
    let gate = Gate::new();
    let dropping = std::thread::spawn({
        let gate = gate.clone();
        move || {
            stop_me_at_passage("leave: at an entry", 1, &gate);
            drop(queue);
        }
    });
    assert!(arrives(&dropping, &gate));
    // The keys are retired, each linked to the one before.
    drop(snapshot);
    go_on(dropping, &gate);
    assert_eq!(Arc::strong_count(&object), 1);
}

/// What the queue's documentation says of memory that waits for a stopped thread.
#[test]
#[cfg(target_pointer_width = "64")]
fn what_a_key_and_its_object_take() {
    use crate::fifo::entry::Slot;
    use crate::fifo::parts::Cold;
    assert_eq!((size_of::<Slot<String>>(), align_of::<Slot<u64>>()), (64, 64));
    assert_eq!(size_of::<Cold>(), 24);
    assert_eq!(size_of::<crate::object::Cell<[u64; 10], crate::delta::FactHead>>(), 32 + 80);
}

#[test]
fn l_slots_come_back_after_their_grace_period_and_once() {
    let (limbo, entries) = (Limbo::new(), Entries::<Arc<u8>, ()>::new(false));
    let recycled = std::cell::RefCell::new(Vec::new());
    let recycle = || {
        limbo.recycle(entries.slots(), |index| {
            entries.recycle(index);
            recycled.borrow_mut().push(index);
        });
    };
    let key = Arc::new(0);
    let reader = epoch::pin();
    for _ in 0..130 {
        let index = entries.draft(Arc::clone(&key)).publish();
        limbo.retire(entries.slots(), index, &epoch::pin());
        recycle();
    }
    for _ in 0..10 {
        epoch::pin().flush();
        recycle();
    }
    assert_eq!((recycled.borrow().len(), Arc::strong_count(&key)), (0, 131), "somebody may be reading them");
    drop(reader);
    let until = std::time::Instant::now() + super::witness::LONG;
    while recycled.borrow().is_empty() {
        assert!(std::time::Instant::now() < until, "they never come back");
        epoch::pin().flush();
        recycle();
    }
    assert_eq!((recycled.borrow().len(), Arc::strong_count(&key)), (64, 67), "the first batch, whole");
    assert_eq!(entries.slots().allocated(), 130);
    let again: std::collections::HashSet<_> =
        (0..64).map(|_| entries.draft(Arc::clone(&key)).publish()).collect();
    assert_eq!((again.len(), entries.slots().allocated()), (64, 130), "the same slots, each once");
    // The keys of all that was never given back are a test's to drop.
    let mut limbo = limbo;
    limbo.recycle_rest(entries.slots(), |index| entries.recycle(index));
    again.into_iter().for_each(|index| entries.recycle(index));
    assert_eq!(Arc::strong_count(&key), 1);
}
