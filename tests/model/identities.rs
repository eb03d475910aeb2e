//! What is handed out where another identity under the same key is another thing.

use super::super::config::identity;
use super::*;

impl Model {
    /// The facts that came after what was `shown`, compared with it, else with what was `known` before.
    pub(super) fn identify(&mut self, known: Option<u32>, shown: Vec<Fact>, facts: Vec<Fact>) -> Vec<Fact> {
        let merged = self.merged;
        // Live deltas were merged into the deletion: it is newer than one that was given back.
        let last_deletion = facts.iter().rposition(|fact| fact.0.is_deletion()).unwrap_or(0);
        let absorbed = self.config.latest && facts[..last_deletion].iter().any(|fact| !fact.0.is_deletion());
        let mut joined = Vec::new();
        for fact in facts {
            self.merge(&mut joined, fact);
        }
        let mut deltas = shown;
        for (kind, object) in joined {
            let live = match deltas.last() {
                Some(last) => last.1.filter(|_| !last.0.is_deletion()),
                None => known,
            };
            let old = live.filter(|&live| object.is_some_and(|object| identity(object) != identity(live)));
            match old {
                Some(old) => {
                    let gone = (DeltaKind::DeletedFinalStateUnknown, Some(old));
                    self.merge_identified(&mut deltas, gone, false);
                    if !kind.is_deletion() {
                        self.merge_identified(&mut deltas, (DeltaKind::Added, object), false);
                    }
                }
                None => self.merge_identified(&mut deltas, (kind, object), absorbed),
            }
        }
        // What came back is joined by then: not counted.
        self.merged = merged;
        deltas
    }

    /// The deletion of what was there first stays.
    fn merge_identified(&mut self, deltas: &mut Vec<Fact>, new: Fact, absorbed: bool) {
        let at = if self.config.latest { 0 } else { deltas.len().saturating_sub(1) };
        if let Some((kind, Some(old))) = deltas.get(at).copied() {
            let other = new.1.is_some_and(|new| identity(new) != identity(old));
            if kind.is_deletion() && new.0.is_deletion() && other {
                return deltas.truncate(at + 1);
            }
            if kind.is_deletion() && new.0.is_deletion() && absorbed {
                deltas.clear();
            }
        }
        self.merge(deltas, new);
    }
}
