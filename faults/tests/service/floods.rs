//! F15, F19, F20: clocks that jump, nodes that all come back at once, and floods.

use std::path::{Path, PathBuf};
use std::time::Duration;

use lockspan::{ConnectError, LockError, Options};
use lockspan_faults::stage::{Stage, soon, until};
use lockspan_protocol::Limits;
use lockspan_server::Config;

use crate::{record, waits, write};

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|ending| ending == "rs") {
            found.push(path);
        }
    }
}

#[test]
fn service_f15_no_line_of_the_service_reads_the_wall_clock() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates");
    let mut files = Vec::new();
    for name in ["protocol", "wire", "server", "client"] {
        sources(&crates.join(name).join("src"), &mut files);
    }
    assert!(files.len() > 50, "they are somewhere else");
    for path in files {
        let text = std::fs::read_to_string(&path).unwrap();
        for clock in ["SystemTime", "UNIX_EPOCH", "ClockId::Realtime", "CLOCK_REALTIME"] {
            assert!(!text.contains(clock), "{} reads the wall clock: {clock}", path.display());
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn service_f19_some_hundred_nodes_that_come_back_at_once_keep_what_they_had() {
    const NODES: usize = 200;
    let mut stage = Stage::new().await;
    let mut nodes = Vec::new();
    for number in 0..NODES {
        let locks = stage.node(Options::new().lease(Duration::from_secs(40))).await;
        let held = write(&locks, &format!("a:{number}")).await;
        let waiting = waits(&locks, "shared:1");
        nodes.push((locks, held, waiting));
    }
    until("all wait for one", || stage.stats().queued >= NODES as u64 - 1).await;
    stage.kill();
    stage.restart().await;
    let back = || stage.stats().connections == NODES as u64 && !stage.stats().recovering;
    until("all are back", back).await;
    assert_eq!(stage.stats().claims, 2 * NODES as u64);
    let mut tokens = Vec::new();
    for (locks, held, waiting) in nodes {
        assert!(held.is_valid() && locks.stats().lost == 0);
        tokens.push(tokio::spawn(async move { waiting.await.unwrap().token() }));
    }
    let mut seen = std::collections::BTreeSet::new();
    for token in tokens {
        seen.insert(soon("its turn", token).await.unwrap());
    }
    assert_eq!(seen.len(), NODES, "each had a token of its own");
}

#[tokio::test(flavor = "multi_thread")]
async fn service_f20_floods_end_at_a_limit_that_is_told_and_others_go_on() {
    let protocol = Limits {
        sessions: 3,
        claims_per_session: 50,
        waiters_per_record: 1,
        ..Config::default().protocol
    };
    let config = Config { protocol, shards: 1, connections: 6, ..Config::default() };
    let stage = Stage::with_config(config).await;
    let greedy = stage.node(Options::new()).await;
    let modest = stage.node(Options::new()).await;
    let third = stage.node(Options::new()).await;
    let kept = write(&modest, "m:1").await;
    drop(write(&third, "m:2").await);

    let mut held = Vec::new();
    let refused = loop {
        let name = format!("g:{}", held.len());
        match soon(&name, record(&greedy, &name).write_owned()).await {
            Ok(guard) => held.push(guard),
            Err(why) => break why,
        }
        assert!(held.len() <= 50, "there is no limit");
    };
    assert_eq!(held.len(), 50);
    assert!(matches!(refused, LockError::Refused(_)), "{refused:?}");
    assert!(refused.to_string().contains("50"), "{refused}");

    let waiting = waits(&third, "m:1");
    until("one waits", || stage.stats().queued == 1).await;
    drop(held.pop());
    greedy.give_back_idle();
    let refused = soon("refused", record(&greedy, "m:1").write_owned()).await.unwrap_err();
    assert!(matches!(refused, LockError::Refused(_)), "{refused:?}");

    let fourth = stage.node(Options::new()).await;
    let refused = soon("refused", record(&fourth, "f:1").write_owned()).await.unwrap_err();
    assert!(matches!(refused, LockError::NoSession(_)), "{refused:?}");
    assert!(refused.to_string().contains('3'), "{refused}");

    let _fifth = stage.node(Options::new()).await;
    let _sixth = stage.node(Options::new()).await;
    match soon("refused", Options::new().connect(&stage.url())).await {
        Err(ConnectError::Refused { said, .. }) => assert!(said.contains("LIMIT"), "{said}"),
        other => panic!("{other:?}"),
    }

    assert!(kept.is_valid() && held.iter().all(|guard| guard.is_valid()));
    drop(kept);
    assert!(soon("its turn", waiting).await.unwrap().is_valid(), "others go on");
    drop(write(&modest, "m:3").await);
}
