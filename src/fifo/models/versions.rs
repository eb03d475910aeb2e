//! The versions of two keys, and the snapshots that show them, with no queue around them (P1, P2, V3 to V7).

mod edges;

use super::objects::Object;
use super::*;
use crate::delta::{self, RawKind};
use crate::fifo::Objects;
use crate::fifo::chain;
use crate::fifo::epochs::{Epochs, Moment};
use crate::fifo::fact::Fact;
use crate::fifo::version::Version;
use crate::slab::Index;
use crate::sync::model::model;
use crate::sync::stopped::stop_me_at_passage;
use crate::sync::thread::yield_now;

model! { p1_a_snapshot_begins_during_an_install, preemptions: Some(3),
    fails: fails_if_a_watch_ends_relaxed "a watch ends relaxed" "Causality violation",
    fails: fails_if_watched_late "an epoch ends before it is watched" "Causality violation",
    fails: fails_if_nobody_looks "nobody looks" "Causality violation",
}
model! { p1_a_snapshot_is_read_by_who_has_stamped, preemptions: Some(2),
    fails: fails_if_read_relaxed "a stamp that came first is read relaxed" "Causality violation",
}
model! { p1_two_snapshots_begin, preemptions: Some(2),
}
model! { p1_a_snapshot_loses_its_first_epoch, preemptions: Some(2),
    fails: fails_if_an_epoch_is_read_relaxed "an epoch is read relaxed" "Causality violation",
    fails: fails_if_an_epoch_ends_relaxed "an epoch ends relaxed" "Causality violation",
    fails: fails_if_the_lost_one_is_watched "who loses an epoch goes on watching it" "Causality violation",
}
model! { p2_what_a_snapshot_shows_stays, preemptions: Some(3),
    fails: fails_without_the_snapshots_fence "no fence when an epoch ends" "Causality violation",
    fails: fails_without_the_stamps_fence "no fence before a stamp" "Causality violation",
}
model! { p2_what_a_snapshot_shows_stays_when_a_reader_stamps, preemptions: Some(2),
    fails: fails_without_the_snapshots_fence "no fence when an epoch ends" "Causality violation",
    fails: fails_without_the_stamps_fence "no fence before a stamp" "Causality violation",
}
model! { p2_a_snapshot_is_a_cut, preemptions: Some(2),
    fails: fails_without_the_snapshots_fence "no fence when an epoch ends" "Causality violation",
    fails: fails_without_the_stamps_fence "no fence before a stamp" "Causality violation",
}
model! { v3_a_get_while_versions_change, preemptions: Some(3),
    fails: fails_if_looked_at_once "a version is looked at once" "of another key",
}
model! { v5_a_sweep_meets_an_install, preemptions: Some(2),
    fails: fails_if_decided_at_once "a link is decided at once" "exceeded maximum number of branches",
}
model! { v6_a_snapshot_is_read_while_others_go, preemptions: Some(2),
    fails: fails_if_a_marked_link_is_trusted "a marked link is trusted" "another object",
    fails: fails_if_it_is_not_marked "what is taken out is not marked" "another object",
    fails: fails_if_looked_at_once "a version is looked at once" "another object",
}
model! { v6_two_sweeps_meet, preemptions: Some(2),
    fails: fails_if_it_is_not_marked "what is taken out is not marked" "the cell has a value",
}
model! { v6_a_sweep_meets_an_install_behind_two, preemptions: Some(1),
    fails: fails_if_it_is_not_marked "what is taken out is not marked" "the cell has a value",
}
model! { v6_a_snapshot_is_read_while_two_sweep, preemptions: Some(1),
    fails: fails_if_exchanged_relaxed "a link is exchanged relaxed" "another object",
}
model! { v6_a_sweep_ends_whoever_stands, preemptions: Some(2),
    fails: fails_if_looked_for_again "what is marked is looked for again" "exceeded maximum number of branches",
}

