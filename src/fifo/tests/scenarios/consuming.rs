//! Pops and what reads the known objects.

use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

use crate::builder::Background;
use crate::known::KnownView;

use super::super::stopped::{PLAIN, arrives, stop_in};
use super::super::witness::{Hashed, Name, Thing, panicking, stumble_over};
use super::*;

/// Over a store of the user's that knows nothing.
pub(super) fn stored() -> World {
    World::new(Hashed::Alike, |builder| builder.known_objects((|| Ok(Vec::new()), |_: &_| Ok(None))))
}

/// Over one that panics over a key when told to.
fn stumbling() -> World {
    let get = |key: &Name| {
        stumble_over(key, SECOND);
        Ok(None)
    };
    World::new(Hashed::Alike, |builder| builder.known_objects((|| Ok(Vec::new()), get)))
}

/// Over one that has every object until it is asked a second time.
fn forgetful() -> World {
    let asked = AtomicBool::new(false);
    let get = move |_: &Name| Ok((!asked.swap(true, SeqCst)).then(Thing::of_a_store));
    World::new(Hashed::Alike, |builder| builder.known_objects((|| Ok(Vec::new()), get)))
}

pub(super) const SCENARIOS: &[Scenario] = &[
    Scenario {
        name: "try_pop, of a new key",
        prepare: queued,
        call: |world, prepared| prepared.lease = pop(world),
        passes: &[
            "version: installed",
            "version: about to be stamped",
            "known: installed",
            "lease: before the exchange",
            "lease: begun",
            "pop: out of the line",
            "pop: read",
        ],
        leased: true,
        ..PLAIN
    },
    Scenario {
        name: "try_pop, of a known key",
        prepare: |world| {
            known(world);
            queued(world)
        },
        call: |world, prepared| prepared.lease = pop(world),
        passes: &[
            "version: installed",
            "version: about to be stamped",
            "version: about to be decided",
            "known: installed",
            "lease: before the exchange",
            "lease: begun",
            "pop: out of the line",
            "pop: read",
        ],
        leased: true,
        ..PLAIN
    },
    Scenario {
        name: "try_pop, of a deletion",
        prepare: |world| {
            known(world);
            world.delete(KEY);
            Prepared::default()
        },
        call: |world, prepared| prepared.lease = pop(world),
        passes: &[
            "take: number drawn",
            "version: installed",
            "version: about to be stamped",
            "version: about to be decided",
            "known: installed",
            "lease: before the exchange",
            "lease: begun",
            "pop: out of the line",
            "pop: read",
        ],
        leased: true,
        ..PLAIN
    },
    Scenario {
        name: "try_pop, of a deletion while a replace is open",
        prepare: |world| {
            known(world);
            let replace = world.queue.begin_replace_owned().expect("it is the only one");
            world.delete(KEY);
            Prepared { replace: Some(replace), ..Prepared::default() }
        },
        call: |world, prepared| prepared.lease = pop(world),
        passes: &[
            "hold: refs read",
            "take: number drawn",
            "version: installed",
            "version: about to be stamped",
            "version: about to be decided",
            "known: installed",
            "lease: before the exchange",
            "lease: begun",
            "pop: out of the line",
            "pop: read",
        ],
        leased: true,
        ..PLAIN
    },
    Scenario {
        name: "try_pop, of a key whose entry was kept for a replace",
        prepare: |world| {
            let prepared = kept(world);
            world.add(KEY);
            prepared
        },
        call: |world, prepared| prepared.lease = pop(world),
        passes: &[
            "hold: refs read",
            "version: installed",
            "version: about to be stamped",
            "version: about to be decided",
            "known: installed",
            "lease: before the exchange",
            "lease: begun",
            "pop: out of the line",
            "pop: read",
            "drop: was the last",
            "give: link written",
        ],
        leased: true,
        ..PLAIN
    },
    Scenario {
        name: "try_pop, of a key that a list no longer has",
        prepare: |world| {
            known(world);
            drop(world.queue.replace([]).expect("it is the only one"));
            Prepared::default()
        },
        call: |world, prepared| prepared.lease = pop(world),
        passes: &[
            "drop: was the last",
            "give: link written",
            "version: installed",
            "version: about to be stamped",
            "version: about to be decided",
            "known: installed",
            "lease: before the exchange",
            "lease: begun",
            "pop: out of the line",
            "pop: read",
            "take: restocking",
        ],
        leased: true,
        ..PLAIN
    },
    Scenario {
        name: "try_pop, of a key whose kept entry a stopped thread is retiring",
        prepare: |world| {
            let prepared = half_retired(world);
            world.add(KEY);
            prepared
        },
        call: |world, prepared| prepared.lease = pop(world),
        passes: &[
            "version: installed",
            "version: about to be stamped",
            "known: installed",
            "lease: before the exchange",
            "lease: begun",
            "pop: out of the line",
            "pop: read",
        ],
        leased: true,
        ..PLAIN
    },
    Scenario {
        name: "try_pop_batch, in which a user's store panics",
        world: stumbling,
        prepare: |world| {
            queued(world);
            world.add(SECOND);
            world.add(THIRD);
            Prepared::default()
        },
        call: |world, _| panicking(|| drop(world.queue.try_pop_batch(8))),
        passes: &[
            "front: counted",
            "give back: before the exchange",
            "give back: ended",
            "lease: before the exchange",
            "lease: begun",
            "link: in line",
            "link: owed",
            "notify: fence",
            "pop: out of the line",
            "pop: read",
            "push: first segment ready",
            "push: first segment there",
            "push: reserved",
            "take: chunk made",
            "take: number drawn",
            "take: row made",
        ],
        leased: true,
        ..PLAIN
    },
    Scenario {
        name: "try_pop, of a key that a panicked pop has put back",
        world: stumbling,
        prepare: |world| {
            queued(world);
            world.add(SECOND);
            panicking(|| drop(world.queue.try_pop_batch(8)));
            Prepared::default()
        },
        call: |world, prepared| prepared.lease = pop(world),
        passes: &[
            "front: popped",
            "lease: before the exchange",
            "lease: begun",
            "pop: out of the line",
            "pop: read",
            "give: link written",
        ],
        leased: true,
        ..PLAIN
    },
    Scenario {
        name: "try_pop, over a user's store",
        world: stored,
        prepare: queued,
        call: |world, prepared| prepared.lease = pop(world),
        passes: &["lease: before the exchange", "lease: begun", "pop: out of the line", "pop: read"],
        leased: true,
        ..PLAIN
    },
    Scenario {
        name: "try_pop, of a resync, when the user's store has lost the object",
        world: forgetful,
        prepare: |world| {
            world.queue.resync_key(world.key(KEY)).expect("it is open");
            Prepared::default()
        },
        call: |world, prepared| prepared.lease = pop(world),
        passes: &[
            "drop: was the last",
            "finish: before the exchange",
            "finish: counted",
            "finish: ended",
            "give: link written",
            "lease: before the correction",
            "lease: before the exchange",
            "lease: begun",
            "limbo: retired",
            "pop: out of the line",
            "pop: read",
            "remove: marked",
            "search: marked",
        ],
        leased: true,
        ..PLAIN
    },
    Scenario {
        name: "try_pop, from both lines",
        world: || World::new(Hashed::Alike, |builder| builder.background(Background::Resync)),
        prepare: |world| {
            known(world);
            world.queue.resync().expect("it is open");
            Prepared::default()
        },
        call: |world, prepared| prepared.lease = pop(world),
        passes: &[
            "drop: was the last",
            "give: link written",
            "lease: before the exchange",
            "lease: begun",
            "lines: background popped",
            "pop: out of the line",
            "pop: read",
        ],
        leased: true,
        ..PLAIN
    },
    Scenario {
        name: "try_pop, when a pusher has stopped before its cell is filled",
        prepare: |world| {
            let (thread, gate) = stop_in(world, "push: reserved", 0, |world| _ = world.add(SECOND));
            assert!(arrives(&thread, &gate));
            world.add(KEY);
            Prepared { standing: vec![(thread, gate)], ..Prepared::default() }
        },
        call: |world, prepared| prepared.lease = pop(world),
        passes: &[
            "version: installed",
            "version: about to be stamped",
            "known: installed",
            "lease: before the exchange",
            "lease: begun",
            "pop: impatient",
            "pop: out of the line",
            "pop: poisoned",
            "pop: read",
        ],
        leased: true,
        ..PLAIN
    },
    Scenario {
        name: "try_pop, of nothing",
        call: |world, prepared| prepared.lease = pop(world),
        passes: &[],
        leased: true,
        ..PLAIN
    },
    Scenario {
        name: "try_pop_batch",
        prepare: |world| {
            world.add(SECOND);
            queued(world)
        },
        call: |world, _| {
            for lease in world.queue.try_pop_batch(8).into_iter().flatten() {
                world.complete(lease);
            }
        },
        passes: &[
            "finish: before the exchange",
            "finish: counted",
            "finish: ended",
            "version: installed",
            "version: about to be stamped",
            "known: installed",
            "lease: before the exchange",
            "lease: begun",
            "pop: out of the line",
            "pop: read",
        ],
        leased: true,
        ..PLAIN
    },
    Scenario {
        name: "pop, which sleeps",
        call: |world, prepared| {
            let lease = world.queue.pop_timeout(Duration::from_millis(1)).ok();
            prepared.lease = lease.map(|lease| lease.into_owned(&world.queue));
        },
        passes: &[
            "leave: left",
            "register: cell held",
            "register: counted",
            "register: handle written",
            "register: registered",
        ],
        leased: true,
        ..PLAIN
    },
    Scenario {
        name: "known, get and iter, and snapshot",
        prepare: known,
        call: |world, _| {
            let known = world.queue.known();
            let _ = (known.get(&KEY), known.iter().count(), world.queue.snapshot().len());
        },
        passes: &[
            "hold: refs read",
            "version: object held",
            "version: read",
            "snapshot: ended",
            "snapshot: registered",
            "give: link written",
            "take: chunk made",
            "take: number drawn",
            "take: row made",
            "version: newest read",
        ],
        ..PLAIN
    },
];
