//! A thread stops for good at each point of each call; the others go on. Then it goes on too, and everything adds up.
//!
//! Each call is made once with its points written down. They must be those that its scenario says it passes, so a point
//! that it no longer reaches, or a new one, is a failure and no silent gap. Then it is made anew for every passage.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::Ordering;
use std::sync::{Arc, mpsc};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::known::KnownView;
use crate::lease::OwnedLease;
use crate::queue::DeltaQueue;
use crate::replace::OwnedReplace;
use crate::sync::stopped::{self, Gate, stop_me_at_passage};

use super::scenarios;
use super::witness::{Hashed, LONG, Queue, World};

/// The key of the call that stops.
pub(super) const KEY: u32 = 1;
/// Keys that nobody else has to do with.
const OTHERS: [u32; 2] = [1_000, 1_001];

pub(super) type Snapshot = <Queue as DeltaQueue>::Snapshot;

/// What a scenario has prepared for its call.
#[derive(Default)]
pub(super) struct Prepared {
    pub(super) lease: Option<OwnedLease<Queue>>,
    pub(super) replace: Option<OwnedReplace<Queue>>,
    pub(super) snapshot: Option<Snapshot>,
    /// Another one.
    pub(super) other: Option<Snapshot>,
    /// Somebody else's, which ends when the stopped thread has gone on.
    pub(super) kept: Option<OwnedLease<Queue>>,
    /// A consumer that sleeps, until the queue is closed.
    pub(super) sleeper: Option<JoinHandle<()>>,
    /// Threads that stand before gates.
    pub(super) standing: Vec<(JoinHandle<()>, Gate)>,
}

pub(super) struct Scenario {
    pub(super) name: &'static str,
    pub(super) world: fn() -> World,
    pub(super) prepare: fn(&Arc<World>) -> Prepared,
    pub(super) call: fn(&Arc<World>, &mut Prepared),
    /// Once for each passage, in any order.
    pub(super) passes: &'static [&'static str],
    /// Passed if another thread is slower.
    pub(super) may_pass: &'static [&'static str],
    /// Its key counts as leased while it is stopped.
    pub(super) leased: bool,
    /// Producers may be refused while it is stopped.
    pub(super) closes: bool,
    /// Objects may be merged away.
    pub(super) merges: bool,
}

/// Nothing special.
pub(super) const PLAIN: Scenario = Scenario {
    name: "",
    world: || World::new(Hashed::Alike, |builder| builder),
    prepare: |_| Prepared::default(),
    call: |_, _| {},
    passes: &[],
    may_pass: &[],
    leased: false,
    closes: false,
    merges: false,
};

/// Ends as soon as the thread has come to the gate or to its end. Whether it stands before the gate.
pub(super) fn arrives(thread: &JoinHandle<()>, gate: &Gate) -> bool {
    let until = Instant::now() + LONG;
    while !gate.is_reached() && !thread.is_finished() {
        assert!(Instant::now() < until, "neither at its point nor at its end");
        thread::sleep(Duration::from_micros(20));
    }
    gate.is_reached()
}

pub(super) fn go_on(thread: JoinHandle<()>, gate: &Gate) {
    gate.open();
    thread.thread().unpark();
    thread.join().expect("the stopped call ends well");
}

/// Makes a call in a thread that stops at its `passage`th passage of a point.
pub(super) fn stop_in(
    world: &Arc<World>,
    point: &'static str,
    passage: usize,
    call: impl FnOnce(&Arc<World>) + Send + 'static,
) -> (JoinHandle<()>, Gate) {
    let (gate, world) = (Gate::new(), Arc::clone(world));
    let thread = thread::spawn({
        let gate = gate.clone();
        move || {
            stop_me_at_passage(point, passage, &gate);
            call(&world);
        }
    });
    (thread, gate)
}

/// Fails if it does not end: then somebody waits for the stopped thread.
fn in_time(what: &str, step: impl FnOnce() + Send + 'static) {
    let (done, ended) = mpsc::channel();
    let thread = thread::spawn(move || {
        step();
        let _ = done.send(());
    });
    match ended.recv_timeout(LONG) {
        Ok(()) => thread.join().expect("it has ended well"),
        Err(mpsc::RecvTimeoutError::Disconnected) => {
            resume_unwind(thread.join().expect_err("it has panicked"));
        }
        Err(mpsc::RecvTimeoutError::Timeout) => panic!("{what}: the others wait for the stopped thread"),
    }
}

