//! What guards promise, one behaviour a function. Each runs against every kind of service.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use lockspan::{LockError, Locks, Options, Owner, Record, UpgradeError};
use tokio::time::timeout;

use crate::Service;

pub(crate) const SOON: Duration = Duration::from_secs(20);

/// Two nodes of the service.
pub(crate) async fn nodes(service: &Service) -> (Locks, Locks) {
    (node(service, Options::new()).await, node(service, Options::new()).await)
}

pub(crate) async fn node(service: &Service, options: Options) -> Locks {
    // On Redis it takes the words of others: nobody looks for itself in time.
    let options = options.recheck(Duration::from_secs(600));
    options.connect(&service.url).await.unwrap()
}

pub(crate) fn record(locks: &Locks) -> Record {
    locks.record("invoice", "42").unwrap()
}

pub(crate) async fn soon<T>(future: impl Future<Output = T>) -> T {
    timeout(SOON, future).await.expect("it takes too long")
}

pub(crate) async fn a_cached_record_is_taken_again_without_a_message(service: &Service) {
    let (locks, _) = nodes(service).await;
    let record = record(&locks);
    drop(soon(record.write()).await.unwrap());
    let before = locks.stats();
    for _ in 0..100 {
        drop(record.write().await.unwrap());
        drop(record.read().await.unwrap());
    }
    let after = locks.stats();
    if service.caches {
        assert_eq!((after.told, before.acquires), (before.told, 1));
    } else {
        // What is not answered for long is asked for once more.
        assert!(after.acquires >= 201, "each turn is asked for: {}", after.acquires);
    }
}

pub(crate) async fn the_other_node_gets_what_this_one_has_cached(service: &Service) {
    let (one, other) = nodes(service).await;
    let first = soon(record(&one).write_owned()).await.unwrap();
    let token = first.token();
    drop(first);
    let second = soon(record(&other).write_owned()).await.unwrap();
    assert!(second.token() > token);
    assert_eq!(one.stats().revokes, u64::from(service.caches));
}

pub(crate) async fn a_task_that_never_waits_does_not_keep_a_cached_record(service: &Service) {
    let (one, other) = nodes(service).await;
    let (one, other) = (record(&one), record(&other));
    drop(soon(one.write()).await.unwrap());
    // The test's runtime has one thread, and the background tasks of both nodes need it too.
    let wish = tokio::spawn(async move { other.write_owned().await.map(drop) });
    let mut turns = 0;
    while !wish.is_finished() {
        drop(one.write().await.unwrap());
        turns += 1;
        assert!(turns < 1_000_000, "the other node waits forever");
    }
    wish.await.unwrap().unwrap();
}

pub(crate) async fn readers_share_and_a_writer_waits_for_all(service: &Service) {
    let (one, other) = nodes(service).await;
    let (here, there) = (record(&one), record(&other));
    let reader = soon(here.read()).await.unwrap();
    let beside = soon(there.read()).await.unwrap();
    let writer = tokio::spawn({
        let record = here.clone();
        async move { record.write_owned().await.unwrap() }
    });
    assert!(matches!(
        there.write_timeout(Duration::from_millis(20)).await,
        Err(LockError::Timeout(_))
    ));
    drop(reader);
    assert!(!writer.is_finished());
    drop(beside);
    let writer = soon(writer).await.unwrap();
    assert!(writer.is_valid());
}

pub(crate) async fn readers_share_when_the_writer_between_them_has_given_up(service: &Service) {
    let (one, other) = nodes(service).await;
    let (here, there) = (record(&one), record(&other));
    let writer = soon(here.write()).await.unwrap();
    let brief = Duration::from_millis(20);
    assert!(matches!(there.write_timeout(brief).await, Err(LockError::Timeout(_))));
    let reader = writer.downgrade();
    // On the other node, and on the one that was asked to give the record up.
    drop(soon(there.read()).await.unwrap());
    assert!(matches!(there.write_timeout(brief).await, Err(LockError::Timeout(_))));
    drop(soon(here.read()).await.unwrap());
    assert!(reader.is_valid());
}

