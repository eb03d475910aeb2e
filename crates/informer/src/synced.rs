//! Whether the first list has come through; for handlers, informers, and several of them at once.

use tokio::sync::watch;

/// Whether the first list has come through, for one handler or one informer. Once it has, that stays so.
#[derive(Clone, Debug)]
pub struct Synced(watch::Receiver<State>);

/// It ended, or was removed, before the first list had come through.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("it ended before the first list had come through")]
pub struct NeverSynced;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    NotYet,
    Synced,
    Never,
}

impl Synced {
    /// Whether it has.
    pub fn has_synced(&self) -> bool {
        *self.0.borrow() == State::Synced
    }

    /// Waits until it has.
    ///
    /// # Errors
    ///
    /// It has ended, or was removed, before.
    pub async fn wait(mut self) -> Result<(), NeverSynced> {
        match self.0.wait_for(|state| *state != State::NotYet).await {
            Ok(state) if *state == State::Synced => Ok(()),
            _ => Err(NeverSynced),
        }
    }

    /// Waits until all of them have: client-go's `WaitForCacheSync`.
    ///
    /// # Errors
    ///
    /// One of them has ended before.
    pub async fn wait_all(all: impl IntoIterator<Item = Synced>) -> Result<(), NeverSynced> {
        for synced in all {
            synced.wait().await?;
        }
        Ok(())
    }
}

/// Decides it, once.
#[derive(Debug)]
pub(crate) struct SyncedSender(watch::Sender<State>);

impl Default for SyncedSender {
    fn default() -> Self {
        SyncedSender(watch::Sender::new(State::NotYet))
    }
}

impl SyncedSender {
    pub(crate) fn subscribe(&self) -> Synced {
        Synced(self.0.subscribe())
    }

    pub(crate) fn is_synced(&self) -> bool {
        *self.0.borrow() == State::Synced
    }

    pub(crate) fn has_synced(&self) {
        self.decide(State::Synced);
    }

    /// If it has not.
    pub(crate) fn never(&self) {
        self.decide(State::Never);
    }

    fn decide(&self, decided: State) {
        self.0.send_if_modified(|state| {
            let is_open = *state == State::NotYet;
            if is_open {
                *state = decided;
            }
            is_open
        });
    }
}
