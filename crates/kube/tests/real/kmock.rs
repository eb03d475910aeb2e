//! The same informer, against a server that knows nothing of the one in this repository: kmock 0.8, a fake in Python.
//!
//! kmock keeps objects as they are sent, so the tests give them identities and versions. Its lists have a version that is no number, and
//! no pages; each of its watches begins with all that is there, as additions, whatever version it is asked from.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};

use delta_fifo_kube::ApiListWatch;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams, Request};
use kube::{Api, Client, Config, ResourceExt};
use serde_json::{Value, json};

use crate::informer::Controlled;
use crate::named;
use crate::proxy::Proxy;
use crate::world::{State, States};

const NAMESPACE: &str = "kmock";

/// kmock, for as long as the value lives.
struct Mock {
    script: Child,
    input: Option<ChildStdin>,
    client: Client,
    objects: Api<ConfigMap>,
    /// Of the newest object.
    version: u64,
}

impl Mock {
    fn start() -> Option<(Mock, String)> {
        let python = named("DELTA_FIFO_KMOCK", ".ci/kmock")?;
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/kmock/serve.py");
        let mut command = Command::new(python);
        command.arg(script).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut script = command.spawn().expect("it is Python");
        let mut address = String::new();
        let mut output = BufReader::new(script.stdout.take().expect("it is a pipe"));
        output.read_line(&mut address).expect("it prints text");
        let address = address.trim().trim_end_matches('/').to_owned();
        let client = Mock::client_at(&address);
        let objects = Api::namespaced(client.clone(), NAMESPACE);
        let input = script.stdin.take();
        Some((Mock { script, input, client, objects, version: 0 }, address))
    }

    fn client_at(address: &str) -> Client {
        Client::try_from(Config::new(address.parse().expect("it is an address"))).expect("nothing is missing")
    }

    /// As no other version of any object is.
    fn next(&mut self, name: &str, number: u64) -> Value {
        self.version += 1;
        json!({
            "metadata": {"name": name, "namespace": NAMESPACE, "resourceVersion": self.version.to_string()},
            "data": {"number": number.to_string()},
        })
    }

    async fn create(&mut self, name: &str, number: u64) {
        let mut object = self.next(name, number);
        object["metadata"]["uid"] = json!(format!("{name}-{}", self.version));
        let object = serde_json::from_value(object).expect("it is one");
        self.objects.create(&PostParams::default(), &object).await.expect("it is new");
    }

    async fn update(&mut self, name: &str, number: u64) {
        let patch = Patch::Merge(self.next(name, number));
        self.objects.patch(name, &PatchParams::default(), &patch).await.expect("it is there");
    }

    async fn delete(&mut self, name: &str) {
        self.objects.delete(name, &DeleteParams::default()).await.expect("it is there");
    }

    /// How it answers next, once each, instead of what it would.
    async fn answer_next(&self, answers: Value) {
        let request =
            Request::new("/faults").create(&PostParams::default(), answers.to_string().into_bytes());
        let request = request.expect("it is one");
        self.client.request_text(request).await.expect("it listens");
    }

    async fn states(&self) -> States {
        let list = self.objects.list(&ListParams::default()).await.expect("it is there");
        list.items.iter().map(|object| (object.name_any(), State::of(object))).collect()
    }
}

impl Drop for Mock {
    fn drop(&mut self) {
        drop(self.input.take());
        let _ = self.script.wait();
    }
}

/// Of a status in a stream.
fn error_event(code: u16, reason: &str) -> Value {
    let status = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "code": code, "reason": reason,
        "message": "as it was told to"});
    json!({"type": "ERROR", "object": status})
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kmock_is_followed_through_all_that_it_can_do() {
    let Some((mut mock, address)) = Mock::start() else { return };
    for name in ["a", "b", "c"] {
        mock.create(name, 1).await;
    }
    let proxy = Proxy::start(address.strip_prefix("http://").expect("it is HTTP")).await;
    let client = Mock::client_at(&format!("http://{}", proxy.address()));
    let running = Controlled::start(ApiListWatch::new(Api::namespaced(client, NAMESPACE)));
    let observer = running.observer.clone();
    observer.until("the list", |told| told.added == 3).await;
    running.assert_same(&mock.states().await);

    // What a watch tells.
    mock.update("a", 2).await;
    mock.delete("b").await;
    mock.create("b", 5).await;
    mock.create("d", 1).await;
    observer.until_told(3 + 4).await;
    running.assert_same(&mock.states().await);
    let told = observer.told();
    assert_eq!((told.added, told.updated - told.same, told.deleted, told.missed), (5, 1, 1, 0), "{told:?}");

    // A watch that begins anew tells everything once more: nobody takes that for something new.
    proxy.cut();
    mock.update("d", 2).await;
    observer.until_told(3 + 5).await;
    running.assert_same(&mock.states().await);
    assert_eq!((observer.told().added, running.asked.lists()), (5, 1));

    // The version is gone: by the status of an answer, and inside a stream. What was deleted meanwhile only a list can tell.
    let gone = [json!({"status": 410}), json!({"events": [error_event(410, "Expired")]})];
    for (round, answer) in gone.into_iter().enumerate() {
        proxy.close();
        mock.delete(["a", "b"][round]).await;
        mock.create(["e", "f"][round], 1).await;
        // Another object under the same name.
        mock.delete("d").await;
        mock.create("d", 10 * (round as u64 + 1)).await;
        mock.answer_next(json!({"watch": [answer]})).await;
        proxy.open();
        observer.until("what is missed", |told| told.missed == 2 * (round + 1)).await;
        observer.until("what is new", |told| told.added == 5 + 2 * (round + 1)).await;
        running.assert_same(&mock.states().await);
        assert_eq!(running.asked.lists(), 2 + round, "{:?}", running.asked);
    }

    // A list that fails, one that breaks off between its pages, and a whole one. A page that nobody goes on from deletes nothing.
    let first_page = json!({"metadata": {"resourceVersion": "9", "continue": "next"}, "items": []});
    proxy.close();
    mock.delete("c").await;
    mock.answer_next(json!({
        "watch": [{"status": 410}],
        "list": [{"status": 500}, {"status": 429}, {"body": first_page}, {"status": 410}],
    }))
    .await;
    proxy.open();
    observer.until("what is missed", |told| told.missed == 5).await;
    running.assert_same(&mock.states().await);
    let (lists, expired) = (running.asked.lists(), running.asked.expired());
    // The client by itself asks again after the second.
    assert_eq!((lists, expired, observer.told().deleted), (3 + 3, 1, 6), "{:?}", running.asked);

    mock.update("d", 30).await;
    observer.until_told(observer.told().changes() + 1).await;
    running.assert_same(&mock.states().await);
    running.stop().await;
}
