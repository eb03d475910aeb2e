//! What is drawn of which figures.

use super::super::input::tests::{figure, report, runs};
use super::*;

fn groups_of(figures: &[String]) -> Vec<Group> {
    let runs = runs(&[report("system", 2, &figures.join(","))]);
    groups(&model::topics(&runs)[0])
}

fn titles(groups: &[Group]) -> Vec<(&str, usize)> {
    groups.iter().map(|group| (&*group.title, group.charts.len())).collect()
}

#[test]
fn what_is_in_the_case_decides_what_is_drawn() {
    let cases = ["1000", "100000"].iter().flat_map(|known| {
        ["(1,1)", "(2,2)"]
            .map(|threads| format!(r#"{{"known": "{known}", "threads": "{threads}", "batch": "1"}}"#))
    });
    let figures: Vec<String> = cases
        .flat_map(|case| ["sharded", "B1"].map(|peer| figure(&case, peer, "time", "[2.0, 3.0]")))
        .collect();
    let drawn = [
        ("Against each peer: above 1 is better", 0),
        ("Against the number of keys: lower is better", 2),
        ("Scaling with threads: lower is better", 2),
    ];
    // All ratios are 1, and not drawn.
    assert_eq!(titles(&groups_of(&figures)), drawn[1..]);
    let quantiles = ["p50 of a call", "max of a call"].map(|measure| figure("{}", "B1", measure, "[2.0]"));
    assert_eq!(titles(&groups_of(&quantiles)), [("Percentiles: lower is better", 1)]);
    let plain = ["sharded", "B1"]
        .map(|peer| figure(r#"{"batch": "1"}"#, peer, "time", if peer == "B1" { "[2.0]" } else { "[1.0]" }));
    assert_eq!(titles(&groups_of(&plain)), [(drawn[0].0, 1), ("Values: lower is better", 1)]);
}

#[test]
fn long_charts_are_split_between_their_groups() {
    let mark = mark("a", "a", Estimate { median: 1.0, low: 1.0, high: 1.0 }, "");
    let axis = Axis { title: String::new(), scale: Scale::of_numbers(&[1.0]) };
    let rows = |groups: usize, length: usize| Rows {
        caption: "c".into(),
        axis: axis.clone(),
        reference: None,
        groups: (0..groups).map(|number| (number.to_string(), vec![mark.clone(); length])).collect(),
    };
    let split = |groups, length| {
        let charts = rows(groups, length).split();
        charts.iter().map(|chart| chart.caption().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(split(2, 9), ["c"]);
    assert_eq!(split(12, 9), ["c · 1 of 3", "c · 2 of 3", "c · 3 of 3"]);
    assert_eq!(split(1, 200), ["c"]);
    assert!(split(0, 0).is_empty());
}

#[test]
fn numbers_of_shards_have_a_chart_of_their_own() {
    let figures: Vec<String> = ["1000", "100000"]
        .iter()
        .flat_map(|known| {
            let case = format!(r#"{{"known": "{known}"}}"#);
            ["sharded", "sharded/1", "sharded/16", "B1"]
                .map(|peer| figure(&case, peer, "time", if peer == "B1" { "[2.0]" } else { "[1.0]" }))
        })
        .collect();
    let groups = groups_of(&figures);
    assert_eq!(
        titles(&groups),
        [
            ("Against each peer: above 1 is better", 1),
            ("Against the number of keys: lower is better", 1),
            ("Scaling with shards: lower is better", 2),
        ]
    );
    let Chart::Rows(rows) = &groups[0].charts[0] else { panic!("rows") };
    assert!(rows.groups.iter().all(|(_, marks)| marks.len() == 1), "{rows:?}");
    let Chart::Lines(shards) = &groups[2].charts[0] else { panic!("lines") };
    assert_eq!((shards.lines.len(), shards.lines[0].1.len()), (1, 2));
}
