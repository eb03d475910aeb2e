//! `informers`: this workspace's informer beside kube-runtime, on one and the same server in memory.
//!
//! Four trials (`src/trials.rs`), which are none of `trial all`, since they need crates that nothing else here does. All rows tell the same
//! handlers (`told.rs`), which keep the same books; what a row must not do makes its run void.
//!
//! kube-runtime's subscribers are told the newest object at the moment when they look, and no deletion. That is counted, and voids nothing.

mod cluster;
mod deletions;
mod events;
mod latency;
mod memory;
mod rivals;
#[cfg(test)]
mod tests;
mod told;
mod trace;

use std::sync::Arc;
use std::time::Duration;

use crate::trials::{Size, Trial};
use cluster::{Cluster, Plan};
use rivals::{OURS, OURS_STREAM, Running};
use told::Told;

pub(crate) static ALL: &[&Trial] = &[&events::TRIAL, &memory::TRIAL, &latency::TRIAL, &deletions::TRIAL];

/// The name of the command, and of the workload `informers events` and so on.
pub(crate) fn by_id(id: &str) -> Option<&'static Trial> {
    ALL.iter().copied().find(|trial| {
        let short = trial.id.rsplit(' ').next().expect("it has a name");
        trial.id.eq_ignore_ascii_case(id) || short.eq_ignore_ascii_case(id)
    })
}

fn is_ours(row: &str) -> bool {
    row == OURS || row == OURS_STREAM
}

/// Who is told nothing for so long, and is not through, is taken for stalled: kube-runtime's subscribers may be. Of our own rows that is an
/// error, for which there has to be no doubt.
fn patience(row: &str, size: Size) -> Duration {
    if size == Size::Quick && !is_ours(row) { Duration::from_secs(2) } else { cluster::PATIENCE }
}

/// One that has listed and watches, with its handlers told of all that there is at first.
struct Ready {
    cluster: Cluster,
    running: Running,
    /// From the start until all handlers were told of all objects.
    listed: Duration,
}

impl Ready {
    fn start(row: &str, plan: &Plan, handlers: &[Arc<Told>]) -> Result<Self, String> {
        Self::of(Cluster::new(&plan.first), handlers, |cluster| rivals::start(row, cluster, handlers), plan)
    }

    fn of(
        cluster: Cluster,
        handlers: &[Arc<Told>],
        start: impl FnOnce(&Cluster) -> Running,
        plan: &Plan,
    ) -> Result<Self, String> {
        let finals = cluster.now(&plan.keys);
        handlers.iter().for_each(|handler| handler.expect(finals.clone()));
        let began = std::time::Instant::now();
        let running = start(&cluster);
        if cluster::stalled(handlers, cluster::PATIENCE) > 0 {
            return Err("not all handlers were told of all objects at first".into());
        }
        let listed = began.elapsed();
        if !cluster.is_watched() {
            return Err("nobody watches".into());
        }
        Ok(Self { cluster, running, listed })
    }

    /// What is wrong at the end: in the books of the handlers, and in the store.
    fn violations(&self, handlers: &[Arc<Told>]) -> Vec<String> {
        let mut all: Vec<String> = handlers.iter().flat_map(|handler| handler.violations()).collect();
        all.extend(self.running.store.as_ref().and_then(|store| self.cluster.differs_from(store)));
        all
    }
}
