//! Replaces, resyncs and marks.

use crate::builder::Background;

use super::super::stopped::PLAIN;
use super::super::witness::Hashed;
use super::*;

pub(super) const SCENARIOS: &[Scenario] = &[
    Scenario {
        name: "replace, the first",
        call: |world, _| {
            let list = [(world.key(KEY), world.thing()), (world.key(SECOND), world.thing())];
            drop(world.queue.replace(list).expect("it is the only one"));
        },
        passes: &[
            "hold: refs read",
            "insert: ready",
            "link: in line",
            "link: owed",
            "link: woken",
            "notify: fence",
            "push: entry inserted",
            "push: entry prepared",
            "push: looked for the entry",
            "push: reserved",
            "replaces: delivered",
            "replaces: in the book",
            "replaces: no longer open",
            "replaces: oldest published",
            "replaces: owing",
            "take: chunk made",
            "take: number drawn",
            "take: row made",
        ],
        ..PLAIN
    },
    Scenario {
        name: "replace, with known keys in and not in the list",
        prepare: |world| {
            know(world, SECOND);
            know(world, THIRD);
            world.update(THIRD);
            known(world)
        },
        call: |world, _| {
            let list = [(world.key(KEY), world.thing()), (world.key(KEY), world.thing())];
            drop(world.queue.replace(list).expect("it is the only one"));
        },
        passes: &[
            "hold: refs read",
            "link: before the mark",
            "link: in line",
            "link: owed",
            "link: woken",
            "notify: fence",
            "push: appended",
            "push: before the exchange",
            "push: chain held",
            "push: looked for the entry",
            "push: reserved",
            "replaces: delivered",
            "replaces: in the book",
            "replaces: no longer open",
            "replaces: oldest published",
            "replaces: owing",
            "take: number drawn",
            "take: restocking",
        ],
        ..PLAIN
    },
    Scenario {
        name: "upsert, of a key in line, and commit",
        prepare: |world| {
            know(world, SECOND);
            world.add(KEY);
            let replace = world.queue.begin_replace_owned().expect("it is the only one");
            Prepared { replace: Some(replace), ..Prepared::default() }
        },
        call: |world, prepared| {
            let replace = prepared.replace.take().expect("it has begun");
            let _ = replace.upsert(world.key(KEY), world.thing());
            drop(replace.commit());
        },
        passes: &[
            "hold: refs read",
            "link: before the mark",
            "link: in line",
            "link: owed",
            "link: woken",
            "notify: fence",
            "push: appended",
            "push: before the exchange",
            "push: chain held",
            "push: looked for the entry",
            "push: reserved",
            "replaces: committing",
            "replaces: delivered",
            "replaces: no longer open",
            "replaces: oldest published",
            "replaces: owing",
            "take: number drawn",
        ],
        ..PLAIN
    },
    Scenario {
        name: "upsert, of a key that was deleted meanwhile",
        prepare: kept,
        call: |world, prepared| {
            let replace = prepared.replace.take().expect("it has begun");
            let _ = replace.upsert(world.key(KEY), world.thing());
            prepared.replace = Some(replace);
        },
        passes: &[
            "give: link written",
            "push: looked for the entry",
            "replaces: delivered",
            "replaces: owing",
            "take: restocking",
        ],
        ..PLAIN
    },
    Scenario {
        name: "begin_replace, dropped",
        call: |world, _| drop(world.queue.begin_replace().expect("it is the only one")),
        passes: &[
            "notify: fence",
            "replaces: batch dropped",
            "replaces: first dropped",
            "replaces: in the book",
            "replaces: oldest published",
        ],
        ..PLAIN
    },
    Scenario {
        name: "begin_replace, dropped, for which an entry was kept",
        prepare: kept,
        call: |_, prepared| drop(prepared.replace.take()),
        passes: &[
            "known: retired",
            "limbo: retired",
            "notify: fence",
            "remove: marked",
            "replaces: batch dropped",
            "replaces: first dropped",
            "replaces: oldest published",
            "search: marked",
            "drop: was the last",
            "give: link written",
            "hold: refs read",
            "version: object held",
            "version: read",
        ],
        ..PLAIN
    },
    Scenario {
        name: "resync",
        prepare: known,
        call: |world, _| _ = world.queue.resync().expect("it is open"),
        passes: &[
            "link: in line",
            "link: owed",
            "notify: fence",
            "push: appended",
            "push: before the exchange",
            "push: looked for the entry",
            "push: reserved",
            "take: number drawn",
        ],
        ..PLAIN
    },
    Scenario {
        name: "resync_key, to the background line",
        world: || World::new(Hashed::Alike, |builder| builder.background(Background::Resync)),
        prepare: known,
        call: |world, _| _ = world.queue.resync_key(world.key(KEY)),
        passes: &[
            "link: in line",
            "link: owed",
            "notify: fence",
            "push: appended",
            "push: before the exchange",
            "push: looked for the entry",
            "push: reserved",
            "take: number drawn",
        ],
        ..PLAIN
    },
    Scenario {
        name: "mark, a change, and processed_through",
        call: |world, _| {
            drop(world.queue.mark(1).expect("it is open"));
            world.add(KEY);
            let _ = world.queue.processed_through();
        },
        passes: &[
            "first: change",
            "insert: ready",
            "link: in line",
            "link: owed",
            "marks: numbered",
            "marks: read",
            "marks: reported",
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
];
