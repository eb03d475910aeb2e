//! Handles, and whose turn it is.

use crate::fifo::lines::{At, Lines, SHARD_BITS};
use crate::fifo::word::GENERATION_BITS;
use crate::key_queue::Handle;
use crate::slab::Index;

fn at(number: u32) -> At {
    At { shard: 0, index: Index::new(number).expect("not 0"), generation: 1 }
}

#[test]
fn a_handle_says_where() {
    let highest = (1 << (Handle::BITS - SHARD_BITS - GENERATION_BITS)) - 1;
    for shard in [0, 1, (1 << SHARD_BITS) - 1] {
        for index in [1, 2, 0x0555_5555, highest] {
            for generation in [0, 1, (1 << GENERATION_BITS) - 1] {
                let at = At { shard, index: Index::new(index).expect("not 0"), generation };
                assert_eq!(At::of(at.handle()), at);
            }
        }
    }
}

/// The numbers of all that is popped.
fn drain(lines: &Lines) -> Vec<u32> {
    std::iter::from_fn(|| lines.pop()).map(|(at, _)| at.index.get()).collect()
}

#[test]
fn the_background_has_every_sixteenth_turn() {
    let lines = Lines::new(1, true);
    (1..=3).for_each(|number| lines.push(at(number), true));
    (101..=140).for_each(|number| lines.push(at(number), false));
    let popped = drain(&lines);
    let turns: Vec<usize> = (0..popped.len()).filter(|turn| popped[*turn] < 100).collect();
    assert_eq!(turns, [15, 31, 42], "two turns, and the rest when the first line is empty");
    assert_eq!(popped.len(), 43);
}

#[test]
fn a_stale_handle_takes_no_turn() {
    let lines = Lines::new(1, true);
    (1..=2).for_each(|number| lines.push(at(number), true));
    (101..=140).for_each(|number| lines.push(at(number), false));
    (0..15).for_each(|_| _ = lines.pop());
    assert_eq!(lines.pop(), Some((at(1), true)));
    lines.was_stale(true);
    assert_eq!(lines.pop(), Some((at(2), true)), "the turn is still the background's");
    assert_eq!(lines.pop(), Some((at(116), false)));
}

#[test]
fn a_stale_handle_of_the_first_line_brings_no_turn_nearer() {
    let lines = Lines::new(1, true);
    lines.push(at(1), true);
    (101..=140).for_each(|number| lines.push(at(number), false));
    (0..3).for_each(|_| _ = lines.pop());
    lines.was_stale(false);
    let popped = drain(&lines);
    assert_eq!(
        popped.iter().position(|number| *number == 1),
        Some(13),
        "15 good ones before it, of 16 popped"
    );
}

#[test]
fn without_a_background_there_is_one_line() {
    let lines = Lines::new(1, false);
    (1..=4).for_each(|number| lines.push(at(number), number % 2 == 0));
    assert_eq!(drain(&lines), [1, 2, 3, 4]);
}

#[test]
fn a_glance_takes_nothing() {
    let lines = Lines::new(1, false);
    (1..=3).for_each(|number| lines.push(at(number), false));
    let seen = || {
        let popped = lines.pop_and_glance([1, 2, 1 << 40])?;
        let ahead = popped.ahead.map(|handle| handle.map(|handle| At::of(handle).index.get()));
        Some((popped.at.index.get(), ahead))
    };
    assert_eq!(seen(), Some((1, [Some(2), Some(3), None])));
    assert_eq!(seen(), Some((2, [Some(3), None, None])));
    assert_eq!(seen(), Some((3, [None, None, None])));
    assert_eq!(seen(), None);
}

#[test]
fn what_was_put_back_comes_first() {
    let lines = Lines::new(1, false);
    lines.push(at(3), false);
    lines.push_front(at(1));
    lines.push_front(at(2));
    let mut batch = Vec::new();
    assert!(!lines.pop_all(8, &mut batch) && batch.is_empty(), "one by one while there is such");
    assert_eq!(drain(&lines), [1, 2, 3]);
    lines.push(at(4), false);
    assert!(lines.pop_all(8, &mut batch));
    assert_eq!(batch, [at(4).handle()]);
}

/// Of a shard of its own.
fn of_shard(shard: usize) -> At {
    At { shard, ..at(1) }
}

#[test]
fn several_lines_are_served_in_turns() {
    let lines = Lines::new(4, false);
    (0..6).for_each(|_| lines.push(of_shard(0), false));
    lines.push(of_shard(5), false);
    let popped: Vec<usize> = (0..4).map(|_| lines.pop().expect("seven are in line").0.shard).collect();
    assert!(popped.contains(&5), "{popped:?}");
    assert_eq!(drain(&lines).len(), 3);
}

#[test]
fn several_lines_keep_all_and_each_its_order() {
    for background in [false, true] {
        let lines = Lines::new(8, background);
        let handles: Vec<Handle> =
            (1..=200).map(|number| At { shard: number as usize * 7 % 32, ..at(number) }.handle()).collect();
        lines.push_all(&handles[..150]);
        handles[150..].iter().for_each(|handle| lines.push(At::of(*handle), false));
        let mut batch = Vec::new();
        assert_eq!(lines.pop_all(50, &mut batch), !background);
        let mut all: Vec<At> = batch.into_iter().map(At::of).collect();
        all.extend(std::iter::from_fn(|| lines.pop()).map(|(at, _)| at));
        for line in 0..8 {
            let of_line: Vec<u32> =
                all.iter().filter(|at| at.shard % 8 == line).map(|at| at.index.get()).collect();
            assert!(of_line.is_sorted(), "{of_line:?}");
        }
        all.sort_unstable_by_key(|at| at.index);
        assert!(all.iter().map(|at| at.index.get()).eq(1..=200), "lost or doubled");
    }
}
