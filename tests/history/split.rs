//! From calls to what the search puts in order: which moments each call is promised to be, and which order is promised
//! among these.
//!
//! On the mutex queue a call is one moment; but a replace is two: it begins, and then all of its list and of its sweep.
//!
//! On the sharded queue the specification allows just this, as its documentation says:
//!
//! - The contents of a key and its place in line are two moments of a call. A change is appended, and the key enters the line
//!   if it is on its way there, no matter by whose change. A pop takes the first key out of the line, then its deltas.
//! - The known object moves with the lease: after the deltas are taken, before the pop returns.
//! - `change_all` is its changes one by one, and their keys enter the line in this order, but later.
//! - `replace` begins, places its items one by one, whose keys enter the line like those of `change_all`,
//!   sweeps each key in any order, and ends. `resync` looks at each key, in any order.
//! - A change that overlaps the beginning of a replace says whether it is older before it is appended.
//! - A pop may have a key's handle in its hands while the key is leased by another, by a second handle that somebody has put in
//!   line to help (E4 in `src/fifo/entry.rs`). So until the first one returns, a key may be nowhere to be found, and be leased after its turn.
//! - The keys of a batch leave the line one by one, in this order; and become known so, on the mutex queue too.

use super::calls::{Answer, Call, History, Seen};
use super::recorder::{Record, Tick};
use super::search::Event;
use super::spec::Step;

/// What is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum View {
    Contents(u8),
    Line,
    Known,
}

/// Makes the events of one view of a history.
pub(crate) struct Split<'h> {
    pub(crate) history: &'h History,
    pub(crate) view: View,
    pub(crate) keys: u8,
    /// Each call is one moment.
    pub(crate) joint: bool,
}

/// The events of one call.
struct Steps<'s> {
    split: &'s Split<'s>,
    events: &'s mut Vec<Event<Vec<Step>>>,
    call: usize,
    called: Tick,
    returned: Option<Tick>,
    /// Where those of the current moment begin; none if each step is a moment.
    moment: Option<usize>,
}

impl Split<'_> {
    pub(crate) fn events(&self) -> Vec<Event<Vec<Step>>> {
        let mut events = Vec::new();
        let mut open: Vec<Option<usize>> = Vec::new();
        for (call, record) in self.history.iter().enumerate() {
            open.resize(open.len().max(record.thread + 1), None);
            let begun = &mut open[record.thread];
            if record.call == Call::Begin {
                *begun = Some(call);
            }
            let mut steps = Steps {
                split: self,
                events: &mut events,
                call,
                called: record.called,
                returned: record.returned,
                moment: None,
            };
            steps.of_call(record, begun.unwrap_or(call));
        }
        events
    }

    fn has(&self, key: u8) -> bool {
        self.view == View::Line || self.view == View::Contents(key)
    }

    fn overlaps_a_beginning(&self, call: usize) -> bool {
        self.overlaps(call, |other| matches!(other, Call::Begin | Call::Replace(_)))
    }

    /// Another one.
    fn overlaps_a_pop(&self, call: usize) -> bool {
        self.overlaps(call, |other| matches!(other, Call::Pop | Call::PopBatch(_)))
    }

    fn overlaps(&self, call: usize, is_such: impl Fn(&Call) -> bool) -> bool {
        let own = &self.history[call];
        self.history.iter().enumerate().any(|(number, other)| {
            number != call
                && is_such(&other.call)
                && own.returned.is_none_or(|returned| other.called < returned)
                && other.returned.is_none_or(|returned| own.called < returned)
        })
    }
}

