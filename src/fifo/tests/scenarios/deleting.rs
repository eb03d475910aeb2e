//! Deletions, and what is merged.

use crate::delta::Compression;

use super::super::stopped::PLAIN;
use super::super::witness::Hashed;
use super::*;

fn latest() -> World {
    World::new(Hashed::Alike, |builder| builder.compression(Compression::Latest))
}

pub(super) const SCENARIOS: &[Scenario] = &[
    Scenario {
        name: "delete, of a known key",
        prepare: known,
        call: |world, _| world.delete(KEY),
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
        name: "delete, of a deleted key in line",
        prepare: |world| {
            known(world);
            world.delete(KEY);
            Prepared::default()
        },
        call: |world, _| world.delete(KEY),
        passes: &[
            "give: link written",
            "hold: refs read",
            "offer: not closed",
            "push: chain held",
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
        name: "delete, after a replace has begun, of a deleted key in line",
        prepare: |world| {
            known(world);
            world.delete(KEY);
            let replace = world.queue.begin_replace_owned().expect("it is the only one");
            Prepared { replace: Some(replace), ..Prepared::default() }
        },
        call: |world, _| world.delete(KEY),
        passes: &[
            "hold: refs read",
            "offer: not closed",
            "push: chain held",
            "push: looked for the entry",
            "take: number drawn",
            "link: before the mark",
            "link: in line",
            "link: owed",
            "link: woken",
            "notify: fence",
            "push: reserved",
            "push: appended",
            "push: before the exchange",
        ],
        ..PLAIN
    },
    Scenario {
        name: "delete, of a key with a tombstone",
        prepare: |world| {
            known(world);
            world.queue.delete_key(world.key(KEY)).expect("it is open");
            Prepared::default()
        },
        call: |world, _| world.delete(KEY),
        passes: &[
            "dead: link written",
            "drop: was the last",
            "hold: refs read",
            "offer: not closed",
            "push: appended",
            "push: before the exchange",
            "push: chain held",
            "push: letting go",
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
        name: "delete, of nothing",
        call: |world, _| world.delete(KEY),
        passes: &[
            "first: change",
            "give: link written",
            "notify: fence",
            "offer: not closed",
            "push: looked for the entry",
            "take: chunk made",
            "take: number drawn",
            "take: row made",
        ],
        ..PLAIN
    },
    Scenario {
        name: "delete, of a key that was kept for a replace",
        prepare: kept,
        call: |world, _| world.delete(KEY),
        passes: &[
            "give: link written",
            "offer: not closed",
            "push: looked for the entry",
            "take: restocking",
        ],
        ..PLAIN
    },
    Scenario {
        name: "delete, over a user's store",
        world: super::consuming::stored,
        call: |world, _| world.delete(KEY),
        passes: &[
            "first: change",
            "give: link written",
            "notify: fence",
            "offer: not closed",
            "push: looked for the entry",
            "take: chunk made",
            "take: number drawn",
            "take: restocking",
            "take: row made",
        ],
        ..PLAIN
    },
    Scenario {
        name: "update, merged with what is in line",
        world: latest,
        prepare: queued,
        call: |world, _| _ = world.update(KEY),
        passes: &[
            "dead: link written",
            "drop: was the last",
            "hold: refs read",
            "offer: not closed",
            "push: appended",
            "push: before the exchange",
            "push: chain held",
            "push: letting go",
            "push: looked for the entry",
            "take: number drawn",
            "link: before the mark",
            "link: in line",
            "link: owed",
            "link: woken",
            "notify: fence",
            "push: reserved",
        ],
        merges: true,
        ..PLAIN
    },
    Scenario {
        name: "delete_key, absorbing what is in line",
        world: latest,
        prepare: queued,
        call: |world, _| _ = world.queue.delete_key(world.key(KEY)),
        passes: &[
            "hold: refs read",
            "offer: not closed",
            "push: appended",
            "push: before the exchange",
            "push: chain held",
            "push: looked for the entry",
            "take: number drawn",
            "link: before the mark",
            "link: in line",
            "link: owed",
            "link: woken",
            "notify: fence",
            "push: reserved",
        ],
        merges: true,
        ..PLAIN
    },
];
