//! What the transform sees, and what comes back.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use delta_fifo::{
    BeginReplaceError, Builder, Change, ChangeErrorKind, DeltaQueue, Keyed, KeyedErrorKind, ReplaceErrorKind,
    UpsertErrorKind,
};

use crate::common::{Family, Queue, builder, for_each_queue, key, lease_text};

for_each_queue!(
    keyed_transforms_what_is_given_with_a_key,
    closed_gives_values_back_as_they_were,
    a_cut_list_gives_objects_back_as_they_were,
);

fn keyed_transforms_what_is_given_with_a_key<F: Family>() {
    let calls = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&calls);
    let queue: Keyed<Queue<F>> = Builder::new()
        .transform(move |value: &mut u32| {
            counted.fetch_add(1, Ordering::SeqCst);
            *value += 100;
            Ok(())
        })
        .key_fn(|value: &u32| Ok(format!("k{value}")))
        .build();
    queue.change(Change::Add(key("a"), 1)).unwrap();
    queue.change_all([Change::Add(key("b"), 1), Change::DeleteKey(key("b"))]).unwrap();
    assert_eq!(calls.load(Ordering::SeqCst), 2);
    let plain: &Queue<F> = &queue;
    plain.update(key("a"), 2).unwrap();
    plain.replace([(key("a"), 3)]).unwrap();
    plain.begin_replace().unwrap().upsert(key("a"), 4).unwrap();
    assert_eq!(calls.load(Ordering::SeqCst), 5);
    // Objects alone pass it once too, before their key is taken.
    queue.add(5).unwrap();
    queue.replace([5]).unwrap();
    assert_eq!(calls.load(Ordering::SeqCst), 7);
    let leases: Vec<_> = queue.pop_batch(9).unwrap().into_iter().collect();
    let texts: Vec<String> = leases.iter().map(lease_text).collect();
    assert_eq!(texts, ["a:[A101 U102 R103 R104 T(a104)]", "b:[A101 T(b101)]", "k105:[A105 R105]"]);
}

fn a_cut_list_gives_objects_back_as_they_were<F: Family>() {
    let queue: Queue<F> = builder()
        .transform(|value: &mut u32| {
            *value *= 2;
            Ok(())
        })
        .build();
    let list = queue.begin_replace().unwrap();
    list.upsert(key("a"), 1).unwrap();
    queue.close();
    let error = list.upsert(key("b"), 1).unwrap_err();
    assert!(matches!(error.kind, UpsertErrorKind::Closed));
    assert_eq!((error.key, error.value), (key("b"), 1));
}

fn closed_gives_values_back_as_they_were<F: Family>() {
    let double = |value: &mut u32| {
        *value *= 2;
        Ok(())
    };
    let queue: Queue<F> = builder().transform(double).build();
    queue.close();
    let changes = || {
        vec![
            Change::Add(key("a"), 1),
            Change::Update(key("a"), 2),
            Change::Apply(key("a"), 3),
            Change::Delete(key("a"), 4),
        ]
    };
    for change in changes() {
        let error = queue.change(change.clone()).unwrap_err();
        assert!(matches!(error.kind, ChangeErrorKind::Closed));
        assert_eq!(error.change, change);
    }
    let error = queue.change_all(changes()).unwrap_err();
    assert_eq!((error.index, error.rest), (0, changes()));
    for result in [queue.replace([(key("a"), 1)]), queue.replace_wait([(key("a"), 1)])] {
        let error = result.unwrap_err();
        assert!(matches!(error.kind, ReplaceErrorKind::Begin(BeginReplaceError::Closed)));
        assert_eq!(error.list, [(key("a"), 1)]);
    }

    let keyed: Keyed<Queue<F>> = builder().transform(double).key_fn(|value| Ok(value.to_string())).build();
    keyed.close();
    for result in [keyed.add(1), keyed.update(1), keyed.apply(1), keyed.delete(1)] {
        let error = result.unwrap_err();
        assert!(matches!(error.kind, KeyedErrorKind::Closed));
        assert_eq!(error.value, 1);
    }
    assert_eq!(keyed.replace([1, 2]).unwrap_err().list, [1, 2]);
}
