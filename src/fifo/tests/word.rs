//! The word of an entry: every transition from every state in which it may be made.

use std::collections::HashSet;

use crate::fifo::word::{GENERATION_BITS, Newest, State, Then, Word};
use crate::slab::Index;

const KINDS: [Newest; 2] = [Newest::Live, Newest::Deleted];
const LAST: u32 = (1 << GENERATION_BITS) - 1;

fn index(number: u32) -> Index {
    Index::new(number).expect("not 0")
}

/// Everything but the newest fact, of which there are two sorts.
#[derive(Debug, PartialEq, Eq)]
struct Parts {
    state: State,
    kind: Newest,
    background: bool,
    generation: u32,
    newest: Option<Index>,
}

fn parts(word: Word) -> Parts {
    Parts {
        state: word.state(),
        kind: word.kind(),
        background: word.is_background(),
        generation: word.generation(),
        newest: word.newest(),
    }
}

/// Retired, as it is after so many lives.
fn retired(generation: u32) -> Word {
    Word::from_bits(Word::NEW.bits() | u64::from(generation) << 32)
}

/// All words that can be reached from a retired one of this generation with two facts, and the way there.
fn reachable(generation: u32) -> Vec<Word> {
    let mut seen = HashSet::new();
    let mut left = vec![retired(generation)];
    while let Some(word) = left.pop() {
        // A few generations are enough.
        if word.generation().wrapping_sub(generation) & LAST > 3 || !seen.insert(word.bits()) {
            continue;
        }
        left.extend(successors(word));
    }
    seen.into_iter().map(Word::from_bits).collect()
}

fn successors(word: Word) -> Vec<Word> {
    let mut next = Vec::new();
    for (kind, background, fact) in
        KINDS.iter().flat_map(|kind| [(*kind, false, index(1)), (*kind, true, index(u32::MAX - 1))])
    {
        match word.state() {
            State::Retired => next.push(word.first(fact, kind, background)),
            _ => next.push(word.append(fact, kind, background).0),
        }
        if word.state() == State::Leased {
            next.extend([false, true].map(|delayed| word.give_back(kind, background, delayed)));
            next.push(word.resolved(kind));
            next.extend([false, true].map(|stays| word.finish(kind, stays)));
        }
    }
    match word.state() {
        State::Linking => next.push(word.linked()),
        State::Leased => next.push(word.drained()),
        State::Idle => next.push(word.retired()),
        State::Retired | State::Queued | State::Delayed => {}
    }
    next.extend(word.lease(word.generation()));
    next.extend(word.seize());
    next.extend(word.due(word.generation()));
    next
}

#[test]
fn a_word_is_what_its_bits_are() {
    assert_eq!(
        parts(Word::NEW),
        Parts { state: State::Retired, kind: Newest::Live, background: false, generation: 0, newest: None }
    );
    let words = reachable(0);
    assert!(words.len() > 100);
    for word in words {
        assert_eq!(parts(Word::from_bits(word.bits())), parts(word));
        assert!(word.generation() <= LAST);
    }
}

#[test]
fn pending_is_what_has_deltas_that_nobody_has() {
    for word in reachable(5) {
        let pending = match word.state() {
            State::Retired | State::Idle => false,
            State::Leased => word.newest().is_some(),
            State::Linking | State::Queued | State::Delayed => true,
        };
        assert_eq!(word.is_pending(), pending, "{word:?}");
        // Whoever begins a lease takes all facts, and nobody takes a lease from its holder.
        let can_begin = matches!(word.state(), State::Linking | State::Queued);
        assert_eq!(word.lease(word.generation()).is_some(), can_begin, "{word:?}");
        assert_eq!(word.seize().is_some(), can_begin || word.state() == State::Delayed, "{word:?}");
        for leased in word.lease(word.generation()).into_iter().chain(word.seize()) {
            assert_eq!(parts(leased), Parts { state: State::Leased, newest: None, ..parts(word) });
        }
    }
}

#[test]
fn another_generation_is_another_handle() {
    for word in reachable(LAST) {
        for other in (0..8).chain(LAST - 8..=LAST).filter(|other| *other != word.generation()) {
            assert_eq!((word.lease(other), word.due(other)), (None, None), "{word:?}");
        }
    }
}

