//! Lifetimes that may be shortened. Those that must not stand in `src/misuse.rs`: a queue whose keys were taken for others would be
//! given keys that do not live as long.
#![expect(dead_code, reason = "that they compile is the test")]

use delta_fifo::baseline::MutexDeltaFifo;
use delta_fifo::{
    Change, Completion, Delta, DeltaFifo, Deltas, DeltasIter, FifoKnown, Lease, LeaseBatch, RandomState,
    Replace, Tombstone,
};

type Sharded = DeltaFifo<&'static str, &'static str>;
type Mutexed = MutexDeltaFifo<&'static str, &'static str>;

/// A function from each type with a long lifetime to the same with a short one.
macro_rules! shortens {
    ($($name:ident: $long:ty => $short:ty),* $(,)?) => {$(
        fn $name<'long: 'short, 'short>(long: $long) -> $short { long }
    )*};
}

// The borrow of the queue.
shortens! {
    lease: Lease<'long, Sharded> => Lease<'short, Sharded>,
    lease_of_the_mutex: Lease<'long, Mutexed> => Lease<'short, Mutexed>,
    batch: LeaseBatch<'long, Sharded> => LeaseBatch<'short, Sharded>,
    replace: Replace<'long, Sharded> => Replace<'short, Sharded>,
    completion: Completion<'long, Sharded> => Completion<'short, Sharded>,
    view: FifoKnown<'long, &'static str, u32, RandomState> => FifoKnown<'short, &'static str, u32, RandomState>,
    deltas: Deltas<'long, u32, u32> => Deltas<'short, u32, u32>,
    iterator: DeltasIter<'long, u32, u32> => DeltasIter<'short, u32, u32>,
}

// What keys and objects borrow.
shortens! {
    delta: Delta<'long, &'long str, &'long str> => Delta<'short, &'short str, &'short str>,
    tombstone: Tombstone<'long, &'long str, &'long str> => Tombstone<'short, &'short str, &'short str>,
    change: Change<&'long str, &'long str> => Change<&'short str, &'short str>,
}

#[cfg(feature = "async")]
mod streams {
    use super::Sharded;
    use delta_fifo::Leases;

    shortens! {
        stream: Leases<'long, Sharded> => Leases<'short, Sharded>,
    }
}
