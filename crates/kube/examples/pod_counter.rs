//! How many pods there are in each phase, by namespace; told whenever that changes.
//!
//! ```text
//! cargo run -p delta-fifo-kube --example pod_counter
//! ```
//!
//! It keeps sums: one for the phase of an object that has come, one less for that of one that is gone. That adds up only because nothing is
//! missed or told twice: not when a connection breaks, not when a version is gone, not when a pod is deleted and another one of its name
//! created while nobody watched.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use delta_fifo_informer::{
    EventHandler, HandlerOptions, IndexerBuilder, Reflector, ReflectorError, SharedInformer,
};
use delta_fifo_kube::{ApiListWatch, ObjectKey};
use k8s_openapi::api::core::v1::Pod;
use kube::{Api, Client};

/// By namespace and phase.
pub(crate) type Counts = BTreeMap<(String, String), u64>;

#[derive(Clone, Default)]
pub(crate) struct Counter(Arc<Mutex<Counts>>);

fn place(key: &ObjectKey, pod: &Pod) -> (String, String) {
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref()).unwrap_or("Unknown");
    (key.namespace().unwrap_or_default().to_owned(), phase.to_owned())
}

impl Counter {
    pub(crate) fn counts(&self) -> Counts {
        self.0.lock().expect("nobody panics under it").clone()
    }

    fn change(&self, old: Option<(String, String)>, new: Option<(String, String)>) {
        if old == new {
            return;
        }
        let mut counts = self.0.lock().expect("nobody panics under it");
        if let Some(old) = old {
            let count = counts.get_mut(&old).expect("it was counted");
            *count -= 1;
            if *count == 0 {
                counts.remove(&old);
            }
        }
        if let Some(new) = new {
            *counts.entry(new).or_default() += 1;
        }
    }
}

impl EventHandler<ObjectKey, Pod> for Counter {
    async fn on_add(&self, key: &ObjectKey, pod: Arc<Pod>, _: bool) {
        self.change(None, Some(place(key, &pod)));
    }

    async fn on_update(&self, key: &ObjectKey, old: Arc<Pod>, new: Arc<Pod>) {
        self.change(Some(place(key, &old)), Some(place(key, &new)));
    }

    async fn on_delete(&self, key: &ObjectKey, last: Arc<Pod>, _: bool) {
        self.change(Some(place(key, &last)), None);
    }
}

/// Pods without what a counter never looks at, which is nearly all of their memory.
fn source(client: Client) -> Reflector<ApiListWatch<Pod>> {
    let queue = delta_fifo_kube::builder().transform(|pod: &mut Arc<Pod>| {
        // Nobody else has it yet.
        if let Some(pod) = Arc::get_mut(pod) {
            pod.metadata.managed_fields = None;
            pod.spec = None;
        }
        Ok(())
    });
    Reflector::builder(ApiListWatch::new(Api::all(client)).streaming_lists()).build(Arc::new(queue.build()))
}

/// Until `stop` comes.
pub(crate) async fn run(
    client: Client,
    counter: Counter,
    tell: impl Fn(&Counts),
    stop: impl Future<Output = ()>,
) -> Result<(), ReflectorError> {
    let informer = SharedInformer::new(source(client), IndexerBuilder::default());
    let handle = informer.handle();
    handle
        .add_handler(counter.clone(), HandlerOptions { workers: 2, ..HandlerOptions::default() })
        .expect("it runs");
    let telling = async {
        if handle.synced().wait().await.is_err() {
            return;
        }
        let mut told = Counts::new();
        loop {
            let counts = counter.counts();
            if counts != told {
                tell(&counts);
                told = counts;
            }
            tokio::time::sleep(std::time::Duration::from_millis(200)).await;
        }
    };
    tokio::select! {
        ended = informer.run(stop) => ended,
        () = telling => Ok(()),
    }
}

#[tokio::main]
#[allow(dead_code, reason = "the test runs what it calls")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let client = Client::try_default().await?;
    let tell = |counts: &Counts| {
        for ((namespace, phase), count) in counts {
            println!("{namespace:30} {phase:10} {count:6}");
        }
        println!();
    };
    run(client, Counter::default(), tell, async { _ = tokio::signal::ctrl_c().await }).await?;
    Ok(())
}
