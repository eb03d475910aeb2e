//! Every peer that takes lists passes, and what is wrong is found.

use super::super::KeySet;
use super::super::tests::{Broken, Fault};
use super::*;
use crate::peers::{Baseline, Parking, Peer, Sharded};

/// With keys that come again, that are changed in a row, and that a list does not name. However much gathers, each key is
/// popped: so there are pops enough for a fault that shows at one of them.
fn trace() -> Trace {
    const KEYS: u32 = 2_000;
    let set = KeySet::new(KEYS as usize, 1);
    let keys = (0..KEYS as usize).map(|number| set.key(number).clone()).collect();
    let mut steps = vec![Step::List((0..KEYS / 2).collect())];
    steps.extend((KEYS / 2..KEYS).map(Step::Add));
    for lap in 0..2 {
        steps.extend((0..KEYS).map(Step::Update));
        steps.extend([Step::Delete(lap), Step::Add(lap), Step::Update(lap)]);
    }
    steps.extend([Step::List((0..KEYS - 3).collect()), Step::Delete(0)]);
    let end = (0..KEYS).map(|number| number != 0 && number < KEYS - 3).collect();
    Trace { keys, steps, end }
}

fn replay() -> Replay {
    Replay { consumers: 3, rate: 200_000.0, rounds: 2, processor: || Duration::ZERO }
}

fn check<P: Lists>() {
    let (trace, mut begun, mut ended) = (trace(), false, false);
    let replayed = run(&P::new(), replay(), &trace, [&mut || begun = true, &mut || ended = true]);
    assert_eq!(replayed.violations, [""; 0]);
    assert!(begun && ended);
    assert_eq!(replayed.changes, 2 * trace.changes());
    assert_eq!(replayed.latencies.len(), replayed.changes as u64);
}

#[test]
fn every_peer_hands_out_the_trace() {
    check::<Sharded>();
    check::<Baseline>();
    check::<Parking>();
}

#[test]
fn nothing_hands_it_out_too() {
    let replayed = nothing(replay(), &trace());
    assert_eq!(replayed.violations, [""; 0]);
    assert_eq!(replayed.latencies.len(), replayed.changes as u64);
}

#[test]
fn the_rate_is_kept() {
    let (trace, began) = (trace(), Instant::now());
    let slow = Replay { rate: 20_000.0, rounds: 1, ..replay() };
    let changes = nothing(slow, &trace).changes;
    // But for the last piece.
    let least = Duration::from_secs_f64(changes as f64 / slow.rate) - 2 * PIECE;
    assert!(began.elapsed() >= least, "{:?} for {changes} changes", began.elapsed());
}

#[test]
fn broken_queues_are_found_out() {
    for (fault, by) in [
        (Fault::LosesAChange, "follows change"),
        (Fault::DeliversAChangeTwice, "follows change"),
        (Fault::DeliversAnOldChangeAgain, "follows change"),
        (Fault::SwapsTheObjectsOfTwoKeys, "an object of"),
        (Fault::LeasesAKeyTwice, "follows change"),
        (Fault::KnowsAnOldObject, "known at the end"),
        (Fault::ForgetsAKnownObject, "known at the end"),
        (Fault::CountsAMergeThatNeverWas, "handed out or merged"),
        (Fault::ForgetsAListedKey, "follows change"),
    ] {
        let violations = run(&Broken::with(fault), replay(), &trace(), [&mut || (), &mut || ()]).violations;
        assert!(violations.iter().any(|text| text.contains(by)), "{fault:?}: {violations:?}");
    }
}

#[test]
fn a_hidden_tombstone_is_found_out() {
    // Its lease is hidden as a whole: a later one shows it, unless all that came later was in it.
    let violations =
        run(&Broken::with(Fault::HidesATombstone), replay(), &trace(), [&mut || (), &mut || ()]).violations;
    let found = |text: &String| text.contains("follows change") || text.contains("is not all of it");
    assert!(violations.iter().any(found), "{violations:?}");
}

#[test]
fn a_trace_that_ends_otherwise_is_found_out() {
    let mut trace = trace();
    trace.end[0] = true;
    let violations = run(&Parking::new(), replay(), &trace, [&mut || (), &mut || ()]).violations;
    assert!(violations.iter().any(|text| text.contains("does not end as")), "{violations:?}");
}
