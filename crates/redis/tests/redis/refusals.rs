//! A Redis that loads, has no master, or refuses one record: each says what it is, and costs no
//! more than it must.

use std::time::Duration;

use lockspan_client::{ConnectError, LockError, TroubleKind, UpgradeError};
use lockspan_redis::Options;
use tokio::time::{Instant, sleep};

use crate::server::{Redis, free_port};
use crate::trouble::{hasty, refused};
use crate::world::{cli, emptied, node, record, soon, until};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_redis_that_loads_its_data_is_busy_and_waited_for() {
    let redis = Redis::start(&[]).await;
    let fill = "for key = 1, 2000 do redis.call('SET', key, string.rep('x', 4096)) end";
    cli(&redis, &["EVAL", fill, "0"]);
    assert_eq!(cli(&redis, &["SAVE"]), "OK");
    let (port, folder) = (redis.port, redis.stop());
    // So many microseconds for each key: a minute in all, unless it is told to make haste.
    let slowly = ["--key-load-delay", "30000", "--rdbcompression", "no"];
    let events = ["--loading-process-events-interval-bytes", "1024"];
    let redis = Redis::start_in(folder, port, &[&slowly[..], &events].concat()).await;
    assert!(cli(&redis, &["PING"]).contains("LOADING"));
    let locks = node(&redis, hasty()).await;
    let why = refused(&locks).await;
    assert_eq!(why.kind, TroubleKind::Busy, "{why}");
    assert!(why.said.contains("loading its data") && why.said.contains("LOADING"), "{why}");
    let patient = node(&redis, Options::new().patience(Duration::from_secs(60))).await;
    let waits = tokio::spawn(record(&patient).write_owned());
    assert_eq!(cli(&redis, &["CONFIG", "SET", "key-load-delay", "0"]), "OK");
    drop(soon(waits).await.unwrap().unwrap());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn where_there_is_no_master_a_fail_over_is_named() {
    let nobody = free_port().to_string();
    let stale = ["--replicaof", "127.0.0.1", &nobody, "--replica-serve-stale-data", "no"];
    let replica = Redis::start(&stale).await;
    let locks = node(&replica, hasty()).await;
    let why = refused(&locks).await;
    assert_eq!(why.kind, TroubleKind::FailOver, "{why}");
    assert!(why.said.contains("a failover is in progress"), "{why}");
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
    let held = soon(record(&locks).read_owned()).await.unwrap();
    assert_eq!(cli(&redis, &["SET", "readlock:invoice:42", "ann"]), "OK");
    soon(held.lost()).await;
    let why = refused(&locks).await;
    assert_eq!(why.kind, TroubleKind::WrongType, "{why}");
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

/// How often Redis has said this word.
fn errors(redis: &Redis, word: &str) -> u64 {
    let (stats, name) = (cli(redis, &["INFO", "errorstats"]), format!("errorstat_{word}:count="));
    let count = stats.lines().find_map(|line| line.strip_prefix(&name));
    count.map_or(0, |count| count.trim().parse().unwrap())
}

/// How many connections there are in three seconds.
async fn connections(redis: &Redis) -> u64 {
    let connected = || -> u64 {
        let stats = cli(redis, &["INFO", "stats"]);
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
    connected() - before - looks - 1
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replica_is_not_called_in_a_hurry() {
    for plain in [false, true] {
        let redis = Redis::start(&[]).await;
        let options = Options::new().patience(Duration::from_secs(60)).plain(plain);
        let locks = node(&redis, options).await;
        let beside = soon(locks.record("x", "1").unwrap().write_owned()).await.unwrap();
        // It keeps what it has, and answers whoever only looks.
        let nobody = free_port().to_string();
        assert_eq!(cli(&redis, &["REPLICAOF", "127.0.0.1", &nobody]), "OK");
        let waiting = tokio::spawn(record(&locks).write_owned());
        let made = connections(&redis).await;
        assert!(made < 40, "{made} connections in three seconds, plain: {plain}");
        assert_eq!(cli(&redis, &["REPLICAOF", "NO", "ONE"]), "OK");
        drop(soon(waiting).await.unwrap().unwrap());
        drop(beside);
        emptied(&redis).await;
    }
}

/// Redis can't write to its disk for a while, and refuses to change anything.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_disk_that_is_full_for_a_while_costs_no_lock() {
    let redis = Redis::start(&["--save", "3600", "100"]).await;
    let locks = node(&redis, hasty().lease(Duration::from_secs(10))).await;
    let held = soon(locks.record("x", "1").unwrap().write_owned()).await.unwrap();
    let end = || {
        let all = cli(&redis, &["ZRANGE", "lockspan:ends:x:1", "0", "-1", "WITHSCORES"]);
        all.lines().last().map_or(0, |end| end.parse::<u64>().unwrap())
    };
    redis.lose_folder();
    cli(&redis, &["BGSAVE"]);
    until("it has failed", || {
        cli(&redis, &["INFO", "persistence"]).contains("rdb_last_bgsave_status:err")
    })
    .await;
    let why = refused(&locks).await;
    assert_eq!(why.kind, TroubleKind::CantSave, "{why}");
    assert!(why.said.contains("write to its disk") && why.said.contains("MISCONF"), "{why}");
    // A lease is ten seconds, and renewed after a third of it: by the clock of Redis half is over.
    let half = end() - 5_000_000;
    until("a renewal was refused", || {
        let time = cli(&redis, &["TIME"]);
        let (seconds, micros) = time.split_once('\n').unwrap();
        format!("{seconds}{micros:0>6}").parse::<u64>().unwrap() > half
    })
    .await;
    assert_eq!(cli(&redis, &["CONFIG", "SET", "stop-writes-on-bgsave-error", "no"]), "OK");
    let before = end();
    until("it is renewed again", || end() > before).await;
    assert!(held.is_valid());
    drop(held);
    emptied(&redis).await;
}

/// A right is taken from the user who holds something: whatever it can't do any more, what it has
/// ends.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_its_rights_what_a_user_has_still_ends() {
    let redis = Redis::start(&[]).await;
    let set = |rights: &[&str]| {
        assert_eq!(cli(&redis, &[&["ACL", "SETUSER", "ann"], rights].concat()), "OK");
    };
    let url = format!("redis://ann:secret@127.0.0.1:{}", redis.port);
    let short = || hasty().lease(Duration::from_secs(2));
    let other = node(&redis, short()).await;
    for (missing, is_downgraded) in [
        (&["-zadd", "-del", "-srem"][..], false),
        (&["-sadd", "-zrem"], true),
        (&["-del", "-sadd"], true),
        (&["-del"], true),
    ] {
        set(&["on", ">secret", "~*", "&*", "+@all"]);
        let locks = short().connect(&url).await.unwrap();
        let held = soon(record(&locks).write_owned()).await.unwrap();
        if is_downgraded {
            // Somebody wants to read beside it.
            let reader = tokio::spawn(record(&other).read_owned());
            until("it waits", || cli(&redis, &["SCARD", "lockspan:readers:invoice:42"]) == "1")
                .await;
            // Redis 7.0 has no word of its own for it.
            let refused = || errors(&redis, "NOPERM") + errors(&redis, "ERR");
            let before = refused();
            set(missing);
            let held = held.downgrade();
            until("the downgrade was refused", || refused() > before).await;
            drop(held);
            drop(soon(reader).await.unwrap().unwrap());
        } else {
            set(missing);
            soon(held.lost()).await;
        }
        drop(soon(record(&other).write_owned()).await.unwrap());
        drop(locks);
        emptied(&redis).await;
    }
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
            Err(_) | Ok(Err(UpgradeError { source: LockError::UpgradeConflict, .. })) => {}
            Ok(other) => panic!("{other:?}"),
        }
    }
    drop(beside);
    drop(soon(record(&one).write_owned()).await.unwrap());
    emptied(&redis).await;
}
