//! The forms for threads, those that try, and upgrades that give their guard back.

use std::error::Error;
use std::time::Duration;

use lockspan::{LockError, Options, Record};

use crate::Service;
use crate::suite::{SOON, node, nodes, record, soon};

/// Too short for anybody to let go in.
const BRIEF: Duration = Duration::from_millis(20);

/// Runs what blocks beside the runtime of the test, which may have a server in it.
async fn in_thread<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    soon(tokio::task::spawn_blocking(work)).await.unwrap()
}

pub(crate) async fn threads_try_and_are_told_who_is_in_the_way(service: &Service) {
    let one = node(service, Options::new()).await;
    // So long that it is not a matter of luck.
    let other = node(service, Options::new().try_for(SOON)).await;
    let impatient = node(service, Options::new().try_for(BRIEF)).await;
    let (here, there, brief) = (record(&one), record(&other), record(&impatient));
    drop(soon(here.write()).await.unwrap());
    in_thread(move || {
        // What another node has cached and does not use is fetched.
        drop(there.blocking_try_write().unwrap().expect("nobody uses it"));
        let held = there.clone().blocking_try_write_owned().unwrap().expect("nobody uses it");
        assert!(there.blocking_try_read().unwrap().is_none(), "a thread of this node writes");
        assert!(there.clone().blocking_try_read_owned().unwrap().is_none());
        assert!(brief.blocking_try_read().unwrap().is_none(), "another node writes");
        assert!(brief.clone().blocking_try_write_owned().unwrap().is_none());
        let late = brief.clone().blocking_read_owned_timeout(BRIEF).map(drop);
        assert!(matches!(late, Err(LockError::Timeout(_))));
        let late = brief.clone().blocking_write_owned_timeout(BRIEF).map(drop);
        assert!(matches!(late, Err(LockError::Timeout(_))));
        drop(held);
        let reading = there.clone().blocking_read_owned().unwrap();
        let beside = there.clone().blocking_try_read_owned().unwrap().expect("readers share");
        assert!(there.blocking_try_read().unwrap().is_some());
        assert!(there.blocking_try_write().unwrap().is_none());
        drop((reading, beside));
        drop(there.clone().blocking_write_owned().unwrap());
    })
    .await;
    // The owned forms of tasks.
    let there = record(&other);
    let held = soon(there.clone().try_write_owned()).await.unwrap().expect("nobody uses it");
    assert!(there.clone().try_read_owned().await.unwrap().is_none());
    drop(held);
    let reading = soon(there.clone().try_read_owned()).await.unwrap().expect("nobody writes");
    assert!(there.clone().try_write_owned().await.unwrap().is_none());
    drop(reading);
}

pub(crate) async fn an_upgrade_that_gives_up_goes_on_reading_and_may_upgrade_later(
    service: &Service,
) {
    let (one, other) = nodes(service).await;
    let (here, there) = (record(&one), record(&other));
    let mut reading = soon(here.clone().read_owned()).await.unwrap();
    let beside = soon(there.read()).await.unwrap();
    for _ in 0..3 {
        let late = soon(reading.upgrade_timeout(BRIEF)).await.unwrap_err();
        assert!(matches!(*late.cause(), LockError::Timeout(_)));
        reading = late.into_guard();
        assert!(reading.is_valid() && beside.is_valid(), "both go on reading");
    }
    // It is still a hold: nobody writes beside it, also when the other is gone.
    drop(beside);
    assert!(matches!(there.write_timeout(BRIEF).await.map(drop), Err(LockError::Timeout(_))));
    let writing = soon(reading.upgrade_timeout(SOON)).await.unwrap();
    assert!(writing.is_valid());
    assert!(matches!(there.read_timeout(BRIEF).await.map(drop), Err(LockError::Timeout(_))));
    drop(writing);
    drop(soon(there.write()).await.unwrap());
    drop(soon(here.write()).await.unwrap());
}

