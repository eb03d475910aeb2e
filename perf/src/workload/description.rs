//! A workload in words: what a program of another language reads from its standard input, as one line of JSON, to do the same.
//!
//! Keys are those of [`KeySet`]: their names and their order follow from `known` and `seed`. Times are in nanoseconds.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::memory::Shape;
use super::paced::Pace;
use super::{Case, KeySet, windowed};
use crate::stores::Plan;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Description {
    pub known: usize,
    /// Of the order of the keys.
    pub seed: u64,
    #[serde(flatten)]
    pub work: Work,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "workload", rename_all = "snake_case")]
pub enum Work {
    Windowed {
        #[serde(flatten)]
        case: Case,
        /// How many changes of one producer may be under way.
        window: usize,
        /// What every handler does: it sleeps for so long.
        #[serde(with = "nanoseconds")]
        handler: Duration,
    },
    Paced(Pace),
    Memory(Shape),
    Store(Plan),
}

impl Description {
    pub fn windowed(known: usize, seed: u64, case: Case, handler: Duration) -> Self {
        let window = windowed::width(known, &case);
        Self { known, seed, work: Work::Windowed { case, window, handler } }
    }

    pub fn keys(&self) -> KeySet {
        KeySet::new(self.known, self.seed)
    }
}

pub(crate) mod nanoseconds {
    use std::time::Duration;

    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub(crate) fn serialize<S: Serializer>(time: &Duration, to: S) -> Result<S::Ok, S::Error> {
        u64::try_from(time.as_nanos()).unwrap_or(u64::MAX).serialize(to)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
        u64::deserialize(from).map(Duration::from_nanos)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the program in Go reads too, in its own test.
    const DESCRIPTIONS: &str = include_str!("../../client_go/testdata/descriptions.jsonl");
    const KEYS: &str = include_str!("../../client_go/testdata/keys.json");

    fn descriptions() -> [Description; 4] {
        let known = |work| Description { known: 1_000, seed: 7, work };
        let case = Case {
            producers: 2,
            consumers: 1,
            batch: 32,
            changes: 5_000,
            patience: Duration::from_secs(20),
            parts: crate::workload::Parts::default(),
        };
        let pace = Pace {
            consumers: 8,
            handler: Duration::from_micros(10),
            rate: Some(500.0),
            calls: 100,
            pending: false,
            limit: Duration::from_secs(3),
        };
        [
            Description::windowed(1_000, 7, case, Duration::from_millis(1)),
            known(Work::Paced(pace)),
            known(Work::Memory(Shape { samples: 21, burst: 100, warm: 3, bursts: 5 })),
            known(Work::Store(Plan { snapshots: 101, scanned: 20_000, time: Duration::from_millis(20) })),
        ]
    }

    #[test]
    fn what_is_written_is_read_again() {
        let lines: Vec<String> =
            descriptions().iter().map(|it| serde_json::to_string(it).expect("it can be written")).collect();
        assert_eq!(lines.join("\n") + "\n", DESCRIPTIONS);
        let read = DESCRIPTIONS.lines().map(|line| serde_json::from_str(line).expect("it can be read"));
        assert_eq!(read.collect::<Vec<Description>>(), descriptions());
    }

    #[test]
    fn keys_follow_from_number_and_seed() {
        let expected: Vec<String> = serde_json::from_str(KEYS).expect("a list of keys");
        let keys = KeySet::new(expected.len(), 7);
        assert!((0..keys.len()).all(|number| **keys.key(number) == *expected[number]));
    }
}
