//! Random calls against the sequential model of `tests/model`: every answer is compared after every step, and a
//! failing list of calls is shrunk. `PROPTEST_CASES` says how many lists are tried.

mod common;
mod model;

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use delta_fifo::{
    BeginReplaceError, Change, ChangeErrorKind, Completion, DeltaQueue, KnownView, Lease, OnAbandon, Outcome,
    Replace, ReplaceErrorKind, ResyncError, TryPopError, Upsert, UpsertErrorKind, WaitError,
};
use proptest::prelude::*;
use proptest::test_runner::{Config as Settings, TestError, TestRunner};

use common::{Family, for_each_queue};
use model::config::{BAD, Config, Known, LONG, SCOPES, Scopes, Store, in_scope, transformed};
use model::queue::{Ending, Fact, Leased, Model};

const KEYS: u8 = 5;

#[derive(Clone, Copy, Debug)]
enum Kind {
    Add,
    Update,
    Apply,
    Delete,
    DeleteKey,
}

#[derive(Clone, Debug)]
enum Op {
    Change(Kind, u8),
    BadChange(Kind, u8),
    ChangeAll(Vec<(Kind, u8)>, bool),
    Replace(Option<usize>, Vec<u8>),
    /// A list whose item at this position is rejected by the transform.
    BadReplace(Option<usize>, Vec<u8>),
    Begin(Option<usize>),
    Upsert(usize, u8),
    Commit(usize),
    Abort(usize),
    Resync,
    ResyncKey(u8),
    Pop {
        owned: bool,
    },
    PopBatch(usize, Option<Ending>),
    /// `process`; a panic for `Ending::Drop`.
    Process(Ending),
    End(usize, Ending),
    Mark,
    Snapshot,
    Close,
    CloseDiscard,
}

fn kinds() -> impl Strategy<Value = Kind> {
    prop_oneof![
        3 => Just(Kind::Add),
        3 => Just(Kind::Update),
        3 => Just(Kind::Apply),
        3 => Just(Kind::Delete),
        2 => Just(Kind::DeleteKey),
    ]
}

fn endings() -> impl Strategy<Value = Ending> {
    prop_oneof![
        5 => Just(Ending::Done),
        1 => Just(Ending::GiveUp),
        3 => Just(Ending::Requeue),
        1 => Just(Ending::AfterZero),
        2 => Just(Ending::AfterLong),
        1 => Just(Ending::Backoff),
        1 => Just(Ending::Drop),
    ]
}

fn scopes() -> impl Strategy<Value = Option<usize>> {
    prop_oneof![Just(None), (0..2_usize).prop_map(Some)]
}

fn ops(keys: u8) -> impl Strategy<Value = Vec<Op>> {
    let key = 0..keys;
    let list = || prop::collection::vec(0..keys, 0..6);
    let op = prop_oneof![
        24 => (kinds(), key.clone()).prop_map(|(kind, key)| Op::Change(kind, key)),
        1 => (kinds(), key.clone()).prop_map(|(kind, key)| Op::BadChange(kind, key)),
        3 => (prop::collection::vec((kinds(), key.clone()), 0..6), prop::bool::weighted(0.2))
            .prop_map(|(changes, bad)| Op::ChangeAll(changes, bad)),
        4 => (scopes(), list()).prop_map(|(scope, list)| Op::Replace(scope, list)),
        1 => (scopes(), list()).prop_map(|(scope, list)| Op::BadReplace(scope, list)),
        4 => scopes().prop_map(Op::Begin),
        8 => (0..2_usize, key.clone()).prop_map(|(which, key)| Op::Upsert(which, key)),
        3 => (0..2_usize).prop_map(Op::Commit),
        1 => (0..2_usize).prop_map(Op::Abort),
        3 => Just(Op::Resync),
        2 => key.prop_map(Op::ResyncKey),
        18 => any::<bool>().prop_map(|owned| Op::Pop { owned }),
        3 => (1..4_usize, prop::option::of(endings())).prop_map(|(max, end)| Op::PopBatch(max, end)),
        2 => endings().prop_map(Op::Process),
        18 => (0..4_usize, endings()).prop_map(|(which, ending)| Op::End(which, ending)),
        2 => Just(Op::Mark),
        1 => Just(Op::Snapshot),
    ];
    let close = prop_oneof![
        4 => Just(None),
        2 => (any::<prop::sample::Index>(), Just(Op::Close)).prop_map(Some),
        1 => (any::<prop::sample::Index>(), Just(Op::CloseDiscard)).prop_map(Some),
    ];
    (prop::collection::vec(op, 0..60), close).prop_map(|(mut ops, close)| {
        if let Some((at, close)) = close {
            // Rather late: a closed queue has few answers.
            let half = ops.len() / 2;
            ops.insert(half + at.index(half + 1), close);
        }
        ops
    })
}

