//! The queue as a specification for the search: the sequential model of `tests/model`, moved on by steps.
//!
//! | what is looked at | which calls | state |
//! |---|---|---|
//! | one key's contents | those of this key | the model with this key alone, which stands first in line whenever it stands there |
//! | the line | all that move a key | the model with all keys, and where each is on its way into the line and out of it |
//! | the known objects | pops, snapshots, reads | the model, in which each pop brings its own deltas |

use std::collections::BTreeMap;

use delta_fifo::{Change, DeltaKind};

use super::ahead;
use super::calls::Seen;
use super::search::{Event, Specification};
use crate::model::config::Config;
use crate::model::queue::{Ending, Leased, Model};

/// What a call does at one moment.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    /// From here on call number so much counts as called after the replaces that have begun.
    Stamp(usize),
    Change(usize, Change<u8, u32>),
    /// What was answered; for which call it is counted.
    ResyncKey(u8, Option<bool>, Option<usize>),
    /// So many keys were counted for that call.
    Counted(usize, usize),
    Enter(u8),
    /// None: whichever it is.
    Take(Option<u8>),
    TakeNothing,
    /// This pop may take the first key's handle, and find the key leased.
    Hold(usize),
    HoldNothing(usize),
    Lease(Option<Seen>),
    /// What the lease has of the key becomes known.
    Show(u8),
    End(u8, Ending),
    /// A replace, by the number of its first call.
    Begin(usize),
    Refused,
    Item(usize, u8, u32, Option<bool>),
    Sweep(usize, u8),
    Commit(usize),
    Abort(usize),
    Get(u8, Option<u32>),
    Snapshot(BTreeMap<u8, u32>),
    /// For the known objects alone: a pop that brings its deltas.
    Bring(Seen),
    Lengths(usize, usize),
    /// These, one after the other in any order.
    AnyOrder(Vec<Vec<Step>>),
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct State {
    model: Model,
    /// What can be read.
    shown: BTreeMap<u8, u32>,
    /// Of calls that have begun to count.
    stamps: BTreeMap<usize, u64>,
    /// The model's numbers of replaces.
    replaces: BTreeMap<usize, usize>,
    counts: BTreeMap<usize, usize>,
    /// By pops that will not lease them.
    held: BTreeMap<usize, u8>,
}

#[derive(Clone, Debug)]
pub(crate) struct QueueSpec {
    pub(crate) config: Config,
    /// Keys are on their way into the line and out of it.
    pub(crate) lined: bool,
}

impl Specification for QueueSpec {
    type State = State;
    /// Steps of one moment.
    type Operation = Vec<Step>;

    fn initial(&self) -> State {
        let mut state = State {
            model: Model::new(&self.config),
            shown: BTreeMap::new(),
            stamps: BTreeMap::new(),
            replaces: BTreeMap::new(),
            counts: BTreeMap::new(),
            held: BTreeMap::new(),
        };
        state.model.normalize(state.stamps.values_mut());
        state
    }

    fn apply(&self, state: &State, operation: &Vec<Step>) -> Vec<State> {
        let mut states = self.steps(state.clone(), operation);
        for state in &mut states {
            state.model.normalize(state.stamps.values_mut());
        }
        states
    }

    /// A key that is not on its way into the line need not enter it. If it is on its way later, whoever has sent it there
    /// has an `Enter` of his own.
    fn is_idle(&self, state: &State, operation: &Vec<Step>) -> bool {
        matches!(operation[..], [Step::Enter(key)] if !state.model.is_coming(key))
    }

    fn is_hopeless<'e>(
        &self,
        state: &State,
        operation: &Vec<Step>,
        left: impl Iterator<Item = &'e Event<Vec<Step>>>,
    ) -> bool {
        ahead::may_matter(operation) && ahead::is_hopeless(&state.model, left, &self.config)
    }
}

impl QueueSpec {
    fn steps(&self, state: State, steps: &[Step]) -> Vec<State> {
        let mut states = vec![state];
        for step in steps {
            states = states.into_iter().flat_map(|state| self.step(state, step)).collect();
        }
        states
    }

    fn any_order(&self, state: State, blocks: &[Vec<Step>]) -> Vec<State> {
        if blocks.is_empty() {
            return vec![state];
        }
        let first = |at: usize| {
            let mut rest = blocks.to_vec();
            let block = rest.remove(at);
            let states = self.steps(state.clone(), &block);
            states.into_iter().flat_map(|state| self.any_order(state, &rest)).collect::<Vec<_>>()
        };
        (0..blocks.len()).flat_map(first).collect()
    }

    fn step(&self, mut state: State, step: &Step) -> Vec<State> {
        let keys = match step {
            Step::AnyOrder(blocks) => return self.any_order(state, blocks),
            Step::Hold(call) => return hold(state, *call),
            Step::Take(None) => state.model.head().into_iter().collect(),
            Step::Lease(None) if self.lined => state.model.going(),
            // Of one key's contents there is only that.
            Step::Lease(None) => state.model.head().into_iter().collect(),
            _ => {
                let happens = self.happens(&mut state, step);
                return if happens { vec![state] } else { Vec::new() };
            }
        };
        let each = |key| {
            let mut state = state.clone();
            let happens = match step {
                Step::Take(_) => state.model.take_head(key),
                _ => self.lease(&mut state, key).is_some(),
            };
            happens.then_some(state)
        };
        keys.into_iter().filter_map(each).collect()
    }