model! { v7_what_a_snapshot_shows_is_not_held, preemptions: Some(2),
    fails: fails_if_a_debt_passes "a debt passes for a stamp" "Causality violation",
}
model! { v7_a_version_goes_while_its_cell_is_looked_at, preemptions: Some(2),
    fails: fails_if_a_debt_passes "a debt passes for a stamp" "Causality violation",
}
model! { v7_nothing_is_shown_while_it_goes, preemptions: Some(2),
    fails: fails_if_it_is_looked_into "what is of nothing is looked into" "Causality violation",
}

struct Keys {
    objects: Objects<Object>,
    epochs: Epochs,
    versions: [Version; 2],
}

/// Left alone by a model that has failed.
struct Known(Option<Arc<Keys>>);

impl Deref for Known {
    type Target = Keys;

    fn deref(&self) -> &Keys {
        self.0.as_ref().expect("it is there until it is dropped")
    }
}

impl Drop for Known {
    fn drop(&mut self) {
        if std::thread::panicking() {
            std::mem::forget(self.0.take());
        }
    }
}

impl Drop for Keys {
    fn drop(&mut self) {
        self.versions.iter().for_each(|version| version.dismantle(&self.objects).for_each(drop));
    }
}

impl Known {
    /// The first key has object 1.
    fn new() -> Self {
        let keys =
            Keys { objects: Objects::new(), epochs: Epochs::new(), versions: <[Version; 2]>::default() };
        keys.put(0, 1);
        Known(Some(Arc::new(keys)))
    }

    /// The first key has objects 1 to `newest`, and each but the newest is shown by one of these.
    fn shown(newest: u32) -> (Self, Vec<Moment>) {
        let known = Self::new();
        let put = |number| {
            let moment = known.begin();
            known.put(0, number);
            moment
        };
        let moments = (2..=newest).map(put).collect();
        (known, moments)
    }

    fn share(&self) -> Self {
        Known(self.0.clone())
    }

    fn thread<T: 'static>(&self, f: impl FnOnce(&Keys) -> T + 'static) -> JoinHandle<T> {
        let known = self.share();
        spawn(move || f(&known))
    }

    /// A thread that stops at a pause point, after it has passed there so many times, until [`go_on`].
    fn stopped(
        &self,
        at: &'static str,
        passages: usize,
        f: impl FnOnce(&Keys) + 'static,
    ) -> (JoinHandle<()>, Gate) {
        let gate = Gate::new();
        let closed = gate.clone();
        let thread = self.thread(move |known| {
            stop_me_at_passage(at, passages, &closed);
            f(known);
        });
        (thread, gate)
    }
}

impl Keys {
    fn begin(&self) -> Moment {
        self.epochs.begin(|_| ())
    }

    fn end(&self, moment: Moment) {
        self.epochs.end(moment, |_| ());
    }

    /// As the holder.
    fn put(&self, key: usize, number: u32) {
        let object = chain::keep(&self.objects, self.objects.draft(Some(Object::new(number))).share());
        self.install(key, Some(object));
    }

    /// As the holder: the key is known no more.
    fn delete(&self, key: usize) {
        self.install(key, None);
    }

    fn install(&self, key: usize, object: Option<Index>) {
        let mut garbage = Vec::new();
        let installed = self.versions[key].install(
            &self.objects,
            &self.epochs,
            object.map(|at| (at, self.objects.head(at))),
            &mut garbage,
        );
        let kept = installed.kept.into_iter().map(|kept| kept.version);
        let_go(installed.before.into_iter().chain(kept).chain(garbage));
    }

    /// A fact on its way, which owes a replace.
    fn owing(&self, debt: u64, number: u32) -> delta::Object<Object> {
        let fact = self.objects.draft(Some(Object::new(number)));
        Fact { debt, ..Fact::change(RawKind::Added, 0) }.write(fact.head());
        fact.share()
    }

    fn get(&self, key: usize) -> Option<u32> {
        self.versions[key].object(&self.objects, &self.epochs).map(|object| object.read())
    }

    fn at(&self, moment: Moment, key: usize) -> Option<u32> {
        let glance = self.versions[key].glance(&self.objects)?;
        let shown = self.versions[key].in_view(&glance, &self.objects, &self.epochs, moment.epoch())?;
        shown.object().map(Object::read)
    }

