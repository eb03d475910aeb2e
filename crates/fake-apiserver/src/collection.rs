//! The objects of one resource, from outside.

use serde::Serialize;
use serde_json::Value;

use crate::ApiServer;

/// The objects of one resource, to be changed and looked at without a client.
#[derive(Clone, Debug)]
pub struct Collection {
    server: ApiServer,
    resource: String,
}

impl Collection {
    pub(crate) fn new(server: ApiServer, resource: String) -> Self {
        Collection { server, resource }
    }

    /// Creates the object, or puts it in the place of the one of its name; the version that it has then. Version, uid and time of
    /// creation that it brings are not looked at.
    ///
    /// # Panics
    ///
    /// It cannot be written as JSON, or has no name.
    pub fn put(&self, object: &impl Serialize) -> u64 {
        let object = serde_json::to_value(object).expect("it can be written");
        let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default().to_owned();
        let (namespace, name) = (text("namespace"), text("name"));
        assert!(!name.is_empty(), "an object without a name: {object}");
        self.server.change(|state| state.put(&self.resource, &namespace, &name, object).version)
    }

    /// Deletes the object of this name; the version of that, if it was there. An empty namespace: it is in none.
    pub fn delete(&self, namespace: &str, name: &str) -> Option<u64> {
        self.server.change(|state| state.delete(&self.resource, namespace, name).map(|last| last.version))
    }

    /// All objects, by namespace and name.
    ///
    /// # Panics
    ///
    /// No: they have been written here.
    #[must_use]
    pub fn objects(&self) -> Vec<Value> {
        let all: Vec<_> = match self.server.state().resources.get(&self.resource) {
            Some(objects) => objects.all.values().map(|entry| entry.json.clone()).collect(),
            None => Vec::new(),
        };
        all.iter().map(|json| serde_json::from_slice(json).expect("it was written here")).collect()
    }

    /// Uid and version of each object by `namespace/name`: enough to compare, for less than [`objects`](Self::objects).
    #[must_use]
    pub fn versions(&self) -> Vec<(String, String, u64)> {
        let state = self.server.state();
        let Some(objects) = state.resources.get(&self.resource) else { return Vec::new() };
        let key = |namespace: &str, name: &str| {
            if namespace.is_empty() { name.to_owned() } else { format!("{namespace}/{name}") }
        };
        objects
            .all
            .values()
            .map(|entry| (key(&entry.namespace, &entry.name), entry.uid.clone(), entry.version))
            .collect()
    }
}
