//! Sources that misbehave, and what a reflector makes of them.

mod common;

use std::sync::Arc;
use std::time::Duration;

use common::scripted::{Event, Scripted, events, object};
use common::{Memory, Object};
use delta_fifo::{Builder, DeltaQueue, KnownView};
use delta_fifo_informer::{Page, Reflector, ReflectorBuilder, RetryPolicy, SourceError, SourceQueue};
use futures_util::stream::{self, StreamExt};
use tokio::task::JoinHandle;

type Queue = SourceQueue<Memory>;

/// A reflector of that source that runs, and somebody who takes all that it brings; all that is taken is written down.
struct Taking {
    queue: Arc<Queue>,
    taken: Arc<std::sync::Mutex<Vec<String>>>,
    tasks: [JoinHandle<()>; 2],
}

impl Drop for Taking {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

fn take(queue: Queue, reflector: ReflectorBuilder<Scripted>) -> Taking {
    let queue = Arc::new(queue);
    let reflector = reflector.build(Arc::clone(&queue));
    let taken: Arc<std::sync::Mutex<Vec<String>>> = Arc::default();
    let consumer = tokio::spawn({
        let (queue, taken) = (Arc::clone(&queue), Arc::clone(&taken));
        async move {
            while let Ok(lease) = queue.pop_async_owned().await {
                for delta in lease.deltas().iter() {
                    let number = delta.object().map_or(0, |object| object.number);
                    taken.lock().unwrap().push(format!("{:?} {} {number}", delta.kind(), lease.key()));
                }
                lease.done();
            }
        }
    });
    let reflector = tokio::spawn(async move { _ = reflector.run().await });
    Taking { queue, taken, tasks: [consumer, reflector] }
}

impl Taking {
    fn log(&self) -> Vec<String> {
        std::mem::take(&mut *self.taken.lock().unwrap())
    }

