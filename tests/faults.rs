//! User code that panics, at every call of it: what was called has then happened as a whole or not at all, nothing is
//! lost or stuck, and the queue goes on.

mod common;
mod model;

use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use delta_fifo::{
    Backoff, Builder, Change, Compression, DeltaQueue, KnownView, OwnedLease, OwnedReplace, Version,
};

use common::{Family, for_each_queue};
use model::fuse::{Boom, Fuse, Key, Site, Value};

type Queue<F> = <F as Family>::Queue<Key, Value>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Known {
    Inside,
    None,
    Store,
    /// Its look-ups fail.
    BrokenStore,
}

#[derive(Clone, Copy, Debug)]
struct Setup {
    known: Known,
    latest: bool,
    /// A streaming replace is open.
    replacing: bool,
    scopes: bool,
}

/// A queue in the middle of its work.
struct Scene<F: Family> {
    queue: Arc<Queue<F>>,
    leases: Vec<OwnedLease<Queue<F>>>,
    replace: Option<OwnedReplace<Queue<F>>>,
    fuse: Fuse,
    store: Arc<Mutex<BTreeMap<u32, u32>>>,
    known: Known,
}

impl<F: Family> Scene<F> {
    fn key(&self, name: u32) -> Key {
        Key::new(name, &self.fuse)
    }

    fn value(&self, number: u32) -> Value {
        Value::new(number, &self.fuse)
    }

    fn pair(&self, name: u32, number: u32) -> (Key, Value) {
        (self.key(name), self.value(number))
    }

    fn add(&self, name: u32, number: u32) {
        self.queue.add(self.key(name), self.value(number)).unwrap();
    }

    fn delete(&self, name: u32, number: u32) {
        self.queue.delete(self.key(name), self.value(number)).unwrap();
    }

    fn lease(&self) -> OwnedLease<Queue<F>> {
        self.queue.try_pop().unwrap().into_owned(&self.queue)
    }

    /// Known: 0 to 3. In line: 3 (an update) and 4 (given back, and changed since). Leased: 2, dirty, and 5, clean.
    fn new(setup: Setup) -> Self {
        let fuse = Fuse::default();
        let store = Arc::new(Mutex::new(BTreeMap::new()));
        let transform = fuse.clone();
        let mut builder = Builder::new()
            .compression(if setup.latest { Compression::Latest } else { Compression::Deletions })
            .transform(move |_: &mut Value| {
                transform.tick(Site::Transform);
                Ok(())
            });
        let (hook, backoff) = (fuse.clone(), fuse.clone());
        builder = builder.on_error(move |_| hook.tick(Site::ErrorHook)).backoff(Backoff::custom(move |_| {
            backoff.tick(Site::Backoff);
            Duration::ZERO
        }));
        builder = match setup.known {
            Known::Inside => builder,
            Known::None => builder.no_known_objects(),
            Known::Store | Known::BrokenStore => {
                let broken = setup.known == Known::BrokenStore;
                let (keys, get) = ((fuse.clone(), Arc::clone(&store)), (fuse.clone(), Arc::clone(&store)));
                builder.known_objects((
                    move || {
                        keys.0.tick(Site::StoreKeys);
                        let names: Vec<u32> = keys.1.lock().unwrap().keys().copied().collect();
                        Ok(names.into_iter().map(|name| Key::new(name, &keys.0)).collect())
                    },
                    move |key: &Key| {
                        get.0.tick(Site::StoreGet);
                        if broken {
                            return Err("broken".into());
                        }
                        Ok(get.1.lock().unwrap().get(&key.name).map(|&number| Value::new(number, &get.0)))
                    },
                ))
            }
        };
        if setup.scopes {
            let scope = fuse.clone();
            builder = builder.scope("all", move |_| {
                scope.tick(Site::Scope);
                true
            });
        }
        let queue = Arc::new(builder.build());
        let mut scene: Self =
            Scene { queue, leases: Vec::new(), replace: None, fuse, store, known: setup.known };
        for name in 0..4 {
            scene.add(name, name);
            scene.store.lock().unwrap().insert(name, name);
            scene.lease().done();
        }
        scene.add(4, 40);
        let joint = scene.lease();
        scene.add(4, 41);
        scene.add(2, 20);
        scene.add(5, 50);
        scene.leases = vec![scene.lease(), scene.lease()];
        scene.add(2, 21);
        joint.requeue();
        scene.add(3, 30);
        scene.queue.mark(1).unwrap();
        if setup.replacing {
            let replace = scene.queue.begin_replace_owned().unwrap();
            replace.upsert(scene.key(0), scene.value(100)).unwrap();
            scene.replace = Some(replace);
        }
        scene
    }

