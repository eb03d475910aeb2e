//! B3, the rival: what a good engineer builds from mutexes.
//!
//! 64 shards with the *pending* keys only (small, in cache), one lock-free line of handles, the known objects in 64 shards
//! of their own, sleepers behind a count that a producer only reads. Batches are grouped by shard and decide once whom to
//! wake.

use std::hash::BuildHasher;

use crossbeam_queue::SegQueue;
use crossbeam_utils::CachePadded;
use parking_lot::{Mutex, RwLock};

use super::known::Known;
use super::pending::{Ended, Handle, Incoming, Lease, Pending, Pushed};
use super::sleep::{Sleep, pop_or_wait};
use super::{Handler, Hashing, Kind, Peer};
use crate::workload::{Key, Object};

const SHARDS: usize = 64;

pub struct ShardedMutex {
    pending: Box<[CachePadded<Mutex<Pending>>]>,
    line: SegQueue<Handle>,
    sleep: Sleep,
    known: Box<[CachePadded<RwLock<Known>>]>,
    hashing: Hashing,
}

#[derive(Default)]
pub struct Scratch {
    groups: Groups,
    incoming: Vec<Option<Incoming>>,
    /// What became of each change of a batch, in the batch's order.
    pushed: Vec<Option<Pushed>>,
    handles: Vec<Handle>,
    leases: Vec<Option<Lease>>,
    ended: Vec<Ended>,
}

/// The members of a batch by shard: a chain per shard through their places, in order.
struct Groups {
    /// A bit for each shard that has members.
    used: u64,
    /// Only for used shards.
    first: [usize; SHARDS],
    last: [usize; SHARDS],
    /// By place. The last of a chain points to itself.
    next: Vec<usize>,
}

impl Default for Groups {
    fn default() -> Self {
        Self { used: 0, first: [0; SHARDS], last: [0; SHARDS], next: Vec::new() }
    }
}

impl Groups {
    fn clear(&mut self) {
        self.used = 0;
        self.next.clear();
    }

    #[inline]
    fn push(&mut self, shard: usize) {
        let place = self.next.len();
        self.next.push(place);
        if self.used & 1 << shard == 0 {
            self.used |= 1 << shard;
            self.first[shard] = place;
        } else {
            self.next[self.last[shard]] = place;
        }
        self.last[shard] = place;
    }

    #[inline]
    fn shards(&self) -> impl Iterator<Item = usize> {
        let mut left = self.used;
        std::iter::from_fn(move || {
            let shard = left.trailing_zeros() as usize;
            left &= left.wrapping_sub(1);
            (shard < SHARDS).then_some(shard)
        })
    }

    #[inline]
    fn places(&self, shard: usize) -> impl Iterator<Item = usize> {
        std::iter::successors(Some(self.first[shard]), |&place| {
            Some(self.next[place]).filter(|&next| next != place)
        })
    }
}

/// The tables use the lowest and the highest bits of the hash; these are neither.
#[inline]
fn shard_of(hash: u64) -> usize {
    (hash >> 32) as usize % SHARDS
}

impl ShardedMutex {
    #[inline]
    fn change(&self, kind: Kind, key: Key, object: Object) {
        let incoming = Incoming::new(self.hashing.hash_one(&key), key, kind, object);
        let shard = shard_of(incoming.hash());
        let pushed = self.pending[shard].lock().push(incoming);
        self.finish(&pushed);
    }

    #[inline]
    fn finish(&self, pushed: &Pushed) {
        if let Pushed::InLine(handle) = pushed {
            self.line.push(*handle);
            self.sleep.wake(1);
        }
    }

    /// Leases the keys of `scratch.handles`; the leases stand in the order of the line.
    #[inline]
    fn lease_batch(&self, scratch: &mut Scratch) {
        let Scratch { groups, handles, leases, .. } = scratch;
        groups.clear();
        handles.iter().for_each(|handle| groups.push(shard_of(handle.hash)));
        leases.resize_with(handles.len(), || None);
        for shard in groups.shards() {
            let mut pending = self.pending[shard].lock();
            for place in groups.places(shard) {
                leases[place] = Some(pending.lease(handles[place]));
            }
        }
        // A second round: the first has no misses in the known objects to wait for while it holds a producer's lock.
        for shard in groups.shards() {
            let mut known = self.known[shard].write();
            for place in groups.places(shard) {
                if let Some(lease) = &mut leases[place] {
                    known.update(lease);
                }
            }
        }
    }

