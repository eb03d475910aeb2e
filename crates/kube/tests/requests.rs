//! kube's own controllers on a queue.

mod common;

use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use common::{Cluster, name_of, number};
use delta_fifo::DeltaQueue;
use delta_fifo_informer::Progress;
use delta_fifo_kube::{ApiListWatch, Queue, Requests};
use futures_util::StreamExt;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::ResourceExt;
use kube::runtime::Controller;
use kube::runtime::controller::{Action, Config, ReconcileReason, applier};
use kube::runtime::reflector::{ObjectRef, Store};
use tokio::task::JoinHandle;

/// What was reconciled, and how many objects the store had then.
#[derive(Default)]
struct Log(Mutex<HashMap<String, Vec<u64>>>, Mutex<Vec<usize>>);

struct Started {
    queue: Arc<Queue<ConfigMap>>,
    progress: Progress<ApiListWatch<ConfigMap>>,
    requests: Requests<ConfigMap>,
    store: Store<ConfigMap>,
    reflector: JoinHandle<()>,
}

fn start(cluster: &Cluster) -> Started {
    let reflector = cluster.reflector().page_size(10).build(delta_fifo_kube::queue());
    let queue = Arc::clone(reflector.queue());
    let progress = reflector.progress();
    let requests = Requests::new(Arc::clone(&queue));
    let store = requests.store();
    let reflector = tokio::spawn(async move { _ = reflector.run().await });
    Started { queue, progress, requests, store, reflector }
}

fn store_equals(store: &Store<ConfigMap>, cluster: &Cluster) -> bool {
    let mut rows: Vec<_> = store
        .state()
        .iter()
        .map(|map| {
            let key = format!("{}/{}", map.namespace().expect("a namespace"), map.name_any());
            (key, map.uid().expect("a uid"), common::version(map))
        })
        .collect();
    rows.sort_unstable();
    rows == cluster.versions()
}

async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let start = tokio::time::Instant::now();
    while !holds() {
        tokio::time::sleep(Duration::from_millis(1)).await;
        assert!(start.elapsed() < common::LONG, "{what}");
    }
}

fn reconcile(
    log: Arc<Log>,
    store: Store<ConfigMap>,
) -> impl FnMut(Arc<ConfigMap>, Arc<()>) -> futures_util::future::BoxFuture<'static, Result<Action, Infallible>>
{
    move |map, _| {
        let (log, store) = (Arc::clone(&log), store.clone());
        Box::pin(async move {
            log.1.lock().unwrap().push(store.len());
            log.0.lock().unwrap().entry(map.name_any()).or_default().push(number(&map));
            Ok(Action::await_change())
        })
    }
}

#[tokio::test]
async fn the_applier_reconciles_what_has_changed() {
    let cluster = Cluster::with(50);
    let Started { queue, mut progress, requests, store, reflector } = start(&cluster);
    let log = Arc::new(Log::default());
    let reconciled = applier(
        reconcile(Arc::clone(&log), store.clone()),
        |_, error: &Infallible, _| match *error {},
        Arc::new(()),
        store.clone(),
        requests,
        Config::default(),
    );
    let controller =
        tokio::spawn(reconciled.for_each(|result| async move { assert!(result.is_ok(), "{result:?}") }));
    until("all are reconciled", || log.0.lock().unwrap().len() == 50).await;
    assert!(log.1.lock().unwrap().iter().all(|objects| *objects == 50), "nobody before the list is complete");
    // Who has written reads what he wrote.
    let version = cluster.put(&name_of(7), 70);
    progress.wait_processed(&version.to_string().into()).await.expect("it comes");
    assert!(store_equals(&store, &cluster));
    until("it is reconciled", || log.0.lock().unwrap()["map-00007"].last() == Some(&70)).await;
    // Gone, as in kube's own controller, means no request.
    let version = cluster.delete(&name_of(8));
    progress.wait_processed(&version.to_string().into()).await.expect("it comes");
    assert!(store_equals(&store, &cluster));
    // And while nobody watched.
    cluster.server.stop();
    cluster.delete(&name_of(9));
    cluster.put("new/one", 1);
    cluster.server.compact();
    cluster.server.start();
    until("it follows", || store_equals(&store, &cluster)).await;
    until("it is reconciled", || log.0.lock().unwrap().contains_key("one")).await;
    reflector.abort();
    queue.close();
    tokio::time::timeout(common::LONG, controller).await.expect("it ends with the queue").expect("no panic");
    assert_eq!(log.0.lock().unwrap()["map-00008"], [8]);
}

