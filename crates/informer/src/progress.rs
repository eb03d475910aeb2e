//! How far a reflector is, and how far behind it what is processed.

use std::collections::VecDeque;
use std::sync::Arc;

use delta_fifo::DeltaQueue;
use tokio::sync::watch;

use crate::reflector::SourceQueue;
use crate::source::ListWatch;
use crate::versions::ResourceVersion;

/// So many versions that cannot be compared are remembered.
const REMEMBERED: usize = 256;

/// What a reflector has brought into its queue.
#[derive(Debug, Default)]
pub(crate) struct Observed {
    newest: Option<ResourceVersion>,
    /// Of those that are no numbers, the last ones.
    others: VecDeque<ResourceVersion>,
}

impl Observed {
    /// Whether that is news.
    pub(crate) fn observe(&mut self, version: &ResourceVersion) -> bool {
        if self.newest.as_ref() == Some(version) {
            return false;
        }
        if !version.is_number() {
            if self.others.len() == REMEMBERED {
                self.others.pop_front();
            }
            self.others.push_back(version.clone());
        }
        self.newest = Some(version.clone());
        true
    }

    fn has(&self, version: &ResourceVersion) -> bool {
        self.newest.as_ref().is_some_and(|newest| newest >= version) || self.others.contains(version)
    }
}

/// How far a [`Reflector`](crate::Reflector) is, and how far what is processed is behind.
#[derive(Debug)]
pub struct Progress<L: ListWatch> {
    queue: Arc<SourceQueue<L>>,
    observed: watch::Receiver<Observed>,
}

impl<L: ListWatch> Progress<L> {
    pub(crate) fn new(queue: Arc<SourceQueue<L>>, observed: watch::Receiver<Observed>) -> Self {
        Progress { queue, observed }
    }
}

impl<L: ListWatch> Clone for Progress<L> {
    fn clone(&self) -> Self {
        Progress { queue: Arc::clone(&self.queue), observed: self.observed.clone() }
    }
}

/// Why a version can no longer come.
#[derive(Debug, thiserror::Error)]
#[error("version {version}: the reflector has ended, or the queue is closed")]
pub struct WaitProcessedError {
    /// What was waited for.
    pub version: ResourceVersion,
}

impl<L: ListWatch> Progress<L> {
    /// The newest version up to which everything is in the queue; none before the first list.
    #[must_use]
    pub fn observed(&self) -> Option<ResourceVersion> {
        self.observed.borrow().newest.clone()
    }

    /// The newest version up to which everything has been processed. O(known keys) at most.
    #[must_use]
    pub fn processed(&self) -> Option<ResourceVersion> {
        self.queue.processed_through().map(|version| version.to_string().into())
    }

    /// Waits until everything up to this version has been processed: who has written it and got it from the source then sees its own
    /// write. In a [`Handler`](crate::Handler) it would wait for itself. Of versions that are no numbers, and so cannot be
    /// compared, the last 256 are remembered: an older one is waited for for ever.
    ///
    /// # Errors
    ///
    /// It can no longer come.
    pub async fn wait_processed(&mut self, version: &ResourceVersion) -> Result<(), WaitProcessedError> {
        match self.wait_on(version).await {
            // What came before the end has come.
            Err(_) if self.processed().is_some_and(|processed| processed >= *version) => Ok(()),
            ended => ended,
        }
    }

    async fn wait_on(&mut self, version: &ResourceVersion) -> Result<(), WaitProcessedError> {
        let too_late = || WaitProcessedError { version: version.clone() };
        let completion = {
            let reached = |observed: &Observed| observed.has(version);
            let observed = self.observed.wait_for(reached).await.map_err(|_| too_late())?;
            let newest = observed.newest.clone().expect("it has been reached");
            // As long as nothing newer is observed: what is processed does not go back.
            self.queue.mark(newest).map_err(|_| too_late())?
        };
        completion.wait_async().await.map_err(|_| too_late())
    }
}
