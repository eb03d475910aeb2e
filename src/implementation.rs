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
//! 2·*n* + 1, and a key's number only rises. An object of the list keeps off at 2·*n* + 1 and above, the sweep at
//! 2·*n* and above. The number must outlive the key's object while a replace is open that may ask for it: so a key that is deleted
//! stays in the table until then.
//!
//! # First sync and handles
//!
//! Each replace counts the keys (the sharded queue: the facts) that it touched and that are not completed; in the mutex queue a
//! key that is pending twice is counted once; a requeue carries the debt along. `has_synced` is the first such count at zero, a handle that is waited for is another.
//! A count that nobody can ask for any more is dropped, so that relists without consumers cost no memory.
//!
//! # Marks
//!
//! A key remembers the newest mark at the time of its oldest uncompleted delta. In the mutex queue keys are counted in
//! buckets by that number, and the first bucket with a key in it is as far as processing got: O(1) to ask. In the sharded
//! queue a query takes the lowest number of all entries.
//!
//! # The mutex queue and user code
//!
//! What a step under the lock removes is collected, and dropped when the lock is free, as is whom to wake. Async wakers
//! are called outside the lock of `event-listener` too, which only knows wakers of this crate: its own calls run under
//! its lock, and a panicking one left its counts wrong (5.4.2).
//!
//! # Sharded queue: data flow
//!
//! ```text
//!  producer                                                                          consumer
//!   fact ─▶ cell of the pool ─▶ word of the key's entry ─▶ handle ─▶ one line ─▶ lease: takes all facts, resolves them
//!           (object and head)   (in its shard's table)                            ─▶ version of the entry: the known object
//! ```
//!
//! A key has one *entry* while it is pending, leased or known, in the table of its shard, which its hash chooses. All that
//! happens to it is one compare-and-swap of its 64-bit word: state, generation, newest fact. So two calls meet on one word
//! only if they are about one key. The line is one for all shards (or several, `Builder::lines`), and what stands in it are handles, which are good as long as
//! the word's generation is theirs. Whoever finds a key on its way into the line puts it there too, before it returns: that
//! is all the help there is, and what it takes for an accepted change not to depend on the thread that made its key pending.
//!
//! # Sharded queue: linearization points
//!
//! - A change: the compare-and-swap that puts its fact on the word; of a key without an entry, the insertion into the table;
//!   of one that is merged into the newest fact without a trace, the load that finds this fact still newest. A deletion of nothing, or an item that a newer change keeps off: the load of the word that said so, or the
//!   search that found no entry.
//! - A place in line: the fetch-and-add that reserves the cell; of a key with two places (E4), that of the one by which it is leased. The order of
//!   the line and the contents of a key are two things.
//! - A pop: which key, where the line is popped; its contents, the compare-and-swap to Leased; what is known, the swap of
//!   the entry's version. All before it returns.
//! - The end of a lease: the compare-and-swap that leaves Leased.
//! - `get`: the second load of the version, which found the object still there; of nothing, the load that said so.
//! - A snapshot: the exchange that ends its epoch. The version that a pop installs is in it if its stamp is not later.
//! - A replace begins where its number is shown; each item and tombstone is a change of its own. First syncs and
//!   completions: see `fifo/replaces.rs`. A mark: the swap of the newest number.
//! - A close: the swap of the flag. A change that had read the flag before is accepted, and is handed out before `Closed`.
//!
//! # Sharded queue: ordering pairs
//!
//! | who publishes | who acquires | what |
//! |---|---|---|
//! | compare-and-swap of the word (AcqRel) | load of the word | facts, what was given back, the holder's part, numbers |
//! | fill of a cell of the line (Release) | pop (Acquire) | that the word has come so far |
//! | push, then fence, then look for sleepers | register, then fence, then look | one of the two sees the other |
//! | an entry comes to rest for a replace's sake, fence, open replaces | end of a replace, fence, such entries | one of the two retires it |
//! | install of a version, fence, current epoch | end of an epoch, fence, reads of versions | the version is of a later epoch, or the snapshot sees it |
//! | a snapshot's watch is on, then its epoch ends (AcqRel) | the current epoch is read (Acquire), then the watches on those before | that the version before is needed |
//! | a watch is taken off (Release) | the watches are read (Acquire) | that all is done with what it showed |
//! | a version is put in the list of a watch, fence, look at the watch | a watch is taken off, fence, look at its list | one of the two looks at the version |
//! | end of a lease, fence, look for watchers | watcher registers, fence, looks | no wait is left behind |
//! | the flag of a close, then a grace period | a guard, then a load of the flag | after the grace period nobody accepts anything |
//!
//! Total orders come from fences alone. On x86 a fence right after a locked instruction costs nothing (`fence_after_rmw`).
//!
//! # Sharded queue: reclamation
//!
//! Entries and the cells of objects are *type-stable*: their slots are recycled and their memory stays until the queue goes, so a stale index is no
//! dangling pointer, and what a late reader finds is checked by the word or the version that led there.
//!
//! - *Objects* are counted. A reader takes a reference first and then looks whether the cell is still what it meant (*hold and
//!   check*), so an object goes when its last holder goes, and no grace period stands in between.
//! - *Entries* go through a limbo with a grace period before the table lets go of them, since it is walked through them and
//!   their keys are read by reference. An entry is counted too: it is the cell of its key, which handles of known objects share.
//! - *Segments of the line* are type-stable too, and used again at once: every number in one says of which of its lives it is, so that what a
//!   late caller does by an older one fails. No grace period, no guard, and no call of the allocator while the line is no longer than
//!   it was before.
//! - Nodes of the ordered maps are freed by the epoch collector: one for this crate alone, so that no other crate's garbage runs in a
//!   producer's call.
//!
//! # Sharded queue: versions and snapshots
//!
//! What is known of a key is a chain of versions, newest first, after Wei, Ben-David, Blelloch, Fatourou, Ruppert and Sun, *Constant-Time
//! Snapshots with Applications to Concurrent Data Structures* (PPoPP 2021). A version is the cell of its object; its stamp and its
//! link stand where the fact had what nobody asks for once it is resolved, so a version costs no memory of its own. It is installed
//! without a stamp, which whoever meets it first gives it: the current epoch. A snapshot ends the current epoch and keeps its
//! number; of each key it shows the first version whose stamp is not later.
//!
//! Old versions are kept for snapshots that are there, and for no other reason. The installer stamps its version, and then asks
//! whether anybody watches an epoch from the old version's on and before the new one's. Whoever might has a watch from before that epoch
//! ended, so the question needs no fence, and has one answer for ever: a version that is not needed will never be. Where no
//! snapshot is there it costs a look at a counter beside the epoch; the old version is then taken off by a store, as the link to
//! it is the installer's until it has decided.
//!
//! Others are taken out later, by whoever comes first: the key's next lease, or who looks after what snapshots have left: each version that
//! stays stands in the list of one snapshot that shows it (`fifo/kept.rs`), linked through its own cell, and moves to another one's when
//! that ends. So no more is looked at than what the one that has ended has shown, however many others there are. Taking out is removal
//! from the middle of a list, after Harris: mark, then unlink. Readers pass over what is marked, and check the last link before it; they
//! hold what they look at on the way by its count of references, so no grace period is needed. What an epoch shows that a reader
//! watches stays, and is not held: its stamp says that it is that (`fifo/version.rs`, V7).
//!
//! A key of which nothing is known stays in its table as long as a snapshot shows an older version, as it does for an open replace.
//!
//! # Sharded queue: who drops what
//!
//! What a step under a guard takes away is the user's: it is collected and dropped when the guard is gone. Producers hand what they merge
//! away to the shard's dead stack, which consumers bury; so a producer runs no destructor, unless nobody consumes (64). Keys are dropped by
//! the consumer that recycles their slots. The queue's own drop drops everything that is left, each value by itself, so that a panic of one
//! keeps none of the others.
//!
//! # Sharded queue: structure by measurement
//!
//! Two structures were built in full, with leases, generations, replace numbers and all tests, and measured in the same harness:
//!
//! - *Two tables*: entries for pending and leased keys, few and recycled, and records for known objects, which only consumers
//!   touch. A producer's call costs less (310 ns against 500, one thread, 100,000 keys), a pop with its `done` far more (1,400
//!   against 400): whatever is cold falls to the consumer, who looks a key up twice, makes and unlinks an entry for each pass, and
//!   moves its key between the two. As a pipeline it took 1,270 ns for each change with the system's allocator, 1,103 with mimalloc.
//! - *One entry for each key*, which stays as long as the key is known: this one. It took 427 and 392 ns on the same machine. It needs one
//!   table, one state more, and none of what two tables need: a look at the record between search and insertion, facts that are
//!   made void afterwards, a tombstone that may come to nothing, an order of looks in sweeps and deletions.
//!
//! That comparison was of two structures that both spent three times the instructions of their rivals, which hid what the memory does. With
//! the instructions gone, what is left of a producer's call with 100,000 known keys is a bucket and an entry that are far, one after
//! the other: some 90 ns of 300. Who looks up pending keys alone, as the mutex shards do, does not wait for them; two tables would not
//! either.
//!
//! What a call touches of a key lies in one line of 64 bytes (word, links of the table, version, key); the rest beside it, in 24 bytes
//! that marks, replaces and delays touch. Links and orders of the table have 32 bits, and a cell has no memory that leads to its
//! pool, as its address does. Before, an entry took 128 bytes, the head of an object 48 (32 now), a bucket 8 (4 now): producers take 12 to 17 %
//! less time since, pops 6 % more (one thread at a time, 100,000 keys).
//!
//! What made the difference besides:
//!
//! - free slots in two lists, one to take from and one to give to: producer and consumer no longer pass one head to and fro;
//! - prefetching: the bucket as soon as the hash is known, then the entry, in batches all of them first; a pop asks for the entry
//!   of the fourth key behind it, and for the objects of the next;
//! - a lease of 110 bytes that is moved little, lends its key and its newest object, and takes a fact that stands alone by a
//!   short way (a pop with its `done` in cache: 335 ns before, 222 after);
//! - the end of a lease that leaves the key at rest needs no guard;
//! - giving way three times before a sleep: woken threads often run on the core of who woke them, where each then sleeps and
//!   wakes for each item: 650,000 context switches in a run became 30,000.
//!
//! # Sharded queue: what a change costs
//!
//! Instructions for each call with 1,000 known keys, by `cargo bench --bench track`, before and after they were looked for: `update` 1,485
//! and 973, `pop` 1,870 and 974, `done` 759 and 436. With them W1 (1,1) at 1,000 keys went from 345 ns to 156, at
//! 100,000 from 473 to 305 (interleaved builds, one machine, system's allocator). What was there to be found:
//!
//! - A lease of 128 bytes was moved thirteen times from where it was made to where it ended: calls are inlined where they hand on the same
//!   value, and what is rare stands in cold functions. An object is moved once, into its cell, and not five times.
//! - An index was looked up where a reference was at hand: fourteen times in a pop, at 25 instructions; now eight times at 16 (one
//!   multiplication in place of a division, one comparison in place of a logarithm).
//! - A pop needs no guard: up to its exchange it looks at the word alone (E6).
//! - The mark behind the push of a handle made the entry's line go to and fro once more for each change; now it is set only by
//!   who helps (E4). A key that changes again while it is on its way into the line has two handles for that.
//! - A replace no longer sweeps what it has placed: that was one more search, a draft, a debt that was taken back at once, and a second
//!   handle in the line for each item, in case somebody had stopped before the first. The newest fact says that the replace itself has placed
//!   it, and so put it in line. With items in stretches of 32, as changes are: 2,917 instructions for an item before, 1,695 after, and a line
//!   half as long.
//! - What will be written is asked for to be written (`prefetchw`): a line that was asked for to be read is asked for twice. 170 to 156 ns.
//!
//! # Sharded queue: alternatives
//!
//! - *A closed bit in every word and every link* seals without waiting for calls that are under way, at the price of a pass over all
//!   entries and a rule in every step. A grace period costs producers one load.
//! - *The number of the newest replace in the word alone* dies with the entry; raised after a lease has begun, it comes too late
//!   for a replace that looks in between. It is kept beside the word, and raised before.
//! - *A deletion that is merged into an older one by raising that one's number* spoke before it was decided: if the fact was taken meanwhile the
//!   number stayed, and an item that had been placed was thrown away by the lease. What is published is not changed; a deletion with a newer number is put on
//!   top, and merged by the lease. That also took a fence, a number that every lease kept, and eight bytes off every key.
//! - *A generation beside the word* lets a thread that goes on late mark a key as in line that is not (a test shows it).
//! - *Marking a key as in line before the wake-up* leaves a sleeper asleep if the thread stops in between.
//! - *Moving a key to the first line under a new generation* leaves it in no line if the mover stops. Both handles stay good.
//! - *crossbeam's `SegQueue`*: a stopped pusher holds up poppers, and at a block's end all pushers. The keys of pops that were undone stand in
//!   a line of this crate's for the same reason.
//! - *An object freed at `done`* may be lent, known and given back at once: hence the count.
//! - *Helping a consumer that is stopped in `done`* works, with a cell where it announces itself, and is not worth its price: its key
//!   counts as leased.
//! - *Trimming under a right of its own*, a lock that is only tried, is shorter than taking a version out from between others, but a
//!   thread that is stopped with the right lets a key that changes often keep all its versions. *Trimming by a lease* makes resyncs
//!   and sweeps take a key for leased that is not.
//! - *One line for all keys with older versions*, looked through whichever snapshot ends: beside one that is held 2,560 ns for each write with a
//!   snapshot every 64 writes, 630 with a list for each. *An ordered map of watched epochs*: 70 ns for a snapshot, 30 with slots. *Holding each
//!   object that a scan looks at*: 18 ns for each, 5 without. *Leaving all that a snapshot has shown to consumers*: 736 ns for a write
//!   beside a reader, 630 if its drop looks at 256.
//! - *A copy-on-write tree* behind one pointer: writes cost two to fourteen times as much (measured in Go).
//! - *A load factor of a half* makes ways shorter and the arrays of buckets longer: no gain. *Chunks of slots that double*: none
//!   either.
//!
//! # The parts of the lock-free queue
//!
//! Each file begins with its invariants, and is modelled or tested by itself.
//!
//! - *The line of keys*: a fetch-and-add array queue after Ramalhete and Correia (*FAAArrayQueue*, 2016). Departures: a
//!   popper claims by a CAS after it has read a filled or poisoned cell, so it never owns a cell that may be filled
//!   later; `last` is moved off a segment before `first` leaves it, without which `last` can end in a segment that is
//!   used again (a model shows it); segments are recycled by lives instead of hazard pointers.
//! - *The sleepers*: an eventcount with waiter cells, blocking and async in one, no lock and no user code in anybody's
//!   wake. Both sides use fences, which loom judges correctly, where it does not judge `SeqCst` accesses so.
//! - *The tables*: split-ordered lists after Shalev and Shavit, removal after Harris and Michael; nodes are slots of a slab.
//! - *Delays and replaces*: crossbeam's skip list, on this crate's collector.
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
