//! Several records at once: all or none, in order, without deadlock.

use std::future::{Future as _, poll_fn};
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use lockspan::{
    All, AllGuard, AnyGuard, BadSet, LockError, Locks, Mode, Options, Owner, Record, Token,
};

use crate::Service;
use crate::suite::{node, nodes, soon};

/// Long enough for a wait to have begun, and for the server to be asked who holds the record.
const BRIEF: Duration = Duration::from_millis(150);

fn records(locks: &Locks, ids: &[u32]) -> Vec<Record> {
    ids.iter().map(|id| locks.record("account", *id).unwrap()).collect()
}

async fn is_free(locks: &Locks, id: u32) -> bool {
    soon(records(locks, &[id])[0].try_write()).await.unwrap().is_some()
}

pub(crate) async fn several_are_held_together_and_released_together(service: &Service) {
    let (one, other) = nodes(service).await;
    let all = records(&one, &[3, 1, 2]);
    let held = soon(one.all(&all).write()).await.unwrap();
    // In order, whatever the order in which they were given.
    let names: Vec<_> = held.tokens().map(|(name, _)| name.to_string()).collect();
    assert_eq!(names, ["account:1", "account:2", "account:3"]);
    assert!(held.is_valid() && held.valid_for() > Duration::ZERO);
    assert!(held.token(&all[0]).is_some_and(|token| token > Token::default()));
    assert_eq!(held.token(&one.record("account", 9).unwrap()), None);
    for id in 1..=3 {
        assert!(!is_free(&other, id).await, "{id}");
    }
    drop(held);
    let held = soon(other.all(records(&other, &[1, 2, 3])).write()).await.unwrap();
    assert!(held.iter().all(|guard| guard.mode() == Mode::Write && guard.is_valid()));
    // Taken apart: the first is kept, the others are free.
    let first = held.into_iter().next();
    assert!(matches!(&first, Some(AnyGuard::Write(guard)) if guard.is_valid()));
    for (id, free) in [(1, false), (2, true), (3, true)] {
        assert_eq!(is_free(&one, id).await, free, "{id}");
    }
}

pub(crate) async fn the_order_is_by_datatype_and_then_by_id(service: &Service) {
    let (locks, _) = nodes(service).await;
    // By their whole names "a!:1" would come before "a:2".
    let all = [("a!", "1"), ("a", "2"), ("a", "10"), ("B", "1")];
    let all = all.map(|(datatype, id)| locks.record(datatype, id).unwrap());
    let held = soon(locks.all(&all).read()).await.unwrap();
    let names: Vec<_> = held.tokens().map(|(name, _)| name.to_string()).collect();
    assert_eq!(names, ["B:1", "a:10", "a:2", "a!:1"]);
}

pub(crate) async fn of_a_record_given_twice_the_stronger_mode_counts(service: &Service) {
    let (one, other) = nodes(service).await;
    let [a, b, c] = [1, 2, 3].map(|id| one.record("account", id).unwrap());
    let set = one.all([(&a, Mode::Read), (&b, Mode::Read), (&a, Mode::Write)]);
    let held = soon(set.and_read(&b).and_write(&c).and_read(&c).lock()).await.unwrap();
    let modes: Vec<_> = held.iter().map(AnyGuard::mode).collect();
    assert_eq!(modes, [Mode::Write, Mode::Read, Mode::Write]);
    // Who only reads shares it.
    let beside = soon(other.all(records(&other, &[2])).read()).await.unwrap();
    for id in [1, 3] {
        let read = soon(records(&other, &[id])[0].try_read()).await.unwrap().is_some();
        assert!(!read, "{id} is written");
    }
    drop((held, beside));
    // A mode of its own counts beside that of the others.
    let held = soon(one.all([&a]).and_read(&b).write()).await.unwrap();
    assert_eq!(held.iter().map(AnyGuard::mode).collect::<Vec<_>>(), [Mode::Write, Mode::Read]);
    drop(held);
    let held = soon(one.all([&a]).and_write(&b).read()).await.unwrap();
    assert_eq!(held.iter().map(AnyGuard::mode).collect::<Vec<_>>(), [Mode::Read, Mode::Write]);
}

