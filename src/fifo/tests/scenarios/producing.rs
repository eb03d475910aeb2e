//! Producers' calls.

use crate::builder::Background;
use crate::delta::Change;

use super::super::stopped::{PLAIN, arrives, stop_in};
use super::super::witness::{Hashed, panicking};
use super::*;

/// An update for each of some cells, so that they are free afterwards.
fn use_up(world: &World) {
    world.add(SECOND);
    (0..3).for_each(|_| _ = world.update(SECOND));
    world.complete(popped(world));
}

pub(super) const SCENARIOS: &[Scenario] = &[
    Scenario {
        name: "add, in an empty queue",
        world: || World::new(Hashed::Apart, |builder| builder),
        call: |world, _| _ = world.add(KEY),
        passes: &[
            "first: change",
            "insert: ready",
            "link: claimed",
            "link: in line",
            "link: linked",
            "link: owed",
            "link: ready",
            "notify: fence",
            "offer: not closed",
            "push: entry inserted",
            "push: entry prepared",
            "push: looked for the entry",
            "push: reserved",
            "take: chunk made",
            "take: number drawn",
            "take: row made",
        ],
        ..PLAIN
    },
    Scenario {
        name: "add, in a queue that was used",
        prepare: |world| {
            use_up(world);
            Prepared::default()
        },
        call: |world, _| _ = world.add(KEY),
        passes: &[
            "insert: ready",
            "link: in line",
            "link: owed",
            "notify: fence",
            "offer: not closed",
            "push: entry inserted",
            "push: entry prepared",
            "push: looked for the entry",
            "push: reserved",
            "take: number drawn",
            "take: restocking",
        ],
        ..PLAIN
    },
    Scenario {
        name: "add, in a queue that was used and has its stock",
        prepare: |world| {
            use_up(world);
            know(world, THIRD);
            Prepared::default()
        },
        call: |world, _| _ = world.add(KEY),
        passes: &[
            "insert: ready",
            "link: in line",
            "link: owed",
            "notify: fence",
            "offer: not closed",
            "push: entry inserted",
            "push: entry prepared",
            "push: looked for the entry",
            "push: reserved",
            "take: head read",
            "take: link read",
            "take: number drawn",
        ],
        ..PLAIN
    },
    Scenario {
        name: "add, of so many keys that the table grows",
        prepare: |world| {
            (10..22).for_each(|name| _ = world.add(name));
            Prepared::default()
        },
        call: |world, _| _ = world.add(KEY),
        passes: &[
            "grow: provided",
            "insert: ready",
            "link: in line",
            "link: owed",
            "notify: fence",
            "offer: not closed",
            "push: entry inserted",
            "push: entry prepared",
            "push: looked for the entry",
            "push: reserved",
            "take: number drawn",
        ],
        ..PLAIN
    },
    Scenario {
        name: "add, while a consumer sleeps",
        prepare: sleeping,
        call: |world, _| _ = world.add(KEY),
        passes: &[
            "first: change",
            "insert: ready",
            "link: in line",
            "link: owed",
            "notify: claimed",
            "notify: fence",
            "notify: found",
            "notify: unpinned",
            "notify: woken",
            "offer: not closed",
            "push: entry inserted",
            "push: entry prepared",
            "push: looked for the entry",
            "push: reserved",
            "take: chunk made",
            "take: number drawn",
            "take: row made",
        ],
        may_pass: &["link: before the mark"],
        ..PLAIN
    },
    Scenario {
        name: "add, when a stopped thread owes the sleeper its wake-up",
        prepare: |world| {
            let mut prepared = sleeping(world);
            let (thread, gate) = stop_in(world, "notify: claimed", 0, |world| _ = world.add(SECOND));
            assert!(arrives(&thread, &gate));
            prepared.standing.push((thread, gate));
            prepared
        },
        call: |world, _| _ = world.add(KEY),
        passes: &[
            "insert: ready",
            "link: in line",
            "link: owed",
            "notify: fence",
            "notify: helping",
            "notify: unpinned",
            "notify: woken",
            "offer: not closed",
            "push: entry inserted",
            "push: entry prepared",
            "push: looked for the entry",
            "push: reserved",
            "take: number drawn",
        ],
        may_pass: &["link: before the mark"],
        ..PLAIN
    },
    Scenario {
        name: "add, when another's is half in line",
        prepare: |world| {
            let (thread, gate) = stop_in(world, "push: entry inserted", 0, |world| _ = world.add(KEY));
            assert!(arrives(&thread, &gate));
            Prepared { standing: vec![(thread, gate)], ..Prepared::default() }
        },
        call: |world, _| _ = world.add(KEY),
        passes: &[
            "first: change",
            "link: before the mark",
            "link: in line",
            "link: owed",
            "link: woken",
            "notify: fence",
            "offer: not closed",
            "push: appended",
            "push: before the exchange",
            "push: looked for the entry",
            "push: reserved",
            "take: number drawn",
        ],
        ..PLAIN
    },
    Scenario {
        name: "add, of a key that a stopped thread is retiring",
        prepare: |world| {
            let lease = deleted(world);
            let (thread, gate) = stop_in(world, "remove: marked", 0, |world| world.complete(lease));
            assert!(arrives(&thread, &gate));
            Prepared { standing: vec![(thread, gate)], ..Prepared::default() }
        },
        call: |world, _| _ = world.add(KEY),
        passes: &[
            "insert: ready",
            "link: in line",
            "link: owed",
            "notify: fence",
            "offer: not closed",
            "push: entry inserted",
            "push: entry prepared",
            "push: looked for the entry",
            "push: reserved",
            "take: number drawn",
            "take: restocking",
        ],
        ..PLAIN
    },
    Scenario {
        name: "add, of a key that was kept for a replace",
        prepare: kept,
        call: |world, _| _ = world.add(KEY),
        passes: &[
            "link: in line",
            "link: owed",
            "notify: fence",
            "offer: not closed",
            "push: appended",
            "push: before the exchange",
            "push: looked for the entry",
            "push: reserved",
            "take: restocking",
        ],
        ..PLAIN
    },
    Scenario {
        name: "add, of a key whose kept entry a stopped thread is retiring",
        prepare: half_retired,
        call: |world, _| _ = world.add(KEY),
        passes: &[
            "insert: ready",
            "link: in line",
            "link: owed",
            "notify: fence",
            "offer: not closed",
            "push: entry inserted",
            "push: entry prepared",
            "push: looked for the entry",
            "push: reserved",
            "remove: marked",
            "search: marked",
            "take: number drawn",
            "take: restocking",
        ],
        ..PLAIN
    },
    Scenario {
        name: "add, in which a key's Eq panics",
        prepare: |world| {
            know(world, SECOND);
            Prepared::default()
        },
        call: |world, _| panicking(|| _ = world.add(KEY)),
        passes: &["give: link written", "offer: not closed", "take: number drawn"],
        ..PLAIN
    },
    Scenario {
        name: "update, of a key in line",
        prepare: queued,
        call: |world, _| _ = world.update(KEY),
        passes: &[
            "offer: not closed",
            "push: appended",
            "push: before the exchange",
            "push: looked for the entry",
            "take: number drawn",
            "link: before the mark",
            "link: in line",
            "link: owed",
            "link: woken",
            "notify: fence",
            "push: reserved",
        ],
        ..PLAIN
    },
    Scenario {
        name: "update, of a leased key",
        prepare: |world| {
            world.add(KEY);
            Prepared { kept: pop(world), ..Prepared::default() }
        },
        call: |world, _| _ = world.update(KEY),
        passes: &[
            "offer: not closed",
            "push: appended",
            "push: before the exchange",
            "push: looked for the entry",
            "take: number drawn",
        ],
        leased: true,
        ..PLAIN
    },
    Scenario {
        name: "apply, of a known key",
        prepare: known,
        call: |world, _| _ = world.apply(KEY),
        passes: &[
            "link: in line",
            "link: owed",
            "notify: fence",
            "offer: not closed",
            "push: appended",
            "push: before the exchange",
            "push: looked for the entry",
            "push: reserved",
            "take: number drawn",
        ],
        ..PLAIN
    },
    Scenario {
        name: "add, of a delayed key",
        prepare: delayed,
        call: |world, _| _ = world.add(KEY),
        passes: &[
            "delays: removed",
            "link: in line",
            "link: owed",
            "notify: fence",
            "offer: not closed",
            "push: appended",
            "push: before the exchange",
            "push: looked for the entry",
            "push: reserved",
            "take: number drawn",
        ],
        ..PLAIN
    },
    Scenario {
        name: "add, when another key is due",
        prepare: |world| {
            world.add(SECOND);
            popped(world).requeue_after(Duration::ZERO);
            Prepared::default()
        },
        call: |world, _| _ = world.add(KEY),
        passes: &[
            "delays: first seen",
            "delays: removed",
            "insert: ready",
            "link: in line",
            "link: owed",
            "notify: fence",
            "offer: not closed",
            "promote: before the exchange",
            "promote: due",
            "push: entry inserted",
            "push: entry prepared",
            "push: looked for the entry",
            "push: reserved",
            "take: number drawn",
        ],
        ..PLAIN
    },
    Scenario {
        name: "change_all",
        call: |world, _| {
            let changes = [
                Change::Add(world.key(SECOND), world.thing()),
                Change::Add(world.key(KEY), world.thing()),
                Change::Delete(world.key(KEY), world.thing()),
                Change::Update(world.key(KEY), world.thing()),
            ];
            world.queue.change_all(changes).expect("it is open");
        },
        passes: &[
            "first: change",
            "insert: ready",
            "link: before the mark",
            "link: in line",
            "link: owed",
            "link: woken",
            "notify: fence",
            "offer: not closed",
            "push: appended",
            "push: before the exchange",
            "push: entry inserted",
            "push: entry prepared",
            "push: looked for the entry",
            "push: reserved",
            "take: chunk made",
            "take: number drawn",
            "take: row made",
        ],
        ..PLAIN
    },
    Scenario {
        name: "update, of a key in the background line",
        world: || World::new(Hashed::Alike, |builder| builder.background(Background::Resync)),
        prepare: |world| {
            known(world);
            world.queue.resync().expect("it is open");
            Prepared::default()
        },
        call: |world, _| _ = world.update(KEY),
        passes: &[
            "link: before the mark",
            "link: in line",
            "link: owed",
            "link: woken",
            "notify: fence",
            "offer: not closed",
            "push: appended",
            "push: before the exchange",
            "push: looked for the entry",
            "push: reserved",
            "take: number drawn",
        ],
        ..PLAIN
    },
];
