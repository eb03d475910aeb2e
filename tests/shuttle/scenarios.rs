//! The rounds of `stress.rs` with shuttle's threads: the same calls, written down and checked in the same way.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use delta_fifo::DeltaQueue;

use crate::common::{Random, ShardedQueues, threads};
use crate::rings;
use crate::round::{Role, Round, check_round, oversee};
use crate::run::Scenario;
use crate::shape::{Plan, Shape, Variant};
use crate::worker::Worker;

use Role::{Consumer, Looker, Marker, Mixed, Producer, Replacer, Resyncer};

const EVERYBODY: [Role; 13] = [
    Producer, Consumer, Producer, Consumer, Producer, Consumer, Producer, Consumer, Replacer, Resyncer,
    Marker, Looker, Mixed,
];

/// Who does what to which queue.
struct Cast {
    variant: Variant,
    keys: u32,
    roles: &'static [Role],
    calls: u64,
}

/// `change` says what else is to be so than the seed says.
fn round(cast: &Cast, seed: u64, change: fn(&mut Plan)) {
    let mut random = Random::new(seed);
    (0..8).for_each(|_| _ = random.below(2));
    let mut plan = Plan { panics: false, calls: cast.calls, ..Plan::new(&mut random) };
    change(&mut plan);
    let roles = cast.roles.to_vec();
    let shape = Shape { variant: cast.variant, keys: cast.keys, threads: roles.len(), shards: 2 };
    let round = Arc::new(Round::<ShardedQueues>::of(shape, seed, plan, roles));
    let mut first = Worker::new(&*round, shape.threads);
    if plan.first_list {
        first.first_lists();
    }
    let workers: Vec<_> = (0..shape.threads).map(|index| worker(&round, index)).collect();
    oversee(&round, first);
    workers.into_iter().for_each(|worker| worker.join().expect("its panic has ended the execution"));
    check_round(round);
}

fn worker(round: &Arc<Round<ShardedQueues>>, index: usize) -> shuttle::thread::JoinHandle<()> {
    let round = Arc::clone(round);
    threads::spawn(move || {
        let role = round.roles[index];
        let mut worker = Worker::new(&*round, index);
        worker.work(role);
        worker.finish();
        if !(role == Consumer && round.plan.blocking) {
            round.busy.fetch_sub(1, Ordering::SeqCst);
        }
        round.running.fetch_sub(1, Ordering::SeqCst);
    })
}

fn as_it_comes(_: &mut Plan) {}

fn everybody(variant: Variant, seed: u64) {
    round(&Cast { variant, keys: 3, roles: &EVERYBODY, calls: 6 }, seed, as_it_comes);
}

fn defaults(seed: u64) {
    everybody(Variant::Default, seed);
}

fn latest(seed: u64) {
    everybody(Variant::Latest, seed);
}

fn background(seed: u64) {
    everybody(Variant::Background, seed);
}

fn scopes(seed: u64) {
    everybody(Variant::Scopes, seed);
}

fn stores(seed: u64) {
    everybody(if seed % 2 == 0 { Variant::NoStore } else { Variant::OwnStore }, seed);
}

fn many_keys(seed: u64) {
    round(&Cast { variant: Variant::Default, keys: 24, roles: &EVERYBODY, calls: 6 }, seed, as_it_comes);
}

/// Few threads and calls, one key: what the others do is soon over, so that each step counts for more.
fn one_key(seed: u64) {
    let cast =
        Cast { variant: Variant::Default, keys: 1, roles: &[Producer, Consumer, Mixed, Mixed], calls: 4 };
    round(&cast, seed, as_it_comes);
}

/// Consumers sleep, threads and tasks, some of which are cancelled; a wake-up that is lost is a deadlock.
fn sleepers(seed: u64) {
    let cast = Cast {
        variant: Variant::Default,
        keys: 2,
        roles: &[Consumer, Consumer, Consumer, Consumer, Producer, Producer],
        calls: 5,
    };
    round(&cast, seed, |plan| {
        plan.blocking = true;
        plan.cancels = true;
        plan.closer = false;
        plan.discards = false;
    });
}

fn closing(seed: u64) {
    let cast = Cast {
        variant: Variant::Default,
        keys: 3,
        roles: &[Mixed, Consumer, Producer, Consumer, Replacer, Producer, Looker],
        calls: 4,
    };
    round(&cast, seed, |plan| plan.closer = true);
}

/// Leases are left by panics.
fn panics(seed: u64) {
    let cast = Cast {
        variant: Variant::Default,
        keys: 2,
        roles: &[Producer, Consumer, Consumer, Producer, Replacer, Mixed],
        calls: 8,
    };
    round(&cast, seed, |plan| plan.panics = true);
}

/// All but what somebody still holds has gone: leases, snapshots and handles outlive each other in any order.
fn leaving(seed: u64) {
    use crate::shape::{Object, Store, Tally};

    let tally = Tally::new();
    let shape = Shape { variant: Variant::Default, keys: 3, threads: 0, shards: 2 };
    let queue: Arc<crate::round::Queue<ShardedQueues>> = Arc::new(shape.build(&tally, &Store::default()));
    let holders: Vec<_> = (0..5)
        .map(|index| {
            let (queue, tally) = (Arc::clone(&queue), Arc::clone(&tally));
            let mut random = Random::new(seed * 31 + index);
            threads::spawn(move || {
                (0..8).for_each(|_| _ = random.below(2));
                let (mut leases, mut shown) = (Vec::new(), Vec::new());
                for number in 0..6 {
                    let name = random.below(3) as u32;
                    let key = || crate::shape::Key::new(&tally, name);
                    let object = || Object::new(&tally, (index as u16, number), name);
                    match random.below(7) {
                        0 | 1 => assert!(queue.apply(key(), object()).is_ok()),
                        2 => assert!(queue.delete_key(key()).is_ok()),
                        3 => shown.push(queue.snapshot()),
                        4 => drop(shown.pop()),
                        _ => leases.extend(queue.try_pop().map(|lease| lease.into_owned(&queue))),
                    }
                }
                drop(queue);
                while !(leases.is_empty() && shown.is_empty()) {
                    match random.below(3) {
                        0 => drop(shown.pop()),
                        1 => drop(leases.pop()),
                        _ => leases.pop().into_iter().for_each(|lease| lease.done()),
                    }
                }
            })
        })
        .collect();
    drop(queue);
    holders.into_iter().for_each(|holder| holder.join().expect("its panic has ended the execution"));
    tally.check();
}

macro_rules! scenarios {
    ($($name:ident: $body:expr $(, panics: $panics:literal)?;)*) => {
        pub(crate) const ALL: &[Scenario] = &[$(
            Scenario { name: stringify!($name), body: $body, panics: false $(|| $panics)? },
        )*];

        $(
            #[test]
            fn $name() {
                of(stringify!($name)).check();
            }
        )*
    };
}

pub(crate) fn of(name: &str) -> &'static Scenario {
    ALL.iter().find(|scenario| scenario.name == name).unwrap_or_else(|| panic!("no scenario is named {name}"))
}

mod tests {
    use super::*;

    scenarios!(
        defaults: super::defaults;
        latest: super::latest;
        background: super::background;
        scopes: super::scopes;
        stores: super::stores;
        many_keys: super::many_keys;
        one_key: super::one_key;
        sleepers: super::sleepers;
        closing: super::closing;
        panics: super::panics, panics: true;
        leaving: super::leaving;
        rings: super::rings::snapshots;
    );
}
pub(crate) use tests::ALL;