fn configs() -> impl Strategy<Value = Config> {
    let known = prop_oneof![3 => Just(Known::Inside), 1 => Just(Known::None), 2 => Just(Known::Store)];
    let scopes =
        prop_oneof![3 => Just(Scopes::None), 2 => Just(Scopes::Disjoint), 1 => Just(Scopes::Overlapping)];
    let on_abandon = prop_oneof![Just(OnAbandon::Backoff), Just(OnAbandon::Requeue), Just(OnAbandon::GiveUp)];
    let background = (prop::bool::weighted(0.3), prop::bool::weighted(0.3));
    let extras = (prop::bool::weighted(0.4), prop::bool::weighted(0.2));
    (any::<bool>(), any::<bool>(), known, scopes, background, on_abandon, extras).prop_map(
        |(emit_sync, latest, known, scopes, background, on_abandon, (identity, numbered))| Config {
            emit_sync,
            latest,
            known,
            scopes,
            background_resync: background.0,
            background_initial: background.1,
            on_abandon,
            identity,
            numbered,
        },
    )
}

fn facts<Q: DeltaQueue<Key = u8, Value = u32>>(lease: &Lease<'_, Q>) -> Vec<Fact> {
    lease.deltas().iter().map(|delta| (delta.kind(), delta.object().copied())).collect()
}

fn contents(view: &impl KnownView<u8, u32>) -> BTreeMap<u8, u32> {
    let mut all = BTreeMap::new();
    for known in view.iter() {
        assert_eq!(all.insert(*known.key(), *known.object()), None, "each key at most once");
    }
    assert_eq!(view.len(), all.len());
    all
}

