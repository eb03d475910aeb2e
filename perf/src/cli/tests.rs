//! What the command line makes of its arguments.

use super::*;

fn options(arguments: &str) -> Result<Options, String> {
    match parse(lexopt::Parser::from_args(arguments.split_whitespace())) {
        Ok(Command::Compare(options)) => Ok(options),
        Ok(Command::Help) => Err("help".into()),
        Ok(_) => Err("another command".into()),
        Err(error) => Err(error.to_string()),
    }
}

#[test]
fn defaults() {
    let options = options("compare").unwrap();
    assert_eq!((options.blocks, options.changes), (30, 300_000));
    assert_eq!(options.allocators, Allocator::ALL);
    assert_eq!(options.references.len(), options.peers.len());
}

#[test]
fn quick_leaves_the_last_word_to_the_others() {
    let options =
        options("compare --blocks 7 --quick --peers b1,B3 --reference B1 --threads 1x1,4x4").unwrap();
    assert_eq!(options.blocks, 7);
    assert_eq!(options.changes, 30_000);
    assert_eq!(options.peers.iter().map(|peer| peer.id).collect::<Vec<_>>(), ["B1", "B3"]);
    assert_eq!(options.references, ["B1"]);
    assert_eq!(options.threads, [(1, 1), (4, 4)]);
}

#[test]
fn full_has_all_cases_of_the_bars() {
    let full = options("compare --full --batch 8 --shards 1,64").unwrap();
    assert_eq!((full.known.last(), full.threads.last()), (Some(&1_000_000), Some(&(8, 8))));
    assert_eq!((full.threads.len(), full.batches, full.blocks, full.shards), (6, vec![8], 30, vec![1, 64]));
    for shards in ["0", "3", "512", "4,4"] {
        assert!(options(&format!("compare --shards {shards}")).is_err(), "{shards}");
    }
}

#[test]
fn rows_of_reference_are_chosen_like_peers() {
    let chosen = options("compare --peers f1,B1").unwrap();
    let ids = (chosen.floors.iter().map(|floor| floor.id).collect(), chosen.references);
    assert_eq!(ids, (vec!["F1"], vec!["B1".into()]));
    assert_eq!(options("compare").unwrap().floors.len(), 2);
    assert!(options("compare --peers F0,f0").is_err());
}

#[test]
fn tails_have_options_of_their_own() {
    let tails = |arguments: &str| match parse(lexopt::Parser::from_args(arguments.split_whitespace())) {
        Ok(Command::Tails(options)) => Some(options),
        _ => None,
    };
    let options = tails("latency --quick --rate 20_000 --handler-us 250 --peers sharded,b0p").unwrap();
    assert_eq!((options.blocks, options.keys, options.seconds), (2, 64, 0.1));
    assert_eq!((options.rates, options.handler), (Some(vec![20_000.0]), Duration::from_micros(250)));
    assert_eq!(options.peers.iter().map(|peer| peer.id).collect::<Vec<_>>(), ["sharded", "B0p"]);
    let options = tails("growth").unwrap();
    assert_eq!((options.blocks, options.keys, options.peers.len()), (10, 1_000_000, peers::ALL.len()));
    for nonsense in ["growth --rate 5", "latency --rate 0", "latency --seconds nan", "growth --known 5"] {
        assert!(tails(nonsense).is_none(), "{nonsense}");
    }
}

#[test]
fn memory_has_no_allocator_to_choose() {
    let parsed = |arguments: &str| parse(lexopt::Parser::from_args(arguments.split_whitespace()));
    let Ok(Command::Memory(options)) = parsed("memory --quick --keys 3_000") else { panic!("it is there") };
    assert_eq!((options.quick, options.keys, options.peers.len()), (true, 3_000, peers::ALL.len()));
    for nonsense in ["memory --allocator system", "memory --keys 1"] {
        assert!(parsed(nonsense).is_err(), "{nonsense}");
    }
}

#[test]
fn json_with_and_without_a_file() {
    assert!(options("compare").unwrap().json.is_none());
    assert!(matches!(options("compare --json --quick").unwrap().json, Some(Json::Instead)));
    assert!(matches!(options("compare --json").unwrap().json, Some(Json::Instead)));
    for with_file in ["compare --json x.json --quick", "compare --quick --json=x.json"] {
        assert!(
            matches!(options(with_file).unwrap().json, Some(Json::File(path)) if path.ends_with("x.json"))
        );
    }
}

