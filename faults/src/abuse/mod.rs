//! Clients that misbehave against a real server, and what a client beside them notices.
//!
//! Each [`Kind`] of misuse is made for some seconds against a server of its own, a `lockspan serve`
//! with users and a page, or a Redis where the same misuse exists there. A client that does nothing
//! wrong, the *innocent* client, locks and unlocks all the time, before and during the misuse, and
//! a health check asks the page. A [`Row`] has its latencies and the server's memory.
//!
//! The misbehaving clients are a process of their own, with the lowest priority: they would be on
//! another machine, so the processor time that they take here is not the server's fault.
//!
//! `cargo xtask bench abuse` measures all kinds. The tests run them in small, and look at counts
//! and bounds, never at times.

mod innocent;
mod kinds;
mod raw;
mod target;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context as _, Result};
use tokio::time::sleep;

use crate::process::Process;

pub use innocent::Seen;
pub use kinds::{Attack, Kind, Size};
pub use target::{Server, Target};

/// Who logs in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Who {
    /// Does nothing wrong.
    Alice,
    /// Has a datatype of his own, and may read Alice's.
    Bob,
    /// May do nothing.
    Carol,
}

impl Who {
    const ALL: [Self; 3] = [Self::Alice, Self::Bob, Self::Carol];

    fn name(self) -> &'static str {
        match self {
            Self::Alice => "alice",
            Self::Bob => "bob",
            Self::Carol => "carol",
        }
    }

    fn password(self) -> &'static str {
        match self {
            Self::Alice => "password-of-alice",
            Self::Bob => "password-of-bob",
            Self::Carol => "password-of-carol",
        }
    }

    fn rights(self) -> &'static str {
        match self {
            Self::Alice => "write = [\"doc\"]\n",
            Self::Bob => "write = [\"bob\"]\nread = [\"doc\"]\ninspect = [\"bob\"]\n",
            Self::Carol => "",
        }
    }
}

/// How a server is misused.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The program of this package: the misbehaving clients are a process of it.
    pub program: PathBuf,
    /// The binary `lockspan`.
    pub binary: PathBuf,
    /// How long the misuse lasts. The innocent client is watched for half of it before.
    pub time: Duration,
    /// How large the misuse is.
    pub size: Size,
}

/// What one misuse did to one server.
#[derive(Clone, Debug)]
pub struct Row {
    /// What the innocent client saw before it.
    pub before: Seen,
    /// What it saw during it.
    pub during: Seen,
    /// The server's memory before it, in bytes.
    pub memory_before: u64,
    /// The most memory that the server had during it, in bytes.
    pub memory_most: u64,
    /// Requests and connections of the misbehaving clients.
    pub requests: u64,
}

/// Starts a server and misuses it. All processes have ended when this returns, or is dropped.
pub async fn misuse(plan: &Plan, kind: Kind, server: Server) -> Result<Row> {
    let mut target = match server {
        Server::Lockspan => Target::lockspan(&plan.binary).await?,
        Server::Redis => Target::redis().await?,
    };
    let before = watch(&target, plan.time / 2, || Ok(())).await?;
    let memory_before = target.memory()?;
    let mut attack = attack(plan, kind, &target)?;
    let mut memory_most = memory_before;
    let during = watch(&target, plan.time, || {
        memory_most = memory_most.max(target.memory()?);
        Ok(())
    })
    .await;
    // Whatever it was that failed, a server that has ended is the reason.
    target.lives()?;
    let during = during?;
    attack.end_input();
    let said = attack.line().await.context("the attack ended early")?;
    let requests = said.parse().with_context(|| format!("the attack said {said:?}"))?;
    Ok(Row { before, during, memory_before, memory_most, requests })
}

fn attack(plan: &Plan, kind: Kind, target: &Target) -> Result<Process> {
    let (server, address) = (target.kind.name(), target.address.to_string());
    let (size, http) = (plan.size.0.to_string(), target.http.map(|http| http.to_string()));
    let mut words = vec!["misuse", "--kind", kind.name(), "--server", server];
    words.extend(["--address", &address, "--size", &size]);
    words.extend(http.iter().flat_map(|http| ["--http", http]));
    Process::start(&plan.program, &words)
}

/// Misbehaves until it `is_over`; returns how many requests and connections there were. This is
/// what the process of an attack does.
pub async fn attack_until(attack: Attack, is_over: Arc<AtomicBool>) -> Result<u64> {
    rustix::process::nice(19).context("the lowest priority")?;
    let requests = Arc::clone(&attack.requests);
    let over = async {
        while !is_over.load(Ordering::Relaxed) {
            sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::select! {
        ended = attack.run() => ended?,
        () = over => {}
    }
    Ok(requests.load(Ordering::Relaxed))
}

/// The innocent client's view for so long; `look` is called all the while.
async fn watch(
    target: &Target,
    time: Duration,
    mut look: impl FnMut() -> Result<()>,
) -> Result<Seen> {
    let is_over = Arc::new(AtomicBool::new(false));
    let clock = async {
        let end = tokio::time::Instant::now() + time;
        while tokio::time::Instant::now() < end && !is_over.load(Ordering::Relaxed) {
            look()?;
            sleep(Duration::from_millis(20)).await;
        }
        is_over.store(true, Ordering::Relaxed);
        anyhow::Ok(())
    };
    let (seen, clock) = tokio::join!(innocent::watch(target, Arc::clone(&is_over)), clock);
    clock?;
    seen
}
