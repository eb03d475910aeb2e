//! A controller against a server with which everything goes wrong: what is known equals what there is, and what the handler was told is a
//! history that can have been.

mod common;

use std::sync::atomic::Ordering;
use std::time::Duration;

use common::{Cluster, Historian, Running, name_of};
use delta_fifo_fake_apiserver::{Failure, Verb};

fn logging() -> Historian {
    Historian { wants_log: true, ..Historian::default() }
}

#[tokio::test]
async fn ten_thousand_objects_in_pages_and_what_comes_after() {
    let cluster = Cluster::with(10_000);
    let running = Running::new(&cluster, Historian::default(), 4, |reflector| reflector.page_size(500));
    running.settle().await;
    assert_eq!(running.historian.count.load(Ordering::Relaxed), 10_000);
    assert_eq!((cluster.server.requests(Verb::List), cluster.server.requests(Verb::Page)), (1, 19));
    for number in 0..2_000 {
        match number % 3 {
            0 => _ = cluster.put(&name_of(number), number + 1),
            1 => _ = cluster.delete(&name_of(number)),
            _ => _ = cluster.put(&format!("new/{number}"), number),
        }
    }
    running.settle().await;
    assert_eq!(cluster.server.requests(Verb::List), 1, "all of it by the watch");
    running.stop().await;
}

#[tokio::test]
async fn as_a_stream() {
    let cluster = Cluster::with(1_000);
    let queue = delta_fifo_kube::queue();
    let source = cluster.source().streaming_lists();
    let reflector = delta_fifo_informer::Reflector::builder(source).retry(common::quick()).build(queue);
    let queue = reflector.queue().clone();
    let follows = tokio::spawn(reflector.run());
    let all = tokio::time::timeout(common::LONG, async {
        use delta_fifo::DeltaQueue;
        let mut all = 0;
        while all < 1_000 {
            let batch = queue.pop_batch_async(64).await.expect("it is open");
            all += batch.len();
            batch.done();
        }
    });
    all.await.expect("all of it comes");
    assert_eq!(common::known(&queue), cluster.versions());
    assert_eq!(cluster.server.requests(Verb::List), 0);
    follows.abort();
}

#[tokio::test]
async fn a_broken_connection_goes_on_where_it_was() {
    let cluster = Cluster::with(2);
    let running = Running::new(&cluster, logging(), 2, |reflector| reflector);
    running.settle().await;
    running.watching().await;
    running.log();
    cluster.server.stop();
    cluster.put("a/x", 1);
    cluster.put("a/x", 2);
    cluster.delete(&name_of(0));
    cluster.put(&name_of(1), 7);
    cluster.server.start();
    running.settle().await;
    let name = |number| name_of(number);
    let expected = ["a/x 1 to 2", "a/x added 1"].map(str::to_owned).into_iter();
    let mut expected: Vec<String> =
        expected.chain([format!("{} deleted 0", name(0)), format!("{} 1 to 7", name(1))]).collect();
    expected.sort_unstable();
    assert_eq!(running.log(), expected);
    assert_eq!(cluster.server.requests(Verb::List), 1, "the version was still there");
}

#[tokio::test]
async fn what_happened_while_nobody_watched_and_the_version_is_gone() {
    let cluster = Cluster::with(0);
    for key in ["a/stays", "a/changes", "a/goes", "a/another"] {
        cluster.put(key, 1);
    }
    let running = Running::new(&cluster, logging(), 2, |reflector| reflector.page_size(2));
    running.settle().await;
    running.watching().await;
    running.log();
    cluster.server.stop();
    cluster.put("a/changes", 2);
    cluster.put("a/goes", 2);
    cluster.delete("a/goes");
    cluster.delete("a/another");
    cluster.put("a/another", 3);
    cluster.put("a/new", 1);
    cluster.server.compact();
    cluster.server.start();
    running.settle().await;
    let log = running.log();
    assert_eq!(cluster.server.requests(Verb::List), 2);
    assert_eq!(
        log,
        [
            "a/another added 3",
            "a/another deleted 1, missed",
            "a/changes 1 to 2",
            "a/goes deleted 1, missed",
            "a/new added 1",
        ],
        "and nothing of what has stayed"
    );
}

#[tokio::test]
async fn lists_that_break_delete_nothing() {
    let cluster = Cluster::with(100);
    let running = Running::new(&cluster, logging(), 2, |reflector| reflector.page_size(10));
    running.settle().await;
    running.watching().await;
    running.log();
    for failure in [Failure::internal(), Failure::broken(), Failure::too_many_requests(0), Failure::gone()] {
        cluster.server.fail_next(Verb::Page, failure);
    }
    cluster.server.fail_next(Verb::Watch, Failure::gone());
    cluster.server.fail_next(Verb::Watch, Failure::gone().in_stream());
    cluster.server.close_watches();
    cluster.delete(&name_of(99));
    running.settle().await;
    let log = running.log();
    let deleted: Vec<&String> = log.iter().filter(|line| line.contains("deleted")).collect();
    assert_eq!(deleted, [&format!("{} deleted 99, missed", name_of(99))]);
    assert!(log.iter().all(|line| !line.contains("added")), "{log:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fifty_thousand_changes_with_slow_handlers() {
    let cluster = Cluster::with(500);
    let slow = Some((200, Duration::from_millis(2)));
    let running =
        Running::new(&cluster, Historian { slow, ..Historian::default() }, 4, |reflector| reflector);
    running.settle().await;
    let writer = cluster.clone();
    let writes = tokio::task::spawn_blocking(move || {
        for number in 0..50_000_u64 {
            let key = name_of(number.wrapping_mul(2_654_435_761) % 500);
            if number % 7 == 0 {
                let (namespace, name) = key.split_once('/').expect("a namespace");
                writer.maps.delete(namespace, name);
            } else {
                writer.put(&key, number);
            }
            match number % 10_000 {
                3_000 => writer.server.kill_watches(),
                5_000 => writer.server.expire_watches(),
                7_000 => writer.server.close_watches(),
                9_000 => writer.server.compact(),
                _ => {}
            }
        }
    });
    writes.await.expect("no panic");
    running.settle().await;
    running.stop().await;
}