impl Steps<'_> {
    fn of_call(&mut self, record: &Record<Call, Answer>, replace: usize) {
        let answer = record.answer.as_ref();
        let (call, view) = (self.call, self.split.view);
        match &record.call {
            Call::Pop => self.pop(1, answer),
            Call::PopBatch(max) => self.pop(*max, answer),
            Call::Get(key) => match answer {
                Some(Answer::Known(known)) if view == View::Known || view == View::Contents(*key) => {
                    self.then(Step::Get(*key, *known), &[]);
                }
                _ => {}
            },
            Call::Snapshot => match answer {
                Some(Answer::All(all)) if view == View::Known => {
                    self.then(Step::Snapshot(all.clone()), &[]);
                }
                _ => {}
            },
            _ if view == View::Known => {}
            Call::Change(change) => self.changes(std::slice::from_ref(change)),
            Call::ChangeAll(changes) => self.changes(changes),
            Call::Resync => self.resync(answer),
            Call::ResyncKey(key) if self.split.has(*key) => {
                let was = match answer {
                    Some(Answer::Was(was)) => Some(*was),
                    _ => None,
                };
                let at = self.then(Step::ResyncKey(*key, was, None), &[]);
                self.enter(*key, at);
            }
            Call::ResyncKey(_) => {}
            Call::End(key, ending) if self.split.has(*key) => {
                let at = self.then(Step::End(*key, *ending), &[]);
                self.enter(*key, at);
            }
            Call::End(..) => {}
            Call::Begin | Call::Replace(_) if answer == Some(&Answer::Refused) => {
                self.then(Step::Refused, &[]);
            }
            Call::Begin => _ = self.then(Step::Begin(call), &[]),
            Call::Replace(list) => self.replace(list),
            Call::Upsert(key, object) if self.split.has(*key) => {
                let placed = match answer {
                    Some(Answer::Was(placed)) => Some(*placed),
                    _ => None,
                };
                let at = self.then(Step::Item(replace, *key, *object, placed), &[]);
                self.enter(*key, at);
            }
            Call::Upsert(..) => {}
            Call::Commit => self.sweep(replace, &[]),
            Call::Abort => _ = self.then(Step::Abort(replace), &[]),
            Call::Lengths => match answer {
                Some(Answer::Lengths(pending, leased)) if view == View::Line => {
                    self.then(Step::Lengths(*pending, *leased), &[]);
                }
                _ => {}
            },
        }
    }

    /// A step, after those events. A joint call goes on at the same moment. Where it is.
    fn then(&mut self, step: Step, after: &[usize]) -> usize {
        if let Some(at) = self.moment {
            self.events[at].operation.push(step);
            return at;
        }
        let (call, called, returned) = (self.call, self.called, self.returned);
        let after = after.to_vec();
        self.events.push(Event { call, operation: vec![step], called, returned, after });
        let at = self.events.len() - 1;
        self.moment = self.split.joint.then_some(at);
        at
    }

    fn enter(&mut self, key: u8, after: usize) {
        if self.split.view == View::Line {
            self.then(Step::Enter(key), &[after]);
        }
    }

    fn changes(&mut self, changes: &[delta_fifo::Change<u8, u32>]) {
        let changes: Vec<_> = changes.iter().filter(|change| self.split.has(*change.key())).collect();
        let (mut before, mut appended) = (Vec::new(), Vec::new());
        let is_stamped = !self.split.joint && self.split.overlaps_a_beginning(self.call);
        for change in &changes {
            // One that does not overlap it is as old when it is appended.
            if is_stamped {
                before = vec![self.then(Step::Stamp(self.call), &before)];
            }
            before = vec![self.then(Step::Change(self.call, (*change).clone()), &before)];
            appended.push((*change.key(), before[0]));
            if self.split.joint {
                self.enter(*change.key(), before[0]);
            }
        }
        if !self.split.joint {
            self.enter_in_order(appended);
        }
    }

    /// Keys that enter the line one after another, each after that event. The last one's place.
    fn enter_in_order(&mut self, appended: Vec<(u8, usize)>) -> Option<usize> {
        let mut last = None;
        if self.split.view == View::Line {
            for (key, at) in appended {
                let after: Vec<usize> = last.into_iter().chain([at]).collect();
                last = Some(self.then(Step::Enter(key), &after));
            }
        }
        last
    }

    fn resync(&mut self, answer: Option<&Answer>) {
        // Of one key it is not said whether it was counted.
        let counted = (self.split.view == View::Line).then_some(self.call);
        let all = self.each_key(&[], |key| Step::ResyncKey(key, None, counted));
        match answer {
            Some(Answer::Count(count)) if counted.is_some() => {
                self.then(Step::Counted(self.call, *count), &all);
            }
            _ => {}
        }
    }

    fn replace(&mut self, list: &[(u8, u32)]) {
        let mut last = self.then(Step::Begin(self.call), &[]);
        // The mutex queue lets go of its lock here.
        self.moment = None;
        let mut appended = Vec::new();
        for &(key, object) in list.iter().filter(|item| self.split.has(item.0)) {
            last = self.then(Step::Item(self.call, key, object, None), &[last]);
            appended.push((key, last));
            if self.split.joint {
                self.enter(key, last);
            }
        }
        let entered = if self.split.joint { None } else { self.enter_in_order(appended) };
        self.sweep(self.call, &Vec::from_iter(entered.into_iter().chain([last])));
    }

    fn sweep(&mut self, replace: usize, after: &[usize]) {
        let mut swept = self.each_key(after, |key| Step::Sweep(replace, key));
        swept.extend(after);
        self.then(Step::Commit(replace), &swept);
    }

    /// A step of each key, which may then enter the line; in any order. The last ones.
    fn each_key(&mut self, after: &[usize], step: impl Fn(u8) -> Step) -> Vec<usize> {
        let is_line = self.split.view == View::Line;
        let keys = (0..self.split.keys).filter(|&key| self.split.has(key));
        if self.split.joint {
            let block = |key| [step(key)].into_iter().chain(is_line.then_some(Step::Enter(key))).collect();
            return vec![self.then(Step::AnyOrder(keys.map(block).collect()), after)];
        }
        let mut last = Vec::new();
        for key in keys {
            let mut at = self.then(step(key), after);
            if is_line {
                at = self.then(Step::Enter(key), &[at]);
            }
            last.push(at);
        }
        last
    }

    fn pop(&mut self, max: usize, answer: Option<&Answer>) {
        let Some(Answer::Leased(leased)) = answer else { return self.unanswered_pop() };
        if self.split.view == View::Line && !self.split.joint && self.split.overlaps_a_pop(self.call) {
            let held = self.then(Step::Hold(self.call), &[]);
            self.then(Step::HoldNothing(self.call), &[held]);
        }
        let mut last = None;
        for seen in leased {
            last = self.pop_one(seen, last).or(last);
        }
        if leased.len() < max && self.split.view == View::Line {
            self.then(Step::TakeNothing, &Vec::from_iter(last));
        }
    }

    /// Where the key leaves the line, or becomes known.
    fn pop_one(&mut self, seen: &Seen, last: Option<usize>) -> Option<usize> {
        match self.split.view {
            View::Known => {
                // Also those of a batch that is one moment of the line.
                self.moment = None;
                return Some(self.then(Step::Bring(seen.clone()), &Vec::from_iter(last)));
            }
            View::Line => {
                let taken = self.then(Step::Take(Some(seen.key)), &Vec::from_iter(last));
                self.then(Step::Lease(Some(seen.clone())), &[taken]);
                return Some(taken);
            }
            View::Contents(key) if key == seen.key => {
                let at = self.then(Step::Lease(Some(seen.clone())), &[]);
                self.then(Step::Show(key), &[at]);
            }
            View::Contents(_) => {}
        }
        None
    }

    /// It may have taken the first key, whichever that is. Nobody says what it shows, so nothing is asked of the known objects.
    fn unanswered_pop(&mut self) {
        match self.split.view {
            View::Line => {
                let at = self.then(Step::Take(None), &[]);
                self.then(Step::Lease(None), &[at]);
            }
            View::Contents(key) => {
                let at = self.then(Step::Lease(None), &[]);
                self.then(Step::Show(key), &[at]);
            }
            View::Known => {}
        }
    }
}