#[test]
fn nonsense_is_refused() {
    for nonsense in [
        "compete",
        "compare --blocks 0",
        "compare --threads 2",
        "compare --allocator jemalloc",
        "compare --peers B9",
    ] {
        assert!(options(nonsense).is_err(), "{nonsense}");
    }
    assert!(options("compare --peers B1 --reference B3").is_err());
    assert!(options("compare --known 100 --threads 4x4").is_err());
}

#[test]
fn every_producer_has_something_to_do() {
    assert!(options("compare --quick --changes 4").is_ok());
    for (arguments, producers) in [("--changes 1", 2), ("--changes 3 --threads 1x1,4x1", 4)] {
        let error = options(&format!("compare {arguments}")).err().expect("too few changes");
        assert!(error.contains(&format!("too few for {producers} producers")), "{error}");
    }
}

#[test]
fn nothing_is_measured_twice() {
    for list in [
        "--peers B1,B3,b1",
        "--reference B1,B1",
        "--known 1000,1_000",
        "--threads 1x1,2x2,1x1",
        "--batch 1,32,32",
    ] {
        let error = options(&format!("compare {list}")).err().expect(list);
        assert!(error.contains("is there twice"), "{error}");
    }
}

#[test]
fn snapshots_have_stores_for_peers() {
    let parsed = |arguments: &str| parse(lexopt::Parser::from_args(arguments.split_whitespace()));
    let Ok(Command::Snapshots(options)) = parsed("snapshots --quick --stores imbl,B1 --keys 5_000") else {
        panic!("it is there")
    };
    assert_eq!((options.blocks, options.keys, options.known), (2, vec![5_000], 5_000));
    assert_eq!(options.stores.iter().map(|store| store.id).collect::<Vec<_>>(), ["imbl", "B1"]);
    for nonsense in
        ["snapshots --stores B3", "snapshots --keys 1,1", "snapshots --known 0", "snapshots --peers B1"]
    {
        assert!(parsed(nonsense).is_err(), "{nonsense}");
    }
}

#[test]
fn trials_are_chosen_by_name() {
    let parsed = |arguments: &str| match parse(lexopt::Parser::from_args(arguments.split_whitespace())) {
        Ok(Command::Trial(options)) => Ok(options),
        Ok(_) => Err("another command".into()),
        Err(error) => Err(error.to_string()),
    };
    let options = parsed("trial w4,W2 --quick --blocks 3 --peers b1 --json out.json").unwrap();
    assert_eq!(options.trials.iter().map(|trial| trial.id).collect::<Vec<_>>(), ["W4", "W2"]);
    assert_eq!((options.size, options.blocks), (crate::trials::Size::Quick, Some(3)));
    let all = parsed("trial all --full").unwrap();
    assert_eq!((all.size, all.blocks), (crate::trials::Size::Full, None));
    assert_eq!(all.trials.len(), crate::trials::ALL.len());
    let replay = parsed("replay --quick --allocator system").unwrap();
    assert_eq!(replay.trials.iter().map(|trial| trial.id).collect::<Vec<_>>(), ["W11"]);
    assert_eq!(parsed("trial").err().as_deref().map(|text| &text[..12]), Some("which trial?"));
    for nonsense in [
        "trial W0",
        "trial W2,w2",
        "trial W2 W3",
        "trial all --quick --full",
        "trial W2 --known 5",
        "replay W2",
    ] {
        assert!(parsed(nonsense).is_err(), "{nonsense}");
    }
}

#[test]
fn a_soak_lasts_as_long_as_it_is_told() {
    let parsed = |arguments: &str| parse(lexopt::Parser::from_args(arguments.split_whitespace()));
    let Ok(Command::Soak(options)) = parsed("soak --seconds 7_200 --every 0.5 --seed 9") else {
        panic!("it is there")
    };
    assert_eq!((options.time, options.seed), (Duration::from_secs(7_200), 9));
    assert_eq!(options.every, Duration::from_millis(500));
    for nonsense in ["soak --seconds 0", "soak --seconds 1e30", "soak --every -1", "soak --keys 5"] {
        assert!(parsed(nonsense).is_err(), "{nonsense}");
    }
}
