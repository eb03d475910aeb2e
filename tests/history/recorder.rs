//! Writes down what threads call and what they are answered, with moments of one clock.

use super::door::{AtomicU64, Mutex, Ordering};

/// A call of the clock: no two are the same.
pub(crate) type Tick = u64;

#[derive(Clone, Debug)]
pub(crate) struct Record<C, A> {
    pub(crate) thread: usize,
    pub(crate) call: C,
    pub(crate) called: Tick,
    /// None if it has not returned by the end of the history: then it may take place at any time, or not at all.
    pub(crate) returned: Option<Tick>,
    /// What it is answered, if that is known.
    pub(crate) answer: Option<A>,
}

pub(crate) struct Recorder<C, A> {
    clock: AtomicU64,
    records: Mutex<Vec<Record<C, A>>>,
}

impl<C: Clone, A> Recorder<C, A> {
    pub(crate) fn new() -> Self {
        Recorder { clock: AtomicU64::new(1), records: Mutex::new(Vec::new()) }
    }

    pub(crate) fn log(&self, thread: usize) -> Log<'_, C, A> {
        Log { recorder: self, thread, records: Vec::new() }
    }

    fn tick(&self) -> Tick {
        // SeqCst: the clock has no part in what it watches but this.
        self.clock.fetch_add(1, Ordering::SeqCst)
    }

    /// All calls, in the order in which they began. Every log is dropped.
    pub(crate) fn into_history(self) -> Vec<Record<C, A>> {
        let mut records = self.records.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner());
        records.sort_by_key(|record| record.called);
        records
    }
}

/// One thread's calls. A call that panics stays without an answer.
pub(crate) struct Log<'r, C: Clone, A> {
    recorder: &'r Recorder<C, A>,
    thread: usize,
    records: Vec<Record<C, A>>,
}

impl<C: Clone, A> Log<'_, C, A> {
    /// Runs `f`, which makes the call, and splits what it says into the answer and the rest.
    pub(crate) fn call<T>(&mut self, call: C, f: impl FnOnce() -> (A, T)) -> T {
        let called = self.recorder.tick();
        self.records.push(Record { thread: self.thread, call, called, returned: None, answer: None });
        let (answer, rest) = f();
        let returned = self.recorder.tick();
        let record = self.records.last_mut().expect("just put there");
        (record.returned, record.answer) = (Some(returned), Some(answer));
        rest
    }
}

impl<C: Clone, A> Drop for Log<'_, C, A> {
    fn drop(&mut self) {
        let mut records = self.recorder.records.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        records.append(&mut self.records);
    }
}
