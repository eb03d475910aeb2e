//! Informers that run, and who checks them.

use std::sync::Arc;
use std::time::Duration;

use delta_fifo::{Builder, DeltaQueue, KnownView};
use delta_fifo_informer::{
    Controller, HandlerOptions, IndexerBuilder, InformerHandle, ListWatch, NAMESPACE, Namespaced, Progress,
    Reflector, Registration, RetryPolicy, SharedInformer, SourceQueue,
};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::ResourceExt;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::counted::{Asked, Counted};
use crate::observer::Observer;
use crate::world::{State, States, World};

/// Nothing takes so long, on the slowest machine.
pub(crate) const LONG: Duration = Duration::from_secs(120);

fn reflector<L: ListWatch<Object = ConfigMap>>(source: L) -> (Reflector<Counted<L>>, Arc<Asked>) {
    let (source, asked) = Counted::new(source);
    // Soon again: a test must not wait for a server that is there.
    let retry = RetryPolicy {
        initial: Duration::from_millis(20),
        max: Duration::from_millis(200),
        ..RetryPolicy::default()
    };
    // Another object under the same name is another object.
    let options = Builder::new().identity(|object: &Arc<ConfigMap>| object.metadata.uid.clone());
    let queue: Arc<SourceQueue<Counted<L>>> = Arc::new(options.build());
    (Reflector::builder(source).retry(retry).build(queue), asked)
}

/// Something that runs until it is told to stop.
struct Task {
    stop: Option<oneshot::Sender<()>>,
    task: JoinHandle<()>,
}

impl Task {
    fn spawn<F: Future<Output = ()> + Send + 'static>(run: impl FnOnce(oneshot::Receiver<()>) -> F) -> Task {
        let (stop, stopped) = oneshot::channel();
        Task { stop: Some(stop), task: tokio::spawn(run(stopped)) }
    }

    /// Ends well, and soon.
    async fn stop(mut self) {
        self.stop.take().expect("once").send(()).expect("it runs");
        tokio::time::timeout(LONG, &mut self.task).await.expect("it ends").expect("well");
    }
}

impl Drop for Task {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Until everything is processed that has happened in the world so far; what the server has then.
async fn catch_up<L: ListWatch>(progress: &mut Progress<L>, world: &World) -> States {
    let last = world.touch().await.to_string().into();
    let through = tokio::time::timeout(LONG, progress.wait_processed(&last)).await;
    through
        .unwrap_or_else(|_| panic!("{last} comes, not only {:?}", progress.observed()))
        .expect("it goes on");
    world.list().await.0
}

fn states_of<'o>(objects: impl IntoIterator<Item = &'o Arc<ConfigMap>>) -> States {
    objects.into_iter().map(|object| (object.name_any(), State::of(object))).collect()
}

/// By hand: a difference of ten thousand objects is not to be read.
pub(crate) fn assert_same(who: &str, has: &States, server: &States) {
    let wrong: Vec<_> = server.iter().filter(|(name, state)| has.get(*name) != Some(state)).collect();
    let more: Vec<_> = has.iter().filter(|(name, _)| !server.contains_key(*name)).collect();
    assert!(wrong.is_empty(), "{who} lacks {}, first {:?}", wrong.len(), wrong[0]);
    assert!(more.is_empty(), "{who} has {} too many, first {:?}", more.len(), more[0]);
}

/// A controller with an observer as its handler.
pub(crate) struct Controlled<L: ListWatch> {
    pub(crate) observer: Observer,
    pub(crate) asked: Arc<Asked>,
    queue: Arc<SourceQueue<Counted<L>>>,
    progress: Progress<Counted<L>>,
    task: Task,
}

impl<L: ListWatch<Object = ConfigMap>> Controlled<L> {
    pub(crate) fn start(source: L) -> Self {
        let (reflector, asked) = reflector(source);
        let observer = Observer::default();
        let (queue, progress) = (Arc::clone(reflector.queue()), reflector.progress());
        let controller = Controller::new(reflector, observer.clone()).workers(4);
        let task = Task::spawn(async |stopped| {
            controller.run(async { _ = stopped.await }).await.expect("nobody closes it");
        });
        Controlled { observer, asked, queue, progress, task }
    }

    /// Everything has come through, and the store, the handler and the server agree.
    pub(crate) async fn assert_caught_up(&mut self, world: &World) {
        let server = catch_up(&mut self.progress, world).await;
        self.assert_same(&server);
    }

    /// The store, the handler and the server agree now.
    pub(crate) fn assert_same(&self, server: &States) {
        let known: Vec<_> = self.queue.known().iter().map(|known| Arc::clone(known.object())).collect();
        assert_same("the store", &states_of(&known), server);
        assert_same("the handler", &self.observer.states(), server);
    }

    pub(crate) async fn stop(self) {
        self.task.stop().await;
    }
}

/// One source for many observers.
pub(crate) struct Informed<L: ListWatch> {
    pub(crate) asked: Arc<Asked>,
    handle: InformerHandle<Counted<L>>,
    progress: Progress<Counted<L>>,
    task: Task,
}

impl<L: ListWatch<Object = ConfigMap, Key: Namespaced>> Informed<L> {
    pub(crate) fn start(source: L) -> Self {
        let (reflector, asked) = reflector(source);
        let progress = reflector.progress();
        let informer = SharedInformer::new(reflector, IndexerBuilder::default().by_namespace());
        let handle = informer.handle();
        let task = Task::spawn(async |stopped| {
            informer.run(async { _ = stopped.await }).await.expect("nobody closes it");
        });
        Informed { asked, handle, progress, task }
    }

    pub(crate) fn add(&self, observer: &Observer, workers: usize) -> Registration<Counted<L>> {
        let options = HandlerOptions { workers, ..HandlerOptions::default() };
        self.handle.add_handler(observer.clone(), options).expect("it runs")
    }

    /// Everything has come to the handlers' queues, and the store and the index agree with the server. What that has.
    pub(crate) async fn assert_caught_up(&mut self, world: &World) -> States {
        let server = catch_up(&mut self.progress, world).await;
        let known: Vec<_> = self.handle.store().iter().map(|known| Arc::clone(known.object())).collect();
        assert_same("the store", &states_of(&known), &server);
        let indexes = self.handle.indexes();
        let indexed = indexes.by_index(NAMESPACE, world.namespace()).expect("it is built in");
        assert_same("the index", &states_of(indexed.map(|(_, object)| object)), &server);
        server
    }

    pub(crate) async fn stop(self) {
        self.task.stop().await;
    }
}