/// Everything that must not wait for anybody, twice: what the first round leaves behind is met by the second.
fn others(world: &World, leased: bool, closes: bool) {
    for _ in 0..2 {
        let mut newest = Vec::new();
        for name in [OTHERS[0], KEY, OTHERS[1]] {
            world.update(name);
            world.delete(name);
            world.apply(name);
            newest.push((name, world.add(name)));
        }
        for (name, number) in newest {
            match number {
                Some(number) if name != KEY || !leased => world.pop_until(number),
                Some(_) => {}
                None => assert!(closes, "refused"),
            }
            if let Some(number) = number.filter(|_| name != KEY && world.queue.keeps_known()) {
                assert_eq!(world.queue.known().get_with(&name, |thing| thing.number), Some(number));
                assert_eq!(world.queue.snapshot().get_with(&name, |thing| thing.number), Some(number));
            }
        }
        while let Ok(lease) = world.queue.try_pop() {
            world.complete(lease);
        }
        let _ = (world.queue.known().get_with(&KEY, |_| ()), world.queue.known().iter().count());
        let _ = (world.queue.pending_len(), world.queue.leased_len(), world.queue.has_synced());
        let _ = (world.queue.has_delivered(), world.queue.is_closed(), world.queue.merged());
    }
    world.delete(OTHERS[0]);
    let until = Instant::now() + LONG;
    // A sleeper may be faster, and have it now.
    while world.queue.known().contains(&OTHERS[0]) && !closes {
        assert!(Instant::now() < until, "a deletion is not handed out");
        if let Ok(lease) = world.queue.try_pop() {
            world.complete(lease);
        }
    }
}

pub(super) fn others_go_on(what: &str, world: &Arc<World>, leased: bool, closes: bool) {
    let world = Arc::clone(world);
    in_time(what, move || others(&world, leased, closes));
}

fn finish(scenario: &Scenario, world: Arc<World>, mut prepared: Prepared) {
    for (thread, gate) in std::mem::take(&mut prepared.standing) {
        go_on(thread, &gate);
    }
    for lease in prepared.lease.take().into_iter().chain(prepared.kept.take()) {
        world.complete(lease);
    }
    let sleeper = prepared.sleeper.take();
    drop(prepared);
    if let Some(sleeper) = sleeper {
        world.queue.close();
        sleeper.join().expect("the sleeper ends well");
    }
    let world = Arc::into_inner(world).expect("every thread has ended");
    let merges = scenario.merges;
    in_time(scenario.name, move || world.end(merges));
}

