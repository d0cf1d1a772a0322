//! The lives of one node: it connects, its tasks and threads take their turns, it ends.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use lockspan_client::{Handoff, Locks, Options};
use tokio::time::{Instant, sleep};

use crate::rng::Rng;
use crate::turns::Worker;
use crate::watch::Watch;

/// What a round consists of.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    pub(crate) nodes: usize,
    pub(crate) records: usize,
    pub(crate) lives: usize,
    pub(crate) tasks: usize,
    pub(crate) threads: usize,
    pub(crate) turns: usize,
    pub(crate) lease: Duration,
    /// How long after the end a record may be in the way.
    pub(crate) free_in: Duration,
}

impl Default for Plan {
    fn default() -> Self {
        let long = Duration::from_secs(30);
        let (nodes, records, lives) = (4, 3, 4);
        Self { nodes, records, lives, tasks: 5, threads: 2, turns: 60, lease: long, free_in: long }
    }
}

fn options(plan: &Plan, rng: &mut Rng) -> Options {
    let options = Options::new().lease(plan.lease).caching(!rng.once_in(3));
    let options = match rng.below(4) {
        0 => options.stay(0, Duration::ZERO),
        1 => options.stay(1, Duration::from_secs(1)),
        _ => options,
    };
    let options = if rng.once_in(4) { options.max_cached(1) } else { options };
    let options = if rng.once_in(4) { options.idle(Duration::ZERO) } else { options };
    if rng.once_in(3) { options.handoff(Handoff::Retry) } else { options }
}

/// One node, from the first of its lives to the last.
pub(crate) async fn live(url: String, plan: Plan, watch: Arc<Watch>, mut rng: Rng, node: usize) {
    for life in 0..plan.lives {
        let locks = connect(&url, &plan, &mut rng).await;
        let is_closed = Arc::new(AtomicBool::new(false));
        let mut tasks = Vec::new();
        for at in 0..plan.tasks + plan.threads {
            let worker = Worker {
                locks: locks.clone(),
                watch: Arc::clone(&watch),
                records: plan.records,
                turns: plan.turns,
                is_closed: Arc::clone(&is_closed),
                owners: ((node * 100 + life) * 100 + at) as u64 * 1_000_000,
                rng: rng.split(),
            };
            tasks.push(if at < plan.tasks {
                tokio::spawn(worker.run())
            } else {
                tokio::task::spawn_blocking(|| worker.block())
            });
        }
        if rng.once_in(2) {
            sleep(Duration::from_micros(rng.below(100_000))).await;
            is_closed.store(true, Ordering::SeqCst);
            // Behind a broken connection it is not known whether it was heard.
            let _ = locks.clone().close().await;
        }
        for task in tasks {
            task.await.unwrap();
        }
        if !is_closed.load(Ordering::SeqCst) {
            let late = Instant::now() + Duration::from_secs(30);
            while locks.stats().records > 0 {
                assert!(
                    Instant::now() < late,
                    "a node keeps what nobody uses: {:?}",
                    locks.stats()
                );
                locks.give_back_idle();
                sleep(Duration::from_millis(1)).await;
            }
        }
    }
}

async fn connect(url: &str, plan: &Plan, rng: &mut Rng) -> Locks {
    let options = options(plan, rng);
    let late = Instant::now() + Duration::from_secs(30);
    loop {
        // The connection may break while it begins.
        match options.clone().connect(url).await {
            Ok(locks) => return locks,
            Err(why) => assert!(Instant::now() < late, "{why}"),
        }
    }
}
