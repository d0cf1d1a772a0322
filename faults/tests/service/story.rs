//! F14: one story of two nodes, again and again, each time with another message lost, or with the
//! connection ended in the middle of it. It always ends in the same way.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::time::Duration;

use lockspan::{LockError, Locks, Options};
use lockspan_faults::proxy::{Fate, Proxy, Weather};
use lockspan_faults::stage::{Stage, soon};
use tokio::task::JoinSet;

use crate::{record, waits, write};

/// How many stories are told at the same time.
const AT_ONCE: usize = 16;

/// Tells the story with this fate for the message with this number; false if there are not so many.
async fn tell(at: usize, fate: Fate) -> bool {
    let mut stage = Stage::new().await;
    let count = Arc::new(AtomicUsize::new(0));
    let mut nodes = Vec::new();
    for seed in 1..=2 {
        let options = Options::new().lease(Duration::from_secs(4));
        let (locks, proxy): (Locks, Proxy) =
            stage.node_behind(options, Weather::default(), seed).await;
        let count = Arc::clone(&count);
        proxy.set_rule(
            move |_| {
                if count.fetch_add(1, Ordering::SeqCst) == at { fate } else { Fate::Pass }
            },
        );
        nodes.push((locks, proxy));
    }
    let (one, two) = (&nodes[0].0, &nodes[1].0);
    let inside = AtomicU32::new(0);
    let alone = |what: &str| {
        assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0, "{what}, {fate:?} at {at}");
        inside.fetch_sub(1, Ordering::SeqCst);
    };

    // From one to the other and back.
    let first = write(one, "a:1").await;
    alone("first");
    let token = first.token();
    drop(first);
    let second = write(two, "a:1").await;
    alone("second");
    assert!(second.token() > token, "{fate:?} at {at}");

    // A wait that ends for want of time.
    let kept = write(two, "b:1").await;
    let there = record(one, "b:1");
    let late = soon("a timeout", there.write_timeout(Duration::from_millis(30))).await;
    assert!(matches!(late, Err(LockError::Timeout)), "{late:?}, {fate:?} at {at}");
    drop(kept);

    // The writer becomes a reader, and both read; one of them becomes the writer.
    let there = record(one, "a:1");
    let reader = second.downgrade();
    let beside = soon("read beside", there.read()).await.unwrap();
    assert!(reader.is_valid() && beside.is_valid());
    let upgrade = tokio::spawn(reader.upgrade());
    drop(beside);
    let writer = soon("upgraded", upgrade).await.unwrap().expect("nobody else wants to");
    alone("upgraded");

    // The server dies; who has it keeps it, who waits for it waits on.
    let waiting = waits(one, "a:1");
    let token = writer.token();
    stage.restart().await;
    assert!(writer.is_valid() && writer.token() == token, "{fate:?} at {at}");
    assert!(!waiting.is_finished(), "{fate:?} at {at}");
    drop(writer);
    let next = soon("after the restart", waiting).await.unwrap();
    alone("after the restart");
    assert!(next.token() > token, "{fate:?} at {at}");
    drop(next);
    drop(write(two, "a:1").await);
    for (locks, _) in &nodes {
        assert_eq!(locks.stats().lost, 0, "{fate:?} at {at}");
    }
    count.load(Ordering::SeqCst) > at
}

async fn tell_all(fate: Fate) -> usize {
    let mut from = 0;
    loop {
        let mut stories = JoinSet::new();
        for at in from..from + AT_ONCE {
            stories.spawn(tell(at, fate));
        }
        let mut is_over = false;
        while let Some(told) = stories.join_next().await {
            is_over |= !told.expect("the story ends well");
        }
        from += AT_ONCE;
        if is_over {
            return from;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn service_f14_any_message_may_be_lost() {
    assert!(tell_all(Fate::Lose).await > 20);
}

#[tokio::test(flavor = "multi_thread")]
async fn service_f14_any_connection_may_end_in_any_message() {
    assert!(tell_all(Fate::Cut).await > 20);
}
