//! What `report` draws of the snapshots.

use super::{DROP, HIT, MISS, Report, Row, SCAN, SNAPSHOT};
use crate::figures::{Better, Figure};

pub(super) fn of(report: &Report) -> Vec<Figure> {
    let of_queue = report.sweeps.iter().flat_map(|sweeps| sweeps.figures());
    report.rows.iter().map(figure).chain(of_queue).collect()
}

fn figure(row: &Row) -> Figure {
    let mut case = vec![("known", row.keys.to_string())];
    let measure = match &*row.what {
        SNAPSHOT => "time per snapshot",
        DROP => "time per drop of a snapshot",
        SCAN => "time per object of a scan",
        HIT => "time per get of what is there",
        MISS => "time per get of what is not",
        writing => {
            // `1 reader` is `1`; `1 elsewhere` stays.
            let readers = writing.trim_start_matches("write, ");
            let number = readers.trim_end_matches("s").trim_end_matches(" reader");
            case.push(("readers", number.into()));
            "time per write"
        }
    };
    Figure {
        workload: "W9".into(),
        case: case.into_iter().map(|(key, value)| (key.into(), value)).collect(),
        peer: row.store.clone(),
        measure: measure.into(),
        unit: "ns".into(),
        better: Better::Lower,
        by_block: row.by_block.clone(),
    }
}
