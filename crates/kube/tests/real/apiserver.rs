//! What happens to an informer whose server is real.

use std::time::Duration;

use delta_fifo_kube::ApiListWatch;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{Api, Client};

use crate::informer::{Controlled, Informed, assert_same};
use crate::observer::Observer;
use crate::server::Server;
use crate::world::{World, name_of};

fn source(client: Client, world: &World) -> ApiListWatch<ConfigMap> {
    ApiListWatch::new(Api::namespaced(client, world.namespace()))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pages_then_broken_connections_then_a_server_that_restarts() {
    const OBJECTS: usize = 10_000;
    let Some(mut server) = Server::start(&[]) else { return };
    let world = World::new(&server.client(), "pages").await;
    world.fill(OBJECTS).await;
    let (client, proxy) = server.client_through_proxy().await;
    let mut running = Controlled::start(source(client, &world));
    running.assert_caught_up(&world).await;
    // 500 in each; the last may have what came at the end.
    assert!(running.asked.lists() == 1 && running.asked.pages() >= OBJECTS / 500, "{:?}", running.asked);

    // Nobody sees it happen, and it is told all the same: the watch goes on where it was.
    let before = running.observer.told();
    for round in 0..4 {
        proxy.close();
        world.delete(&name_of(round)).await;
        world.recreate(&name_of(10 + round), 100).await;
        world.update(&name_of(20 + round), 100).await;
        proxy.open();
        running.assert_caught_up(&world).await;
    }
    let told = running.observer.told();
    assert_eq!((told.changes() - before.changes(), told.missed, told.same), (4 * 5, 0, 0), "each once");
    assert!(running.asked.lists() == 1 && running.asked.watches() >= 5, "{:?}", running.asked);

    // The cache of the server that comes back begins later than the watch would go on.
    proxy.close();
    world.delete(&name_of(100)).await;
    world.update(&name_of(101), 100).await;
    world.recreate(&name_of(102), 100).await;
    server.restart();
    proxy.open();
    running.assert_caught_up(&world).await;
    let now = running.observer.told();
    assert_eq!((running.asked.lists(), now.missed, now.added - told.added), (2, 2, 1), "{:?}", running.asked);
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn versions_and_pages_that_are_gone() {
    // Whoever asks asks etcd.
    let Some(server) = Server::start(&["--watch-cache=false"]) else { return };
    let world = World::new(&server.client(), "gone").await;
    world.fill(1_200).await;
    let (client, proxy) = server.client_through_proxy().await;
    let mut running = Controlled::start(source(client, &world));
    running.assert_caught_up(&world).await;

    proxy.close();
    world.delete(&name_of(0)).await;
    world.update(&name_of(1), 100).await;
    world.create("new", 1).await;
    world.recreate(&name_of(4), 100).await;
    server.compact(world.touch().await);
    // The next list is overtaken by the next compaction, between its pages.
    running.asked.hold();
    proxy.open();
    running.asked.until_held().await;
    world.delete(&name_of(2)).await;
    world.delete(&name_of(1_100)).await;
    world.update(&name_of(3), 100).await;
    server.compact(world.touch().await);
    running.asked.release();
    running.assert_caught_up(&world).await;
    let asked = &running.asked;
    assert_eq!((asked.lists(), asked.expired(), asked.pages()), (3, 1, 3 + 1 + 1), "{asked:?}");
    let told = running.observer.told();
    assert_eq!((told.missed, told.added), (4, 1_200 + 3), "each deletion once");
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lists_that_come_as_streams() {
    let Some(mut server) = Server::start(&[]) else { return };
    let world = World::new(&server.client(), "streams").await;
    world.fill(1_000).await;
    let (client, proxy) = server.client_through_proxy().await;
    let mut running = Controlled::start(source(client, &world).streaming_lists());
    running.assert_caught_up(&world).await;
    assert_eq!(running.observer.told().added, 1_001, "what was there, and what came last");

    proxy.close();
    world.delete(&name_of(0)).await;
    world.update(&name_of(1), 100).await;
    world.create("new", 1).await;
    world.recreate(&name_of(2), 100).await;
    server.restart();
    proxy.open();
    running.assert_caught_up(&world).await;
    let told = running.observer.told();
    assert_eq!((told.added, told.deleted, told.missed), (1_003, 2, 2), "{told:?}");
    let asked = &running.asked;
    assert_eq!((asked.lists(), asked.streams()), (0, 2), "{asked:?}");
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_storm_of_changes_and_slow_handlers() {
    const KEYS: usize = 2_000;
    let changes =
        std::env::var("DELTA_FIFO_STORM_CHANGES").map_or(50_000, |set| set.parse().expect("a number"));
    let Some(server) = Server::start(&[]) else { return };
    let world = World::new(&server.client(), "storm").await;
    world.fill(KEYS).await;
    let (client, proxy) = server.client_through_proxy().await;
    // The server itself ends a watch so often.
    let source = source(client, &world).watch_timeout(Duration::from_secs(2));
    let mut running = Informed::start(source);
    let [fast, held, late] = [(); 3].map(|()| Observer::default());
    let slow = Observer::that_takes(Duration::from_millis(1));
    held.hold();
    let _registrations = [running.add(&fast, 1), running.add(&slow, 8), running.add(&held, 2)];
    fast.until_told(KEYS).await;

    let made = world.storm(KEYS, changes, |made| {
        if made == changes / 2 {
            running.add(&late, 1);
        }
        if made.is_multiple_of(changes / 10) {
            proxy.cut();
        }
    });
    let made = made.await;
    let there = running.assert_caught_up(&world).await;
    let all = KEYS + made + 1;
    fast.until_told(all).await;
    assert_eq!(held.told().changes(), 0, "nobody has waited for it");
    held.release();
    for observer in [&slow, &held] {
        observer.until_told(all).await;
    }
    for (who, observer) in [("fast", &fast), ("slow", &slow), ("held", &held)] {
        let told = observer.told();
        assert_same(who, &observer.states(), &there);
        assert_eq!((told.changes(), told.missed, told.skipped), (all, 0, 0), "{who}: {told:?}");
    }
    assert_eq!(running.asked.lists(), 1, "{:?}", running.asked);
    running.stop().await;
    // It was told what was there when it came, and everything after: all that a handler can be is told when its informer has ended.
    assert_same("late", &late.states(), &there);
}
