//! More unusual keys and objects: big ones on small stacks, ones that change inside, thousands of keys that hash alike, and keys
//! whose `Eq` lies.

use std::hash::{Hash, Hasher};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use super::*;

/// Of a thread with so many bytes of stack.
fn on_a_stack<T: Send + 'static>(bytes: usize, f: impl FnOnce() -> T + Send + 'static) -> T {
    std::thread::Builder::new().stack_size(bytes).spawn(f).unwrap().join().unwrap()
}

const SIZE: usize = 65_536;

/// What a producer's calls copy of an object on their way to its place, and no more. Consumers copy none.
pub(crate) fn big_on_a_small_stack<F: Family>() {
    on_a_stack(STACK, || {
        let queue: F::Queue<u32, [u8; SIZE]> = Builder::new().build();
        for key in 0..3 {
            queue.add(key, [key as u8; SIZE]).unwrap();
        }
        queue.update(1, [7; SIZE]).unwrap();
        while let Ok(lease) = queue.try_pop() {
            assert!(
                lease.deltas().iter().all(|delta| delta.object().is_some_and(|object| object.len() == SIZE))
            );
            lease.done();
        }
        let snapshot = queue.snapshot();
        let seen: u32 = snapshot.iter().map(|known| u32::from(known.object()[SIZE - 1])).sum();
        assert_eq!((seen, queue.known().get_with(&1, |object| object[0])), (9, Some(7)));
        queue.delete(2, [9; SIZE]).unwrap();
        queue.pop().unwrap().requeue();
        queue.pop().unwrap().done();
        assert_eq!((queue.known().len(), snapshot.len()), (2, 3));
    });
}

/// Builds that do not optimise have a copy in every frame that it passes: some 30, else 8.
const STACK: usize = if cfg!(debug_assertions) { 3 << 20 } else { 768 << 10 };

/// As users would have them who care.
pub(crate) fn boxed_on_a_tiny_stack<F: Family>() {
    on_a_stack(128 << 10, || {
        let queue: F::Queue<u32, Box<[u8]>> = Builder::new().build();
        let object = |byte| vec![byte; SIZE].into_boxed_slice();
        queue.replace((0..9).map(|key| (key, object(key as u8)))).unwrap();
        queue.change_all((0..9).map(|key| Change::Update(key, object(100)))).unwrap();
        queue.pop_batch(9).unwrap().done();
        assert!(queue.snapshot().iter().all(|known| known.object()[SIZE - 1] == 100));
    });
}

/// Everybody sees the one object: what changes in it changes for all.
pub(crate) fn objects_that_change_inside<F: Family>() {
    let queue: F::Queue<u32, AtomicU32> = Builder::new().build();
    queue.add(1, AtomicU32::new(0)).unwrap();
    let bump = |object: &AtomicU32| object.fetch_add(1, Ordering::Relaxed);
    let lease = queue.pop().unwrap();
    assert_eq!(lease.deltas().newest().object().map(bump), Some(0));
    assert_eq!(queue.known().get_with(&1, bump), Some(1));
    let snapshot = queue.snapshot();
    assert_eq!(snapshot.get_with(&1, bump), Some(2));
    lease.requeue();
    let lease = queue.pop().unwrap();
    assert_eq!(lease.deltas().oldest().object().map(bump), Some(3));
    lease.done();
    queue.update(1, AtomicU32::new(10)).unwrap();
    let lease = queue.pop().unwrap();
    assert_eq!(lease.previous().map(bump), Some(4));
    assert_eq!(snapshot.find(&1).map(|known| bump(known.object())), Some(5));
    lease.done();
    assert_eq!(queue.known().get_with(&1, bump), Some(10));
}

/// All keys hash alike, and there are thousands.
#[derive(PartialEq, Eq, Clone, Copy, Debug, PartialOrd, Ord)]
struct Alike(u32);

impl Hash for Alike {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u8(0);
    }
}

