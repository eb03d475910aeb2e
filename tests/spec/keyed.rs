//! The face that takes objects alone.

use delta_fifo::{
    BoxError, Builder, Delta, DeltaQueue, KeyOf, KeyOfError, Keyed, KeyedErrorKind, KeyedReplaceErrorKind,
    ReplaceErrorKind, Upsert,
};

use crate::common::{Family, deltas_text, for_each_queue, key, lease_text};

for_each_queue!(
    takes_objects_alone,
    key_is_taken_after_the_transform,
    key_of_anything,
    objects_without_keys_come_back,
    lists_with_a_bad_item_come_back,
    streaming_form_finds_keys_too,
);

/// `a=1` has the key `a`.
fn name_of(object: &String) -> Result<String, BoxError> {
    match object.split_once('=') {
        Some((name, _)) => Ok(name.to_owned()),
        None => Err(format!("{object:?} has no name").into()),
    }
}

fn keyed<F: Family>() -> Keyed<F::Queue<String, String>> {
    Builder::new().key_fn(name_of).build()
}

fn object(text: &str) -> String {
    text.to_owned()
}

fn takes_objects_alone<F: Family>() {
    let queue = keyed::<F>();
    queue.add(object("a=1")).unwrap();
    queue.update(object("a=2")).unwrap();
    queue.apply(object("a=3")).unwrap();
    queue.delete(object("a=4")).unwrap();
    queue.delete(object("b=4")).unwrap();
    queue.apply(object("b=5")).unwrap();
    queue.replace([object("b=6"), object("c=6")]).unwrap();
    let texts: Vec<String> = std::iter::from_fn(|| {
        let lease = queue.try_pop().ok()?;
        let text = lease_text(&lease);
        lease.done();
        Some(text)
    })
    .collect();
    assert_eq!(texts, ["a:[Aa=1 Ua=2 Ua=3 Da=4]", "b:[Ab=5 Rb=6]", "c:[Rc=6]"]);
    // Everything else is the queue's own.
    let queue = queue.into_inner();
    queue.add(key("d"), object("whatever")).unwrap();
    assert_eq!(lease_text(&queue.pop().unwrap()), "d:[Awhatever]");
}

fn key_is_taken_after_the_transform<F: Family>() {
    let queue: Keyed<F::Queue<String, String>> = Builder::new()
        .transform(|object: &mut String| {
            object.insert_str(0, "prod/");
            Ok(())
        })
        .key_fn(name_of)
        .build();
    queue.add(object("a=1")).unwrap();
    queue.replace([object("a=2")]).unwrap();
    queue.begin_replace().unwrap().upsert(object("a=3")).unwrap();
    let lease = queue.pop().unwrap();
    // Once each; and the relist finds the key that the watch made.
    assert_eq!(lease_text(&lease), "prod/a:[Aprod/a=1 Rprod/a=2 Rprod/a=3]");
    lease.done();
    assert!(queue.try_pop().is_err());
}

fn key_of_anything<F: Family>() {
    let queue = keyed::<F>();
    assert_eq!(queue.key_of(&object("a=1")).unwrap(), "a");
    assert!(matches!(queue.key_of(&object("a")), Err(KeyOfError::Key(_))));
    assert!(matches!(queue.key_of(KeyOf::Deltas(&[])), Err(KeyOfError::NoDeltas)));
    queue.add(object("a=1")).unwrap();
    queue.replace([]).unwrap();
    let lease = queue.pop().unwrap();
    let deltas: Vec<Delta<'_, String, String>> = lease.deltas().iter().collect();
    assert_eq!(queue.key_of(lease.deltas()).unwrap(), "a");
    assert_eq!(queue.key_of(deltas[0]).unwrap(), "a");
    let Delta::DeletedFinalStateUnknown(tombstone) = deltas[1] else { panic!("{deltas:?}") };
    assert_eq!(queue.key_of(tombstone).unwrap(), "a");
    // Of the newest.
    let (one, other) = (object("b=1"), object("c=1"));
    assert_eq!(queue.key_of(KeyOf::Deltas(&[Delta::Added(&one), Delta::Updated(&other)])).unwrap(), "c");
    assert_eq!(queue.key_of(KeyOf::Deltas(&deltas)).unwrap(), "a");
}

fn objects_without_keys_come_back<F: Family>() {
    let queue = keyed::<F>();
    let bad = || object("bad");
    let errors = [queue.add(bad()), queue.update(bad()), queue.apply(bad()), queue.delete(bad())];
    for error in errors {
        let error = error.unwrap_err();
        assert!(matches!(error.kind, KeyedErrorKind::Key(_)));
        assert_eq!(error.value, "bad");
        assert!(error.to_string().contains("has no name"), "{error}");
    }
    // It was no change: the next replace is the first.
    assert_eq!((queue.pending_len(), queue.has_synced()), (0, false));
    queue.replace([object("a=1")]).unwrap();
    assert!(!queue.has_synced() && queue.pop().unwrap().is_initial());
    queue.close();
    let error = queue.add(object("a=2")).unwrap_err();
    assert!(matches!(error.kind, KeyedErrorKind::Closed));
    assert_eq!(error.value, "a=2");
}

fn lists_with_a_bad_item_come_back<F: Family>() {
    let queue: Keyed<F::Queue<String, String>> = Builder::new()
        .transform(|object: &mut String| if object.contains('!') { Err("rude".into()) } else { Ok(()) })
        .key_fn(name_of)
        .build();
    let error = queue.replace([object("a=1"), object("b=1"), object("bad")]).unwrap_err();
    assert!(matches!(error.kind, KeyedReplaceErrorKind::Key { index: 2, .. }));
    assert_eq!(error.list, ["a=1", "b=1", "bad"]);
    let error = queue.replace([object("a=1"), object("b=!")]).unwrap_err();
    let KeyedReplaceErrorKind::Replace(ReplaceErrorKind::Transform { index: 1, .. }) = error.kind else {
        panic!("{error}")
    };
    assert_eq!(error.list, ["a=1", "b=!"]);
    assert_eq!((queue.pending_len(), queue.has_synced()), (0, false));
    // The failed ones have ended.
    queue.replace([]).unwrap();
    assert!(queue.has_synced());
}

fn streaming_form_finds_keys_too<F: Family>() {
    let queue = keyed::<F>();
    queue.add(object("gone=1")).unwrap();
    let list = queue.begin_replace().unwrap();
    queue.update(object("b=2")).unwrap();
    assert_eq!(list.upsert(object("a=1")).unwrap(), Upsert::Placed);
    assert_eq!(list.upsert(object("b=1")).unwrap(), Upsert::Superseded);
    let error = list.upsert(object("bad")).unwrap_err();
    assert!(matches!(error.kind, KeyedErrorKind::Key(_)));
    assert_eq!(error.value, "bad");
    list.commit().unwrap();
    let leases: Vec<_> = queue.pop_batch(9).unwrap().into_iter().collect();
    let texts: Vec<String> = leases.iter().map(|lease| deltas_text(lease.deltas())).collect();
    assert_eq!(texts, ["Agone=1 T(gonegone=1)", "Ub=2", "Ra=1"]);
}
