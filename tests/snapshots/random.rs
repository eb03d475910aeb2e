//! Random calls by one thread; after each of them every snapshot shows what was known when it was taken, and what is alive is
//! what somebody shows.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use delta_fifo::{Builder, DeltaQueue, KnownView, Lease, OwnedLease, OwnedReplace};

use crate::common::{Family, Random, for_each_queue, with_shards};
use crate::model::counted::{Count, Key, Value};

for_each_queue!(every_snapshot_shows_its_moment);

type Queue<F> = <F as Family>::Queue<Key, Value>;
type Snapshot<F> = <Queue<F> as DeltaQueue>::Snapshot;

const KEYS: u64 = 4;
const STEPS: u64 = 250;

/// The objects by key.
type Model = BTreeMap<u32, u64>;

struct Run<F: Family> {
    count: Count,
    random: Random,
    /// Gone in the end, before the snapshots or after them.
    queue: Option<Arc<Queue<F>>>,
    known: Model,
    snapshots: Vec<(Snapshot<F>, Model)>,
    leases: Vec<OwnedLease<Queue<F>>>,
    replace: Option<OwnedReplace<Queue<F>>>,
}

fn every_snapshot_shows_its_moment<F: Family>() {
    let rounds = crate::number("DELTA_FIFO_STRESS_ROUNDS", 6) * 30;
    let first = crate::number("DELTA_FIFO_STRESS_SEED", 0);
    for seed in first..first + rounds {
        let run = std::panic::AssertUnwindSafe(|| {
            let shards = [1, 2, 8][seed as usize % 3];
            let mut run = Run::<F>::new(seed, shards);
            let steps = run.random.below(STEPS);
            (0..steps).for_each(|_| run.step());
            run.rest();
            run.end();
        });
        if let Err(panic) = std::panic::catch_unwind(run) {
            eprintln!("seed {seed}");
            std::panic::resume_unwind(panic);
        }
    }
}

impl<F: Family> Run<F> {
    fn new(seed: u64, shards: usize) -> Self {
        Run {
            count: Count::default(),
            random: Random::new(seed),
            queue: Some(Arc::new(with_shards(Builder::new(), shards).build())),
            known: Model::new(),
            snapshots: Vec::new(),
            leases: Vec::new(),
            replace: None,
        }
    }

    fn queue(&self) -> Arc<Queue<F>> {
        Arc::clone(self.queue.as_ref().expect("it goes in the end"))
    }

    fn step(&mut self) {
        self.call();
        self.check();
        if self.random.one_in(30) {
            self.rest();
        }
    }

    fn call(&mut self) {
        let queue = self.queue();
        let name = self.random.below(KEYS) as u32;
        let (key, value) = self.count.pair(name);
        match self.random.below(24) {
            0 | 1 => queue.add(key, value).unwrap(),
            2 | 3 => queue.update(key, value).unwrap(),
            4 => queue.apply(key, value).unwrap(),
            5 => queue.delete(key, value).unwrap(),
            6 => queue.delete_key(key).unwrap(),
            7 if self.random.one_in(2) => drop(queue.replace([(key, value)])),
            8 => self.replace = queue.begin_replace_owned().ok().or(self.replace.take()),
            9 => drop(self.replace.as_ref().map(|replace| replace.upsert(key, value).unwrap())),
            10 if self.random.one_in(3) => {
                _ = self.replace.take().map(|replace| replace.commit().map(drop).unwrap());
            }
            11 => drop(queue.resync().unwrap()),
            12..16 => _ = self.pop(),
            16 | 17 => self.end_one(),
            18..21 if self.snapshots.len() < 12 => {
                self.snapshots.push((queue.snapshot(), self.known.clone()))
            }
            21 if !self.snapshots.is_empty() => {
                let at = self.random.below(self.snapshots.len() as u64) as usize;
                let (snapshot, model) = &self.snapshots[at];
                self.snapshots.push((snapshot.clone(), model.clone()));
            }
            _ if !self.snapshots.is_empty() => {
                let at = self.random.below(self.snapshots.len() as u64) as usize;
                self.snapshots.swap_remove(at);
            }
            _ => {}
        }
    }

    /// What is known moves with the lease.
    fn pop(&mut self) -> bool {
        let queue = self.queue();
        let Ok(lease) = queue.try_pop() else { return false };
        let (name, newest) = (lease.key().name, lease.deltas().newest());
        match newest.object().filter(|_| !newest.is_deletion()) {
            Some(object) => _ = self.known.insert(name, object.id()),
            None => _ = self.known.remove(&name),
        }
        self.leases.push(lease.into_owned(&queue));
        true
    }

    fn end_one(&mut self) {
        if self.leases.is_empty() {
            return;
        }
        let lease = self.leases.swap_remove(self.random.below(self.leases.len() as u64) as usize);
        match self.random.below(8) {
            0 => lease.requeue(),
            1 => lease.requeue_after(Duration::from_secs(3600)),
            2 => lease.give_up(),
            3 => drop(lease),
            _ => lease.done(),
        }
    }

    fn check(&self) {
        for (snapshot, model) in &self.snapshots {
            check_view(&self.count, snapshot, model);
        }
        if let Some(queue) = &self.queue {
            check_view(&self.count, &queue.known(), &self.known);
        }
    }

    /// Nothing is pending or leased: then what is alive is shown.
    fn rest(&mut self) {
        let queue = self.queue();
        self.leases.drain(..).for_each(Lease::done);
        if self.random.one_in(2) {
            self.replace = None;
        }
        // A change also ends a delay.
        for name in 0..KEYS as u32 {
            let (key, value) = self.count.pair(name);
            queue.update(key, value).unwrap();
        }
        while self.pop() {
            self.leases.drain(..).for_each(Lease::done);
        }
        for name in 0..KEYS as u32 {
            if self.random.one_in(3) {
                queue.delete_key(self.count.key(name)).unwrap();
            }
        }
        while self.pop() {
            self.leases.drain(..).for_each(Lease::done);
        }
        drop(queue);
        self.check();
        self.expect_what_is_shown();
    }

    fn expect_what_is_shown(&self) {
        let models = self.snapshots.iter().map(|(_, model)| model);
        let models = models.chain(self.queue.as_ref().map(|_| &self.known));
        let shown: BTreeSet<u64> = models.flat_map(|model| model.values().copied()).collect();
        self.count.expect_values(shown.len());
    }

    /// Everything goes, the queue at a random moment.
    fn end(mut self) {
        self.replace = None;
        loop {
            let last = self.snapshots.is_empty();
            if self.queue.is_some() && (last || self.random.one_in(4)) {
                self.queue = None;
            } else if last {
                break;
            } else {
                self.snapshots.swap_remove(self.random.below(self.snapshots.len() as u64) as usize);
            }
            self.check();
            self.expect_what_is_shown();
        }
        self.count.expect(0, 0);
    }
}

fn check_view(count: &Count, view: &impl KnownView<Key, Value>, model: &Model) {
    let mut shown = Model::new();
    for known in view.iter() {
        assert_eq!(shown.insert(known.key().name, known.object().id()), None, "a key twice");
    }
    assert_eq!((&shown, view.len()), (model, model.len()));
    for name in 0..KEYS as u32 {
        assert_eq!(view.get_with(&count.key(name), Value::id), model.get(&name).copied(), "key {name}");
    }
}
