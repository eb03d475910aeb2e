//! Histories that cannot have been. Each is right but for one thing.

use delta_fifo::Change;

use super::*;
use crate::history::shrink::smallest;

const CONTENTS: View = View::Contents(A);

#[test]
fn nothing_is_lost() {
    wrong(CONTENTS, &in_turn(&[add(A, 1), add(A, 2), pop(A, "A1")]));
    wrong(CONTENTS, &in_turn(&[add(A, 1), add(A, 2), pop(A, "A2")]));
    wrong(View::Line, &in_turn(&[add(A, 1), empty()]));
    // The second is in neither lease.
    let rows = [
        (0, 1, 2, add(A, 1)),
        (1, 3, 8, pop(A, "A1")),
        (0, 4, 5, add(A, 2)),
        (1, 9, 10, done(A)),
        (1, 11, 12, empty()),
    ];
    wrong(View::Line, &history(&rows));
}

#[test]
fn nothing_is_doubled() {
    wrong(CONTENTS, &in_turn(&[add(A, 1), pop(A, "A1 A1")]));
    wrong(CONTENTS, &in_turn(&[add(A, 1), pop(A, "A1"), done(A), pop_again(A, "A1", 1, Some(1))]));
    wrong(CONTENTS, &history(&[(0, 1, 2, add(A, 1)), (1, 3, 9, pop(A, "A1")), (2, 4, 8, pop(A, "A1"))]));
}

#[test]
fn deltas_of_a_key_keep_their_order() {
    wrong(CONTENTS, &in_turn(&[add(A, 1), add(A, 2), pop(A, "A2 A1")]));
    // Two pops cannot show two orders.
    let rows = [
        (0, 1, 20, add(A, 1)),
        (1, 2, 21, add(A, 2)),
        (2, 3, 4, pop(A, "A2")),
        (2, 5, 6, requeue(A)),
        (2, 22, 23, pop_again(A, "A1 A2", 2, None)),
    ];
    wrong(CONTENTS, &history(&rows));
}

#[test]
fn a_key_is_leased_once() {
    wrong(CONTENTS, &in_turn(&[add(A, 1), pop(A, "A1"), add(A, 2), pop_again(A, "A2", 1, Some(1))]));
    wrong(CONTENTS, &in_turn(&[add(A, 1), pop(A, "A1"), done(A), done(A)]));
}

#[test]
fn nothing_is_answered_from_the_future() {
    wrong(CONTENTS, &in_turn(&[pop(A, "A1"), add(A, 1)]));
    wrong(CONTENTS, &in_turn(&[add(A, 1), get(A, Some(1)), pop(A, "A1")]));
    wrong(View::Known, &in_turn(&[add(A, 1), snapshot(&[(A, 1)]), pop(A, "A1")]));
    wrong(CONTENTS, &history(&[(0, 1, 3, add(A, 1)), (1, 2, 4, pop(A, "A1 A2")), (0, 5, 6, add(A, 2))]));
}

#[test]
fn what_was_popped_is_known() {
    let popped = [add(A, 1), pop(A, "A1")];
    for late in [get(A, None), snapshot(&[])] {
        wrong(View::Known, &in_turn(&[&popped[..], &[late]].concat()));
    }
    wrong(CONTENTS, &in_turn(&[&popped[..], &[get(A, None)]].concat()));
    // Once seen it is not unseen.
    let rows =
        [(0, 1, 2, add(A, 1)), (0, 3, 20, pop(A, "A1")), (1, 4, 5, get(A, Some(1))), (1, 6, 7, get(A, None))];
    wrong(View::Known, &history(&rows));
    wrong(CONTENTS, &history(&rows));
}

#[test]
fn a_snapshot_is_a_cut() {
    let popped = [add(A, 1), add(B, 1), pop(A, "A1"), pop(B, "A1")];
    wrong(View::Known, &in_turn(&[&popped[..], &[snapshot(&[(B, 1)])]].concat()));
    let at_once = |one: &[(u8, u32)], other: &[(u8, u32)]| {
        history(&[
            (0, 1, 20, pop(A, "A1")),
            (1, 2, 21, pop(B, "A1")),
            (2, 3, 4, snapshot(one)),
            (3, 5, 6, snapshot(other)),
        ])
    };
    wrong(View::Known, &at_once(&[(A, 1)], &[(B, 1)]));
    wrong(View::Known, &at_once(&[(A, 1)], &[]));
}