/// The points that the call passes, when nobody stops.
fn passages(scenario: &'static Scenario) -> Vec<&'static str> {
    let world = Arc::new((scenario.world)());
    let mut prepared = (scenario.prepare)(&world);
    let passed = thread::scope(|scope| {
        let call = scope.spawn(|| {
            stopped::write_down();
            (scenario.call)(&world, &mut prepared);
            stopped::passed()
        });
        call.join().expect("the call ends well")
    });
    finish(scenario, world, prepared);
    passed
}

fn stop_at(scenario: &'static Scenario, point: &'static str, passage: usize) {
    let what = format!("{}, stopped at \"{point}\", passage {passage}", scenario.name);
    let world = Arc::new((scenario.world)());
    let mut prepared = (scenario.prepare)(&world);
    let (lent, back) = mpsc::channel();
    let mut moved = Prepared {
        lease: prepared.lease.take(),
        replace: prepared.replace.take(),
        snapshot: prepared.snapshot.take(),
        other: prepared.other.take(),
        ..Prepared::default()
    };
    let (thread, gate) = stop_in(&world, point, passage, move |world| {
        (scenario.call)(world, &mut moved);
        let _ = lent.send(moved);
    });
    assert!(arrives(&thread, &gate), "{what}: not reached");
    let going_on =
        catch_unwind(AssertUnwindSafe(|| others_go_on(&what, &world, scenario.leased, scenario.closes)));
    go_on(thread, &gate);
    assert!(going_on.is_ok(), "{what}");
    let moved = back.recv().expect("the call has ended well");
    (prepared.lease, prepared.replace) = (moved.lease, moved.replace);
    (prepared.snapshot, prepared.other) = (moved.snapshot, moved.other);
    finish(scenario, world, prepared);
}

/// So many passages of one point are tried, besides the last.
const TRIED: usize = 3;

pub(super) fn run(scenario: &'static Scenario) {
    let passed = passages(scenario);
    let (mut found, mut said) = (passed.clone(), scenario.passes.to_vec());
    found.retain(|point| !scenario.may_pass.contains(point));
    found.sort_unstable();
    said.sort_unstable();
    found.dedup();
    assert_eq!(found, said, "{}: what it passes is not what its scenario says", scenario.name);
    for point in found {
        let count = passed.iter().filter(|passed| **passed == point).count();
        for passage in (0..count).filter(|passage| *passage < TRIED || passage + 1 == count) {
            stop_at(scenario, point, passage);
        }
    }
}

#[test]
fn nobody_waits_for_a_stopped_thread() {
    let wanted = std::env::var("DELTA_FIFO_SCENARIO").unwrap_or_default();
    let mut failures = Vec::new();
    for scenario in scenarios::all().filter(|scenario| scenario.name.contains(&*wanted)) {
        if catch_unwind(|| run(scenario)).is_err() {
            failures.push(scenario.name);
        }
    }
    assert!(failures.is_empty(), "{failures:#?}");
}

#[test]
fn who_goes_on_late_marks_no_later_generation() {
    let world = Arc::new((PLAIN.world)());
    let add = |world: &Arc<World>| _ = world.add(KEY);
    let (linker, owed) = stop_in(&world, "link: owed", 0, add);
    assert!(arrives(&linker, &owed));
    let (helper, woken) = stop_in(&world, "link: woken", 0, add);
    assert!(arrives(&helper, &woken));
    let lease = world.queue.try_pop().expect("it is in line").into_owned(&world.queue);
    world.update(KEY);
    let (ender, ended) = stop_in(&world, "finish: ended", 0, |world| world.complete(lease));
    assert!(arrives(&ender, &ended));
    // The key is half in line once more. Who has helped before now says that it stands there.
    go_on(helper, &woken);
    go_on(linker, &owed);
    others_go_on("the second half of a second generation", &world, false, false);
    go_on(ender, &ended);
    Arc::into_inner(world).expect("every thread has ended").end(false);
}

/// How many entries are kept for the sake of a replace: as they say, and as is counted.
fn kept(world: &World) -> (usize, usize) {
    let mut kept = 0;
    world.queue.visit_entries(|entry| kept += usize::from(world.queue.core.is_only_asked_for(entry.word())));
    (kept, world.queue.core.shards.iter().map(|shard| shard.asked.load(Ordering::SeqCst)).sum())
}

/// The lease of a deletion that came after the replace began, and the replace.
fn deletion_asked_for(world: &Arc<World>) -> (OwnedLease<Queue>, OwnedReplace<Queue>) {
    let pop = || world.queue.try_pop().expect("it is in line").into_owned(&world.queue);
    world.add(KEY);
    world.complete(pop());
    let replace = world.queue.begin_replace_owned().expect("it is the only one");
    world.delete(KEY);
    (pop(), replace)
}

#[test]
fn an_entry_that_is_kept_when_its_replace_ends_goes_with_whoever_sees_both() {
    for point in [
        "finish: before the exchange",
        "finish: kept, as it is asked for",
        "finish: ended",
        "finish: counted",
    ] {
        let world = Arc::new((PLAIN.world)());
        let (lease, replace) = deletion_asked_for(&world);
        let (ender, gate) = stop_in(&world, point, 0, |world| world.complete(lease));
        assert!(arrives(&ender, &gate));
        drop(replace);
        go_on(ender, &gate);
        assert_eq!(kept(&world), (0, 0), "stopped at \"{point}\"");
        Arc::into_inner(world).expect("every thread has ended").end(false);
    }
}

#[test]
fn an_entry_that_is_being_retired_is_counted_once() {
    for point in ["replaces: oldest published", "replaces: first dropped", "known: retired", "remove: marked"]
    {
        let world = Arc::new((PLAIN.world)());
        let (lease, replace) = deletion_asked_for(&world);
        let (dropper, gate) = if point.starts_with("replaces") {
            let stopped = stop_in(&world, point, 0, |_| drop(replace));
            assert!(arrives(&stopped.0, &stopped.1));
            world.complete(lease);
            stopped
        } else {
            world.complete(lease);
            assert_eq!(kept(&world), (1, 1));
            let stopped = stop_in(&world, point, 0, |_| drop(replace));
            assert!(arrives(&stopped.0, &stopped.1));
            stopped
        };
        // The key comes back and is deleted again: nobody asks for it now.
        others_go_on(point, &world, false, false);
        world.delete(KEY);
        while let Ok(lease) = world.queue.try_pop() {
            world.complete(lease);
        }
        go_on(dropper, &gate);
        assert_eq!(kept(&world), (0, 0), "stopped at \"{point}\"");
        Arc::into_inner(world).expect("every thread has ended").end(false);
    }
}

#[test]
fn a_change_of_a_kept_key_ends_its_being_kept() {
    let world = Arc::new((PLAIN.world)());
    let (lease, replace) = deletion_asked_for(&world);
    world.complete(lease);
    assert_eq!(kept(&world), (1, 1));
    let (adder, gate) = stop_in(&world, "push: appended", 0, |world| _ = world.add(KEY));
    assert!(arrives(&adder, &gate));
    // It is pending, but whoever made it so has not counted that yet.
    assert_eq!(kept(&world), (0, 1));
    drop(replace);
    others_go_on("a change of a kept key", &world, false, false);
    go_on(adder, &gate);
    assert_eq!(kept(&world), (0, 0));
    Arc::into_inner(world).expect("every thread has ended").end(false);
}

/// `change` is stopped before the known key is in line; what `begin` has begun ends, without changing the key.
fn puts_in_line<T>(
    begin: impl FnOnce(&Arc<World>) -> T,
    change: fn(&Arc<World>),
    end: impl FnOnce(&Arc<World>, T),
) {
    let world = Arc::new((PLAIN.world)());
    world.add(KEY);
    world.complete(world.queue.try_pop().expect("it is in line"));
    let begun = begin(&world);
    let (producer, gate) = stop_in(&world, "link: owed", 0, change);
    assert!(arrives(&producer, &gate));
    end(&world, begun);
    let lease = world.queue.try_pop();
    let is_there = lease.is_ok();
    lease.into_iter().for_each(|lease| world.complete(lease));
    go_on(producer, &gate);
    assert!(is_there, "the call has returned");
    while let Ok(lease) = world.queue.try_pop() {
        world.complete(lease);
    }
    Arc::into_inner(world).expect("every thread has ended").end(false);
}

#[test]
fn a_sweep_puts_in_line_what_it_is_kept_off_by() {
    // Neither listed nor to be swept: it has changed. But whoever has changed it has not put it in line.
    for change in [|world: &Arc<World>| _ = world.add(KEY), |world: &Arc<World>| world.delete(KEY)] {
        let begin = |world: &Arc<World>| world.queue.begin_replace_owned().expect("it is the only one");
        puts_in_line(begin, change, |_, replace| drop(replace.commit()));
    }
}

#[test]
fn a_resync_puts_in_line_what_it_is_kept_off_by() {
    puts_in_line(
        |_| (),
        |world| _ = world.add(KEY),
        |world, ()| assert_eq!(world.queue.resync().ok(), Some(0)),
    );
}

#[test]
fn a_lease_that_another_thread_is_taking_is_not_this_threads() {
    let world = Arc::new((PLAIN.world)());
    // This thread has had the key, and what was known of that is not cleared.
    world.add(KEY);
    world.complete(world.queue.try_pop().expect("it is in line"));
    world.add(KEY);
    let (taker, gate) = stop_in(&world, "lease: begun", 0, |world| {
        let lease = world.queue.try_pop().expect("it is in line");
        world.complete(lease);
    });
    assert!(arrives(&taker, &gate));
    let mark = world.queue.mark(1).expect("it is open");
    world.add(OTHERS[0]);
    let lease = world.queue.try_pop().expect("it is in line");
    // The lease here came after the mark: that waits for the other thread alone.
    let waited = mark.wait_timeout(Duration::from_millis(20));
    world.complete(lease);
    go_on(taker, &gate);
    assert_eq!(waited.err(), Some(crate::error::WaitError::Timeout));
    assert_eq!(mark.wait_timeout(LONG).err(), None);
    drop(mark);
    Arc::into_inner(world).expect("every thread has ended").end(false);
}

#[test]
fn a_sweep_does_not_believe_a_chain_that_was_taken_meanwhile() {
    let world = Arc::new((PLAIN.world)());
    world.add(OTHERS[0]);
    world.add(KEY);
    world.add(KEY);
    let replace = world.queue.begin_replace_owned().expect("it is the only one");
    for _ in 0..2 {
        replace.upsert(world.key(OTHERS[0]), world.thing()).expect("it is open");
    }
    // What the replace has placed is swept no more, so the first chain is that of the key.
    let (sweeper, gate) = stop_in(&world, "push: chain held", 0, |_| drop(replace.commit()));
    assert!(arrives(&sweeper, &gate));
    // The older fact of the key is freed on top of one with the number of the replace.
    for _ in 0..2 {
        world.complete(world.queue.try_pop().expect("it is in line"));
    }
    go_on(sweeper, &gate);
    while let Ok(lease) = world.queue.try_pop() {
        world.complete(lease);
    }
    assert!(!world.queue.known().contains(&KEY), "neither in the list nor changed since");
    Arc::into_inner(world).expect("every thread has ended").end(false);
}
