//! Any `DeltaQueue` of the crate as a peer: by leases, as one would use it.
//!
//! With `PROCESS` by `process`, with which the baseline runs the handler under its lock, as client-go does. That makes no
//! difference to the baseline where handlers take no time.

use delta_fifo::{Background, Builder, Change, Compression, Delta, DeltaQueue, KnownView, Lease, Outcome};

use super::{Handler, Hashing, Kind, Lists, Peer, Settings, Setup};
use crate::workload::{Key, Object};

pub struct Queue<Q, const PROCESS: bool = false>(Q);

impl<Q, const PROCESS: bool> Queue<Q, PROCESS> {
    pub(crate) fn queue(&self) -> &Q {
        &self.0
    }
}

/// Nothing of the workload can be refused: no transform, and closed only after the last change.
const ACCEPTED: &str = "the queue is open and has no transform";

fn deltas<'l, Q>(lease: &'l Lease<'_, Q>) -> impl Iterator<Item = (Kind, &'l Object)>
where
    Q: DeltaQueue<Key = Key, Value = Object>,
{
    lease.deltas().iter().map(|delta| match delta {
        Delta::Added(object) => (Kind::Added, object),
        Delta::Updated(object) => (Kind::Updated, object),
        Delta::Deleted(object) => (Kind::Deleted, object),
        Delta::Replaced(object) => (Kind::Replaced, object),
        Delta::Sync(object) => (Kind::Sync, object),
        Delta::DeletedFinalStateUnknown(tombstone) => {
            (Kind::Tombstone, tombstone.object.expect("no store of the user's that could not tell"))
        }
    })
}

impl<Q, const PROCESS: bool> Peer for Queue<Q, PROCESS>
where
    Q: DeltaQueue<Key = Key, Value = Object, Hasher = Hashing>,
{
    /// The queue's own affair.
    type Scratch = ();

    fn new() -> Self {
        Self(Builder::with_hasher(Hashing::default()).build())
    }

    fn with(Settings { latest, background_resync }: Settings) -> Option<Self> {
        let mut builder = Builder::with_hasher(Hashing::default());
        if latest {
            builder = builder.compression(Compression::Latest);
        }
        if background_resync {
            builder = builder.background(Background::Resync);
        }
        Some(Self(builder.build()))
    }

    fn set_up(setup: &Setup) -> Self {
        let mut builder = Builder::with_hasher(Hashing::default());
        if let Some(shards) = setup.parts.shards {
            builder = builder.shards(shards);
        }
        if let Some(lines) = setup.parts.lines {
            builder = builder.lines(lines);
        }
        Self(builder.build())
    }

    #[inline]
    fn add(&self, key: Key, object: Object) {
        self.0.add(key, object).expect(ACCEPTED);
    }

    #[inline]
    fn update(&self, key: Key, object: Object) {
        self.0.update(key, object).expect(ACCEPTED);
    }

    #[inline]
    fn delete(&self, key: Key, object: Object) {
        self.0.delete(key, object).expect(ACCEPTED);
    }

    fn update_all(&self, batch: &mut Vec<(Key, Object)>, (): &mut ()) {
        let changes = batch.drain(..).map(|(key, object)| Change::Update(key, object));
        self.0.change_all(changes).expect(ACCEPTED);
    }

    #[inline]
    fn pop(&self, handler: &mut impl Handler) -> bool {
        if PROCESS {
            let handle = |lease: &Lease<'_, Q>| {
                handler.lease(lease.key(), deltas(lease));
                Outcome::Done
            };
            return self.0.process(handle).is_ok();
        }
        let Ok(lease) = self.0.pop() else { return false };
        handler.lease(lease.key(), deltas(&lease));
        lease.done();
        true
    }

    fn pop_batch(&self, max: usize, handler: &mut impl Handler, (): &mut ()) -> usize {
        let Ok(batch) = self.0.pop_batch(max) else { return 0 };
        for lease in &batch {
            handler.lease(lease.key(), deltas(lease));
        }
        let count = batch.len();
        batch.done();
        count
    }

    fn close(&self) {
        self.0.close();
    }

    fn get_with<R>(&self, key: &Key, f: impl FnOnce(&Object) -> R) -> Option<R> {
        self.0.known().get_with(key, f)
    }

    fn known_len(&self) -> usize {
        self.0.known().len()
    }

    fn pending_len(&self) -> usize {
        self.0.pending_len()
    }

    fn leased_len(&self) -> usize {
        self.0.leased_len()
    }

    fn merged(&self) -> u64 {
        self.0.merged()
    }
}

impl<Q, const PROCESS: bool> Lists for Queue<Q, PROCESS>
where
    Q: DeltaQueue<Key = Key, Value = Object, Hasher = Hashing>,
{
    fn replace(&self, list: Vec<(Key, Object)>) {
        self.0.replace(list).expect("the queue is open, and one list comes at a time");
    }

    fn resync(&self) {
        self.0.resync().expect("the queue is open");
    }
}