#[test]
fn an_append_asks_for_what_is_owed() {
    for word in reachable(LAST - 1).into_iter().filter(|word| word.state() != State::Retired) {
        for (kind, background) in KINDS.iter().flat_map(|kind| [(*kind, false), (*kind, true)]) {
            let (next, then) = word.append(index(9), kind, background);
            let now = parts(next);
            assert_eq!((now.newest, now.kind), (Some(index(9)), kind));
            let moves = word.state() == State::Queued && word.is_background() && !background;
            let expected = match word.state() {
                State::Linking => (State::Linking, Then::Link, false),
                State::Queued if moves => (State::Linking, Then::Link, false),
                State::Queued => (State::Queued, Then::Nothing, false),
                State::Leased => (State::Leased, Then::Nothing, false),
                State::Idle => (State::Linking, Then::Link, true),
                State::Delayed => (State::Linking, Then::Undelay, true),
                State::Retired => unreachable!(),
            };
            let rises = now.generation == (word.generation() + 1) & LAST;
            assert_eq!((now.state, then, rises), expected, "{word:?}");
            assert!(rises || now.generation == word.generation());
            // Only what was there for a resync alone stands in the background.
            let alone = !word.is_pending();
            assert_eq!(now.background, background && (alone || word.is_background()), "{word:?}");
        }
    }
}

#[test]
fn a_lease_ends_where_its_facts_say() {
    for word in reachable(LAST).into_iter().filter(|word| word.state() == State::Leased) {
        let dirty = word.newest().is_some();
        for (kind, stays) in KINDS.iter().flat_map(|kind| [(*kind, false), (*kind, true)]) {
            let (ended, rests) =
                (parts(word.finish(kind, stays)), if stays { State::Idle } else { State::Retired });
            assert_eq!(ended.state, if dirty { State::Linking } else { rests });
            assert_eq!(ended.kind, if dirty { word.kind() } else { kind }, "the newest is the newest");
            assert_eq!(ended.generation != word.generation(), dirty, "a handle is owed for a new generation");
            let drained = parts(word.drained().finish(kind, stays));
            assert_eq!((drained.state, drained.kind, drained.newest), (rests, kind, None));
        }
        for (kind, delayed) in KINDS.iter().flat_map(|kind| [(*kind, false), (*kind, true)]) {
            let back = parts(word.give_back(kind, true, delayed));
            assert_eq!(back.state, if delayed && !dirty { State::Delayed } else { State::Linking });
            assert_eq!(back.kind, if dirty { word.kind() } else { kind }, "the newest is the newest");
            assert_eq!(back.generation, (word.generation() + 1) & LAST);
            assert_eq!(parts(word.resolved(kind)).kind, back.kind);
        }
    }
}

#[test]
fn a_key_at_rest_has_no_facts_and_goes_as_it_is() {
    for word in reachable(LAST) {
        let rests = matches!(word.state(), State::Idle | State::Retired);
        assert!(!rests || word.newest().is_none(), "{word:?}");
        if word.state() == State::Idle {
            assert_eq!(parts(word.retired()), Parts { state: State::Retired, ..parts(word) });
        }
    }
}

#[test]
fn a_delay_ends_once() {
    for word in reachable(LAST) {
        let due = word.due(word.generation());
        assert_eq!(due.is_some(), word.state() == State::Delayed);
        if let Some(due) = due {
            assert_eq!((due.state(), due.due(due.generation())), (State::Linking, None));
            assert_ne!(due.generation(), word.generation());
        }
    }
}

#[test]
fn generations_wrap_and_touch_nothing_else() {
    let word = retired(LAST).first(index(3), Newest::Deleted, true);
    assert_eq!(
        parts(word),
        Parts {
            state: State::Linking,
            kind: Newest::Deleted,
            background: true,
            generation: 0,
            newest: Some(index(3))
        }
    );
    assert_eq!(parts(word.unused()), Parts { state: State::Retired, newest: None, ..parts(word) });
    assert_eq!(parts(word.linked()), Parts { state: State::Queued, ..parts(word) });
    let last = retired(LAST - 1).first(index(3), Newest::Live, false);
    let leased = last.lease(LAST).expect("it is to be leased").append(index(4), Newest::Live, false).0;
    assert_eq!(
        parts(leased.finish(Newest::Live, true)),
        Parts {
            state: State::Linking,
            kind: Newest::Live,
            background: false,
            generation: 0,
            newest: Some(index(4))
        }
    );
}