#[tokio::test]
async fn kubes_controller_by_its_streams() {
    for is_shared in [true, false] {
        let cluster = Cluster::with(20);
        let Started { queue: _, progress: _, requests, store, reflector } = start(&cluster);
        let log = Arc::new(Log::default());
        let controller = if is_shared {
            Controller::for_shared_stream(requests.into_objects(), store.clone())
        } else {
            let nothing = futures_util::stream::pending();
            Controller::for_stream(nothing, store.clone()).reconcile_on(requests.into_object_refs())
        };
        let run = controller.run(
            reconcile(Arc::clone(&log), store.clone()),
            |_, error: &Infallible, _| match *error {},
            Arc::new(()),
        );
        let run = tokio::spawn(run.for_each(|result| async move { assert!(result.is_ok(), "{result:?}") }));
        until("all are reconciled", || log.0.lock().unwrap().len() == 20).await;
        cluster.put(&name_of(7), 70);
        until("it is reconciled", || log.0.lock().unwrap()["map-00007"].last() == Some(&70)).await;
        run.abort();
        reflector.abort();
    }
}

#[tokio::test]
async fn what_goes_and_comes_before_the_first_list_is_complete() {
    let cluster = Cluster::with(3);
    let maps = cluster.api().list(&Default::default()).await.expect("a list");
    let [one, two, three] = <[ConfigMap; 3]>::try_from(maps.items).expect("three").map(Arc::new);
    let queue = delta_fifo_kube::queue::<ConfigMap>();
    let key =
        |map: &ConfigMap| delta_fifo_kube::ObjectKey::new(map.metadata.namespace.as_deref(), &map.name_any());
    let mut requests = Requests::new(Arc::clone(&queue));
    let store = requests.store();
    let list = queue.begin_replace().expect("none runs");
    for map in [&one, &two, &three] {
        list.upsert(key(map), Arc::clone(map)).expect("it is open");
    }
    // Nobody is asked for yet.
    let early = tokio::time::timeout(Duration::from_millis(20), requests.next()).await;
    assert!(early.is_err() && store.is_empty());
    queue.delete(key(&one), Arc::clone(&one)).expect("it is open");
    queue.delete(key(&two), Arc::clone(&two)).expect("it is open");
    let early = tokio::time::timeout(Duration::from_millis(20), requests.next()).await;
    assert!(early.is_err());
    queue.add(key(&two), Arc::clone(&two)).expect("it is open");
    list.commit().expect("it is open");
    let mut asked = Vec::new();
    while let Ok(request) = tokio::time::timeout(Duration::from_millis(20), requests.next()).await {
        let request = request.expect("it is open").expect("no error");
        assert!(matches!(request.reason, ReconcileReason::ObjectUpdated));
        asked.push(request.obj_ref.name);
    }
    asked.sort_unstable();
    asked.dedup();
    assert_eq!(asked, ["map-00000", "map-00001", "map-00002"]);
    assert!(store.get(&ObjectRef::from_obj(&*one)).is_none(), "it is gone");
    assert_eq!(store.len(), 2);
    // A resync asks for all, and says so.
    queue.resync().expect("it is open");
    for _ in 0..2 {
        let request = requests.next().await.expect("it is open").expect("no error");
        assert!(matches!(request.reason, ReconcileReason::BulkReconcile));
    }
    queue.close();
    assert!(requests.next().await.is_none());
}
