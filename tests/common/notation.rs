//! How the tests write what a lease shows: `a:[A1 U2 D3 T(a2) T(a,-)]`.

use std::fmt::Display;

use delta_fifo::{Delta, DeltaQueue, Deltas, KnownView, Lease};

fn delta_text<K: Display, V: Display>(delta: Delta<'_, K, V>) -> String {
    match delta {
        Delta::Added(object) => format!("A{object}"),
        Delta::Updated(object) => format!("U{object}"),
        Delta::Deleted(object) => format!("D{object}"),
        Delta::Replaced(object) => format!("R{object}"),
        Delta::Sync(object) => format!("S{object}"),
        Delta::DeletedFinalStateUnknown(tombstone) => match tombstone.object {
            Some(object) => format!("T({}{object})", tombstone.key),
            None => format!("T({},-)", tombstone.key),
        },
    }
}

/// `A1 U2 D3`, oldest first.
pub(crate) fn deltas_text<K: Display, V: Display>(deltas: Deltas<'_, K, V>) -> String {
    let texts: Vec<String> = deltas.iter().map(delta_text).collect();
    assert_eq!(texts.first(), Some(&delta_text(deltas.oldest())));
    assert_eq!(texts.last(), Some(&delta_text(deltas.newest())));
    assert_eq!(texts.len(), deltas.len());
    texts.join(" ")
}

/// `a:[A1 U2 D3]`.
pub(crate) fn lease_text<Q>(lease: &Lease<'_, Q>) -> String
where
    Q: DeltaQueue,
    Q::Key: Display,
    Q::Value: Display,
{
    format!("{}:[{}]", lease.key(), deltas_text(lease.deltas()))
}

/// `a1 b2`, sorted by key.
pub(crate) fn known_text<K: Display, V: Display>(known: &impl KnownView<K, V>) -> String {
    let mut texts: Vec<String> =
        known.iter().map(|known| format!("{}{}", known.key(), known.object())).collect();
    texts.sort();
    texts.join(" ")
}