    /// Lets everything go on and says what came of it: per key, so that the order of the line does not count.
    fn observe(mut self) -> BTreeSet<String> {
        let queue = &self.queue;
        assert_eq!(queue.leased_len(), self.leases.len(), "a lease is held by nobody");
        let mut seen = BTreeSet::from([format!("closed: {}", queue.is_closed())]);
        let (synced, delivered) = (queue.has_synced(), queue.has_delivered());
        // Entries that were made and not used would hide keys from this.
        seen.insert(format!("resynced: {:?}", queue.resync().ok()));
        if let Some(replace) = self.replace.take() {
            let committed = replace.commit().is_ok();
            seen.insert(format!("committed: {committed}"));
        } else if !queue.is_closed() {
            drop(queue.begin_replace().expect("no replace is in progress"));
        }
        for lease in self.leases.drain(..) {
            lease.requeue();
        }
        let pending = queue.pending_len();
        let mut popped = 0;
        // A back-off policy that panics is replaced by the default's few milliseconds.
        while queue.pending_len() > 0 {
            let Ok(lease) = queue.pop_timeout(Duration::from_millis(20)) else { continue };
            popped += 1;
            seen.insert(format!("{:?}: {:?} after {:?}", lease.key(), lease.deltas(), lease.previous()));
            lease.done();
        }
        assert_eq!((queue.pending_len(), queue.leased_len()), (0, 0));
        // A resync comes to nothing where the store cannot tell.
        assert!(popped == pending || self.known == Known::BrokenStore, "{popped} of {pending}");
        // What was discarded is never processed.
        assert!(queue.is_closed() || queue.processed_through() == Some(Version::from(1)));
        if self.known == Known::Inside {
            let view = queue.known();
            let known = view.iter().map(|known| (known.key().name, known.object().number));
            seen.insert(format!("known: {:?}", known.collect::<BTreeMap<_, _>>()));
        }
        if !queue.is_closed() {
            queue.add(self.key(77), self.value(77)).unwrap();
            let batch = queue.try_pop_batch(2).unwrap();
            assert_eq!(batch.iter().map(|lease| lease.key().name).collect::<Vec<_>>(), [77]);
            batch.done();
            let completion = queue.replace([self.pair(8, 8)]).unwrap();
            while let Ok(lease) = queue.try_pop() {
                lease.done();
            }
            assert!(completion.is_complete() && queue.has_synced());
        }
        assert!(!delivered || queue.has_delivered());
        assert!(!synced || queue.has_synced());
        seen
    }
}

type Call<F> = fn(&mut Scene<F>);

#[path = "faults/calls.rs"]
mod calls;
#[path = "faults/hooks.rs"]
mod hooks;
#[path = "faults/looks.rs"]
mod looks;
#[path = "faults/reentrance.rs"]
mod reentrance;
#[path = "faults/shapes.rs"]
mod shapes;
#[path = "faults/values.rs"]
mod values;
#[path = "faults/waiters.rs"]
mod waiters;
use calls::*;
use hooks::*;
use looks::*;
use reentrance::*;
use shapes::*;
use values::*;
use waiters::*;

/// Every set-up in which user code of this site runs.
fn setups(site: Site) -> Vec<Setup> {
    let known = match site {
        Site::StoreKeys | Site::StoreGet => vec![Known::Store],
        Site::ErrorHook => vec![Known::BrokenStore],
        _ => vec![Known::Inside, Known::None, Known::Store],
    };
    let mut setups = Vec::new();
    for known in known {
        for latest in [false, true] {
            for replacing in [false, true] {
                setups.push(Setup { known, latest, replacing, scopes: site == Site::Scope });
            }
        }
    }
    setups
}