pub(crate) async fn nobody_is_in_beside_a_writer(service: &Service) {
    let nodes = [nodes(service).await, nodes(service).await];
    let inside = Arc::new(AtomicU32::new(0));
    let mut tasks = Vec::new();
    for locks in nodes.iter().flat_map(|(one, other)| [one, other]) {
        for _ in 0..4 {
            let (record, inside) = (record(locks), Arc::clone(&inside));
            tasks.push(tokio::spawn(async move {
                for turn in 0..50 {
                    if turn % 3 == 0 {
                        let held = record.read().await.unwrap();
                        let seen = inside.fetch_add(1, Ordering::SeqCst);
                        assert!(seen < 1000, "a reader beside a writer");
                        tokio::task::yield_now().await;
                        inside.fetch_sub(1, Ordering::SeqCst);
                        drop(held);
                    } else {
                        let held = record.write().await.unwrap();
                        let seen = inside.fetch_add(1000, Ordering::SeqCst);
                        assert_eq!(seen, 0, "a writer beside somebody");
                        tokio::task::yield_now().await;
                        inside.fetch_sub(1000, Ordering::SeqCst);
                        drop(held);
                    }
                }
            }));
        }
    }
    for task in tasks {
        soon(task).await.unwrap();
    }
}

pub(crate) async fn threads_without_a_runtime_exclude_each_other(service: &Service) {
    let (url, caches) = (service.url.clone(), service.caches);
    // The threads block, and the server of this test runs in our runtime.
    let threads = tokio::task::spawn_blocking(move || {
        let locks = lockspan::blocking_connect(&url).unwrap();
        let record = locks.record("invoice", "1").unwrap();
        let inside = AtomicU32::new(0);
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for _ in 0..2000 {
                        let held = record.blocking_write().unwrap();
                        assert_eq!(inside.fetch_add(1, Ordering::Relaxed), 0);
                        inside.fetch_sub(1, Ordering::Relaxed);
                        drop(held);
                    }
                });
            }
        });
        // Where nothing is cached, whoever leaves last before another comes gives it back.
        assert!(!caches || locks.stats().acquires == 1);
    });
    soon(threads).await.unwrap();
}

pub(crate) async fn a_wait_that_is_dropped_leaves_the_line(service: &Service) {
    let (one, other) = nodes(service).await;
    let held = soon(record(&one).write_owned()).await.unwrap();
    let there = record(&other);
    assert!(there.write_timeout(Duration::from_millis(20)).await.is_err());
    assert!(matches!(there.try_read().await, Ok(None)));
    drop(held);
    // Nobody waits any more, so this is the only one to get it.
    drop(soon(record(&one).write_owned()).await.unwrap());
    drop(soon(there.write()).await.unwrap());
}

pub(crate) async fn try_fetches_what_another_node_has_cached_and_does_not_use(service: &Service) {
    let one = node(service, Options::new()).await;
    // So long that it is not a matter of luck.
    let other = node(service, Options::new().try_for(SOON)).await;
    drop(soon(record(&one).write_owned()).await.unwrap());
    let there = record(&other);
    assert!(soon(there.try_write()).await.unwrap().is_some());
    let held = soon(there.read()).await.unwrap();
    assert!(there.try_write().await.unwrap().is_none(), "a thread of the same node reads");
    assert!(there.try_read().await.unwrap().is_some());
    drop(held);
}

pub(crate) async fn a_reader_is_upgraded_and_the_second_upgrader_refused(service: &Service) {
    let (one, other) = nodes(service).await;
    let (here, there) = (record(&one), record(&other));
    let (reader, beside) = (soon(here.read()).await.unwrap(), soon(there.read()).await.unwrap());
    let local = soon(here.read()).await.unwrap();
    let before = reader.token();
    let mut upgrade = Box::pin(reader.upgrade());
    tokio::select! {
        biased;
        _ = &mut upgrade => panic!("others read"),
        () = tokio::task::yield_now() => {}
    }
    let Err(UpgradeError { guard: local, source: why }) = soon(local.upgrade()).await else {
        panic!("two upgraders here")
    };
    assert_eq!(why, LockError::UpgradeConflict);
    // Of two nodes, whoever comes to the server first is the one to wait.
    let mut second = Box::pin(beside.upgrade());
    let (refused, waiting) = soon(async {
        tokio::select! {
            refused = &mut upgrade => (refused, second),
            refused = &mut second => (refused, upgrade),
        }
    })
    .await;
    let Err(UpgradeError { guard: kept, source: why }) = refused else { panic!("two upgraders") };
    assert_eq!(why, LockError::UpgradeConflict);
    assert!(kept.is_valid() && local.is_valid(), "they go on reading");
    drop((kept, local));
    let writer = soon(waiting).await.unwrap();
    assert!(writer.token() > before);
    let reader = writer.downgrade();
    drop(soon(there.read()).await.unwrap());
    drop(soon(here.read()).await.unwrap());
    assert!(reader.is_valid());
}

