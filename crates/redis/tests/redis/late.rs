//! What reaches Redis late, over a connection that was given up, changes nothing any more; and what
//! comes too early is not forgotten.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use lockspan_redis::Options;
use tokio::time::timeout;

use crate::line::calm;
use crate::proxy::Proxy;
use crate::server::Redis;
use crate::world::{cli, emptied, node, record, soon, until};

const READ: &str = "readlock:invoice:42";
const WRITE: &str = "writelock:invoice:42";

/// An answer may take two seconds; nobody looks again by itself.
fn options() -> Options {
    Options::new().lease(Duration::from_secs(8)).recheck(Duration::from_secs(600))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_late_downgrade_does_not_undo_a_later_upgrade() {
    let redis = Redis::start(&[]).await;
    let proxy = Proxy::to(redis.port).await;
    let one = options().connect(&proxy.url()).await.unwrap();
    let other = node(&redis, options()).await;
    let first = soon(record(&one).read_owned()).await.unwrap();
    let second = soon(record(&one).read_owned()).await.unwrap();
    let beside = soon(record(&other).read_owned()).await.unwrap();
    let mut upgrade = Box::pin(first.upgrade());
    let waiting = || cli(&redis, &["ZCARD", "lockspan:writers:invoice:42"]);
    while waiting() == "0" {
        assert!(timeout(Duration::from_millis(10), &mut upgrade).await.is_err(), "another reads");
    }
    proxy.hold(0);
    drop(upgrade);
    until("it is given up over another connection", || waiting() == "0").await;
    assert!(proxy.keeps(0) && proxy.connections() == 2);
    drop(beside);
    let writer = soon(second.upgrade()).await.unwrap();
    let identifier = cli(&redis, &["GET", WRITE]);
    let reader = tokio::spawn(record(&other).read_owned());
    let line = || cli(&redis, &["SCARD", "lockspan:readers:invoice:42"]);
    until("another waits to read", || line() == "1").await;
    proxy.let_go(0);
    until("what was late is there", || proxy.is_over(0)).await;
    assert_eq!((cli(&redis, &["GET", WRITE]), line()), (identifier, "1".to_owned()));
    assert!(writer.is_valid() && !reader.is_finished());
    drop(writer);
    drop(soon(reader).await.unwrap().unwrap());
    emptied(&redis).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_late_upgrade_makes_no_writer_of_who_reads() {
    let redis = Redis::start(&[]).await;
    let proxy = Proxy::to(redis.port).await;
    let one = options().connect(&proxy.url()).await.unwrap();
    let other = node(&redis, options()).await;
    let first = soon(record(&one).read_owned()).await.unwrap();
    let second = soon(record(&one).read_owned()).await.unwrap();
    let identifier = cli(&redis, &["SMEMBERS", READ]);
    proxy.hold(0);
    let mut upgrade = Box::pin(first.upgrade());
    while !proxy.keeps(0) {
        assert!(timeout(Duration::from_millis(10), &mut upgrade).await.is_err());
    }
    // It is given up there as well, but that is kept back.
    drop(upgrade);
    until("it is given up over another connection", || {
        cli(&redis, &["SMEMBERS", READ]) != identifier
    })
    .await;
    proxy.let_one_through(0);
    until("the upgrade is there", || proxy.is_one_through(0)).await;
    let beside = soon(record(&other).read_owned()).await.unwrap();
    assert_eq!(cli(&redis, &["EXISTS", WRITE]), "0");
    assert_eq!(cli(&redis, &["SCARD", READ]), "2");
    assert!(second.is_valid() && beside.is_valid());
    proxy.let_go(0);
    until("all is there", || proxy.is_over(0)).await;
    assert_eq!(cli(&redis, &["SCARD", READ]), "2");
    drop((second, beside));
    emptied(&redis).await;
}

/// The answer that an upgrade is granted comes later than the word that another wants the record.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wish_that_overtakes_an_upgrade_is_heard() {
    let redis = Redis::start(&["--rename-command", "HELLO", ""]).await;
    let proxy = Proxy::to(redis.port).await;
    let (one, other) = (calm().connect(&proxy.url()).await.unwrap(), node(&redis, calm()).await);
    let reader = soon(record(&one).read_owned()).await.unwrap();
    // The last connection hears words, the one before it answers.
    let answers = proxy.connections() - 2;
    proxy.hold_answers(answers);
    let upgrade = tokio::spawn(reader.upgrade());
    until("it is granted", || cli(&redis, &["EXISTS", WRITE]) == "1").await;
    // From now on somebody here has or wants it all the time.
    let stop = Arc::new(AtomicBool::new(false));
    let busy = [(); 3].map(|()| {
        let (record, stop) = (record(&one), Arc::clone(&stop));
        tokio::spawn(async move {
            while !stop.load(Ordering::Relaxed) {
                let held = record.write().await.unwrap();
                tokio::task::yield_now().await;
                drop(held);
            }
        })
    });
    let waiting = tokio::spawn(record(&other).write_owned());
    until("another wants it", || cli(&redis, &["ZCARD", "lockspan:writers:invoice:42"]) == "1")
        .await;
    proxy.let_go(answers);
    drop(soon(upgrade).await.unwrap().unwrap());
    drop(soon(waiting).await.unwrap().unwrap());
    stop.store(true, Ordering::Relaxed);
    for task in busy {
        soon(task).await.unwrap();
    }
    emptied(&redis).await;
}

/// Nothing is ever said on the connection that hears, so that it may be gone without a sign.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_listener_that_is_silently_gone_is_missed() {
    let redis = Redis::start(&["--rename-command", "HELLO", ""]).await;
    let proxy = Proxy::to(redis.port).await;
    let (one, other) = (calm().connect(&proxy.url()).await.unwrap(), node(&redis, calm()).await);
    let held = soon(record(&other).write_owned()).await.unwrap();
    let waiting = tokio::spawn(record(&one).write_owned());
    until("it waits", || cli(&redis, &["ZCARD", "lockspan:writers:invoice:42"]) == "1").await;
    proxy.hold(proxy.connections() - 1);
    drop(held);
    drop(soon(waiting).await.unwrap().unwrap());
    emptied(&redis).await;
}

