//! Threads that call a queue at random, and write down what they are answered.

use std::time::Duration;

use delta_fifo::{
    BeginReplaceError, Change, DeltaQueue, KnownView, Lease, Outcome, Replace, ReplaceErrorKind, Upsert,
};

use super::calls::{Answer, Call, History, Key, seen, with_key};
use super::door::{self, AtomicU64, Ordering};
use super::recorder::{Log, Recorder};
use crate::common::Random;
use crate::model::queue::Ending;

const LONG: Duration = Duration::from_secs(3600);

/// How a history comes about.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    pub(crate) threads: usize,
    /// Of each thread, before it ends what it has begun.
    pub(crate) calls: usize,
    pub(crate) keys: u8,
    /// In how many of sixteen calls, each: pops, ends of leases, pieces of replaces, reads of known objects.
    pub(crate) pops: u64,
    pub(crate) ends: u64,
    pub(crate) lists: u64,
    pub(crate) reads: u64,
}

/// So many calls are made between two meetings of the threads.
const LAP: usize = 2;

pub(crate) struct Round<Q> {
    queue: Q,
    pub(crate) plan: Plan,
    pub(crate) seed: u64,
    recorder: Recorder<Call, Answer>,
    objects: AtomicU64,
    arrived: AtomicU64,
}

impl<Q: DeltaQueue<Key = Key, Value = u32>> Round<Q> {
    pub(crate) fn new(queue: Q, plan: Plan, seed: u64) -> Self {
        Round {
            queue,
            plan,
            seed,
            recorder: Recorder::new(),
            objects: AtomicU64::new(1),
            arrived: AtomicU64::new(0),
        }
    }

    /// The part of one thread.
    pub(crate) fn side(&self, number: usize) {
        let mut random = Random::new(self.seed * 8 + number as u64 + 1);
        (0..8).for_each(|_| _ = random.below(2));
        let log = self.recorder.log(number);
        let mut thread = Thread { round: self, random, log, leases: Vec::new(), replace: None };
        for call in 0..self.plan.calls {
            if call % LAP == 0 {
                self.meet(1 + call / LAP);
            }
            thread.step();
        }
        thread.finish();
    }

    /// Waits for the other threads, so that they go on together; but not for ever, as one may have panicked.
    fn meet(&self, lap: usize) {
        if cfg!(delta_fifo_shuttle) {
            return; // its threads are together all the time
        }
        self.arrived.fetch_add(1, Ordering::SeqCst);
        for _ in 0..1000 {
            std::hint::spin_loop();
            if self.arrived.load(Ordering::SeqCst) >= (lap * self.plan.threads) as u64 {
                return;
            }
            door::yield_now();
        }
    }

    /// When all have ended: pops what is left, and looks at what has come to rest.
    pub(crate) fn history(self) -> History {
        let random = Random::new(self.seed);
        let log = self.recorder.log(self.plan.threads);
        let mut thread = Thread { round: &self, random, log, leases: Vec::new(), replace: None };
        thread.lengths();
        while thread.pop() {
            thread.end(0, Ending::Done);
        }
        thread.lengths();
        (0..self.plan.keys).for_each(|key| thread.get(key));
        thread.snapshot();
        drop(thread);
        self.recorder.into_history()
    }

    /// All parts, each on a thread of its own.
    pub(crate) fn run_sides(&self) {
        door::together(self.plan.threads, |number| self.side(number));
    }
}

struct Thread<'r, Q: DeltaQueue<Key = Key, Value = u32>> {
    round: &'r Round<Q>,
    random: Random,
    log: Log<'r, Call, Answer>,
    leases: Vec<Lease<'r, Q>>,
    replace: Option<Replace<'r, Q>>,
}

impl<'r, Q: DeltaQueue<Key = Key, Value = u32>> Thread<'r, Q> {
    fn step(&mut self) {
        let Plan { pops, ends, lists, reads, .. } = self.round.plan;
        let dice = self.random.below(16);
        if dice < pops {
            if self.random.one_in(6) {
                let max = 1 + self.random.below(3) as usize;
                self.pop_batch(max);
            } else if self.leases.len() < 2 {
                self.pop();
            }
        } else if dice < pops + ends && !self.leases.is_empty() {
            let which = self.random.below(self.leases.len() as u64) as usize;
            let ending = match self.random.below(12) {
                0 | 1 => Ending::Requeue,
                2 => Ending::GiveUp,
                3 => Ending::Drop,
                4 => Ending::AfterLong,
                _ => Ending::Done,
            };
            self.end(which, ending);
        } else if dice < pops + ends + lists {
            self.list();
        } else if dice < pops + ends + lists + reads {
            if self.random.one_in(2) {
                self.snapshot()
            } else {
                let key = self.key();
                self.get(key)
            }
        } else {
            self.produce();
        }
    }

    fn key(&mut self) -> u8 {
        self.random.below(u64::from(self.round.plan.keys)) as u8
    }

    fn named(&mut self, name: u8) -> Key {
        Key { name, pauses: self.random.one_in(3) }
    }

    fn object(&self) -> u32 {
        // Relaxed: only the number matters.
        self.round.objects.fetch_add(1, Ordering::Relaxed) as u32
    }

    fn change(&mut self) -> Change<u8, u32> {
        let (key, object) = (self.key(), self.object());
        match self.random.below(8) {
            0 | 1 => Change::Add(key, object),
            2 | 3 => Change::Update(key, object),
            4 => Change::Apply(key, object),
            5 | 6 => Change::Delete(key, object),
            _ => Change::DeleteKey(key),
        }
    }

