//! F14: one story of two nodes, again and again, each time with another message lost, or with the
//! connection ended in the middle of it. It always ends in the same way.

use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use lockspan::{LockError, Locks, Options};
use lockspan_faults::proxy::{Fate, Proxy, Weather};
use lockspan_faults::stage::{Stage, soon};
use tokio::task::JoinSet;

use crate::{record, waits, write};

/// How many stories are told at the same time.
const AT_ONCE: usize = 16;

/// Every message of a story, printed if it ends badly.
#[derive(Clone)]
struct Log(Arc<Mutex<Vec<String>>>, Instant);

impl Log {
    fn note(&self, what: impl std::fmt::Display) {
        let line = format!("{:>9.3?} {what}", self.1.elapsed());
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(line);
    }
}

/// Belongs to the story; the copies belong to its networks.
struct Told {
    log: Log,
    ends_well: bool,
}

impl Drop for Told {
    fn drop(&mut self) {
        if !self.ends_well {
            let lines = self.log.0.lock().unwrap_or_else(PoisonError::into_inner);
            println!("{}", lines.join("\n"));
        }
    }
}

/// Tells the story with this fate for the message with this number; false if there are not so many.
async fn tell(at: usize, fate: Fate) -> bool {
    let mut stage = Stage::new().await;
    let count = Arc::new(AtomicUsize::new(0));
    let log = Log(Arc::default(), Instant::now());
    let mut told = Told { log: log.clone(), ends_well: false };
    let mut nodes = Vec::new();
    for seed in 1..=2 {
        // Longer than anything is waited for: what is lost is lost for another reason.
        let options = Options::new().lease(Duration::from_secs(40));
        let (locks, proxy): (Locks, Proxy) =
            stage.node_behind(options, Weather::default(), seed).await;
        let (count, log) = (Arc::clone(&count), log.clone());
        proxy.set_rule(move |message| {
            let number = count.fetch_add(1, Ordering::SeqCst);
            let fate = if number == at { fate } else { Fate::Pass };
            log.note(format_args!("{number:>3} node {seed} {message:?} {fate:?}"));
            fate
        });
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
    assert!(matches!(late, Err(LockError::Timeout(_))), "{late:?}, {fate:?} at {at}");
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
    log.note("the server is killed");
    stage.restart().await;
    log.note("it is back");
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
    told.ends_well = true;
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
