//! Snapshots: what they show, what is kept for them, and how it goes.

use super::super::stopped::PLAIN;
use super::super::witness::Hashed;
use super::*;

fn snapshot(prepared: &mut Prepared) -> Snapshot {
    prepared.snapshot.take().expect("it was prepared")
}

fn with_snapshot(world: &World) -> Prepared {
    Prepared { snapshot: Some(world.queue.snapshot()), ..Prepared::default() }
}

/// The key is known, and a snapshot shows it.
fn shown(world: &Arc<World>) -> Prepared {
    know(world, KEY);
    with_snapshot(world)
}

/// It has changed since.
fn changed(world: &Arc<World>) -> Prepared {
    let prepared = shown(world);
    know(world, KEY);
    prepared
}

/// It is known no more.
fn gone(world: &Arc<World>) -> Prepared {
    let prepared = shown(world);
    world.delete(KEY);
    world.complete(popped(world));
    prepared
}

/// An older snapshot has ended, and the thread that looks after what it showed has stopped with the key in hand.
fn half_swept(world: &Arc<World>) -> Prepared {
    let oldest = shown(world).snapshot;
    let prepared = changed(world);
    let (thread, gate) = stop_in(world, "kept: chain in hand", 0, |_| drop(oldest));
    assert!(arrives(&thread, &gate));
    world.update(KEY);
    Prepared { standing: vec![(thread, gate)], ..prepared }
}

pub(super) const SCENARIOS: &[Scenario] = &[
    Scenario {
        name: "snapshot",
        prepare: known,
        call: |world, prepared| prepared.snapshot = Some(world.queue.snapshot()),
        passes: &["snapshot: registered", "take: chunk made", "take: number drawn", "take: row made"],
        ..PLAIN
    },
    Scenario {
        name: "try_pop, of a key that a snapshot shows",
        prepare: |world| {
            let prepared = shown(world);
            world.update(KEY);
            prepared
        },
        call: |world, prepared| prepared.lease = pop(world),
        passes: &[
            "known: installed",
            "lease: before the exchange",
            "lease: begun",
            "pop: out of the line",
            "pop: read",
            "version: about to be decided",
            "version: about to be stamped",
            "version: decided",
            "version: installed",
            "kept: in a list",
            "kept: link written",
            "take: chunk made",
            "take: row made",
        ],
        leased: true,
        ..PLAIN
    },
    Scenario {
        name: "try_pop, of a key of whose versions a stopped thread was to take one out",
        prepare: half_swept,
        call: |world, prepared| prepared.lease = pop(world),
        passes: &[
            "hold: refs read",
            "known: installed",
            "lease: before the exchange",
            "lease: begun",
            "pop: out of the line",
            "pop: read",
            "trim: link read",
            "trim: marked",
            "version: about to be decided",
            "version: about to be stamped",
            "version: decided",
            "version: installed",
            "version: object held",
            "version: read",
        ],
        leased: true,
        ..PLAIN
    },
    Scenario {
        name: "a snapshot's get",
        prepare: changed,
        call: |_, prepared| _ = snapshot(prepared).get_with(&KEY, |_| ()),
        passes: &[
            "drop: was the last",
            "give: link written",
            "hold: refs read",
            "snapshot: ended",
            "trim: link read",
            "trim: marked",
            "version: link read",
            "version: object held",
            "version: read",
            "version: newest read",
            "kept: chain in hand",
            "kept: chain linked",
            "kept: chain read",
            "kept: list in hand",
        ],
        ..PLAIN
    },
    Scenario {
        name: "a snapshot's iter, its len and changes_since",
        prepare: |world| {
            let older = shown(world).snapshot;
            know(world, KEY);
            Prepared { snapshot: older, other: Some(world.queue.snapshot()), ..Prepared::default() }
        },
        call: |_, prepared| {
            let (older, newer) = (prepared.snapshot.as_ref(), prepared.other.as_ref());
            let (older, newer) = older.zip(newer).expect("they were prepared");
            assert_eq!((older.iter().count(), older.len()), (1, 1));
            assert_eq!(newer.changes_since(older).map(Iterator::count), Ok(1));
        },
        passes: &["hold: refs read", "version: link read", "version: newest read", "version: object held"],
        ..PLAIN
    },
    Scenario {
        name: "published, when something has changed",
        world: || World::new(Hashed::Alike, |builder| builder.publish_every(Duration::ZERO)),
        prepare: |world| {
            know(world, KEY);
            let _ = world.queue.published();
            know(world, KEY);
            Prepared::default()
        },
        call: |world, _| _ = world.queue.published().len(),
        passes: &[
            "drop: was the last",
            "give: link written",
            "hold: refs read",
            "kept: chain in hand",
            "kept: chain linked",
            "kept: chain read",
            "kept: list in hand",
            "snapshot: ended",
            "snapshot: registered",
            "take: number drawn",
            "trim: link read",
            "trim: marked",
            "version: newest read",
            "version: object held",
            "version: read",
        ],
        ..PLAIN
    },
    Scenario {
        name: "done, of a deletion that a snapshot does not show",
        prepare: |world| {
            let prepared = shown(world);
            world.delete(KEY);
            Prepared { lease: pop(world), ..prepared }
        },
        call: |world, prepared| world.complete(prepared.lease.take().expect("it was prepared")),
        passes: &[
            "drop: was the last",
            "finish: before the exchange",
            "finish: counted",
            "finish: ended",
            "finish: kept, as it is asked for",
            "give: link written",
            "hold: refs read",
            "version: object held",
            "version: read",
        ],
        leased: true,
        ..PLAIN
    },
    Scenario {
        name: "drop of a snapshot, of a key that has changed",
        prepare: changed,
        call: |_, prepared| drop(snapshot(prepared)),
        passes: &[
            "drop: was the last",
            "give: link written",
            "hold: refs read",
            "snapshot: ended",
            "trim: link read",
            "trim: marked",
            "version: object held",
            "version: read",
            "kept: chain in hand",
            "kept: chain linked",
            "kept: chain read",
            "kept: list in hand",
        ],
        ..PLAIN
    },
    Scenario {
        name: "drop of a snapshot, of a key that is known no more",
        prepare: gone,
        call: |_, prepared| drop(snapshot(prepared)),
        passes: &[
            "drop: was the last",
            "give: link written",
            "hold: refs read",
            "known: retired",
            "limbo: retired",
            "remove: marked",
            "search: marked",
            "snapshot: ended",
            "trim: link read",
            "trim: marked",
            "version: object held",
            "version: read",
            "kept: chain in hand",
            "kept: chain linked",
            "kept: chain read",
            "kept: list in hand",
        ],
        ..PLAIN
    },
    Scenario {
        name: "drop of a snapshot, of a key that an older one shows too",
        prepare: |world| {
            let oldest = shown(world).snapshot;
            // The other one is dropped.
            let prepared = changed(world);
            know(world, KEY);
            Prepared { other: oldest, ..prepared }
        },
        call: |_, prepared| drop(snapshot(prepared)),
        passes: &[
            "drop: was the last",
            "give: link written",
            "hold: refs read",
            "snapshot: ended",
            "trim: link read",
            "trim: marked",
            "version: object held",
            "version: read",
            "kept: chain in hand",
            "kept: chain linked",
            "kept: chain read",
            "kept: list in hand",
        ],
        ..PLAIN
    },
];
