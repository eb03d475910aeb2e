//! Several sources that feed one queue.

use delta_fifo::{BeginReplaceError, DeltaQueue, ReplaceErrorKind, UpsertErrorKind};

use crate::common::{Family, Queue, builder, for_each_queue, key, play};

for_each_queue!(
    replaces_only_keys_of_its_scope,
    plain_replace_counts_for_all,
    overlapping_ones_exclude_each_other,
    disjoint_ones_run_side_by_side,
    unknown_scope_is_refused,
    item_outside_is_named,
    synced_when_all_scopes_are,
    early_change_does_not_decide,
    scope_declared_twice_is_refused,
    predicate_runs_without_locks,
);

fn scoped<F: Family>() -> Queue<F> {
    builder()
        .scope("pods", |key: &String| key.starts_with("p"))
        .scope("nodes", |key: &String| key.starts_with("n"))
        .disjoint_scopes()
        .build()
}

fn list(items: &[(&str, u32)]) -> Vec<(String, u32)> {
    items.iter().map(|&(name, value)| (key(name), value)).collect()
}

fn replaces_only_keys_of_its_scope<F: Family>() {
    let queue = scoped::<F>();
    play(&queue, "known pa1 pb1 na1 other1; add pc1; add nc1");
    let completion = queue.replace_scope("pods", list(&[("pa", 2)])).unwrap();
    play(&queue, "any pa:[R2] pb:[T(pb1)] pc:[A1 T(pc1)] nc:[A1]; empty");
    assert!(completion.is_complete());
    let replace = queue.begin_replace_scope("nodes").unwrap();
    replace.upsert(key("nd"), 3).unwrap();
    replace.commit().unwrap();
    play(&queue, "any na:[T(na1)] nc:[T(nc1)] nd:[R3]; empty");
}

fn plain_replace_counts_for_all<F: Family>() {
    let queue = scoped::<F>();
    play(&queue, "unsynced; replace [pa1 na1 other1]; unsynced; any pa:[R1] na:[R1] other:[R1]; synced");
    // One scope by its own, the rest by a plain one.
    let queue = scoped::<F>();
    queue.replace_scope("pods", list(&[("pa", 1)])).unwrap();
    play(
        &queue,
        "pop pa:[R1] initial; unsynced; replace [pa2 na2]; unsynced; pop pa:[R2]; pop na:[R2] initial; \
        synced",
    );
}

fn overlapping_ones_exclude_each_other<F: Family>() {
    // Not declared as disjoint.
    let queue: Queue<F> = builder()
        .scope("short", |key: &String| key.len() < 3)
        .scope("a", |key: &String| key.starts_with("a"))
        .build();
    let running = queue.begin_replace_scope("short").unwrap();
    for error in [
        queue.begin_replace_scope("a").err(),
        queue.begin_replace().err(),
        queue.begin_replace_scope("short").err(),
    ] {
        assert!(matches!(error, Some(BeginReplaceError::ReplaceInProgress)));
    }
    let error = queue.replace_scope("a", list(&[("a", 1)])).unwrap_err();
    assert!(matches!(error.kind, ReplaceErrorKind::Begin(BeginReplaceError::ReplaceInProgress)));
    assert_eq!(error.list.len(), 1);
    drop(running);
    queue.begin_replace_scope("a").unwrap().commit().unwrap();
}

fn disjoint_ones_run_side_by_side<F: Family>() {
    let queue = scoped::<F>();
    play(&queue, "known pa1 na1");
    let pods = queue.begin_replace_scope("pods").unwrap();
    let nodes = queue.begin_replace_scope("nodes").unwrap();
    assert!(matches!(queue.begin_replace_scope("pods"), Err(BeginReplaceError::ReplaceInProgress)));
    assert!(matches!(queue.begin_replace(), Err(BeginReplaceError::ReplaceInProgress)));
    pods.upsert(key("pb"), 2).unwrap();
    nodes.upsert(key("nb"), 2).unwrap();
    let pods = pods.commit().unwrap();
    play(&queue, "any pb:[R2] nb:[R2] pa:[T(pa1)]; empty");
    assert!(pods.is_complete());
    let nodes = nodes.commit().unwrap();
    assert!(!nodes.is_complete());
    play(&queue, "pop na:[T(na1)]; empty");
    assert!(nodes.is_complete());
    // A plain one excludes both.
    let plain = queue.begin_replace().unwrap();
    assert!(matches!(queue.begin_replace_scope("pods"), Err(BeginReplaceError::ReplaceInProgress)));
    drop(plain);
}