    /// Moves the state on, if that can be.
    fn happens(&self, state: &mut State, step: &Step) -> bool {
        let model = &mut state.model;
        let moment = model.next();
        match *step {
            Step::Stamp(call) => {
                let stamp = model.stamp();
                state.stamps.insert(call, stamp);
            }
            Step::Change(call, ref change) => {
                let stamp = state.stamps.remove(&call).unwrap_or(moment);
                model.change_since(change, stamp);
                self.is_in_line_since(state, *change.key(), moment);
            }
            Step::ResyncKey(key, answer, call) => {
                let was = model.resync_key(key);
                if let Some(call) = call.filter(|_| was) {
                    *state.counts.entry(call).or_default() += 1;
                }
                self.is_in_line_since(state, key, moment);
                return answer.is_none_or(|answer| answer == was);
            }
            Step::Counted(call, count) => return state.counts.remove(&call).unwrap_or(0) == count,
            Step::AnyOrder(_) | Step::Hold(_) => unreachable!("it leads to several states"),
            Step::HoldNothing(call) => return !state.held.contains_key(&call),
            Step::Enter(key) => model.enter(key),
            Step::Take(key) => return key.is_some_and(|key| take(state, key)),
            Step::TakeNothing => return model.head().is_none(),
            Step::Lease(ref seen) => return seen.as_ref().is_some_and(|seen| self.leases(state, seen)),
            Step::Show(key) => show(state, key),
            Step::End(key, ending) => {
                let is_leased = model.end_if_leased(key, ending);
                self.is_in_line_since(state, key, moment);
                return is_leased;
            }
            Step::Begin(call) => {
                let Some(number) = model.begin(None) else { return false };
                state.replaces.insert(call, number);
            }
            Step::Refused => return model.begin(None).is_none(),
            Step::Item(call, key, object, answer) => {
                let Some(&number) = state.replaces.get(&call) else { return false };
                let placed = model.upsert(number, key, object);
                self.is_in_line_since(state, key, moment);
                return answer.is_none_or(|answer| answer == placed);
            }
            Step::Sweep(call, key) => {
                let Some(&number) = state.replaces.get(&call) else { return false };
                model.sweep_key(number, key);
                self.is_in_line_since(state, key, moment);
            }
            Step::Commit(call) => {
                let Some(number) = state.replaces.remove(&call) else { return false };
                model.commit_swept(number);
            }
            Step::Abort(call) => {
                let Some(number) = state.replaces.remove(&call) else { return false };
                model.abort(number);
            }
            Step::Get(key, known) => return state.shown.get(&key).copied() == known,
            Step::Snapshot(ref all) => return state.shown == *all,
            Step::Bring(ref seen) => bring(state, seen),
            Step::Lengths(pending, leased) => {
                return (model.pending_len(), model.leased_len()) == (pending, leased);
            }
        }
        true
    }

    /// A key that is in line since that moment is only on its way there, if somebody asks.
    fn is_in_line_since(&self, state: &mut State, key: u8, moment: u64) {
        if self.lined {
            state.model.leave_line_since(key, moment);
        }
    }

    fn lease(&self, state: &mut State, key: u8) -> Option<Leased> {
        if self.lined { state.model.lease_going(key) } else { state.model.pop_if_turn(key) }
    }

    fn leases(&self, state: &mut State, seen: &Seen) -> bool {
        self.lease(state, seen.key).is_some_and(|leased| {
            leased.deltas == seen.deltas
                && leased.attempts == seen.attempts
                && leased.previous == seen.previous
        })
    }
}

/// It has the first key's handle, or none that comes to nothing.
fn hold(state: State, call: usize) -> Vec<State> {
    let mut holds = state.clone();
    let head = holds.model.head().filter(|&head| holds.model.take_head(head));
    holds.held.extend(head.map(|head| (call, head)));
    if head.is_some() { vec![state, holds] } else { vec![state] }
}

/// By one handle, or by the other.
fn take(state: &mut State, key: u8) -> bool {
    let held = state.held.len();
    state.held.retain(|_, of| *of != key);
    state.held.len() < held || state.model.take_head(key)
}

fn show(state: &mut State, key: u8) {
    match state.model.known().get(&key) {
        Some(&object) => state.shown.insert(key, object),
        None => state.shown.remove(&key),
    };
}

/// What the deltas come to is for the model to say: it is told them as changes, and has them popped.
fn bring(state: &mut State, seen: &Seen) {
    for &(kind, object) in &seen.deltas {
        let change = match (kind, object) {
            (DeltaKind::Deleted, Some(object)) => Change::Delete(seen.key, object),
            (DeltaKind::DeletedFinalStateUnknown, _) => Change::DeleteKey(seen.key),
            (_, Some(object)) => Change::Update(seen.key, object),
            (_, None) => unreachable!("a live delta has an object"),
        };
        state.model.change(&change);
    }
    if state.model.pop_if_turn(seen.key).is_some() {
        state.model.end_if_leased(seen.key, Ending::Done);
    }
    show(state, seen.key);
}