pub(crate) async fn a_set_that_waits_holds_what_comes_before_and_nothing_after(service: &Service) {
    let (one, other) = nodes(service).await;
    let third = node(service, Options::new()).await;
    let in_the_way = soon(records(&other, &[2])[0].clone().write_owned()).await.unwrap();
    let mut waiting = pin!(one.all(records(&one, &[1, 2, 3, 4])).write());
    assert_eq!(waiting.place(), None);
    let late = tokio::time::timeout(BRIEF, &mut waiting).await;
    assert!(late.is_err(), "it is held");
    assert_eq!(waiting.waits_for().unwrap().name().to_string(), "account:2");
    assert_eq!(waiting.place(), Some(0));
    for (id, free) in [(1, false), (2, false), (3, true), (4, true)] {
        assert_eq!(is_free(&third, id).await, free, "{id}");
    }
    drop(in_the_way);
    let held = soon(waiting).await.unwrap();
    assert_eq!(held.len(), 4);
    assert!(!is_free(&third, 4).await);
}

pub(crate) async fn the_time_is_for_all_and_nothing_is_held_after_it(service: &Service) {
    let (one, other) = nodes(service).await;
    let in_the_way = soon(records(&other, &[3])[0].clone().write_owned()).await.unwrap();
    let all = || one.all(records(&one, &[1, 2, 3, 4])).note("transfer");
    let late = soon(all().write_timeout(BRIEF)).await;
    let Err(LockError::Timeout(why)) = late else { panic!("{late:?}") };
    assert_eq!((why.record.to_string(), why.waited), ("account:3".to_owned(), BRIEF));
    assert_eq!(why.holders.len(), 1);
    assert!(soon(all().try_write()).await.unwrap().is_none());
    let thread = {
        let all = all();
        tokio::task::spawn_blocking(move || all.blocking_read_timeout(BRIEF).map(drop))
    };
    let late = soon(thread).await.unwrap();
    assert!(matches!(late, Err(LockError::Timeout(_))), "{late:?}");
    for id in [1, 2, 4] {
        assert!(is_free(&other, id).await, "{id}");
    }
    drop(in_the_way);
    assert!(soon(all().try_lock()).await.unwrap().is_some());
    let thread = {
        let all = all();
        move || {
            drop(all.clone().blocking_write()?);
            drop(all.clone().blocking_read()?);
            drop(all.clone().blocking_lock()?);
            drop(all.clone().blocking_lock_timeout(crate::suite::SOON)?);
            all.blocking_try_write()
        }
    };
    let held = soon(tokio::task::spawn_blocking(thread)).await.unwrap().unwrap();
    assert!(held.is_some());
    // Somebody of this node is in the way of a try, too.
    assert!(soon(all().try_read()).await.unwrap().is_none());
}

pub(crate) async fn a_set_that_is_dropped_leaves_nothing(service: &Service) {
    let (one, other) = nodes(service).await;
    for blocked in 1..=3 {
        let in_the_way = soon(records(&other, &[blocked])[0].clone().read_owned()).await.unwrap();
        for polls in 1..=4 {
            let mut set = Box::pin(one.all(records(&one, &[1, 2, 3])).write());
            for _ in 0..polls {
                let once = poll_fn(|context| Poll::Ready(set.as_mut().poll(context)));
                assert!(once.await.is_pending(), "{blocked} is read");
                tokio::task::yield_now().await;
            }
            drop(set);
            for id in (1..=3).filter(|&id| id != blocked) {
                drop(soon(other.all(records(&other, &[id])).write()).await.unwrap());
            }
        }
        drop(in_the_way);
    }
    drop(soon(one.all(records(&one, &[1, 2, 3])).write()).await.unwrap());
}

pub(crate) async fn sets_in_any_order_never_wait_for_each_other_in_a_cycle(service: &Service) {
    let nodes = [nodes(service).await, nodes(service).await];
    let orders: [&[u32]; 6] = [&[1, 2, 3], &[3, 2, 1], &[2, 3], &[3, 1], &[2, 1, 4], &[4, 3, 2]];
    let mut tasks = Vec::new();
    for (at, locks) in nodes.iter().flat_map(|(one, other)| [one, other]).enumerate() {
        for order in &orders {
            let (locks, all) = (locks.clone(), records(locks, order));
            tasks.push(tokio::spawn(async move {
                for turn in 0..10 {
                    let set = locks.all(&all);
                    let held = if (turn + at) % 3 == 0 { set.read() } else { set.write() };
                    assert_eq!(held.await.unwrap().len(), all.len());
                    tokio::task::yield_now().await;
                }
            }));
        }
    }
    for task in tasks {
        soon(task).await.unwrap();
    }
}

