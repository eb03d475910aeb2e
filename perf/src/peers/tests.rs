//! Every peer, by the same tests: what one thread may expect, and what must hold among many.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use super::*;

const KEYS: usize = 64;

/// One test per peer and check.
macro_rules! for_every_peer {
    ($($check:ident)*) => {
        mod sharded { for_every_peer!(@ Sharded: $($check)*); }
        mod b0 { for_every_peer!(@ Baseline: $($check)*); }
        mod b1 { for_every_peer!(@ Parking: $($check)*); }
        mod b1f { for_every_peer!(@ FairParking: $($check)*); }
        mod b2 { for_every_peer!(@ Papaya: $($check)*); }
        mod b3 { for_every_peer!(@ ShardedMutex: $($check)*); }
        mod b4 { for_every_peer!(@ RealFifo: $($check)*); }
    };
    (@ $peer:ty: $($check:ident)*) => {
        use super::*;
        $(#[test] fn $check() { super::$check::<$peer>(); })*
    };
}

for_every_peer! {
    changes_of_a_key_share_a_lease
    the_newest_is_known_before_the_handler_sees_it
    a_change_during_the_lease_waits_for_its_end
    a_deletion_is_handed_out_and_forgets
    batches_keep_the_order
    what_is_pending_at_close_is_handed_out
    windowed_runs_are_valid
    nothing_is_lost_under_overload
}

mod lists;

fn key(number: usize) -> Key {
    format!("namespace/name-{number}").into()
}

fn object(key: usize, seq: u64) -> Object {
    Object::new(0, key as u32, seq)
}

/// Key numbers, kinds and sequence numbers of the leases it saw.
#[derive(Default)]
struct Seen(Vec<Vec<(u32, Kind, u64)>>);

impl Handler for Seen {
    fn lease<'d>(&mut self, _: &Key, deltas: impl Iterator<Item = (Kind, &'d Object)>) {
        self.0.push(deltas.map(|(kind, object)| (object.key, kind, object.seq)).collect());
    }
}

/// Calls a closure for every lease.
struct Each<F>(F);

impl<F: FnMut(&Key, &[u64])> Handler for Each<F> {
    fn lease<'d>(&mut self, key: &Key, deltas: impl Iterator<Item = (Kind, &'d Object)>) {
        let seqs: Vec<u64> = deltas.map(|(_, object)| object.seq).collect();
        (self.0)(key, &seqs);
    }
}

fn changes_of_a_key_share_a_lease<P: Peer>() {
    let peer = P::new();
    peer.add(key(1), object(1, 1));
    peer.add(key(2), object(2, 1));
    peer.update(key(1), object(1, 2));
    let pending = if P::GATHERS { 2 } else { 3 };
    assert_eq!((peer.pending_len(), peer.leased_len(), peer.known_len()), (pending, 0, 0));
    let mut seen = Seen::default();
    (0..pending).for_each(|_| assert!(peer.pop(&mut seen)));
    let (added, updated, other) = ((1, Kind::Added, 1), (1, Kind::Updated, 2), (2, Kind::Added, 1));
    if P::GATHERS {
        assert_eq!(seen.0, [vec![added, updated], vec![other]]);
    } else {
        assert_eq!(seen.0, [[added], [other], [updated]]);
    }
    assert_eq!((peer.pending_len(), peer.leased_len(), peer.known_len()), (0, 0, 2));
    assert_eq!(peer.get_with(&key(1), |object| object.seq), Some(2));
    assert_eq!(peer.get_with(&key(3), |object| object.seq), None);
}

fn the_newest_is_known_before_the_handler_sees_it<P: Peer>() {
    let peer = P::new();
    peer.add(key(1), object(1, 1));
    peer.update(key(1), object(1, 2));
    let mut known = None;
    peer.pop(&mut Each(|key: &Key, _: &[u64]| known = peer.get_with(key, |object| object.seq)));
    assert_eq!(known, Some(if P::GATHERS { 2 } else { 1 }));
}

fn a_change_during_the_lease_waits_for_its_end<P: Peer>() {
    let peer = P::new();
    peer.add(key(1), object(1, 1));
    peer.pop(&mut Each(|_: &Key, _: &[u64]| {
        peer.update(key(1), object(1, 2));
        assert_eq!((peer.pending_len(), peer.leased_len()), (1, 1));
    }));
    assert_eq!((peer.pending_len(), peer.leased_len()), (1, 0));
    let mut seen = Seen::default();
    assert_eq!(peer.pop_batch(8, &mut seen, &mut P::Scratch::default()), 1);
    assert_eq!(seen.0, [[(1, Kind::Updated, 2)]]);
}