/// Lets the site panic at its first, second, … call during each call of the queue.
fn survives<F: Family>(site: Site) {
    let mut explosions = 0;
    let mut failures = Vec::new();
    for setup in setups(site) {
        for (name, call, parts) in calls::<F>() {
            let observed = |call: Call<F>| {
                let mut scene = Scene::<F>::new(setup);
                call(&mut scene);
                scene.observe()
            };
            let after = observed(call);
            let mut allowed = vec![observed(|_| {}), after.clone()];
            allowed.extend(parts.iter().map(|&part| observed(part)));
            for nth in 1.. {
                let mut scene = Scene::<F>::new(setup);
                let fuse = scene.fuse.clone();
                fuse.arm(site, nth);
                let result = catch_unwind(AssertUnwindSafe(|| call(&mut scene)));
                let exploded = fuse.disarm();
                if let Err(panic) = &result {
                    assert!(panic.is::<Boom>(), "{name} panics by itself");
                }
                let expected = if result.is_ok() { std::slice::from_ref(&after) } else { &allowed[..] };
                let observed = catch_unwind(AssertUnwindSafe(|| scene.observe()));
                match observed {
                    Ok(observed) if expected.contains(&observed) => {}
                    Ok(observed) => failures.push(format!(
                        "{name}, panic at call {nth}, {setup:?}\n   got {observed:?}\n   not one of {expected:#?}"
                    )),
                    Err(panic) => {
                        let why = panic.downcast_ref::<String>().cloned().unwrap_or_default();
                        failures.push(format!("{name}, panic at call {nth}, {setup:?}: {why}"));
                    }
                }
                if !exploded {
                    break;
                }
                explosions += 1;
            }
        }
    }
    assert!(failures.is_empty(), "{} failures\n{}", failures.len(), failures.join("\n"));
    assert!(explosions > 0, "{site:?} was never reached");
}

fn hash<F: Family>() {
    survives::<F>(Site::Hash);
}

fn eq<F: Family>() {
    survives::<F>(Site::Eq);
}

fn drop_of_a_key<F: Family>() {
    survives::<F>(Site::DropKey);
}

fn drop_of_an_object<F: Family>() {
    survives::<F>(Site::DropValue);
}

fn transform<F: Family>() {
    survives::<F>(Site::Transform);
}

fn keys_of_a_store<F: Family>() {
    survives::<F>(Site::StoreKeys);
}

fn get_of_a_store<F: Family>() {
    survives::<F>(Site::StoreGet);
}

fn scope_predicate<F: Family>() {
    survives::<F>(Site::Scope);
}

fn error_hook<F: Family>() {
    survives::<F>(Site::ErrorHook);
}

fn backoff<F: Family>() {
    survives::<F>(Site::Backoff);
}

fn iterator<F: Family>() {
    survives::<F>(Site::Iterator);
}

for_each_queue!(
    hash,
    eq,
    drop_of_a_key,
    drop_of_an_object,
    transform,
    keys_of_a_store,
    get_of_a_store,
    scope_predicate,
    error_hook,
    backoff,
    iterator,
    key_function,
    handler,
    calls_inside_process,
    wakers,
    futures_of_panicking_wakers,
    timer,
    discarded_while_the_store_panics,
    drops_call_the_queue,
    hooks_call_the_queue,
    backoff_inside_process,
    iterators_call_the_queue,
    handlers_call_the_queue,
    waiters_are_woken,
    waiters_of_a_discard,
    replaces_that_wait,
    timers_call_the_queue,
    zero_sized,
    big,
    over_aligned,
    hostile_hash,
    forgotten_lease,
    forgotten_replace,
    big_on_a_small_stack,
    boxed_on_a_tiny_stack,
    objects_that_change_inside,
    thousands_alike,
    lying_eq,
    looks_that_panic,
);
