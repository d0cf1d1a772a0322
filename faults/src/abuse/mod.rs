//! Clients that misbehave against a real server, and what a client beside them notices.
//!
//! Each [`Kind`] of misuse is made for some seconds against a server of its own, a `lockspan serve`
//! with users and a page. Where the same misuse exists on Redis, it is made there too, in the same
//! run. A client that does nothing wrong locks and unlocks all the time, before and during it, and
//! a health check asks the page. The report has its latencies and the server's memory.
//!
//! ```text
//! cargo xtask abuse
//! cargo run --release -p lockspan-faults -- abuse --seconds 5 --only slow-readers
//! ```
//!
//! The tests run the same in small and look at counts and bounds, never at times.

mod innocent;
mod kinds;
mod raw;
mod target;

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context as _, Result};
use tokio::time::sleep;

pub use innocent::Seen;
use kinds::Attack;
pub use kinds::{Kind, Size};
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

/// What a run is to be.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The binary `lockspan`.
    pub binary: PathBuf,
    /// How long each misuse lasts, and how long is measured before it.
    pub time: Duration,
    /// The kinds of misuse.
    pub kinds: Vec<Kind>,
    /// Whether Redis is misused beside it.
    pub with_redis: bool,
    /// A part of each misuse.
    pub size: Size,
}

/// What one misuse did to one server.
#[derive(Clone, Debug)]
pub struct Row {
    /// The misuse.
    pub kind: Kind,
    /// The server.
    pub server: Server,
    /// What the innocent client saw before it.
    pub before: Seen,
    /// What it saw during it.
    pub during: Seen,
    /// The server's memory before it, in bytes.
    pub memory_before: u64,
    /// The most that it had during it.
    pub memory_most: u64,
    /// Requests and connections of those who misbehave.
    pub requests: u64,
}

/// All of them.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// In the order in which they were made.
    pub rows: Vec<Row>,
}

/// Runs it. All processes have ended when this returns, or is dropped.
pub async fn run(plan: Plan) -> Result<Report> {
    let mut report = Report::default();
    for &kind in &plan.kinds {
        let servers: &[Server] = match plan.with_redis && kind.exists_on_redis() {
            true => &[Server::Lockspan, Server::Redis],
            false => &[Server::Lockspan],
        };
        for &server in servers {
            let row = misuse(&plan, kind, server).await;
            let row = row.with_context(|| format!("{} on {}", kind.name(), server.name()))?;
            eprintln!("{row}");
            report.rows.push(row);
        }
    }
    Ok(report)
}

async fn misuse(plan: &Plan, kind: Kind, server: Server) -> Result<Row> {
    let mut target = match server {
        Server::Lockspan => Target::lockspan(&plan.binary).await?,
        Server::Redis => Target::redis().await?,
    };
    let before = watch(&target, plan.time / 2, || Ok(())).await?;
    let memory_before = target.memory()?;
    let attack = Attack::new(kind, &target, plan.size);
    let requests = Arc::clone(&attack.requests);
    let attack = tokio::spawn(attack.run());
    let mut memory_most = memory_before;
    let during = watch(&target, plan.time, || {
        memory_most = memory_most.max(target.memory()?);
        Ok(())
    })
    .await;
    // One that has given up says why; the others are to go on until now.
    let is_over = attack.is_finished();
    attack.abort();
    let attack = attack.await;
    target.lives()?;
    let during = during?;
    if is_over {
        attack.context("the attack was aborted")?.context("the attack ended early")?;
    }
    let requests = requests.load(Ordering::Relaxed);
    Ok(Row { kind, server, before, during, memory_before, memory_most, requests })
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

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ms = |time: Duration| format!("{:.2}", time.as_secs_f64() * 1e3);
        let mib = |bytes: u64| bytes >> 20;
        let (before, during) = (&self.before, &self.during);
        let health = match (during.healthy, during.unhealthy) {
            (0, 0) => "–".to_owned(),
            (healthy, unhealthy) => format!("{healthy} of {}", healthy + unhealthy),
        };
        write!(
            f,
            "| {} | {} | {} | {} | {} | {} | {} | {} | {} | {} → {} | {health} |",
            self.kind.name(),
            self.server.name(),
            self.requests,
            during.turns.len(),
            ms(before.quantile(0.5)),
            ms(before.quantile(0.99)),
            ms(during.quantile(0.5)),
            ms(during.quantile(0.99)),
            ms(during.quantile(1.0)),
            mib(self.memory_before),
            mib(self.memory_most),
        )
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "| misuse | server | requests | turns of the innocent | p50 before, ms | p99 before | \
             p50 during | p99 during | max during | memory, MiB | health checks answered |"
        )?;
        writeln!(f, "|---|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|")?;
        self.rows.iter().try_for_each(|row| writeln!(f, "{row}"))
    }
}