    #[inline]
    fn end_batch(&self, scratch: &mut Scratch) {
        let Scratch { groups, leases, ended, .. } = scratch;
        let mut dirty = 0;
        for shard in groups.shards() {
            let mut pending = self.pending[shard].lock();
            for place in groups.places(shard) {
                let Some(lease) = &leases[place] else { continue };
                match pending.done(lease) {
                    Ended::Dirty => {
                        self.line.push(lease.handle);
                        dirty += 1;
                    }
                    clean => ended.push(clean),
                }
            }
        }
        self.sleep.wake(dirty);
        leases.clear();
        ended.clear();
    }
}

impl Peer for ShardedMutex {
    type Scratch = Scratch;

    fn new() -> Self {
        Self {
            pending: (0..SHARDS).map(|_| CachePadded::default()).collect(),
            line: SegQueue::new(),
            sleep: Sleep::default(),
            known: (0..SHARDS).map(|_| CachePadded::default()).collect(),
            hashing: Hashing::default(),
        }
    }

    #[inline]
    fn add(&self, key: Key, object: Object) {
        self.change(Kind::Added, key, object);
    }

    #[inline]
    fn update(&self, key: Key, object: Object) {
        self.change(Kind::Updated, key, object);
    }

    #[inline]
    fn delete(&self, key: Key, object: Object) {
        let incoming = Incoming::new(self.hashing.hash_one(&key), key, Kind::Deleted, object);
        let shard = shard_of(incoming.hash());
        // The other lock inside this one; nobody takes them the other way round.
        let known = |it: &Incoming| self.known[shard].read().contains(it.hash(), it.key());
        let pushed = self.pending[shard].lock().push_deletion(incoming, known);
        self.finish(&pushed);
    }

    #[inline]
    fn update_all(&self, batch: &mut Vec<(Key, Object)>, scratch: &mut Scratch) {
        let Scratch { groups, incoming, pushed, .. } = scratch;
        groups.clear();
        for (key, object) in batch.drain(..) {
            let hash = self.hashing.hash_one(&key);
            groups.push(shard_of(hash));
            incoming.push(Some(Incoming::new(hash, key, Kind::Updated, object)));
        }
        pushed.resize_with(incoming.len(), || None);
        for shard in groups.shards() {
            let mut pending = self.pending[shard].lock();
            for place in groups.places(shard) {
                pushed[place] = incoming[place].take().map(|incoming| pending.push(incoming));
            }
        }
        incoming.clear();
        // Keys of different shards go in line in the order of the batch, so only after all shards have taken theirs.
        let mut fresh = 0;
        for pushed in pushed.drain(..).flatten() {
            if let Pushed::InLine(handle) = pushed {
                self.line.push(handle);
                fresh += 1;
            }
        }
        self.sleep.wake(fresh);
    }

    fn pop(&self, handler: &mut impl Handler) -> bool {
        let Some(handle) = pop_or_wait(&self.line, &self.sleep) else { return false };
        let shard = shard_of(handle.hash);
        let pending = &self.pending[shard];
        let mut lease = pending.lock().lease(handle);
        self.known[shard].write().update(&mut lease);
        handler.lease(&lease.key, lease.deltas());
        let ended = pending.lock().done(&lease);
        if let Ended::Dirty = ended {
            self.line.push(handle);
            self.sleep.wake(1);
        }
        true
    }

    fn pop_batch(&self, max: usize, handler: &mut impl Handler, scratch: &mut Scratch) -> usize {
        let Some(first) = pop_or_wait(&self.line, &self.sleep) else { return 0 };
        scratch.handles.clear();
        scratch.handles.push(first);
        scratch.handles.extend(std::iter::from_fn(|| self.line.pop()).take(max - 1));
        self.lease_batch(scratch);
        for lease in scratch.leases.iter().flatten() {
            handler.lease(&lease.key, lease.deltas());
        }
        self.end_batch(scratch);
        scratch.handles.len()
    }

    fn close(&self) {
        self.sleep.close();
    }

    #[inline]
    fn get_with<R>(&self, key: &Key, f: impl FnOnce(&Object) -> R) -> Option<R> {
        let hash = self.hashing.hash_one(key);
        let value = self.known[shard_of(hash)].read().get(hash, key)?;
        Some(f(&value))
    }

    fn known_len(&self) -> usize {
        self.known.iter().map(|shard| shard.read().len()).sum()
    }

    fn pending_len(&self) -> usize {
        self.pending.iter().map(|shard| shard.lock().len()).sum()
    }

    fn leased_len(&self) -> usize {
        self.pending.iter().map(|shard| shard.lock().leased()).sum()
    }

    fn merged(&self) -> u64 {
        0
    }
}