    fn produce(&mut self) {
        let queue = &self.round.queue;
        match self.random.below(12) {
            0 => {
                let changes: Vec<_> = (0..2 + self.random.below(2)).map(|_| self.change()).collect();
                let keyed: Vec<_> = changes
                    .iter()
                    .map(|change| with_key(change.clone(), self.named(*change.key())))
                    .collect();
                self.log.call(Call::ChangeAll(changes), || {
                    (Answer::Done, queue.change_all(keyed).expect("it is open"))
                });
            }
            1 => {
                let name = self.key();
                let key = self.named(name);
                self.log.call(Call::ResyncKey(name), || {
                    (Answer::Was(queue.resync_key(key).expect("it is open")), ())
                });
            }
            _ => {
                let change = self.change();
                let keyed = with_key(change.clone(), self.named(*change.key()));
                self.log
                    .call(Call::Change(change), || (Answer::Done, queue.change(keyed).expect("it is open")));
            }
        }
    }

    /// A list, or a piece of one.
    fn list(&mut self) {
        let queue = &self.round.queue;
        if self.replace.is_some() {
            match self.random.below(6) {
                0 | 1 => self.commit(),
                2 => self.abort(),
                _ => {
                    let (name, object) = (self.key(), self.object());
                    let key = self.named(name);
                    let replace = self.replace.as_ref().expect("it is open");
                    self.log.call(Call::Upsert(name, object), || {
                        let upsert = replace.upsert(key, object).expect("it is open");
                        (Answer::Was(upsert == Upsert::Placed), ())
                    });
                }
            }
            return;
        }
        match self.random.below(6) {
            0 => {
                self.log.call(Call::Resync, || (Answer::Count(queue.resync().expect("it is open")), ()));
            }
            1..4 => {
                let list: Vec<_> = (0..self.random.below(4)).map(|_| (self.key(), self.object())).collect();
                let keyed: Vec<_> = list.iter().map(|&(name, object)| (self.named(name), object)).collect();
                self.log.call(Call::Replace(list), || match queue.replace(keyed) {
                    Ok(_) => (Answer::Done, ()),
                    Err(error) => match error.kind {
                        ReplaceErrorKind::Begin(BeginReplaceError::ReplaceInProgress) => {
                            (Answer::Refused, ())
                        }
                        other => panic!("{other:?}"),
                    },
                });
            }
            _ => {
                self.replace = self.log.call(Call::Begin, || match queue.begin_replace() {
                    Ok(replace) => (Answer::Done, Some(replace)),
                    Err(BeginReplaceError::ReplaceInProgress) => (Answer::Refused, None),
                    Err(other) => panic!("{other}"),
                });
            }
        }
    }

    fn commit(&mut self) {
        if let Some(replace) = self.replace.take() {
            self.log.call(Call::Commit, || (Answer::Done, drop(replace.commit().expect("it is open"))));
        }
    }

    fn abort(&mut self) {
        if let Some(replace) = self.replace.take() {
            self.log.call(Call::Abort, || (Answer::Done, drop(replace)));
        }
    }

    /// Whether there was something.
    fn pop(&mut self) -> bool {
        let queue = &self.round.queue;
        let lease = self.log.call(Call::Pop, || match queue.try_pop() {
            Ok(lease) => (Answer::Leased(vec![seen(&lease)]), Some(lease)),
            Err(_) => (Answer::Leased(Vec::new()), None),
        });
        let popped = lease.is_some();
        self.leases.extend(lease);
        popped
    }

    fn pop_batch(&mut self, max: usize) {
        let queue = &self.round.queue;
        let leases = self.log.call(Call::PopBatch(max), || match queue.try_pop_batch(max) {
            Ok(batch) => (Answer::Leased(batch.iter().map(seen).collect()), batch.into_iter().collect()),
            Err(_) => (Answer::Leased(Vec::new()), Vec::new()),
        });
        self.leases.extend(leases);
    }

    fn end(&mut self, which: usize, ending: Ending) {
        let lease = self.leases.remove(which);
        self.log.call(Call::End(lease.key().name, ending), || match ending {
            Ending::Done => (Answer::Done, lease.done()),
            Ending::GiveUp => (Answer::Done, lease.give_up()),
            Ending::Requeue => (Answer::Done, lease.requeue()),
            Ending::Drop => (Answer::Done, drop(lease)),
            _ => (Answer::Done, lease.end(Outcome::RequeueAfter(LONG))),
        });
    }

    fn get(&mut self, name: u8) {
        let queue = &self.round.queue;
        let key = self.named(name);
        self.log.call(Call::Get(name), || (Answer::Known(queue.known().get(&key)), ()));
    }

    fn snapshot(&mut self) {
        let queue = &self.round.queue;
        self.log.call(Call::Snapshot, || {
            let snapshot = queue.snapshot();
            (Answer::All(snapshot.iter().map(|known| (known.key().name, *known.object())).collect()), ())
        });
    }

    fn lengths(&mut self) {
        let queue = &self.round.queue;
        self.log.call(Call::Lengths, || (Answer::Lengths(queue.pending_len(), queue.leased_len()), ()));
    }

    fn finish(&mut self) {
        if self.random.one_in(2) {
            self.commit()
        } else {
            self.abort()
        }
        while !self.leases.is_empty() {
            let ending = if self.random.one_in(4) { Ending::Requeue } else { Ending::Done };
            self.end(0, ending);
        }
    }
}