    fn known(&self) -> Vec<(String, u64)> {
        let mut known: Vec<_> =
            self.queue.known().iter().map(|known| (known.key().clone(), known.object().number)).collect();
        known.sort_unstable();
        known
    }
}

fn minute() -> tokio::time::Sleep {
    tokio::time::sleep(Duration::from_secs(60))
}

fn gone<T>() -> Result<T, SourceError> {
    Err(SourceError::Gone("as it was told to".into()))
}

fn added(name: &str, number: u64) -> Event {
    Event::Added(name.to_owned(), object(name, number), number.to_string().into())
}

#[tokio::test(start_paused = true)]
async fn lists_that_always_expire_are_not_asked_for_without_end() {
    let source = Scripted { list: |_| Err(SourceError::Expired("too slow".into())), ..Scripted::default() };
    let asked = Arc::clone(&source.asked);
    let _taking = take(Builder::new().build(), Reflector::builder(source));
    minute().await;
    assert!((4..16).contains(&asked.lists()), "{} lists in a minute", asked.lists());
}

#[tokio::test(start_paused = true)]
async fn watches_that_are_gone_after_an_event_do_not_make_it_list_without_end() {
    let watch = |_| Ok(stream::iter([Ok(added("a", 2)), gone()]).boxed());
    let source = Scripted { watch, ..Scripted::default() };
    let asked = Arc::clone(&source.asked);
    let _taking = take(Builder::new().build(), Reflector::builder(source));
    minute().await;
    assert!((3..10).contains(&asked.lists()), "{} lists in a minute", asked.lists());
}

/// The last object of a deletion is one more that a transform can reject; the object is gone all the same.
#[tokio::test(start_paused = true)]
async fn a_deletion_whose_object_is_rejected_is_one_all_the_same() {
    let source = Scripted {
        watch: |_| {
            let deleted = Event::Deleted("a".into(), object("a", 13), "3".into());
            Ok(events([added("a", 1), added("b", 2), deleted]))
        },
        ..Scripted::default()
    };
    let rejects = |object: &mut Arc<Object>| {
        if object.number == 13 { Err("no such number".into()) } else { Ok(()) }
    };
    let taking = take(Builder::new().transform(rejects).build(), Reflector::builder(source));
    minute().await;
    assert_eq!(taking.known(), [("b".to_owned(), 2)]);
}

/// Kubernetes sends what its cache has, and then what happens until that is as new as it must be.
#[tokio::test(start_paused = true)]
async fn a_streaming_list_may_take_back_what_it_told() {
    let source = Scripted {
        list: |_| Ok(Page { items: vec![("old".into(), object("old", 1))], next: None, version: "1".into() }),
        watch: |_| gone(),
        watch_list: |lists| {
            let deleted = |name: &str, number| Event::Deleted(name.into(), object(name, number), "7".into());
            let all = [
                added("a", 2),
                added("b", 3),
                added("c", 4),
                deleted("a", 5),
                deleted("b", 6),
                deleted("never-there", 6),
                added("b", 7),
                added("never-there", 7),
                Event::InitialEnd("8".into()),
            ];
            Ok((lists > 0).then(|| events(all)))
        },
        ..Scripted::default()
    };
    let asked = Arc::clone(&source.asked);
    let taking = take(Builder::new().build(), Reflector::builder(source));
    minute().await;
    let there = [("b", 7), ("c", 4), ("never-there", 7)].map(|(key, number)| (key.to_owned(), number));
    assert_eq!(taking.known(), there, "{:?}", taking.log());
    assert_eq!(asked.lists(), 1, "it was not discarded");
    assert!(taking.queue.has_synced());
}

#[tokio::test(start_paused = true)]
async fn no_time_between_resyncs_means_none() {
    for never in [Duration::ZERO, Duration::MAX] {
        let source = Scripted { watch: |_| Ok(events([added("a", 2)])), ..Scripted::default() };
        let taking = take(Builder::new().build(), Reflector::builder(source).resync_every(never));
        minute().await;
        assert_eq!(taking.log(), ["Added a 2"], "{never:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn no_wait_is_longer_than_the_longest() {
    let source = Scripted { list: |_| Err(SourceError::transient("no")), ..Scripted::default() };
    let asked = Arc::clone(&source.asked);
    let retry = RetryPolicy {
        initial: Duration::from_secs(600),
        max: Duration::from_secs(1),
        jitter: 0.0,
        ..RetryPolicy::default()
    };
    let _taking = take(Builder::new().build(), Reflector::builder(source).retry(retry));
    minute().await;
    assert!(asked.lists() > 50, "{}", asked.lists());
}

/// A transform sees every object once, also those that came together with one that it rejects.
#[tokio::test(start_paused = true)]
async fn a_rejected_object_does_not_have_the_others_transformed_again() {
    let source = Scripted {
        watch: |_| Ok(events([added("a", 1), added("b", 2), added("c", 13), added("d", 4)])),
        ..Scripted::default()
    };
    let transform = |object: &mut Arc<Object>| {
        if object.number == 13 {
            return Err("no such number".into());
        }
        Arc::make_mut(object).number += 100;
        Ok(())
    };
    let taking = take(Builder::new().transform(transform).build(), Reflector::builder(source));
    minute().await;
    assert_eq!(taking.known(), [("a".to_owned(), 101), ("b".to_owned(), 102), ("d".to_owned(), 104)]);
}

/// On one thread: who never waits must not keep it from the others.
#[tokio::test(start_paused = true)]
async fn a_watch_that_always_has_more_starves_nobody() {
    let source = Scripted {
        watch: |_| Ok(stream::iter((2..200_000).map(|number| Ok(added("a", number)))).boxed()),
        ..Scripted::default()
    };
    let taking = take(Builder::new().build(), Reflector::builder(source));
    while taking.known().is_empty() {
        tokio::time::advance(Duration::from_millis(1)).await;
    }
    let number = taking.known()[0].1;
    assert!(number < 50_000, "the others ran when it had come to {number}");
}

/// As client-go does: what a server cannot do as a stream it may be able to do in pages.
#[tokio::test(start_paused = true)]
async fn a_streaming_list_that_fails_is_followed_by_pages() {
    let source = Scripted {
        list: |_| Ok(Page { items: vec![("a".into(), object("a", 1))], next: None, version: "1".into() }),
        watch: |_| Ok(events([added("b", 2)])),
        watch_list: |_| Err(SourceError::transient("no such thing")),
        ..Scripted::default()
    };
    let errors: Arc<std::sync::Mutex<Vec<String>>> = Arc::default();
    let told = Arc::clone(&errors);
    let reflector =
        Reflector::builder(source).on_error(move |error| told.lock().unwrap().push(error.to_string()));
    let taking = take(Builder::new().build(), reflector);
    minute().await;
    assert_eq!(taking.known(), [("a".to_owned(), 1), ("b".to_owned(), 2)]);
    assert_eq!(*errors.lock().unwrap(), ["no such thing"]);
}
