//! Every peer passes, and what is wrong is found.

use super::super::tests::{Broken, Fault};
use super::*;
use crate::peers::{Baseline, Parking, Peer, Sharded};

const FIRST: Relist = Relist {
    known: false,
    missing: 0,
    rate: 20_000.0,
    steady: Duration::from_millis(20),
    patience: Duration::from_secs(20),
};
const AGAIN: Relist = Relist { known: true, missing: 700, ..FIRST };

fn check<P: Lists>() {
    let keys = KeySet::new(3_000, 1);
    for relist in [FIRST, AGAIN, Relist { missing: 0, ..AGAIN }] {
        let listed = run(&P::new(), relist, &keys);
        assert_eq!(listed.violations, [""; 0]);
        assert!(!listed.steady.is_empty() && listed.replace > Duration::ZERO);
        let meter = Meter { live: || 1_000, peak: || 7_000, forget_peak: || {} };
        assert_eq!(count(&P::new(), relist, &keys, meter), (2.0, Vec::new()));
    }
}

#[test]
fn every_peer_replaces_exactly() {
    check::<Sharded>();
    check::<Baseline>();
    check::<Parking>();
}

#[test]
fn broken_lists_are_found_out() {
    let keys = KeySet::new(3_000, 1);
    // So long that the producer has come to change 1,500, and to that key's next, when the replace begins.
    let relist = Relist { steady: Duration::from_millis(120), ..AGAIN };
    let violations = |fault| run(&Broken::with(fault), relist, &keys).violations;
    assert_eq!(violations(Fault::None), [""; 0]);
    for (fault, by) in [
        (Fault::ForgetsAListedKey, "deleted 1 times"),
        (Fault::ListsAMissingKey, "replaced 1 times"),
        (Fault::ListsTwice, "replaced 2 times"),
        (Fault::HidesATombstone, "deleted 0 times"),
        (Fault::LosesAChange, "the last change"),
        (Fault::ForgetsAKnownObject, "known at the end None"),
        (Fault::CountsAMergeThatNeverWas, "merged"),
    ] {
        let violations = violations(fault);
        assert!(violations.iter().any(|text| text.contains(by)), "{fault:?}: {violations:?}");
    }
}

#[test]
fn a_lock_that_is_held_makes_calls_late() {
    /// Its replace stops all for a while.
    struct Still(parking_lot::RwLock<Parking>);
    impl Peer for Still {
        type Scratch = <Parking as Peer>::Scratch;
        fn new() -> Self {
            Self(Parking::new().into())
        }
        fn add(&self, key: Key, object: Object) {
            self.0.read().add(key, object);
        }
        fn update(&self, key: Key, object: Object) {
            self.0.read().update(key, object);
        }
        fn delete(&self, _: Key, _: Object) {
            unreachable!("nothing is deleted but by the list")
        }
        fn update_all(&self, _: &mut Vec<(Key, Object)>, _: &mut Self::Scratch) {
            unreachable!("changes come one by one")
        }
        fn pop(&self, handler: &mut impl Handler) -> bool {
            self.0.read().pop(handler)
        }
        fn pop_batch(&self, max: usize, handler: &mut impl Handler, scratch: &mut Self::Scratch) -> usize {
            self.0.read().pop_batch(max, handler, scratch)
        }
        fn close(&self) {
            self.0.read().close();
        }
        fn get_with<R>(&self, key: &Key, f: impl FnOnce(&Object) -> R) -> Option<R> {
            self.0.read().get_with(key, f)
        }
        fn known_len(&self) -> usize {
            self.0.read().known_len()
        }
        fn pending_len(&self) -> usize {
            self.0.read().pending_len()
        }
        fn leased_len(&self) -> usize {
            self.0.read().leased_len()
        }
        fn merged(&self) -> u64 {
            self.0.read().merged()
        }
    }
    impl Lists for Still {
        fn replace(&self, list: Vec<(Key, Object)>) {
            let all = self.0.write();
            thread::sleep(Duration::from_millis(30));
            all.replace(list);
        }
        fn resync(&self) {
            unreachable!("nobody asks for it")
        }
    }
    let listed = run(&Still::new(), FIRST, &KeySet::new(500, 1));
    assert_eq!(listed.violations, [""; 0]);
    // All that came due meanwhile: some 600 calls, half of them more than 15 ms late.
    assert!(listed.during.max() >= 25_000_000, "{}", listed.during.max());
    assert!(listed.during.count_between(10_000_000, 60_000_000_000) >= 200, "{}", listed.during.len());
}
