use super::*;

/// Mark `n` is processed when nothing that was appended before it is left.
#[test]
fn agrees_with_the_definition() {
    let mut random = 7_u64;
    let mut next = |bound: u64| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (random >> 33) % bound
    };
    for round in 0..200 {
        // Of what is left: its number as the queue has it, and how many marks there really were.
        let (marks, mut made, mut left) = (Marks::new(), 0, Vec::new());
        let mut reported = 0;
        for _ in 0..300 {
            match next(4 + round % 3) {
                0 => {
                    made += 1;
                    assert_eq!(marks.mark(Version::from(made)), made);
                }
                1 => left.push((marks.newest(), made)),
                2 => {
                    let newest = marks.newest();
                    let through = left.iter().map(|&(since, _)| since).min().unwrap_or(newest);
                    let defined = left.iter().map(|&(_, made)| made).min().unwrap_or(made);
                    reported = defined.max(reported);
                    let expected = (reported > 0).then(|| Version::from(reported));
                    assert_eq!(marks.processed(through), expected);
                }
                _ if !left.is_empty() => {
                    let at = next(left.len() as u64) as usize;
                    left.swap_remove(at);
                }
                _ => {}
            }
            assert_eq!(marks.any(), made > 0);
            assert!((0..=made).all(|mark| marks.is_processed(mark) == (mark <= reported)));
        }
    }
}

#[test]
fn marks_that_nothing_follows_cost_no_memory() {
    let marks = Marks::new();
    let stuck = marks.newest();
    for number in 1..10_000 {
        marks.mark(Version::from(number));
    }
    assert_eq!(marks.kept().versions.len(), 1);
    assert_eq!(marks.processed(stuck), None);
    // A change after each: every one of them may be the answer.
    for number in 10_000..10_100 {
        marks.newest();
        marks.mark(Version::from(number));
    }
    assert_eq!(marks.kept().versions.len(), 101);
    assert_eq!(marks.processed(10_050), Some(Version::from(10_050)));
    assert_eq!(marks.kept().versions.len(), 50);
    // A slower query, which saw less.
    assert_eq!(marks.processed(10_049), Some(Version::from(10_050)));
    assert!(marks.is_processed(10_050) && !marks.is_processed(10_051));
}

#[test]
fn the_lowest_loss_counts() {
    let marks = Marks::new();
    assert!(!marks.is_lost(u64::MAX));
    marks.lose(3);
    marks.lose(5);
    assert!(marks.is_lost(4) && !marks.is_lost(3));
}
