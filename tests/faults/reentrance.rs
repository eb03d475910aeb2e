//! User code that calls the queue: it must never run under a lock.

use std::hash::{Hash, Hasher};

use delta_fifo::{BoxError, Outcome};

use super::*;
use crate::common::{LONG, finishes};

type Plain<F> = <F as Family>::Queue<u32, u32>;

/// Calls back when it is dropped.
struct Loud(Arc<dyn Fn() + Send + Sync>);

impl Drop for Loud {
    fn drop(&mut self) {
        (self.0)();
    }
}

struct LoudKey(u32, #[expect(dead_code, reason = "dropped")] Loud);

impl PartialEq for LoudKey {
    fn eq(&self, other: &Self) -> bool {
        self.0 == other.0
    }
}

impl Eq for LoudKey {}

impl std::fmt::Debug for LoudKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

impl Hash for LoudKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.hash(state);
    }
}

/// What any user code may do to a queue, and returns at once.
fn call_everything<Q: DeltaQueue>(queue: &Q) {
    let _ = (queue.pending_len(), queue.leased_len(), queue.merged(), queue.is_closed());
    let _ = (queue.has_synced(), queue.has_delivered(), queue.processed_through());
    let _ = (queue.known().len(), queue.known().iter().count(), queue.snapshot().len());
    let _ = queue.mark(7_u64);
    let _ = queue.resync();
    let _ = queue.wait_synced_timeout(Duration::ZERO);
}

/// Drops of keys and objects run outside every lock.
pub(crate) fn drops_call_the_queue<F: Family>() {
    type Queue<F> = <F as Family>::Queue<LoudKey, Loud>;
    finishes("the call", || {
        for latest in [false, true] {
            let compression = if latest { Compression::Latest } else { Compression::Deletions };
            let queue: Arc<Queue<F>> = Arc::new(Builder::new().compression(compression).build());
            let weak = Arc::downgrade(&queue);
            let drops = Arc::new(Mutex::new(0_u32));
            let counted = Arc::clone(&drops);
            let call: Arc<dyn Fn() + Send + Sync> = Arc::new(move || {
                *counted.lock().unwrap() += 1;
                if let Some(queue) = weak.upgrade() {
                    call_everything(&*queue);
                }
            });
            let key = |name| LoudKey(name, Loud(Arc::clone(&call)));
            let value = || Loud(Arc::clone(&call));
            let expect = |at_least: u32| {
                let mut drops = drops.lock().unwrap();
                assert!(*drops >= at_least, "{} drops", *drops);
                *drops = 0;
            };
            queue.delete(key(1), value()).unwrap();
            expect(2);
            for _ in 0..3 {
                queue.add(key(1), value()).unwrap();
            }
            expect(2);
            for _ in 0..2 {
                queue.delete(key(1), value()).unwrap();
            }
            expect(3);
            let lease = queue.pop().unwrap();
            for _ in 0..2 {
                queue.add(key(1), value()).unwrap();
            }
            lease.requeue();
            queue.pop().unwrap().done();
            expect(2);
            queue.add(key(1), value()).unwrap();
            queue.pop_batch(1).unwrap().done();
            expect(1);
            let snapshot = queue.snapshot();
            let replace = queue.begin_replace().unwrap();
            queue.add(key(2), value()).unwrap();
            replace.upsert(key(2), value()).unwrap();
            expect(2);
            queue.delete_key(key(2)).unwrap();
            replace.commit().unwrap();
            while let Ok(lease) = queue.try_pop() {
                lease.done();
            }
            drop(snapshot);
            expect(2);
            queue.replace([(key(3), value()), (key(3), value())]).unwrap();
            queue.process(|_| Outcome::Done).unwrap();
            let open = queue.begin_replace().unwrap();
            queue.add(key(4), value()).unwrap();
            queue.close_discard();
            drop(open);
            expect(2);
            drop(queue.add(key(5), value()));
            expect(2);
        }
    });
}

/// The hook of a queue that is built later.
pub(crate) type Hook = Arc<Mutex<Option<Arc<dyn Fn() + Send + Sync>>>>;

pub(crate) fn ring(hook: &Hook) {
    let call = hook.lock().unwrap().clone();
    if let Some(call) = call {
        call();
    }
}

