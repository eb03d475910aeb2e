//! The definition of what the search decides, and histories of a few calls to compare it on: of a queue that is called by one
//! thread, with the moments of call and return moved, and sometimes something wrong.

use delta_fifo::Builder;
use delta_fifo::baseline::MutexDeltaFifo;

use super::*;
use crate::common::Random;
use crate::history::search::{Event, Specification};
use crate::history::spec::{State, Step};
use crate::history::threads::{Plan, Round};

type Events = [Event<Vec<Step>>];

/// Some order of all events, each after those that returned before it was called, leads to a state.
fn has_order(spec: &QueueSpec, events: &Events, done: u32, states: &[State]) -> bool {
    let left = |at: usize| done >> at & 1 == 0;
    let may_be_next = |at: usize| {
        let event = &events[at];
        let after_all =
            |other: usize| !left(other) || events[other].returned.is_none_or(|end| end > event.called);
        left(at) && event.after.iter().all(|&before| !left(before)) && (0..events.len()).all(after_all)
    };
    let leads_on = |at: usize| {
        let next: Vec<_> = states.iter().flat_map(|state| spec.apply(state, &events[at].operation)).collect();
        !next.is_empty() && has_order(spec, events, done | 1 << at, &next)
    };
    (0..events.len()).all(|at| !left(at) || events[at].returned.is_none())
        || (0..events.len()).any(|at| may_be_next(at) && leads_on(at))
}

/// The search's own order is one.
fn is_order(spec: &QueueSpec, events: &Events, order: &[usize]) -> bool {
    let mut states = vec![spec.initial()];
    for (place, &at) in order.iter().enumerate() {
        let is_early = |&other: &usize| events[other].returned.is_some_and(|end| end < events[at].called);
        if order[place..].iter().any(is_early) {
            return false;
        }
        states = states.iter().flat_map(|state| spec.apply(state, &events[at].operation)).collect();
    }
    !states.is_empty()
}

fn random_history(random: &mut Random, config: &Config, calls: usize) -> History {
    let plan = Plan { threads: 1, calls, keys: KEYS, pops: 4, ends: 4, lists: 2, reads: 2 };
    let compression =
        if config.latest { delta_fifo::Compression::Latest } else { delta_fifo::Compression::Deletions };
    let queue: MutexDeltaFifo<_, _> =
        Builder::new().compression(compression).on_abandon(config.on_abandon).build();
    let round = Round::new(queue, plan, random.below(1 << 40));
    round.run_sides();
    let mut history = round.history();
    history.truncate(calls);
    for (at, record) in history.iter_mut().enumerate() {
        let at = 20 * at as Tick + 60;
        record.thread =
            usize::from(!matches!(record.call, Call::Begin | Call::Upsert(..) | Call::Commit | Call::Abort));
        record.called = at - random.below(40);
        record.returned = Some(at + 1 + random.below(40)).filter(|_| !random.one_in(24));
    }
    for _ in 0..random.below(3) {
        let (one, other) =
            (random.below(history.len() as u64) as usize, random.below(history.len() as u64) as usize);
        match random.below(3) {
            0 => {
                let times = |record: &Record<Call, Answer>| (record.called, record.returned);
                let (first, second) = (times(&history[one]), times(&history[other]));
                (history[one].called, history[one].returned) = second;
                (history[other].called, history[other].returned) = first;
            }
            1 if history[one].call == history[other].call => {
                let answer = history[one].answer.clone();
                history[one].answer = std::mem::replace(&mut history[other].answer, answer);
            }
            _ => spoil(&mut history[one].answer),
        }
    }
    history.sort_by_key(|record| record.called);
    history
}

fn spoil(answer: &mut Option<Answer>) {
    match answer {
        Some(Answer::Leased(leased)) => match leased.first_mut() {
            Some(seen) if seen.deltas.len() > 1 => _ = seen.deltas.pop(),
            Some(seen) => seen.attempts += 1,
            None => {}
        },
        Some(Answer::Known(known)) => *known = None,
        Some(Answer::All(all)) => _ = all.pop_first(),
        Some(Answer::Was(was)) => *was = !*was,
        _ => {}
    }
}

#[test]
fn the_search_says_what_all_orders_say() {
    let (mut random, mut verdicts, mut compared) = (Random::new(1), [0; 2], 0);
    for number in 0..2_500 {
        let config = Config { latest: number % 4 == 3, ..Config::default() };
        let history = random_history(&mut random, &config, 3 + number % 4);
        for (view, joint) in views().into_iter().flat_map(|view| [(view, true), (view, false)]) {
            let spec = QueueSpec { config: config.clone(), lined: view == View::Line };
            let events = Split { history: &history, view, keys: KEYS, joint }.events();
            if events.len() > 10 {
                continue;
            }
            let expected = has_order(&spec, &events, 0, &[spec.initial()]);
            let said = search(&spec, &events);
            match &said {
                Verdict::Right(order) => assert!(expected && is_order(&spec, &events, order), "{history:#?}"),
                Verdict::Wrong { prefix, .. } => {
                    assert!(!expected && is_order(&spec, &events, prefix), "{view:?} {joint} {history:#?}");
                }
                Verdict::Unknown => panic!("{history:#?}"),
            }
            verdicts[usize::from(expected)] += 1;
            compared += 1;
        }
    }
    assert!(verdicts.iter().all(|&count| count > compared / 20), "{verdicts:?} of {compared}");
}
