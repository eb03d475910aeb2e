//! How it works inside, and what was tried. Prose only.
//!
//! # Facts, and who resolves them
//!
//! A producer appends a *fact*: a kind, and an object if it has one. Whoever leases the key has it to itself, so everything
//! that needs several facts together is decided there, by one pure function: `Added` or `Updated` for an `apply`, the
//! object of a tombstone and of a `Sync` (that of the delta before it, else the known one), the joint where deltas that
//! were given back meet newer ones. Facts are merged when they are appended, by the same rule that merges at the joint.
//! A deletion that absorbed live deltas remembers it: at the joint it is newer than a deletion before it, which would
//! win otherwise.
//!
//! # A change that is newer than a list
//!
//! Replaces are numbered. What replace *n* appends is settled with 2·*n*, a change that is made after it began with
//! 2·*n* + 1, and an entry's number only rises. An object of the list keeps off at 2·*n* + 1 and above, the sweep at
//! 2·*n* and above. The number must outlive the entry while a replace is open: it is kept in the record of the known
//! object, or in one that stands for a key that is gone.
//!
//! # First sync and handles
//!
//! Each replace counts the keys it touched and that are not completed; a key that is pending twice is counted once, and a
//! requeue carries the debt along. `has_synced` is the first such count at zero, a handle that is waited for is another.
//! A count that nobody can ask for any more is dropped, so that relists without consumers cost no memory.
//!
//! # Marks
//!
//! A key remembers the newest mark at the time of its oldest uncompleted delta; keys are counted in buckets by that
//! number, and the first bucket with a key in it is as far as processing got: O(1) to ask.
//!
//! # The mutex queue and user code
//!
//! What a step under the lock removes is collected, and dropped when the lock is free, as is whom to wake. Async wakers
//! are called outside the lock of `event-listener` too, which only knows wakers of this crate: its own calls run under
//! its lock, and a panicking one left its counts wrong (5.4.2).
//!
//! # The parts of a lock-free queue
//!
//! Two stand in the source and are tested, and no queue uses them yet; each file begins with its invariants.
//!
//! - *The line of keys*: a fetch-and-add array queue after Ramalhete and Correia (*FAAArrayQueue*, 2016). Departures: a
//!   popper claims by a CAS after it has read a filled or poisoned cell, so it never owns a cell that may be filled
//!   later; `last` is moved off a segment before `first` leaves it, without which a pusher can reach freed memory
//!   (a model shows it).
//! - *The sleepers*: an eventcount with waiter cells, blocking and async in one, no lock and no user code in anybody's
//!   wake. Both sides use fences, which loom judges correctly, where it does not judge `SeqCst` accesses so.
//!
//! # Tried and dropped
//!
//! Ratios are medians of interleaved blocks on a busy machine with two cores: directions, not sizes.
//!
//! - Line of keys: strided cells, a cached hint of the push index, segments of 256 and of 4,096 cells: no gain above noise.
//!   Against `SegQueue` the line takes 1.0 to 1.3 of the time one by one with a pin for each operation, 0.7 to 0.9 with
//!   one pin for a batch, 0.2 to 0.4 in batches of 32.
//! - Sleepers: spinning that is not muted when it was in vain made round trips 38 times slower than parking under load;
//!   yielding instead of spinning 3 to 4 times.
//! - Mutex queue: a wake-up on a condition variable at every end of a lease costs a system call even if nobody sleeps;
//!   sleepers are counted instead.