    /// What a snapshot shows of the first key, twice.
    fn snapshot(&self) -> [Option<u32>; 2] {
        let moment = self.begin();
        let shown = [self.at(moment, 0), self.at(moment, 0)];
        self.end(moment);
        shown
    }

    fn shows_the_first(&self, moment: Moment) {
        assert_eq!(self.at(moment, 0), Some(1), "another object, or none");
    }

    fn sweep(&self) {
        let mut garbage = Vec::new();
        self.versions[0].trim(&self.objects, &self.epochs, &mut garbage, |_, _| ());
        let_go(garbage);
    }

    fn has_older(&self) -> bool {
        self.versions[0].has_older(&self.objects)
    }
}

/// Each is still alive, whatever has become of those before.
fn let_go(garbage: impl IntoIterator<Item = delta::Object<Object>>) {
    garbage.into_iter().for_each(|object| _ = object.read());
}

fn unchanged([first, second]: [Option<u32>; 2]) {
    assert!(first.is_some() && second.is_some(), "nothing is shown");
    assert_eq!(first, second, "it has changed");
}

mod bodies {
    use super::*;

    pub(super) fn p1_a_snapshot_begins_during_an_install() {
        let known = Known::new();
        let reader = known.thread(Keys::snapshot);
        known.put(0, 2);
        unchanged(reader.join().unwrap());
    }

    /// The installer learns from the stamp that there is a snapshot.
    pub(super) fn p1_a_snapshot_is_read_by_who_has_stamped() {
        let known = Known::new();
        let reader = known.thread(|known| {
            let moment = known.begin();
            known.get(0);
            known.at(moment, 0)
        });
        known.put(0, 2);
        assert!(reader.join().unwrap().is_some(), "nothing is shown");
    }

    /// Both want the same epoch.
    pub(super) fn p1_two_snapshots_begin() {
        let known = Known::new();
        let reader = known.thread(Keys::snapshot);
        let moment = known.begin();
        known.put(0, 2);
        assert_eq!(known.at(moment, 0), Some(1), "nothing is shown, or something else");
        known.end(moment);
        unchanged(reader.join().unwrap());
        known.sweep();
        assert!(!known.has_older(), "left behind");
    }

    /// And shows a version of the next.
    pub(super) fn p1_a_snapshot_loses_its_first_epoch() {
        let known = Known::new();
        let show = |known: &Keys| unchanged(known.snapshot());
        let late = known.stopped("snapshot: registered", 0, show);
        yield_now();
        known.end(known.begin());
        known.put(0, 2);
        let (thread, gate) = late;
        gate.open();
        thread.thread().unpark();
        known.put(0, 3);
        thread.join().unwrap();
    }

    pub(super) fn p2_what_a_snapshot_shows_stays() {
        p1_a_snapshot_begins_during_an_install();
    }

    pub(super) fn p2_what_a_snapshot_shows_stays_when_a_reader_stamps() {
        let known = Known::new();
        let reader = known.thread(Keys::snapshot);
        let helper = known.thread(|known| known.get(0));
        known.put(0, 2);
        unchanged(reader.join().unwrap());
        assert!(helper.join().unwrap().is_some());
    }

    /// The one key's is installed before the other's.
    pub(super) fn p2_a_snapshot_is_a_cut() {
        let known = Known::new();
        known.put(1, 1);
        let reader = known.thread(|known| {
            let moment = known.begin();
            [0, 1, 0].map(|key| known.at(moment, key).expect("it is there all the time"))
        });
        known.put(0, 2);
        known.put(1, 2);
        let [first, second, again] = reader.join().unwrap();
        assert!(first == again && first >= second, "no cut: {first}, {second}, {again}");
    }

    /// The cell of the object before is another key's in the end.
    pub(super) fn v3_a_get_while_versions_change() {
        let known = Known::new();
        let reader = known.thread(|known| known.get(0));
        known.put(0, 2);
        known.put(1, 9);
        let seen = reader.join().unwrap().expect("it is there all the time");
        assert!(seen <= 2, "of another key: {seen}");
    }

