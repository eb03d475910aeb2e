//! Send, Sync, Unpin and unwind-safety of every public type: what holds, and what must not.

use std::cell::Cell;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::rc::Rc;

use delta_fifo::baseline::{MutexDeltaFifo, MutexKnown, MutexSnapshot};
use delta_fifo::{
    Backoff, BeginReplaceError, Builder, Change, ChangeAllError, ChangeError, Closed, CommitError,
    Completion, Compression, Delta, DeltaFifo, Deltas, DeltasIter, Discarded, ErrorEvent, FifoKnown,
    FifoSnapshot, KeyOf, KeyOfError, Keyed, KeyedBuilder, KeyedError, KeyedReplace, KeyedReplaceError,
    KnownChange, KnownKey, KnownObject, Lease, LeaseBatch, ManualClock, MarkError, OtherQueueError, Outcome,
    OwnedWork, PopTimeoutError, Published, RandomState, Replace, ReplaceError, ResyncError, ResyncKeyError,
    SlowEvent, Stats, Tombstone, TryPopError, Upsert, UpsertError, Version, WaitError, Work,
};

/// Asserts that a type has traits, or has not: then the call of `ask` is not ambiguous.
macro_rules! traits {
    ($($type:ty: $($has:ident)* $(; not $($not:ident)*)?),* $(,)?) => {$(
        { fn has<T: ?Sized $(+ $has)*>() {} has::<$type>(); }
        $($({
            trait Ask<Answer> { fn ask() {} }
            impl<T: ?Sized> Ask<()> for T {}
            struct Yes;
            impl<T: ?Sized + $not> Ask<Yes> for T {}
            <$type as Ask<_>>::ask();
        })*)?
    )*};
}