struct Driver<'q, Q: DeltaQueue> {
    queue: &'q Arc<Q>,
    config: &'q Config,
    model: Model,
    store: Store,
    value: u32,
    leases: Vec<Lease<'q, Q>>,
    replaces: Vec<(usize, Replace<'q, Q>)>,
    completions: Vec<(usize, Completion<'q, Q>)>,
    marks: Vec<(u64, Completion<'q, Q>)>,
    snapshots: Vec<(Q::Snapshot, BTreeMap<u8, u32>)>,
    /// Whether deltas were discarded that had not met what came before them: their number and that of the merged
    /// ones is then not told apart.
    uncertain: bool,
    /// What owes different replaces is merged when it is handed out.
    merges_late: bool,
    /// The deltas of each key by their numbers, in a queue that gives them.
    numbers: BTreeMap<u8, BTreeMap<u64, Fact>>,
}

#[path = "model/driver.rs"]
mod driver;

impl<Q: DeltaQueue<Key = u8, Value = u32, Hasher = ahash::RandomState> + 'static> Driver<'_, Q> {
    /// Everything that can be seen without changing anything.
    fn compare(&self) {
        let (queue, model) = (&**self.queue, &self.model);
        assert_eq!(queue.pending_len(), model.pending_len(), "pending_len");
        assert_eq!(queue.leased_len(), model.leased_len(), "leased_len");
        assert_eq!(queue.has_synced(), model.synced, "has_synced");
        // Counted by facts, a key that was listed while it was leased is delivered when both leases have ended.
        let late = self.merges_late && !queue.has_delivered() && !model.synced;
        assert!(late || queue.has_delivered() == model.delivered, "has_delivered");
        assert_eq!(queue.is_closed(), model.closed, "is_closed");
        if !self.uncertain && !model.has_given_back() {
            let late = self.merges_late && queue.merged() <= model.merged;
            assert!(late || queue.merged() == model.merged, "merged {}, {}", queue.merged(), model.merged);
        }
        if self.config.known != Known::Store {
            let known = model.known();
            assert_eq!(contents(&queue.known()), known, "known objects");
            for key in 0..KEYS {
                assert_eq!(queue.known().get(&key), known.get(&key).copied());
            }
        }
        let (at_worst, exact) = model.processed();
        let through = queue.processed_through().map_or(0, |version| version.to_string().parse().unwrap());
        // What a discarded dirty key held back may count as older than it was.
        let at_worst = if self.merges_late && model.discarded.is_some() { 0 } else { at_worst };
        assert!((at_worst..=exact).contains(&through), "mark {through} of {at_worst}..={exact} is processed");
        for (mark, completion) in &self.marks {
            assert_eq!(completion.is_complete(), *mark <= through, "mark {mark}");
        }
        for (replace, completion) in &self.completions {
            assert_eq!(completion.is_complete(), model.is_complete(*replace), "replace {replace}");
        }
        for (snapshot, known) in &self.snapshots {
            assert_eq!(&contents(snapshot), known, "a snapshot never changes");
        }
    }

    /// Ends everything that is open, closes, and drains.
    fn finish(mut self) {
        while !self.replaces.is_empty() {
            self.run(&Op::Commit(0));
        }
        while !self.leases.is_empty() {
            self.run(&Op::End(0, Ending::Done));
        }
        self.run(&Op::Close);
        while self.model.in_line() > 0 {
            self.run(&Op::Pop { owned: false });
            self.run(&Op::End(0, Ending::Done));
        }
        self.run(&Op::Pop { owned: false });
        if self.model.pending_len() > 0 || self.model.discarded.is_some() {
            // Given back with a delay after the close, or counted since the discard.
            self.run(&Op::CloseDiscard);
            self.run(&Op::Pop { owned: false });
        }
        assert_eq!((self.model.pending_len(), self.model.leased_len()), (0, 0));
        let wait = |reached| if reached { Ok(()) } else { Err(WaitError::Closed) };
        let now = Duration::ZERO;
        assert_eq!(self.queue.wait_synced_timeout(now), wait(self.model.synced), "the first sync");
        for (replace, completion) in &self.completions {
            assert_eq!(
                completion.wait_timeout(now),
                wait(self.model.is_complete(*replace)),
                "replace {replace}"
            );
        }
        for (mark, completion) in &self.marks {
            let lost = self.merges_late && self.model.discarded.is_some();
            let waited = completion.wait_timeout(now);
            let expected = wait(*mark <= self.model.processed().1);
            assert!(
                waited == expected || lost && waited == Err(WaitError::Closed),
                "mark {mark}: {waited:?}"
            );
        }
        assert_eq!(self.queue.close_and_wait_timeout(now), Ok(()));
    }
}

fn run<F: Family>(config: &Config, ops: &[Op]) {
    let store = Store::default();
    let queue: Arc<F::Queue<u8, u32>> = Arc::new(config.build(&store));
    let mut driver = Driver {
        queue: &queue,
        config,
        model: Model::new(config),
        store,
        value: 0,
        leases: Vec::new(),
        replaces: Vec::new(),
        completions: Vec::new(),
        marks: Vec::new(),
        snapshots: Vec::new(),
        uncertain: false,
        merges_late: F::MERGES_LATE,
        numbers: BTreeMap::new(),
    };
    for op in ops {
        driver.run(op);
    }
    driver.finish();
}

fn check<F: Family>(configs: impl Strategy<Value = Config>, keys: u8, cases: u32) {
    let mut settings = Settings { failure_persistence: None, ..Settings::default() };
    if std::env::var_os("PROPTEST_CASES").is_none() {
        settings.cases = cases;
    }
    let result = TestRunner::new(settings).run(&(configs, ops(keys)), |(config, ops)| {
        run::<F>(&config, &ops);
        Ok(())
    });
    match result {
        Ok(()) => {}
        // One call a line.
        Err(TestError::Fail(why, (config, mut ops))) => {
            // What proptest has left, without every call that is not needed.
            let mut at = 0;
            while at < ops.len() {
                let mut fewer = ops.clone();
                fewer.remove(at);
                match catch_unwind(AssertUnwindSafe(|| run::<F>(&config, &fewer))) {
                    Ok(()) => at += 1,
                    Err(_) => (ops, at) = (fewer, 0),
                }
            }
            let ops: Vec<String> = ops.iter().map(|op| format!("    {op:?}")).collect();
            panic!("{why}\n{config:?}\n{}", ops.join("\n"));
        }
        Err(other) => panic!("{other}"),
    }
}

/// All options at random.
fn every_option<F: Family>() {
    check::<F>(configs(), KEYS, 2_000);
}

/// Two keys: the same one is changed, leased and given back again and again.
fn few_keys<F: Family>() {
    check::<F>(configs(), 2, 1_500);
}

/// Known objects inside, no scopes: what most people use.
fn defaults<F: Family>() {
    let config = configs().prop_map(|config| Config {
        known: Known::Inside,
        scopes: Scopes::None,
        background_resync: false,
        background_initial: false,
        ..config
    });
    check::<F>(config, 3, 1_500);
}

/// A resync of many keys does not stand before fresh changes, and is not forgotten behind them.
fn background_turns<F: Family>() {
    let config = Config { background_resync: true, ..config(Known::Inside, false) };
    let mut ops = Vec::new();
    for key in 0..KEYS {
        ops.extend([Op::Change(Kind::Add, key), Op::Pop { owned: false }, Op::End(0, Ending::Done)]);
    }
    ops.push(Op::Resync);
    for turn in 0..120 {
        // One key is always in the first line.
        ops.extend([
            Op::Change(Kind::Update, turn % 2),
            Op::Pop { owned: true },
            Op::End(0, Ending::Requeue),
        ]);
    }
    run::<F>(&config, &ops);
}

fn config(known: Known, latest: bool) -> Config {
    Config {
        emit_sync: false,
        latest,
        known,
        scopes: Scopes::None,
        background_resync: false,
        background_initial: false,
        on_abandon: OnAbandon::Backoff,
        identity: false,
        numbered: false,
    }
}

/// A change that a replace must not overrule stays newer than it through a resync.
fn resync_during_a_replace<F: Family>() {
    for known in [Known::Inside, Known::Store] {
        for newer in [vec![Op::Commit(0)], vec![Op::Upsert(0, 0), Op::Commit(0)]] {
            let mut ops =
                vec![Op::Begin(None), Op::Change(Kind::Add, 0), Op::Process(Ending::Done), Op::Resync];
            ops.extend(newer);
            run::<F>(&config(known, false), &ops);
        }
    }
}

/// A deletion that came after live deltas is newer than the one that is given back, even if they are merged away.
fn merged_before_the_joint<F: Family>() {
    let ops = [
        Op::Change(Kind::Add, 0),
        Op::Change(Kind::Delete, 0),
        Op::Pop { owned: false },
        Op::Change(Kind::Add, 0),
        Op::Change(Kind::Delete, 0),
        Op::End(0, Ending::Requeue),
    ];
    run::<F>(&config(Known::Inside, true), &ops);
}

for_each_queue!(
    resync_during_a_replace,
    merged_before_the_joint,
    every_option,
    few_keys,
    defaults,
    background_turns,
);
