//! Clients that misbehave against a real server, and what a client beside them notices.
//!
//! Each [`Kind`] of misuse is made for some seconds against a server of its own, a `lockspan serve`
//! with users and a page. Where the same misuse exists on Redis, it is made there too, in the same
//! run. A client that does nothing wrong locks and unlocks all the time, before and during it, and
//! a health check asks the page. The report has its latencies and the server's memory.
//!
//! Those who misbehave are a process of their own, with the lowest priority: what it takes from the
//! processors of this machine is not what a server has to answer for. They would be elsewhere.
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

/// What a run is to be.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The program of this package, of which those who misbehave are processes.
    pub program: PathBuf,
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
    Ok(Row { kind, server, before, during, memory_before, memory_most, requests })
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
