//! The line: phases, the dead in it, and nothing left over.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use lockspan_redis::Options;

use crate::server::Redis;
use crate::world::{Doomed, cli, emptied, keys, node, record, soon, until};

const WRITERS: &str = "lockspan:writers:invoice:42";
const READERS: &str = "lockspan:readers:invoice:42";

/// Nobody looks again in time, and no lease ends: it takes the words.
pub(crate) fn calm() -> Options {
    Options::new().recheck(Duration::from_secs(600)).lease(Duration::from_secs(600))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_waiter_is_told_labels_notes_and_ages_of_the_holders() {
    let redis = Redis::start(&[]).await;
    let billing = node(&redis, calm().label("billing@host9[412] – ärger")).await;
    let reports = node(&redis, calm().label("reports")).await;
    let own = record(&billing);
    let held = soon(own.read().note("nightly import")).await.unwrap();
    let other = soon(record(&reports).read_owned()).await.unwrap();
    // Somebody has put an identifier there by hand, and nobody answers for it.
    cli(&redis, &["SADD", "readlock:invoice:42", "ann"]);
    let waiter = node(&redis, calm()).await;
    let wanted = record(&waiter);
    // Each holder answers for itself, so what is known grows.
    let mut tries = 0;
    let (holders, why) = loop {
        let why = wanted.write_timeout(Duration::from_secs(1)).await.unwrap_err();
        let lockspan_client::LockError::Timeout(why) = why else { panic!("{why:?}") };
        let told = why.holders.iter().filter(|it| !it.held.is_zero()).count();
        tries += 1;
        if told == 2 || tries == 30 {
            let mut holders: Vec<_> = why.holders.iter().map(lockspan_client::held_by).collect();
            holders.sort();
            break (holders, why);
        }
    };
    let [ann, first, second] = &holders[..] else { panic!("{holders:?}") };
    assert_eq!(ann, "held by ann");
    assert!(first.starts_with("held by billing@host9[412] – ärger for "), "{first}");
    assert!(first.ends_with(" (nightly import)"), "{first}");
    assert!(second.starts_with("held by reports for "), "{second}");
    assert!(why.connected);
    drop((held, other));
    cli(&redis, &["SREM", "readlock:invoice:42", "ann"]);
    emptied(&redis).await;
}

fn waiting(redis: &Redis) -> (String, String) {
    (cli(redis, &["ZCARD", WRITERS]), cli(redis, &["SCARD", READERS]))
}

/// Each is a node of its own, in line one after the other; returns in which order they were served,
/// where those that were in together are sorted.
async fn order(redis: &Redis, first: char, line: &str) -> String {
    let order = Arc::new(Mutex::new(String::new()));
    let holder = node(redis, calm()).await;
    let mut tasks = Vec::new();
    let (mut readers, mut writers) = (0, 0);
    let held = soon(async {
        let record = record(&holder);
        match first {
            'r' => (Some(record.read_owned().await.unwrap()), None),
            _ => (None, Some(record.write_owned().await.unwrap())),
        }
    })
    .await;
    for who in line.chars() {
        let (locks, order) = (node(redis, calm()).await, Arc::clone(&order));
        tasks.push(tokio::spawn(async move {
            let record = record(&locks);
            if who == 'r' {
                let held = record.read().await.unwrap();
                order.lock().unwrap().push('r');
                tokio::time::sleep(Duration::from_millis(20)).await;
                drop(held);
            } else {
                let held = record.write().await.unwrap();
                order.lock().unwrap().push(who);
                drop(held);
            }
        }));
        if who == 'r' {
            readers += 1
        } else {
            writers += 1
        }
        let then = (writers.to_string(), readers.to_string());
        until("it is in line", || waiting(redis) == then).await;
    }
    drop(held);
    for task in tasks {
        soon(task).await.unwrap();
    }
    emptied(redis).await;
    let order = order.lock().unwrap();
    order.clone()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_a_writer_all_readers_go_and_then_the_writers_in_order() {
    let redis = Redis::start(&[]).await;
    assert_eq!(order(&redis, 'w', "1r2r3r").await, "rrr123");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_readers_the_first_writer_goes_and_then_the_readers_behind_it() {
    let redis = Redis::start(&[]).await;
    assert_eq!(order(&redis, 'r', "1r2r").await, "1rr2");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reader_does_not_pass_a_writer_that_waits() {
    let redis = Redis::start(&[]).await;
    let (one, other) = (node(&redis, calm()).await, node(&redis, calm()).await);
    let held = soon(record(&one).read_owned()).await.unwrap();
    let writer = tokio::spawn(record(&other).write_owned());
    until("it waits", || waiting(&redis).0 == "1").await;
    let third = node(&redis, calm()).await;
    assert!(record(&third).try_read().await.unwrap().is_none());
    drop(held);
    drop(soon(writer).await.unwrap().unwrap());
    drop(soon(record(&third).read_owned()).await.unwrap());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_dead_in_line_are_passed_over() {
    let redis = Redis::start(&[]).await;
    let (one, other) = (node(&redis, calm()).await, node(&redis, calm()).await);
    let held = soon(record(&one).write_owned()).await.unwrap();
    let mut dead = Doomed::connect(&redis, calm().lease(Duration::from_secs(1))).await;
    let (writer, reader) = (record(&dead.locks), dead.locks.record("x", "1").unwrap());
    let x = soon(one.record("x", "1").unwrap().write_owned()).await.unwrap();
    drop(dead.spawn(writer.write_owned()));
    drop(dead.spawn(reader.read_owned()));
    until("both wait", || {
        waiting(&redis).0 == "1" && cli(&redis, &["SCARD", "lockspan:readers:x:1"]) == "1"
    })
    .await;
    dead.die();
    let next = tokio::spawn(record(&other).write_owned());
    until("another waits behind", || waiting(&redis).0 == "2").await;
    let reader = cli(&redis, &["SMEMBERS", "lockspan:readers:x:1"]);
    // By the server's clock its end has come.
    until("the dead is dead", || {
        let end = cli(&redis, &["ZSCORE", "lockspan:ends:x:1", &reader]);
        let time = cli(&redis, &["TIME"]);
        let (seconds, micros) = time.split_once('\n').unwrap();
        end.parse::<u64>().unwrap() < format!("{seconds}{micros:0>6}").parse().unwrap()
    })
    .await;
    drop((held, x));
    // Nobody else waits for this one: who has left has passed over the dead.
    until("nothing is left of it", || !keys(&redis).iter().any(|key| key.ends_with("x:1"))).await;
    drop(soon(next).await.unwrap().unwrap());
    drop(soon(other.record("x", "1").unwrap().write_owned()).await.unwrap());
    emptied(&redis).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_gives_up_leaves_nothing_in_line() {
    let redis = Redis::start(&[]).await;
    let (one, other) = (node(&redis, calm()).await, node(&redis, calm()).await);
    let held = soon(record(&one).read_owned()).await.unwrap();
    let there = record(&other);
    assert!(there.write_timeout(Duration::from_millis(50)).await.is_err());
    until("it is out of line", || waiting(&redis) == ("0".to_owned(), "0".to_owned())).await;
    // Readers come in again beside the other.
    drop(soon(there.read()).await.unwrap());
    drop(held);
    emptied(&redis).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_records_leave_no_key_each() {
    let redis = Redis::start(&[]).await;
    let locks = node(&redis, calm()).await;
    for id in 0..200 {
        let record = locks.record("x", id.to_string()).unwrap();
        drop(soon(record.write()).await.unwrap());
        drop(soon(record.read()).await.unwrap());
    }
    emptied(&redis).await;
    let counters: u32 = cli(&redis, &["DBSIZE"]).parse().unwrap();
    assert!(counters <= 200, "one a slot at most");
    assert_eq!(cli(&redis, &["TTL", "lockspan:fence:{0}"]).parse::<i32>().unwrap().min(-1), -2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn scripts_that_redis_has_forgotten_are_brought_again() {
    let redis = Redis::start(&[]).await;
    let (one, other) = (node(&redis, calm()).await, node(&redis, calm()).await);
    for turn in 0..3 {
        assert_eq!(cli(&redis, &["SCRIPT", "FLUSH"]), "OK");
        let locks = if turn % 2 == 0 { &one } else { &other };
        let held = soon(record(locks).write_owned()).await.unwrap();
        assert_eq!(cli(&redis, &["SCRIPT", "FLUSH"]), "OK");
        drop(held);
    }
    emptied(&redis).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn where_there_is_no_resp3_a_second_connection_hears() {
    let redis = Redis::start(&["--rename-command", "HELLO", ""]).await;
    assert_eq!(order(&redis, 'w', "1r2r3r").await, "rrr123");
}

/// More readers than are told one by one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hundred_readers_are_asked_to_leave() {
    let redis = Redis::start(&[]).await;
    let stop = Arc::new(AtomicBool::new(false));
    let mut nodes = Vec::new();
    let mut tasks = Vec::new();
    for _ in 0..100 {
        let locks = node(&redis, calm()).await;
        let record = record(&locks);
        // Two of each node, so that without being asked there would always be one.
        for _ in 0..2 {
            let (record, stop) = (record.clone(), Arc::clone(&stop));
            tasks.push(tokio::spawn(async move {
                while !stop.load(Ordering::Relaxed) {
                    let held = record.read().await.unwrap();
                    tokio::time::sleep(Duration::from_millis(5)).await;
                    drop(held);
                }
            }));
        }
        nodes.push(locks);
    }
    let writer = node(&redis, calm()).await;
    drop(soon(record(&writer).write_owned()).await.unwrap());
    stop.store(true, Ordering::Relaxed);
    for task in tasks {
        soon(task).await.unwrap();
    }
    emptied(&redis).await;
}

/// How many scripts Redis has run.
fn scripts(redis: &Redis) -> u64 {
    let stats = cli(redis, &["INFO", "commandstats"]);
    let line = stats.lines().find_map(|line| line.strip_prefix("cmdstat_evalsha:calls="));
    line.map_or(0, |line| line.split(',').next().unwrap().parse().unwrap())
}

/// A node whose threads want the record again at once gives it up after so many turns, and asks.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stay_is_bounded_by_turns() {
    let redis = Redis::start(&[]).await;
    for (turns, least) in [(0, 200), (4, 40)] {
        let locks = node(&redis, calm().stay(turns, Duration::from_secs(600))).await;
        let (there, before) = (record(&locks), scripts(&redis));
        for _ in 0..100 {
            drop(soon(there.write()).await.unwrap());
        }
        emptied(&redis).await;
        let sent = scripts(&redis) - before;
        assert!((least..=200).contains(&sent), "{sent} scripts with {turns} turns");
    }
}

/// Nor does a node whose threads always want it keep others waiting.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_waits_elsewhere_has_its_turn_after_a_stay() {
    let redis = Redis::start(&[]).await;
    let (one, other) = (node(&redis, calm()).await, node(&redis, calm()).await);
    let stop = Arc::new(AtomicBool::new(false));
    let busy = [(); 3].map(|()| {
        let (record, stop) = (record(&one), Arc::clone(&stop));
        tokio::spawn(async move {
            let mut last = 0;
            while !stop.load(Ordering::Relaxed) {
                let held = record.write().await.unwrap();
                let token = held.token().number();
                assert!(held.is_valid() && token >= last);
                last = token;
            }
        })
    });
    for _ in 0..20 {
        let held = soon(record(&other).write_owned()).await.unwrap();
        assert!(held.is_valid());
    }
    stop.store(true, Ordering::Relaxed);
    for task in busy {
        soon(task).await.unwrap();
    }
    emptied(&redis).await;
}
