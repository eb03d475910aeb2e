//! No pause point is forgotten; and those that one call in hundreds comes to.

use std::borrow::Borrow;
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use crate::queue::DeltaQueue;
use crate::sync::stopped::{Gate, stop_me_at};

use super::scenarios;
use super::stopped::{arrives, go_on, others_go_on};
use super::witness::{Hashed, World};

/// Where segments are used up, limbos full, and dead objects buried: comes up in a long run only.
const NOW_AND_THEN: [&str; 16] = [
    "bury: taken",
    "give a segment: link written",
    "give: link written",
    "limbo: claimed",
    "limbo: recycling",
    "limbo: ripe",
    "limbo: waiting",
    "pop: first moved",
    "pop: last moved",
    "pop: used up",
    "push: segment full",
    "push: segment linked",
    "push: segment ready",
    "push: segment taken",
    "take a segment: link read",
    "take: link read",
];

/// Where a table shrinks.
const SHRINKING: [&str; 11] = [
    "search: marked bucket",
    "shrink: begun",
    "shrink: freed",
    "shrink: freeing",
    "shrink: left",
    "shrink: resting",
    "shrink: unlinked",
    "unlink: marked",
    "vacate: due",
    "vacate: read",
    "vacate: taken",
];

/// Why no call is stopped there.
const NOT_HERE: [(&str, &str); 6] = [
    ("close: counted", "the drop of the queue: nobody else has it"),
    ("leave: at an entry", "the drop of the queue, which a test of its own stops"),
    (
        "measure: to be dated",
        "only where it is measured, and nobody looks for it: a test of its own in `measure`",
    ),
    ("give: closed", "an object that is dropped after its queue: nobody else has that"),
    (
        "notify: claimed a spinning one",
        "in no call that can be made to meet a spinning waiter; models of `wait`",
    ),
    ("wait: asleep after a spin", "in no waiter that can be made to spin; models of `wait`"),
];

/// The points that stand in the source.
fn in_source(folder: &Path, points: &mut BTreeSet<String>) {
    for entry in std::fs::read_dir(folder).expect("the source is there") {
        let path = entry.expect("the source can be listed").path();
        if path.is_dir() {
            in_source(&path, points);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = std::fs::read_to_string(&path).expect("the source can be read");
            let calls = text.split(concat!("pause_point", "(\"")).skip(1);
            points.extend(calls.filter_map(|call| call.split('"').next()).map(str::to_owned));
        }
    }
}

#[test]
#[cfg_attr(miri, ignore = "reads the source")]
fn every_pause_point_is_known() {
    let mut found = BTreeSet::new();
    in_source(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &mut found);
    let mut known: BTreeSet<String> =
        NOW_AND_THEN.iter().chain(&SHRINKING).map(|point| (*point).to_owned()).collect();
    known.extend(scenarios::all().flat_map(|scenario| scenario.passes).map(|point| (*point).to_owned()));
    for (point, reason) in NOT_HERE {
        assert!(
            known.insert(point.to_owned()),
            "\"{point}\" is stopped at: it is not true that it is {reason}"
        );
    }
    assert_eq!(found, known);
}

/// A key of its own.
const CHURNED: u32 = 5;
const ENOUGH: u32 = 100_000;

/// A lap of `lap` after the other, until the thread stands before the gate.
fn churn(gate: &Gate, lap: impl Fn(u32)) {
    (0..ENOUGH).take_while(|_| !gate.is_reached()).for_each(lap);
}

/// Whatever is in line. What the others have added is entered in the book.
fn pop(world: &World) {
    if let Ok(lease) = world.queue.try_pop() {
        let name: &u32 = lease.key().borrow();
        if *name == CHURNED || WAVE.contains(name) { lease.done() } else { world.complete(lease) }
    }
}

/// The key comes, is deleted twice, and goes.
fn come_and_go(world: &World) {
    let _ = world.queue.add(world.key(CHURNED), world.thing());
    pop(world);
    let _ = world.queue.delete_key(world.key(CHURNED));
    let _ = world.queue.delete(world.key(CHURNED), world.thing());
    pop(world);
}

/// More keys than the first buckets are meant for.
const WAVE: std::ops::Range<u32> = 100..140;

/// They all come, and they all go.
fn wave(world: &World) {
    WAVE.for_each(|name| {
        let _ = world.queue.add(world.key(name), world.thing());
        pop(world);
    });
    WAVE.for_each(|name| {
        let _ = world.queue.delete_key(world.key(name));
        pop(world);
    });
}

/// Stops a thread that makes laps, at a point that it comes to.
fn nobody_waits_at(point: &'static str, hashed: Hashed, names: &[u32], lap: fn(&World, u32)) {
    let world = Arc::new(World::new(hashed, |builder| builder));
    let gate = Gate::new();
    let thread = std::thread::spawn({
        let (world, gate) = (Arc::clone(&world), gate.clone());
        move || {
            stop_me_at(point, &gate);
            churn(&gate, |number| lap(&world, number));
        }
    });
    assert!(arrives(&thread, &gate), "\"{point}\" is not reached");
    others_go_on(point, &world, false, false);
    go_on(thread, &gate);
    // What happened to these keys is in no book.
    names.iter().for_each(|name| world.pop_until(world.add(*name).expect("it is open")));
    Arc::into_inner(world).expect("every thread has ended").end(false);
}

#[test]
fn nobody_waits_where_one_call_in_hundreds_comes() {
    for point in NOW_AND_THEN {
        nobody_waits_at(point, Hashed::Alike, &[CHURNED], |world, _| come_and_go(world));
    }
}

#[test]
fn nobody_waits_where_a_table_shrinks() {
    let names: Vec<u32> = WAVE.chain([CHURNED]).collect();
    for point in SHRINKING {
        // Long enough between two waves for the grace periods.
        nobody_waits_at(point, Hashed::Apart, &names, |world, number| match number % 1_000 {
            0 => wave(world),
            _ => come_and_go(world),
        });
    }
}
