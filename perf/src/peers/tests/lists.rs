//! Those that take lists, and what lists do.

use super::*;

/// One test per peer and check.
macro_rules! for_every_list {
    ($($check:ident)*) => {
        mod sharded_lists { for_every_peer!(@ Sharded: $($check)*); }
        mod b0_lists { for_every_peer!(@ Baseline: $($check)*); }
        mod b1_lists { for_every_peer!(@ Parking: $($check)*); }
    };
}

for_every_list! {
    a_list_replaces_what_is_known_and_pending
    a_deletion_is_not_repeated_by_lists
    a_list_meets_leased_keys
    a_resync_hands_out_what_is_at_rest
    lists_and_changes_lose_nothing
    what_is_in_no_list_is_buried_once
    names_lead_to_types
}

fn drain<P: Peer>(peer: &P) -> Vec<Vec<(u32, Kind, u64)>> {
    let mut seen = Seen::default();
    while peer.pending_len() > 0 {
        assert!(peer.pop(&mut seen));
    }
    seen.0
}

/// Known with change 1.
fn known<P: Peer>(keys: &[usize]) -> P {
    let peer = P::new();
    keys.iter().for_each(|&number| peer.add(key(number), object(number, 1)));
    drain(&peer);
    peer
}

fn list(items: &[(usize, u64)]) -> Vec<(Key, Object)> {
    items.iter().map(|&(number, seq)| (key(number), object(number, seq))).collect()
}

fn a_list_replaces_what_is_known_and_pending<P: Lists>() {
    let peer: P = known(&[1, 2, 3, 4]);
    peer.update(key(2), object(2, 2));
    peer.update(key(3), object(3, 2));
    peer.add(key(5), object(5, 1));
    peer.replace(list(&[(6, 9), (1, 9), (2, 9)]));
    assert_eq!((peer.pending_len(), peer.known_len()), (6, 4));
    let mut seen = drain(&peer);
    // Two were in line, then comes the list; tombstones of the rest in any order.
    assert_eq!(seen[0], [(2, Kind::Updated, 2), (2, Kind::Replaced, 9)]);
    assert_eq!(seen[3..5], [[(6, Kind::Replaced, 9)], [(1, Kind::Replaced, 9)]]);
    seen.sort();
    assert_eq!(
        seen,
        [
            vec![(1, Kind::Replaced, 9)],
            vec![(2, Kind::Updated, 2), (2, Kind::Replaced, 9)],
            vec![(3, Kind::Updated, 2), (3, Kind::Tombstone, 2)],
            vec![(4, Kind::Tombstone, 1)],
            vec![(5, Kind::Added, 1), (5, Kind::Tombstone, 1)],
            vec![(6, Kind::Replaced, 9)],
        ]
    );
    assert_eq!((peer.pending_len(), peer.leased_len(), peer.known_len()), (0, 0, 3));
    assert_eq!(peer.get_with(&key(6), |object| object.seq), Some(9));
    // The same once more: who listed what before does not matter.
    peer.replace(list(&[(2, 10)]));
    let mut seen = drain(&peer);
    seen.sort();
    assert_eq!(seen, [[(1, Kind::Tombstone, 9)], [(2, Kind::Replaced, 10)], [(6, Kind::Tombstone, 9)]]);
    assert_eq!(peer.known_len(), 1);
}

fn a_deletion_is_not_repeated_by_lists<P: Lists>() {
    let peer: P = known(&[1, 2]);
    peer.delete(key(1), object(1, 2));
    peer.delete(key(2), object(2, 2));
    peer.replace(list(&[(2, 3)]));
    peer.replace(list(&[(2, 4)]));
    peer.replace(Vec::new());
    peer.replace(Vec::new());
    let replaced = [(Kind::Deleted, 2), (Kind::Replaced, 3), (Kind::Replaced, 4), (Kind::Tombstone, 4)];
    assert_eq!(
        drain(&peer),
        [vec![(1, Kind::Deleted, 2)], replaced.map(|(kind, seq)| (2, kind, seq)).to_vec()]
    );
    assert_eq!(peer.known_len(), 0);
}

fn a_list_meets_leased_keys<P: Lists>() {
    let peer: P = known(&[1, 2, 3]);
    peer.update(key(1), object(1, 2));
    peer.delete(key(2), object(2, 2));
    peer.update(key(3), object(3, 2));
    let mut lists = [list(&[(2, 8)]), list(&[(2, 9)]), list(&[(2, 10), (3, 3)])].into_iter();
    for _ in 0..3 {
        peer.pop(&mut Each(|_: &Key, _: &[u64]| peer.replace(lists.next().expect("three leases"))));
    }
    let mut seen = drain(&peer);
    seen.sort();
    assert_eq!(
        seen,
        [
            vec![(1, Kind::Tombstone, 2)],
            vec![(2, Kind::Replaced, 9), (2, Kind::Replaced, 10)],
            // Its tombstone was with the lease during which it came back.
            vec![(3, Kind::Replaced, 3)],
        ]
    );
    assert_eq!(peer.known_len(), 2);
    // A lease that ends with a deletion needs no other.
    peer.delete(key(2), object(2, 11));
    peer.delete(key(3), object(3, 4));
    peer.pop(&mut Each(|_: &Key, _: &[u64]| peer.replace(Vec::new())));
    assert_eq!(drain(&peer), [[(3, Kind::Deleted, 4)]]);
    assert_eq!((peer.pending_len(), peer.leased_len(), peer.known_len()), (0, 0, 0));
}

