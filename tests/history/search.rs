//! Is a history linearizable? The search of Wing and Gong (1993): put one operation after another in order, each among
//! those that nobody must precede any more, and go back where the specification has no next state. With two things of Lowe
//! (2017): a set of what was tried, a set of ordered operations with the state that they led to; and operations are
//! ordered just in time, as late as the return of one asks for it.
//!
//! A call that is promised to be several moments is several operations, each with the times of the call; `after` says
//! which of them come after which.

use std::cmp::Reverse;
use std::collections::HashSet;
use std::fmt::Debug;
use std::hash::Hash;
use std::rc::Rc;

use super::recorder::Tick;

/// A sequential object.
pub(crate) trait Specification {
    type State: Clone + Hash + Eq + Debug;
    /// A call with its answer, if it has been answered, or one step of a call.
    type Operation: Clone + Debug;

    fn initial(&self) -> Self::State;

    /// The states that the operation may lead to: none if it cannot happen now, or cannot be answered like this.
    fn apply(&self, state: &Self::State, operation: &Self::Operation) -> Vec<Self::State>;

    /// Whether the operation does nothing in this state, and need not be kept for a later one, in which it would do
    /// something. It is put in order at once then, and the search does not branch.
    fn is_idle(&self, _: &Self::State, _: &Self::Operation) -> bool {
        false
    }

    /// Whether it can be seen from what is `left` that no order of it goes on from this state, to which `operation` has led.
    /// It must say so only where it is so; it saves the search from finding out late.
    fn is_hopeless<'e>(
        &self,
        _state: &Self::State,
        _operation: &Self::Operation,
        _left: impl Iterator<Item = &'e Event<Self::Operation>>,
    ) -> bool
    where
        Self::Operation: 'e,
    {
        false
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Event<O> {
    /// Which call it is a part of.
    pub(crate) call: usize,
    pub(crate) operation: O,
    pub(crate) called: Tick,
    /// None: it may take place at any later time, or not at all.
    pub(crate) returned: Option<Tick>,
    /// Which earlier ones of the list it comes after, besides those that returned before it was called.
    pub(crate) after: Vec<usize>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The events in an order.
    Right(Vec<usize>),
    /// The longest beginning of such an order, and the event that has no place after any.
    Wrong { prefix: Vec<usize>, stuck: usize },
    /// Nothing was decided within the limit.
    Unknown,
}

impl Verdict {
    pub(crate) fn is_wrong(&self) -> bool {
        matches!(self, Verdict::Wrong { .. })
    }
}

/// A set of events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct Bits([u64; 4]);

const MOST_EVENTS: usize = 256;

impl Bits {
    fn has(&self, at: usize) -> bool {
        self.0[at / 64] >> (at % 64) & 1 != 0
    }

    fn first_missing(&self) -> usize {
        let word = self.0.iter().position(|&word| word != u64::MAX).unwrap_or(self.0.len());
        word * 64 + self.0.get(word).map_or(0, |word| word.trailing_ones() as usize)
    }

    fn with(mut self, at: usize) -> Self {
        self.0[at / 64] |= 1 << (at % 64);
        self
    }
}

/// Events in an order, as a way back to the beginning.
struct Node {
    before: Option<usize>,
    event: usize,
}

struct Search<'s, S: Specification> {
    specification: &'s S,
    events: &'s [Event<S::Operation>],
    /// Those that have returned, in the order of their returns.
    returns: Vec<usize>,
    seen: HashSet<(Bits, S::State)>,
    nodes: Vec<Node>,
}

/// What is still to be tried: this event after those.
struct Open<State> {
    done: Bits,
    state: Rc<State>,
    /// How many of the returns have been reached.
    returned: usize,
    node: Option<usize>,
    event: usize,
}

/// So many beginnings of orders are tried: seconds. Few histories take more than some hundred.
pub(crate) const LIMIT: usize = 200_000;

/// Decides about these events, which stand in the order of their calls.
pub(crate) fn search<S: Specification>(specification: &S, events: &[Event<S::Operation>]) -> Verdict {
    search_within(specification, events, LIMIT)
}

