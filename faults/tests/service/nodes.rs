//! F1 to F4: nodes that die, and nodes that are stopped for a while.

use std::time::Duration;

use lockspan::Options;
use lockspan_faults::puppet::file;
use lockspan_faults::stage::{Stage, soon, until};
use lockspan_faults::store::{Fenced, Store};

use crate::{ask, held, puppet, waits, write};

#[tokio::test(flavor = "multi_thread")]
async fn service_f01_a_dead_nodes_idle_records_are_free_after_its_lease_and_not_before() {
    let (stage, folder) = (Stage::new().await, tempfile::tempdir().unwrap());
    let mut dead = puppet(&stage.url(), folder.path(), Duration::from_secs(5));
    let old = held(&mut dead, "write a:1").await;
    assert_eq!(ask(&mut dead, "drop a:1").await, "dropped");
    let other = stage.node(Options::new()).await;
    drop(write(&other, "b:1").await);
    assert_eq!((stage.stats().sessions, stage.stats().claims), (2, 2));

    dead.kill().await.unwrap();
    until("its connection is gone", || stage.stats().connections == 1).await;
    let (sessions, claims) = (stage.stats().sessions, stage.stats().claims);
    assert_eq!((sessions, claims), (2, 2), "a closed connection frees nothing");
    let held = write(&other, "a:1").await;
    assert_eq!(stage.stats().sessions, 1, "it was granted when the lease was over");
    assert!(held.token().number() > old);
}

#[tokio::test(flavor = "multi_thread")]
async fn service_f02_after_a_death_inside_the_next_token_is_higher() {
    let (stage, folder) = (Stage::new().await, tempfile::tempdir().unwrap());
    let store = Store::new(folder.path());
    let mut dead = puppet(&stage.url(), folder.path(), Duration::from_secs(1));
    let old = held(&mut dead, "write a:1").await;
    assert_eq!(ask(&mut dead, "open a:1").await, "value 0");
    assert_eq!(ask(&mut dead, "put a:1 0").await, "value 1");
    let other = stage.node(Options::new()).await;
    let waiting = waits(&other, "a:1");
    until("it waits", || stage.stats().queued == 1).await;

    dead.kill().await.unwrap();
    let next = soon("the lease ends", waiting).await.unwrap();
    let token = next.token().number();
    assert!(token > old, "{token} after {old}");
    assert_eq!(store.open(&file("a:1"), "other", token).unwrap(), Ok(1));
    assert_eq!(store.put(&file("a:1"), "late", old, 1).unwrap(), Err(Fenced { mark: token }));
}

#[tokio::test(flavor = "multi_thread")]
async fn service_f03_a_node_that_was_stopped_past_its_lease_uses_nothing_of_it() {
    let (stage, folder) = (Stage::new().await, tempfile::tempdir().unwrap());
    let store = Store::new(folder.path());
    let lease = Duration::from_secs(2);
    let mut paused = puppet(&stage.url(), folder.path(), lease);
    let cached = held(&mut paused, "write a:1").await;
    ask(&mut paused, "drop a:1").await;
    let idle = held(&mut paused, "write c:1").await;
    ask(&mut paused, "drop c:1").await;
    let inside = held(&mut paused, "write b:1").await;
    assert_eq!(ask(&mut paused, "open b:1").await, "value 0");
    assert_eq!(ask(&mut paused, "valid b:1").await, "valid");
    assert_eq!(ask(&mut paused, "spin b:1 a:1").await, "spinning");

    paused.stop().unwrap();
    let stopped = tokio::time::Instant::now();
    let other = stage.node(Options::new()).await;
    let (a, b) = (write(&other, "a:1").await, write(&other, "b:1").await);
    let token = b.token().number();
    assert!(a.token().number() > cached && token > inside);
    assert_eq!(store.open(&file("b:1"), "other", token).unwrap(), Ok(0));

    // For longer than a lease, by which its threads know that they were stopped.
    tokio::time::sleep_until(stopped + lease.mul_f64(1.2)).await;
    paused.resume().unwrap();
    let seen = ask(&mut paused, "spun").await;
    assert_eq!(seen, "lost none", "seen by threads that were in the middle of it");
    assert_eq!(ask(&mut paused, "valid b:1").await, "lost");
    assert_eq!(ask(&mut paused, "put b:1 0").await, format!("fenced {token}"));
    assert_eq!(ask(&mut paused, "lost b:1").await, "lost");
    assert_eq!(ask(&mut paused, "try a:1").await, "none", "the other has it");
    let anew = held(&mut paused, "write c:1").await;
    assert!(anew > idle, "nobody else wanted it, but the lease was over: {anew} after {idle}");
    assert!(a.is_valid() && b.is_valid());
    let token = a.token().number();
    drop(a);
    assert!(held(&mut paused, "write a:1").await > token);
    assert_eq!(store.put(&file("b:1"), "other", b.token().number(), 0).unwrap(), Ok(1));
    paused.finish().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn service_f04_a_node_that_was_stopped_for_less_loses_nothing() {
    let (stage, folder) = (Stage::new().await, tempfile::tempdir().unwrap());
    let mut paused = puppet(&stage.url(), folder.path(), Duration::from_secs(40));
    let cached = held(&mut paused, "write a:1").await;
    ask(&mut paused, "drop a:1").await;
    held(&mut paused, "write b:1").await;
    let other = stage.node(Options::new()).await;
    drop(write(&other, "c:1").await);

    paused.stop().unwrap();
    let waiting = waits(&other, "a:1");
    until("the revoke was sent again and again", || stage.stats().revoke_repeats >= 3).await;
    assert!(!waiting.is_finished(), "nobody gives it away");
    drop(write(&other, "c:2").await);
    paused.resume().unwrap();
    let got = soon("the revoke is answered", waiting).await.unwrap();
    assert!(got.token().number() > cached);
    assert_eq!(ask(&mut paused, "valid b:1").await, "valid");
    assert!(ask(&mut paused, "stats").await.starts_with("lost 0 "));
    assert_eq!(stage.stats().sessions, 2);
    paused.finish().await.unwrap();
}
