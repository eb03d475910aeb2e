//! Recorded runs of client-go's DeltaFIFO and work queue: every queue must give the same answers.
//!
//! The format stands in `data/oracle/README.md`. `DELTA_FIFO_ORACLE_DIR` names one more folder to replay.

mod common;
#[path = "oracle/record.rs"]
mod record;
#[path = "oracle/replay.rs"]
mod replay;

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use common::{Family, for_each_queue};
use record::{Known, Recording, Run, load_folder};
use replay::{replay, replay_face};

/// The folder of this repository.
fn own_folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/oracle")
}

/// What is to be replayed: the recordings of this repository, all of them, and those of one more folder.
fn recordings() -> Vec<Recording> {
    let mut all = load_folder(&own_folder()).unwrap_or_else(|wrong| panic!("{wrong}"));
    if let Some(folder) = env::var_os("DELTA_FIFO_ORACLE_DIR") {
        let more = load_folder(Path::new(&folder));
        all.extend(more.unwrap_or_else(|wrong| panic!("DELTA_FIFO_ORACLE_DIR: {wrong}")));
    }
    all
}

fn replay_all<F: Family>(name: &str) {
    let recordings: Vec<Recording> = recordings().into_iter().filter(|file| file.name == name).collect();
    assert!(!recordings.is_empty(), "no recording is called {name}.jsonl");
    for recording in &recordings {
        assert!(!recording.runs.is_empty(), "{} has no runs", recording.path.display());
        let failures: Vec<String> =
            recording.runs.iter().filter_map(|run| replay::<F>(recording, run).err()).collect();
        let shown: Vec<&str> = failures.iter().take(10).map(String::as_str).collect();
        let (failed, runs) = (failures.len(), recording.runs.len());
        assert!(failures.is_empty(), "{failed} of {runs} runs differ:\n{}", shown.join("\n"));
    }
}

macro_rules! replay_each {
    ($($test:ident $name:literal),* $(,)?) => {
        for_each_queue!($($test),*, tampered_runs_are_noticed);
        $(fn $test<F: Family>() {
            replay_all::<F>($name);
        })*

        #[test]
        fn every_recording_is_replayed() {
            let mut replayed = [$($name),*];
            replayed.sort_unstable();
            assert_eq!(replayed, record::NAMES);
            let mut own: Vec<String> =
                load_folder(&own_folder()).unwrap().into_iter().map(|file| file.name).collect();
            own.sort_unstable();
            assert_eq!(own, record::NAMES);
        }
    };
}

replay_each!(
    external_replaced "external-replaced",
    external_requeue "external-requeue",
    external_sync "external-sync",
    inside_replaced "inside-replaced",
    inside_requeue "inside-requeue",
    inside_sync "inside-sync",
    none_replaced "none-replaced",
    workqueue "workqueue",
);

/// The replay compares everything that was recorded: one changed answer fails, and the message says where.
fn tampered_runs_are_noticed<F: Family>() {
    type Tamper = fn(&mut Run) -> Option<usize>;
    let tampers: [(&str, &str, Tamper); 9] = [
        ("inside-replaced", "len", |run| {
            run.steps.last_mut()?.len += 1;
            Some(run.steps.len())
        }),
        ("inside-replaced", "synced", |run| {
            let synced = run.steps.last_mut()?.synced.as_mut()?;
            *synced = !*synced;
            Some(run.steps.len())
        }),
        ("external-sync", "final_known", |run| {
            let Known::Objects(known) = &mut run.final_known else { return None };
            *known.values_mut().next()? += 1;
            Some(run.steps.len())
        }),
        ("none-replaced", "d", |run| {
            run.steps.iter_mut().rfind(|step| step.op == "pop")?.expect[0].d.push("U999".into());
            run.steps.iter().rposition(|step| step.op == "pop").map(|index| index + 1)
        }),
        ("external-replaced", "prev", |run| {
            let pop = run.steps.iter_mut().rfind(|step| step.op == "pop")?;
            pop.expect[0].prev = Some(999);
            run.steps.iter().rposition(|step| step.op == "pop").map(|index| index + 1)
        }),
        ("external-replaced", "initial", |run| {
            let pop = run.steps.iter_mut().rfind(|step| step.op == "pop")?;
            let initial = pop.expect[0].initial.as_mut()?;
            *initial = !*initial;
            run.steps.iter().rposition(|step| step.op == "pop").map(|index| index + 1)
        }),
        ("inside-requeue", "requeue", |run| {
            let index = run.steps.iter().position(|step| step.requeue)?;
            run.steps[index].requeue = false;
            Some(index + 1)
        }),
        ("workqueue", "k", |run| {
            let index = run.steps.iter().rposition(|step| step.op == "pop")?;
            run.steps[index].k = Some("z".into());
            Some(index + 1)
        }),
        ("workqueue", "len", |run| {
            run.steps.last_mut()?.len += 1;
            Some(run.steps.len())
        }),
    ];
    let recordings = load_folder(&own_folder()).unwrap();
    for (name, field, tamper) in tampers {
        let recording = recordings.iter().find(|file| file.name == name).unwrap();
        let (run, step) = recording
            .runs
            .iter()
            .find_map(|run| {
                let mut run = run.clone();
                let step = tamper(&mut run)?;
                Some((run, step))
            })
            .unwrap();
        let wrong = replay::<F>(recording, &run).expect_err(&format!("{name}: a wrong {field} passed"));
        let place = format!("{name}.jsonl, seed {}, step {step}", run.seed);
        assert!(wrong.contains(&place), "{field}: {wrong} does not say {place}");
        assert!(wrong.contains("expected"), "{wrong}");
    }
}

