//! What the controller wants to know at any time: objects per namespace, pods per node and phase.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::trace::{Object, Placement};

/// Counts, kept up to date by differences alone.
///
/// Signed: with a queue that loses or repeats a change a count goes wrong for good, and the comparison at the
/// end shows it.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Index {
    namespaces: BTreeMap<Arc<str>, i64>,
    placements: BTreeMap<Placement, i64>,
}

impl Index {
    /// An object was `old` and is `new`; None: it was or is not there.
    pub(crate) fn change(&mut self, old: Option<&Object>, new: Option<&Object>) {
        // Most updates; the namespace is part of the key, so it is the same too.
        if old.zip(new).is_some_and(|(old, new)| old.placement == new.placement) {
            return;
        }
        for (object, by) in [(old, -1), (new, 1)] {
            let Some(object) = object else { continue };
            count(&mut self.namespaces, &object.namespace, by);
            if let Some(placement) = &object.placement {
                count(&mut self.placements, placement, by);
            }
        }
    }

    pub(crate) fn namespaces(&self) -> usize {
        self.namespaces.len()
    }

    /// Nodes that pods run on.
    pub(crate) fn nodes(&self) -> usize {
        // Placements are sorted by node, so equal ones are neighbours.
        let mut nodes: Vec<_> =
            self.placements.keys().filter_map(|placement| placement.node.as_ref()).collect();
        nodes.dedup();
        nodes.len()
    }

    pub(crate) fn phases(&self) -> BTreeMap<Arc<str>, i64> {
        let mut phases = BTreeMap::new();
        for (placement, pods) in &self.placements {
            *phases.entry(placement.phase.clone()).or_default() += pods;
        }
        phases
    }
}

impl<'a> FromIterator<&'a Object> for Index {
    fn from_iter<I: IntoIterator<Item = &'a Object>>(objects: I) -> Self {
        let mut index = Index::default();
        objects.into_iter().for_each(|object| index.change(None, Some(object)));
        index
    }
}

fn count<K: Ord + Clone>(counts: &mut BTreeMap<K, i64>, key: &K, by: i64) {
    let count = counts.entry(key.clone()).or_default();
    *count += by;
    if *count == 0 {
        counts.remove(key);
    }
}
