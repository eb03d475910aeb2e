use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::SeqCst};
use std::thread;

use super::{Bare, Body, Head, Pool, Shared};
use crate::slab::Index;

/// Counts how many are alive.
#[derive(Debug)]
struct Counted(Arc<AtomicUsize>, u64);

impl Counted {
    fn new(alive: &Arc<AtomicUsize>, number: u64) -> Self {
        alive.fetch_add(1, SeqCst);
        Counted(Arc::clone(alive), number)
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, SeqCst);
        assert_ne!(self.1, PANICS, "told to");
    }
}

const PANICS: u64 = u64::MAX;

/// What stands beside a value.
#[derive(Default)]
struct Note(AtomicU64, Body);

impl Head for Note {
    type Align = ();

    fn body(&self) -> Option<&Body> {
        Some(&self.1)
    }
}

fn alive() -> Arc<AtomicUsize> {
    Arc::default()
}

#[test]
fn a_cell_is_small() {
    assert_eq!(size_of::<Shared<String>>(), 8);
    assert_eq!(size_of::<Option<Shared<String, Note>>>(), 8);
    // 16 of its own, as an `Arc`.
    assert_eq!(size_of::<super::cell::Cell<String, Bare>>(), 16 + 24);
}

#[test]
fn alone_it_is_an_arc() {
    let alive = alive();
    let one = Shared::<_>::alone(Counted::new(&alive, 1));
    let two = one.clone();
    assert!(one.ptr_eq(&two));
    assert_eq!(two.1, 1);
    drop(one);
    assert_eq!(alive.load(SeqCst), 1);
    assert_eq!(two.clone().into_inner().map(|counted| counted.1), None);
    assert_eq!(two.into_inner().map(|counted| counted.1), Some(1));
    assert_eq!(alive.load(SeqCst), 0);
    assert_eq!(Shared::<_>::alone(3), Shared::<_>::alone(3));
    assert_eq!(format!("{:?}", Shared::<_>::alone("a")), "\"a\"");
}

#[test]
fn a_draft_comes_to_what_it_is_told() {
    let (alive, pool) = (alive(), Pool::<Counted>::new());
    drop(pool.draft(Some(Counted::new(&alive, 1))));
    assert_eq!(alive.load(SeqCst), 0);
    let draft = pool.draft(Some(Counted::new(&alive, 2)));
    assert!(pool.hold(draft.index()).is_none(), "nobody sees a draft");
    let value = draft.into_value().ok().flatten();
    assert_eq!(value.map(|counted| counted.1), Some(2));
    let shared = pool.draft(Some(Counted::new(&alive, 3))).share();
    assert_eq!((shared.1, alive.load(SeqCst)), (3, 1));
    let index = pool.index_of(&shared);
    let held = pool.hold(index).expect("it is shared");
    assert!(held.ptr_eq(&shared));
    drop((held, shared));
    assert!(pool.hold(index).is_none());
    assert_eq!((alive.load(SeqCst), pool.home_allocated()), (0, 1));
}

#[test]
fn a_chain_is_published_and_adopted() {
    let pool = Pool::<u64, Note>::new();
    let mut newest: Option<Index> = None;
    for number in 0..3 {
        let draft = pool.draft((number != 1).then_some(number));
        draft.set_previous(newest);
        draft.head().0.store(number, SeqCst);
        newest = Some(draft.publish());
    }
    let mut seen = Vec::new();
    while let Some(index) = newest {
        newest = pool.previous(index);
        #[expect(unsafe_code, reason = "what is tested")]
        // SAFETY: published above, and met once.
        let shared = unsafe { pool.adopt(index) };
        seen.push((shared.value().copied(), pool.head(index).0.load(SeqCst)));
    }
    assert_eq!(seen, [(Some(2), 2), (None, 1), (Some(0), 0)]);
    let again = pool.draft(Some(9)).share();
    assert_eq!((*again, pool.home_allocated()), (9, 3));
}

#[test]
fn what_is_met_is_shared_and_what_is_lent_is_the_lenders() {
    let (alive, pool) = (alive(), Pool::<Counted, Note>::new());
    let index = pool.draft(Some(Counted::new(&alive, 1))).publish();
    #[expect(unsafe_code, reason = "what is tested")]
    // SAFETY: published above, and adopted at the end.
    let (lent, shared, again) = unsafe { (pool.lend(index), pool.share(index), pool.adopt(index)) };
    assert_eq!((lent.1, shared.1, lent.ptr_eq(&shared)), (1, 1, true));
    let own = lent.clone();
    drop((again, shared));
    assert_eq!((own.1, alive.load(SeqCst)), (1, 1), "the clone has a reference of its own");
    drop(own);
    assert_eq!(alive.load(SeqCst), 0);
}

#[test]
fn a_cell_is_aligned_as_its_head_wants() {
    #[repr(align(64))]
    struct Line;
    #[derive(Default)]
    struct Wide([AtomicU64; 6], Body);
    impl Head for Wide {
        type Align = Line;

        fn body(&self) -> Option<&Body> {
            Some(&self.1)
        }
    }
    type Aligned = super::cell::Cell<u64, Wide>;
    assert_eq!((size_of::<Aligned>(), align_of::<Aligned>()), (128, 64));
    let pool = Pool::<u64, Wide>::new();
    let shared = pool.draft(Some(7)).share();
    assert_eq!(std::ptr::from_ref(pool.head(pool.index_of(&shared))) as usize % 64, 8);
    assert_eq!((*shared, pool.head(pool.index_of(&shared)).0[4].load(SeqCst)), (7, 0));
    assert_eq!(*Shared::<u64, Wide>::alone(8), 8);
}