pub(crate) async fn try_upgrade_succeeds_only_if_nobody_else_reads(service: &Service) {
    let one = node(service, Options::new().try_for(BRIEF)).await;
    let other = node(service, Options::new()).await;
    let (here, there) = (record(&one), record(&other));
    let reading = soon(here.clone().read_owned()).await.unwrap();
    let local = soon(here.read()).await.unwrap();
    let late = soon(reading.try_upgrade()).await.unwrap_err();
    assert!(matches!(late.source, LockError::Timeout(_)), "a task of this node reads");
    drop(local);
    let beside = soon(there.read()).await.unwrap();
    let late = soon(late.into_guard().try_upgrade()).await.unwrap_err();
    assert!(matches!(late.source, LockError::Timeout(_)), "another node reads");
    let reading = late.into_guard();
    assert!(reading.is_valid());
    drop((reading, beside));
    // So long that it is not a matter of luck: the other has it cached, and does not use it.
    let patient = node(service, Options::new().try_for(SOON)).await;
    let reading = soon(record(&patient).read_owned()).await.unwrap();
    let writing = soon(reading.try_upgrade()).await.unwrap();
    assert!(writing.is_valid());
}

pub(crate) async fn threads_upgrade_in_all_forms(service: &Service) {
    let one = node(service, Options::new().try_for(BRIEF)).await;
    let other = node(service, Options::new()).await;
    let (here, there) = (record(&one), record(&other));
    let beside = soon(there.read_owned()).await.unwrap();
    in_thread(move || {
        let reading = here.blocking_read().unwrap();
        let late = reading.blocking_try_upgrade().unwrap_err();
        assert!(matches!(late.source, LockError::Timeout(_)), "another node reads");
        let late = late.into_guard().blocking_upgrade_timeout(BRIEF).unwrap_err();
        assert!(matches!(late.source, LockError::Timeout(_)), "another node reads");
        let reading = late.into_guard();
        assert!(reading.is_valid());
        let local = here.blocking_read().unwrap();
        let late = reading.blocking_try_upgrade().unwrap_err();
        assert!(matches!(late.source, LockError::Timeout(_)), "a thread of this node reads");
        drop((beside, local));
        let writing = late.into_guard().blocking_upgrade().unwrap();
        let writing = writing.downgrade().blocking_upgrade_timeout(SOON).unwrap();
        assert!(writing.is_valid());
    })
    .await;
}

/// As users write it, with a guard that borrows its record.
async fn upgraded(record: &Record) -> Result<(), Box<dyn Error + Send + Sync>> {
    let reading = record.read().await?;
    let _writing = reading.upgrade_timeout(BRIEF).await?;
    Ok(())
}

pub(crate) async fn an_upgrade_works_with_the_question_mark(service: &Service) {
    let (one, other) = nodes(service).await;
    let (here, there) = (record(&one), record(&other));
    let beside = soon(there.read()).await.unwrap();
    let why = soon(upgraded(&here)).await.unwrap_err();
    assert_eq!(why.to_string(), "invoice:42 was not upgraded from reading to writing");
    let cause = why.source().and_then(|cause| cause.downcast_ref::<LockError>());
    assert!(matches!(cause, Some(LockError::Timeout(_))));
    let why = why.downcast::<lockspan::UpgradeError>().unwrap();
    assert!(why.guard.is_valid(), "the error holds the read");
    drop(beside);
    assert!(matches!(LockError::from(*why), LockError::Timeout(_)));
    // Nobody reads any more.
    drop(soon(there.write()).await.unwrap());
}

pub(crate) async fn a_thread_waits_until_its_guard_is_lost(service: &Service) {
    let one = node(service, Options::new()).await;
    let held = soon(record(&one).write_owned()).await.unwrap();
    let held = in_thread(move || {
        assert!(!held.blocking_lost_timeout(BRIEF), "its lease stands");
        held
    })
    .await;
    let waiting = tokio::task::spawn_blocking(move || {
        held.blocking_lost();
        assert!(held.blocking_lost_timeout(Duration::ZERO) && !held.is_valid());
        drop(held);
    });
    let closing = soon(one.close()).await;
    assert_eq!(closing, Ok(()));
    soon(waiting).await.unwrap();
}
