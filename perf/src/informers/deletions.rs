//! Which deletions a handler is not told of.

use std::sync::Arc;
use std::time::Duration;

use super::cluster::{Cluster, Keys, Plan, Write, object, place, stalled};
use super::rivals::{self, KUBE, KUBE_ALONE, KUBE_STREAM, OURS, OURS_STREAM, Running};
use super::told::Told;
use super::{Ready, is_ours, patience};
use crate::trials::{Blocks, Case, Counted, Runs, Sample, Setting, Size, Trial};

pub(super) static TRIAL: Trial = Trial {
    id: "informers deletions",
    about: "objects go while they are watched, right after a change, and while nobody watches and the version is gone: deletions of \
            objects that a handler knew and was not told of",
    cases: |size| {
        let (rounds, known) = if size == Size::Quick { (2, 200) } else { (10, 2_000) };
        vec![Case::new().with("rounds", rounds).with("known", known)]
    },
    rows: |_| vec![OURS, OURS_STREAM, KUBE, KUBE_STREAM, KUBE_ALONE],
    against: &[],
    blocks: |size, _| Blocks::Usually(if size == Size::Quick { 1 } else { 5 }),
    counted: Counted::Alone,
    prepare,
    bars: &[],
};

/// Is never deleted: who was told of its newest version was told all that came before.
const FENCE: usize = 0;

/// Both back off to 30 s, at most twice as long at random, and after ten rounds are there.
const LONGEST_RETRY: Duration = Duration::from_secs(90);

fn prepare(case: &Case, setting: &Setting) -> Box<dyn Runs> {
    let (rounds, known, size) = (case.get("rounds"), case.get("known"), setting.size);
    Box::new(move |row: &str| {
        // One that hands nothing on has one.
        let handlers = if row == KUBE_ALONE { 1 } else { 3 };
        let start = |cluster: &Cluster, handlers: &[Arc<Told>]| rivals::start(row, cluster, handlers);
        let patience = if size == Size::Quick { patience(row, size) } else { LONGEST_RETRY };
        run(is_ours(row), Churn { rounds, known, patience }, handlers, start)
    })
}

#[derive(Clone, Copy)]
pub(super) struct Churn {
    pub(super) rounds: usize,
    pub(super) known: usize,
    pub(super) patience: Duration,
}

impl Churn {
    /// New ones in each half of a round, and as many go.
    fn few(self) -> usize {
        (self.known / 20).max(1)
    }
}

/// The server's objects, by number; no name comes twice.
struct World<'a> {
    cluster: &'a Cluster,
    alive: std::collections::VecDeque<usize>,
    deleted: Vec<usize>,
    next: usize,
    step: usize,
}

impl World<'_> {
    fn put(&mut self, number: usize) {
        self.step += 1;
        self.cluster.write(&Write::Put(number, object(number, self.step)));
    }

    fn create(&mut self) {
        self.put(self.next);
        self.alive.push_back(self.next);
        self.next += 1;
    }

    /// The one that is there longest, if wanted right after a change.
    fn delete(&mut self, changed: bool) {
        let number = self.alive.pop_front().expect("there are enough");
        if changed {
            self.put(number);
        }
        let (namespace, name) = place(number);
        self.cluster.write(&Write::Delete { number, namespace, name });
        self.deleted.push(number);
    }

    /// The one that is there longest, which then is the newest.
    fn change(&mut self) {
        self.alive.rotate_left(1);
        self.put(*self.alive.back().expect("there are some"));
    }

    /// So many of each.
    fn churn(&mut self, few: usize) {
        for number in 0..few {
            self.create();
            self.delete(number % 2 == 0);
            self.change();
        }
    }

    /// Whether all handlers were told all that was written.
    fn is_told(&mut self, handlers: &[Arc<Told>], keys: &Keys, patience: Duration) -> bool {
        let mut fence = vec![0; keys.len()];
        fence[FENCE] = self.cluster.server.version() + 1;
        handlers.iter().for_each(|handler| handler.expect(fence.clone()));
        self.put(FENCE);
        stalled(handlers, patience) == 0
    }
}

pub(super) fn run(
    is_ours: bool,
    churn: Churn,
    handlers: usize,
    start: impl FnOnce(&Cluster, &[Arc<Told>]) -> Running,
) -> Sample {
    let keys = Arc::new(Keys::places(1 + churn.known + 2 * churn.few() * churn.rounds));
    let first = (0..=churn.known).map(|number| object(number, 0)).collect();
    let plan = Plan { keys, first, writes: Vec::new() };
    let handlers: Vec<Arc<Told>> = (0..handlers).map(|_| Told::new(&plan.keys, None)).collect();
    let cluster = Cluster::new(&plan.first);
    let ready = match Ready::of(cluster, &handlers, |cluster| start(cluster, &handlers), &plan) {
        Ok(ready) => ready,
        Err(why) => return Sample::new(vec![why]),
    };
    let server = &ready.cluster.server;
    let mut world = World {
        cluster: &ready.cluster,
        alive: (1..=churn.known).collect(),
        deleted: Vec::new(),
        next: churn.known + 1,
        step: 0,
    };
    let mut has_stalled = false;
    for _ in 0..churn.rounds {
        world.churn(churn.few());
        has_stalled |= !world.is_told(&handlers, &plan.keys, churn.patience);
        server.stop();
        world.churn(churn.few());
        server.compact();
        server.start();
        let store = ready.running.store.as_ref().filter(|_| !has_stalled);
        let _ = store.and_then(|store| ready.cluster.differs_from(store));
        has_stalled |= !world.is_told(&handlers, &plan.keys, churn.patience);
        if has_stalled {
            break;
        }
    }
    let (knew, missed) = handlers
        .iter()
        .map(|handler| handler.missed(&world.deleted))
        .fold((0, 0), |(knew, missed), (more, of)| (knew + more, missed + of));
    let mut violations: Vec<String> = handlers.iter().flat_map(|handler| handler.violations()).collect();
    if !has_stalled || is_ours {
        let store = ready.running.store.as_ref();
        violations.extend(store.and_then(|store| ready.cluster.differs_from(store)));
    }
    if is_ours && (missed > 0 || has_stalled) {
        let stalled = if has_stalled { ", and not all handlers got to the end" } else { "" };
        violations.push(format!("of {knew} deletions {missed} were missed{stalled}"));
    }
    Sample::new(violations)
        .lower("deletions missed", "deletions", missed as f64)
        .lower(
            "of those that happened to what a handler knew",
            "%",
            100.0 * missed as f64 / knew.max(1) as f64,
        )
        .higher("handlers that got to the end", "handlers", handlers_left(&handlers) as f64)
}

fn handlers_left(handlers: &[Arc<Told>]) -> usize {
    handlers.iter().filter(|handler| handler.wait(Duration::ZERO)).count()
}
