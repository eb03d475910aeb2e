//! The comparison at the end: what the queue and the consumers have, against what the server had.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, PoisonError};

use delta_fifo::{DeltaQueue, KnownObject, KnownView};

use crate::consume::{Offered, Shared, Tally};
use crate::index::Index;
use crate::trace::{Key, Trace};

/// Something that is not as it must be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Mismatch {
    /// A call of the producer failed.
    Producer(String),
    /// Nothing was handed out for a long time, though not everything had been.
    Standstill,
    NeverSynced,
    StillPending(usize),
    StillLeased(usize),
    /// The last mark was not reached.
    NotProcessed {
        through: Option<String>,
        expected: String,
    },
    /// Objects of the final list that are not known.
    Missing {
        objects: u64,
        such_as: Key,
    },
    /// Known objects that are not in the final list.
    Extra {
        objects: u64,
        such_as: Key,
    },
    /// Known objects of another resource version than the final list has.
    Outdated {
        objects: u64,
        such_as: Key,
        known: Box<str>,
        expected: Box<str>,
    },
    /// The index that was kept by differences is not the one of the known objects.
    Index,
    /// Changes were lost, repeated or made up.
    Count {
        came_in: u64,
        handed_out: u64,
        merged: u64,
    },
    OutOfOrder(u64),
    LeasedTwice(u64),
}

/// Compares a run that has ended with what the trace says must come out.
pub(crate) fn compare<Q>(queue: &Q, trace: &Trace, shared: &Shared, tally: &Tally) -> Vec<Mismatch>
where
    Q: DeltaQueue<Key = Key, Value = Offered>,
{
    let known: Vec<_> = queue.known().iter().collect();
    let mut found = compare_known(trace, &known);
    let rebuilt: Index = known.iter().map(|known| &*known.object().object).collect();
    if *shared.index.lock().unwrap_or_else(PoisonError::into_inner) != rebuilt {
        found.push(Mismatch::Index);
    }
    let through = queue.processed_through().map(|version| version.to_string());
    let last = trace.steps.iter().rev().find_map(|step| step.action.version());
    if through.as_deref() != last {
        found.push(Mismatch::NotProcessed { through, expected: last.unwrap_or_default().to_owned() });
    }
    let counted = Mismatch::Count {
        came_in: trace.arrived.changes(),
        handed_out: tally.deltas(),
        merged: queue.merged(),
    };
    let checks = [
        (queue.pending_len() > 0, Mismatch::StillPending(queue.pending_len())),
        (queue.leased_len() > 0, Mismatch::StillLeased(queue.leased_len())),
        (trace.arrived.changes() != tally.deltas() + queue.merged(), counted),
        (tally.order_violations > 0, Mismatch::OutOfOrder(tally.order_violations)),
        (tally.double_leases > 0, Mismatch::LeasedTwice(tally.double_leases)),
    ];
    found.extend(checks.into_iter().filter_map(|(is_so, mismatch)| is_so.then_some(mismatch)));
    found
}

/// Keys and resource versions against the server's final list.
fn compare_known(trace: &Trace, known: &[KnownObject<Key, Offered>]) -> Vec<Mismatch> {
    let mut unseen: HashMap<&str, &str> =
        trace.expected.iter().map(|(key, version)| (&**key, &**version)).collect();
    let mut extra = Vec::new();
    let mut outdated = Vec::new();
    for object in known {
        match unseen.remove(&**object.key()) {
            None => extra.push(object.key().clone()),
            Some(version) if *version != *object.object().object.version => outdated.push((object, version)),
            Some(_) => {}
        }
    }
    let missing = unseen
        .keys()
        .min()
        .map(|key| Mismatch::Missing { objects: unseen.len() as u64, such_as: Arc::from(*key) });
    let extra =
        extra.iter().min().map(|key| Mismatch::Extra { objects: extra.len() as u64, such_as: key.clone() });
    let outdated =
        outdated.iter().min_by_key(|(object, _)| object.key()).map(|(object, version)| Mismatch::Outdated {
            objects: outdated.len() as u64,
            such_as: object.key().clone(),
            known: object.object().object.version.clone(),
            expected: Box::from(*version),
        });
    [missing, extra, outdated].into_iter().flatten().collect()
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Mismatch::Producer(error) => write!(f, "the producer could not go on: {error}"),
            Mismatch::Standstill => f.write_str("the queue stood still before everything was handed out"),
            Mismatch::NeverSynced => f.write_str("the queue never reported its first sync"),
            Mismatch::StillPending(keys) => write!(f, "{keys} keys still pending"),
            Mismatch::StillLeased(keys) => write!(f, "{keys} keys still leased"),
            Mismatch::NotProcessed { through, expected } => {
                let through = through.as_deref().unwrap_or("no resource version");
                write!(f, "processed through {through}, not through {expected}")
            }
            Mismatch::Missing { objects, such_as } => {
                write!(f, "{objects} objects of the final list are not known, such as {such_as}")
            }
            Mismatch::Extra { objects, such_as } => {
                write!(f, "{objects} known objects are not in the final list, such as {such_as}")
            }
            Mismatch::Outdated { objects, such_as, known, expected } => write!(
                f,
                "{objects} known objects have another resource version than in the final list, such as {such_as}: \
                 {known}, not {expected}"
            ),
            Mismatch::Index => {
                f.write_str("the index kept from leases differs from one made of the known objects")
            }
            Mismatch::Count { came_in, handed_out, merged } => {
                write!(
                    f,
                    "{came_in} changes came in, but {handed_out} were handed out and {merged} merged away"
                )
            }
            Mismatch::OutOfOrder(changes) => write!(f, "{changes} changes handed out of order"),
            Mismatch::LeasedTwice(leases) => write!(f, "{leases} leases of a key that was leased already"),
        }
    }
}
