//! Unusual keys and objects, and handles that are forgotten.

use std::hash::{Hash, Hasher};

use delta_fifo::{BeginReplaceError, TryPopError};

use super::*;

pub(crate) fn zero_sized<F: Family>() {
    let queue: F::Queue<(), ()> = Builder::new().build();
    queue.replace([((), ()), ((), ())]).unwrap();
    queue.update((), ()).unwrap();
    let snapshot = queue.snapshot();
    let lease = queue.pop().unwrap();
    assert_eq!(lease.deltas().len(), 3);
    queue.delete((), ()).unwrap();
    lease.done();
    assert!(queue.known().contains(&()) && !snapshot.contains(&()));
    queue.pop().unwrap().done();
    assert_eq!(queue.known().len(), 0);
    assert!(queue.has_synced());
}

fn big_values<F: Family, const SIZE: usize>() {
    let queue: F::Queue<u32, [u8; SIZE]> = Builder::new().build();
    for key in 0..20 {
        queue.add(key, [key as u8; SIZE]).unwrap();
        queue.update(key, [key as u8 + 1; SIZE]).unwrap();
    }
    queue.change_all((0..20).map(|key| Change::Apply(key, [key as u8 + 2; SIZE]))).unwrap();
    queue.replace((0..10).map(|key| (key, [key as u8 + 3; SIZE]))).unwrap();
    let batch = queue.pop_batch(100).unwrap();
    for lease in batch.iter() {
        let key = *lease.key() as u8;
        let mut expected = vec![key, key + 1, key + 2];
        expected.push(if key < 10 { key + 3 } else { key + 2 });
        let seen: Vec<u8> = lease.deltas().iter().map(|delta| delta.object().unwrap()[SIZE - 1]).collect();
        assert_eq!(seen, expected);
    }
    batch.done();
    assert_eq!(queue.known().len(), 10);
    assert_eq!(queue.known().get_with(&3, |object| object[SIZE / 2]), Some(6));
    queue.close();
    let error = queue.add(1, [7; SIZE]).unwrap_err();
    assert_eq!(error.change.value().unwrap()[0], 7);
}

pub(crate) fn big<F: Family>() {
    // A debug build has a copy of what is moved in every frame.
    let roomy = std::thread::Builder::new().stack_size(32 << 20);
    roomy.spawn(big_values::<F, 65_536>).unwrap().join().unwrap();
}

#[repr(align(4096))]
#[derive(PartialEq, Eq, Hash, Debug, Clone, Copy)]
struct Aligned(u32);

pub(crate) fn over_aligned<F: Family>() {
    let queue: F::Queue<Aligned, Aligned> = Builder::new().build();
    let aligned = |object: &Aligned| std::ptr::from_ref(object).addr() % 4096 == 0;
    for number in 0..50 {
        queue.add(Aligned(number % 7), Aligned(number)).unwrap();
    }
    let snapshot = queue.snapshot();
    while let Ok(lease) = queue.try_pop() {
        assert!(aligned(lease.key()));
        assert!(lease.deltas().iter().all(|delta| aligned(delta.object().unwrap())));
        lease.done();
    }
    assert!(snapshot.is_empty());
    assert_eq!(
        queue.known().iter().filter(|known| aligned(known.key()) && aligned(known.object())).count(),
        7
    );
}

/// All keys hash alike.
#[derive(PartialEq, Eq, Debug, Clone, Copy, PartialOrd, Ord)]
struct Hostile(u32);

impl Hash for Hostile {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u8(0);
    }
}

pub(crate) fn hostile_hash<F: Family>() {
    const KEYS: u32 = 150;
    let queue: F::Queue<Hostile, u32> = Builder::new().build();
    for round in 0..3 {
        queue.replace((0..KEYS).map(|key| (Hostile(key), round))).unwrap();
        queue.change_all((0..KEYS).step_by(3).map(|key| Change::DeleteKey(Hostile(key)))).unwrap();
        let leases: Vec<_> = queue.pop_batch(1_000).unwrap().into_iter().collect();
        let keys: BTreeSet<Hostile> = leases.iter().map(|lease| *lease.key()).collect();
        assert_eq!((leases.len(), keys.len()), (KEYS as usize, KEYS as usize));
        for lease in leases {
            let deltas = lease.deltas();
            assert_eq!(deltas.newest().is_deletion(), lease.key().0 % 3 == 0, "{deltas:?}");
            assert_eq!(deltas.newest().object(), Some(&round));
            lease.done();
        }
        assert_eq!(queue.known().len(), 100);
        assert!((0..KEYS).all(|key| queue.known().contains(&Hostile(key)) == (key % 3 != 0)));
    }
    assert!(queue.has_synced());
}

pub(crate) fn forgotten_lease<F: Family>() {
    let queue: F::Queue<u32, u32> = Builder::new().build();
    let list = queue.replace([(1, 1), (2, 2), (3, 3)]).unwrap();
    std::mem::forget(queue.pop().unwrap());
    queue.mark(1_u64).unwrap();
    queue.add(1, 10).unwrap();
    queue.delete(2, 20).unwrap();
    let batch = queue.pop_batch(9).unwrap();
    assert_eq!(batch.iter().map(|lease| *lease.key()).collect::<Vec<_>>(), [2, 3]);
    batch.done();
    assert_eq!((queue.pending_len(), queue.leased_len()), (1, 1));
    assert!(!list.is_complete() && !queue.has_synced() && !queue.has_delivered());
    assert_eq!(queue.processed_through(), None);
    assert!(list.wait_timeout(Duration::ZERO).is_err());
    // Later replaces go on, and other keys too.
    drop(queue.replace([(3, 30)]).unwrap());
    queue.pop().unwrap().done();
    assert_eq!(queue.known().get(&1), Some(1));
    assert_eq!(queue.resync().unwrap(), 1);
    queue.pop().unwrap().done();
    queue.close();
    assert_eq!(queue.try_pop().map(drop), Err(TryPopError::Empty));
    assert!(queue.close_and_wait_timeout(Duration::ZERO).is_err());
    assert_eq!(queue.close_discard().keys, 1);
    assert_eq!(queue.try_pop().map(drop), Err(TryPopError::Closed));
}

/// A forgotten replace blocks later replaces, and nothing else.
pub(crate) fn forgotten_replace<F: Family>() {
    let queue: F::Queue<u32, u32> = Builder::new().build();
    let replace = queue.begin_replace().unwrap();
    replace.upsert(1, 1).unwrap();
    std::mem::forget(replace);
    for round in 0..3 {
        queue.add(2, round).unwrap();
        queue.resync().unwrap();
        queue.pop_batch(9).unwrap().done();
        queue.delete_key(2).unwrap();
        queue.pop().unwrap().done();
    }
    assert!(matches!(queue.begin_replace(), Err(BeginReplaceError::ReplaceInProgress)));
    assert!(queue.replace([(1, 1)]).is_err());
    assert_eq!((queue.known().len(), queue.pending_len(), queue.leased_len()), (1, 0, 0));
    let mark = queue.mark(1_u64).unwrap();
    assert!(mark.is_complete());
    queue.close();
    assert_eq!(queue.try_pop().map(drop), Err(TryPopError::Closed));
    assert!(queue.close_and_wait_timeout(Duration::ZERO).is_ok());
}