fn a_resync_hands_out_what_is_at_rest<P: Lists>() {
    let peer: P = known(&[1, 2, 3]);
    peer.update(key(2), object(2, 2));
    peer.delete(key(3), object(3, 2));
    peer.resync();
    peer.resync();
    assert_eq!(peer.pending_len(), 3);
    peer.pop(&mut Each(|key: &Key, seqs: &[u64]| {
        assert_eq!((&**key, seqs), ("namespace/name-2", &[2][..]));
        peer.resync();
    }));
    assert_eq!(drain(&peer), [[(3, Kind::Deleted, 2)], [(1, Kind::Sync, 1)]]);
    assert_eq!(peer.known_len(), 2);
}

/// Lists of always the same keys, and resyncs, while a producer changes these and another adds and deletes others; two
/// consumers.
fn lists_and_changes_lose_nothing<P: Lists>() {
    const ROUNDS: u64 = 100;
    let peer: P = P::new();
    let newest: Vec<AtomicU64> = (0..KEYS).map(|_| AtomicU64::new(0)).collect();
    let deltas: Vec<AtomicUsize> = (0..6).map(|_| AtomicUsize::new(0)).collect();
    struct Count<'a>(&'a [AtomicU64], &'a [AtomicUsize]);
    impl Handler for Count<'_> {
        fn lease<'d>(&mut self, key: &Key, given: impl Iterator<Item = (Kind, &'d Object)>) {
            for (kind, object) in given {
                self.1[kind as usize].fetch_add(1, Ordering::Relaxed);
                if kind == Kind::Updated {
                    let before = self.0[object.key as usize].swap(object.seq, Ordering::Relaxed);
                    assert_eq!(before, object.seq - 1, "{key}");
                }
            }
        }
    }
    thread::scope(|scope| {
        let consumer = || while peer.pop(&mut Count(&newest, &deltas)) {};
        scope.spawn(consumer);
        scope.spawn(consumer);
        let producer = scope.spawn(|| {
            for seq in 1..=ROUNDS {
                (0..KEYS).for_each(|number| peer.update(key(number), object(number, seq)));
            }
        });
        let lister = scope.spawn(|| {
            for round in 0..ROUNDS {
                peer.replace((0..KEYS).map(|number| (key(number), object(number, round))).collect());
                peer.resync();
            }
        });
        producer.join().unwrap();
        lister.join().unwrap();
        peer.close();
    });
    let counted: Vec<usize> = deltas.into_iter().map(AtomicUsize::into_inner).collect();
    assert_eq!(counted[Kind::Updated as usize], KEYS * ROUNDS as usize);
    assert_eq!(counted[Kind::Tombstone as usize], 0);
    // Where an update is newer than the list its object is not handed out.
    assert!(counted[Kind::Replaced as usize] <= KEYS * ROUNDS as usize);
    assert_eq!((peer.pending_len(), peer.leased_len(), peer.known_len()), (0, 0, KEYS));
}

/// Keys are added, and empty lists come all the time: each key is deleted exactly once, wherever the lists find it, in line,
/// on its way to the known objects, leased or known.
fn what_is_in_no_list_is_buried_once<P: Lists>() {
    const ADDED: usize = 3_000;
    let peer = P::new();
    let seen: Vec<AtomicUsize> = (0..ADDED).map(|_| AtomicUsize::new(0)).collect();
    struct Bury<'a>(&'a [AtomicUsize]);
    impl Handler for Bury<'_> {
        fn lease<'d>(&mut self, key: &Key, deltas: impl Iterator<Item = (Kind, &'d Object)>) {
            for (kind, object) in deltas {
                let place = self.0[object.key as usize].fetch_add(1, Ordering::Relaxed);
                let expected = [Kind::Added, Kind::Tombstone].get(place);
                assert_eq!(Some(&kind), expected, "{key}");
            }
        }
    }
    thread::scope(|scope| {
        let consumers = [0; 2].map(|_| scope.spawn(|| while peer.pop(&mut Bury(&seen)) {}));
        let producer = scope.spawn(|| (0..ADDED).for_each(|number| peer.add(key(number), object(number, 1))));
        while !producer.is_finished() {
            peer.replace(Vec::new());
        }
        peer.replace(Vec::new());
        peer.close();
        consumers.into_iter().for_each(|consumer| consumer.join().unwrap());
    });
    assert!(seen.into_iter().all(|seen| seen.into_inner() == 2));
    assert_eq!((peer.pending_len(), peer.leased_len(), peer.known_len()), (0, 0, 0));
}

fn names_lead_to_types<P: Lists>() {
    struct Name;
    impl Visit for Name {
        type Out = &'static str;
        fn visit<P: Peer>(self) -> &'static str {
            std::any::type_name::<P>()
        }
    }
    impl VisitLists for Name {
        type Out = &'static str;
        fn visit<P: Lists>(self) -> &'static str {
            std::any::type_name::<P>()
        }
    }
    let name = Some(std::any::type_name::<P>());
    let same: Vec<_> = ALL.iter().filter(|entry| visit(entry.id, Name) == name).collect();
    assert_eq!(same.len(), 1, "{name:?}");
    assert_eq!(visit_lists(same[0].id, Name), name);
    assert!(ALL.iter().all(|entry| visit(entry.id, Name).is_some()));
    assert_eq!((visit("B9", Name), visit_lists("B3", Name)), (None, None));
}
