//! Each call of a queue in the middle of its work.

use std::task::Waker;

use delta_fifo::Outcome;

use super::*;
use crate::model::tasks::poll;

/// Ticks for each item.
fn items<F: Family>(scene: &Scene<F>, names: &'static [u32]) -> impl Iterator<Item = (Key, Value)> {
    let fuse = scene.fuse.clone();
    names.iter().map(move |&name| {
        fuse.tick(Site::Iterator);
        (Key::new(name, &fuse), Value::new(200 + name, &fuse))
    })
}

fn replace<F: Family>(scene: &mut Scene<F>) {
    scene.replace = None;
    let list = items(scene, &[0, 3, 3, 6, 2]);
    drop(scene.queue.replace(list).unwrap());
}

fn changes<F: Family>(scene: &Scene<F>, count: usize) {
    let changes = items(scene, &[6, 3, 6, 1, 9]).zip(0..count).map(|((key, value), index)| match index {
        0 => Change::Add(key, value),
        1 => Change::Update(key, value),
        2 => Change::Apply(key, value),
        3 => Change::DeleteKey(key),
        _ => Change::Delete(key, value),
    });
    scene.queue.change_all(changes).unwrap();
}

fn some_of_a_batch<F: Family, const DONE: u32>(scene: &mut Scene<F>) {
    let batch = scene.queue.try_pop_batch(3).unwrap();
    for (index, lease) in batch.into_iter().enumerate() {
        if DONE >> index & 1 == 1 { lease.done() } else { lease.requeue() }
    }
}

/// A call, and what it may have come to besides nothing and everything.
type Row<F> = (&'static str, Call<F>, Vec<Call<F>>);

pub(crate) fn calls<F: Family>() -> Vec<Row<F>> {
    let mut rows: Vec<Row<F>> = Vec::new();
    let mut row = |name, call: Call<F>| rows.push((name, call, Vec::new()));
    row("add a new key", |scene| scene.add(6, 60));
    row("add a pending key", |scene| scene.add(3, 60));
    row("add a dirty key", |scene| scene.add(2, 60));
    row("add a leased key", |scene| scene.add(5, 60));
    row("update a known key", |scene| scene.queue.update(scene.key(0), scene.value(60)).unwrap());
    row("apply", |scene| scene.queue.apply(scene.key(6), scene.value(60)).unwrap());
    row("delete a known key", |scene| scene.delete(1, 60));
    row("delete a pending key", |scene| scene.delete(4, 60));
    row("delete nothing", |scene| scene.delete(6, 60));
    row("delete_key", |scene| scene.queue.delete_key(scene.key(1)).unwrap());
    row("replace_scope", |scene| {
        scene.replace = None;
        match scene.queue.replace_scope("all", items(scene, &[0, 3])) {
            Ok(completion) => drop(completion),
            Err(_) => drop(scene.queue.replace(items(scene, &[0, 3])).unwrap()),
        }
    });
    row("upsert", |scene| match &scene.replace {
        Some(replace) => drop(replace.upsert(scene.key(6), scene.value(60)).unwrap()),
        None => {
            let replace = scene.queue.begin_replace().unwrap();
            replace.upsert(scene.key(6), scene.value(60)).unwrap();
        }
    });
    row("abort", |scene| scene.replace = None);
    row("resync", |scene| assert!(scene.queue.resync().is_ok()));
    row("resync_key", |scene| assert!(scene.queue.resync_key(scene.key(1)).is_ok()));
    row("pop", |scene| scene.leases.push(scene.lease()));
    row("pop_batch", |scene| {
        let batch = scene.queue.try_pop_batch(3).unwrap();
        scene.leases.extend(batch.into_iter().map(|lease| lease.into_owned(&scene.queue)));
    });
    row("pop_async", |scene| {
        let mut future = Box::pin(scene.queue.pop_async());
        let std::task::Poll::Ready(lease) = poll(future.as_mut(), Waker::noop()) else { panic!("no key") };
        scene.leases.push(lease.unwrap().into_owned(&scene.queue));
    });
    row("process", |scene| {
        scene.queue.process(|_| Outcome::Requeue).unwrap();
    });
    row("close_discard", |scene| assert!(scene.queue.close_discard().keys > 0));
    row("known", |scene| {
        assert!(scene.known != Known::Inside || scene.queue.known().contains(&scene.key(1)));
        if scene.known != Known::BrokenStore {
            assert_eq!(scene.queue.known().iter().count(), scene.queue.known().len());
        }
    });
    row("snapshot", |scene| {
        let snapshot = scene.queue.snapshot();
        assert!(scene.known != Known::Inside || snapshot.contains(&scene.key(1)));
    });
    row("close", |scene| assert!(scene.queue.close()));
    row("done", |scene| scene.leases.remove(1).done());
    row("done of a dirty key", |scene| scene.leases.remove(0).done());
    row("give_up", |scene| scene.leases.remove(1).give_up());
    row("requeue", |scene| scene.leases.remove(0).requeue());
    row("requeue_after", |scene| scene.leases.remove(1).requeue_after(Duration::ZERO));
    row("requeue_with_backoff", |scene| scene.leases.remove(1).requeue_with_backoff());
    row("drop of a lease", |scene| drop(scene.leases.remove(1)));
    // Of the list nothing, unless all of it is in and what it replaced is dropped.
    rows.push(("replace", replace, vec![|scene| scene.replace = None]));
    for row in &mut rows {
        // Dropping the open replace is a part of it.
        if row.0 == "replace_scope" {
            row.2.push(|scene| scene.replace = None);
        }
    }
    let commit: Call<F> = |scene| match scene.replace.take() {
        Some(replace) => drop(replace.commit().unwrap()),
        None => drop(scene.queue.begin_replace().unwrap().commit().unwrap()),
    };
    // A commit that fails is a drop.
    rows.push(("commit", commit, vec![|scene| scene.replace = None]));
    rows.push((
        "change_all",
        |scene| changes(scene, 5),
        vec![|scene| changes(scene, 1), |scene| changes(scene, 2), |scene| changes(scene, 3), |scene| {
            changes(scene, 4)
        }],
    ));
    // Of a batch some leases end and some come back: none is lost.
    rows.push((
        "done of a batch",
        |scene| scene.queue.try_pop_batch(3).unwrap().done(),
        vec![
            some_of_a_batch::<F, 1>,
            some_of_a_batch::<F, 2>,
            some_of_a_batch::<F, 3>,
            some_of_a_batch::<F, 4>,
            some_of_a_batch::<F, 5>,
            some_of_a_batch::<F, 6>,
        ],
    ));
    rows
}
