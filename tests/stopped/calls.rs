//! The calls in which a thread is stopped.

use std::time::Duration;

use delta_fifo::{Change, DeltaQueue, KnownView, Lease};

use super::ledger::{KEYS, Key, Maker, Object, Queue, accepted, handed_out};
use super::signal::inside;
use crate::common::Random;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Call {
    Add,
    Update,
    Apply,
    Delete,
    ChangeAll,
    Replace,
    Resync,
    Mark,
    Pop,
    PopBatch,
    Done,
    Requeue,
    Get,
    Snapshot,
    Close,
}

const BATCH: usize = 4;

impl Call {
    /// How many keys the thread may have to itself while it is in there.
    pub(crate) fn keeps_keys(self) -> usize {
        match self {
            Call::Pop | Call::Done | Call::Requeue => 1,
            Call::PopBatch => BATCH,
            _ => 0,
        }
    }

    /// Whether it may have the mutex of those that begin and end replaces.
    pub(crate) fn keeps_replaces(self) -> bool {
        matches!(self, Call::Replace | Call::Close)
    }

    /// Whether it may have that of marks.
    pub(crate) fn keeps_marks(self) -> bool {
        self == Call::Mark
    }
}

fn pair(name: u8) -> (Key, Object, u32) {
    let object = Object::new(name, Maker::Stopped);
    let number = object.number();
    (Key::new(name), object, number)
}

fn done(lease: Lease<'_, Queue>) {
    handed_out(&lease);
    lease.done();
}

/// Takes all that is in line.
pub(crate) fn drain(queue: &Queue) {
    while let Ok(lease) = queue.try_pop() {
        done(lease);
    }
}

fn add(queue: &Queue, name: u8) {
    let (key, object, number) = pair(name);
    if queue.add(key, object).is_ok() {
        accepted(number);
    }
}

/// Makes the call once, and around it what it needs.
pub(crate) fn perform(call: Call, queue: &Queue, random: &mut Random) {
    let name = random.below(KEYS.into()) as u8;
    match call {
        Call::Add | Call::Update | Call::Apply => {
            let (key, object, number) = pair(name);
            let answer = inside(|| match call {
                Call::Add => queue.add(key, object),
                Call::Update => queue.update(key, object),
                _ => queue.apply(key, object),
            });
            assert!(answer.is_ok(), "the queue is open");
            accepted(number);
        }
        Call::Delete => {
            let (key, object, _) = pair(name);
            let answer = inside(|| queue.delete(key, object));
            assert!(answer.is_ok(), "the queue is open");
            // So that there is something to delete.
            if random.one_in(2) {
                add(queue, name);
            }
        }
        Call::ChangeAll => change_all(queue, random),
        Call::Replace => {
            let names = (0..KEYS).filter(|_| !random.one_in(4));
            let list: Vec<_> =
                names.map(|name| (Key::new(name), Object::new(name, Maker::Stopped))).collect();
            // Refused while one of the others' is open.
            drop(inside(|| queue.replace(list)));
        }
        Call::Resync => {
            add(queue, name);
            drain_some(queue);
            assert!(inside(|| queue.resync()).is_ok(), "there is no store to fail");
        }
        Call::Mark => {
            add(queue, name);
            let mark = inside(|| queue.mark(random.below(u64::MAX)).map(|mark| mark.is_complete()));
            assert!(mark.is_ok(), "the queue is open");
            inside(|| queue.processed_through());
            drain_some(queue);
        }
        Call::Get => {
            add(queue, name);
            let key = Key::new(name);
            inside(|| (queue.known().contains(&key), queue.known().find(&key), queue.known().iter().count()));
            drain_some(queue);
        }
        Call::Snapshot => {
            add(queue, name);
            let key = Key::new(name);
            inside(|| {
                let snapshot = queue.snapshot();
                (snapshot.contains(&key), snapshot.iter().count(), snapshot.len())
            });
            drain_some(queue);
        }
        Call::Close => {
            (0..4).for_each(|nth| add(queue, (name + nth) % KEYS));
            drain_some(queue);
            inside(|| queue.close());
        }
        Call::Pop | Call::PopBatch | Call::Done | Call::Requeue => {
            add(queue, name);
            add(queue, (name + 1) % KEYS);
            consume(call, queue, random);
        }
    }
}

/// One key, so that there is something known, and something in line for the others.
fn drain_some(queue: &Queue) {
    if let Ok(lease) = queue.try_pop() {
        done(lease);
    }
}

fn change_all(queue: &Queue, random: &mut Random) {
    let mut numbers = Vec::new();
    let mut changes = Vec::new();
    for name in 0..KEYS {
        let (key, object, number) = pair(name);
        changes.push(match random.below(4) {
            0 => Change::Delete(key, object),
            1 => {
                numbers.push(number);
                Change::Add(key, object)
            }
            2 => {
                numbers.push(number);
                Change::Apply(key, object)
            }
            _ => {
                drop(object);
                Change::DeleteKey(key)
            }
        });
    }
    assert!(inside(|| queue.change_all(changes)).is_ok(), "the queue is open");
    numbers.into_iter().for_each(accepted);
}

fn consume(call: Call, queue: &Queue, random: &mut Random) {
    const SOON: Duration = Duration::from_micros(20);
    match call {
        Call::Pop if random.one_in(2) => {
            inside(|| queue.try_pop()).into_iter().for_each(done);
        }
        // Now and then it sleeps.
        Call::Pop => {
            inside(|| queue.pop_timeout(SOON)).into_iter().for_each(done);
            if random.one_in(512) {
                drain(queue);
                inside(|| queue.pop_timeout(SOON)).into_iter().for_each(done);
            }
        }
        Call::PopBatch => {
            let batch = inside(|| queue.try_pop_batch(BATCH));
            batch.into_iter().flatten().for_each(done);
        }
        Call::Done => {
            let Ok(lease) = queue.try_pop() else { return };
            handed_out(&lease);
            inside(|| lease.done());
        }
        _ => {
            let Ok(lease) = queue.try_pop() else { return };
            inside(|| lease.requeue());
        }
    }
}
