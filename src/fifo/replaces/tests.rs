//! One thread at a time; what several do at once is in `models.rs`.

use super::*;

fn debts(of: &[(u64, u64)]) -> Debts {
    let mut debts = Debts::default();
    of.iter().for_each(|&(number, facts)| debts.add(number, facts));
    debts
}

fn owe(replaces: &Replaces, number: u64, facts: u64) -> Debts {
    (0..facts).for_each(|_| replaces.owe(number));
    debts(&[(number, facts)])
}

/// Lets go of what it does not look at.
fn made(progress: Progress) -> bool {
    progress.is_made()
}

#[test]
fn an_empty_first_replace_syncs_at_once() {
    let replaces = Replaces::new(0, false);
    let open = replaces.begin(None, false).unwrap();
    assert!(!replaces.synced() && !replaces.delivered() && replaces.is_first(1) && replaces.running());
    assert!(made(replaces.commit(&open)));
    assert!(replaces.synced() && replaces.delivered() && !replaces.is_first(1) && !replaces.running());
    assert_eq!((replaces.is_complete(1), replaces.oldest_open()), (Some(true), u64::MAX));
    assert!(!made(replaces.commit(&open)) && !made(replaces.abort(&open)));
}

#[test]
fn facts_are_counted_through_requeues_and_merges() {
    let replaces = Replaces::new(0, false);
    let open = replaces.begin(None, false).unwrap();
    let mut older = owe(&replaces, 1, 2);
    let newer = owe(&replaces, 1, 2);
    // One of the newer ones is merged into another.
    assert!(!made(replaces.release(1)));
    let _ = replaces.commit(&open);
    assert!(!made(replaces.deliver(&mut older)));
    assert!(!replaces.delivered());
    older.join(debts(&[(1, 1)]));
    assert_eq!(debts(&[(1, 0)]), Debts::default());
    assert_eq!((newer.numbers().collect::<Vec<_>>(), older.iter().count()), (vec![1], 1));
    assert!(made(replaces.deliver(&mut older)) && replaces.delivered() && !replaces.synced());
    assert!(replaces.owes_first(&older) && made(replaces.complete(&older)));
    assert!(replaces.synced() && !replaces.is_awaited(1) && !replaces.owes_first(&older));
}

#[test]
fn the_first_call_decides() {
    let replaces = Replaces::new(0, false);
    assert!(replaces.change() && !replaces.change() && replaces.synced());
    let open = replaces.begin(None, false).unwrap();
    assert!(!replaces.is_first(1) && replaces.synced());
    let _ = replaces.commit(&open);

    let replaces = Replaces::new(0, false);
    let open = replaces.begin(None, true).unwrap();
    assert!(!made(Progress::NONE) && !replaces.change());
    assert!(!replaces.synced() && made(replaces.abort(&open)) && replaces.synced());

    let replaces = Replaces::new(0, false);
    let open = replaces.begin(None, true).unwrap();
    assert!(made(replaces.abort(&open)) && !replaces.can_sync() && !replaces.synced());
    let open = replaces.begin(None, true).unwrap();
    assert!(replaces.is_first(2) && made(replaces.commit(&open)) && replaces.synced());
}

#[test]
fn scopes_sync_one_by_one() {
    let replaces = Replaces::new(2, true);
    assert!(!replaces.change() && !replaces.synced());
    let east = replaces.begin(Some(0), true).unwrap();
    assert!(matches!(replaces.begin(Some(0), false), Err(BeginReplaceError::ReplaceInProgress)));
    assert!(matches!(replaces.begin(None, false), Err(BeginReplaceError::ReplaceInProgress)));
    let west = replaces.begin(Some(1), false).unwrap();
    assert_eq!((replaces.newest(), replaces.oldest_open(), west.scope()), (2, 1, Some(1)));
    let owed = owe(&replaces, 2, 1);
    let _ = replaces.commit(&east);
    assert_eq!((replaces.oldest_open(), replaces.synced()), (2, false));
    let _ = replaces.commit(&west);
    assert!(!replaces.delivered() && made(replaces.complete(&owed)));
    assert!(replaces.synced() && replaces.delivered());
    let all = replaces.begin(None, false).unwrap();
    assert!(matches!(replaces.begin(Some(1), false), Err(BeginReplaceError::ReplaceInProgress)));
    let _ = replaces.abort(&all);

    let shared = Replaces::new(2, false);
    let _east = shared.begin(Some(0), true).unwrap();
    assert!(shared.begin(Some(1), true).is_err());
}

