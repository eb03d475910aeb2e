//! The checker itself: histories that are right, or wrong in one way; and small random ones, of which a search through all
//! orders says the same.

use super::check::{Cut, History, Pop, Read, Shown, Tick};
use crate::common::Random;

const NONE: Shown = None;

/// `(key, version, call, return)`; its lease ends at once.
fn pops(pops: &[(usize, Shown, Tick, Tick)]) -> Vec<Pop> {
    let pop = |&(key, shown, call, returned)| Pop { key, shown, call, returned, ended: returned };
    pops.iter().map(pop).collect()
}

/// The cuts have epochs in their order.
fn history(changes: &[(usize, Shown, Tick, Tick)], cuts: &[(&[Shown], Tick, Tick)]) -> History {
    let keys = cuts.iter().map(|cut| cut.0.len()).max().unwrap_or(1);
    let cuts = cuts.iter().enumerate().map(|(number, &(shown, call, returned))| Cut {
        shown: shown.to_vec(),
        call,
        returned,
        epoch: Some(number as u64 + 1),
    });
    History { keys, pops: pops(changes), cuts: cuts.collect(), reads: Vec::new() }
}

fn read(history: &History, reads: &[(usize, Shown, Tick, Tick)]) -> History {
    let read = |&(key, shown, call, returned)| Read { key, shown, call, returned };
    History { reads: reads.iter().map(read).collect(), ..history.clone() }
}

fn right(history: &History) {
    assert_eq!(history.check(), Ok(()), "{history:?}");
    assert!(is_possible(history), "{history:?}");
}

fn wrong(history: &History) {
    assert!(history.check().is_err(), "{history:?}");
    assert!(!is_possible(history), "{history:?}");
}

const ONCE: &[(usize, Shown, Tick, Tick)] = &[(0, Some(1), 10, 20), (0, Some(2), 30, 40)];

#[test]
fn a_cut_shows_what_was_popped_and_nothing_older() {
    right(&history(ONCE, &[(&[NONE], 1, 5)]));
    right(&history(ONCE, &[(&[Some(1)], 21, 29)]));
    wrong(&history(ONCE, &[(&[NONE], 21, 29)]));
    wrong(&history(ONCE, &[(&[Some(1)], 41, 50)]));
    // While the pop runs it shows either.
    right(&history(ONCE, &[(&[Some(1)], 31, 32)]));
    right(&history(ONCE, &[(&[Some(2)], 31, 32)]));
    right(&history(ONCE, &[(&[NONE], 5, 45)]));
}

#[test]
fn a_cut_shows_nothing_of_the_future() {
    wrong(&history(ONCE, &[(&[Some(2)], 21, 29)]));
    wrong(&history(ONCE, &[(&[Some(1)], 1, 9)]));
    // Of no pop: what was merged away.
    wrong(&history(ONCE, &[(&[Some(3)], 1, 100)]));
}

#[test]
fn a_cut_is_of_one_moment() {
    let in_turn = [(0, Some(1), 10, 20), (1, Some(1), 30, 40)];
    right(&history(&in_turn, &[(&[Some(1), NONE], 1, 50)]));
    right(&history(&in_turn, &[(&[Some(1), Some(1)], 1, 50)]));
    wrong(&history(&in_turn, &[(&[NONE, Some(1)], 1, 50)]));
    let at_once = [(0, Some(1), 10, 20), (1, Some(1), 15, 25)];
    right(&history(&at_once, &[(&[NONE, Some(1)], 1, 50)]));
    // The second version of one came before the first of the other.
    let overtaken = [(0, Some(1), 10, 12), (0, Some(2), 14, 16), (1, Some(1), 20, 22)];
    wrong(&history(&overtaken, &[(&[Some(1), Some(1)], 1, 50)]));
}