pub(crate) fn thousands_alike<F: Family>() {
    const KEYS: u32 = 2_000;
    let queue: F::Queue<Alike, u32> = Builder::new().build();
    queue.change_all((0..KEYS).map(|key| Change::Add(Alike(key), key))).unwrap();
    let batch = queue.pop_batch(KEYS as usize).unwrap();
    assert!(batch.iter().map(|lease| lease.key().0).eq(0..KEYS), "in the order of the line");
    batch.done();
    queue.replace((0..KEYS).filter(|key| key % 2 == 0).map(|key| (Alike(key), key + 1))).unwrap();
    assert_eq!(queue.pending_len(), KEYS as usize);
    queue.pop_batch(KEYS as usize).unwrap().done();
    assert_eq!(queue.known().len(), KEYS as usize / 2);
    assert!(queue.known().iter().all(|known| known.key().0 % 2 == 0 && *known.object() == known.key().0 + 1));
    assert!(queue.known().contains(&Alike(KEYS - 2)) && !queue.known().contains(&Alike(KEYS - 1)));
}

/// How keys compare.
#[derive(Clone, Copy, Debug)]
enum Lie {
    NothingIsEqual,
    AllIsEqual,
    /// Now and then.
    Whim,
}

#[derive(Debug)]
struct Liar {
    name: u32,
    lie: Lie,
    _alive: Arc<()>,
}

impl Hash for Liar {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u32(self.name % 2);
    }
}

impl PartialEq for Liar {
    fn eq(&self, other: &Self) -> bool {
        static WHIM: AtomicU64 = AtomicU64::new(1);
        match self.lie {
            Lie::NothingIsEqual => false,
            Lie::AllIsEqual => true,
            Lie::Whim => {
                let step = WHIM.fetch_add(0x9E37_79B9_7F4A_7C15, Ordering::Relaxed);
                (step >> 61 == 0) != (self.name == other.name)
            }
        }
    }
}

impl Eq for Liar {}

/// What it all comes to is anything, but what is handed out was put in, everything ends, and everything is dropped once.
pub(crate) fn lying_eq<F: Family>() {
    for lie in [Lie::NothingIsEqual, Lie::AllIsEqual, Lie::Whim] {
        let alive = Arc::new(());
        let queue: F::Queue<Liar, (u32, Arc<()>)> = Builder::new().build();
        let key = |name| Liar { name, lie, _alive: Arc::clone(&alive) };
        let object = |number| (number, Arc::clone(&alive));
        let mut snapshots = Vec::new();
        for round in 0..40 {
            for name in 0..8 {
                queue.add(key(name), object(round)).unwrap();
                queue.apply(key(name), object(round)).unwrap();
                queue.delete_key(key(name / 2)).unwrap();
                queue.delete(key(name / 3), object(round)).unwrap();
            }
            drop(queue.replace((0..6).map(|name| (key(name), object(round)))).unwrap());
            let replace = queue.begin_replace().unwrap();
            replace.upsert(key(round % 8), object(round)).unwrap();
            drop(replace);
            queue.resync().unwrap();
            let _ = queue.resync_key(key(1)).map(drop);
            snapshots.push(queue.snapshot());
            let held: Vec<_> = queue.pop_batch(5).unwrap().into_iter().collect();
            for (at, lease) in held.into_iter().enumerate() {
                assert!(lease.key().name < 8 && lease.deltas().len() > 0);
                if at % 2 == 0 { lease.requeue() } else { lease.done() }
            }
            while let Ok(lease) = queue.try_pop() {
                assert!(
                    lease.deltas().iter().all(|delta| delta.object().is_none_or(|object| object.0 <= round))
                );
                lease.done();
            }
            assert_eq!((queue.pending_len(), queue.leased_len()), (0, 0), "{lie:?}");
            let _ = queue.known().find(&key(3));
            assert_eq!(queue.known().iter().count(), queue.known().len(), "{lie:?}");
            if round % 4 == 0 {
                snapshots.truncate(2);
            }
        }
        queue.close();
        drop((queue, snapshots));
        assert_eq!(Arc::strong_count(&alive), 1, "{lie:?}: keys or objects are left");
    }
}
