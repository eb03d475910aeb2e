//! One thread in one round: what it does until it has done enough, and how a round comes to rest.

use std::sync::atomic::Ordering;
use std::time::Duration;

use delta_fifo::{Completion, DeltaQueue, TryPopError};

use crate::common::{Family, LONG, Random, threads};

use super::record::{Log, Seen};
use super::round::{Queue, Role, Round};
use super::shape::Variant;
use super::watchdog::Doing;

/// One thread in one round.
pub(crate) struct Worker<'r, F: Family> {
    pub(crate) round: &'r Round<F>,
    pub(crate) index: u16,
    pub(crate) random: Random,
    /// Of the newest object.
    pub(crate) number: u32,
    pub(crate) log: Log,
    pub(crate) waits: Vec<(u64, Completion<'r, Queue<F>>)>,
}

impl<'r, F: Family> Worker<'r, F> {
    pub(crate) fn new(round: &'r Round<F>, index: usize) -> Self {
        let mut random = Random::new(round.seed * 31 + 7 + index as u64);
        (0..8).for_each(|_| _ = random.below(2));
        Worker { round, index: index as u16, random, number: 0, log: Log::default(), waits: Vec::new() }
    }

    pub(crate) fn now(&self) -> u64 {
        self.round.now()
    }

    pub(crate) fn doing(&self, doing: Doing) {
        self.round.board.note(self.index.into(), doing);
    }

    /// Lets somebody else run, sometimes.
    pub(crate) fn pause(&mut self, one_in: u64) {
        if self.random.one_in(one_in) {
            threads::yield_now();
        }
    }

    /// All calls of this thread in this round.
    pub(crate) fn work(&mut self, role: Role) {
        if role == Role::Consumer && self.round.plan.blocking {
            return self.consume_all();
        }
        let steps = 10 + self.random.below(if self.round.shape.threads > 4 { 30 } else { 80 });
        // A list of many keys is many calls.
        let many = role == Role::Replacer && self.round.shape.keys > 16;
        let steps = if many { steps / 8 + 1 } else { steps };
        let steps = steps.min(self.round.plan.calls);
        let closes = (self.round.plan.closer && self.index == 0).then(|| self.random.below(steps));
        for step in 0..steps {
            match role {
                Role::Producer => self.change(),
                Role::Consumer => self.consume(),
                Role::Replacer => self.replace(),
                Role::Resyncer => self.resync(),
                Role::Marker => self.mark(),
                Role::Looker => self.look(),
                Role::Mixed => match self.random.below(12) {
                    0 if self.round.shape.keys < 16 || self.random.one_in(4) => self.replace(),
                    1 => self.resync(),
                    2 => self.mark(),
                    3 | 4 => self.look(),
                    5..8 => self.change(),
                    _ => self.consume(),
                },
            }
            if self.random.one_in(4) {
                self.end_from_shelf();
            }
            self.ask_waits();
            self.pause(16);
            if closes == Some(step) {
                self.close();
            }
        }
    }

    /// What has been waited for long enough.
    pub(crate) fn ask_waits(&mut self) {
        let (now, seen) = (self.round, &mut self.log.seen);
        self.waits.retain(|(began, wait)| {
            let complete = wait.is_complete();
            if complete {
                seen.push(Seen::Replaced(*began, now.now()));
            }
            !complete
        });
    }

    pub(crate) fn finish(self) {
        self.round.log.lock().unwrap().join(self.log);
    }

    /// Before all others.
    pub(crate) fn first_lists(&mut self) {
        if self.round.shape.variant == Variant::Scopes {
            assert!(self.replace_list(Some(0), false) && self.replace_list(Some(1), false));
        } else {
            assert!(self.replace_list(None, false));
        }
    }

    /// After all others that change: until nothing is pending or leased. Sleeping consumers do it by themselves.
    pub(crate) fn rest(&mut self, by_consumers: bool) {
        self.doing(Doing::Rest);
        let round = self.round;
        let queue = &*round.queue;
        let version = self.now();
        let mark = queue.mark(version);
        let through = |mark: &Completion<'_, _>| mark.is_complete() || queue.is_closed();
        while !round.failed.load(Ordering::SeqCst) {
            while self.end_from_shelf() {}
            let marked = mark.as_ref().map_or(true, through);
            if queue.pending_len() + queue.leased_len() == 0 && marked {
                break;
            }
            // After a close they may be gone when a lease comes back.
            if by_consumers && queue.is_closed() {
                break;
            }
            if by_consumers {
                threads::yield_now();
                continue;
            }
            let asked = self.now();
            // What is pending may come to nothing when it is looked at.
            if let Ok(lease) = queue.pop_timeout(Duration::from_millis(20)) {
                let turn = self.enter(asked, self.now(), &lease);
                self.leave(turn, true, lease).done();
            }
        }
        assert!(mark.is_ok() || queue.is_closed());
        if !queue.is_closed() {
            assert_eq!(queue.processed_through(), Some(version.into()));
            // No replace is left running.
            drop(queue.begin_replace().expect("no replace is running"));
        }
    }

    /// Nobody else does anything.
    pub(crate) fn quiet(&mut self) {
        let queue = &*self.round.queue;
        assert_eq!((queue.pending_len(), queue.leased_len()), (0, 0));
        assert_eq!(queue.try_pop().is_err_and(|error| error == TryPopError::Closed), queue.is_closed());
        if self.round.plan.first_list && !self.round.plan.discards {
            assert!(queue.has_synced() && queue.has_delivered(), "never synced");
            queue.wait_synced_timeout(LONG).unwrap();
        }
    }
}
