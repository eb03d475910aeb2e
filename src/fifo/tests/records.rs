//! Records and limbo, by one thread.

use std::sync::Arc;

use crate::fifo::Objects;
use crate::fifo::chain;
use crate::fifo::limbo::Limbo;
use crate::fifo::records::{Record, Reserved, State};
use crate::object::Key;
use crate::slab::Slab;
use crate::sync::epoch;

fn record() -> Record<u8> {
    let record = Record::default();
    record.prepare(Key::alone(1));
    record
}

#[test]
fn r1_a_reserved_record_shows_nothing() {
    let record = record();
    assert!(!record.exists() && !record.has_object());
    assert!(matches!(record.reserve(), Reserved::AsItWas), "it is its holder's already");
    assert!(!record.remove(), "and nobody removes it");
    assert_eq!(record.set(&State::Live), None);
    assert!(record.exists() && !record.has_object());
}

#[test]
fn r2_numbers_rise() {
    let record = record();
    for (number, is) in [(2, 2), (5, 5), (4, 5), (0, 5), (7, 7)] {
        record.raise(number);
        assert_eq!(record.number(), is);
    }
    drop(record.clear());
    record.prepare(Key::alone(2));
    assert_eq!(record.number(), 0, "a recycled one begins anew");
}

#[test]
fn r3_one_removes_and_a_removed_record_is_not_reserved() {
    let objects = Objects::<Arc<()>>::new();
    let record = record();
    record.set(&State::Absent);
    assert!(record.remove());
    assert!(!record.remove(), "once");
    assert!(matches!(record.reserve(), Reserved::Gone));
    assert!(!record.exists());

    let record = self::record();
    record.set(&State::Absent);
    assert!(matches!(record.reserve(), Reserved::WasAbsent));
    assert!(!record.remove(), "the holder came first");
    let index = chain::keep(&objects, objects.draft(Some(Arc::new(()))).share());
    record.set(&State::Object(index));
    assert!(record.has_object() && !record.remove());
    drop(record.set(&State::Absent).map(|index| chain::take_version(&objects, index)));
    assert!(record.remove());
}

#[test]
fn r4_the_version_owns_one_reference() {
    let objects = Objects::<Arc<u8>>::new();
    let (first, second) = (Arc::new(1), Arc::new(2));
    let keep = |object: &Arc<u8>| chain::keep(&objects, objects.draft(Some(Arc::clone(object))).share());
    let record = record();
    assert_eq!(record.set(&State::Object(keep(&first))), None);
    let reader = record.object(&objects).expect("there is an object");
    let old = record.set(&State::Object(keep(&second))).expect("the first is handed back");
    drop(chain::take_version(&objects, old));
    assert_eq!((**reader, Arc::strong_count(&first)), (1, 2), "a reader's is the reader's");
    drop(reader);
    assert_eq!(Arc::strong_count(&first), 1);
    // The cell is another object's by now; the record does not care.
    let other = objects.draft(Some(Arc::new(9))).share();
    assert_eq!(record.object(&objects).map(|object| **object), Some(2));
    drop(other);
    let (key, version) = record.dismantle();
    drop(version.map(|version| chain::take_version(&objects, version)));
    assert_eq!((key.map(|key| *key), Arc::strong_count(&second)), (Some(1), 1));
}

/// What the queue's documentation says of memory that waits for a stopped thread.
#[test]
#[cfg(target_pointer_width = "64")]
fn an_entry_takes_128_bytes_and_a_record_48() {
    use crate::fifo::entry::Entry;
    assert_eq!((size_of::<Entry<String, [u64; 100]>>(), size_of::<Record<String>>()), (128, 48));
}

#[test]
fn l_slots_come_back_after_their_grace_period_and_once() {
    let (limbo, slots) = (Limbo::new(), Slab::<Record<u8>>::new());
    let cleaned = std::cell::Cell::new(0);
    let recycle =
        || limbo.recycle(&slots, |record| cleaned.set(cleaned.get() + usize::from(record.clear().is_some())));
    let reader = epoch::pin();
    for number in 0..130 {
        let index = slots.take();
        slots.get(index).prepare(Key::alone(number as u8));
        limbo.retire(&slots, index, &epoch::pin());
        recycle();
    }
    for _ in 0..10 {
        epoch::pin().flush();
        recycle();
    }
    assert_eq!(cleaned.get(), 0, "somebody may be reading them");
    drop(reader);
    let until = std::time::Instant::now() + super::witness::LONG;
    while cleaned.get() == 0 {
        assert!(std::time::Instant::now() < until, "they never come back");
        epoch::pin().flush();
        recycle();
    }
    assert_eq!(cleaned.get(), 64, "the first batch, whole");
    assert_eq!(slots.allocated(), 130);
    let again: std::collections::HashSet<_> = (0..64).map(|_| slots.take()).collect();
    assert_eq!((again.len(), slots.allocated()), (64, 130), "the same slots, each once");
}