    /// Both could take out the object before.
    pub(super) fn v5_a_sweep_meets_an_install() {
        let (known, moments) = Known::shown(2);
        known.end(moments[0]);
        let sweeper = known.thread(Keys::sweep);
        known.put(0, 3);
        sweeper.join().unwrap();
        known.sweep();
        assert!(!known.has_older(), "left behind");
    }

    /// Two in the middle of the chain go, and one comes back as another key's. The reader is on its way from the one to the other.
    pub(super) fn v6_a_snapshot_is_read_while_others_go() {
        let (known, moments) = Known::shown(4);
        let first = moments[0];
        let reader = known.stopped("version: link read", 2, move |known| known.shows_the_first(first));
        moments[1..].iter().for_each(|moment| known.end(*moment));
        known.sweep();
        known.put(1, 9);
        go_on(reader);
    }

    /// The one has gone on behind a version that the other then takes out.
    pub(super) fn v6_two_sweeps_meet() {
        let (known, moments) = Known::shown(3);
        known.end(moments[0]);
        let sweeper = known.thread(Keys::sweep);
        known.end(moments[1]);
        known.sweep();
        sweeper.join().unwrap();
        known.sweep();
        assert!(!known.has_older(), "left behind");
        assert_eq!(known.get(0), Some(3));
    }

    /// The same, but for who takes out the other one.
    pub(super) fn v6_a_sweep_meets_an_install_behind_two() {
        let (known, moments) = Known::shown(3);
        known.end(moments[0]);
        let sweeper = known.stopped("version: object held", 2, Keys::sweep);
        yield_now();
        known.end(moments[1]);
        known.put(0, 4);
        go_on(sweeper);
        known.sweep();
        assert!(!known.has_older(), "left behind");
        assert_eq!(known.get(0), Some(4));
    }

    /// The one takes out what leads to what the other takes out.
    pub(super) fn v6_a_snapshot_is_read_while_two_sweep() {
        let (known, moments) = Known::shown(4);
        let first = moments[0];
        let reader = known.stopped("version: link read", 2, move |known| known.shows_the_first(first));
        known.end(moments[2]);
        yield_now();
        let sweeper = known.thread(Keys::sweep);
        yield_now();
        known.end(moments[1]);
        known.sweep();
        known.put(1, 9);
        go_on(reader);
        sweeper.join().unwrap();
    }

    /// The newest one goes, and its cell is a fact's, while the reader looks whether that is what is shown.
    pub(super) fn v7_what_a_snapshot_shows_is_not_held() {
        let known = Known::new();
        let moment = known.begin();
        known.put(0, 2);
        let reader = known.thread(move |known| known.shows_the_first(moment));
        known.put(0, 3);
        let fact = known.owing(1, 9);
        reader.join().unwrap();
        drop(fact);
    }

    /// The same of one behind the newest.
    pub(super) fn v7_a_version_goes_while_its_cell_is_looked_at() {
        let (known, moments) = Known::shown(3);
        let first = moments[0];
        let reader = known.thread(move |known| known.shows_the_first(first));
        known.end(moments[1]);
        known.sweep();
        let fact = known.owing(1, 9);
        reader.join().unwrap();
        drop(fact);
    }

    /// What is shown is that there was nothing, which nobody keeps; its cell is another key's object in the end.
    pub(super) fn v7_nothing_is_shown_while_it_goes() {
        let known = Known::new();
        known.delete(0);
        let moment = known.begin();
        let reader = known.thread(move |known| known.at(moment, 0));
        known.put(0, 2);
        known.put(1, 9);
        assert_eq!(reader.join().unwrap(), None, "an object of another key");
    }

    /// One has marked a version and stops; another has then registered, and stops, for an epoch that is over.
    pub(super) fn v6_a_sweep_ends_whoever_stands() {
        let (known, moments) = Known::shown(2);
        let late = known.stopped("snapshot: registered", 0, |known| known.end(known.begin()));
        yield_now();
        let moment = known.begin();
        known.put(0, 3);
        known.end(moment);
        let sweeper = known.stopped("trim: marked", 0, Keys::sweep);
        yield_now();
        known.sweep();
        go_on(late);
        go_on(sweeper);
        known.end(moments[0]);
        known.sweep();
        assert!(!known.has_older(), "left behind");
    }
}
