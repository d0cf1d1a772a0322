//! Leases: what the dead held is free, what the living hold is renewed, what is lost is told.

use std::time::Duration;

use lockspan_client::{LockError, TroubleKind};
use lockspan_redis::Options;

use crate::server::Redis;
use crate::world::{Doomed, cli, emptied, node, record, soon, until};

const ENDS: &str = "lockspan:ends:invoice:42";

fn short() -> Options {
    Options::new().lease(Duration::from_secs(1))
}

fn end_of_the_only(redis: &Redis) -> u64 {
    let all = cli(redis, &["ZRANGE", ENDS, "0", "-1", "WITHSCORES"]);
    all.lines().last().map_or(0, |score| score.parse().unwrap())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_dead_node_held_is_free_when_its_lease_is_over() {
    let redis = Redis::start(&[]).await;
    let mut dead = Doomed::connect(&redis, short()).await;
    let there = record(&dead.locks);
    let held = dead.spawn(there.write_owned()).await.unwrap().unwrap();
    let locks = node(&redis, Options::new()).await;
    let waiting = tokio::spawn(record(&locks).write_owned());
    until("the other waits", || cli(&redis, &["ZCARD", "lockspan:writers:invoice:42"]) == "1")
        .await;
    dead.die();
    let next = soon(waiting).await.unwrap().unwrap();
    assert!(next.token() > held.token());
    assert!(!held.is_valid(), "its own clock has told it first");
    drop(next);
    emptied(&redis).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_held_is_renewed() {
    let redis = Redis::start(&[]).await;
    let locks = node(&redis, short()).await;
    let held = soon(record(&locks).write_owned()).await.unwrap();
    let first = end_of_the_only(&redis);
    until("three leases have passed", || end_of_the_only(&redis) > first + 3_000_000).await;
    assert!(held.is_valid());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_waits_for_long_keeps_its_place() {
    let redis = Redis::start(&[]).await;
    let (one, other) = (node(&redis, short()).await, node(&redis, short()).await);
    let held = soon(record(&one).write_owned()).await.unwrap();
    let waiting = tokio::spawn(record(&other).write_owned());
    until("it waits", || cli(&redis, &["ZCARD", "lockspan:writers:invoice:42"]) == "1").await;
    let place = cli(&redis, &["ZRANGE", "lockspan:writers:invoice:42", "0", "0"]);
    let end = || cli(&redis, &["ZSCORE", ENDS, &place]).parse::<u64>().unwrap();
    let first = end();
    until("three leases have passed", || end() > first + 3_000_000).await;
    assert_eq!(cli(&redis, &["ZRANGE", "lockspan:writers:invoice:42", "0", "0"]), place);
    assert!(held.is_valid());
    drop(held);
    drop(soon(waiting).await.unwrap().unwrap());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lock_that_somebody_has_deleted_is_lost() {
    let redis = Redis::start(&[]).await;
    let locks = node(&redis, short()).await;
    let (held, beside) = (record(&locks), locks.record("x", "1").unwrap());
    let (held, beside) = (soon(held.write()).await.unwrap(), soon(beside.read()).await.unwrap());
    assert_eq!(cli(&redis, &["DEL", "writelock:invoice:42"]), "1");
    soon(held.lost()).await;
    assert!(!held.is_valid() && beside.is_valid(), "the other is still there");
    drop(held);
    drop(soon(record(&locks).write_owned()).await.unwrap());
    drop(beside);
    emptied(&redis).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_redis_what_is_held_is_lost_and_what_waits_is_told() {
    let redis = Redis::start(&[]).await;
    let locks = node(&redis, short().patience(Duration::from_millis(200))).await;
    let held = soon(record(&locks).write_owned()).await.unwrap();
    let port = redis.port;
    drop(redis);
    let why = soon(locks.record("x", "1").unwrap().write_owned()).await.unwrap_err();
    let LockError::Trouble(why) = why else { panic!("{why}") };
    assert_eq!(why.kind, TroubleKind::Unreachable, "{why}");
    soon(held.lost()).await;
    // When there is one again, it goes on.
    let redis = Redis::start_at(Some(port), &[]).await;
    until("it is connected again", || {
        cli(&redis, &["PUBSUB", "NUMSUB", "lockspan:all"]).ends_with('1')
    })
    .await;
    let again = soon(record(&locks).write_owned()).await.unwrap();
    assert!(again.token() > held.token(), "also where the counter is gone");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cut_connection_loses_no_lock_and_no_place() {
    let redis = Redis::start(&[]).await;
    let (one, other) = (node(&redis, Options::new()).await, node(&redis, Options::new()).await);
    let held = soon(record(&one).write_owned()).await.unwrap();
    let waiting = tokio::spawn(record(&other).write_owned());
    until("it waits", || cli(&redis, &["ZCARD", "lockspan:writers:invoice:42"]) == "1").await;
    let killed = cli(&redis, &["CLIENT", "KILL", "TYPE", "pubsub"]);
    assert_eq!(killed, "2");
    drop(held);
    drop(soon(waiting).await.unwrap().unwrap());
    emptied(&redis).await;
}

/// The connection is cut when Redis has done the acquire; its answer is on its way, or is not.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_acquire_whose_answer_is_lost_is_looked_up() {
    let redis = Redis::start(&[]).await;
    let locks = node(&redis, Options::new()).await;
    for _ in 0..10 {
        let waiting = tokio::spawn(record(&locks).write_owned());
        until("Redis has it", || cli(&redis, &["EXISTS", "writelock:invoice:42"]) == "1").await;
        cli(&redis, &["CLIENT", "KILL", "TYPE", "pubsub"]);
        let held = soon(waiting).await.unwrap().unwrap();
        let identifier = cli(&redis, &["GET", "writelock:invoice:42"]);
        assert!(!identifier.is_empty() && held.is_valid());
        assert_eq!(cli(&redis, &["ZCARD", ENDS]), "1");
        drop(held);
        emptied(&redis).await;
    }
}

/// Writes are held up inside Redis, and the connection is cut meanwhile.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_acquire_that_redis_never_did_is_asked_again() {
    let redis = Redis::start(&[]).await;
    let locks = node(&redis, Options::new().patience(Duration::from_secs(60))).await;
    drop(soon(locks.record("x", "1").unwrap().write_owned()).await.unwrap());
    assert_eq!(cli(&redis, &["CLIENT", "PAUSE", "60000", "WRITE"]), "OK");
    let waiting = tokio::spawn(record(&locks).write_owned());
    until("it is held up", || cli(&redis, &["INFO", "clients"]).contains("blocked_clients:1"))
        .await;
    assert_eq!(cli(&redis, &["EXISTS", "writelock:invoice:42"]), "0");
    cli(&redis, &["CLIENT", "KILL", "TYPE", "pubsub"]);
    assert_eq!(cli(&redis, &["CLIENT", "UNPAUSE"]), "OK");
    let held = soon(waiting).await.unwrap().unwrap();
    assert!(held.is_valid());
    assert_eq!(cli(&redis, &["ZCARD", ENDS]), "1");
}

/// The same for the end of a lock.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_release_that_redis_never_did_is_sent_again() {
    let redis = Redis::start(&[]).await;
    let locks = node(&redis, Options::new()).await;
    let held = soon(record(&locks).write_owned()).await.unwrap();
    assert_eq!(cli(&redis, &["CLIENT", "PAUSE", "60000", "WRITE"]), "OK");
    drop(held);
    until("it is held up", || cli(&redis, &["INFO", "clients"]).contains("blocked_clients:1"))
        .await;
    cli(&redis, &["CLIENT", "KILL", "TYPE", "pubsub"]);
    assert_eq!(cli(&redis, &["CLIENT", "UNPAUSE"]), "OK");
    emptied(&redis).await;
}

/// What was put there by hand has no end, whatever ends beside it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_identifier_without_an_end_is_never_removed() {
    let redis = Redis::start(&[]).await;
    let locks = node(&redis, Options::new().recheck(Duration::from_secs(1))).await;
    let mut dead = Doomed::connect(&redis, short()).await;
    let there = record(&dead.locks);
    drop(dead.spawn(async move { std::mem::forget(there.read_owned().await.unwrap()) }).await);
    assert_eq!(cli(&redis, &["SADD", "readlock:invoice:42", "ann"]), "1");
    dead.die();
    let waiting = tokio::spawn(record(&locks).write_owned());
    until("the dead is gone", || cli(&redis, &["SMEMBERS", "readlock:invoice:42"]) == "ann").await;
    let end = |place: &str| cli(&redis, &["ZSCORE", ENDS, place]).parse::<u64>().unwrap();
    let place = cli(&redis, &["ZRANGE", "lockspan:writers:invoice:42", "0", "0"]);
    let first = end(&place);
    until("more than a lease has passed", || end(&place) > first + 3_000_000).await;
    assert_eq!(cli(&redis, &["SMEMBERS", "readlock:invoice:42"]), "ann");
    assert!(!waiting.is_finished());
    assert_eq!(cli(&redis, &["SREM", "readlock:invoice:42", "ann"]), "1");
    drop(soon(waiting).await.unwrap().unwrap());
    emptied(&redis).await;
}
