//! A source over `kube::Api`.

use std::fmt::{self, Debug};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use delta_fifo_informer::{ListWatch, Page, PageRequest, ResourceVersion, SourceError, WatchEvent};
use futures_util::StreamExt;
use futures_util::stream::BoxStream;
use kube::api::{ListParams, VersionMatch, WatchParams};
use kube::core::{Request, Selector, WatchEvent as Event};
use kube::{Api, Resource};
use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::error::{Doing, of_client, of_status};
use crate::key::{Interner, ObjectKey, key_of};

/// As kube-runtime, and just below what kube's client takes for a dead connection.
const WATCH_TIMEOUT: Duration = Duration::from_secs(290);
/// For 0 a server takes its own.
const SHORTEST: Duration = Duration::from_secs(1);
/// So much later a watch is given up that the server should have ended.
const GRACE: Duration = Duration::from_secs(5);
/// The annotation of the bookmark that ends the initial events.
const INITIAL_END: &str = "k8s.io/initial-events-end";

/// Lists and watches what a [`kube::Api`] reaches: all, or one namespace.
///
/// Objects are handed on as they are read: none is cloned. A watch is ended by the server after some minutes, and by this side if the server
/// does not, so that a connection that has silently died is noticed.
///
/// ```no_run
/// use delta_fifo_informer::Reflector;
/// use delta_fifo_kube::{ApiListWatch, queue};
/// use k8s_openapi::api::core::v1::Pod;
/// use kube::{Api, Client};
///
/// # async fn start() -> Result<(), Box<dyn std::error::Error>> {
/// let pods = Api::<Pod>::all(Client::try_default().await?);
/// let reflector = Reflector::builder(ApiListWatch::new(pods).labels("app=web")).build(queue());
/// # Ok(())
/// # }
/// ```
pub struct ApiListWatch<K> {
    api: Api<K>,
    keys: Option<Arc<Interner>>,
    labels: Option<String>,
    fields: Option<String>,
    watch_timeout: Duration,
    from_cache: bool,
    /// False also when the server has refused.
    streams_lists: AtomicBool,
}

impl<K: Resource> Debug for ApiListWatch<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ApiListWatch")
            .field("url", &self.api.resource_url())
            .field("labels", &self.labels)
            .field("fields", &self.fields)
            .finish_non_exhaustive()
    }
}

impl<K> ApiListWatch<K> {
    /// Everything that the API reaches, listed in pages.
    #[must_use]
    pub fn new(api: Api<K>) -> Self {
        ApiListWatch {
            api,
            keys: None,
            labels: None,
            fields: None,
            watch_timeout: WATCH_TIMEOUT,
            from_cache: false,
            streams_lists: AtomicBool::new(false),
        }
    }

    /// Only what has these labels.
    #[must_use]
    pub fn labels(mut self, selector: &str) -> Self {
        self.labels = Some(selector.to_owned());
        self
    }

    /// Only what has these labels.
    #[must_use]
    pub fn labels_from(self, selector: &Selector) -> Self {
        self.labels(&selector.to_string())
    }

    /// Only what has these fields.
    #[must_use]
    pub fn fields(mut self, selector: &str) -> Self {
        self.fields = Some(selector.to_owned());
        self
    }

    /// How long the server is asked to go on with a watch at most, in whole seconds; default 290 s. At least half of that, at random, so that
    /// not all watches that began together end together. Not more than the time after which the client
    /// gives up a connection on which nothing comes, of which kube's default is 295 s.
    #[must_use]
    pub fn watch_timeout(mut self, time: Duration) -> Self {
        self.watch_timeout = time;
        self
    }

    /// Lists may come from the server's cache, and be older than what was seen before: faster for the server. Default: the newest.
    #[must_use]
    pub fn from_cache(mut self) -> Self {
        self.from_cache = true;
        self
    }

    /// Lists as streams, which cost the server and this side the least memory. A server that has none is listed in pages. Default: no.
    #[must_use]
    pub fn streaming_lists(mut self) -> Self {
        self.streams_lists = AtomicBool::new(true);
        self
    }

    /// Shares keys with other sources of the same objects. Default: each event makes its own, and the queue keeps the first.
    #[must_use]
    pub fn intern_keys_in(mut self, keys: Arc<Interner>) -> Self {
        self.keys = Some(keys);
        self
    }

    fn list_params(&self, request: PageRequest) -> ListParams {
        let at_least = request.at_least.map(|version| version.as_str().to_owned());
        let version = at_least.or_else(|| self.from_cache.then(|| "0".to_owned()));
        ListParams {
            label_selector: self.labels.clone(),
            field_selector: self.fields.clone(),
            limit: request.limit.map(|limit| u32::try_from(limit).unwrap_or(u32::MAX)),
            continue_token: request.token,
            version_match: version.as_ref().map(|_| VersionMatch::NotOlderThan),
            resource_version: version,
            ..ListParams::default()
        }
    }

    fn watch_params(&self, timeout: Duration, send_initial_events: bool) -> WatchParams {
        WatchParams {
            label_selector: self.labels.clone(),
            field_selector: self.fields.clone(),
            timeout: Some(u32::try_from(timeout.as_secs()).unwrap_or(u32::MAX)),
            bookmarks: true,
            send_initial_events,
        }
    }
}

