//! How far the stream of changes has been processed.
//!
//! Mark `n` is processed when no key has a delta that was appended before it and is not completed. A key remembers the
//! newest mark at the time of its oldest such delta, and these are counted in buckets: bucket `n` holds the keys that
//! were first changed between mark `n` and the next. The front bucket with a key in it is as far as processing got.

use std::collections::VecDeque;

use crate::replace::Version;

struct Bucket {
    /// Number of the mark at its start. Marks in between were merged into it: nothing was appended between them.
    number: u64,
    /// None before the first mark.
    version: Option<Version>,
    /// Keys whose oldest uncompleted delta is of this bucket.
    open: usize,
}

pub(super) struct Marks {
    /// Never empty; numbers rise.
    buckets: VecDeque<Bucket>,
    /// The lowest bucket from which deltas were discarded: later marks are never processed.
    lost: Option<u64>,
    /// How many buckets there may be before empty ones in the middle are thrown out.
    limit: usize,
}

const MIN_LIMIT: usize = 64;

impl Marks {
    pub(super) fn new() -> Self {
        Marks {
            buckets: VecDeque::from([Bucket { number: 0, version: None, open: 0 }]),
            lost: None,
            limit: MIN_LIMIT,
        }
    }

    /// A key got its oldest delta: the number to give to [`leave`](Self::leave).
    pub(super) fn enter(&mut self) -> u64 {
        let back = self.back();
        back.open += 1;
        back.number
    }

    /// The deltas that entered under `number` are completed. O(log buckets).
    pub(super) fn leave(&mut self, number: u64) {
        let at = self.buckets.partition_point(|bucket| bucket.number < number);
        self.buckets[at].open -= 1;
        while self.buckets.len() > 1 && self.buckets[0].open == 0 {
            self.buckets.pop_front();
        }
    }

    /// The deltas that entered under `number` were discarded. They never leave.
    pub(super) fn lose(&mut self, number: u64) {
        self.lost = Some(self.lost.map_or(number, |lost| lost.min(number)));
    }

    /// A new mark; its number. O(1) amortized.
    pub(super) fn mark(&mut self, version: Version) -> u64 {
        let back = self.back();
        let number = back.number + 1;
        if back.open == 0 {
            (back.number, back.version) = (number, Some(version));
        } else {
            self.buckets.push_back(Bucket { number, version: Some(version), open: 0 });
            if self.buckets.len() > self.limit {
                self.compact();
            }
        }
        number
    }

    /// The newest processed mark.
    pub(super) fn processed(&self) -> Option<&Version> {
        self.buckets[0].version.as_ref()
    }

    pub(super) fn is_processed(&self, number: u64) -> bool {
        number <= self.buckets[0].number
    }

    /// Whether deltas before the mark were discarded.
    pub(super) fn is_lost(&self, number: u64) -> bool {
        self.lost.is_some_and(|lost| lost < number)
    }

    /// Throws out empty buckets: when the front passes one it passes the next at the same time. What remains is
    /// bounded by the number of uncompleted keys, however many marks a stuck key holds back.
    fn compact(&mut self) {
        let last = self.back().number;
        self.buckets.retain(|bucket| bucket.open > 0 || bucket.number == last);
        self.limit = (2 * self.buckets.len()).max(MIN_LIMIT);
    }

    fn back(&mut self) -> &mut Bucket {
        self.buckets.back_mut().expect("there is always a bucket")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Against the definition: mark `n` is processed when nothing that entered before it is left.
    #[test]
    fn agrees_with_the_definition() {
        let mut random = 7_u64;
        let mut next = |bound: u64| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (random >> 33) % bound
        };
        for round in 0..200 {
            let (mut marks, mut made, mut inside) = (Marks::new(), 0, Vec::new());
            for _ in 0..300 {
                match next(3 + round % 3) {
                    0 => {
                        made += 1;
                        assert_eq!(marks.mark(Version::from(made)), made);
                    }
                    1 => inside.push((marks.enter(), made)),
                    _ if !inside.is_empty() => {
                        let at = next(inside.len() as u64) as usize;
                        marks.leave(inside.swap_remove(at).0);
                    }
                    _ => {}
                }
                let through = inside.iter().map(|&(_, made)| made).min().unwrap_or(made);
                assert_eq!(marks.processed().cloned(), (through > 0).then(|| Version::from(through)));
                assert!((0..=made).all(|mark| marks.is_processed(mark) == (mark <= through)));
            }
        }
    }

    #[test]
    fn a_stuck_key_keeps_few_marks() {
        let mut marks = Marks::new();
        let _stuck = marks.enter();
        for number in 1..100_000 {
            marks.mark(Version::from(number));
            let key = marks.enter();
            marks.leave(key);
        }
        assert!(marks.buckets.len() <= MIN_LIMIT + 1);
    }
}
