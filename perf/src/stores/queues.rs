//! Queues as stores: what is written goes through all of them.

use delta_fifo::{DeltaQueue, KnownView};

use super::plain::objects;
use super::{Snapshot, Store};
use crate::peers::{Handler, Hashing, Kind, Known, Parking, Peer, Queue};
use crate::workload::{Key, KeySet, Object};

/// Nothing is to be done with a lease.
struct Ignore;

impl Handler for Ignore {
    fn lease<'d>(&mut self, _: &Key, _: impl Iterator<Item = (Kind, &'d Object)>) {}
}

fn filled<P: Peer>(keys: &KeySet) -> P {
    let peer = P::new();
    for (key, object) in objects(keys) {
        peer.add(key, object);
        peer.pop(&mut Ignore);
    }
    peer
}

fn write(peer: &impl Peer, key: &Key, object: Object) {
    peer.update(key.clone(), object);
    peer.pop(&mut Ignore);
}

impl<Q> Store for Queue<Q>
where
    Q: DeltaQueue<Key = Key, Value = Object, Hasher = Hashing>,
{
    type Snapshot = Shown<Q::Snapshot>;

    fn filled(keys: &KeySet) -> Self {
        filled(keys)
    }

    fn write(&self, key: &Key, object: Object) {
        write(self, key, object);
    }

    fn snapshot(&self) -> Shown<Q::Snapshot> {
        Shown(self.queue().snapshot())
    }

    fn get_with<R>(&self, key: &Key, f: impl FnOnce(&Object) -> R) -> Option<R> {
        Peer::get_with(self, key, f)
    }
}

/// A queue's own snapshot.
pub struct Shown<V>(V);

impl<V: KnownView<Key, Object>> Snapshot for Shown<V> {
    fn scan(&self, see: impl FnMut(&Key, &Object)) {
        self.0.for_each(see);
    }
}

impl Store for Parking {
    type Snapshot = Known;

    fn filled(keys: &KeySet) -> Self {
        filled(keys)
    }

    fn write(&self, key: &Key, object: Object) {
        write(self, key, object);
    }

    fn snapshot(&self) -> Known {
        self.clone_known()
    }

    fn get_with<R>(&self, key: &Key, f: impl FnOnce(&Object) -> R) -> Option<R> {
        Peer::get_with(self, key, f)
    }
}

impl Snapshot for Known {
    fn scan(&self, see: impl FnMut(&Key, &Object)) {
        self.for_each(see);
    }
}