#[test]
fn keys_keep_their_places() {
    wrong(View::Line, &in_turn(&[add(A, 1), add(B, 1), pop(B, "A1")]));
    wrong(View::Line, &in_turn(&[add(A, 1), add(B, 1), add(A, 2), pop(B, "A1")]));
    let two = [lease(B, "A1", 1, None), lease(A, "A1", 1, None)];
    wrong(View::Line, &in_turn(&[add(A, 1), add(B, 1), batch(2, &two)]));
    wrong(View::Line, &in_turn(&[add(A, 1), add(B, 1), batch(2, &[lease(A, "A1", 1, None)])]));
    // What is given back goes to the tail.
    let again = pop_again(A, "A1", 2, None);
    wrong(View::Line, &in_turn(&[add(A, 1), add(B, 1), pop(A, "A1"), requeue(A), again]));
    // A call that found it pending has returned: its place is before that of b.
    let rows = [
        (0, 1, 20, add(A, 1)),
        (1, 2, 3, add(A, 2)),
        (1, 4, 5, add(B, 1)),
        (2, 6, 7, pop(B, "A1")),
        (2, 21, 22, pop(A, "A1 A2")),
    ];
    wrong(View::Line, &history(&rows));
    // The keys of a list stand in its order.
    let list = (Call::ChangeAll(vec![Change::Add(A, 1), Change::Add(B, 1)]), Answer::Done);
    wrong(View::Line, &history(&[(0, 1, 9, list), (1, 10, 11, pop(B, "A1"))]));
}

#[test]
fn what_is_given_back_comes_back_first() {
    wrong(View::Line, &in_turn(&[add(A, 1), pop(A, "A1"), requeue(A), empty()]));
    let newer =
        |text| in_turn(&[add(A, 1), pop(A, "A1"), add(A, 2), requeue(A), pop_again(A, text, 2, None)]);
    wrong(CONTENTS, &newer("A2 A1"));
    wrong(CONTENTS, &newer("A2"));
    wrong(CONTENTS, &newer("A1"));
    wrong(CONTENTS, &in_turn(&[add(A, 1), pop(A, "A1"), requeue(A), pop_again(A, "A1", 1, None)]));
    wrong(CONTENTS, &in_turn(&[add(A, 1), pop(A, "A1"), requeue(A), pop_again(A, "A1", 2, Some(1))]));
}

#[test]
fn a_list_covers_what_came_before_and_nothing_newer() {
    wrong(CONTENTS, &in_turn(&[add(A, 1), replace(&[]), pop(A, "A1")]));
    wrong(CONTENTS, &in_turn(&[replace(&[]), add(A, 1), pop(A, "A1 T1")]));
    wrong(CONTENTS, &in_turn(&[begin(), add(A, 1), commit(), pop(A, "A1 T1")]));
    let item = |placed| (Call::Upsert(A, 2), Answer::Was(placed));
    wrong(CONTENTS, &in_turn(&[begin(), add(A, 1), item(true), commit(), pop(A, "A1 R2")]));
    wrong(CONTENTS, &in_turn(&[add(A, 1), begin(), item(false), commit(), pop(A, "A1")]));
    // Two at once.
    wrong(CONTENTS, &in_turn(&[begin(), replace(&[])]));
    wrong(CONTENTS, &in_turn(&[begin(), commit(), refused()]));
}

#[test]
fn a_resync_says_what_it_has_done() {
    let known = [add(A, 1), pop(A, "A1"), done(A)];
    let resync = |answer| (Call::ResyncKey(A), Answer::Was(answer));
    wrong(CONTENTS, &in_turn(&[&known[..], &[resync(false)]].concat()));
    wrong(CONTENTS, &in_turn(&[&known[..2], &[resync(true)]].concat()));
    for count in [0, 2] {
        let all = (Call::Resync, Answer::Count(count));
        wrong(View::Line, &in_turn(&[&known[..], &[all]].concat()));
    }
}

#[test]
fn what_is_at_rest_is_counted() {
    let lengths = |pending, leased| (Call::Lengths, Answer::Lengths(pending, leased));
    let popped = [add(A, 1), add(B, 1), pop(A, "A1")];
    right(&in_turn(&[&popped[..], &[lengths(1, 1)]].concat()));
    wrong(View::Line, &in_turn(&[&popped[..], &[lengths(2, 1)]].concat()));
    wrong(View::Line, &in_turn(&[&popped[..], &[lengths(1, 0)]].concat()));
}

/// What is printed of a failure is what took part in it.
#[test]
fn what_took_no_part_is_taken_away() {
    let rows = [
        (0, 1, 2, add(B, 7)),
        (1, 3, 6, add(A, 1)),
        (0, 4, 5, get(A, None)),
        (0, 7, 8, add(A, 2)),
        (2, 9, 10, batch(2, &[lease(B, "A7", 1, None), lease(A, "A2 A1", 1, None)])),
        (0, 11, 12, snapshot(&[(B, 7)])),
        (2, 13, 14, done(A)),
    ];
    let whole = history(&rows);
    let is_wrong = |history: &History| verdict(history, CONTENTS, false, &Config::default()).is_wrong();
    let left = smallest(&whole, KEYS, is_wrong);
    let calls: Vec<_> = left.into_iter().map(|record| record.call).collect();
    let (first, second) = (Change::Add(A, 1), Change::Add(A, 2));
    assert_eq!(calls, [Call::Change(first), Call::Change(second), Call::PopBatch(1)]);
}