#[test]
fn cuts_are_in_the_order_of_their_epochs() {
    right(&history(ONCE, &[(&[NONE], 1, 50), (&[Some(1)], 1, 50), (&[Some(2)], 1, 50)]));
    wrong(&history(ONCE, &[(&[Some(1)], 1, 50), (&[NONE], 1, 50)]));
    // The later one had returned before the earlier one began.
    wrong(&history(&[], &[(&[NONE], 20, 30), (&[NONE], 1, 10)]));
    // Each is right by itself, but whichever comes first, the other one does not come after it.
    let at_once = [(0, Some(1), 10, 20), (1, Some(1), 10, 20)];
    let (one, other): (&[Shown], &[Shown]) = (&[Some(1), NONE], &[NONE, Some(1)]);
    wrong(&history(&at_once, &[(one, 1, 50), (other, 1, 50)]));
    wrong(&history(&at_once, &[(other, 1, 50), (one, 1, 50)]));
    right(&history(&at_once, &[(one, 1, 50), (&[Some(1), Some(1)], 1, 50)]));
    // Without epochs each counts by itself.
    let mut free = history(&at_once, &[(one, 1, 50), (other, 1, 50)]);
    free.cuts.iter_mut().for_each(|cut| cut.epoch = None);
    assert_eq!(free.check(), Ok(()));
    free.cuts[0].shown[0] = Some(7);
    assert!(free.check().is_err());
    // One epoch is one moment.
    let mut twice = history(ONCE, &[(&[Some(1)], 1, 35), (&[Some(1)], 31, 50)]);
    twice.cuts[1].epoch = twice.cuts[0].epoch;
    assert_eq!(twice.check(), Ok(()));
    twice.cuts[1].call = 36;
    assert!(twice.check().is_err());
    twice.cuts[1] = Cut { shown: vec![Some(2)], call: 31, ..twice.cuts[1].clone() };
    assert!(twice.check().is_err());
}

#[test]
fn what_goes_and_comes_is_absent_in_between() {
    let comes_and_goes =
        [(0, Some(1), 10, 20), (0, NONE, 30, 40), (0, Some(2), 50, 60), (1, Some(1), 44, 46)];
    right(&history(&comes_and_goes, &[(&[NONE, NONE], 1, 99), (&[Some(1), NONE], 1, 99)]));
    right(&history(&comes_and_goes, &[(&[Some(1), NONE], 1, 99), (&[NONE, NONE], 1, 99)]));
    right(&history(&comes_and_goes, &[(&[NONE, Some(1)], 1, 99), (&[Some(2), Some(1)], 1, 99)]));
    wrong(&history(&comes_and_goes, &[(&[Some(1), Some(1)], 1, 99)]));
    wrong(&history(&comes_and_goes, &[(&[Some(2), NONE], 1, 99)]));
    wrong(&history(&comes_and_goes, &[(&[NONE, NONE], 47, 99)]));
    let (here, gone): (&[Shown], &[Shown]) = (&[Some(1), NONE], &[NONE, NONE]);
    wrong(&history(&comes_and_goes, &[(here, 1, 99), (gone, 1, 99), (here, 1, 99)]));
    // What comes back as it was, from a lease that was given back, has not changed.
    let again = [(0, Some(1), 10, 20), (0, Some(1), 30, 40)];
    right(&history(&again, &[(&[Some(1)], 21, 22), (&[Some(1)], 31, 32), (&[Some(1)], 41, 42)]));
}

#[test]
fn a_key_has_one_lease_at_a_time() {
    let mut leases = history(&[(0, Some(1), 10, 20), (0, Some(2), 15, 40)], &[(&[Some(1)], 22, 28)]);
    leases.pops[0].ended = 30;
    assert_eq!(leases.check(), Ok(()));
    // The second pop began early, but had nothing to take before the first lease ended.
    leases.cuts[0].shown = vec![Some(2)];
    assert!(leases.check().is_err());
    leases.cuts.clear();
    leases.pops[0].ended = 50;
    assert!(leases.check().is_err());
}

