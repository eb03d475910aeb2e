//! kube-runtime as a queue: a stream of events goes into the store (`apply_watcher_event`), what has changed into the scheduler, and
//! whoever pops looks up in the store what the scheduler hands out. One consumer: it is one task that does all of that.
//!
//! That is the way of its `Controller`, without the future, the span and the place in a table that it makes for each object.
//! The scheduler goes by milliseconds: nothing is handed out before the next one has begun.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use delta_fifo_perf::peers::{Handler, Kind, Peer};
use delta_fifo_perf::workload::{Key, Object};
use futures::channel::mpsc::{self, UnboundedSender};
use futures::{Stream, StreamExt};
use kube_runtime::reflector::store::{Store as Reader, Writer};
use kube_runtime::reflector::{Lookup, ObjectRef};
use kube_runtime::scheduler::{ScheduleRequest, Scheduler, scheduler};
use kube_runtime::watcher::Event;
use parking_lot::Mutex;
use tokio::runtime::{Builder, Runtime};
use tokio::time::Instant;

use crate::{Named, split};

type Changed = ObjectRef<Named>;
type Requests = Pin<Box<dyn Stream<Item = ScheduleRequest<Changed>> + Send>>;

pub(crate) struct Queue {
    events: UnboundedSender<Event<Named>>,
    changed: Mutex<Pin<Box<Scheduler<Changed, Requests>>>>,
    reader: Reader<Named>,
    /// Of the one consumer.
    runtime: Runtime,
}

impl Queue {
    fn send(&self, key: Key, object: Object) {
        self.events.unbounded_send(Event::Apply(Named { key, object })).expect("it is open");
    }

    fn next(&self) -> Option<Changed> {
        let mut changed = self.changed.lock();
        // The runtime is asked only when there is nothing: that is where its clock is.
        let at_once = {
            let _entered = self.runtime.enter();
            changed.as_mut().poll_next(&mut Context::from_waker(Waker::noop()))
        };
        match at_once {
            Poll::Ready(next) => next,
            Poll::Pending => self.runtime.block_on(changed.next()),
        }
    }
}

impl Peer for Queue {
    type Scratch = ();

    fn new() -> Self {
        let runtime = Builder::new_current_thread().enable_time().build().expect("a runtime");
        let mut writer: Writer<Named> = Writer::new(());
        let reader = writer.as_reader();
        let (events, arrived) = mpsc::unbounded();
        let requests = arrived.filter_map(move |event| {
            writer.apply_watcher_event(&event);
            let changed = match &event {
                Event::Apply(named) => Some(named.to_object_ref(())),
                _ => None,
            };
            let request = changed.map(|message| ScheduleRequest { message, run_at: Instant::now() });
            std::future::ready(request)
        });
        let changed = {
            let _entered = runtime.enter();
            Mutex::new(Box::pin(scheduler(requests.boxed())))
        };
        Self { events, changed, reader, runtime }
    }

    fn add(&self, key: Key, object: Object) {
        self.send(key, object);
    }

    fn update(&self, key: Key, object: Object) {
        self.send(key, object);
    }

    fn delete(&self, key: Key, object: Object) {
        self.events.unbounded_send(Event::Delete(Named { key, object })).expect("it is open");
    }

    fn update_all(&self, batch: &mut Vec<(Key, Object)>, (): &mut ()) {
        batch.drain(..).for_each(|(key, object)| self.send(key, object));
    }

    fn pop(&self, handler: &mut impl Handler) -> bool {
        let Some(changed) = self.next() else { return false };
        let named: Option<Arc<Named>> = self.reader.get(&changed);
        let found = named.iter().map(|named| {
            // It tells nobody what has happened to an object.
            (if named.object.seq == 1 { Kind::Added } else { Kind::Updated }, &named.object)
        });
        match &named {
            Some(named) => handler.lease(&named.key, found),
            // An empty lease, which is found out.
            None => handler.lease(&changed.name.as_str().into(), found),
        }
        true
    }

    fn pop_batch(&self, _: usize, handler: &mut impl Handler, (): &mut ()) -> usize {
        usize::from(self.pop(handler))
    }

    fn close(&self) {
        self.events.close_channel();
    }

    fn get_with<R>(&self, key: &Key, f: impl FnOnce(&Object) -> R) -> Option<R> {
        let (namespace, name) = split(key);
        let named = self.reader.get(&ObjectRef::new(name).within(namespace))?;
        Some(f(&named.object))
    }

    fn known_len(&self) -> usize {
        self.reader.len()
    }

    /// Nothing that could be asked; the run has waited until all was handed out.
    fn pending_len(&self) -> usize {
        0
    }

    fn leased_len(&self) -> usize {
        0
    }

    /// The same: what it merged would be missing.
    fn merged(&self) -> u64 {
        0
    }
}
