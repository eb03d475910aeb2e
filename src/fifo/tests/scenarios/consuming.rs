//! Pops and what reads the known objects.

use crate::builder::Background;
use crate::known::KnownView;

use super::super::stopped::{PLAIN, arrives, stop_in};
use super::super::witness::{Hashed, panicking};
use super::*;

/// Over a store of the user's that knows nothing.
pub(super) fn stored() -> World {
    World::new(Hashed::Alike, |builder| builder.known_objects((|| Ok(Vec::new()), |_: &_| Ok(None))))
}

pub(super) const SCENARIOS: &[Scenario] = &[
    Scenario {
        name: "try_pop, of a new key",
        prepare: queued,
        call: |world, prepared| prepared.lease = pop(world),
        passes: &[
            "insert: ready",
            "known: installed",
            "known: number raised",
            "known: record prepared",
            "lease: before the exchange",
            "lease: begun",
            "pop: out of the line",
            "pop: read",
            "take: chunk made",
            "take: number drawn",
            "take: row made",
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
            "known: installed",
            "known: number raised",
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
            "known: absence counted",
            "known: installed",
            "known: number raised",
            "known: record removed",
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
            "known: absence counted",
            "known: installed",
            "known: number raised",
            "lease: before the exchange",
            "lease: begun",
            "pop: out of the line",
            "pop: read",
        ],
        leased: true,
        ..PLAIN
    },
    Scenario {
        name: "try_pop, of a key whose record was kept for a replace",
        prepare: |world| {
            known(world);
            let replace = world.queue.begin_replace_owned().expect("it is the only one");
            world.delete(KEY);
            world.complete(popped(world));
            world.add(KEY);
            Prepared { replace: Some(replace), ..Prepared::default() }
        },
        call: |world, prepared| prepared.lease = pop(world),
        passes: &[
            "hold: refs read",
            "known: installed",
            "known: number raised",
            "known: record reserved",
            "lease: before the exchange",
            "lease: begun",
            "pop: out of the line",
            "pop: read",
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
            "known: absence counted",
            "known: installed",
            "known: number raised",
            "known: record removed",
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
        name: "try_pop, when a stopped thread is removing the key's record",
        prepare: |world| {
            known(world);
            let replace = world.queue.begin_replace_owned().expect("it is the only one");
            world.delete(KEY);
            world.complete(popped(world));
            world.add(KEY);
            let (thread, gate) = stop_in(world, "known: record removed", 0, |_| drop(replace));
            assert!(arrives(&thread, &gate));
            Prepared { standing: vec![(thread, gate)], ..Prepared::default() }
        },
        call: |world, prepared| prepared.lease = pop(world),
        passes: &[
            "insert: ready",
            "known: installed",
            "known: number raised",
            "known: record is gone",
            "known: record prepared",
            "lease: before the exchange",
            "lease: begun",
            "pop: out of the line",
            "pop: read",
            "remove: marked",
            "search: marked",
            "take: number drawn",
        ],
        leased: true,
        ..PLAIN
    },
    Scenario {
        name: "try_pop, in which a key's Eq panics",
        prepare: |world| {
            know(world, SECOND);
            queued(world)
        },
        call: |world, _| panicking(|| drop(pop(world))),
        passes: &[
            "front: counted",
            "give back: before the exchange",
            "give back: ended",
            "lease: before the exchange",
            "lease: begun",
            "link: before the mark",
            "notify: fence",
            "pop: out of the line",
            "pop: read",
            "push: reserved",
        ],
        leased: true,
        ..PLAIN
    },
    Scenario {
        name: "try_pop, of a key that a panicked pop has put back",
        prepare: |world| {
            know(world, SECOND);
            world.add(KEY);
            panicking(|| drop(pop(world)));
            Prepared::default()
        },
        call: |world, prepared| prepared.lease = pop(world),
        passes: &[
            "front: popped",
            "insert: ready",
            "known: installed",
            "known: number raised",
            "known: record prepared",
            "lease: before the exchange",
            "lease: begun",
            "pop: out of the line",
            "pop: read",
            "take: number drawn",
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
            "known: number raised",
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
            "insert: ready",
            "known: installed",
            "known: number raised",
            "known: record prepared",
            "lease: before the exchange",
            "lease: begun",
            "pop: impatient",
            "pop: out of the line",
            "pop: poisoned",
            "pop: read",
            "take: chunk made",
            "take: number drawn",
            "take: row made",
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
            "insert: ready",
            "known: installed",
            "known: number raised",
            "known: record prepared",
            "lease: before the exchange",
            "lease: begun",
            "limbo: retired",
            "pop: out of the line",
            "pop: read",
            "remove: marked",
            "search: marked",
            "take: chunk made",
            "take: number drawn",
            "take: row made",
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
        name: "get, iter and snapshot",
        prepare: known,
        call: |world, _| {
            let known = world.queue.known();
            let _ = (known.get(&KEY), known.iter().count(), world.queue.snapshot().len());
        },
        passes: &["hold: refs read", "record: object held", "record: version read"],
        ..PLAIN
    },
];
