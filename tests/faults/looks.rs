//! Panics while known objects are looked at: `Clone`, closures, and what is done with what an iteration yields.

use super::*;

/// Panics when it is cloned.
struct Unclonable(u32);

impl Clone for Unclonable {
    fn clone(&self) -> Self {
        std::panic::resume_unwind(Box::new(Boom))
    }
}

fn explodes<T>(look: impl FnOnce() -> T) {
    let Err(panic) = catch_unwind(AssertUnwindSafe(look)) else { panic!("it was not called") };
    assert!(panic.is::<Boom>(), "another panic");
}

fn boom<T>() -> T {
    std::panic::resume_unwind(Box::new(Boom))
}

/// Nothing is held of what was looked at: it changes and goes as always, and the snapshot is what it was.
pub(crate) fn looks_that_panic<F: Family>() {
    let queue: F::Queue<u32, Unclonable> = Builder::new().build();
    let know = |number| {
        for key in 0..3 {
            queue.add(key, Unclonable(number + key)).unwrap();
        }
        queue.pop_batch(9).unwrap().done();
    };
    know(10);
    let snapshot = queue.snapshot();
    for round in 2..4 {
        explodes(|| queue.known().get(&1).map(drop));
        explodes(|| queue.known().get_with(&1, |_| boom::<()>()));
        explodes(|| queue.known().iter().for_each(|_| boom()));
        explodes(|| queue.known().keys().for_each(|_| boom()));
        explodes(|| snapshot.get(&1).map(drop));
        explodes(|| snapshot.get_with(&1, |_| boom::<()>()));
        explodes(|| snapshot.iter().for_each(|_| boom()));
        explodes(|| snapshot.for_each(|_, _| boom()));
        explodes(|| queue.known().for_each(|_, _| boom()));
        explodes(|| snapshot.keys().for_each(|_| boom()));
        know(10 * round);
        assert_eq!(queue.known().get_with(&1, |object| object.0), Some(10 * round + 1));
        assert_eq!(snapshot.get_with(&1, |object| object.0), Some(11));
        queue.delete_key(0).unwrap();
        queue.pop().unwrap().done();
        assert_eq!((queue.known().len(), snapshot.len()), (2, 3));
    }
    // In the middle of a lease, which is abandoned.
    queue.add(1, Unclonable(99)).unwrap();
    explodes(|| {
        let lease = queue.pop().unwrap();
        lease.deltas().newest().object().cloned()
    });
    assert_eq!((queue.pending_len(), queue.leased_len()), (1, 0));
    let again = queue.pop_timeout(crate::common::LONG).unwrap();
    assert_eq!(again.deltas().newest().object().map(|object| object.0), Some(99));
    again.done();
}

/// The same of what only the sharded queue has.
#[test]
fn looks_at_snapshots_that_panic() {
    let queue = delta_fifo::DeltaFifo::<u32, Unclonable>::new();
    queue.add(1, Unclonable(1)).unwrap();
    queue.pop().unwrap().done();
    let older = queue.snapshot();
    queue.add(1, Unclonable(2)).unwrap();
    queue.add(2, Unclonable(3)).unwrap();
    queue.pop_batch(9).unwrap().done();
    let newer = queue.snapshot();
    explodes(|| newer.for_each(|_, _| boom()));
    explodes(|| newer.changes_since(&older).unwrap().for_each(|_| boom()));
    explodes(|| queue.published().get(&1).map(drop));
    let mut seen = Vec::new();
    newer.for_each(|key, object| seen.push((*key, object.0)));
    seen.sort_unstable();
    assert_eq!((seen, older.len()), (vec![(1, 2), (2, 3)], 1));
}
