//! The examples against the fake server.

mod common;

#[path = "../examples/configmap_mirror.rs"]
mod configmap_mirror;
#[path = "../examples/pod_counter.rs"]
mod pod_counter;

use std::collections::BTreeMap;
use std::time::Duration;

use common::Cluster;
use pod_counter::{Counter, Counts};
use serde_json::{Value, json};
use tokio::sync::oneshot;
use tokio::time::Instant;

async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        tokio::time::sleep(Duration::from_millis(2)).await;
        assert!(start.elapsed() < common::LONG, "{what}");
    }
}

fn source(key: &str, to: Option<&str>, number: u64) -> Value {
    let (namespace, name) = key.split_once('/').expect("a namespace");
    let labels = to.map_or(json!({}), |to| json!({ "delta-fifo.example/mirror-to": to }));
    json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": { "namespace": namespace, "name": name, "labels": labels },
        "data": { "number": number.to_string() },
    })
}

/// Data of all objects by key.
fn data(cluster: &Cluster) -> BTreeMap<String, String> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let of = |map: Value| {
        let metadata = &map["metadata"];
        (
            format!("{}/{}", text(&metadata["namespace"]), text(&metadata["name"])),
            text(&map["data"]["number"]),
        )
    };
    cluster.maps.objects().into_iter().map(of).collect()
}

fn rows(rows: &[(&str, &str)]) -> BTreeMap<String, String> {
    rows.iter().map(|(key, number)| ((*key).to_owned(), (*number).to_owned())).collect()
}

#[tokio::test]
async fn mirrored() {
    let cluster = Cluster::new();
    cluster.maps.put(&source("a/one", Some("copies"), 1));
    cluster.maps.put(&source("a/two", None, 2));
    cluster.maps.put(&source("a/taken", Some("copies"), 3));
    cluster.maps.put(&source("copies/taken", None, 4));
    // A copy of what went while nobody looked.
    let mut orphan = source("copies/orphan", None, 5);
    orphan["metadata"]["labels"] = json!({ "delta-fifo.example/mirror": "true" });
    orphan["metadata"]["annotations"] = json!({ "delta-fifo.example/mirror-of": "a/orphan" });
    cluster.maps.put(&orphan);
    let (stop, stopped) = oneshot::channel::<()>();
    let mirror = tokio::spawn(configmap_mirror::run(cluster.client.clone(), async { _ = stopped.await }));

    let mut expected =
        rows(&[("a/one", "1"), ("a/two", "2"), ("a/taken", "3"), ("copies/taken", "4"), ("copies/one", "1")]);
    until("copied and swept", || data(&cluster) == expected).await;
    cluster.maps.put(&source("a/one", Some("others"), 6));
    cluster.maps.put(&source("a/two", Some("copies"), 7));
    expected.remove("copies/one");
    expected.extend(rows(&[("a/one", "6"), ("others/one", "6"), ("a/two", "7"), ("copies/two", "7")]));
    until("moved", || data(&cluster) == expected).await;
    // Not one of them any more; and gone.
    cluster.maps.put(&source("a/two", None, 8));
    cluster.delete("a/one");
    expected.insert("a/two".to_owned(), "8".to_owned());
    ["a/one", "others/one", "copies/two"].iter().for_each(|key| _ = expected.remove(*key));
    until("gone", || data(&cluster) == expected).await;
    stop.send(()).expect("it runs");
    tokio::time::timeout(common::LONG, mirror).await.expect("it ends").expect("no panic").expect("well");
}

fn pod(namespace: &str, name: &str, phase: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": { "namespace": namespace, "name": name },
        "spec": { "containers": [] },
        "status": { "phase": phase },
    })
}

#[tokio::test]
async fn counted() {
    let cluster = Cluster::new();
    let pods = cluster.server.collection("api/v1/pods");
    let phases = ["Pending", "Running", "Succeeded", "Failed"];
    let put = |number: usize, phase: usize| {
        _ = pods.put(&pod(&format!("ns-{}", number % 3), &number.to_string(), phases[phase % 4]))
    };
    (0..100).for_each(|number| put(number, 0));
    let there = || {
        let mut counts = Counts::new();
        for pod in pods.objects() {
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            *counts
                .entry((text(&pod["metadata"]["namespace"]), text(&pod["status"]["phase"])))
                .or_default() += 1;
        }
        counts
    };
    let counter = Counter::default();
    let (stop, stopped) = oneshot::channel::<()>();
    let run = pod_counter::run(cluster.client.clone(), counter.clone(), |_| {}, async { _ = stopped.await });
    let run = tokio::spawn(run);
    until("all are counted", || counter.counts() == there()).await;
    for number in 0..1_000 {
        match number % 5 {
            0 => _ = pods.delete(&format!("ns-{}", number % 100 % 3), &(number % 100).to_string()),
            _ => put(number % 100, number / 7),
        }
    }
    until("it follows", || counter.counts() == there()).await;
    stop.send(()).expect("it runs");
    tokio::time::timeout(common::LONG, run).await.expect("it ends").expect("no panic").expect("well");
}
