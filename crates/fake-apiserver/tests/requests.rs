//! What the server answers, without a client.

use std::time::Duration;

use delta_fifo_fake_apiserver::{ApiServer, Failure, Verb};
use http::{Method, Request};
use http_body_util::BodyExt;
use serde_json::{Value, json};
use tower_service::Service;

async fn ask(server: &ApiServer, method: Method, path: &str, body: Value) -> (u16, Value) {
    let body = if body.is_null() { String::new() } else { body.to_string() };
    let request = Request::builder().method(method).uri(path).body(body).expect("it is one");
    let response = server.clone().call(request).await.expect("an answer");
    let code = response.status().as_u16();
    let bytes = response.into_body().collect().await.expect("all of it").to_bytes();
    (code, serde_json::from_slice(&bytes).unwrap_or(Value::Null))
}

async fn get(server: &ApiServer, path: &str) -> (u16, Value) {
    ask(server, Method::GET, path, Value::Null).await
}

fn map(name: &str, number: u64) -> Value {
    json!({ "metadata": { "name": name }, "data": { "number": number } })
}

const MAPS: &str = "/api/v1/namespaces/a/configmaps";

#[tokio::test]
async fn writes_and_their_conflicts() {
    let server = ApiServer::new();
    let one = format!("{MAPS}/one");
    let (code, created) = ask(&server, Method::POST, MAPS, map("one", 1)).await;
    assert_eq!((code, &created["metadata"]["namespace"]), (201, &json!("a")));
    assert_eq!(ask(&server, Method::POST, MAPS, map("one", 1)).await.1["reason"], "AlreadyExists");
    assert_eq!(get(&server, &one).await, (200, created.clone()));
    assert_eq!(get(&server, "/api/v1/namespaces/b/configmaps/one").await.0, 404);
    // An update that has read something older.
    let mut changed = created.clone();
    changed["data"]["number"] = json!(2);
    let (code, updated) = ask(&server, Method::PUT, &one, changed.clone()).await;
    assert_eq!((code, &updated["metadata"]["uid"]), (200, &created["metadata"]["uid"]));
    assert_eq!(ask(&server, Method::PUT, &one, changed).await.1["reason"], "Conflict");
    // A patch, of which null takes away; and one that changes nothing.
    let patch = json!({ "data": { "number": null, "text": "x" } });
    let (_, patched) = ask(&server, Method::PATCH, &one, patch.clone()).await;
    assert_eq!(patched["data"], json!({ "text": "x" }));
    assert_eq!(ask(&server, Method::PATCH, &one, patch.clone()).await.1, patched);
    assert_eq!(ask(&server, Method::PATCH, &format!("{MAPS}/none"), patch).await.0, 404);
    // A deletion of another object of that name.
    let other = json!({ "preconditions": { "uid": "another" } });
    assert_eq!(ask(&server, Method::DELETE, &one, other).await.0, 409);
    let before = server.version();
    let (code, deleted) = ask(&server, Method::DELETE, &one, Value::Null).await;
    assert_eq!(
        (code, deleted["metadata"]["resourceVersion"].clone()),
        (200, json!((before + 1).to_string()))
    );
    assert_eq!(ask(&server, Method::DELETE, &one, Value::Null).await.0, 404);
    let (_, again) = ask(&server, Method::POST, MAPS, map("one", 1)).await;
    assert_ne!(again["metadata"]["uid"], created["metadata"]["uid"]);
}

#[tokio::test]
async fn pages_show_the_list_of_their_beginning() {
    let server = ApiServer::new();
    let maps = server.collection("api/v1/configmaps");
    for number in 0..10 {
        maps.put(&json!({ "metadata": { "namespace": "a", "name": format!("{number}") } }));
    }
    let names = |page: &Value| -> Vec<String> {
        let items = page["items"].as_array().expect("a list");
        items.iter().map(|item| item["metadata"]["name"].as_str().expect("a name").to_owned()).collect()
    };
    let (_, first) = get(&server, &format!("{MAPS}?limit=4")).await;
    maps.delete("a", "5").expect("it is there");
    let token = |page: &Value| page["metadata"]["continue"].as_str().map(str::to_owned);
    let (_, second) =
        get(&server, &format!("{MAPS}?limit=4&continue={}", token(&first).expect("more"))).await;
    let (_, third) =
        get(&server, &format!("{MAPS}?limit=4&continue={}", token(&second).expect("more"))).await;
    assert_eq!([names(&first), names(&second), names(&third)].concat().len(), 10);
    assert_eq!(
        (token(&third), &third["metadata"]["resourceVersion"]),
        (None, &first["metadata"]["resourceVersion"])
    );
    assert_eq!(names(&get(&server, MAPS).await.1).len(), 9);
    server.compact();
    let (code, late) =
        get(&server, &format!("{MAPS}?limit=4&continue={}", token(&first).expect("more"))).await;
    assert_eq!((code, &late["reason"]), (410, &json!("Expired")));
    assert_eq!((server.requests(Verb::List), server.requests(Verb::Page)), (2, 3));
}

#[tokio::test]
async fn a_short_history_is_compacted_by_itself() {
    let server = ApiServer::new();
    server.keep_changes(3);
    let maps = server.collection("api/v1/configmaps");
    let versions: Vec<u64> =
        (0..6).map(|n| maps.put(&json!({ "metadata": { "name": format!("{n}") } }))).collect();
    let watch = async |from: u64| {
        let path = format!("/api/v1/configmaps?watch=true&timeoutSeconds=0&resourceVersion={from}");
        let request = Request::get(path).body(String::new()).expect("it is one");
        let body = server.clone().call(request).await.expect("an answer").into_body();
        let bytes = body.collect().await.expect("all of it").to_bytes();
        String::from_utf8(bytes.to_vec()).expect("text")
    };
    assert_eq!(watch(versions[2]).await.matches("ADDED").count(), 3);
    assert_eq!(watch(versions[1]).await.matches("410").count(), 1);
}

#[tokio::test(start_paused = true)]
async fn it_goes_wrong_as_it_is_told_to() {
    let server = ApiServer::new();
    server.fail_next(Verb::List, Failure::internal());
    server.fail_next(Verb::List, Failure::too_many_requests(3));
    assert_eq!(get(&server, MAPS).await.0, 500);
    assert_eq!(get(&server, MAPS).await, (429, Value::Null));
    assert_eq!(get(&server, MAPS).await.0, 200);
    assert_eq!(get(&server, "/healthz").await.0, 404);
    let request = || Request::get(MAPS).body(String::new()).expect("it is one");
    server.fail_next(Verb::List, Failure::broken());
    assert!(server.clone().call(request()).await.is_err());
    server.stop();
    assert!(server.clone().call(request()).await.is_err());
    server.start();
    server.latency(Duration::from_secs(2));
    let start = tokio::time::Instant::now();
    assert_eq!(get(&server, MAPS).await.0, 200);
    assert_eq!(start.elapsed().as_secs(), 2);
}