/// Whoever connects again leaves no connection behind that hears for nobody.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_listener_ends_with_its_link() {
    let redis = Redis::start(&["--rename-command", "HELLO", ""]).await;
    let locks = node(&redis, calm()).await;
    let count = |kind: &str| cli(&redis, &["CLIENT", "LIST", "TYPE", kind]).lines().count();
    for round in 0..5 {
        drop(soon(record(&locks).write_owned()).await.unwrap());
        emptied(&redis).await;
        until("one hears", || count("pubsub") == 1).await;
        let of_node = || cli(&redis, &["CLIENT", "LIST", "TYPE", "normal"]);
        let id = |line: &str| line.split([' ', '=']).nth(1).map(str::to_owned);
        let calls = |line: &&str| !line.contains("cmd=client");
        let listed = of_node();
        let ids: Vec<_> = listed.lines().filter(calls).filter_map(id).collect();
        assert!(!ids.is_empty(), "round {round}: {listed}");
        for id in ids {
            cli(&redis, &["CLIENT", "KILL", "ID", &id]);
        }
    }
    drop(soon(record(&locks).write_owned()).await.unwrap());
    until("one hears at the end", || count("pubsub") == 1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_locks_are_not_renewed_in_one_burst() {
    let redis = Redis::start(&[]).await;
    let proxy = Proxy::to(redis.port).await;
    let locks = options().lease(Duration::from_secs(4)).connect(&proxy.url()).await.unwrap();
    let mut held = Vec::new();
    for id in 0..600 {
        let record = locks.record("x", id.to_string()).unwrap();
        held.push(soon(record.write_owned()).await.unwrap());
    }
    let before = proxy.calls(0);
    proxy.hold(0);
    until("it is connected again", || proxy.connections() == 2).await;
    proxy.let_go(0);
    until("all that was said is there", || proxy.is_over(0)).await;
    let calls = proxy.calls(0) - before;
    assert!((1..=300).contains(&calls), "{calls} at once");
    // All of them are looked after on the next connection.
    until("all are looked at", || proxy.calls(1) >= 600).await;
    assert!(held.iter().all(|held| held.is_valid()));
    drop(held);
    emptied(&redis).await;
}