fn a_deletion_is_handed_out_and_forgets<P: Peer>() {
    let peer = P::new();
    if !P::GATHERS {
        return one_deletion_is_handed_out_of_two(&peer);
    }
    peer.delete(key(1), object(1, 1));
    assert_eq!(peer.pending_len(), 0, "there is nothing to delete");
    // Pending, and then known.
    peer.add(key(1), object(1, 1));
    peer.delete(key(1), object(1, 2));
    peer.add(key(2), object(2, 1));
    let mut seen = Seen::default();
    assert!(peer.pop(&mut seen) && peer.pop(&mut seen));
    assert_eq!((peer.known_len(), peer.get_with(&key(1), |object| object.seq)), (1, None));
    peer.delete(key(2), object(2, 2));
    assert_eq!(peer.get_with(&key(2), |object| object.seq), Some(1), "known until the pop");
    peer.pop(&mut Each(|key: &Key, seqs: &[u64]| {
        assert_eq!((seqs, peer.get_with(key, |_| ())), (&[2][..], None));
        peer.delete(key.clone(), object(2, 3));
        assert_eq!(peer.pending_len(), 0, "deleted by the lease that runs");
        peer.add(key.clone(), object(2, 3));
        peer.delete(key.clone(), object(2, 4));
    }));
    assert!(peer.pop(&mut seen));
    let kinds: Vec<Vec<Kind>> =
        seen.0.iter().map(|deltas| deltas.iter().map(|delta| delta.1).collect()).collect();
    assert_eq!(
        kinds,
        [vec![Kind::Added, Kind::Deleted], vec![Kind::Added], vec![Kind::Added, Kind::Deleted]]
    );
    assert_eq!((peer.pending_len(), peer.leased_len(), peer.known_len()), (0, 0, 0));
}

fn one_deletion_is_handed_out_of_two<P: Peer>(peer: &P) {
    peer.add(key(1), object(1, 1));
    (2..4).for_each(|seq| peer.delete(key(1), object(1, seq)));
    peer.add(key(2), object(2, 1));
    let mut seen = Seen::default();
    (0..3).for_each(|_| assert!(peer.pop(&mut seen)));
    assert_eq!(seen.0, [[(1, Kind::Added, 1)], [(1, Kind::Deleted, 2)], [(2, Kind::Added, 1)]]);
    assert_eq!((peer.pending_len(), peer.known_len(), peer.get_with(&key(1), |_| ())), (0, 1, None));
}

fn batches_keep_the_order<P: Peer>() {
    let (peer, mut scratch) = (P::new(), P::Scratch::default());
    for round in 0..3 {
        let mut batch: Vec<_> =
            (0..KEYS).map(|number| (key(number), object(number, 2 * round + 1))).collect();
        // A second change of the same key in the same batch.
        batch.insert(KEYS / 2, (key(3), object(3, 2 * round + 2)));
        peer.update_all(&mut batch, &mut scratch);
        assert!(batch.is_empty());

        let mut seen = Seen::default();
        if !P::GATHERS {
            // The batch ends before the second change of key 3, wherever it is.
            assert_eq!(peer.pop_batch(KEYS, &mut seen, &mut scratch), KEYS / 2);
            assert_eq!(peer.pop_batch(KEYS, &mut seen, &mut scratch), KEYS / 2 + 1);
            let order: Vec<u64> = seen.0.iter().map(|deltas| deltas[0].2).collect();
            let newer = order.iter().position(|seq| *seq == 2 * round + 2);
            assert_eq!((newer, seen.0.len()), (Some(KEYS / 2), KEYS + 1));
            continue;
        }
        assert_eq!(peer.pop_batch(KEYS - 1, &mut seen, &mut scratch), KEYS - 1);
        assert_eq!(peer.pop_batch(KEYS - 1, &mut seen, &mut scratch), 1);
        let order: Vec<u32> = seen.0.iter().map(|deltas| deltas[0].0).collect();
        assert_eq!(order, (0..KEYS as u32).collect::<Vec<_>>());
        assert_eq!(seen.0[3].iter().map(|delta| delta.2).collect::<Vec<_>>(), [2 * round + 1, 2 * round + 2]);
    }
    assert_eq!((peer.pending_len(), peer.leased_len(), peer.known_len()), (0, 0, KEYS));
}

