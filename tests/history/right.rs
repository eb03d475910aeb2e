//! Histories that do not look right, and are.

use delta_fifo::Change;

use super::*;

#[test]
fn calls_that_overlap_come_in_any_order() {
    for text in ["A1 A2", "A2 A1"] {
        let rows = [(0, 1, 3, add(A, 1)), (1, 2, 4, add(A, 2)), (0, 5, 6, pop(A, text))];
        right(&history(&rows));
    }
    for first in [A, B] {
        let rows = [(0, 1, 3, add(A, 1)), (1, 2, 4, add(B, 1)), (0, 5, 6, pop(first, "A1"))];
        right(&history(&rows));
    }
}

#[test]
fn a_change_may_be_popped_before_it_returns() {
    let rows = [
        (0, 1, 20, add(A, 1)),
        (1, 2, 3, pop(A, "A1")),
        (1, 4, 5, done(A)),
        (1, 6, 7, empty()),
        (1, 8, 9, get(A, Some(1))),
    ];
    right(&history(&rows));
}

#[test]
fn a_change_may_miss_the_pop_that_it_overlaps() {
    let rows = [
        (0, 1, 2, add(A, 1)),
        (1, 3, 8, pop(A, "A1")),
        (0, 4, 9, add(A, 2)),
        (1, 10, 11, done(A)),
        (1, 12, 13, pop_again(A, "A2", 1, Some(1))),
    ];
    right(&history(&rows));
}

#[test]
fn nothing_is_in_line_while_the_first_change_is_on_its_way() {
    right(&history(&[(0, 1, 9, add(A, 1)), (1, 2, 3, empty()), (1, 4, 5, pop(A, "A1"))]));
    let rows = [(0, 1, 9, add(A, 1)), (1, 2, 3, pop(A, "A1")), (1, 4, 5, empty())];
    right(&history(&rows));
}

#[test]
fn a_call_that_has_not_returned_may_have_happened() {
    let rows = |seen: Said| {
        history(&[(0, 1, 2, add(B, 1)), (1, 3, 0, add(A, 1)), (0, 4, 5, pop(B, "A1")), (0, 6, 7, seen)])
    };
    right(&rows(empty()));
    right(&rows(pop(A, "A1")));
    // A pop, too: then the key is in its lease.
    let rows = [
        (0, 1, 2, add(A, 1)),
        (1, 3, 0, empty()),
        (0, 4, 5, empty()),
        (0, 6, 7, add(A, 2)),
        (0, 8, 9, empty()),
    ];
    right(&history(&rows));
    // And the end of a lease.
    let rows = [
        (0, 1, 2, add(A, 1)),
        (0, 3, 4, pop(A, "A1")),
        (0, 5, 6, add(A, 2)),
        (1, 7, 0, done(A)),
        (0, 8, 9, pop_again(A, "A2", 1, Some(1))),
    ];
    right(&history(&rows));
}

#[test]
fn reads_beside_a_pop_see_either() {
    for seen in [None, Some(1)] {
        let rows = [(0, 1, 2, add(A, 1)), (0, 3, 8, pop(A, "A1")), (1, 4, 5, get(A, seen))];
        right(&history(&rows));
    }
    // An old read that began early returns late.
    let rows = [
        (0, 1, 2, add(A, 1)),
        (1, 3, 20, get(A, None)),
        (0, 4, 8, pop(A, "A1")),
        (2, 9, 10, get(A, Some(1))),
    ];
    right(&history(&rows));
}

#[test]
fn snapshots_beside_two_pops_agree() {
    let all: [&[(u8, u32)]; 4] = [&[], &[(A, 1)], &[(B, 1)], &[(A, 1), (B, 1)]];
    for one in all {
        for other in [one, all[3]] {
            let rows = [
                (0, 1, 2, add(A, 1)),
                (1, 3, 4, add(B, 1)),
                (0, 5, 20, pop(A, "A1")),
                (1, 6, 21, pop(B, "A1")),
                (2, 7, 8, snapshot(one)),
                (3, 9, 10, snapshot(other)),
            ];
            right(&history(&rows));
        }
    }
}