pub(crate) async fn owners_that_hold_more_than_a_set_are_told_of_a_deadlock(service: &Service) {
    let (one, other) = nodes(service).await;
    let there = if service.finds_deadlocks { other } else { one.clone() };
    let (first, second) = (one.as_owner(Owner(1)), there.as_owner(Owner(2)));
    // Holds a record that comes late, and wants one that comes before it.
    let late = soon(first.all(records(&first, &[9])).write()).await.unwrap();
    let waiting = tokio::spawn({
        // The owner of the Locks counts for records that have none.
        let all = second.all(records(&there, &[1, 9]));
        async move { all.write().await }
    });
    let mut tries = 0;
    while is_free(&one, 1).await {
        tries += 1;
        assert!(tries < 10_000, "the second one never came");
        tokio::task::yield_now().await;
    }
    let refused = soon(first.all(records(&first, &[1, 2])).write()).await;
    match refused {
        Err(LockError::Deadlock { cycle }) => assert!(cycle.contains(&Owner(1)), "{cycle:?}"),
        other => {
            // The other one may have been refused instead.
            let refused = soon(waiting).await.unwrap();
            assert!(matches!(refused, Err(LockError::Deadlock { .. })), "{refused:?}");
            drop(other.unwrap());
            return;
        }
    }
    drop(late);
    drop(soon(waiting).await.unwrap().unwrap());
}

pub(crate) async fn a_set_that_can_not_be_is_refused(service: &Service) {
    let (one, other) = nodes(service).await;
    let [a, b] = [1, 2].map(|id| one.record("account", id).unwrap());
    let bad = |refused: Result<AllGuard, LockError>| match refused {
        Err(LockError::BadSet(why)) => *why,
        other => panic!("{other:?}"),
    };
    assert_eq!(bad(one.all::<Record>([]).write().await), BadSet::Empty);
    let many: Vec<_> = (0..=All::MAX).map(|id| one.record("many", id as u64).unwrap()).collect();
    let (count, max) = (many.len(), All::MAX);
    assert_eq!(bad(one.all(&many).read().await), BadSet::TooMany { count, max });
    let stray = other.record("account", 2).unwrap();
    let refused = bad(one.all([&a, &stray, &b]).write_timeout(BRIEF).await);
    assert_eq!(refused, BadSet::OtherConnection { record: stray.name().clone() });
    let noted = one.all([&a]).note("two\nlines").try_write().await;
    assert!(matches!(noted, Err(LockError::BadNote(_))), "{noted:?}");
    // Nothing is held.
    assert!(is_free(&other, 1).await);
    // As many as may be, if each is given twice.
    let held = soon(one.all(many.iter().chain(&many).skip(1).take(1500)).read()).await;
    assert!(held.is_err(), "one is too many");
    let held = soon(one.all(many.iter().skip(1).chain(many.iter().skip(1))).read()).await.unwrap();
    assert_eq!(held.len(), All::MAX);
}

pub(crate) async fn a_set_is_lost_when_one_of_it_is(service: &Service) {
    let (locks, _) = nodes(service).await;
    let held = soon(locks.all(records(&locks, &[1, 2])).write()).await.unwrap();
    assert!(!held.blocking_lost_timeout(Duration::ZERO));
    let closing = {
        let locks = locks.clone();
        async move { locks.close().await }
    };
    soon(async { tokio::join!(held.lost(), closing) }).await.1.unwrap();
    assert!(!held.is_valid());
    assert_eq!(held.valid_for(), Duration::ZERO);
    held.blocking_lost();
    let closed = soon(locks.all(records(&locks, &[1, 2])).write()).await;
    assert!(matches!(closed, Err(LockError::Closed)), "{closed:?}");
}