fn what_is_pending_at_close_is_handed_out<P: Peer>() {
    let (peer, mut scratch) = (P::new(), P::Scratch::default());
    peer.add(key(1), object(1, 1));
    peer.add(key(2), object(2, 1));
    peer.close();
    let mut seen = Seen::default();
    assert!(peer.pop(&mut seen));
    assert_eq!(peer.pop_batch(8, &mut seen, &mut scratch), 1);
    assert!(!peer.pop(&mut seen));
    assert_eq!(peer.pop_batch(8, &mut seen, &mut scratch), 0);

    let peer = P::new();
    thread::scope(|scope| {
        let sleeper = scope.spawn(|| peer.pop(&mut Seen::default()));
        thread::sleep(Duration::from_millis(20));
        peer.close();
        assert!(!sleeper.join().unwrap());
    });
}

fn windowed_runs_are_valid<P: Peer>() {
    let keys = KeySet::new(300, 1);
    for (producers, consumers) in [(1, 1), (2, 2), (3, 1)] {
        for batch in [1, 32] {
            let case = Case {
                producers,
                consumers,
                batch,
                changes: 3_000,
                patience: Duration::from_secs(20),
                parts: crate::workload::Parts::default(),
            };
            let outcome = windowed::run(&P::new(), &case, &keys);
            assert_eq!(outcome.violations, [""; 0], "({producers},{consumers}), batch {batch}");
        }
    }
}

/// Without a window keys are dirty and pending over and over; one consumer takes single keys, one takes batches.
fn nothing_is_lost_under_overload<P: Peer>() {
    const ROUNDS: u64 = 300;
    let peer = P::new();
    let newest: Vec<AtomicU64> = (0..2 * KEYS).map(|_| AtomicU64::new(0)).collect();
    let keys: Vec<Key> = (0..2 * KEYS).map(key).collect();
    let delivered = AtomicUsize::new(0);
    let check = |key: &Key, seqs: &[u64]| {
        let number: usize = key.rsplit_once('-').unwrap().1.parse().unwrap();
        for &seq in seqs {
            // Nobody else can have the key, so that load and store are as good as one step; yielding says so.
            assert_eq!(newest[number].load(Ordering::Relaxed), seq - 1, "{key}");
            thread::yield_now();
            assert_eq!(newest[number].swap(seq, Ordering::Relaxed), seq - 1, "{key}");
        }
        delivered.fetch_add(seqs.len(), Ordering::Relaxed);
    };
    let produce_one_by_one = || {
        for seq in 1..=ROUNDS {
            (0..KEYS).for_each(|number| peer.update(keys[number].clone(), object(number, seq)));
        }
    };
    let produce_in_batches = || {
        let mut scratch = P::Scratch::default();
        for seq in 1..=ROUNDS {
            let mut batch: Vec<_> = (KEYS..2 * KEYS).map(|n| (keys[n].clone(), object(n, seq))).collect();
            peer.update_all(&mut batch, &mut scratch);
        }
    };
    let consume_one_by_one = || while peer.pop(&mut Each(check)) {};
    let consume_in_batches = || {
        let mut scratch = P::Scratch::default();
        while peer.pop_batch(10, &mut Each(check), &mut scratch) > 0 {}
    };
    thread::scope(|scope| {
        scope.spawn(consume_one_by_one);
        scope.spawn(consume_in_batches);
        let producers = [scope.spawn(produce_one_by_one), scope.spawn(produce_in_batches)];
        producers.into_iter().for_each(|producer| producer.join().unwrap());
        peer.close();
    });
    let offered = 2 * KEYS * ROUNDS as usize;
    assert_eq!(delivered.into_inner() as u64 + peer.merged(), offered as u64);
    assert_eq!((peer.pending_len(), peer.leased_len(), peer.known_len()), (0, 0, 2 * KEYS));
    for (key, newest) in keys.iter().zip(newest) {
        assert_eq!(newest.into_inner(), ROUNDS);
        assert_eq!(peer.get_with(key, |object| object.seq), Some(ROUNDS));
    }
}
