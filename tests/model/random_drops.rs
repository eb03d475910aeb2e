//! Random calls, and everything let go at a random moment in a random order.

use super::*;
use crate::common::Random;
use delta_fifo::{OwnedLease, OwnedReplace};

pub(crate) fn random_calls<F: Family>() {
    for seed in 0..300 {
        let mut random = Random::new(seed);
        let count = Count::default();
        let mut builder = Builder::new();
        if random.one_in(2) {
            builder = builder.compression(Compression::Latest);
        }
        builder = match random.below(3) {
            0 => builder.no_known_objects(),
            _ => builder,
        };
        let queue: Arc<Queue<F>> = Arc::new(builder.build());
        let mut leases: Vec<OwnedLease<Queue<F>>> = Vec::new();
        let mut replace: Option<OwnedReplace<Queue<F>>> = None;
        let (mut snapshots, mut handles) = (Vec::new(), Vec::new());
        for _ in 0..random.below(150) {
            let name = random.below(5) as u32;
            let (key, value) = count.pair(name);
            match random.below(16) {
                0 => drop(queue.add(key, value)),
                1 => drop(queue.update(key, value)),
                2 => drop(queue.apply(key, value)),
                3 => drop(queue.delete(key, value)),
                4 => drop(queue.delete_key(key)),
                5 => drop(queue.replace([count.pair(name), (key, value)])),
                6 => replace = queue.begin_replace_owned().ok().or(replace),
                7 => drop(replace.as_ref().map(|replace| replace.upsert(key, value))),
                8 => drop(replace.take().map(|replace| replace.commit().is_ok())),
                9 => drop(queue.resync()),
                10..=12 => leases.extend(queue.try_pop().ok().map(|lease| lease.into_owned(&queue))),
                13 => snapshots.push(queue.snapshot()),
                14 => handles.extend(queue.known().find(&key)),
                _ if random.one_in(40) => drop(queue.close_discard()),
                _ => {}
            }
            if !leases.is_empty() && random.one_in(2) {
                let lease = leases.swap_remove(random.below(leases.len() as u64) as usize);
                match random.below(6) {
                    0..3 => lease.done(),
                    3 => lease.requeue(),
                    4 => lease.requeue_after(Duration::from_secs(3600)),
                    _ => drop(lease),
                }
            }
        }
        let mut queue = Some(queue);
        for what in [0, 1, 2, 3, 4].map(|what| (what + seed) % 5) {
            match what {
                0 => leases.clear(),
                1 => replace = None,
                2 => snapshots.clear(),
                3 => handles.clear(),
                _ => queue = None,
            }
        }
        assert!(queue.is_none() && replace.is_none());
        count.expect_alive::<F>(0, 0);
    }
}
