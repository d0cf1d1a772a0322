//! A node with a large cache: it takes many records once and keeps them, idle, over the restarts of
//! the server. At the end it says how many it has lost.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::Result;
use lockspan::{ConnectError, Locks, Options};
use tokio::task::JoinSet;
use tokio::time::sleep;

/// Longer than the server is away for, however faults follow each other.
pub const LEASE: Duration = Duration::from_secs(15);

/// Tasks that fill the cache.
const TASKS: u32 = 32;

/// Fills the cache, waits until it is over, and prints `cached N lost N`.
pub async fn keep(url: String, records: u32, is_over: Arc<AtomicBool>) -> Result<()> {
    let locks = connect(&url, records).await?;
    let mut tasks = JoinSet::new();
    for task in 0..TASKS {
        let locks = locks.clone();
        tasks.spawn(async move {
            for number in (task..records).step_by(TASKS as usize) {
                drop(locks.record("hoard", number.to_string())?.write().await?);
            }
            anyhow::Ok(())
        });
    }
    while let Some(filled) = tasks.join_next().await {
        filled??;
    }
    println!("filled");
    while !is_over.load(Ordering::Relaxed) {
        sleep(Duration::from_millis(20)).await;
    }
    let stats = locks.stats();
    println!("cached {} lost {}", stats.records, stats.lost);
    // Whether the server has heard it does not matter: its lease ends by itself.
    let _ = locks.close().await;
    Ok(())
}

async fn connect(url: &str, records: u32) -> Result<Locks> {
    loop {
        let options = Options::new().lease(LEASE).name("hoard").idle(Duration::from_secs(86_400));
        match options.max_cached(records as usize * 2).connect(url).await {
            Ok(locks) => return Ok(locks),
            Err(ConnectError::Unreachable { .. }) => sleep(Duration::from_millis(20)).await,
            Err(why) => return Err(why.into()),
        }
    }
}
