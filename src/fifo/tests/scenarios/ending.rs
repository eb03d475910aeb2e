//! How leases, and queues, end.

use super::super::stopped::PLAIN;
use super::*;

fn lease(prepared: &mut Prepared) -> OwnedLease<Queue> {
    prepared.lease.take().expect("it was prepared")
}

/// What a lease passes that ends with a delay, of whatever length.
const DELAYING: &[&str] = &[
    "delay: not noted yet",
    "delays: counted",
    "delays: inserted",
    "give back: before the exchange",
    "give back: ended",
    "notify: fence",
    "take: chunk made",
    "take: number drawn",
    "take: row made",
];

pub(super) const SCENARIOS: &[Scenario] = &[
    Scenario {
        name: "done",
        prepare: leased,
        call: |world, prepared| world.complete(lease(prepared)),
        passes: &["finish: before the exchange", "finish: counted", "finish: ended"],
        leased: true,
        ..PLAIN
    },
    Scenario {
        name: "done, of a deletion",
        prepare: |world| Prepared { lease: Some(deleted(world)), ..Prepared::default() },
        call: |world, prepared| world.complete(lease(prepared)),
        passes: &[
            "drop: was the last",
            "finish: before the exchange",
            "finish: counted",
            "finish: ended",
            "give: link written",
            "limbo: retired",
            "remove: marked",
            "search: marked",
            "hold: refs read",
            "version: object held",
            "version: read",
        ],
        leased: true,
        ..PLAIN
    },
    Scenario {
        name: "done, of a deletion while a replace is open",
        prepare: |world| {
            known(world);
            let replace = world.queue.begin_replace_owned().expect("it is the only one");
            world.delete(KEY);
            Prepared { lease: pop(world), replace: Some(replace), ..Prepared::default() }
        },
        call: |world, prepared| world.complete(lease(prepared)),
        passes: &[
            "drop: was the last",
            "finish: before the exchange",
            "finish: counted",
            "finish: ended",
            "finish: kept, as it is asked for",
            "give: link written",
        ],
        leased: true,
        ..PLAIN
    },
    Scenario {
        name: "done, of a deletion from before the replace that is open",
        prepare: |world| {
            let lease = deleted(world);
            let replace = world.queue.begin_replace_owned().expect("it is the only one");
            Prepared { lease: Some(lease), replace: Some(replace), ..Prepared::default() }
        },
        call: |world, prepared| world.complete(lease(prepared)),
        passes: &[
            "drop: was the last",
            "finish: before the exchange",
            "finish: counted",
            "finish: ended",
            "give: link written",
            "limbo: retired",
            "remove: marked",
            "search: marked",
            "hold: refs read",
            "version: object held",
            "version: read",
        ],
        leased: true,
        ..PLAIN
    },
    Scenario {
        name: "done, over a user's store",
        world: super::consuming::stored,
        prepare: leased,
        call: |world, prepared| world.complete(lease(prepared)),
        passes: &[
            "drop: was the last",
            "finish: before the exchange",
            "finish: counted",
            "finish: ended",
            "give: link written",
            "limbo: retired",
            "remove: marked",
            "search: marked",
        ],
        leased: true,
        ..PLAIN
    },
    Scenario {
        name: "done, over a user's store while a replace is open",
        world: super::consuming::stored,
        prepare: |world| {
            let replace = world.queue.begin_replace_owned().expect("it is the only one");
            Prepared { replace: Some(replace), ..leased(world) }
        },
        call: |world, prepared| world.complete(lease(prepared)),
        passes: &[
            "drop: was the last",
            "finish: before the exchange",
            "finish: counted",
            "finish: ended",
            "finish: kept, as it is asked for",
            "give: link written",
        ],
        leased: true,
        ..PLAIN
    },
    Scenario {
        name: "done, of a dirty key",
        prepare: dirty,
        call: |world, prepared| world.complete(lease(prepared)),
        passes: &[
            "finish: before the exchange",
            "finish: counted",
            "finish: ended",
            "link: in line",
            "link: owed",
            "notify: fence",
            "push: reserved",
        ],
        leased: true,
        ..PLAIN
    },
    Scenario {
        name: "done, of the last key of the first list",
        prepare: |world| {
            let list = [(world.key(KEY), world.thing())];
            drop(world.queue.replace(list).expect("it is the only one"));
            Prepared { lease: pop(world), ..Prepared::default() }
        },
        call: |world, prepared| world.complete(lease(prepared)),
        passes: &[
            "finish: before the exchange",
            "finish: counted",
            "finish: ended",
            "notify: fence",
            "replaces: all completed",
            "replaces: delivered",
            "replaces: first sync",
        ],
        leased: true,
        ..PLAIN
    },
    Scenario {
        name: "requeue",
        prepare: leased,
        call: |_, prepared| lease(prepared).requeue(),
        passes: &[
            "give back: before the exchange",
            "give back: ended",
            "link: in line",
            "link: owed",
            "notify: fence",
            "push: reserved",
            "take: chunk made",
            "take: number drawn",
            "take: row made",
        ],
        leased: true,
        ..PLAIN
    },
    Scenario {
        name: "requeue, of a dirty key",
        prepare: dirty,
        call: |_, prepared| lease(prepared).requeue(),
        passes: &[
            "give back: before the exchange",
            "give back: ended",
            "link: in line",
            "link: owed",
            "notify: fence",
            "push: reserved",
            "take: chunk made",
            "take: number drawn",
            "take: row made",
        ],
        leased: true,
        ..PLAIN
    },
    Scenario {
        name: "requeue_after",
        prepare: leased,
        call: |_, prepared| lease(prepared).requeue_after(HOUR),
        passes: DELAYING,
        leased: true,
        ..PLAIN
    },
    Scenario {
        name: "requeue_with_backoff",
        prepare: leased,
        call: |_, prepared| lease(prepared).requeue_with_backoff(),
        passes: DELAYING,
        leased: true,
        ..PLAIN
    },
    Scenario {
        name: "close, with a delayed key",
        prepare: delayed,
        call: |world, _| _ = world.queue.close(),
        passes: &[
            "close: flagged",
            "close: seal ordered",
            "delays: first seen",
            "delays: removed",
            "link: in line",
            "link: owed",
            "notify: fence",
            "promote: before the exchange",
            "promote: due",
            "push: reserved",
        ],
        closes: true,
        ..PLAIN
    },
    Scenario {
        name: "close, with an open stream",
        prepare: |world| {
            let replace = world.queue.begin_replace_owned().expect("it is the only one");
            Prepared { replace: Some(replace), ..Prepared::default() }
        },
        call: |world, _| _ = world.queue.close(),
        passes: &[
            "close: flagged",
            "close: seal ordered",
            "notify: fence",
            "replaces: batch dropped",
            "replaces: first dropped",
            "replaces: oldest published",
        ],
        closes: true,
        ..PLAIN
    },
    Scenario {
        name: "close_discard, with a key in line and a dirty one",
        prepare: |world| {
            world.add(SECOND);
            let kept = pop(world);
            world.add(SECOND);
            world.add(KEY);
            Prepared { kept, ..Prepared::default() }
        },
        call: |world, _| _ = world.queue.close_discard(),
        passes: &[
            "close: flagged",
            "close: seal ordered",
            "discard: drained",
            "discard: flagged",
            "discard: seized",
            "drop: was the last",
            "finish: counted",
            "finish: ended",
            "give: link written",
            "limbo: retired",
            "notify: fence",
            "remove: marked",
            "search: marked",
        ],
        closes: true,
        merges: true,
        ..PLAIN
    },
];