/// What of a list is used. kube's own has its type beside the rest, for which everything in it is read twice.
#[derive(Deserialize)]
struct List<K> {
    #[serde(default)]
    metadata: ListMetadata,
    items: Option<Vec<K>>,
}

#[derive(Default, Deserialize)]
struct ListMetadata {
    #[serde(rename = "resourceVersion")]
    resource_version: Option<String>,
    #[serde(rename = "continue")]
    next: Option<String>,
}

/// What a watch of kube's says of one event.
fn event<K: Resource>(
    event: kube::Result<Event<K>>,
    keys: Option<&Interner>,
) -> Result<WatchEvent<ObjectKey, K>, SourceError> {
    let of = |object: &K| {
        let version = object.meta().resource_version.as_deref().filter(|version| !version.is_empty());
        match (key_of(keys, object), version) {
            (Some(key), Some(version)) => Ok((key, ResourceVersion::from(version))),
            _ => Err(SourceError::transient("an object without a name or a version")),
        }
    };
    match event.map_err(|error| of_client(error, Doing::Other))? {
        Event::Added(object) => of(&object).map(|(key, version)| WatchEvent::Added(key, object, version)),
        Event::Modified(object) => {
            of(&object).map(|(key, version)| WatchEvent::Modified(key, object, version))
        }
        Event::Deleted(object) => of(&object).map(|(key, version)| WatchEvent::Deleted(key, object, version)),
        Event::Bookmark(bookmark) => {
            let metadata = bookmark.metadata;
            let version = ResourceVersion::from(metadata.resource_version);
            if metadata.annotations.contains_key(INITIAL_END) {
                Ok(WatchEvent::InitialEnd(version))
            } else {
                Ok(WatchEvent::Bookmark(version))
            }
        }
        Event::Error(status) => Err(of_status(*status, Doing::Other)),
    }
}

impl<K> ApiListWatch<K>
where
    K: Resource + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
{
    async fn read_list(&self, params: &ListParams) -> kube::Result<List<K>> {
        let request = Request::new(self.api.resource_url());
        let (request, name) = if K::metadata_api() {
            (request.list_metadata(params), "list_metadata")
        } else {
            (request.list(params), "list")
        };
        let mut request = request.map_err(kube::Error::BuildRequest)?;
        // As kube calls its spans.
        request.extensions_mut().insert(name);
        self.api.clone().into_client().request(request).await
    }

    async fn watch_from(
        &self,
        version: &str,
        with_initial: bool,
    ) -> kube::Result<BoxStream<'static, Result<WatchEvent<ObjectKey, K>, SourceError>>> {
        let timeout = self.watch_timeout.mul_f64(0.5 + fastrand::f64() / 2.0).max(SHORTEST);
        let events = self.api.watch(&self.watch_params(timeout, with_initial), version).await?;
        let keys = self.keys.clone();
        let too_long = tokio::time::sleep(timeout + GRACE);
        Ok(events.map(move |next| event(next, keys.as_deref())).take_until(too_long).boxed())
    }
}

impl<K> ListWatch for ApiListWatch<K>
where
    K: Resource + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
{
    type Key = ObjectKey;
    type Object = K;
    type Watch = BoxStream<'static, Result<WatchEvent<ObjectKey, K>, SourceError>>;

    async fn list(&self, request: PageRequest) -> Result<Page<ObjectKey, K>, SourceError> {
        let doing = if request.token.is_some() { Doing::Page } else { Doing::Other };
        let list =
            self.read_list(&self.list_params(request)).await.map_err(|error| of_client(error, doing))?;
        let named = |object: K| match key_of(self.keys.as_deref(), &object) {
            Some(key) => Some((key, object)),
            None => {
                tracing::error!("an object without a name is left out");
                None
            }
        };
        let version = list.metadata.resource_version.filter(|version| !version.is_empty());
        let next = list.metadata.next.filter(|token| !token.is_empty());
        match version {
            Some(version) => {
                let items = list.items.unwrap_or_default().into_iter().filter_map(named).collect();
                Ok(Page { items, next, version: version.into() })
            }
            None => Err(SourceError::transient("a list without a version: this resource cannot be watched")),
        }
    }

    async fn watch(&self, from: ResourceVersion) -> Result<Self::Watch, SourceError> {
        self.watch_from(from.as_str(), false).await.map_err(|error| of_client(error, Doing::Other))
    }

    async fn watch_list(&self) -> Result<Option<Self::Watch>, SourceError> {
        // Relaxed: nothing hangs on it.
        if !self.streams_lists.load(Ordering::Relaxed) {
            return Ok(None);
        }
        match self.watch_from(if self.from_cache { "0" } else { "" }, true).await {
            Ok(watch) => Ok(Some(watch)),
            Err(kube::Error::Api(status)) if matches!(status.code, 400 | 422) => {
                tracing::warn!(%status, "the server has no lists as streams: listed in pages");
                // Relaxed: who does not see it yet asks in vain once more.
                self.streams_lists.store(false, Ordering::Relaxed);
                Ok(None)
            }
            Err(error) => Err(of_client(error, Doing::Other)),
        }
    }
}
