//! Those who are measured: each starts on a runtime of its own, the same for all.

mod kube_runtime;
mod ours;

use std::sync::Arc;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::{Api, Client};
use tokio::runtime::{Builder, Runtime};

use super::cluster::Cluster;
use super::told::Told;

/// A `SharedInformer` over `ApiListWatch`, lists in pages.
pub(super) const OURS: &str = "sharded";
/// Lists as streams.
pub(super) const OURS_STREAM: &str = "sharded/stream";
/// `watcher`, `reflect_shared`, and a `subscribe()` for each handler: kube-runtime's way to more than one.
pub(super) const KUBE: &str = "kube";
/// Lists as streams.
pub(super) const KUBE_STREAM: &str = "kube/stream";
/// `watcher` and `reflect`, and the one handler in the stream itself: nothing is handed on.
pub(super) const KUBE_ALONE: &str = "kube/alone";
/// `watcher`, and the handler in the stream: what HTTP and parsing take, without a store.
pub(super) const WATCHER: &str = "kube/watcher";

/// By `namespace/name`, at which version.
pub(super) type Store = Box<dyn Fn() -> Vec<(String, u64)>>;

/// One that runs, until it is dropped.
pub(super) struct Running {
    /// `None`: it has none.
    pub(super) store: Option<Store>,
    runtime: Option<Runtime>,
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            // All of it ends where it waits next.
            runtime.shutdown_timeout(std::time::Duration::from_secs(10));
        }
    }
}

/// Starts it with these handlers.
pub(super) fn start(row: &str, cluster: &Cluster, handlers: &[Arc<Told>]) -> Running {
    start_with(cluster, |api| match row {
        OURS | OURS_STREAM => {
            Some(ours::start(api, row == OURS_STREAM, handlers.iter().cloned().map(ours::Telling)))
        }
        KUBE | KUBE_STREAM => Some(kube_runtime::shared(api, row == KUBE_STREAM, handlers)),
        KUBE_ALONE => Some(kube_runtime::alone(api, alone(handlers))),
        WATCHER => {
            kube_runtime::bare(api, alone(handlers));
            None
        }
        other => unreachable!("no row {other}"),
    })
}

fn alone(handlers: &[Arc<Told>]) -> Arc<Told> {
    let [handler] = handlers else { panic!("this row tells one handler") };
    Arc::clone(handler)
}

fn start_with(cluster: &Cluster, start: impl FnOnce(Api<ConfigMap>) -> Option<Store>) -> Running {
    let runtime = Builder::new_multi_thread().worker_threads(2).enable_time().build().expect("it starts");
    let entered = runtime.enter();
    let store = start(Api::all(Client::new(cluster.server.clone(), "default")));
    drop(entered);
    Running { store, runtime: Some(runtime) }
}

#[cfg(test)]
pub(super) use broken::start_broken;

/// One that is broken on purpose.
#[cfg(test)]
mod broken {
    use super::*;

    pub(in crate::informers) fn start_broken(cluster: &Cluster, handlers: &[Arc<Told>]) -> Running {
        let handlers = handlers.iter().cloned().map(ours::Forgetful::new);
        start_with(cluster, |api| Some(ours::start(api, false, handlers)))
    }
}