pub(crate) async fn an_upgrade_that_is_dropped_lets_go(service: &Service) {
    let (one, other) = nodes(service).await;
    let (here, there) = (record(&one), record(&other));
    let (reader, beside) = (soon(here.read()).await.unwrap(), soon(there.read()).await.unwrap());
    assert!(timeout(Duration::from_millis(20), reader.upgrade()).await.is_err());
    drop(beside);
    drop(soon(there.write()).await.unwrap());
    drop(soon(here.write()).await.unwrap());
}

pub(crate) async fn without_caching_a_release_goes_back_at_once(service: &Service) {
    let locks = node(service, Options::new().caching(false)).await;
    let record = record(&locks);
    for _ in 0..10 {
        drop(soon(record.write()).await.unwrap());
    }
    let stats = locks.stats();
    assert!(stats.acquires >= 10 && stats.records == 0, "{stats:?}");
}

pub(crate) async fn idle_records_go_back_and_so_do_those_beyond_the_number(service: &Service) {
    let options = Options::new().max_cached(100).idle(Duration::from_millis(100));
    let locks = node(service, options).await;
    for id in 0..1000 {
        drop(soon(locks.record("x", id.to_string()).unwrap().write_owned()).await.unwrap());
        // The background task must have its turn.
        tokio::task::yield_now().await;
    }
    assert!(locks.stats().records <= 250, "{} records are cached", locks.stats().records);
    soon(async {
        while locks.stats().records > 0 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    })
    .await;
}

pub(crate) async fn owners_in_a_deadlock_are_told_so(service: &Service) {
    let (one, other) = nodes(service).await;
    let (one, other) = (one.as_owner(Owner(1)), other.as_owner(Owner(2)));
    let x = soon(one.record("x", "1").unwrap().write_owned()).await.unwrap();
    let y = soon(other.record("y", "1").unwrap().write_owned()).await.unwrap();
    let mut first = tokio::spawn(one.record("y", "1").unwrap().write_owned());
    let mut second = tokio::spawn(other.record("x", "1").unwrap().write_owned());
    if !service.finds_deadlocks {
        // Then such a wait ends by its time alone.
        let waits = timeout(Duration::from_millis(200), &mut first).await;
        assert!(waits.is_err() && !second.is_finished(), "they wait for each other");
        first.abort();
        drop(x);
        drop(soon(second).await.unwrap().unwrap());
        return drop(y);
    }
    let (refused, waiting, held) = soon(async {
        tokio::select! {
            refused = &mut first => (refused, second, x),
            refused = &mut second => (refused, first, y),
        }
    })
    .await;
    match refused.unwrap() {
        Err(LockError::Deadlock { cycle }) => {
            assert!(cycle.contains(&Owner(1)) && cycle.contains(&Owner(2)), "{cycle:?}");
        }
        other => panic!("{other:?}"),
    }
    // The one that was refused lets go, and the other goes on.
    drop(held);
    drop(soon(waiting).await.unwrap().unwrap());
}

pub(crate) async fn owners_of_one_node_in_a_deadlock_are_told_so(service: &Service) {
    let (one, _) = nodes(service).await;
    let (a, b) = (one.as_owner(Owner(1)), one.as_owner(Owner(2)));
    let x = soon(a.record("x", "1").unwrap().write_owned()).await.unwrap();
    let y = soon(b.record("y", "1").unwrap().write_owned()).await.unwrap();
    let waiting = tokio::spawn(a.record("y", "1").unwrap().write_owned());
    tokio::task::yield_now().await;
    let refused = soon(b.record("x", "1").unwrap().write_owned()).await;
    assert_eq!(refused.err(), Some(LockError::Deadlock { cycle: vec![Owner(2), Owner(1)] }));
    drop(y);
    drop(soon(waiting).await.unwrap().unwrap());
    drop(x);
}

