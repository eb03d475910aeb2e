//! Edges that only show when three threads meet, or a cell comes back (P1, P3, V3).

use super::*;

model! { p1_an_installer_finds_its_version_stamped, preemptions: Some(1),
    fails: fails_if_read_relaxed "a stamp is read relaxed" "nothing is shown",
    fails: fails_if_written_relaxed "a stamp is written relaxed" "nothing is shown",
}
model! { p3_a_snapshot_ends_and_another_has_its_watch, preemptions: Some(2),
    fails: fails_if_it_begins_relaxed "a watch begins relaxed" "Causality violation",
    fails: fails_if_counted_down_relaxed "watches are counted down relaxed" "Causality violation",
    fails: fails_if_counted_relaxed "watches are counted relaxed" "Causality violation",
}
model! { v3_a_cell_comes_back_as_another_version, preemptions: Some(1),
    fails: fails_if_looked_at_again_relaxed "a link is looked at again relaxed" "another object",
}

mod bodies {
    use super::*;

    /// By one who has not begun the snapshot.
    pub(super) fn p1_an_installer_finds_its_version_stamped() {
        let known = Known::new();
        let installer = known.stopped("version: installed", 0, |known| known.put(0, 2));
        yield_now();
        let helper = known.thread(|known| _ = known.get(0));
        let reader = known.stopped("version: newest read", 0, |known| {
            let moment = known.begin();
            assert!(known.at(moment, 0).is_some(), "nothing is shown");
        });
        yield_now();
        go_on(installer);
        go_on(reader);
        helper.join().unwrap();
    }

    /// While one who sweeps asks who shows the version that it showed, and another lets go of that.
    pub(super) fn p3_a_snapshot_ends_and_another_has_its_watch() {
        let known = Known::new();
        let held = known.versions[0].object(&known.objects, &known.epochs);
        let moment = known.begin();
        known.put(0, 2);
        let reader = known.thread(move |known| {
            known.shows_the_first(moment);
            known.end(moment);
            known.begin()
        });
        let holder = known.thread(move |_| drop(held));
        known.sweep();
        holder.join().unwrap();
        known.end(reader.join().unwrap());
        known.sweep();
        assert!(!known.has_older(), "left behind");
    }

    /// In between it is a fact's, whose debt would pass for an early stamp.
    pub(super) fn v3_a_cell_comes_back_as_another_version() {
        let (known, moments) = Known::shown(2);
        let first = moments[0];
        let (reader, gate) =
            known.stopped("version: link read", 0, move |known| known.shows_the_first(first));
        yield_now();
        known.put(0, 3);
        let fact = chain::keep(&known.objects, known.owing(1, 9));
        gate.open();
        reader.thread().unpark();
        known.install(0, Some(fact));
        reader.join().unwrap();
    }
}
