//! A copy of every ConfigMap that has the label `delta-fifo.example/mirror-to: NAMESPACE`, in that namespace, for as long as there is one.
//!
//! ```text
//! cargo run -p delta-fifo-kube --example configmap_mirror
//! kubectl label configmap web delta-fifo.example/mirror-to=other
//! ```
//!
//! It is told what the old object was, so it knows where a copy was when the label changes, and of each deletion, also of one that
//! happened while it did not watch. What went while it did not even run it finds when it starts. It never touches a ConfigMap that it
//! has not made.

use std::sync::Arc;
use std::time::Duration;

use delta_fifo::{Backoff, DeltaQueue, KnownView};
use delta_fifo_informer::{Controller, Handler, Notification, Reflector, ReflectorError};
use delta_fifo_kube::{ApiListWatch, ObjectKey, Queue};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{DeleteParams, ListParams, ObjectMeta, Patch, PatchParams, Preconditions};
use kube::{Api, Client, ResourceExt};

const TO: &str = "delta-fifo.example/mirror-to";
/// A copy's label, and the annotation that says of what it is one.
const COPY: &str = "delta-fifo.example/mirror";
const OF: &str = "delta-fifo.example/mirror-of";

/// Where the copy of an object belongs.
fn target(map: &ConfigMap) -> Option<String> {
    let target = map.labels().get(TO)?;
    // One beside it would be itself, and a copy is not copied again.
    (Some(target.as_str()) != map.namespace().as_deref() && !map.labels().contains_key(COPY))
        .then(|| target.clone())
}

struct Mirror {
    client: Client,
}

impl Mirror {
    fn api(&self, namespace: &str) -> Api<ConfigMap> {
        Api::namespaced(self.client.clone(), namespace)
    }

    async fn copy(&self, key: &ObjectKey, map: &ConfigMap, namespace: &str) -> kube::Result<()> {
        let (maps, name) = (self.api(namespace), map.name_any());
        let of = key.to_string();
        let there = maps.get_opt(&name).await?;
        if there.is_some_and(|there| there.annotations().get(OF) != Some(&of)) {
            eprintln!("{namespace}/{name} is there, and is no copy of {of}: left alone");
            return Ok(());
        }
        let copy = ConfigMap {
            metadata: ObjectMeta {
                name: Some(name.clone()),
                labels: Some([(COPY.to_owned(), "true".to_owned())].into()),
                annotations: Some([(OF.to_owned(), of)].into()),
                ..ObjectMeta::default()
            },
            data: map.data.clone(),
            binary_data: map.binary_data.clone(),
            immutable: None,
        };
        maps.patch(&name, &PatchParams::apply("delta-fifo-mirror").force(), &Patch::Apply(&copy)).await?;
        println!("{key} is in {namespace}");
        Ok(())
    }

    async fn remove(&self, key: &ObjectKey, namespace: &str) -> kube::Result<()> {
        let maps = self.api(namespace);
        match maps.get_opt(key.name()).await? {
            Some(copy) if copy.annotations().get(OF).map(String::as_str) == Some(key.as_str()) => {
                delete(&maps, &copy).await?;
                println!("{key} is no longer in {namespace}");
            }
            _ => {}
        }
        Ok(())
    }

    /// Copies of what is no longer there, or belongs elsewhere.
    async fn sweep(&self, queue: &Queue<ConfigMap>) -> kube::Result<()> {
        let all = Api::<ConfigMap>::all(self.client.clone());
        for copy in all.list(&ListParams::default().labels(COPY)).await? {
            let Some(of) = copy.annotations().get(OF) else { continue };
            let namespace = copy.namespace().unwrap_or_default();
            let belongs = queue.known().get(of.as_str()).and_then(|map| target(&map));
            if belongs.as_ref() != Some(&namespace) {
                delete(&self.api(&namespace), &copy).await?;
                println!("{of} is no longer in {namespace}: nobody saw it go");
            }
        }
        Ok(())
    }
}

/// This very object: not one that somebody has put in its place.
async fn delete(maps: &Api<ConfigMap>, copy: &ConfigMap) -> kube::Result<()> {
    let preconditions = Preconditions { uid: copy.uid(), resource_version: None };
    let params = DeleteParams { preconditions: Some(preconditions), ..DeleteParams::default() };
    match maps.delete(&copy.name_any(), &params).await {
        Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => Ok(()),
        deleted => deleted.map(drop),
    }
}

impl Handler<ObjectKey, ConfigMap> for Mirror {
    /// After one, the object comes back after a back-off, with everything it was told of.
    type Error = kube::Error;

    async fn handle(&self, key: &ObjectKey, notification: Notification<ConfigMap>) -> kube::Result<()> {
        let (old, new) = match &notification {
            Notification::Added { object, .. } => (None, Some(object)),
            Notification::Updated { old, new } => (Some(old), Some(new)),
            Notification::Deleted { last, .. } => (Some(last), None),
        };
        let (before, now) = (old.and_then(|map| target(map)), new.and_then(|map| target(map)));
        if let Some(before) = before.filter(|before| Some(before) != now.as_ref()) {
            self.remove(key, &before).await?;
        }
        if let (Some(map), Some(now)) = (new, &now) {
            self.copy(key, map, now).await?;
        }
        Ok(())
    }
}

/// Until `stop` comes.
pub(crate) async fn run(client: Client, stop: impl Future<Output = ()>) -> Result<(), ReflectorError> {
    let backoff = Backoff::exponential(Duration::from_millis(5), Duration::from_secs(60));
    let queue = Arc::new(delta_fifo_kube::builder().backoff(backoff).build());
    let source = ApiListWatch::new(Api::all(client.clone())).labels(TO);
    let reflector = Reflector::builder(source).build(Arc::clone(&queue));
    let mirror = Mirror { client: client.clone() };
    let sweep = async {
        if queue.wait_synced_async().await.is_ok()
            && let Err(error) = (Mirror { client }).sweep(&queue).await
        {
            eprintln!("copies that nobody needs may be left: {error}");
        }
    };
    let controller = Controller::new(reflector, mirror).workers(4);
    tokio::join!(controller.run(stop), sweep).0
}

#[tokio::main]
#[allow(dead_code, reason = "the test runs what it calls")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let client = Client::try_default().await?;
    run(client, async { _ = tokio::signal::ctrl_c().await }).await?;
    Ok(())
}
