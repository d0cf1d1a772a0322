//! A Redis that loads, has no master, or refuses one record: each says what it is, and costs no
//! more than it must.

use std::time::Duration;

use lockspan_client::{ConnectError, LockError, TroubleKind};
use lockspan_redis::Options;
use tokio::time::{Instant, sleep};

use crate::server::{Redis, free_port};
use crate::trouble::{hasty, refused};
use crate::world::{cli, emptied, node, record, soon, until};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_redis_that_loads_its_data_is_busy_and_waited_for() {
    let redis = Redis::start(&[]).await;
    let fill = "for key = 1, 300 do redis.call('SET', key, string.rep('x', 4096)) end";
    cli(&redis, &["EVAL", fill, "0"]);
    assert_eq!(cli(&redis, &["SAVE"]), "OK");
    let (port, folder) = (redis.port, redis.stop());
    // So many microseconds for each key.
    let slowly = ["--key-load-delay", "30000", "--rdbcompression", "no"];
    let events = ["--loading-process-events-interval-bytes", "1024"];
    let redis = Redis::start_in(folder, port, &[&slowly[..], &events].concat()).await;
    assert!(cli(&redis, &["PING"]).contains("LOADING"));
    let locks = node(&redis, hasty()).await;
    let why = refused(&locks).await;
    assert_eq!(why.kind, TroubleKind::Busy, "{why}");
    assert!(why.said.contains("loading its data") && why.said.contains("LOADING"), "{why}");
    let patient = node(&redis, Options::new().patience(Duration::from_secs(60))).await;
    drop(soon(record(&patient).write_owned()).await.unwrap());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn where_there_is_no_master_a_fail_over_is_named() {
    let nobody = free_port().to_string();
    let stale = ["--replicaof", "127.0.0.1", &nobody, "--replica-serve-stale-data", "no"];
    let replica = Redis::start(&stale).await;
    let locks = node(&replica, hasty()).await;
    let why = refused(&locks).await;
    assert_eq!(why.kind, TroubleKind::FailOver, "{why}");
    assert!(why.said.contains("a fail-over is under way"), "{why}");
    assert!(why.said.contains("MASTERDOWN"), "{why}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sentinel_that_knows_no_such_master_says_so() {
    let watched = crate::sentinel::Watched::start().await;
    let url = watched.url().replace("master=locks", "master=other");
    match Options::new().connect(&url).await {
        Err(ConnectError::Refused { said, .. }) => assert!(said.contains("no master"), "{said}"),
        other => panic!("{other:?}"),
    }
}

/// Somebody has mistaken the type of one key.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_of_a_wrong_type_costs_its_own_record_only() {
    let redis = Redis::start(&[]).await;
    let locks = node(&redis, hasty().lease(Duration::from_secs(2))).await;
    let beside = soon(locks.record("x", "1").unwrap().write_owned()).await.unwrap();
    let held = soon(record(&locks).write_owned()).await.unwrap();
    assert_eq!(cli(&redis, &["SET", "readlock:invoice:42", "ann"]), "OK");
    soon(held.lost()).await;
    let why = refused(&locks).await;
    assert!(why.said.contains("WRONGTYPE"), "{why}");
    let end = || {
        let all = cli(&redis, &["ZRANGE", "lockspan:ends:x:1", "0", "-1", "WITHSCORES"]);
        all.lines().last().map_or(0, |end| end.parse::<u64>().unwrap())
    };
    let first = end();
    until("two leases have passed", || end() > first + 4_000_000).await;
    assert!(beside.is_valid(), "all else goes on");
    drop((beside, held));
    // When that is repaired, nothing stands in the way: whatever had begun has an end.
    assert_eq!(cli(&redis, &["DEL", "readlock:invoice:42"]), "1");
    drop(soon(record(&locks).write_owned()).await.unwrap());
    emptied(&redis).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replica_is_not_called_in_a_hurry() {
    let (first, second) = (Redis::start(&[]).await, Redis::start(&[]).await);
    let locks = node(&first, Options::new().patience(Duration::from_secs(60))).await;
    drop(soon(record(&locks).write_owned()).await.unwrap());
    let port = second.port.to_string();
    assert_eq!(cli(&first, &["REPLICAOF", "127.0.0.1", &port]), "OK");
    let waiting = tokio::spawn(record(&locks).write_owned());
    let connected = || -> u64 {
        let stats = cli(&first, &["INFO", "stats"]);
        let line = stats.lines().find_map(|l| l.strip_prefix("total_connections_received:"));
        line.unwrap().trim().parse().unwrap()
    };
    // These looks are connections too.
    let (before, mut looks) = (connected(), 0);
    let until = Instant::now() + Duration::from_secs(3);
    while Instant::now() < until {
        looks += 1;
        connected();
        sleep(Duration::from_millis(300)).await;
    }
    let made = connected() - before - looks - 1;
    assert!(made < 40, "{made} connections in three seconds");
    assert_eq!(cli(&first, &["REPLICAOF", "NO", "ONE"]), "OK");
    drop(soon(waiting).await.unwrap().unwrap());
}

/// Another upgrade begins while Redis has not heard that the first was given up.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_upgrade_after_one_that_was_given_up_loses_nothing() {
    let redis = Redis::start(&[]).await;
    let (one, other) = (node(&redis, Options::new()).await, node(&redis, Options::new()).await);
    let beside = soon(record(&other).read_owned()).await.unwrap();
    for _ in 0..20 {
        let (first, second) = (record(&one), record(&one));
        let first = soon(first.read_owned()).await.unwrap();
        let second = soon(second.read_owned()).await.unwrap();
        let brief = tokio::time::timeout(Duration::from_millis(20), first.upgrade());
        assert!(brief.await.is_err(), "another reads");
        // Beside the other reader it has to wait; it is not told that its read is lost.
        match tokio::time::timeout(Duration::from_millis(20), second.upgrade()).await {
            Err(_) | Ok(Err((_, LockError::UpgradeConflict))) => {}
            Ok(other) => panic!("{other:?}"),
        }
    }
    drop(beside);
    drop(soon(record(&one).write_owned()).await.unwrap());
    emptied(&redis).await;
}
