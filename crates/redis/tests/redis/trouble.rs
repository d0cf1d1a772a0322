//! What Redis refuses, each with its own words; and nothing is believed held that is not.

use std::io::Read as _;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use lockspan_client::{ConnectError, LockError, Locks, Trouble, TroubleKind};
use lockspan_redis::Options;

use crate::proxy::Proxy;
use crate::server::Redis;
use crate::world::{SOON, cli, emptied, keys, node, record, soon, until};

pub(crate) fn hasty() -> Options {
    Options::new().patience(Duration::from_millis(100))
}

/// Why the record is not granted.
pub(crate) async fn refused(locks: &Locks) -> Trouble {
    match soon(record(locks).write_owned()).await {
        Err(LockError::Trouble(why)) => *why,
        other => panic!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_timeout_says_when_there_is_no_connection() {
    let redis = Redis::start(&[]).await;
    let locks = node(&redis, Options::new().patience(SOON * 10)).await;
    let (wanted, wait) = (record(&locks), Duration::from_millis(40));
    let try_it = async || match wanted.write_timeout(wait).await {
        Err(LockError::Timeout(why)) => *why,
        other => panic!("{other:?}"),
    };
    let other = node(&redis, Options::new().lease(Duration::from_secs(1))).await;
    let held = soon(record(&other).write_owned()).await.unwrap();
    assert!(try_it().await.connected);
    let (port, folder) = (redis.port, redis.stop());
    let text = soon(async {
        loop {
            let why = try_it().await;
            if !why.connected {
                return why.to_string();
            }
        }
    })
    .await;
    assert!(text.ends_with("there is no connection to the server"), "{text}");
    // When Redis is back, it says so no more. What was held there is lost.
    soon(held.lost()).await;
    let redis = Redis::start_in(folder, port, &[]).await;
    let third = node(&redis, Options::new()).await;
    let held = soon(record(&third).write_owned()).await.unwrap();
    soon(async { while !try_it().await.connected {} }).await;
    drop(held);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replica_is_called_one() {
    let master = Redis::start(&[]).await;
    let port = master.port.to_string();
    let replica = Redis::start(&["--replicaof", "127.0.0.1", &port]).await;
    until("it is a replica in order", || {
        cli(&replica, &["INFO", "replication"]).contains("master_link_status:up")
    })
    .await;
    let locks = node(&replica, hasty()).await;
    let why = refused(&locks).await;
    assert_eq!(why.kind, TroubleKind::ReadOnly);
    assert!(why.said.contains("read-only replica") && why.said.contains("READONLY"), "{why}");
    assert!(keys(&master).is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_becomes_a_replica_loses_its_locks_and_says_why() {
    let (first, second) = (Redis::start(&[]).await, Redis::start(&[]).await);
    let locks = node(&first, hasty().lease(Duration::from_secs(1))).await;
    let held = soon(locks.record("x", "1").unwrap().write_owned()).await.unwrap();
    let port = second.port.to_string();
    assert_eq!(cli(&first, &["REPLICAOF", "127.0.0.1", &port]), "OK");
    assert_eq!(refused(&locks).await.kind, TroubleKind::ReadOnly);
    soon(held.lost()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_memory_nothing_new_is_granted_and_what_is_held_is_kept() {
    let redis = Redis::start(&[]).await;
    let locks = node(&redis, hasty().lease(Duration::from_secs(1))).await;
    let held = soon(locks.record("x", "1").unwrap().write_owned()).await.unwrap();
    assert_eq!(cli(&redis, &["CONFIG", "SET", "maxmemory", "1"]), "OK");
    let why = refused(&locks).await;
    assert_eq!(why.kind, TroubleKind::OutOfMemory);
    assert!(why.said.contains("no memory") && why.said.contains("OOM"), "{why}");
    let end = || {
        let all = cli(&redis, &["ZRANGE", "lockspan:ends:x:1", "0", "-1", "WITHSCORES"]);
        all.lines().last().unwrap().parse::<u64>().unwrap()
    };
    let first = end();
    until("two leases have passed", || end() > first + 2_000_000).await;
    assert!(held.is_valid());
    drop(held);
    emptied(&redis).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_missing_permission_is_named() {
    let redis = Redis::start(&[]).await;
    for (user, rights) in [
        ("ann", &["~*", "&*", "+@all", "-evalsha", "-eval"][..]),
        ("bob", &["~other:*", "&*", "+@all"]),
    ] {
        let set = [&["ACL", "SETUSER", user, "on", ">secret"][..], rights].concat();
        assert_eq!(cli(&redis, &set), "OK");
        let url = format!("redis://{user}:secret@127.0.0.1:{}", redis.port);
        let locks = hasty().connect(&url).await.unwrap();
        let why = refused(&locks).await;
        assert_eq!(why.kind, TroubleKind::NoPermission, "{why}");
        assert!(why.said.contains("lacks rights that locks need"), "{why}");
    }
    // Who may not listen can't be woken: that is told at once.
    let set = ["ACL", "SETUSER", "eve", "on", ">secret", "~*", "resetchannels", "+@all"];
    assert_eq!(cli(&redis, &set), "OK");
    let url = format!("redis://eve:secret@127.0.0.1:{}", redis.port);
    match hasty().connect(&url).await {
        Err(ConnectError::Refused { said, .. }) => {
            assert!(said.contains("NOPERM") && said.contains("&lockspan:*"), "{said}");
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_least_rights_that_are_documented_are_enough() {
    let redis = Redis::start(&[]).await;
    let page = include_str!("../../../../docs/redis.md");
    let line = page.lines().find(|line| line.starts_with("ACL SETUSER locks")).unwrap();
    let words: Vec<&str> = line.split_whitespace().collect();
    assert_eq!(cli(&redis, &words), "OK");
    let url = format!("redis://locks:secret@127.0.0.1:{}", redis.port);
    let (one, other) = (hasty().connect(&url).await.unwrap(), hasty().connect(&url).await.unwrap());
    let held = soon(record(&one).read_owned()).await.unwrap();
    let held = soon(held.upgrade()).await.unwrap();
    let waiting = tokio::spawn(record(&other).write_owned());
    drop(held.downgrade());
    drop(soon(waiting).await.unwrap().unwrap());
    emptied(&redis).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn users_and_passwords_are_checked() {
    let redis = Redis::start(&["--requirepass", "secret"]).await;
    let wrong = format!("redis://:wrong@127.0.0.1:{}", redis.port);
    for (url, is_given) in [(redis.url(), false), (wrong, true)] {
        match hasty().connect(&url).await {
            Err(ConnectError::Login { given, said, .. }) => {
                assert_eq!(given, is_given, "{said}");
                assert!(!said.contains("wrong@"), "{said}");
            }
            other => panic!("{other:?}"),
        }
    }
    hasty().user("default").password("secret").connect(&redis.url()).await.unwrap();
    let url = format!("redis://:secret@127.0.0.1:{}", redis.port);
    let locks = hasty().connect(&url).await.unwrap();
    drop(soon(record(&locks).write_owned()).await.unwrap());
}

/// Somebody's script that does not end by itself.
struct Endless(Child);

impl Endless {
    fn run(redis: &Redis) -> Self {
        let mut command = Command::new("redis-cli");
        command.args(["-p", &redis.port.to_string(), "EVAL", "while true do end", "0"]);
        Self(command.stdout(Stdio::piped()).spawn().unwrap())
    }

    /// What Redis told whoever sent it, when it was over.
    fn said(mut self) -> String {
        let mut said = String::new();
        self.0.stdout.take().unwrap().read_to_string(&mut said).unwrap();
        said
    }
}

impl Drop for Endless {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_redis_that_is_busy_says_so_and_is_waited_for() {
    let redis = Redis::start(&["--lua-time-limit", "10"]).await;
    let locks = node(&redis, hasty()).await;
    let endless = Endless::run(&redis);
    until("it is busy", || cli(&redis, &["PING"]).contains("BUSY")).await;
    let why = refused(&locks).await;
    assert_eq!(why.kind, TroubleKind::Busy);
    assert!(why.said.contains("busy with a script"), "{why}");
    let patient = record(&locks);
    let waiting = tokio::spawn(async move {
        loop {
            if let Ok(held) = patient.clone().write_owned().await {
                return held;
            }
        }
    });
    assert_eq!(cli(&redis, &["SCRIPT", "KILL"]), "OK");
    // By these words we know what has happened, if it happens to ours.
    let said = endless.said();
    assert!(said.contains("Script killed by user"), "{said}");
    drop(soon(waiting).await.unwrap());
    emptied(&redis).await;
}

/// A script of ours would have to be slow; so another runs under its name.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_script_of_ours_that_is_killed_is_told_and_nothing_is_held() {
    let redis = Redis::start(&["--lua-time-limit", "10"]).await;
    let proxy = Proxy::to(redis.port).await;
    let locks = Options::new().connect(&proxy.url()).await.unwrap();
    let ours = concat!(
        include_str!("../../src/lua/head.lua"),
        include_str!("../../src/lua/acquire_write_usual.lua"),
        include_str!("../../src/lua/common.lua"),
        include_str!("../../src/lua/acquire_write.lua")
    );
    let name = |script: &str| cli(&redis, &["SCRIPT", "LOAD", script]);
    proxy.say_instead(&name(ours), &name("while true do end"));
    let asked = locks.clone();
    let waiting = tokio::spawn(async move { refused(&asked).await });
    until("it is busy with us", || cli(&redis, &["PING"]).contains("BUSY")).await;
    assert_eq!(cli(&redis, &["SCRIPT", "KILL"]), "OK");
    let why = soon(waiting).await.unwrap();
    assert_eq!(why.kind, TroubleKind::Killed, "{why}");
    assert!(why.said.contains("the script was killed"), "{why}");
    emptied(&redis).await;
    proxy.say_as_it_is();
    drop(soon(record(&locks).write_owned()).await.unwrap());
    emptied(&redis).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_no_redis_and_what_is_not_there_is_told() {
    let port = crate::server::free_port();
    match hasty().connect(&format!("redis://127.0.0.1:{port}")).await {
        Err(why @ ConnectError::Unreachable { .. }) => {
            assert_eq!(why.to_string().matches("is it running?").count(), 1, "{why}");
        }
        other => panic!("{other:?}"),
    }
    for (options, what) in [
        (Options::new().recheck(Duration::from_millis(10)), "at least 1 s"),
        (Options::new().poll(Duration::ZERO), "at least 1 ms"),
    ] {
        let said = options.connect("redis://127.0.0.1").await.unwrap_err().to_string();
        assert!(said.contains(what), "{said}");
    }
}
