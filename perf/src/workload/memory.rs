//! What a queue keeps in memory for each key, and how often it asks for some.
//!
//! One thread. Keys become known one by one, each popped before the next is added, so that nothing is kept for pending keys
//! but what one needs; then known keys become pending one by one, with nobody popping. Bytes are read at many numbers of keys
//! from one to twice as many: tables that double do so once on the way, so the least and the most of these are the two
//! extreme load factors, just before a doubling and just after.
//!
//! **Left out** are a key's text (the [`KeySet`] has it, and everybody shares it; the handle that the queue keeps counts) and
//! an object's own bytes ([`OBJECT`] for each object that the queue has to keep: the known one of each key, and the new one of
//! each pending key). All else counts: what an `Arc` adds to its object, room for objects that are not there, memory that
//! waits to be given back.

use std::mem::size_of;

use super::{Key, KeySet, Object};
use crate::peers::{Handler, Kind, Peer};

/// The bytes of an object by itself.
pub const OBJECT: usize = size_of::<Object>();

/// What the process has asked of its allocator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counted {
    /// Bytes that were asked for and have not been given back. What the allocator adds to them is not in it.
    pub live: u64,
    /// Calls that asked for memory.
    pub calls: u64,
}

#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "description", derive(serde::Serialize, serde::Deserialize))]
pub struct Shape {
    /// Bytes are read at so many numbers of keys, evenly from half of the keys to all.
    pub samples: usize,
    /// So many keys change, then as many are popped.
    pub burst: usize,
    /// Bursts before calls are counted.
    pub warm: usize,
    /// Bursts in which they are.
    pub bursts: usize,
}

#[derive(Debug)]
pub struct Memory {
    /// Number of known keys, none pending, and bytes for each.
    pub known: Vec<(usize, f64)>,
    /// Number of pending keys, all known, and further bytes for each.
    pub pending: Vec<(usize, f64)>,
    /// Changes, and as many pops, of which calls to the allocator were counted.
    pub counted: u64,
    pub calls_of_changes: u64,
    pub calls_of_pops: u64,
    pub violations: Vec<String>,
}

/// `read` counts for the whole process, which does nothing else meanwhile.
pub fn run<P: Peer>(shape: &Shape, keys: &KeySet, read: fn() -> Counted) -> Memory {
    let mut memory = Memory {
        known: Vec::with_capacity(shape.samples),
        pending: Vec::with_capacity(shape.samples),
        counted: 0,
        calls_of_changes: 0,
        calls_of_pops: 0,
        violations: Vec::new(),
    };
    let empty = read().live;
    let mut run = Run { peer: P::new(), keys, popped: Popped { keys, seq: 1, leases: 0, wrong: 0 } };
    let sizes = sizes(shape.samples, keys.len());

    let mut known = 0;
    for &size in &sizes {
        run.add(known..size);
        known = size;
        run.settle(size);
        memory.known.push((size, per_key(read().live, empty, size)));
    }
    run.check_books(0, &mut memory.violations);

    let none_pending = read().live;
    run.popped.seq += 1;
    let mut pending = 0;
    for &size in &sizes {
        run.update(pending..size);
        pending = size;
        memory.pending.push((size, per_key(read().live, none_pending, size)));
    }
    run.check_books(pending, &mut memory.violations);
    run.pop(pending);

    let burst = shape.burst.min(keys.len());
    for number in 0..shape.warm + shape.bursts {
        run.popped.seq += 1;
        let start = read().calls;
        run.update(0..burst);
        let changed = read().calls;
        run.pop(burst);
        let popped = read().calls;
        if number >= shape.warm {
            memory.counted += burst as u64;
            memory.calls_of_changes += changed - start;
            memory.calls_of_pops += popped - changed;
        }
    }
    run.check_books(0, &mut memory.violations);
    if run.popped.wrong > 0 {
        memory.violations.push(format!("{} leases with another key or object", run.popped.wrong));
    }
    memory
}

fn sizes(samples: usize, keys: usize) -> Vec<usize> {
    let (least, steps) = (keys / 2, samples.max(2) - 1);
    (0..=steps).map(|step| least + (keys - least) * step / steps).collect()
}

fn per_key(live: u64, before: u64, keys: usize) -> f64 {
    (live as f64 - before as f64) / keys as f64 - OBJECT as f64
}

struct Run<'k, P> {
    peer: P,
    keys: &'k KeySet,
    popped: Popped<'k>,
}

impl<P: Peer> Run<'_, P> {
    fn add(&mut self, keys: std::ops::Range<usize>) {
        for number in keys {
            self.peer.add(self.keys.key(number).clone(), Object::new(0, number as u32, self.popped.seq));
            self.pop(1);
        }
    }

    fn update(&self, keys: std::ops::Range<usize>) {
        for number in keys {
            self.peer.update(self.keys.key(number).clone(), Object::new(0, number as u32, self.popped.seq));
        }
    }

    fn pop(&mut self, count: usize) {
        for _ in 0..count {
            self.peer.pop(&mut self.popped);
        }
    }

    /// Work that makes nothing known, in which a queue can give back what it no longer needs: old tables, for example.
    fn settle(&mut self, known: usize) {
        for number in 0..known.min(2_000) {
            self.update(number..number + 1);
            self.pop(1);
        }
    }

    fn check_books(&self, pending: usize, violations: &mut Vec<String>) {
        let peer = &self.peer;
        let found = (peer.known_len(), peer.pending_len(), peer.leased_len(), peer.merged());
        let expected = (self.keys.len(), pending, 0, 0);
        if found != expected {
            violations
                .push(format!("(known, pending, leased, merged) are {found:?} instead of {expected:?}"));
        }
    }
}

/// Checks what it is handed, and allocates nothing.
struct Popped<'k> {
    keys: &'k KeySet,
    seq: u64,
    leases: u64,
    wrong: u64,
}

impl Handler for Popped<'_> {
    fn lease<'d>(&mut self, key: &Key, mut deltas: impl Iterator<Item = (Kind, &'d Object)>) {
        self.leases += 1;
        let sound = deltas.next().is_some_and(|(_, object)| {
            object.seq == self.seq && self.keys.key(object.key as usize) == key && deltas.next().is_none()
        });
        self.wrong += u64::from(!sound);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::peers::{Baseline, Papaya, Parking, RealFifo, Sharded, ShardedMutex};

    #[test]
    fn from_half_to_all() {
        assert_eq!(sizes(3, 1_000), [500, 750, 1_000]);
        assert_eq!(sizes(1, 10), [5, 10]);
    }

    #[test]
    fn an_object_is_left_out() {
        assert_eq!(per_key(50 + 10 * (OBJECT as u64 + 7), 50, 10), 7.0);
    }

    fn check<P: Peer>() {
        let shape = Shape { samples: 4, burst: 100, warm: 1, bursts: 2 };
        let memory = run::<P>(&shape, &KeySet::new(1_000, 1), || Counted { live: 0, calls: 0 });
        assert_eq!(memory.violations, [""; 0]);
        assert_eq!((memory.known.len(), memory.pending.len(), memory.counted), (4, 4, 200));
    }

    #[test]
    fn every_peer_keeps_its_books() {
        check::<Sharded>();
        check::<Baseline>();
        check::<Parking>();
        check::<ShardedMutex>();
        check::<Papaya>();
        check::<RealFifo>();
    }
}