#[test]
fn the_dead_keep_their_values_until_they_are_buried() {
    let (alive, pool) = (alive(), Pool::<Counted>::new());
    let shared: Vec<_> = (0..3).map(|n| pool.draft(Some(Counted::new(&alive, n))).share()).collect();
    let index = pool.index_of(&shared[0]);
    pool.release_later(shared[0].clone());
    assert!(!pool.has_dead());
    shared.into_iter().for_each(|shared| pool.release_later(shared));
    assert_eq!((pool.dead_backlog(), alive.load(SeqCst)), (3, 3));
    assert!(pool.hold(index).is_none());
    pool.bury_dead();
    assert_eq!((pool.dead_backlog(), alive.load(SeqCst)), (0, 0));
    let again: Vec<_> = (0..3).map(|n| pool.draft(Some(Counted::new(&alive, n))).share()).collect();
    assert_eq!(pool.home_allocated(), 3);
    again.into_iter().for_each(|shared| pool.release_later(shared));
    pool.release_later(Shared::alone(Counted::new(&alive, 1)));
    drop(pool);
    assert_eq!(alive.load(SeqCst), 0);
}

#[test]
fn a_panic_gives_the_cell_back() {
    let (alive, pool) = (alive(), Pool::<Counted>::new());
    let shared = pool.draft(Some(Counted::new(&alive, PANICS))).share();
    assert!(catch_unwind(AssertUnwindSafe(|| drop(shared))).is_err());
    let draft = pool.draft(Some(Counted::new(&alive, PANICS)));
    assert!(catch_unwind(AssertUnwindSafe(|| drop(draft))).is_err());
    assert_eq!((alive.load(SeqCst), pool.home_allocated()), (0, 1));
    assert!(catch_unwind(|| drop(Shared::<_>::alone(Counted::new(&alive, PANICS)))).is_err());
    assert_eq!(alive.load(SeqCst), 0);
}

#[test]
fn a_panic_in_a_burial_leaves_the_rest_dead() {
    let (alive, pool) = (alive(), Pool::<Counted>::new());
    let shared: Vec<_> =
        [1, PANICS, 2, PANICS, 3].map(|n| pool.draft(Some(Counted::new(&alive, n))).share()).into();
    shared.into_iter().for_each(|shared| pool.release_later(shared));
    assert!(catch_unwind(AssertUnwindSafe(|| pool.bury_dead())).is_err());
    assert_eq!((pool.dead_backlog(), alive.load(SeqCst)), (3, 3));
    assert!(catch_unwind(AssertUnwindSafe(|| drop(pool))).is_err());
    assert_eq!(alive.load(SeqCst), 0);
}

#[test]
fn shared_values_outlive_their_pool() {
    let (alive, pool) = (alive(), Pool::<Counted>::new());
    let mut shared: Vec<_> = (0..300).map(|n| pool.draft(Some(Counted::new(&alive, n))).share()).collect();
    shared.truncate(200);
    drop(pool);
    assert_eq!(shared.iter().map(|counted| counted.1).sum::<u64>(), 199 * 100);
    let last = shared.pop().expect("many").clone();
    drop(shared);
    assert_eq!(alive.load(SeqCst), 1);
    assert!(last.into_inner().is_some());
    assert_eq!(alive.load(SeqCst), 0);
}

/// Threads take, share, hold and drop, and the pool goes in the middle.
#[test]
fn hammered_nothing_is_lost_or_dropped_twice() {
    const ROUNDS: u64 = 3_000;
    let (alive, kept) = (alive(), Arc::new(std::sync::Mutex::new(Vec::new())));
    let pool = Arc::new(Pool::<Counted, Note>::new());
    let recent = Arc::new(AtomicU64::new(0));
    let threads: Vec<_> = (0..4u64)
        .map(|thread| {
            let (alive, pool, recent, kept) =
                (Arc::clone(&alive), Arc::clone(&pool), Arc::clone(&recent), Arc::clone(&kept));
            thread::spawn(move || {
                for round in 0..ROUNDS {
                    let shared = pool.draft(Some(Counted::new(&alive, round))).share();
                    recent.store(u64::from(pool.index_of(&shared).get()), SeqCst);
                    if let Some(held) =
                        Index::new(recent.load(SeqCst) as u32).and_then(|index| pool.hold(index))
                    {
                        assert!(held.1 < ROUNDS);
                        pool.release_later(held);
                    }
                    if round % 64 == thread {
                        kept.lock().unwrap().push(shared.clone());
                    }
                    match round % 3 {
                        0 => drop(shared),
                        1 => pool.release_later(shared),
                        _ => drop(shared.into_inner()),
                    }
                    if pool.dead_backlog() > 20 {
                        pool.bury_dead();
                    }
                }
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().expect("no panic"));
    let kept = std::mem::take(&mut *kept.lock().unwrap());
    let (half, rest) = kept.split_at(kept.len() / 2);
    let (half, rest, count) = (half.to_vec(), rest.to_vec(), kept.len());
    drop(kept);
    let dropper = thread::spawn(move || drop(half));
    drop(pool);
    dropper.join().expect("no panic");
    assert_eq!(alive.load(SeqCst), count - count / 2);
    drop(rest);
    assert_eq!(alive.load(SeqCst), 0);
}