/// Every hook calls the queue, a change of another key included.
pub(crate) fn hooks_call_the_queue<F: Family>() {
    finishes("the call", || {
        let hook = Hook::default();
        let ringer = || {
            let hook = Arc::clone(&hook);
            move || ring(&hook)
        };
        let (transform, error, backoff, scope, keys, get) =
            (ringer(), ringer(), ringer(), ringer(), ringer(), ringer());
        let queue: Arc<Plain<F>> = Arc::new(
            Builder::new()
                .transform(move |_: &mut u32| {
                    transform();
                    Ok(())
                })
                .on_error(move |_| error())
                .backoff(Backoff::custom(move |_| {
                    backoff();
                    Duration::ZERO
                }))
                .scope("all", move |_: &u32| {
                    scope();
                    true
                })
                .known_objects((
                    move || {
                        keys();
                        Ok(vec![1, 2])
                    },
                    move |_: &u32| -> Result<Option<u32>, BoxError> {
                        get();
                        Err("broken".into())
                    },
                ))
                .build(),
        );
        let calls = Arc::new(Mutex::new(0_u32));
        let (weak, counted, inside) = (Arc::downgrade(&queue), Arc::clone(&calls), Mutex::new(()));
        *hook.lock().unwrap() = Some(Arc::new(move || {
            // Not once more for what it calls itself.
            let Ok(_inside) = inside.try_lock() else { return };
            *counted.lock().unwrap() += 1;
            let queue = weak.upgrade().unwrap();
            call_everything(&*queue);
            queue.delete_key(9).unwrap();
        }));
        let expect = |what: &str| assert!(std::mem::take(&mut *calls.lock().unwrap()) > 0, "{what}");
        queue.add(1, 1).unwrap();
        expect("the transform");
        queue.delete(3, 3).unwrap();
        expect("the store");
        queue.change_all([Change::Delete(4, 4), Change::DeleteKey(5)]).unwrap();
        expect("the store, in a list");
        queue.replace_scope("all", [(1, 2)]).unwrap();
        expect("the scope");
        queue.pop().unwrap().requeue_with_backoff();
        expect("the back-off");
        drop(queue.pop().unwrap());
        expect("the back-off of a dropped lease");
        queue.pop_batch(2).unwrap().end(Outcome::RequeueWithBackoff);
        expect("the store, in a batch");
        queue.pop().unwrap().give_up();
        expect("the error hook");
        queue.resync().unwrap();
        expect("the store's keys");
        let replace = queue.begin_replace().unwrap();
        replace.upsert(2, 2).unwrap();
        replace.commit().unwrap();
        expect("a commit");
    });
}

/// While `process` ends by a back-off, its policy may call the queue: it must not hang.
pub(crate) fn backoff_inside_process<F: Family>() {
    let hook = Hook::default();
    let rung = Arc::clone(&hook);
    let policy = move |_| {
        ring(&rung);
        Duration::ZERO
    };
    let queue: Arc<Plain<F>> = Arc::new(Builder::new().backoff(Backoff::custom(policy)).build());
    let weak = Arc::downgrade(&queue);
    *hook.lock().unwrap() = Some(Arc::new(move || call_everything(&*weak.upgrade().unwrap())));
    queue.add(1, 1).unwrap();
    let processing = Arc::clone(&queue);
    finishes("the call", move || {
        let _ = catch_unwind(AssertUnwindSafe(|| processing.process(|_| Outcome::RequeueWithBackoff)));
    });
    let lease = queue.pop_timeout(LONG).unwrap();
    assert_eq!((*lease.key(), lease.attempts()), (1, 2));
}

/// The list is looked at when the replace has begun: what its iterator changes is newer.
pub(crate) fn iterators_call_the_queue<F: Family>() {
    finishes("the call", || {
        let queue: Plain<F> = Builder::new().build();
        queue.add(7, 70).unwrap();
        queue.pop().unwrap().done();
        let list = (0..3).map(|key| {
            queue.add(key, 100 + key).unwrap();
            queue.update(7, 71).unwrap();
            assert!(queue.replace([]).is_err());
            (key, key)
        });
        queue.replace(list).unwrap();
        let mut deltas = BTreeMap::new();
        while let Ok(lease) = queue.try_pop() {
            deltas.insert(*lease.key(), format!("{:?}", lease.deltas()));
            lease.done();
        }
        assert_eq!(deltas[&0], "[Added(100)]");
        assert_eq!(deltas[&7], "[Updated(71), Updated(71), Updated(71)]");
        queue
            .change_all((0..3).map(|key| {
                call_everything(&queue);
                Change::Update(key, key)
            }))
            .unwrap();
        assert_eq!(queue.pending_len(), 4);
    });
}

pub(crate) fn handlers_call_the_queue<F: Family>() {
    finishes("the call", || {
        let queue: Plain<F> = Builder::new().build();
        queue.replace([(1, 1), (2, 2)]).unwrap();
        let lease = queue.pop().unwrap();
        call_everything(&queue);
        queue.add(1, 10).unwrap();
        assert_eq!((queue.pending_len(), queue.leased_len(), queue.has_synced()), (2, 1, false));
        queue.pop().unwrap().done();
        queue.replace([(2, 20)]).unwrap();
        assert_eq!(queue.known().get_with(&1, |object| queue.pending_len() + *object as usize), Some(3));
        queue.known().iter().for_each(|_| call_everything(&queue));
        queue.close();
        lease.done();
        let lease = queue.pop().unwrap();
        assert_eq!(*lease.key(), 2);
        lease.done();
        let last = queue.pop().unwrap();
        assert_eq!((last.deltas().len(), last.deltas().newest().object()), (2, Some(&10)));
        last.done();
        assert!(queue.pop().is_err());
    });
}
