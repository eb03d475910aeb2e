//! A handler that believes nothing: whatever it is told must follow from what it was told before.

use std::collections::HashMap;
use std::fmt::Debug;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use delta_fifo_informer::{EventHandler, Handler, Notification};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::ResourceExt;
use tokio::sync::watch;

use crate::informer::LONG;
use crate::world::{State, States};

/// What one handler was told of one object name.
#[derive(Debug, Default)]
struct Object {
    /// As it was told last; none: it is gone.
    state: Option<State>,
    /// The newest version of whatever had this name.
    version: u64,
    /// The newest number.
    number: u64,
    in_hands: bool,
}

#[derive(Debug, Default)]
struct Seen {
    objects: HashMap<String, Object>,
    counts: Told,
    faults: Vec<String>,
}

/// How often it was told of what.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Told {
    pub(crate) added: usize,
    pub(crate) updated: usize,
    pub(crate) deleted: usize,
    /// Of the deletions: a list said so.
    pub(crate) missed: usize,
    /// Updates to the same version: another list, or a resync.
    pub(crate) same: usize,
    /// Updates after which numbers are missing.
    pub(crate) skipped: usize,
}

impl Told {
    /// Of changes that a watch has told.
    pub(crate) fn changes(&self) -> usize {
        self.added + self.updated - self.same + self.deleted - self.missed
    }
}

/// Checks what it is told, as slowly as it was told to. Clones are the same.
#[derive(Clone, Debug, Default)]
pub(crate) struct Observer {
    seen: Arc<Mutex<Seen>>,
    /// How long it takes for each notification.
    takes: Option<Duration>,
    is_held: Arc<watch::Sender<bool>>,
    /// Changes with each notification.
    progress: Arc<watch::Sender<()>>,
}

impl Observer {
    pub(crate) fn that_takes(takes: Duration) -> Observer {
        Observer { takes: Some(takes), ..Observer::default() }
    }

    /// From now on it ends no notification.
    pub(crate) fn hold(&self) {
        self.is_held.send_replace(true);
    }

    pub(crate) fn release(&self) {
        self.is_held.send_replace(false);
    }

    /// Until it was told of so many changes by watches.
    pub(crate) async fn until_told(&self, changes: usize) {
        self.until(&format!("{changes} changes"), |told| told.changes() >= changes).await;
    }

    pub(crate) async fn until(&self, what: &str, is_so: impl Fn(Told) -> bool) {
        let mut progress = self.progress.subscribe();
        let wait = async {
            while !is_so(self.told()) {
                progress.changed().await.expect("it is here");
            }
        };
        let in_time = tokio::time::timeout(LONG, wait).await;
        in_time.unwrap_or_else(|_| panic!("{what}, not only {:?}", self.told()));
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().expect("nobody panics here")
    }

    pub(crate) fn told(&self) -> Told {
        self.seen().counts
    }

    /// All that is there, as far as it knows. Panics if anything was wrong so far.
    pub(crate) fn states(&self) -> States {
        let seen = self.seen();
        assert!(seen.faults.is_empty(), "{} faults, first {:#?}", seen.faults.len(), &seen.faults[..1]);
        let there =
            seen.objects.iter().filter_map(|(name, object)| Some((name.clone(), object.state.clone()?)));
        there.collect()
    }

    async fn observe(&self, key: &(impl Debug + Sync), notification: Notification<ConfigMap>) {
        let name = notification.object().name_any();
        {
            let mut seen = self.seen();
            let Seen { objects, faults, .. } = &mut *seen;
            let object = objects.entry(name.clone()).or_default();
            if std::mem::replace(&mut object.in_hands, true) {
                faults.push(format!("{key:?} in two hands"));
            }
        }
        if let Some(takes) = self.takes {
            tokio::time::sleep(takes).await;
        }
        self.is_held.subscribe().wait_for(|held| !held).await.expect("it is here");
        let mut seen = self.seen();
        let Seen { objects, counts, faults } = &mut *seen;
        let object = objects.get_mut(&name).expect("it was put there");
        object.in_hands = false;
        if let Err(fault) = object.check(&notification, counts) {
            faults.push(format!("{key:?} {fault}: {notification:?} after {object:?}"));
        }
        object.take(&notification);
        self.progress.send_replace(());
    }
}

impl Object {
    fn check(&self, notification: &Notification<ConfigMap>, counts: &mut Told) -> Result<(), &'static str> {
        let now = State::of(notification.object());
        match (notification, &self.state) {
            (Notification::Added { .. }, None) => {
                counts.added += 1;
                need(now.version > self.version, "added as something old")?;
                need(now.number > self.number, "added with an old number")
            }
            (Notification::Updated { old, .. }, Some(before)) => {
                counts.updated += 1;
                counts.same += usize::from(now == *before);
                counts.skipped += usize::from(now.number > before.number + 1);
                need(State::of(old) == *before, "updated from something else")?;
                need(now.uid == before.uid, "updated to another object")?;
                need(now == *before || now.version > before.version, "updated to an old version")?;
                need(now == *before || now.number > before.number, "updated to an old number")
            }
            (Notification::Deleted { is_missed, .. }, Some(before)) => {
                counts.deleted += 1;
                counts.missed += usize::from(*is_missed);
                need(now.uid == before.uid, "another object was deleted")?;
                need(now.number == before.number, "deleted as something else")?;
                if *is_missed {
                    need(now.version == before.version, "a list knew more than it can")
                } else {
                    // kmock's deletions have no version of their own.
                    need(now.version >= before.version, "deleted before it was what it was")
                }
            }
            (Notification::Added { .. }, Some(_)) => Err("added though it was there"),
            (_, None) => Err("changed though it was not there"),
        }
    }

    fn take(&mut self, notification: &Notification<ConfigMap>) {
        let now = State::of(notification.object());
        (self.version, self.number) = (now.version.max(self.version), now.number.max(self.number));
        self.state = (!matches!(notification, Notification::Deleted { .. })).then_some(now);
    }
}

fn need(holds: bool, otherwise: &'static str) -> Result<(), &'static str> {
    holds.then_some(()).ok_or(otherwise)
}

impl<K: Debug + Send + Sync + 'static> Handler<K, ConfigMap> for Observer {
    type Error = std::convert::Infallible;

    async fn handle(&self, key: &K, notification: Notification<ConfigMap>) -> Result<(), Self::Error> {
        self.observe(key, notification).await;
        Ok(())
    }
}

impl<K: Debug + Send + Sync + 'static> EventHandler<K, ConfigMap> for Observer {
    async fn on_add(&self, key: &K, object: Arc<ConfigMap>, is_initial: bool) {
        self.observe(key, Notification::Added { object, is_initial }).await;
    }

    async fn on_update(&self, key: &K, old: Arc<ConfigMap>, new: Arc<ConfigMap>) {
        self.observe(key, Notification::Updated { old, new }).await;
    }

    async fn on_delete(&self, key: &K, last: Arc<ConfigMap>, is_missed: bool) {
        self.observe(key, Notification::Deleted { last, is_missed }).await;
    }
}
