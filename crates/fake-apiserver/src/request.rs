//! What a request asks for.

use http::Uri;
use percent_encoding::percent_decode_str;

/// Where a request goes.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Route {
    /// Such as `api/v1/pods`.
    pub(crate) resource: String,
    /// Empty: all, or none.
    pub(crate) namespace: String,
    /// Empty: the collection.
    pub(crate) name: String,
}

impl Route {
    pub(crate) fn of(path: &str) -> Option<Self> {
        let parts: Vec<&str> = path.trim_matches('/').split('/').collect();
        let group = match *parts.first()? {
            "api" => 2,
            "apis" => 3,
            _ => return None,
        };
        let (group, rest) = parts.split_at_checked(group)?;
        let (namespace, plural, name) = match *rest {
            // A subresource is written with its object. This is the namespace's own.
            ["namespaces", name, "status" | "finalize"] => ("", "namespaces", name),
            ["namespaces", namespace, plural] => (namespace, plural, ""),
            ["namespaces", namespace, plural, name, ..] => (namespace, plural, name),
            [plural] => ("", plural, ""),
            [plural, name, ..] => ("", plural, name),
            [] => return None,
        };
        Some(Route {
            resource: format!("{}/{plural}", group.join("/")),
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        })
    }
}

/// The parameters of lists, watches and writes.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Query {
    pub(crate) is_watch: bool,
    pub(crate) limit: Option<usize>,
    pub(crate) token: Option<String>,
    pub(crate) version: Option<String>,
    pub(crate) labels: String,
    pub(crate) fields: String,
    pub(crate) timeout: Option<u64>,
    pub(crate) wants_bookmarks: bool,
    pub(crate) wants_initial: bool,
}

impl Query {
    pub(crate) fn of(uri: &Uri) -> Self {
        let mut query = Query::default();
        for (key, value) in uri.query().unwrap_or_default().split('&').filter_map(|pair| pair.split_once('='))
        {
            let value = value.replace('+', " ");
            let value = percent_decode_str(&value).decode_utf8_lossy().into_owned();
            let is_true = value == "true" || value == "1";
            match key {
                "watch" => query.is_watch = is_true,
                "limit" => query.limit = value.parse().ok().filter(|limit| *limit > 0),
                "continue" => query.token = Some(value).filter(|token| !token.is_empty()),
                "resourceVersion" => query.version = Some(value).filter(|version| !version.is_empty()),
                "labelSelector" => query.labels = value,
                "fieldSelector" => query.fields = value,
                "timeoutSeconds" => query.timeout = value.parse().ok(),
                "allowWatchBookmarks" => query.wants_bookmarks = is_true,
                "sendInitialEvents" => query.wants_initial = is_true,
                _ => {}
            }
        }
        query
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_of_every_form() {
        for (path, resource, namespace, name) in [
            ("/api/v1/pods", "api/v1/pods", "", ""),
            ("/api/v1/namespaces/prod/pods", "api/v1/pods", "prod", ""),
            ("/api/v1/namespaces/prod/pods/web/status", "api/v1/pods", "prod", "web"),
            ("/api/v1/namespaces", "api/v1/namespaces", "", ""),
            ("/api/v1/namespaces/prod", "api/v1/namespaces", "", "prod"),
            ("/api/v1/namespaces/prod/status", "api/v1/namespaces", "", "prod"),
            ("/api/v1/nodes/one", "api/v1/nodes", "", "one"),
            ("/apis/apps/v1/namespaces/a/deployments/b", "apis/apps/v1/deployments", "a", "b"),
        ] {
            let (resource, namespace, name) = (resource.to_owned(), namespace.to_owned(), name.to_owned());
            assert_eq!(Route::of(path), Some(Route { resource, namespace, name }), "{path}");
        }
        assert!(["/healthz", "/apis/apps", "/api/v1", ""].iter().all(|path| Route::of(path).is_none()));
    }
}
