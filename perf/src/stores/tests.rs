//! Every store shows what it should; and what a broken one does is found.

use std::time::Duration;

use super::*;

const PLAN: Plan = Plan { snapshots: 20, scanned: 1_000, time: Duration::from_millis(5) };

#[test]
fn every_store_passes_its_checks() {
    let (keys, absent) = (KeySet::new(300, 1), KeySet::absent(300, 1));
    let elsewhere = Plain::filled(&keys);
    for store in ALL {
        let measured = (store.measure)(&PLAN, &keys, &absent, &elsewhere);
        assert_eq!(measured.violations, [""; 0], "{}", store.id);
        assert!(measured.written.iter().all(|written| written.ns > 0.0), "{}", store.id);
        assert!(measured.times.scan > 0.0 && measured.hits.ns > 0.0, "{}", store.id);
    }
}

/// Forgets every 500th write.
struct Forgetful(Locked, std::sync::atomic::AtomicUsize);

impl Store for Forgetful {
    type Snapshot = <Locked as Store>::Snapshot;

    fn filled(keys: &KeySet) -> Self {
        Self(Locked::filled(keys), Default::default())
    }

    fn write(&self, key: &Key, object: Object) {
        if self.1.fetch_add(1, std::sync::atomic::Ordering::Relaxed) % 500 != 499 {
            self.0.write(key, object);
        }
    }

    fn snapshot(&self) -> Self::Snapshot {
        self.0.snapshot()
    }

    fn get_with<R>(&self, key: &Key, f: impl FnOnce(&Object) -> R) -> Option<R> {
        self.0.get_with(key, f)
    }
}

#[test]
fn a_store_that_forgets_is_found() {
    let (keys, absent) = (KeySet::new(300, 1), KeySet::absent(300, 1));
    let measured = measure::<Forgetful>(&PLAN, &keys, &absent, &Plain::filled(&keys));
    assert!(!measured.violations.is_empty());
}
