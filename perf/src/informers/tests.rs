use std::sync::Arc;
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::ConfigMap;

use super::cluster::{Cluster, Keys, Plan, Write, object};
use super::deletions::{self, Churn};
use super::rivals::{self, KUBE_ALONE, OURS, OURS_STREAM, WATCHER};
use super::told::Told;
use super::{ALL, Ready, by_id, trace};

fn at(number: usize, version: u64) -> ConfigMap {
    let mut map: ConfigMap = serde_json::from_value(object(number, 0)).expect("it is one");
    map.metadata.resource_version = Some(version.to_string());
    map
}

fn one(keys: usize) -> Arc<Told> {
    Told::new(&Arc::new(Keys::places(keys)), None)
}

#[test]
fn each_is_found_by_name() {
    for trial in ALL {
        assert_eq!(by_id(trial.id).map(|found| found.id), Some(trial.id));
    }
    assert_eq!(by_id("Deletions").map(|found| found.id), Some("informers deletions"));
    assert!(by_id("informers").is_none() && by_id("W1").is_none());
}

const CHURN: Churn = Churn { rounds: 1, known: 40, patience: Duration::from_secs(10) };

#[test]
fn nothing_is_missed() {
    for row in [OURS, OURS_STREAM] {
        let sample =
            deletions::run(true, CHURN, 2, |cluster, handlers| rivals::start(row, cluster, handlers));
        assert_eq!(sample.violations, [""; 0]);
        assert_eq!(sample.values[0].value, 0.0, "{row}");
    }
}

#[test]
fn an_informer_that_drops_a_deletion_is_found_out() {
    let sample = deletions::run(true, CHURN, 2, rivals::start_broken);
    assert!(sample.violations.iter().any(|violation| violation.contains("were missed")), "{sample:?}");
    // Two handlers, each of which keeps every third of four to itself.
    assert_eq!(sample.values[0].value, 4.0, "{sample:?}");
}

#[test]
fn all_rows_follow_the_recording_as_far_as_they_can() {
    let plan = trace::plan(500);
    assert_eq!((plan.first.len(), plan.writes.len()), (trace::FIRST, 500));
    for row in [OURS, OURS_STREAM, KUBE_ALONE, WATCHER] {
        let handlers = [Told::new(&plan.keys, None)];
        let ready = Ready::start(row, &plan, &handlers).expect("it lists");
        handlers[0].expect(plan.finals(&ready.cluster));
        plan.write(&ready.cluster, |_| None);
        assert!(handlers[0].wait(Duration::from_secs(10)), "{row}");
        assert_eq!(ready.violations(&handlers), [""; 0], "{row}");
    }
}

#[test]
fn versions_that_go_back_are_found_out() {
    let told = one(2);
    told.note_applied(&at(0, 5));
    told.note_applied(&at(1, 6));
    told.note_applied(&at(0, 5));
    assert_eq!(told.violations(), [""; 0], "after another list it may come again");
    told.note_applied(&at(1, 4));
    told.note_applied(&at(7, 4));
    assert_eq!(told.violations().len(), 2);
    assert!(told.violations()[0].starts_with("told version 4 of key 1 after 6"));
}

#[test]
fn a_store_that_is_another_is_found_out() {
    let cluster = Cluster::new(&[object(0, 0), object(1, 0)]);
    let all = cluster.maps.versions();
    let entries = |count: usize, more: u64| -> Vec<(String, u64)> {
        all.iter().take(count).map(|(key, _, version)| (key.clone(), version + more)).collect()
    };
    let is_found =
        |store: Vec<(String, u64)>| cluster.differs_within(Duration::ZERO, &|| store.clone()).is_some();
    assert!(!is_found(entries(2, 0)));
    assert!(is_found(entries(1, 0)) && is_found(entries(2, 1)));
    assert!(is_found([entries(2, 0), vec![("a/b".into(), 1)]].concat()));
}

#[test]
fn who_is_told_is_through() {
    let told = one(3);
    told.expect(vec![4, 5, 0]);
    told.note_applied(&at(0, 4));
    assert!(!told.wait(Duration::ZERO));
    told.note_applied(&at(1, 7));
    assert!(told.wait(Duration::ZERO));
    told.expect(vec![4, 7, 0]);
    assert!(told.wait(Duration::ZERO), "it was told all of that");
}

#[test]
fn what_was_never_told_has_waited() {
    let plan = Plan::updates(2, 6);
    assert!(matches!(plan.writes[..2], [Write::Put(0, _), Write::Put(1, _)]));
    let told = one(2);
    let start = Instant::now() - Duration::from_secs(1);
    // Six writes, a tenth of a second apart, from version 10 on: that of key 0 are 10, 12, 14.
    told.pace(start, Duration::from_millis(100), 10, vec![0, 1]);
    told.note_applied(&at(0, 12));
    let latencies = told.latencies(6);
    assert_eq!(latencies.len(), 6, "every write counts once");
    assert!(latencies.min() >= 499_000_000 && latencies.max() >= 1_000_000_000);
}
