//! Replaces, resyncs, merges, closes and known objects against pops and changes: the queue itself under loom, a few calls at
//! a time. Each model is named after what it shows, and has broken twins that show that it can see what it looks for.
//!
//! `RUSTFLAGS="--cfg delta_fifo_loom" cargo test --release --lib models_replace -- --nocapture` prints what each explored.
//!
//! Setting up and looking back are done by one thread, so they cost steps and no interleavings. One key, one shard.

mod close;
mod counts;
mod merge;
mod numbers;
mod objects;
mod rest;
mod sweep;

use std::collections::hash_map::DefaultHasher;
use std::hash::BuildHasherDefault;
use std::ops::Deref;
use std::sync::Arc;

use crate::builder::Builder;
use crate::delta::{Change, Compression, RawKind};
use crate::known::KnownView;
use crate::lease::Outcome;
use crate::queue::DeltaQueue;
use crate::raw::{BeginReplace, Ending, RawQueue};
use crate::replace::Upsert;
use crate::slab::Index;
use crate::sync::atomic::Ordering;
use crate::sync::epoch;
use crate::sync::thread::{JoinHandle, spawn};

use super::DeltaFifo;
use super::fact::Fact;
use super::panics::Panics;
use super::pop::Held;
use super::push::{Push, PushKey, Pushed};
use super::replace::Ticket;
use super::rules::Rule;

type Fifo = DeltaFifo<u8, u32, BuildHasherDefault<DefaultHasher>>;
type Build = Builder<u8, u32, BuildHasherDefault<DefaultHasher>>;

/// What leases handed out, in their order: kinds and objects.
type Log = Vec<(RawKind, Option<u32>)>;

const KEY: u8 = 0;

/// A queue. If its model has failed it is left alone, as taking it apart would fail again.
struct Model(Option<Fifo>);

impl Deref for Model {
    type Target = Fifo;

    fn deref(&self) -> &Fifo {
        self.0.as_ref().expect("it is there until it is dropped")
    }
}

impl Drop for Model {
    fn drop(&mut self) {
        if std::thread::panicking() {
            std::mem::forget(self.0.take());
        }
    }
}

impl Model {
    fn new() -> Arc<Self> {
        Self::with(Compression::default())
    }

    fn with(compression: Compression) -> Arc<Self> {
        Self::built(|builder| builder.compression(compression))
    }

    /// Which keeps no known objects.
    fn blind() -> Arc<Self> {
        Self::built(Builder::no_known_objects)
    }

    fn built(how: impl FnOnce(Build) -> Build) -> Arc<Self> {
        let builder = Builder::with_hasher(BuildHasherDefault::default()).shards(1);
        Arc::new(Model(Some(how(builder).build())))
    }

    /// With an object that is known.
    fn knowing(object: u32) -> Arc<Self> {
        let queue = Self::new();
        queue.add_one(object);
        queue.pop_one();
        queue
    }

    /// Does something on a thread of its own.
    fn spawn<T: 'static>(self: &Arc<Self>, f: impl FnOnce(&Model) -> T + 'static) -> JoinHandle<T> {
        let queue = Arc::clone(self);
        spawn(move || f(&queue))
    }

    fn offer_change(&self, change: Change<u8, u32>) {
        self.change_one(change).ok().expect("it is not closed");
    }

    fn add_one(&self, object: u32) {
        self.offer_change(Change::Add(KEY, object));
    }

    fn update_one(&self, object: u32) {
        self.offer_change(Change::Update(KEY, object));
    }

    fn delete_one(&self, object: u32) {
        self.offer_change(Change::Delete(KEY, object));
    }

    /// An update of a producer that read the number of the newest replace some time ago.
    fn update_late(&self, object: u32, newest: u64) {
        let (mut key, mut value, hash) = (Some(KEY), None, self.hash(&KEY));
        let guard = epoch::pin();
        let mut push = Push {
            shard: 0,
            hash,
            key: PushKey::Callers(&mut key),
            fact: Fact::change(RawKind::Updated, newest),
            rule: Rule::Always,
            since: 0,
            cell: Some(self.core.shards[0].objects.draft(Some(object))),
            value: &mut value,
            wanted: true,
        };
        match self.push(&mut push, &guard) {
            Pushed::Done { link: Some(link), .. } => self.link(link, &guard),
            Pushed::Done { .. } => {}
            Pushed::AskStore => unreachable!("it is no deletion"),
        }
    }

    fn begin_one(&self) -> Ticket {
        self.begin(BeginReplace { scope: None, streaming: true, wait: false }).expect("no other is open")
    }

    fn upsert(&self, ticket: &Ticket, object: u32) -> Upsert {
        self.upsert_one(ticket, KEY, object, true).ok().expect("it is not cut")
    }

    /// All of a commit but its end.
    fn sweep_all(&self, ticket: &Ticket) {
        let sweep = self.prepare_sweep(&ticket.0).expect("no store is asked");
        self.sweep(&ticket.0, sweep, &mut Panics::default());
    }

    fn commit(&self, ticket: Ticket) {
        self.commit_streamed(ticket).expect("it is not cut");
    }

    fn finish_one(&self, held: Held<u8, u32>, log: &mut Log) {
        log.extend(held.deltas.iter().map(|delta| (delta.kind, delta.object.as_deref().copied())));
        self.end_one(held, Ending::By(Outcome::Done));
    }

    /// What one key in line was handed out with; nothing if there is none.
    fn pop_one(&self) -> Log {
        let mut log = Log::new();
        if let Some(held) = self.take(1, 0).pop() {
            self.finish_one(held, &mut log);
        }
        log
    }

    /// The same until there is nothing left.
    fn drain(&self, mut log: Log) -> Log {
        while let Some(held) = self.take(1, 0).pop() {
            self.finish_one(held, &mut log);
        }
        assert_eq!((self.pending_len(), self.leased_len()), (0, 0), "counted wrong, or lost");
        log
    }

    /// The key's entry, and how many are kept for the sake of replaces.
    fn left_behind(&self) -> (Option<Index>, usize) {
        let shard = &self.core.shards[0];
        let guard = epoch::pin();
        let entry = shard.find_entry(self.hash(&KEY), &KEY, &guard).map(|entry| entry.index());
        // Relaxed: the others are joined.
        (entry, shard.asked.load(Ordering::Relaxed))
    }

    fn known_one(&self) -> Option<u32> {
        self.known_view().get(&KEY)
    }
}
