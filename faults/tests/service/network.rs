//! F8, F12, F13, F18: networks that cut off, double and reorder, and a revoke that nobody hears.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use lockspan::{Locks, Options, Record};
use lockspan_faults::proxy::{Fate, Message, Weather};
use lockspan_faults::stage::{Stage, soon, until};
use lockspan_protocol::ToNode;
use lockspan_wire::Event;

use crate::{record, waits, write};

#[tokio::test(flavor = "multi_thread")]
async fn service_f08_a_node_that_is_cut_off_stops_before_another_is_granted() {
    let stage = Stage::new().await;
    let options = Options::new().lease(Duration::from_secs(1));
    let (cut_off, proxy) = stage.node_behind(options, Weather::default(), 1).await;
    let other = stage.node(Options::new()).await;
    for round in 0..3 {
        let held = write(&cut_off, "a:1").await;
        let idle = write(&cut_off, "b:1").await.token();
        // The lease that counts is one that was extended.
        let heard = cut_off.stats().heard;
        until("it was kept alive", || cut_off.stats().heard >= heard + 3).await;
        proxy.partition();
        let waiting = waits(&other, "a:1");
        let next = soon("the lease ends", waiting).await.unwrap();
        assert!(!held.is_valid(), "round {round}: both are in");
        assert!(next.token() > held.token());
        let asked = waits(&cut_off, "b:1");
        proxy.heal();
        let anew = soon("it is back", asked).await.unwrap();
        assert!(anew.token() > idle, "round {round}: the cached lock was of the old lease");
        drop((next, held));
    }
    assert!(cut_off.stats().lost >= 6, "{:?}", cut_off.stats());
}

/// Adds what a guard of this kind counts for, and looks that nobody is in who should not be.
async fn turn(record: &Record, inside: &AtomicU32, is_write: bool) {
    const WRITER: u32 = 1000;
    if is_write {
        let held = soon("granted", record.write()).await.unwrap();
        assert_eq!(inside.fetch_add(WRITER, Ordering::SeqCst), 0, "a writer beside somebody");
        tokio::time::sleep(Duration::from_micros(200)).await;
        inside.fetch_sub(WRITER, Ordering::SeqCst);
        assert!(held.is_valid());
    } else {
        let held = soon("granted", record.read()).await.unwrap();
        assert!(inside.fetch_add(1, Ordering::SeqCst) < WRITER, "a reader beside a writer");
        tokio::time::sleep(Duration::from_micros(200)).await;
        inside.fetch_sub(1, Ordering::SeqCst);
        assert!(held.is_valid());
    }
}

/// Nodes that read and write the same records, in this weather; at the end the server has nothing
/// that nobody has.
async fn crowd(weather: Weather) {
    let stage = Stage::new().await;
    let mut nodes = Vec::new();
    for seed in 1..=4 {
        nodes.push(stage.node_behind(Options::new(), weather, seed).await);
    }
    let inside: Arc<[AtomicU32; 3]> = Arc::default();
    let mut tasks = tokio::task::JoinSet::new();
    for (number, (locks, _)) in nodes.iter().enumerate() {
        for thread in 0..2_usize {
            let (locks, inside): (Locks, _) = (locks.clone(), Arc::clone(&inside));
            tasks.spawn(async move {
                let mut rng = fastrand::Rng::with_seed((number * 2 + thread) as u64);
                for _ in 0..60 {
                    let at = rng.usize(..inside.len());
                    let record = record(&locks, &format!("a:{at}"));
                    turn(&record, &inside[at], rng.bool()).await;
                }
            });
        }
    }
    while let Some(done) = tasks.join_next().await {
        done.expect("it took its turns");
    }
    let mut counts = [0; 2];
    for (locks, proxy) in &nodes {
        assert_eq!(locks.stats().lost, 0);
        locks.give_back_idle();
        counts[0] += proxy.counts().doubled;
        counts[1] += proxy.counts().delayed;
    }
    assert!(weather.double == 0.0 || counts[0] > 100, "{counts:?}");
    assert!(weather.delay == 0.0 || counts[1] > 100, "{counts:?}");
    until("no grant is left over", || stage.stats().claims == 0).await;
    for (locks, _) in nodes {
        soon("closed", locks.close()).await.unwrap();
    }
    until("no session is left over", || stage.stats().sessions == 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn service_f12_with_every_message_doubled_nothing_is_granted_twice() {
    crowd(Weather { double: 1.0, ..Weather::default() }).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn service_f13_messages_that_overtake_each_other_confuse_nobody() {
    let latest = Duration::from_millis(20);
    crowd(Weather { delay: 0.5, latest, ..Weather::default() }).await;
    crowd(Weather { delay: 0.4, double: 0.4, latest, ..Weather::default() }).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn service_f18_a_revoke_that_is_not_answered_holds_up_its_own_record_only() {
    let stage = Stage::new().await;
    let (deaf, proxy) = stage.node_behind(Options::new(), Weather::default(), 1).await;
    let is_deaf = Arc::new(AtomicBool::new(true));
    let hears_not = Arc::clone(&is_deaf);
    proxy.set_rule(move |message| match message {
        Message::Down(_, Event::Node(ToNode::Revoke { .. }))
            if hears_not.load(Ordering::SeqCst) =>
        {
            Fate::Lose
        }
        _ => Fate::Pass,
    });
    let other = stage.node(Options::new()).await;
    let cached = write(&deaf, "a:1").await.token();
    let waiting = waits(&other, "a:1");
    until("the revoke is sent again", || stage.stats().revoke_repeats >= 2).await;
    for id in 0..20 {
        drop(write(&other, &format!("b:{id}")).await);
        drop(write(&deaf, &format!("c:{id}")).await);
    }
    assert!(!waiting.is_finished(), "nobody has given it away");
    assert_eq!(deaf.stats().revokes, 0);
    is_deaf.store(false, Ordering::SeqCst);
    assert!(soon("it is answered", waiting).await.unwrap().token() > cached);
    assert_eq!(deaf.stats().lost, 0);
}

/// The TCP sockets of this machine with this port at one end, by both ends, for which the system
/// has set the timer that asks whether the other side is still there.
fn kept_alive(port: u16) -> Vec<(u16, u16)> {
    let table = std::fs::read_to_string("/proc/net/tcp").expect("this is Linux");
    let port_of = |at: &str| u16::from_str_radix(at.rsplit(':').next()?, 16).ok();
    let socket = |line: &str| {
        let words: Vec<_> = line.split_whitespace().collect();
        // Established, and the timer is that of keep-alives.
        let is_kept = words.get(3)? == &"01" && words.get(5)?.starts_with("02:");
        is_kept.then_some((port_of(words[1])?, port_of(words[2])?))
    };
    let sockets = table.lines().skip(1).filter_map(socket);
    sockets.filter(|(here, there)| *here == port || *there == port).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn service_f49_both_ends_of_a_connection_notice_a_peer_that_vanished() {
    let stage = Stage::new().await;
    let _node = stage.node(Options::new()).await;
    let port: u16 = stage.url().rsplit(':').next().unwrap().parse().unwrap();
    // While something is under way the system has another timer.
    until("both ends are kept alive", || {
        let kept = kept_alive(port);
        kept.iter().any(|(here, _)| *here == port) && kept.iter().any(|(_, there)| *there == port)
    })
    .await;
}
