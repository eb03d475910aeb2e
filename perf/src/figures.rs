//! A measured quantity in the one form that all commands share: what `report` draws, and by what two runs are compared.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// One quantity of one peer in one case.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Figure {
    /// As BENCH's tables number it: `W1`; or the command's name where it is of none.
    pub(crate) workload: String,
    /// What makes the case, by name: `known` is `100000`, `threads` is `(1,1)`.
    pub(crate) case: BTreeMap<String, String>,
    pub(crate) peer: String,
    /// `time per change`, `p99.9 of a call`, `bytes per known key`.
    pub(crate) measure: String,
    /// `ns`, `bytes`, `changes/s`, `%`.
    pub(crate) unit: String,
    pub(crate) better: Better,
    /// Block by block; `None` is a void run. One value for what is counted, not timed.
    pub(crate) by_block: Vec<Option<f64>>,
}

/// Which of two values is the better one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Better {
    Lower,
    Higher,
}
