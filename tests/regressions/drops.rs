//! Objects that are dropped: outside every lock, with the counts right, and as soon as nobody can see them.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use delta_fifo::{Builder, Compression, DeltaQueue, Discarded, KnownView, PopTimeoutError, TryPopError};

use crate::common::{Family, LONG, finishes, for_each_queue, key, pop_soon};
use crate::model::counted::{Count, Key, Value};

for_each_queue!(
    drops_call_the_queue,
    discard_with_a_panicking_drop,
    pop_with_a_panicking_drop,
    end_with_a_panicking_drop,
    open_replace_over_nothing_keeps_no_objects,
    relists_without_consumers_keep_nothing_twice,
);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Known {
    Inside,
    None,
    Store,
}

const ALL: [Known; 3] = [Known::Inside, Known::None, Known::Store];

/// Where the known objects are; a store has an object, made by `make`, of whatever it is asked for.
fn over<V: Send + Sync + 'static>(
    known: Known,
    make: impl Fn() -> V + Send + Sync + 'static,
) -> Builder<String, V> {
    match known {
        Known::Inside => Builder::new(),
        Known::None => Builder::new().no_known_objects(),
        Known::Store => Builder::new()
            .known_objects((|| Ok(vec![key("a"), key("b")]), move |_: &String| Ok(Some(make())))),
    }
}

type Call = Arc<dyn Fn() + Send + Sync>;

/// Calls back when it is dropped.
struct Loud(Call);

impl Drop for Loud {
    fn drop(&mut self) {
        (self.0)();
    }
}

fn drops_call_the_queue<F: Family>() {
    type Queue<F> = <F as Family>::Queue<String, Loud>;
    type Act<F> = fn(&Queue<F>, &Call);
    let add: Act<F> = |queue, call| queue.add(key("a"), Loud(Arc::clone(call))).unwrap();
    // What comes after a lease of a key that is dirty.
    let acts: [(&str, Act<F>); 6] = [
        ("pop", |queue, _| queue.pop().unwrap().done()),
        ("pop of a batch", |queue, _| queue.pop_batch(2).unwrap().done()),
        ("pop again", |queue, _| {
            queue.pop().unwrap().requeue();
            queue.pop().unwrap().done();
        }),
        ("give up", |queue, _| queue.pop().unwrap().give_up()),
        ("deletions", |queue, call| {
            queue.delete(key("a"), Loud(Arc::clone(call))).unwrap();
            queue.delete(key("a"), Loud(Arc::clone(call))).unwrap();
            queue.pop().unwrap().done();
        }),
        ("discard", |queue, _| {
            queue.close_discard();
        }),
    ];
    for known in ALL {
        for (name, act) in acts {
            finishes(&format!("{name}, {known:?}"), move || {
                let drops = Arc::new(AtomicUsize::new(0));
                let place: Arc<Mutex<Option<Call>>> = Arc::default();
                let (counted, hook) = (Arc::clone(&drops), Arc::clone(&place));
                let call: Call = Arc::new(move || {
                    counted.fetch_add(1, Ordering::SeqCst);
                    let hook = hook.lock().unwrap().clone();
                    if let Some(hook) = hook {
                        hook();
                    }
                });
                let stored = Arc::clone(&call);
                let queue: Arc<Queue<F>> = Arc::new(over(known, move || Loud(Arc::clone(&stored))).build());
                let weak = Arc::downgrade(&queue);
                *place.lock().unwrap() = Some(Arc::new(move || {
                    if let Some(queue) = weak.upgrade() {
                        let _ = (queue.pending_len(), queue.leased_len(), queue.merged());
                        let _ = (queue.known().len(), queue.known().is_empty(), queue.has_synced());
                        let _ = queue.mark(7);
                    }
                }));
                add(&queue, &call);
                let lease = queue.pop().unwrap();
                add(&queue, &call);
                lease.done();
                let before = drops.load(Ordering::SeqCst);
                act(&queue, &call);
                assert!(drops.load(Ordering::SeqCst) > before, "{name}, {known:?}: nothing was dropped");
                assert_eq!((queue.pending_len(), queue.leased_len()), (0, 0), "{name}, {known:?}");
            });
        }
    }
}

/// The first that is dropped while the fuse is lit panics.
struct Bomb(Arc<AtomicBool>);

impl Drop for Bomb {
    fn drop(&mut self) {
        if self.0.swap(false, Ordering::SeqCst) {
            resume_unwind(Box::new("bomb"));
        }
    }
}

type Bombs<F> = <F as Family>::Queue<String, Bomb>;

/// Whether one of the bombs that drop in `call` panics out of it.
fn explodes<T>(fuse: &Arc<AtomicBool>, call: impl FnOnce() -> T) -> bool {
    fuse.store(true, Ordering::SeqCst);
    let result = catch_unwind(AssertUnwindSafe(call));
    fuse.store(false, Ordering::SeqCst);
    result.is_err()
}

fn add<F: Family>(queue: &Bombs<F>, fuse: &Arc<AtomicBool>, name: &str) {
    queue.add(key(name), Bomb(Arc::clone(fuse))).unwrap();
}

/// `a` is in line again after a lease, of whose object nobody but the queue has a handle.
fn with_bombs<F: Family>(known: Known) -> (Bombs<F>, Arc<AtomicBool>) {
    let fuse = Arc::new(AtomicBool::new(false));
    let stored = Arc::clone(&fuse);
    let queue: Bombs<F> = over(known, move || Bomb(Arc::clone(&stored))).build();
    add::<F>(&queue, &fuse, "a");
    let lease = queue.pop().unwrap();
    add::<F>(&queue, &fuse, "a");
    lease.done();
    (queue, fuse)
}

