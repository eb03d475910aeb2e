//! One call, made on the queue and on the model; the answers are compared.

use std::sync::mpsc;
use std::time::Instant;

use super::*;

impl<'q, Q: DeltaQueue<Key = u8, Value = u32, Hasher = ahash::RandomState> + 'static> Driver<'q, Q> {
    /// A new object, which the transform rejects if it is bad.
    fn object(&mut self, bad: bool) -> u32 {
        self.value += 1;
        self.value * 10 + if bad { BAD } else { 0 }
    }

    fn make(&mut self, kind: Kind, key: u8, bad: bool) -> Change<u8, u32> {
        let value = self.object(bad);
        match kind {
            Kind::Add => Change::Add(key, value),
            Kind::Update => Change::Update(key, value),
            Kind::Apply => Change::Apply(key, value),
            Kind::Delete => Change::Delete(key, value),
            Kind::DeleteKey => Change::DeleteKey(key),
        }
    }

    fn model_change(&mut self, change: &Change<u8, u32>) {
        let change = match change.clone() {
            Change::Add(key, value) => Change::Add(key, transformed(value)),
            Change::Update(key, value) => Change::Update(key, transformed(value)),
            Change::Apply(key, value) => Change::Apply(key, transformed(value)),
            Change::Delete(key, value) => Change::Delete(key, transformed(value)),
            Change::DeleteKey(key) => Change::DeleteKey(key),
        };
        self.model.change(&change);
    }

    pub(crate) fn run(&mut self, op: &Op) {
        let queue = self.queue;
        match *op {
            Op::Change(kind, key) => {
                let change = self.make(kind, key, false);
                let result = queue.change(change.clone());
                match result {
                    Ok(()) if !self.model.closed => self.model_change(&change),
                    Err(error) if self.model.closed => {
                        assert!(matches!(error.kind, ChangeErrorKind::Closed));
                        // An object has passed the transform by now, or not: that is not said.
                        assert_eq!(error.change.key(), change.key());
                    }
                    other => panic!("{other:?}"),
                }
            }
            Op::BadChange(kind, key) => {
                let change = self.make(kind, key, true);
                if change.value().is_some() && !self.model.closed {
                    let error = queue.change(change.clone()).unwrap_err();
                    assert!(matches!(error.kind, ChangeErrorKind::Transform(_)));
                    assert_eq!(error.change, change);
                }
            }
            Op::ChangeAll(ref changes, bad) => self.change_all(changes, bad),
            Op::Replace(scope, ref keys) => self.replace(scope, keys, None),
            Op::BadReplace(scope, ref keys) => self.replace(scope, keys, keys.len().checked_sub(1)),
            Op::Begin(scope) => {
                let scope = scope.filter(|_| self.config.scopes != Scopes::None);
                let begun = match scope {
                    None => queue.begin_replace(),
                    Some(scope) => queue.begin_replace_scope(SCOPES[scope]),
                };
                match begun {
                    Ok(replace) => {
                        assert!(!self.model.closed);
                        let number = self.model.begin(scope).expect("another one is in progress");
                        self.replaces.push((number, replace));
                    }
                    Err(BeginReplaceError::Closed) => assert!(self.model.closed),
                    Err(BeginReplaceError::ReplaceInProgress) => assert_eq!(self.model.begin(scope), None),
                    Err(other) => panic!("{other}"),
                }
            }
            Op::Upsert(which, key) => {
                let value = self.object(false);
                let Some((number, replace)) = self.replaces.get(which) else { return };
                let scope = self.model.scope(*number);
                match replace.upsert(key, value).map_err(|error| error.kind) {
                    Ok(upsert) => {
                        assert!(
                            self.model.is_open(*number) && scope.is_none_or(|scope| in_scope(scope, key))
                        );
                        let placed = self.model.upsert(*number, key, transformed(value));
                        assert_eq!(upsert == Upsert::Placed, placed, "upsert of {key}");
                    }
                    Err(UpsertErrorKind::OutOfScope(_)) => assert!(!in_scope(scope.unwrap(), key)),
                    Err(UpsertErrorKind::Closed) => assert!(!self.model.is_open(*number)),
                    Err(other) => panic!("{other:?}"),
                }
            }
            Op::Commit(which) if which < self.replaces.len() => {
                let (number, replace) = self.replaces.remove(which);
                match replace.commit() {
                    Ok(completion) => {
                        assert!(self.model.is_open(number));
                        self.model.commit(number);
                        self.completions.push((number, completion));
                    }
                    Err(error) => assert!(!self.model.is_open(number), "{error}"),
                }
            }
            Op::Abort(which) if which < self.replaces.len() => {
                let (number, replace) = self.replaces.remove(which);
                drop(replace);
                if self.model.is_open(number) {
                    self.model.abort(number);
                }
            }
            Op::Commit(_) | Op::Abort(_) => {}
            Op::Resync => match queue.resync() {
                Ok(count) => assert_eq!(count, self.model.resync(), "resync"),
                Err(ResyncError::Closed) => assert!(self.model.closed),
                Err(other) => panic!("{other}"),
            },
            Op::ResyncKey(key) => match queue.resync_key(key) {
                Ok(was) => assert_eq!(was, self.model.resync_key(key), "resync of {key}"),
                Err(_) => assert!(self.model.closed),
            },
            Op::Pop { owned } => match queue.try_pop() {
                Ok(lease) => {
                    let lease = if owned { lease.into_owned(queue) } else { lease };
                    self.check_lease(&lease);
                    self.leases.push(lease);
                }
                Err(error) => self.check_empty(error),
            },
            Op::PopBatch(max, ending) => match queue.try_pop_batch(max) {
                Ok(batch) => {
                    let expected = self.model.in_line().min(max);
                    assert_eq!(batch.len(), expected, "a batch is filled up from what is there");
                    batch.iter().for_each(|lease| self.check_lease(lease));
                    match ending.map(|ending| (ending, outcome(ending))) {
                        Some((ending, Some(outcome))) => {
                            batch.iter().for_each(|lease| self.model_end(*lease.key(), ending));
                            batch.end(outcome);
                        }
                        Some((_, None)) => {
                            let keys: Vec<u8> = batch.iter().map(|lease| *lease.key()).collect();
                            keys.into_iter().for_each(|key| self.model_end(key, Ending::Drop));
                            drop(batch);
                        }
                        None => self.leases.extend(batch),
                    }
                }
                Err(error) => self.check_empty(error),
            },
            Op::Process(ending) => {
                if self.model.in_line() > 0 {
                    let result = unless_it_hangs(&**queue, || {
                        queue.process(|lease| {
                            self.check_lease(lease);
                            self.model_end(*lease.key(), ending);
                            outcome(ending).unwrap_or_else(|| std::panic::resume_unwind(Box::new(Panicked)))
                        })
                    });
                    match result {
                        Ok(ended) => assert_eq!(ended.ok(), outcome(ending)),
                        Err(panic) if panic.is::<Panicked>() => assert_eq!(ending, Ending::Drop),
                        Err(panic) => std::panic::resume_unwind(panic),
                    }
                }
            }
            Op::End(which, ending) => {
                if which < self.leases.len() {
                    let lease = self.leases.remove(which);
                    self.model_end(*lease.key(), ending);
                    match (ending, outcome(ending)) {
                        (Ending::Done, _) => lease.done(),
                        (Ending::Requeue, _) => lease.requeue(),
                        (Ending::Backoff, _) => lease.requeue_with_backoff(),
                        (_, Some(outcome)) => lease.end(outcome),
                        (_, None) => drop(lease),
                    }
                }
            }
            Op::Mark => match queue.mark(self.model.marks + 1) {
                Ok(completion) => {
                    self.model.marks += 1;
                    self.marks.push((self.model.marks, completion));
                }
                Err(error) => {
                    assert!(self.model.closed);
                    assert_eq!(error.version, (self.model.marks + 1).into());
                }
            },
            Op::Snapshot => {
                if self.config.known != Known::Store {
                    self.snapshots.push((queue.snapshot(), self.model.known()));
                }
            }
            Op::Close => assert_eq!(queue.close(), self.model.close(), "close"),
            Op::CloseDiscard => {
                self.uncertain |= self.model.has_given_back();
                let discarded = queue.close_discard();
                let (keys, deltas) = self.model.close_discard();
                assert_eq!(discarded.keys, keys, "discarded keys");
                assert!(self.uncertain || discarded.deltas == deltas, "{discarded:?}, not {deltas} deltas");
            }
        }
        self.compare();
    }

    fn change_all(&mut self, changes: &[(Kind, u8)], bad: bool) {
        let last = changes.len().checked_sub(1).filter(|_| bad);
        let changes: Vec<_> = changes
            .iter()
            .enumerate()
            .map(|(index, &(kind, key))| self.make(kind, key, Some(index) == last))
            .collect();
        let rejected = last.filter(|&last| changes[last].value().is_some());
        match self.queue.change_all(changes.clone()) {
            Ok(()) => {
                assert!(rejected.is_none() && (!self.model.closed || changes.is_empty()));
                changes.iter().for_each(|change| self.model_change(change));
            }
            Err(error) => {
                assert_eq!(error.rest.len(), changes.len());
                match error.kind {
                    ChangeErrorKind::Closed => assert!(self.model.closed && error.index == 0),
                    ChangeErrorKind::Transform(_) => assert_eq!(Some(error.index), rejected),
                }
            }
        }
    }

    fn replace(&mut self, scope: Option<usize>, keys: &[u8], bad: Option<usize>) {
        let scope = scope.filter(|_| self.config.scopes != Scopes::None);
        let outside = keys.iter().position(|&key| scope.is_some_and(|scope| !in_scope(scope, key)));
        let items: Vec<_> =
            keys.iter().enumerate().map(|(index, &key)| (key, self.object(Some(index) == bad))).collect();
        let result = match scope {
            None => self.queue.replace(items.clone()),
            Some(scope) => self.queue.replace_scope(SCOPES[scope], items.clone()),
        };
        match result {
            Ok(completion) => {
                assert!(!self.model.closed && bad.is_none() && outside.is_none());
                let number = self.model.begin(scope).expect("another one is in progress");
                for (key, value) in items {
                    assert!(self.model.upsert(number, key, transformed(value)));
                }
                self.model.commit(number);
                self.completions.push((number, completion));
            }
            Err(error) => {
                assert_eq!(error.list.len(), items.len());
                match error.kind {
                    ReplaceErrorKind::Begin(BeginReplaceError::Closed) => assert!(self.model.closed),
                    ReplaceErrorKind::Begin(BeginReplaceError::ReplaceInProgress) => {
                        assert_eq!(self.model.begin(scope), None);
                    }
                    ReplaceErrorKind::Transform { index, .. } => assert_eq!(Some(index), bad),
                    ReplaceErrorKind::OutOfScope { index, .. } => assert_eq!(Some(index), outside),
                    other => panic!("{other:?}"),
                }
            }
        }
    }

    fn check_lease(&mut self, lease: &Lease<'_, Q>) {
        let Leased { deltas, attempts, previous, initial, .. } = self.model.pop(*lease.key());
        assert_eq!(facts(lease), deltas, "deltas of {}", lease.key());
        assert_eq!(lease.attempts(), attempts, "attempts of {}", lease.key());
        assert_eq!(lease.previous().copied(), previous, "the object before, of {}", lease.key());
        assert_eq!(lease.is_initial(), initial, "is_initial of {}", lease.key());
        let newest = lease.deltas().newest();
        assert_eq!(newest.object(), deltas.last().unwrap().1.as_ref());
        assert_eq!(lease.deltas().len(), deltas.len());
        self.uncertain |= self.config.identity && attempts > 1;
        self.check_numbers(lease);
    }

    /// What was seen has the number that it had, and is what it was; what was not has a higher one.
    fn check_numbers(&mut self, lease: &Lease<'_, Q>) {
        let numbers: Vec<Option<u64>> = lease.deltas().infos().map(|info| info.number()).collect();
        if !self.config.numbered {
            return assert!(numbers.iter().all(Option::is_none), "{numbers:?}");
        }
        assert!(numbers.is_sorted_by(|older, newer| older < newer), "{numbers:?}");
        let seen = self.numbers.entry(*lease.key()).or_default();
        let newest = seen.keys().next_back().copied().unwrap_or(0);
        for (number, fact) in numbers.into_iter().flatten().zip(facts(lease)) {
            match seen.get(&number) {
                Some(before) => {
                    assert_eq!(*before, fact, "number {number}");
                    assert!(lease.attempts() > 1, "number {number} comes again after it was processed");
                }
                None => assert!(number > newest, "number {number} comes after {newest}"),
            }
            seen.insert(number, fact);
        }
    }

    fn check_empty(&self, mut error: TryPopError) {
        assert_eq!(self.model.in_line(), 0, "there are keys in line");
        let expected = if self.model.is_finished() { TryPopError::Closed } else { TryPopError::Empty };
        // `Empty` until calls of other threads that began before the close are over, those of other tests included.
        let limit = Instant::now() + LONG;
        while error != expected && expected == TryPopError::Closed && Instant::now() < limit {
            error = self.queue.try_pop().map(|_| ()).expect_err("nothing is in line");
        }
        assert_eq!(error, expected);
    }

    /// The model's side of the end of a lease, and before it the consumer's own store.
    fn model_end(&mut self, key: u8, ending: Ending) {
        if self.model.completes(key, ending) {
            let mut store = self.store.lock().unwrap();
            match self.model.known_of(key) {
                Some(object) => store.insert(key, object),
                None => store.remove(&key),
            };
        }
        self.model.end(key, ending);
    }
}

struct Panicked;

/// Runs `f`. If no key comes to it, the queue is closed, and the comparison fails instead of waiting for ever.
fn unless_it_hangs<Q: DeltaQueue, T>(queue: &Q, f: impl FnOnce() -> T) -> std::thread::Result<T> {
    let (done, is_done) = mpsc::channel::<()>();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            if is_done.recv_timeout(Duration::from_secs(5)) == Err(mpsc::RecvTimeoutError::Timeout) {
                queue.close_discard();
            }
        });
        let result = catch_unwind(AssertUnwindSafe(f));
        drop(done);
        result
    })
}

fn outcome(ending: Ending) -> Option<Outcome> {
    match ending {
        Ending::Done => Some(Outcome::Done),
        Ending::GiveUp => Some(Outcome::GiveUp),
        Ending::Requeue => Some(Outcome::Requeue),
        Ending::AfterZero => Some(Outcome::RequeueAfter(Duration::ZERO)),
        Ending::AfterLong => Some(Outcome::RequeueAfter(LONG)),
        Ending::Backoff => Some(Outcome::RequeueWithBackoff),
        Ending::Drop => None,
    }
}
