//! The rule that merges, against its definition, for all sequences up to a length.

use super::*;

const KINDS: [RawKind; 6] = [
    RawKind::Added,
    RawKind::Updated,
    RawKind::Replaced,
    RawKind::Sync,
    RawKind::Deleted,
    RawKind::Tombstone,
];

/// All sequences of `KINDS` up to a length; the objects are numbered.
fn sequences(max: u32) -> impl Iterator<Item = Vec<RawDelta<u32>>> {
    (0..=max).flat_map(|length| {
        let kinds = KINDS.len() as u32;
        (0..kinds.pow(length)).map(move |mut code| {
            let next = |object| {
                let kind = KINDS[(code % kinds) as usize];
                code /= kinds;
                RawDelta::new(kind, Some(object))
            };
            (1..=length).map(next).collect()
        })
    })
}

fn appended(sequence: &[RawDelta<u32>], compression: Compression) -> (Vec<RawDelta<u32>>, usize) {
    let (mut list, mut merged) = (DeltaList::new(), Vec::new());
    for delta in sequence {
        append(&mut list, delta.clone(), compression, &mut merged);
    }
    // Whether live deltas went into a deletion is not seen by anybody.
    (list.into_iter().map(|delta| RawDelta { note: Note::default(), ..delta }).collect(), merged.len())
}

/// Of deletions that follow each other the first real one stays, else the last tombstone.
fn of_run(run: &[RawDelta<u32>]) -> RawDelta<u32> {
    let real = run.iter().find(|delta| delta.kind == RawKind::Deleted);
    real.or(run.last()).expect("a run is not empty").clone()
}

fn runs(sequence: &[RawDelta<u32>]) -> impl Iterator<Item = &[RawDelta<u32>]> {
    sequence.chunk_by(|a, b| a.kind.is_deletion() == b.kind.is_deletion())
}

#[test]
fn only_deletions_are_merged_by_default() {
    for sequence in sequences(6) {
        let expected: Vec<_> = runs(&sequence)
            .flat_map(|run| if run[0].kind.is_deletion() { vec![of_run(run)] } else { run.to_vec() })
            .collect();
        let (list, merged) = appended(&sequence, Compression::Deletions);
        assert_eq!(list, expected, "{sequence:?}");
        assert_eq!(merged, sequence.len() - list.len());
    }
}

#[test]
fn latest_keeps_the_newest_deletion_and_one_live_delta() {
    for sequence in sequences(6) {
        let deletion = runs(&sequence).filter(|run| run[0].kind.is_deletion()).last().map(of_run);
        let live = runs(&sequence).last().filter(|run| !run[0].kind.is_deletion()).map(|run| {
            let kinds = [RawKind::Added, RawKind::Updated, RawKind::Replaced, RawKind::Sync];
            let kind = kinds.into_iter().find(|kind| run.iter().any(|delta| delta.kind == *kind));
            RawDelta::new(kind.expect("the run is live"), run.last().expect("it is not empty").object)
        });
        let expected: Vec<_> = deletion.into_iter().chain(live).collect();
        let (list, merged) = appended(&sequence, Compression::Latest);
        assert_eq!(list, expected, "{sequence:?}");
        assert_eq!(merged, sequence.len() - list.len());
    }
}

#[test]
fn a_tombstone_takes_the_object_before_it_and_nests_nothing() {
    for compression in [Compression::Deletions, Compression::Latest] {
        let unseen = || RawDelta::new(RawKind::Tombstone, None);
        let (list, _) = appended(&[RawDelta::new(RawKind::Added, Some(7)), unseen(), unseen()], compression);
        assert_eq!(list.last(), Some(&RawDelta::new(RawKind::Tombstone, Some(7))));
    }
}