#[test]
fn a_close_cuts_streams_and_nothing_else() {
    let replaces = Replaces::new(2, true);
    let (list, stream) = (replaces.begin(Some(0), false).unwrap(), replaces.begin(Some(1), true).unwrap());
    assert!(made(replaces.close()) && stream.is_cut() && !list.is_cut() && replaces.running());
    assert!(!made(replaces.commit(&stream)) && made(replaces.commit(&list)) && !replaces.running());
    assert!(matches!(replaces.begin(None, false), Err(BeginReplaceError::Closed)));
    assert!(!replaces.can_sync() && !replaces.synced());
}

#[test]
fn what_nobody_asks_for_is_forgotten() {
    let replaces = Replaces::new(0, false);
    let first = replaces.begin(None, false).unwrap();
    let mut owed = owe(&replaces, 1, 1);
    let _ = replaces.commit(&first);
    replaces.forget(1);
    assert!(replaces.is_awaited(1), "the first is kept");
    for number in 2..100 {
        let open = replaces.begin(None, false).unwrap();
        owed.join(owe(&replaces, number, 1));
        let _ = replaces.commit(&open);
        assert_eq!(replaces.is_complete(number), Some(false));
        let _ = replaces.deliver(&mut owed);
        replaces.forget(number);
        assert!(!replaces.is_awaited(number) && replaces.is_complete(number) == Some(true));
    }
    assert_eq!(owed.numbers().collect::<Vec<_>>(), [1, 99]);
    assert!(made(replaces.complete(&owed)) && replaces.synced());
}

#[test]
fn what_was_discarded_never_completes() {
    let replaces = Replaces::new(0, false);
    let open = replaces.begin(None, false).unwrap();
    let (kept, lost) = (owe(&replaces, 1, 1), owe(&replaces, 1, 1));
    let _ = replaces.commit(&open);
    assert!(replaces.can_sync() && made(replaces.fail(&lost)));
    assert!(!made(replaces.complete(&kept)) && !replaces.can_sync());
    assert_eq!(replaces.is_complete(1), None);
}

/// Against plain counters.
#[test]
fn agrees_with_the_definition() {
    let mut random = 5_u64;
    let mut next = |bound: usize| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (random >> 33) as usize % bound
    };
    for round in 0..300 {
        let replaces = Replaces::new(0, false);
        let (mut open, mut owed, mut first, mut synced) = (None, Vec::new(), None, false);
        let mut changed = false;
        for _ in 0..60 {
            match next(7) {
                0 if open.is_none() => {
                    let begun = replaces.begin(None, next(2) == 0).unwrap();
                    if first.is_none() && !synced {
                        first = Some(begun.number());
                    }
                    open = Some(begun);
                }
                1 | 2 if open.is_some() => {
                    let number = open.as_ref().map_or(0, Open::number);
                    owed.push((number, owe(&replaces, number, 1 + next(2) as u64)));
                }
                3 => {
                    if let Some(begun) = open.take() {
                        let _ = replaces.commit(&begun);
                    }
                }
                4 if round % 3 == 0 => {
                    if let Some(begun) = open.take() {
                        let _ = replaces.abort(&begun);
                        if first == Some(begun.number()) {
                            (first, synced) = (None, synced || changed);
                        }
                    }
                }
                5 if round % 2 == 0 => {
                    let before = replaces.synced();
                    assert_eq!(replaces.change(), !before && replaces.synced());
                    changed = true;
                    synced |= first.is_none();
                }
                _ if !owed.is_empty() => {
                    let _ = replaces.complete(&owed.swap_remove(next(owed.len())).1);
                }
                _ => {}
            }
            let is_open = |number| open.as_ref().is_some_and(|open| open.number() == number);
            let ended = first.is_some_and(|first| !is_open(first) && owed.iter().all(|(of, _)| *of != first));
            synced |= ended;
            assert_eq!(replaces.synced(), synced);
            assert_eq!(replaces.running(), open.is_some() && replaces.running());
            assert_eq!(replaces.oldest_open(), open.as_ref().map_or(u64::MAX, Open::number));
        }
    }
}

#[test]
fn threads_agree_on_the_last_completion() {
    let replaces = Replaces::new(0, false);
    for _ in 0..200 {
        let open = replaces.begin(None, false).unwrap();
        let number = open.number();
        let owed: Vec<Debts> = (0..4).map(|_| owe(&replaces, number, 3)).collect();
        let last: usize = std::thread::scope(|scope| {
            let consumers: Vec<_> =
                owed.iter().map(|owed| scope.spawn(|| usize::from(made(replaces.complete(owed))))).collect();
            let _ = replaces.commit(&open);
            consumers.into_iter().map(|consumer| consumer.join().unwrap()).sum()
        });
        assert!(last <= 1);
        assert!(replaces.synced() && replaces.delivered() && replaces.is_complete(number) == Some(true));
    }
}
