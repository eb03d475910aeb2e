//! The calls in which a thread stops, and the points that each passes.

mod consuming;
mod deleting;
mod ending;
mod lists;
mod producing;
mod snapshots;

use std::sync::Arc;
use std::time::Duration;

use crate::known::KnownView;
use crate::lease::OwnedLease;
use crate::queue::DeltaQueue;

use super::stopped::{KEY, Prepared, Scenario, Snapshot, arrives, stop_in};
use super::witness::{Queue, World};

/// All of them.
pub(super) fn all() -> impl Iterator<Item = &'static Scenario> {
    [
        producing::SCENARIOS,
        deleting::SCENARIOS,
        lists::SCENARIOS,
        consuming::SCENARIOS,
        ending::SCENARIOS,
        snapshots::SCENARIOS,
    ]
    .into_iter()
    .flatten()
}

/// Keys of the scenarios' own, beside the one that counts.
const SECOND: u32 = 2;
const THIRD: u32 = 3;

const HOUR: Duration = Duration::from_secs(3_600);

/// The first in line, if there is one, as a lease that can be moved.
fn pop(world: &World) -> Option<OwnedLease<Queue>> {
    Some(world.queue.try_pop().ok()?.into_owned(&world.queue))
}

fn popped(world: &World) -> OwnedLease<Queue> {
    pop(world).expect("a key is in line")
}

/// Makes the key known.
fn know(world: &World, name: u32) {
    world.add(name);
    world.complete(popped(world));
}

fn queued(world: &Arc<World>) -> Prepared {
    world.add(KEY);
    Prepared::default()
}

fn known(world: &Arc<World>) -> Prepared {
    know(world, KEY);
    Prepared::default()
}

fn leased(world: &Arc<World>) -> Prepared {
    world.add(KEY);
    Prepared { lease: pop(world), ..Prepared::default() }
}

fn dirty(world: &Arc<World>) -> Prepared {
    let prepared = leased(world);
    world.update(KEY);
    prepared
}

/// The key was known, and this is the lease of its deletion.
fn deleted(world: &World) -> OwnedLease<Queue> {
    know(world, KEY);
    world.delete(KEY);
    popped(world)
}

/// The key is known no more, but its entry was kept for the replace that is open.
fn kept(world: &Arc<World>) -> Prepared {
    know(world, KEY);
    let replace = world.queue.begin_replace_owned().expect("it is the only one");
    world.delete(KEY);
    world.complete(popped(world));
    Prepared { replace: Some(replace), ..Prepared::default() }
}

/// The same, but the replace has ended, and the thread that ended it has stopped when the entry was retired.
fn half_retired(world: &Arc<World>) -> Prepared {
    let replace = kept(world).replace;
    let (thread, gate) = stop_in(world, "known: retired", 0, |_| drop(replace));
    assert!(arrives(&thread, &gate));
    Prepared { standing: vec![(thread, gate)], ..Prepared::default() }
}

fn delayed(world: &Arc<World>) -> Prepared {
    world.add(KEY);
    popped(world).requeue_after(HOUR);
    Prepared::default()
}

/// A consumer that sleeps until the queue is closed.
fn sleeping(world: &Arc<World>) -> Prepared {
    let sleeper = std::thread::spawn({
        let world = Arc::clone(world);
        move || {
            while let Ok(lease) = world.queue.pop() {
                world.complete(lease);
            }
        }
    });
    world.wait_for_sleeper();
    Prepared { sleeper: Some(sleeper), ..Prepared::default() }
}