pub(crate) async fn closing_loses_guards_and_ends_waits(service: &Service) {
    let (one, other) = nodes(service).await;
    let held = soon(record(&one).write_owned()).await.unwrap();
    let waiting = tokio::spawn(record(&other).write_owned());
    one.close().await.unwrap();
    soon(held.lost()).await;
    assert!(!held.is_valid());
    let second = soon(waiting).await.unwrap().unwrap();
    other.close().await.unwrap();
    assert!(matches!(record_of(&second).write_owned().await, Err(LockError::Closed)));
}

fn record_of(held: &lockspan::OwnedWriteGuard) -> Record {
    held.record().clone()
}

pub(crate) async fn bad_names_are_refused(service: &Service) {
    let (one, _) = nodes(service).await;
    assert!(one.record("a:b", "1").is_err() && one.record("", "1").is_err());
    assert!(one.record("a", "").is_err() && one.record("a", "x".repeat(512)).is_err());
    assert!(one.record("a", "b:c").is_ok());
}

pub(crate) async fn tokens_of_writers_rise_and_readers_have_the_last(service: &Service) {
    let (one, other) = nodes(service).await;
    let mut last = soon(record(&one).write_owned()).await.unwrap().token();
    for turn in 0..20 {
        let (writer, reader) = if turn % 2 == 0 { (&other, &one) } else { (&one, &other) };
        let token = soon(record(writer).write_owned()).await.unwrap().token();
        assert!(token > last, "{token} after {last}");
        let read = soon(record(reader).read_owned()).await.unwrap().token();
        assert!(read >= token, "{read} is read after {token} was written");
        last = token;
    }
}

/// Readers of two nodes come and go so that there is always one; the writer of a third waits for no
/// more than those who were there, and then the readers have their turn again.
pub(crate) async fn a_writer_is_not_starved_by_readers_nor_they_by_writers(service: &Service) {
    let (one, other) = nodes(service).await;
    let third = node(service, Options::new()).await;
    let (stop, began) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
    let mut tasks = Vec::new();
    for locks in [&one, &one, &other, &other] {
        let (record, stop, began) = (record(locks), Arc::clone(&stop), Arc::clone(&began));
        tasks.push(tokio::spawn(async move {
            while stop.load(Ordering::SeqCst) == 0 {
                let held = record.read().await.unwrap();
                tokio::time::sleep(Duration::from_millis(3)).await;
                drop(held);
                began.fetch_add(1, Ordering::SeqCst);
            }
        }));
    }
    let writer = record(&third);
    for turn in 1..=20 {
        // Whoever reads has come back in between.
        soon(async {
            while began.load(Ordering::SeqCst) < 4 * turn {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        })
        .await;
        drop(soon(writer.write()).await.unwrap());
    }
    stop.store(1, Ordering::SeqCst);
    for task in tasks {
        soon(task).await.unwrap();
    }
}

pub(crate) async fn waiting_writers_of_two_nodes_take_turns(service: &Service) {
    let (one, other) = nodes(service).await;
    let order = Arc::new(std::sync::Mutex::new(Vec::new()));
    let held = soon(record(&one).write_owned()).await.unwrap();
    let mut tasks = Vec::new();
    for (name, locks) in [("one", &one), ("other", &other)] {
        for _ in 0..20 {
            let (record, order) = (record(locks), Arc::clone(&order));
            tasks.push(tokio::spawn(async move {
                let held = record.write().await.unwrap();
                order.lock().unwrap().push(name);
                tokio::time::sleep(Duration::from_millis(3)).await;
                drop(held);
            }));
        }
    }
    tokio::task::yield_now().await;
    drop(held);
    for task in tasks {
        soon(task).await.unwrap();
    }
    let order = order.lock().unwrap();
    let changes = order.windows(2).filter(|pair| pair[0] != pair[1]).count();
    // Neither has all of its turns before the other: the stay of a node is bounded.
    assert!(changes >= 4, "{order:?}");
}

pub(crate) async fn what_is_held_by_a_node_that_is_gone_is_free(service: &Service) {
    let (one, other) = nodes(service).await;
    let held = soon(record(&one).write_owned()).await.unwrap();
    let waiting = tokio::spawn(record(&other).write_owned());
    drop(held);
    drop(one);
    drop(soon(waiting).await.unwrap().unwrap());
}