#[derive(PartialEq, Eq, Hash)]
struct Key(u32);
struct Value(#[expect(dead_code, reason = "only its type counts")] u32);

/// Sent, but not shared.
type Unshared = Cell<u32>;
/// Neither.
type Local = Rc<u32>;

type Sharded = DeltaFifo<Key, Value>;
type Mutexed = MutexDeltaFifo<Key, Value>;

#[test]
fn of_the_queues_and_what_they_hand_out() {
    traits! {
        Sharded: Send Sync Unpin UnwindSafe RefUnwindSafe,
        Mutexed: Send Sync Unpin UnwindSafe RefUnwindSafe,
        Keyed<Sharded>: Send Sync Unpin UnwindSafe RefUnwindSafe,
        Builder<Key, Value>: Send Sync Unpin,
        KeyedBuilder<Key, Value, RandomState>: Send Sync Unpin,
        // A lease is one consumer's, who may go to another thread with it, or let others look at it: what ends it takes it by value.
        // What an abandoned one has is put back by its drop, so a panic may pass it.
        Lease<'static, Sharded>: Send Sync Unpin,
        Lease<'static, Mutexed>: Send Sync Unpin,
        LeaseBatch<'static, Sharded>: Send Sync Unpin,
        LeaseBatch<'static, Mutexed>: Send Sync Unpin,
        Work<'static, Key>: Send Sync Unpin,
        Replace<'static, Sharded>: Send Sync Unpin,
        Replace<'static, Mutexed>: Send Sync Unpin,
        KeyedReplace<'static, Sharded>: Send Sync Unpin,
        Completion<'static, Sharded>: Send Sync Unpin UnwindSafe RefUnwindSafe,
        Completion<'static, Mutexed>: Send Sync Unpin UnwindSafe RefUnwindSafe,
        FifoKnown<'static, Key, Value, RandomState>: Send Sync Unpin UnwindSafe RefUnwindSafe,
        MutexKnown<'static, Key, Value, RandomState>: Send Sync Unpin UnwindSafe RefUnwindSafe,
        FifoSnapshot<Key, Value, RandomState>: Send Sync Unpin UnwindSafe RefUnwindSafe,
        MutexSnapshot<Key, Value, RandomState>: Send Sync Unpin UnwindSafe RefUnwindSafe,
        // Of the thread that asked for it: a clone of the snapshot goes elsewhere.
        Published<Key, Value, RandomState>: Unpin,
        KnownObject<Key, Value>: Send Sync Unpin UnwindSafe RefUnwindSafe,
        KnownKey<Key>: Send Sync Unpin UnwindSafe RefUnwindSafe,
        KnownChange<Key, Value>: Send Sync Unpin UnwindSafe RefUnwindSafe,
        Deltas<'static, Key, Value>: Send Sync Unpin UnwindSafe RefUnwindSafe,
        DeltasIter<'static, Key, Value>: Send Sync Unpin UnwindSafe RefUnwindSafe,
        Delta<'static, Key, Value>: Send Sync Unpin UnwindSafe RefUnwindSafe,
        Tombstone<'static, Key, Value>: Send Sync Unpin UnwindSafe RefUnwindSafe,
        Change<Key, Value>: Send Sync Unpin UnwindSafe RefUnwindSafe,
        OwnedWork<Key>: Send Unpin,
        ManualClock: Send Sync Unpin UnwindSafe RefUnwindSafe,
        Stats: Send Sync Unpin UnwindSafe RefUnwindSafe,
        SlowEvent<'static, Key>: Send Sync Unpin UnwindSafe RefUnwindSafe,
    }
}

/// What is shared is shared by all threads: with objects that only one may touch, nothing goes anywhere.
#[test]
fn of_what_holds_objects_that_are_not_shared() {
    traits! {
        DeltaFifo<Key, Unshared>: UnwindSafe; not Send Sync,
        DeltaFifo<Key, Local>: UnwindSafe; not Send Sync,
        DeltaFifo<Unshared, Value>: UnwindSafe; not Send Sync,
        MutexDeltaFifo<Key, Unshared>: UnwindSafe; not Send Sync,
        MutexDeltaFifo<Key, Local>: UnwindSafe; not Send Sync,
        MutexDeltaFifo<Unshared, Value>: UnwindSafe; not Send Sync,
        // A hasher too.
        DeltaFifo<Key, Value, Local>: UnwindSafe; not Send Sync,
        MutexDeltaFifo<Key, Value, Local>: UnwindSafe; not Send Sync,
        FifoSnapshot<Key, Unshared, RandomState>: Unpin; not Send Sync UnwindSafe RefUnwindSafe,
        FifoSnapshot<Key, Local, RandomState>: Unpin; not Send Sync,
        FifoSnapshot<Unshared, Value, RandomState>: Unpin; not Send Sync UnwindSafe RefUnwindSafe,
        FifoSnapshot<Key, Value, Local>: Unpin; not Send Sync,
        MutexSnapshot<Key, Unshared, RandomState>: Unpin; not Send Sync UnwindSafe RefUnwindSafe,
        MutexSnapshot<Key, Local, RandomState>: Unpin; not Send Sync,
        MutexSnapshot<Unshared, Value, RandomState>: Unpin; not Send Sync UnwindSafe RefUnwindSafe,
        FifoKnown<'static, Key, Unshared, RandomState>: Unpin; not Send Sync,
        MutexKnown<'static, Key, Unshared, RandomState>: Unpin; not Send Sync,
        Published<Key, Unshared, RandomState>: Unpin; not Send Sync,
        KnownObject<Key, Unshared>: Unpin; not Send Sync UnwindSafe RefUnwindSafe,
        KnownObject<Key, Local>: Unpin; not Send Sync,
        KnownObject<Unshared, Value>: Unpin; not Send Sync UnwindSafe RefUnwindSafe,
        KnownKey<Unshared>: Unpin; not Send Sync UnwindSafe RefUnwindSafe,
        KnownChange<Key, Unshared>: Unpin; not Send Sync,
        Deltas<'static, Key, Unshared>: Unpin; not Send Sync UnwindSafe RefUnwindSafe,
        DeltasIter<'static, Key, Unshared>: Unpin; not Send Sync,
        Delta<'static, Key, Unshared>: Unpin; not Send Sync UnwindSafe RefUnwindSafe,
        Tombstone<'static, Key, Unshared>: Unpin; not Send Sync,
        // These own what is in them.
        Change<Key, Unshared>: Send Unpin UnwindSafe; not Sync RefUnwindSafe,
        Change<Key, Local>: Unpin; not Send Sync,
        ChangeError<Key, Unshared>: Send Unpin; not Sync,
        UpsertError<Key, Local>: Unpin; not Send Sync,
    }
}

#[test]
fn of_errors_and_small_things() {
    traits! {
        ChangeError<Key, Value>: Send Sync Unpin,
        ChangeAllError<Key, Value>: Send Sync Unpin,
        ReplaceError<Key, Value>: Send Sync Unpin,
        UpsertError<Key, Value>: Send Sync Unpin,
        ResyncKeyError<Key>: Send Sync Unpin,
        KeyedError<Value>: Send Sync Unpin,
        KeyedReplaceError<Value>: Send Sync Unpin,
        KeyOf<'static, Key, Value>: Send Sync Unpin,
        KeyOfError: Send Sync Unpin,
        // Only a hook sees it, while it runs.
        ErrorEvent<'static, Key>: Unpin; not Send Sync,
        ResyncError: Send Sync Unpin,
        CommitError: Send Sync Unpin,
        BeginReplaceError: Send Sync Unpin UnwindSafe RefUnwindSafe,
        MarkError: Send Sync Unpin UnwindSafe RefUnwindSafe,
        OtherQueueError: Send Sync Unpin UnwindSafe RefUnwindSafe,
        Closed: Send Sync Unpin UnwindSafe RefUnwindSafe,
        TryPopError: Send Sync Unpin UnwindSafe RefUnwindSafe,
        PopTimeoutError: Send Sync Unpin UnwindSafe RefUnwindSafe,
        WaitError: Send Sync Unpin UnwindSafe RefUnwindSafe,
        Version: Send Sync Unpin UnwindSafe RefUnwindSafe,
        Outcome: Send Sync Unpin UnwindSafe RefUnwindSafe,
        Upsert: Send Sync Unpin UnwindSafe RefUnwindSafe,
        Discarded: Send Sync Unpin UnwindSafe RefUnwindSafe,
        Compression: Send Sync Unpin UnwindSafe RefUnwindSafe,
        Backoff: Send Sync Unpin,
    }
}

#[cfg(feature = "async")]
#[test]
fn of_streams() {
    use delta_fifo::Leases;
    traits! {
        Leases<'static, Sharded>: Send Unpin,
        Leases<'static, Mutexed>: Send Unpin,
    }
}

/// Futures may wait on any thread of an executor.
#[test]
fn of_futures() {
    use delta_fifo::DeltaQueue;
    fn send<T: Send>(_: T) {}
    fn all<Q: DeltaQueue<Key = Key, Value = Value> + 'static>(queue: Q) {
        let queue = std::sync::Arc::new(queue);
        send(queue.pop_async());
        send(queue.pop_async_owned());
        send(queue.pop_batch_async(2));
        send(queue.wait_synced_async());
        send(queue.mark(1_u64).map(|mark| async move { mark.wait_async().await }));
        send(queue.close_and_wait_async());
    }
    all(Sharded::new());
    all(Mutexed::new());
}