fn discard_with_a_panicking_drop<F: Family>() {
    for known in ALL {
        let (queue, fuse) = with_bombs::<F>(known);
        add::<F>(&queue, &fuse, "a");
        add::<F>(&queue, &fuse, "b");
        assert!(explodes(&fuse, || queue.close_discard()), "{known:?}: nothing panicked");
        assert!(queue.is_closed());
        assert_eq!((queue.pending_len(), queue.leased_len()), (0, 0), "{known:?}");
        assert_eq!(queue.try_pop().map(drop), Err(TryPopError::Closed), "{known:?}");
        assert_eq!(queue.close_discard(), Discarded { keys: 2, deltas: 3 }, "{known:?}");
    }
}

/// The lease reaches nobody: its key comes back, with everything that it had.
fn pop_with_a_panicking_drop<F: Family>() {
    // Elsewhere the old object goes with the lease.
    for known in [Known::None, Known::Store] {
        for batch in [false, true] {
            let (queue, fuse) = with_bombs::<F>(known);
            add::<F>(&queue, &fuse, "b");
            let exploded = explodes(&fuse, || match batch {
                true => drop(queue.try_pop_batch(2).map(|leases| leases.done())),
                false => drop(queue.try_pop().map(|lease| lease.done())),
            });
            assert!(exploded, "{known:?}: nothing panicked");
            assert_eq!((queue.pending_len(), queue.leased_len()), (2, 0), "{known:?}");
            let leases = [(); 2].map(|()| pop_soon(&queue));
            assert_eq!(leases.each_ref().map(|lease| lease.key().as_str()), ["a", "b"], "{known:?}");
            assert_eq!(leases.each_ref().map(|lease| lease.attempts()), [1, 1], "{known:?}");
            assert_eq!(leases.each_ref().map(|lease| lease.deltas().len()), [1, 1], "{known:?}");
            leases.into_iter().for_each(|lease| lease.done());
            queue.close();
            assert_eq!(queue.pop_timeout(LONG).map(drop), Err(PopTimeoutError::Closed));
        }
    }
}

/// The old object drops with the lease, which has ended by then.
fn end_with_a_panicking_drop<F: Family>() {
    let (queue, fuse) = with_bombs::<F>(Known::Inside);
    add::<F>(&queue, &fuse, "b");
    let mark = queue.mark(1).unwrap();
    let (a, b) = (queue.pop().unwrap(), queue.pop().unwrap());
    assert!(a.previous().is_some());
    assert!(explodes(&fuse, || a.done()), "nothing panicked");
    assert_eq!((queue.pending_len(), queue.leased_len()), (0, 1));
    b.done();
    assert_eq!(mark.wait_timeout(LONG), Ok(()));
    assert_eq!((queue.pending_len(), queue.leased_len(), queue.known().len()), (0, 0, 2));
}

type Counted<F> = <F as Family>::Queue<Key, Value>;

/// A replace remembers the keys that were changed meanwhile; of their objects it needs nothing.
fn open_replace_over_nothing_keeps_no_objects<F: Family>() {
    let count = Count::default();
    let queue: Counted<F> = Builder::new().no_known_objects().build();
    let list = queue.begin_replace().unwrap();
    for name in 0..100 {
        let (key, value) = count.pair(name);
        queue.add(key, value).unwrap();
        queue.try_pop().unwrap().done();
        let (key, value) = count.pair(100 + name);
        list.upsert(key, value).unwrap();
        queue.try_pop().unwrap().done();
        count.expect_values(0);
    }
    list.commit().unwrap();
    assert_eq!(queue.pending_len(), 0);
    count.expect_alive::<F>(0, 0);
}

/// However often everything is listed, a key costs one key and its newest object.
fn relists_without_consumers_keep_nothing_twice<F: Family>() {
    const KEYS: u32 = 20;
    for streaming in [false, true] {
        let count = Count::default();
        let queue: Counted<F> = Builder::new().compression(Compression::Latest).build();
        let list = || (0..KEYS).map(|name| count.pair(name));
        for _ in 0..200 {
            if streaming {
                let replace = queue.begin_replace().unwrap();
                for (key, value) in list() {
                    replace.upsert(key, value).unwrap();
                }
                replace.commit().unwrap();
            } else {
                queue.replace(list()).unwrap();
            }
            count.expect_merged::<F>(KEYS as usize, KEYS as usize);
        }
        // Over leases that are not ended: two objects each, the one that was handed out and the newest.
        let leases = queue.pop_batch(KEYS as usize).unwrap();
        for _ in 0..200 {
            queue.replace(list()).unwrap();
            count.expect_merged::<F>(KEYS as usize, 2 * KEYS as usize);
        }
        let last = queue.replace(list()).unwrap();
        leases.done();
        assert_eq!(
            (queue.pending_len(), queue.has_synced(), last.is_complete()),
            (KEYS as usize, true, false)
        );
        let leases = queue.pop_batch(KEYS as usize).unwrap();
        assert!(leases.iter().all(|lease| lease.deltas().len() == 1));
        leases.done();
        assert!(last.is_complete());
        count.expect_merged::<F>(KEYS as usize, KEYS as usize);
    }
}
