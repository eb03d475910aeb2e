//! Bad input: the call returns an error that names the key or the item and gives the value back, and nothing
//! has changed.

use delta_fifo::{BeginReplaceError, Change, ChangeErrorKind, DeltaQueue, ReplaceErrorKind, UpsertErrorKind};

use crate::common::{Family, Queue, builder, for_each_queue, key, play, queue};

for_each_queue!(
    rejected_change,
    rejected_change_in_a_list_of_changes,
    rejected_changes_are_left_out,
    rejected_item_of_a_replace,
    rejected_item_of_a_streaming_replace,
    changes_after_close,
    lists_after_close,
    close_in_the_middle_of_many_changes,
);

/// Rejects 13.
fn superstitious<F: Family>() -> Queue<F> {
    builder().transform(|value: &mut u32| if *value == 13 { Err("unlucky".into()) } else { Ok(()) }).build()
}

/// Nothing was appended, and nothing was decided about the first sync.
fn assert_untouched<F: Family>(queue: &Queue<F>) {
    play(
        queue,
        "pending 0; leased 0; unsynced; empty; replace [probe1]; unsynced; hold probe:[R1] initial; \
        done probe; synced",
    );
}

fn rejected_change<F: Family>() {
    let calls: [fn(&Queue<F>) -> _; 4] = [
        |queue| queue.add(key("a"), 13),
        |queue| queue.update(key("a"), 13),
        |queue| queue.apply(key("a"), 13),
        |queue| queue.delete(key("a"), 13),
    ];
    for call in calls {
        let queue = superstitious::<F>();
        let error = call(&queue).unwrap_err();
        assert!(matches!(&error.kind, ChangeErrorKind::Transform(source) if source.to_string() == "unlucky"));
        assert!(error.to_string().contains("\"a\"") && error.to_string().contains("unlucky"), "{error}");
        assert_eq!((error.change.key().as_str(), error.change.value()), ("a", Some(&13)));
        assert_untouched::<F>(&queue);
    }
}

fn rejected_change_in_a_list_of_changes<F: Family>() {
    let queue = superstitious::<F>();
    let changes = || {
        vec![
            Change::Add(key("a"), 1),
            Change::DeleteKey(key("b")),
            Change::Update(key("c"), 13),
            Change::Apply(key("d"), 4),
        ]
    };
    let error = queue.change_all(changes()).unwrap_err();
    assert!(matches!(error.kind, ChangeErrorKind::Transform(_)));
    assert_eq!(error.index, 2);
    assert_eq!(error.rest, changes());
    assert!(error.to_string().contains('2') && error.to_string().contains("\"c\""), "{error}");
    assert_untouched::<F>(&queue);
}

fn rejected_changes_are_left_out<F: Family>() {
    let adds_100 = |value: &mut u32| {
        if *value == 13 {
            return Err("unlucky".into());
        }
        *value += 100;
        Ok(())
    };
    let queue: Queue<F> = builder().transform(adds_100).build();
    let changes = || {
        let update = |name, value| Change::Update(key(name), value);
        let delete = Change::Delete(key("c"), 13);
        [update("a", 1), update("b", 13), update("c", 3), delete, Change::DeleteKey(key("a"))]
    };
    let mut rejected = Vec::new();
    let result = queue.change_each(changes(), |change, error| {
        assert_eq!(error.to_string(), "unlucky");
        rejected.push(change.key().clone());
        matches!(change, Change::Delete(..)).then(|| Change::DeleteKey(change.key().clone()))
    });
    assert_eq!((result.is_ok(), rejected), (true, vec![key("b"), key("c")]));
    play(&queue, "pending 2; hold a:[U101 T(a101)]; done a; hold c:[U103 T(c103)]; done c; close");
    let error = queue.change_each(changes(), |_, _| None).unwrap_err();
    assert!(matches!(error.kind, ChangeErrorKind::Closed));
    let rest =
        vec![Change::Update(key("a"), 101), Change::Update(key("c"), 103), Change::DeleteKey(key("a"))];
    assert_eq!((error.index, error.rest), (0, rest));
}

