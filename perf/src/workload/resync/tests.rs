//! Every peer passes, pops are counted as they are, and what is wrong is found.

use super::super::tests::{Broken, Fault};
use super::*;
use crate::peers::{Baseline, Parking, Peer, Settings, Sharded};

const KNOWN: usize = 2_000;
const SHORT: Resync = Resync { bursts: 20, rate: 20_000.0, quiet: 200, patience: Duration::from_secs(20) };

fn keys(bursts: usize) -> KeySet {
    KeySet::new(super::keys(KNOWN, bursts), 1)
}

fn extra_pops<P: Lists>(peer: &P) -> i64 {
    let run = run(peer, SHORT, &keys(SHORT.bursts), KNOWN);
    assert_eq!(run.violations, [""; 0]);
    assert_eq!(run.pops.len(), SHORT.bursts / BURSTS.len() * BURSTS.iter().sum::<usize>());
    assert_eq!(run.without.len(), 201, "200 changes, and the one that ends it");
    assert!(!run.with.is_empty() && run.resync > Duration::ZERO);
    // Without a resync the first of a burst is the next, and so on.
    assert_eq!(run.pops[..6].iter().map(|pops| pops.0).collect::<Vec<_>>(), [1, 1, 2, 3, 4, 1]);
    run.pops.iter().map(|(without, with)| *with as i64 - *without as i64).max().expect("changes")
}

#[test]
fn in_one_line_the_first_fresh_change_waits_for_all() {
    // A new key waits for all that are known, which are more by the changes without a resync.
    let known = (KNOWN + changes(SHORT.bursts).div_ceil(2)) as i64;
    assert_eq!(extra_pops(&Sharded::new()), known);
    assert_eq!(extra_pops(&Baseline::new()), known);
    assert_eq!(extra_pops(&Parking::new()), known);
}

#[test]
fn behind_the_others_a_resync_delays_no_fresh_change_for_long() {
    fn most<P: Lists>() -> i64 {
        let settings = Settings { background_resync: true, ..Settings::default() };
        extra_pops(&P::with(settings).expect("it has a second line"))
    }
    // 64 at once meet four turns of the second line, or five.
    for most in [most::<Sharded>(), most::<Baseline>()] {
        assert!((4..=5).contains(&most), "{most}");
    }
}

#[test]
fn broken_resyncs_are_found_out() {
    // So many that there are 1,500 changes.
    let resync = Resync { bursts: 80, ..SHORT };
    let violations = |fault| run(&Broken::with(fault), resync, &keys(80), KNOWN).violations;
    assert_eq!(violations(Fault::None), [""; 0]);
    for (fault, by) in [
        (Fault::HidesASync, "not in line"),
        (Fault::SyncsTwice, "Sync"),
        (Fault::DeliversAChangeTwice, "the last change"),
        (Fault::ForgetsAKnownObject, "known is None"),
    ] {
        let violations = violations(fault);
        assert!(violations.iter().any(|text| text.contains(by)), "{fault:?}: {violations:?}");
    }
}