#[test]
fn a_list_that_overlaps_a_change_covers_it_or_not() {
    for (text, late) in [("A1 T1", false), ("A1", false), ("A1", true)] {
        let (called, returned) = if late { (4, 9) } else { (1, 9) };
        let rows = [(0, called, returned, add(A, 1)), (1, 3, 8, replace(&[])), (1, 10, 11, pop(A, text))];
        right(&history(&rows));
    }
    // Of one that began after it only what is listed comes later.
    let rows = [(0, 1, 9, replace(&[(A, 2)])), (1, 2, 3, add(A, 1)), (1, 10, 11, pop(A, "R2 A1"))];
    right(&history(&rows));
}

#[test]
fn a_deletion_of_nothing_is_no_change() {
    right(&in_turn(&[
        delete(A, 1),
        empty(),
        add(A, 2),
        delete(A, 3),
        delete(A, 4),
        pop(A, "A2 D3"),
        done(A),
        empty(),
    ]));
    right(&in_turn(&[
        delete(A, 1),
        begin(),
        delete(A, 2),
        (Call::Upsert(A, 3), Answer::Was(true)),
        commit(),
        pop(A, "R3"),
    ]));
}

#[test]
fn what_is_given_back_joins_what_arrived() {
    let rows = [
        (0, 1, 2, add(A, 1)),
        (0, 3, 4, pop(A, "A1")),
        (0, 5, 9, requeue(A)),
        (1, 6, 8, add(A, 2)),
        (0, 10, 11, pop_again(A, "A1 A2", 2, None)),
    ];
    right(&history(&rows));
    right(&in_turn(&[
        add(A, 1),
        delete(A, 2),
        pop(A, "A1 D2"),
        (Call::Change(Change::DeleteKey(A)), Answer::Done),
        requeue(A),
        pop_again(A, "A1 D2", 2, None),
    ]));
}

#[test]
fn a_resync_beside_a_pop_finds_the_key_at_rest_or_not() {
    for count in [0, 1] {
        let rows = [
            (0, 1, 2, add(A, 1)),
            (0, 3, 4, pop(A, "A1")),
            (0, 5, 9, done(A)),
            (1, 6, 8, (Call::Resync, Answer::Count(count))),
            (0, 10, 11, if count == 1 { pop_again(A, "S1", 1, Some(1)) } else { empty() }),
        ];
        right(&history(&rows));
    }
}

/// Just what the sharded queue may do and the mutex queue may not.
#[test]
fn a_key_may_leave_the_line_before_its_deltas_are_taken() {
    let rows = [
        (0, 1, 2, add(A, 1)),
        (0, 3, 4, add(B, 1)),
        (1, 5, 20, pop(A, "A1 A2")),
        (2, 6, 7, pop(B, "A1")),
        (0, 8, 9, add(A, 2)),
    ];
    right_on(&history(&rows), &[false]);
    assert!(!is_right(&history(&rows), View::Line, true));
}

#[test]
fn a_key_may_be_known_later_than_its_deltas_are_taken() {
    let rows = [
        (0, 1, 2, add(A, 1)),
        (1, 3, 20, pop(A, "A1")),
        (0, 4, 5, add(A, 2)),
        (0, 6, 7, get(A, None)),
        (1, 21, 22, done(A)),
        (1, 23, 24, pop_again(A, "A2", 1, Some(1))),
    ];
    right_on(&history(&rows), &[false]);
    assert!(!is_right(&history(&rows), View::Contents(A), true));
}

#[test]
fn a_list_of_changes_is_one_moment_or_several() {
    let list = (Call::ChangeAll(vec![Change::Add(A, 1), Change::Add(B, 1)]), Answer::Done);
    let rows = [(0, 1, 9, list), (1, 2, 3, pop(A, "A1")), (1, 4, 5, empty()), (1, 10, 11, pop(B, "A1"))];
    right_on(&history(&rows), &[false]);
    assert!(!is_right(&history(&rows), View::Line, true));
}