fn unknown_scope_is_refused<F: Family>() {
    let queue = scoped::<F>();
    let error = queue.replace_scope("secrets", list(&[("pa", 1)])).unwrap_err();
    assert!(
        matches!(&error.kind, ReplaceErrorKind::Begin(BeginReplaceError::UnknownScope(name)) if name == "secrets")
    );
    assert!(error.to_string().contains("secrets"), "{error}");
    assert_eq!(error.list, list(&[("pa", 1)]));
    assert!(matches!(queue.begin_replace_scope(""), Err(BeginReplaceError::UnknownScope(_))));
    play(&queue, "pending 0; unsynced");
}

fn item_outside_is_named<F: Family>() {
    let queue = scoped::<F>();
    play(&queue, "known pb1");
    let items = list(&[("pa", 1), ("na", 1), ("pc", 1)]);
    let error = queue.replace_scope("pods", items.clone()).unwrap_err();
    assert!(matches!(&error.kind, ReplaceErrorKind::OutOfScope { index: 1, scope } if scope == "pods"));
    assert!(error.to_string().contains("item 1") && error.to_string().contains("\"na\""), "{error}");
    assert_eq!(error.list, items);
    play(&queue, "pending 0; unsynced");
    let replace = queue.begin_replace_scope("pods").unwrap();
    let error = replace.upsert(key("na"), 1).unwrap_err();
    assert!(matches!(&error.kind, UpsertErrorKind::OutOfScope(scope) if scope == "pods"));
    assert_eq!((error.key.as_str(), error.value), ("na", 1));
    replace.upsert(key("pb"), 2).unwrap();
    replace.commit().unwrap();
    play(&queue, "pop pb:[R2]; empty");
}

fn synced_when_all_scopes_are<F: Family>() {
    let queue = scoped::<F>();
    queue.replace_scope("pods", []).unwrap();
    play(&queue, "unsynced; undelivered");
    queue.replace_scope("nodes", list(&[("na", 1), ("nb", 1)])).unwrap();
    // A second one of the same scope adds nothing to its first sync.
    queue.replace_scope("pods", list(&[("pa", 1)])).unwrap();
    play(&queue, "pop na:[R1] initial; unsynced; pop nb:[R1] initial; synced; pop pa:[R1] later");
}

fn early_change_does_not_decide<F: Family>() {
    let queue = scoped::<F>();
    play(&queue, "add pa1; delete x1; unsynced; pop pa:[A1]; unsynced");
    queue.replace_scope("pods", list(&[("pa", 2)])).unwrap();
    queue.replace_scope("nodes", []).unwrap();
    play(&queue, "unsynced; pop pa:[R2] initial; synced");
}

fn scope_declared_twice_is_refused<F: Family>() {
    let result = std::panic::catch_unwind(|| builder().scope("pods", |_| true).scope("pods", |_| false));
    assert!(result.is_err());
    let _: Queue<F> = builder().scope("pods", |_| true).scope("nodes", |_| false).build();
}

fn predicate_runs_without_locks<F: Family>() {
    use std::sync::{Arc, OnceLock};

    let queue: Arc<OnceLock<Queue<F>>> = Arc::default();
    let inner = Arc::clone(&queue);
    let built = builder()
        .scope("pods", move |key: &String| {
            let queue = inner.get().unwrap();
            queue.update("from-the-predicate".to_owned(), 1).unwrap();
            key.starts_with("p")
        })
        .build();
    let queue = queue.get_or_init(|| built);
    play(queue, "known pa1");
    queue.replace_scope("pods", list(&[("pb", 1)])).unwrap();
    let keys: Vec<String> = queue.pop_batch(9).unwrap().iter().map(|lease| lease.key().clone()).collect();
    assert_eq!(keys, ["from-the-predicate", "pb", "pa"]);
}