#[test]
fn reads_and_cuts_see_the_same_changes() {
    let with = |cuts| history(ONCE, cuts);
    right(&read(&with(&[(&[Some(2)], 34, 38)]), &[(0, Some(2), 31, 33)]));
    wrong(&read(&with(&[(&[Some(1)], 34, 38)]), &[(0, Some(2), 31, 33)]));
    wrong(&read(&with(&[(&[Some(2)], 31, 33)]), &[(0, Some(1), 34, 38)]));
    right(&read(&with(&[(&[Some(2)], 31, 35)]), &[(0, Some(1), 34, 38)]));
    wrong(&read(&with(&[]), &[(0, Some(2), 31, 33), (0, Some(1), 34, 38)]));
    wrong(&read(&with(&[]), &[(0, Some(1), 1, 9)]));
    wrong(&read(&with(&[]), &[(0, NONE, 20, 29)]));
    right(&read(&with(&[]), &[(0, NONE, 11, 12), (0, Some(1), 11, 12)]));
}

/// What happens at one moment.
#[derive(Clone, Copy)]
enum Event<'h> {
    Pop(&'h Pop),
    Cut(&'h Cut),
    Read(&'h Read),
}

impl Event<'_> {
    fn interval(&self) -> (Tick, Tick) {
        match self {
            &Event::Pop(&Pop { call, returned, .. })
            | &Event::Cut(&Cut { call, returned, .. })
            | &Event::Read(&Read { call, returned, .. }) => (call, returned),
        }
    }
}

/// The definition: there is an order of all events, each after those that returned before it was called, in which each shows
/// what is then.
fn is_possible(history: &History) -> bool {
    let mut events: Vec<_> = history.pops.iter().map(Event::Pop).collect();
    events.extend(history.cuts.iter().map(Event::Cut));
    events.extend(history.reads.iter().map(Event::Read));
    go_on(&events, &mut vec![None; history.keys], 0)
}

fn go_on(left: &[Event<'_>], shown: &mut Vec<Shown>, epoch: u64) -> bool {
    (0..left.len()).any(|at| {
        let (event, mut rest) = (left[at], left.to_vec());
        rest.remove(at);
        if rest.iter().any(|other| other.interval().1 <= event.interval().0) {
            return false;
        }
        match event {
            Event::Pop(pop) => {
                let before = std::mem::replace(&mut shown[pop.key], pop.shown);
                let is_possible = go_on(&rest, shown, epoch);
                shown[pop.key] = before;
                is_possible
            }
            Event::Cut(cut) => {
                cut.epoch > Some(epoch) && cut.shown == *shown && go_on(&rest, shown, cut.epoch.unwrap())
            }
            Event::Read(read) => read.shown == shown[read.key] && go_on(&rest, shown, epoch),
        }
    }) || left.is_empty()
}

/// Few events in little time, so that about half are possible.
fn random_history(random: &mut Random) -> History {
    const KEYS: usize = 2;
    let mut pops = Vec::new();
    for key in 0..KEYS {
        let mut now = random.below(4);
        for version in 1..=random.below(4) {
            let (call, returned) = (now, now + 1 + random.below(6));
            let shown = Some(version).filter(|_| version != 2 || random.one_in(2));
            pops.push(Pop { key, shown, call, returned, ended: returned });
            now = returned + random.below(2);
        }
    }
    let interval = |random: &mut Random| {
        let call = random.below(12);
        (call, call + 1 + random.below(9))
    };
    let any = |random: &mut Random| Some(random.below(4)).filter(|&version| version > 0);
    let mut history = History { keys: KEYS, pops, ..History::default() };
    for epoch in 1..=1 + random.below(3) {
        let (call, returned) = interval(random);
        let shown = (0..KEYS).map(|_| any(random)).collect();
        history.cuts.push(Cut { shown, call, returned, epoch: Some(epoch) });
    }
    for _ in 0..random.below(3) {
        let (call, returned) = interval(random);
        // Versions alone: an absent key may have been so at several times.
        let Some(version) = any(random) else { continue };
        history.reads.push(Read { key: random.below(2) as usize, shown: Some(version), call, returned });
    }
    history
}

#[test]
fn the_checker_is_exact() {
    let (mut random, mut verdicts) = (Random::new(1), [0; 2]);
    for _ in 0..40_000 {
        let history = random_history(&mut random);
        let is_possible = is_possible(&history);
        assert_eq!(history.check().is_ok(), is_possible, "{:?}: {history:?}", history.check());
        verdicts[usize::from(is_possible)] += 1;
    }
    assert!(verdicts.iter().all(|&count| count > 500), "{verdicts:?}");
}
