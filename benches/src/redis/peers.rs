//! The clients that acquire and release one lock on Redis from this process, behind one interface.

use std::time::{Duration, Instant};

use lockspan::{Options, Record};
use rslock::LockManager;

use super::model::Model;
use crate::process::Process;
use crate::say;
use crate::set_nx::Redis;
use crate::timing::Stop;

/// Which client it is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Ours,
    /// Without a stay: each acquire and each release is a script.
    Strict,
    /// With caching.
    Cached,
    SetNx,
    Rslock,
    Model,
}

/// The peers, what they are called, and how they wait.
pub(crate) const PEERS: [(Kind, &str, &str); 3] = [
    (Kind::SetNx, "SET NX PX and compare-and-delete", "tries every 10 ms"),
    (Kind::Rslock, "rslock", "tries every 200 ms or sooner, its default"),
    (Kind::Model, "the data model's scripts", "tries every 10 ms"),
];

/// The pause between two attempts of a client that has no default of its own.
const POLL: Duration = Duration::from_millis(10);
/// Longer than any measurement.
const LEASE: Duration = Duration::from_secs(60);

/// A client with a connection of its own.
#[derive(Clone)]
pub(crate) enum Client {
    Ours(Record),
    SetNx(Redis, String),
    Rslock(LockManager),
    Model(Model, String),
}

impl Client {
    pub(crate) async fn connect(kind: Kind, redis: &Process, at: usize) -> Result<Self, String> {
        let value = format!("client-{at}");
        Ok(match kind {
            Kind::Ours | Kind::Strict | Kind::Cached => {
                let mut options = Options::new().lease(LEASE).caching(kind == Kind::Cached);
                if kind == Kind::Strict {
                    options = options.stay(0, Duration::ZERO);
                }
                let locks = options.connect(&super::url(redis)).await.map_err(say)?;
                let id = match kind {
                    Kind::Cached => "cached",
                    Kind::Strict => "strict",
                    _ => "ours",
                };
                Self::Ours(locks.record("bench", id).map_err(say)?)
            }
            Kind::SetNx => Self::SetNx(Redis::connect(redis.address).await?, value),
            Kind::Rslock => Self::Rslock(LockManager::new(vec![super::url(redis)])),
            Kind::Model => Self::Model(Model::connect(redis).await?, value),
        })
    }

    /// Waits for the lock, and gives it back after a time. How long it waited, unless it is over
    /// before.
    pub(crate) async fn turn(
        &mut self,
        hold: Duration,
        stop: Option<&Stop>,
    ) -> Result<Option<Duration>, String> {
        let start = Instant::now();
        match self {
            Self::Ours(record) => {
                let held = record.write().await.map_err(say)?;
                let waited = start.elapsed();
                rest(hold).await;
                drop(held);
                Ok(Some(waited))
            }
            Self::Rslock(manager) => loop {
                match manager.lock("bench:rslock", LEASE).await {
                    Ok(lock) => {
                        let waited = start.elapsed();
                        rest(hold).await;
                        manager.unlock(&lock).await;
                        return Ok(Some(waited));
                    }
                    // It has tried three times, with pauses.
                    Err(rslock::LockError::Unavailable) if !is_over(stop) => {}
                    Err(rslock::LockError::Unavailable) => return Ok(None),
                    Err(why) => return Err(say(why)),
                }
            },
            Self::SetNx(redis, value) => {
                while !redis.try_lock("bench:set_nx", value).await? {
                    if is_over(stop) {
                        return Ok(None);
                    }
                    tokio::time::sleep(POLL).await;
                }
                let waited = start.elapsed();
                rest(hold).await;
                redis.unlock("bench:set_nx", value).await?;
                Ok(Some(waited))
            }
            Self::Model(model, value) => {
                while !model.try_lock("bench:model", value).await? {
                    if is_over(stop) {
                        return Ok(None);
                    }
                    tokio::time::sleep(POLL).await;
                }
                let waited = start.elapsed();
                rest(hold).await;
                model.unlock("bench:model", value).await?;
                Ok(Some(waited))
            }
        }
    }
}

/// Does nothing for a time, and not even that if there is none. A timer of the runtime would take
/// up to a millisecond more, which redis-py's clients do not.
pub(crate) async fn rest(time: Duration) {
    if !time.is_zero() {
        // Only a runtime that ends cuts it short.
        let _ = tokio::task::spawn_blocking(move || std::thread::sleep(time)).await;
    }
}

fn is_over(stop: Option<&Stop>) -> bool {
    stop.is_some_and(Stop::is_over)
}