/// A fresh folder with these files.
fn folder(name: &str, files: &[(&str, &str)]) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("oracle-{name}"));
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    for (file, text) in files {
        fs::write(folder.join(file), text).unwrap();
    }
    folder
}

const GOOD: &str = r#"{"config":"workqueue","seed":7,"steps":[{"op":"update","k":"a","len":1},{"op":"pop","k":"a","len":0},{"op":"done","k":"a","len":0}]}"#;

#[test]
fn a_folder_with_some_of_the_names_loads() {
    let folder =
        folder("good", &[("workqueue.jsonl", &format!("{GOOD}\n")), ("notes.txt", "not a recording")]);
    let recordings = load_folder(&folder).unwrap();
    assert_eq!(recordings.len(), 1);
    assert_eq!((recordings[0].name.as_str(), recordings[0].runs[0].seed), ("workqueue", 7));
}

#[test]
fn bad_folders_are_refused_with_a_reason() {
    let missing = Path::new(env!("CARGO_TARGET_TMPDIR")).join("oracle-missing");
    let cut = &GOOD[..GOOD.len() - 5];
    let cases = [
        (missing, "oracle-missing"),
        (folder("empty", &[]), "no .jsonl"),
        (folder("unknown", &[("workqueues.jsonl", GOOD)]), "workqueues.jsonl: no recording has this name"),
        (folder("cut", &[("workqueue.jsonl", &format!("{GOOD}\n{cut}\n"))]), "workqueue.jsonl:2: "),
        (folder("hollow", &[("workqueue.jsonl", "\n")]), "workqueue.jsonl: no runs"),
        (folder("other", &[("inside-sync.jsonl", GOOD)]), "inside-sync.jsonl:1: a run of \"workqueue\""),
        (
            folder("field", &[("workqueue.jsonl", &GOOD.replacen("\"len\"", "\"length\"", 1))]),
            "workqueue.jsonl:1: ",
        ),
    ];
    for (folder, reason) in cases {
        let wrong = load_folder(&folder).map(|_| ()).expect_err(reason);
        assert!(wrong.contains(reason), "{wrong} does not say {reason}");
    }
}

/// A step that makes no sense is an error of the recording, not a difference of the queue.
#[test]
fn unknown_steps_are_refused() {
    let folder = folder("step", &[("workqueue.jsonl", &GOOD.replace("update", "upsert"))]);
    let recordings = load_folder(&folder).unwrap();
    let wrong = replay::<common::MutexQueues>(&recordings[0], &recordings[0].runs[0]).unwrap_err();
    assert!(wrong.contains("seed 7, step 1") && wrong.contains("upsert"), "{wrong}");
}

/// The same runs by the queue that is made for them.
#[test]
fn work_queue_face() {
    let recordings = recordings();
    let mut all = recordings.iter().filter(|file| file.name == "workqueue").peekable();
    assert!(all.peek().is_some(), "no recording is called workqueue.jsonl");
    for recording in all {
        for run in &recording.runs {
            if let Err(wrong) = replay_face(recording, run) {
                panic!("{wrong}");
            }
        }
    }
}