fn rejected_item_of_a_replace<F: Family>() {
    let queue = superstitious::<F>();
    let list = || vec![(key("a"), 1), (key("b"), 13), (key("c"), 3)];
    let error = queue.replace(list()).unwrap_err();
    assert!(matches!(error.kind, ReplaceErrorKind::Transform { index: 1, .. }));
    assert_eq!(error.list, list());
    assert!(error.to_string().contains("item 1") && error.to_string().contains("\"b\""), "{error}");
    assert_untouched::<F>(&queue);
    // With known objects it tombstones nothing either.
    play(&queue, "known d1");
    queue.replace(list()).unwrap_err();
    play(&queue, "pending 0; empty");
}

fn rejected_item_of_a_streaming_replace<F: Family>() {
    let queue = superstitious::<F>();
    let list = queue.begin_replace().unwrap();
    let error = list.upsert(key("a"), 13).unwrap_err();
    assert!(matches!(error.kind, UpsertErrorKind::Transform(_)));
    assert_eq!((error.key.as_str(), error.value), ("a", 13));
    play(&queue, "pending 0; unsynced");
    // The replace goes on.
    list.upsert(key("a"), 14).unwrap();
    list.commit().unwrap();
    play(&queue, "unsynced; pop a:[R14] initial; synced; empty");
}

fn changes_after_close<F: Family>() {
    let queue = queue::<F>();
    play(&queue, "known a1; close");
    let changes = [
        Change::Add(key("a"), 2),
        Change::Update(key("a"), 2),
        Change::Apply(key("b"), 2),
        Change::Delete(key("a"), 2),
        Change::Delete(key("unknown"), 2),
        Change::DeleteKey(key("a")),
    ];
    for change in changes {
        let error = queue.change(change.clone()).unwrap_err();
        assert!(matches!(error.kind, ChangeErrorKind::Closed));
        assert_eq!(error.change, change);
    }
    play(&queue, "pending 0; closed");

    // A rejected change does not decide the first sync.
    let queue = crate::common::queue::<F>();
    queue.close();
    queue.add(key("a"), 1).unwrap_err();
    assert!(!queue.has_synced());
}

fn lists_after_close<F: Family>() {
    let queue = queue::<F>();
    play(&queue, "known a1; close");
    let list = || vec![(key("b"), 1), (key("c"), 2)];
    for result in [queue.replace(list()), queue.replace_wait(list())] {
        let error = result.unwrap_err();
        assert!(matches!(error.kind, ReplaceErrorKind::Begin(BeginReplaceError::Closed)));
        assert_eq!(error.list, list());
    }
    assert!(matches!(queue.begin_replace(), Err(BeginReplaceError::Closed)));
    let error = queue.mark("7").unwrap_err();
    assert_eq!(error.version, "7".into());
    let error = queue.change_all([Change::Add(key("b"), 1), Change::DeleteKey(key("a"))]).unwrap_err();
    assert_eq!((error.index, error.rest), (0, vec![Change::Add(key("b"), 1), Change::DeleteKey(key("a"))]));
    play(&queue, "pending 0; closed");
}

fn close_in_the_middle_of_many_changes<F: Family>() {
    use std::sync::Mutex;

    use crate::common::race;

    struct Round<Q> {
        queue: Q,
        rest: Mutex<Vec<Change<String, u32>>>,
        index: Mutex<Option<usize>>,
    }
    const MANY: u32 = 64;
    race(
        200,
        |_| Round { queue: queue::<F>(), rest: Mutex::default(), index: Mutex::default() },
        &[
            &|round: &Round<Queue<F>>| {
                let changes = (0..MANY).map(|value| Change::Add(value.to_string(), value));
                if let Err(error) = round.queue.change_all(changes) {
                    assert!(matches!(error.kind, ChangeErrorKind::Closed));
                    *round.index.lock().unwrap() = Some(error.index);
                    *round.rest.lock().unwrap() = error.rest;
                }
            },
            &|round| {
                round.queue.close();
            },
        ],
        |round| {
            let taken = round.queue.pending_len() as u32;
            let rest = round.rest.into_inner().unwrap();
            // What is before the index was taken, what is from it on came back.
            let expected: Vec<_> = (taken..MANY).map(|value| Change::Add(value.to_string(), value)).collect();
            assert_eq!(rest, expected);
            let index = round.index.into_inner().unwrap();
            assert_eq!(index.unwrap_or(MANY as usize), taken as usize);
            for value in 0..taken {
                assert_eq!(round.queue.pop().unwrap().key(), &value.to_string());
            }
        },
    );
}
