//! One round: who does what to which queue, and what all of them share. Its threads are std's or shuttle's.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use delta_fifo::{DeltaQueue, OwnedLease};

use crate::common::{Family, Random, threads};

use super::check;
use super::record::{Log, Turn};
use super::shape::{Key, Object, Plan, Shape, Store, Tally};
use super::watchdog::{Board, Doing};
use super::worker::Worker;

pub(crate) type Queue<F> = <F as Family>::Queue<Key, Object>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    Producer,
    Consumer,
    Replacer,
    Resyncer,
    Marker,
    Looker,
    /// Something else at every step.
    Mixed,
}

pub(crate) struct Round<F: Family> {
    pub(crate) queue: Arc<Queue<F>>,
    pub(crate) shape: Shape,
    pub(crate) plan: Plan,
    pub(crate) seed: u64,
    pub(crate) roles: Vec<Role>,
    pub(crate) clock: AtomicU64,
    pub(crate) tally: Arc<Tally>,
    pub(crate) store: Store,
    /// Leases that change hands.
    pub(crate) shelf: Mutex<Vec<(Turn, OwnedLease<Queue<F>>)>>,
    pub(crate) log: Mutex<Log>,
    pub(crate) board: Board,
    /// Threads other than sleeping consumers that are not through.
    pub(crate) busy: AtomicUsize,
    pub(crate) running: AtomicUsize,
    pub(crate) arrived: AtomicUsize,
    pub(crate) over: AtomicBool,
    pub(crate) failed: AtomicBool,
}

impl<F: Family> Round<F> {
    /// Of any roles.
    pub(crate) fn new(shape: Shape, seed: u64) -> Self {
        let mut random = Random::new(seed);
        (0..8).for_each(|_| _ = random.below(2));
        let plan = Plan::new(&mut random);
        let roles = roles(&shape, &plan, &mut random);
        Self::of(shape, seed, plan, roles)
    }

    pub(crate) fn of(shape: Shape, seed: u64, plan: Plan, roles: Vec<Role>) -> Self {
        let (tally, store) = (Tally::new(), Store::default());
        let sleepers =
            if plan.blocking { roles.iter().filter(|&&role| role == Role::Consumer).count() } else { 0 };
        Round {
            queue: Arc::new(shape.build(&tally, &store)),
            shape,
            plan,
            seed,
            clock: AtomicU64::new(1),
            tally,
            store,
            shelf: Mutex::default(),
            log: Mutex::default(),
            board: Board::new(shape.threads + 1),
            busy: AtomicUsize::new(roles.len() - sleepers),
            running: AtomicUsize::new(roles.len()),
            roles,
            arrived: AtomicUsize::new(0),
            over: AtomicBool::new(false),
            failed: AtomicBool::new(false),
        }
    }

    pub(crate) fn now(&self) -> u64 {
        self.clock.fetch_add(1, Ordering::SeqCst)
    }

    pub(crate) fn title(&self) -> String {
        format!("seed {}, {:?}, {:?}, {:?}", self.seed, self.shape, self.plan, self.roles)
    }

    pub(crate) fn fail(&self) {
        self.failed.store(true, Ordering::SeqCst);
        // Nobody shall sleep any more.
        self.queue.close_discard();
        self.shelf.lock().unwrap().clear();
    }
}

/// Each round has somebody who changes and somebody who consumes.
fn roles(shape: &Shape, plan: &Plan, random: &mut Random) -> Vec<Role> {
    use Role::{Consumer, Looker, Marker, Mixed, Producer, Replacer, Resyncer};
    let first = [Producer, Mixed, Replacer][random.below(3) as usize];
    let mut roles = vec![first, if plan.blocking || random.one_in(2) { Consumer } else { Mixed }];
    while roles.len() < shape.threads {
        let any = [
            Producer, Producer, Producer, Consumer, Consumer, Consumer, Mixed, Replacer, Resyncer, Marker,
            Looker,
        ];
        roles.push(any[random.below(any.len() as u64) as usize]);
    }
    roles
}

/// What the thread that runs the rounds does while the others work.
pub(crate) fn oversee<F: Family>(round: &Round<F>, first: Worker<'_, F>) {
    let mut last = first;
    last.doing(Doing::Nothing);
    while round.busy.load(Ordering::SeqCst) > 0 {
        threads::sleep(Duration::from_micros(50));
    }
    if round.failed.load(Ordering::SeqCst) {
        return;
    }
    if round.plan.blocking {
        last.rest(true);
        round.queue.close();
        // A consumer may wait for a key whose lease lies on the shelf.
        while round.running.load(Ordering::SeqCst) > 0 {
            last.end_from_shelf();
            threads::yield_now();
        }
    }
    last.finish();
}

pub(crate) fn check_round<F: Family>(round: Arc<Round<F>>) {
    let mut last = Worker::new(&*round, round.shape.threads);
    last.rest(false);
    last.quiet();
    last.finish();
    check::everything(&round);
    // The watchdog may still hold the round.
    round.over.store(true, Ordering::SeqCst);
    let tally = Arc::clone(&round.tally);
    let mut round = Some(round);
    while let Some(shared) = round.take() {
        match Arc::try_unwrap(shared) {
            Ok(last) => drop(last),
            Err(shared) => {
                threads::yield_now();
                round = Some(shared);
            }
        }
    }
    tally.check();
}
