//! A Kubernetes API server in memory, as a tower service: for tests and benchmarks of what lists and watches.
//!
//! It has what a client of lists and watches sees of a real one: versions, pages with tokens that expire, watches from a version with
//! bookmarks, lists as streams, compaction, selectors, create, update, patch and delete with their conflicts. And it goes wrong when it is
//! told to: connections that break in the middle of a line, answers that are errors, versions that are gone.
//!
//! It has no schemas, admission, finalizers, subresources of their own or field managers: an apply patch is a merge patch that creates what is
//! not there.
//!
//! ```
//! use delta_fifo_fake_apiserver::ApiServer;
//! use serde_json::json;
//!
//! let server = ApiServer::new();
//! let maps = server.collection("api/v1/configmaps");
//! let version = maps.put(&json!({"metadata": {"namespace": "prod", "name": "web"}, "data": {"port": "80"}}));
//! assert_eq!(maps.objects()[0]["metadata"]["resourceVersion"], version.to_string());
//! // kube::Client::new(server, "default")
//! ```

#![deny(missing_docs)]
#![forbid(unsafe_code)]

mod collection;
mod faults;
mod read;
mod request;
mod respond;
mod selector;
mod store;
mod watch;
mod write;

pub use collection::Collection;
pub use faults::{Failure, Verb};
pub use respond::Body;

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use http::{Request, Response};
use tokio::sync::watch as signal;

use crate::store::{Ending, State};

/// The server. Clones are the same server.
#[derive(Clone, Debug)]
pub struct ApiServer {
    state: Arc<Mutex<State>>,
    /// Something has changed that watches want to see.
    changed: signal::Sender<()>,
}

impl Default for ApiServer {
    fn default() -> Self {
        ApiServer { state: Arc::default(), changed: signal::channel(()).0 }
    }
}

impl ApiServer {
    /// Without an object.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Something that watches want to see.
    pub(crate) fn change<R>(&self, change: impl FnOnce(&mut State) -> R) -> R {
        let result = change(&mut self.state());
        self.changed.send_replace(());
        result
    }

    /// The objects of one resource, such as `api/v1/pods` or `apis/apps/v1/deployments`, to be changed and looked at from outside.
    #[must_use]
    pub fn collection(&self, resource: &str) -> Collection {
        Collection::new(self.clone(), resource.trim_matches('/').to_owned())
    }

    /// The newest version.
    #[must_use]
    pub fn version(&self) -> u64 {
        self.state().version
    }

    /// At most so many changes of a resource are kept; what is older is compacted. Default: all.
    pub fn keep_changes(&self, most: usize) {
        self.change(|state| state.history = most);
    }

    /// Forgets what led to the newest versions. A watch that has not read it yet is told so (410), as is one that begins before, and a list that
    /// was begun before.
    pub fn compact(&self) {
        self.change(State::compact);
    }

    /// Says to every watch that its version is gone, though it is not.
    pub fn expire_watches(&self) {
        self.change(|state| state.end_watches(Ending::Gone));
    }

    /// Ends all watches, as a server does whose time for them is up.
    pub fn close_watches(&self) {
        self.change(|state| state.end_watches(Ending::Closed));
    }

    /// Breaks the connections of all watches, in the middle of a line.
    pub fn kill_watches(&self) {
        self.change(|state| state.end_watches(Ending::Killed));
    }

    /// Breaks the connections, and has none until [`start`](Self::start).
    pub fn stop(&self) {
        self.change(|state| {
            state.is_down = true;
            state.end_watches(Ending::Killed);
        });
    }

    /// Accepts connections again; what it knows has stayed.
    pub fn start(&self) {
        self.change(|state| state.is_down = false);
    }

    /// Sends a bookmark to every watch that wants them.
    pub fn bookmark(&self) {
        self.change(|state| state.bookmarks += 1);
    }

    /// Sends a bookmark to every watch that wants them so often. Default: when one is ended by its time-out, and when told to.
    pub fn bookmark_every(&self, period: impl Into<Option<Duration>>) {
        self.change(|state| state.bookmark_period = period.into());
    }

    /// Whether it has lists as streams (`sendInitialEvents`). Default: yes. Without, it refuses them as servers did that had none.
    pub fn stream_lists(&self, has: bool) {
        self.change(|state| state.refuses_streams = !has);
    }

    /// How long an answer takes. Default: no time.
    pub fn latency(&self, time: Duration) {
        self.change(|state| state.latency = time);
    }

    /// The next request of this kind fails so. Several are taken one after the other.
    pub fn fail_next(&self, verb: Verb, failure: Failure) {
        self.change(|state| state.failures.push_back((verb, failure)));
    }

    /// How many requests of this kind there have been.
    #[must_use]
    pub fn requests(&self, verb: Verb) -> u64 {
        self.state().requests.get(&verb).copied().unwrap_or_default()
    }

    /// How many watches are open.
    #[must_use]
    pub fn open_watches(&self) -> usize {
        self.changed.receiver_count()
    }
}

impl<B> tower_service::Service<Request<B>> for ApiServer
where
    B: http_body::Body + Send + 'static,
    B::Data: Send,
    B::Error: std::fmt::Display + Send,
{
    type Response = Response<Body>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, io::Error>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), io::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let server = self.clone();
        Box::pin(async move { server.answer(request).await })
    }
}