pub(crate) fn search_within<S: Specification>(
    specification: &S,
    events: &[Event<S::Operation>],
    limit: usize,
) -> Verdict {
    assert!(events.len() <= MOST_EVENTS, "a history of {} events is too long", events.len());
    assert!(events.is_sorted_by_key(|event| event.called), "events stand in the order of their calls");
    let mut returns: Vec<usize> = (0..events.len()).filter(|&at| events[at].returned.is_some()).collect();
    returns.sort_by_key(|&at| events[at].returned);
    let mut search = Search { specification, events, returns, seen: HashSet::new(), nodes: Vec::new() };
    search.run(limit)
}

impl<S: Specification> Search<'_, S> {
    fn run(&mut self, limit: usize) -> Verdict {
        let mut open = Vec::new();
        let mut best = (0, None);
        if self.expand(Bits::default(), self.specification.initial(), 0, None, &mut open).is_none() {
            return Verdict::Right(Vec::new());
        }
        while let Some(Open { done, state, returned, node, event }) = open.pop() {
            for state in self.specification.apply(&state, &self.events[event].operation) {
                let now = self.events[self.returns[returned]].returned;
                let done = self.with_idle(done.with(event), &state, now);
                if self.is_hopeless(done, &state, event) || !self.seen.insert((done, state.clone())) {
                    continue;
                }
                self.nodes.push(Node { before: node, event });
                let node = Some(self.nodes.len() - 1);
                match self.expand(done, state, returned, node, &mut open) {
                    Some(returned) if returned > best.0 => best = (returned, node),
                    Some(_) => {}
                    None => return Verdict::Right(self.order(node)),
                }
            }
            if self.nodes.len() > limit {
                return Verdict::Unknown;
            }
        }
        let (returned, node) = best;
        Verdict::Wrong { prefix: self.order(node), stuck: self.returns[returned] }
    }

    fn is_hopeless(&self, done: Bits, state: &S::State, event: usize) -> bool {
        let left = (done.first_missing()..self.events.len()).filter(|&at| !done.has(at));
        let operation = &self.events[event].operation;
        self.specification.is_hopeless(state, operation, left.map(|at| &self.events[at]))
    }

    /// What does nothing after these.
    fn with_idle(&self, mut done: Bits, state: &S::State, now: Option<Tick>) -> Bits {
        for at in self.called(done, now) {
            let event = &self.events[at];
            let is_due = !event.after.is_empty() && event.after.iter().all(|&before| done.has(before));
            if is_due && self.specification.is_idle(state, &event.operation) {
                done = done.with(at);
            }
        }
        done
    }

    /// What was called by then and is not in order.
    fn called(&self, done: Bits, now: Option<Tick>) -> impl Iterator<Item = usize> {
        let from = done.first_missing();
        let until = self.events.partition_point(|event| Some(event.called) < now);
        (from..until).filter(move |&at| !done.has(at))
    }

    /// What may be put in order next: the event that is about to return, or one that it may come after. How many returns
    /// have been reached; none if that is all.
    fn expand(
        &self,
        done: Bits,
        state: S::State,
        mut returned: usize,
        node: Option<usize>,
        open: &mut Vec<Open<S::State>>,
    ) -> Option<usize> {
        while self.returns.get(returned).is_some_and(|&event| done.has(event)) {
            returned += 1;
        }
        let wanted = *self.returns.get(returned)?;
        let now = self.events[wanted].returned;
        let may_be_next = |&at: &usize| self.events[at].after.iter().all(|&before| done.has(before));
        let state = Rc::new(state);
        let mut next: Vec<usize> = self.called(done, now).filter(may_be_next).collect();
        // The one that is about to return is put last, and so tried first.
        next.sort_by_key(|&event| (event == wanted, Reverse(event)));
        for event in next {
            open.push(Open { done, state: Rc::clone(&state), returned, node, event });
        }
        Some(returned)
    }

    fn order(&self, node: Option<usize>) -> Vec<usize> {
        let mut order: Vec<usize> = std::iter::successors(node, |&node| self.nodes[node].before)
            .map(|node| self.nodes[node].event)
            .collect();
        order.reverse();
        order
    }
}
