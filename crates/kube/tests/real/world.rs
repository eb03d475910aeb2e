//! The ConfigMaps of one namespace: who changes them, and what a list of them says.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures_util::future::join_all;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ManagedFieldsEntry;
use kube::api::{Api, DeleteParams, ListParams, ObjectMeta, PostParams};
use kube::{Client, ResourceExt};

/// Calls of one writer that are under way at once.
const LANES: usize = 48;

/// What matters of an object: who it is, as of when, and a number that grows with each change of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct State {
    pub(crate) uid: String,
    pub(crate) version: u64,
    pub(crate) number: u64,
}

impl State {
    pub(crate) fn of(object: &ConfigMap) -> State {
        let version = object.resource_version().expect("the server gives versions");
        let number = object.data.as_ref().and_then(|data| data.get("number")).expect("it is one of ours");
        State {
            uid: object.uid().expect("the server gives identities"),
            version: version.parse().expect("a number"),
            number: number.parse().expect("a number"),
        }
    }
}

/// All objects by name.
pub(crate) type States = BTreeMap<String, State>;

/// Changes ConfigMaps, straight at the server.
#[derive(Clone)]
pub(crate) struct World {
    api: Api<ConfigMap>,
    namespace: String,
}

fn config_map(name: &str, number: u64) -> ConfigMap {
    ConfigMap {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            // An empty entry keeps the server from writing down who has set which field, which would be half of its work.
            managed_fields: Some(vec![ManagedFieldsEntry::default()]),
            ..ObjectMeta::default()
        },
        data: Some(BTreeMap::from([("number".to_owned(), number.to_string())])),
        ..ConfigMap::default()
    }
}

pub(crate) fn name_of(index: usize) -> String {
    format!("object-{index:05}")
}

impl World {
    /// A namespace of this name.
    pub(crate) async fn new(client: &Client, namespace: &str) -> World {
        let metadata = ObjectMeta { name: Some(namespace.to_owned()), ..ObjectMeta::default() };
        let namespaces: Api<Namespace> = Api::all(client.clone());
        let created = Namespace { metadata, ..Namespace::default() };
        namespaces.create(&PostParams::default(), &created).await.expect("it is new");
        World::existing(client, namespace)
    }

    pub(crate) fn existing(client: &Client, namespace: &str) -> World {
        World { api: Api::namespaced(client.clone(), namespace), namespace: namespace.to_owned() }
    }

    pub(crate) fn namespace(&self) -> &str {
        &self.namespace
    }

    /// The version of the new object.
    pub(crate) async fn create(&self, name: &str, number: u64) -> u64 {
        let created = self.api.create(&PostParams::default(), &config_map(name, number)).await;
        State::of(&created.expect("it is new")).version
    }

    /// The version of the changed object.
    pub(crate) async fn update(&self, name: &str, number: u64) -> u64 {
        let replaced = self.api.replace(name, &PostParams::default(), &config_map(name, number)).await;
        State::of(&replaced.expect("it is there")).version
    }

    pub(crate) async fn delete(&self, name: &str) {
        self.api.delete(name, &DeleteParams::default()).await.expect("it is there");
    }

    /// Another object under the same name.
    pub(crate) async fn recreate(&self, name: &str, number: u64) {
        self.delete(name).await;
        self.create(name, number).await;
    }

    /// Changes an object that is there for this, or makes it: the version of the newest change of all.
    pub(crate) async fn touch(&self) -> u64 {
        const NAME: &str = "touched";
        match self.api.get_opt(NAME).await.expect("the server is there") {
            Some(object) => self.update(NAME, State::of(&object).number + 1).await,
            None => self.create(NAME, 1).await,
        }
    }

    /// The first so many objects, all with number 1.
    pub(crate) async fn fill(&self, count: usize) {
        let next = AtomicUsize::new(0);
        let lane = async || {
            loop {
                // Relaxed: nothing hangs on it but who takes which.
                let index = next.fetch_add(1, Ordering::Relaxed);
                if index >= count {
                    return;
                }
                self.create(&name_of(index), 1).await;
            }
        };
        join_all((0..LANES).map(|_| lane())).await;
    }

    /// So many changes, as fast as the server takes them, of the first `keys` objects, which are there and have number 1: mostly updates, now and
    /// then a deletion and then the same name again. `after` hears how many there have been after each. Returns how many there were.
    pub(crate) async fn storm(&self, keys: usize, changes: usize, after: impl Fn(usize)) -> usize {
        let made = AtomicUsize::new(0);
        let after = &after;
        let lane = async |lane: usize| {
            let mine: Vec<usize> = (lane..keys).step_by(LANES).collect();
            let mut numbers = vec![1; mine.len()];
            let mut is_there = vec![true; mine.len()];
            let mut step = lane;
            // Relaxed, both: a count.
            while made.load(Ordering::Relaxed) < changes {
                // No two lanes share a key; a stride without a common factor meets each in an order that is no other's.
                step += 7919;
                let at = step % mine.len();
                let name = name_of(mine[at]);
                numbers[at] += 1;
                let deletes = is_there[at] && step.is_multiple_of(11);
                if deletes {
                    self.delete(&name).await;
                } else if is_there[at] {
                    self.update(&name, numbers[at]).await;
                } else {
                    self.create(&name, numbers[at]).await;
                }
                is_there[at] = !deletes;
                after(made.fetch_add(1, Ordering::Relaxed) + 1);
            }
        };
        join_all((0..LANES).map(lane)).await;
        made.load(Ordering::Relaxed)
    }

    /// What the server has now, all in one list, and its version.
    pub(crate) async fn list(&self) -> (States, u64) {
        let list = self.api.list(&ListParams::default()).await.expect("the server is there");
        let version = list.metadata.resource_version.expect("a list has a version");
        let states = list.items.iter().map(|object| (object.name_any(), State::of(object))).collect();
        (states, version.parse().expect("a number"))
    }
}
