//! F28 to F30: nodes with many cached records, and a server that is killed.
//!
//! What a node has to tell the restarted server is counted: each record once, whatever happens
//! meanwhile. Before, all of it was sent again every half second until the server had it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use lockspan::{Locks, Options, Stats};
use lockspan_faults::proxy::{Fate, Message, Proxy};
use lockspan_faults::stage::{Stage, soon, until};
use lockspan_protocol::cache::PageLimits;
use lockspan_protocol::{ToNode, ToServer};
use lockspan_server::Config;
use lockspan_wire::Event;
use tokio::task::JoinSet;

use crate::{record, waits, write};

/// No re-assertion of these tests is longer.
const LONGEST: u64 = 190;

/// Tasks that fill a cache at the same time.
const TASKS: usize = 32;

/// Caches so many records, all for writing.
async fn fill(locks: &Locks, datatype: &str, records: usize) {
    let mut tasks = JoinSet::new();
    for task in 0..TASKS {
        let (locks, datatype) = (locks.clone(), datatype.to_owned());
        tasks.spawn(async move {
            for number in (task..records).step_by(TASKS) {
                drop(record(&locks, &format!("{datatype}:{number}")).write().await.expect("free"));
            }
        });
    }
    while let Some(filled) = tasks.join_next().await {
        filled.expect("it does not panic");
    }
    assert_eq!(locks.stats().records, records);
}

/// Nothing was lost, and each record was told about once. A tenth more is for the questions about
/// pages and for keep-alives, and a broken connection swallows what is under way: a window.
fn check_told_once(locks: &Locks, before: Stats, records: usize, cuts: u64) {
    let (after, records) = (locks.stats(), records as u64);
    let PageLimits { claims, window, .. } = PageLimits::default();
    let most = records + records / 10 + 300 + cuts * (claims * window) as u64;
    assert_eq!((after.lost, after.lost_leases), (0, 0), "all locks are kept");
    assert_eq!(after.records as u64, records);
    let (told, sent) = (after.told - before.told, after.sent_bytes - before.sent_bytes);
    assert!(told >= records, "{told} messages for {records} records");
    assert!(told <= most, "{told} messages for {records} records, and {most} are enough");
    let most = most * LONGEST;
    assert!(sent <= most, "{sent} bytes for {records} records, and {most} are enough");
}

/// Others have to ask for what is cached: it is still locked.
async fn check_locked(stage: &Stage, records: usize) {
    let claims = stage.stats().claims;
    assert_eq!(claims, records as u64, "the server knows all of them");
}

#[tokio::test(flavor = "multi_thread")]
async fn service_f28_large_caches_survive_a_killed_server_and_are_told_once() {
    const NODES: usize = 4;
    const RECORDS: usize = 4_000;
    let mut stage = Stage::new().await;
    let mut nodes = Vec::new();
    for number in 0..NODES {
        let locks = stage.node(Options::new().lease(Duration::from_secs(20))).await;
        fill(&locks, &format!("n{number}"), RECORDS).await;
        let held = write(&locks, &format!("n{number}:0")).await;
        nodes.push((locks.stats(), locks, held));
    }
    stage.kill();
    stage.restart().await;
    until("all have re-asserted", || {
        let stats = stage.stats();
        stats.connections == NODES as u64 && !stats.recovering
    })
    .await;
    check_locked(&stage, NODES * RECORDS).await;
    for (before, locks, held) in &nodes {
        assert!(held.is_valid());
        check_told_once(locks, *before, RECORDS, 0);
    }
    // Somebody else gets one when its guard is dropped, and not before.
    let other = stage.node(Options::new()).await;
    let wants = waits(&other, "n1:0");
    until("it waits", || stage.stats().queued > 0).await;
    assert!(!wants.is_finished() && nodes[1].2.is_valid());
    drop(nodes.remove(1));
    drop(soon("it is given back", wants).await.expect("it does not panic"));
}

/// Answers to pages come late: to tell everything takes longer than a lease. Keep-alives are
/// answered meanwhile.
#[tokio::test(flavor = "multi_thread")]
async fn service_f29_who_re_asserts_for_longer_than_a_lease_keeps_it() {
    const RECORDS: usize = 10_000;
    const LEASE: Duration = Duration::from_secs(5);
    let mut stage = Stage::with_config(Config { shards: 1, ..Config::default() }).await;
    let proxy = stage.network(29).await;
    let url = proxy.url();
    let connected = Options::new().lease(LEASE).connect(&url);
    let locks = soon("connected", connected).await.expect("connected");
    fill(&locks, "n", RECORDS).await;
    let held = write(&locks, "n:0").await;
    let before = locks.stats();
    let alive = Arc::new(AtomicU64::new(0));
    let is_recovered = Arc::new(AtomicBool::new(false));
    proxy.set_rule({
        let (alive, is_recovered) = (Arc::clone(&alive), Arc::clone(&is_recovered));
        move |message| {
            match message {
                Message::Down(_, Event::Node(ToNode::Heard { .. })) => {
                    return Fate::Delay(LEASE / 3);
                }
                Message::Down(_, Event::Node(ToNode::Recovered { .. })) => {
                    is_recovered.store(true, Ordering::Relaxed);
                }
                Message::Down(_, Event::Node(ToNode::Alive { .. }))
                    if !is_recovered.load(Ordering::Relaxed) =>
                {
                    alive.fetch_add(1, Ordering::Relaxed);
                }
                _ => {}
            }
            Fate::Pass
        }
    });
    stage.restart().await;
    until("it has re-asserted", || is_recovered.load(Ordering::Relaxed)).await;
    check_locked(&stage, RECORDS).await;
    assert!(alive.load(Ordering::Relaxed) >= 2, "keep-alives were answered meanwhile");
    assert!(held.is_valid());
    check_told_once(&locks, before, RECORDS, 0);
}

/// The connection breaks three times while a node re-asserts. It goes on where it was.
#[tokio::test(flavor = "multi_thread")]
async fn service_f30_a_connection_that_breaks_amid_re_assertions_does_not_begin_them_anew() {
    const RECORDS: usize = 20_000;
    let mut stage = Stage::with_config(Config { shards: 2, ..Config::default() }).await;
    let proxy: Proxy = stage.network(30).await;
    let url = proxy.url();
    let connected = Options::new().lease(Duration::from_secs(30)).connect(&url);
    let locks = soon("connected", connected).await.expect("connected");
    fill(&locks, "n", RECORDS).await;
    let held = write(&locks, "n:0").await;
    let before = locks.stats();
    let pages = Arc::new(AtomicU64::new(0));
    proxy.set_rule({
        let pages = Arc::clone(&pages);
        move |message| match message {
            Message::Up(_, ToServer::Page { .. }) => {
                let seen = pages.fetch_add(1, Ordering::Relaxed);
                if [40, 80, 120].contains(&seen) { Fate::Cut } else { Fate::Pass }
            }
            _ => Fate::Pass,
        }
    });
    stage.restart().await;
    until("it has re-asserted", || {
        let stats = stage.stats();
        !stats.recovering && stats.claims == RECORDS as u64
    })
    .await;
    assert!(pages.load(Ordering::Relaxed) > 120, "all three cuts happened");
    assert!(locks.stats().connects >= 5, "{} connections", locks.stats().connects);
    assert!(held.is_valid());
    check_told_once(&locks, before, RECORDS, 3);
}
