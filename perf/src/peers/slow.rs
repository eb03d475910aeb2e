//! A queue whose handlers take time: they sleep at the end of each lease's handling, before the lease ends.

use std::thread;
use std::time::Duration;

use super::{Handler, Kind, Peer};
use crate::workload::{Key, Object};

pub struct Slow<P> {
    inner: P,
    handler: Duration,
}

impl<P> Slow<P> {
    pub fn of(inner: P, handler: Duration) -> Self {
        Self { inner, handler }
    }
}

struct Sleeping<'h, H> {
    inner: &'h mut H,
    time: Duration,
}

impl<H: Handler> Handler for Sleeping<'_, H> {
    fn lease<'d>(&mut self, key: &Key, deltas: impl Iterator<Item = (Kind, &'d Object)>) {
        self.inner.lease(key, deltas);
        thread::sleep(self.time);
    }
}

impl<P: Peer> Peer for Slow<P> {
    type Scratch = P::Scratch;

    fn new() -> Self {
        Self::of(P::new(), Duration::ZERO)
    }

    fn add(&self, key: Key, object: Object) {
        self.inner.add(key, object);
    }

    fn update(&self, key: Key, object: Object) {
        self.inner.update(key, object);
    }

    fn delete(&self, key: Key, object: Object) {
        self.inner.delete(key, object);
    }

    fn update_all(&self, batch: &mut Vec<(Key, Object)>, scratch: &mut Self::Scratch) {
        self.inner.update_all(batch, scratch);
    }

    fn pop(&self, handler: &mut impl Handler) -> bool {
        self.inner.pop(&mut Sleeping { inner: handler, time: self.handler })
    }

    fn pop_batch(&self, max: usize, handler: &mut impl Handler, scratch: &mut Self::Scratch) -> usize {
        self.inner.pop_batch(max, &mut Sleeping { inner: handler, time: self.handler }, scratch)
    }

    fn close(&self) {
        self.inner.close();
    }

    fn get_with<R>(&self, key: &Key, f: impl FnOnce(&Object) -> R) -> Option<R> {
        self.inner.get_with(key, f)
    }

    fn known_len(&self) -> usize {
        self.inner.known_len()
    }

    fn pending_len(&self) -> usize {
        self.inner.pending_len()
    }

    fn leased_len(&self) -> usize {
        self.inner.leased_len()
    }

    fn merged(&self) -> u64 {
        self.inner.merged()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;
    use crate::peers::Parking;
    use crate::workload::{Case, KeySet, windowed};

    #[test]
    fn handlers_take_their_time() {
        let case = Case {
            producers: 1,
            consumers: 2,
            batch: 1,
            changes: 40,
            patience: Duration::from_secs(20),
            parts: crate::workload::Parts::default(),
        };
        let (queue, began) = (Slow::of(Parking::new(), Duration::from_millis(1)), Instant::now());
        let outcome = windowed::run(&queue, &case, &KeySet::new(20, 1));
        assert_eq!(outcome.violations, [""; 0]);
        assert!(began.elapsed() >= Duration::from_millis(30), "{:?}", began.elapsed());
    }
}
