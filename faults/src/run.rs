//! A server, nodes under load, and faults: who is killed, stopped, cut off, in an order that
//! follows from a seed. At the end there is a verdict.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use fastrand::Rng;
use tokio::time::{Instant, sleep};

use crate::check::{self, Verdict};
use crate::clock;
use crate::journal::{self, Entry};
use crate::process::{PATIENCE, Process, ServerProcess, info};
use crate::proxy::Proxy;

/// Records of a run: few, so that nodes meet.
const RECORDS: u32 = 12;
/// Tasks of a node.
const TASKS: u32 = 4;
/// What each node must have got after the faults have stopped.
const PROGRESS: usize = 30;

/// What a run is to be.
#[derive(Clone, Debug)]
pub struct Plan {
    /// How long there are faults.
    pub time: Duration,
    /// How many nodes there are.
    pub nodes: u32,
    /// For all choices.
    pub seed: u64,
    /// The program of this package.
    pub program: PathBuf,
}

/// A kind of fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fault {
    /// SIGKILL to a node, which is started again.
    KillNode,
    /// SIGKILL to the server, which is started again.
    KillServer,
    /// SIGSTOP to a node for longer than its lease, then SIGCONT.
    PauseNodePastLease,
    /// SIGSTOP to a node for less, then SIGCONT.
    PauseNode,
    /// SIGSTOP to the server, for less or more than a lease.
    PauseServer,
    /// A node's connection ends in the middle of a frame.
    Cut,
    /// A node's network swallows everything, for less or more than its lease.
    Partition,
}

impl Fault {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::KillNode,
        Self::KillServer,
        Self::PauseNodePastLease,
        Self::PauseNode,
        Self::PauseServer,
        Self::Cut,
        Self::Partition,
    ];

    fn name(self) -> &'static str {
        match self {
            Self::KillNode => "node killed",
            Self::KillServer => "server killed",
            Self::PauseNodePastLease => "node stopped past its lease",
            Self::PauseNode => "node stopped for less",
            Self::PauseServer => "server stopped",
            Self::Cut => "connection cut in a frame",
            Self::Partition => "node cut off",
        }
    }
}

/// What came of it.
#[derive(Clone, Debug)]
pub struct Report {
    /// With which seed.
    pub seed: u64,
    /// How often each fault was.
    pub faults: BTreeMap<Fault, u64>,
    /// The judge's word.
    pub verdict: Verdict,
    /// The longest wait for a record, from when the faults had stopped.
    pub longest_wait: Duration,
}

impl Report {
    /// Whether everything was as promised.
    #[must_use]
    pub fn is_good(&self) -> bool {
        self.verdict.is_good()
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "seed {}\n", self.seed)?;
        writeln!(f, "| what | count |\n|---|---|")?;
        for fault in Fault::ALL {
            let count = self.faults.get(&fault).copied().unwrap_or_default();
            writeln!(f, "| {} | {count} |", fault.name())?;
        }
        let verdict = &self.verdict;
        writeln!(f, "| acquisitions | {} |", verdict.acquisitions)?;
        writeln!(f, "| guards lost while held | {} |", verdict.lost)?;
        writeln!(f, "| writes accepted | {} |", verdict.writes)?;
        writeln!(f, "| writes refused by the fence | {} |", verdict.refused)?;
        writeln!(f, "| fenced violations | {} |", verdict.fenced_violations.len())?;
        writeln!(f, "| lease violations | {} |", verdict.lease_violations.len())?;
        write!(f, "| longest wait after the faults | {:?} |", self.longest_wait)?;
        let wrong = verdict.fenced_violations.iter().chain(&verdict.lease_violations);
        for wrong in wrong.take(20) {
            write!(f, "\n{wrong}")?;
        }
        Ok(())
    }
}

/// One node after the other, each behind the same network.
struct Slot {
    proxy: Proxy,
    process: Option<Process>,
    lease: Duration,
    /// How many were here.
    count: u32,
    /// Something is done to it that has to be undone.
    is_busy: bool,
}

/// How a fault ends.
#[derive(Clone, Copy, Debug)]
enum End {
    StartNode(usize),
    ResumeNode(usize),
    Heal(usize),
    StartServer,
    ResumeServer,
}

struct Run {
    plan: Plan,
    folder: tempfile::TempDir,
    rng: Rng,
    server: Option<ServerProcess>,
    address: std::net::SocketAddr,
    is_server_busy: bool,
    slots: Vec<Slot>,
    ends: Vec<(Instant, End)>,
    faults: BTreeMap<Fault, u64>,
}

/// Runs it. All processes have ended when this returns, or is dropped.
pub async fn run(plan: Plan) -> Result<Report> {
    let folder = tempfile::tempdir()?;
    for name in ["data", "store", "journals"] {
        std::fs::create_dir(folder.path().join(name))?;
    }
    let free = "127.0.0.1:0".parse()?;
    let server = ServerProcess::start(&plan.program, &folder.path().join("data"), free).await?;
    let (address, rng) = (server.address, Rng::with_seed(plan.seed));
    let mut run = Run {
        plan,
        folder,
        rng,
        server: Some(server),
        address,
        is_server_busy: false,
        slots: Vec::new(),
        ends: Vec::new(),
        faults: BTreeMap::new(),
    };
    for at in 0..run.plan.nodes as usize {
        let proxy = Proxy::start(address, run.rng.u64(..)).await?;
        let lease = Duration::from_millis(run.rng.u64(1000..2000));
        run.slots.push(Slot { proxy, process: None, lease, count: 0, is_busy: false });
        run.start_node(at)?;
    }
    run.break_things().await?;
    run.mend_all().await?;
    run.finish().await
}

impl Run {
    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn journal(&self, at: usize) -> PathBuf {
        self.path("journals").join(format!("n{at}-{}", self.slots[at].count))
    }

    fn start_node(&mut self, at: usize) -> Result<()> {
        self.slots[at].count += 1;
        let slot = &self.slots[at];
        let text = |name: &str, value: String| [name.to_owned(), value];
        let words = [
            text("--url", slot.proxy.url()),
            text("--name", format!("n{at}-{}", slot.count)),
            text("--lease", slot.lease.as_millis().to_string()),
            text("--records", RECORDS.to_string()),
            text("--tasks", TASKS.to_string()),
            text("--seed", self.rng.u64(..).to_string()),
        ];
        let (store, journal) = (self.path("store"), self.journal(at));
        let paths = ["--store".as_ref(), store.as_ref(), "--journal".as_ref(), journal.as_ref()];
        let words = words.as_flattened().iter().map(OsStr::new);
        let words: Vec<_> = [OsStr::new("node")].into_iter().chain(words).chain(paths).collect();
        self.slots[at].process = Some(Process::start(&self.plan.program, &words)?);
        Ok(())
    }

    /// Each kind once, then whatever comes.
    async fn break_things(&mut self) -> Result<()> {
        let until = Instant::now() + self.plan.time;
        let mut first = Fault::ALL.to_vec();
        self.rng.shuffle(&mut first);
        while Instant::now() < until || !first.is_empty() {
            let (random, at) =
                (self.rng.usize(..Fault::ALL.len()), self.rng.usize(..self.slots.len()));
            let fault = first.last().copied().unwrap_or(Fault::ALL[random]);
            if self.begin(fault, at).await? {
                *self.faults.entry(fault).or_default() += 1;
                first.pop();
            }
            sleep(Duration::from_millis(self.rng.u64(20..1200))).await;
            self.mend(|due| due <= Instant::now()).await?;
            self.look_after_processes()?;
        }
        Ok(())
    }

    /// Does it, unless whom it would hit is hit already.
    async fn begin(&mut self, fault: Fault, at: usize) -> Result<bool> {
        let lease = self.slots[at].lease;
        let some = lease.mul_f64(self.rng.f64());
        let is_of_server = matches!(fault, Fault::KillServer | Fault::PauseServer);
        let is_busy =
            if is_of_server { &mut self.is_server_busy } else { &mut self.slots[at].is_busy };
        if std::mem::replace(is_busy, true) {
            return Ok(false);
        }
        let slot = &mut self.slots[at];
        let process = slot.process.as_ref().context("the node is gone");
        let server = self.server.as_ref().context("the server is gone");
        let (end, after) = match fault {
            Fault::KillNode => {
                slot.process.take().context("the node is gone")?.kill().await?;
                (End::StartNode(at), some)
            }
            Fault::KillServer => {
                self.server.take().context("the server is gone")?.process.kill().await?;
                (End::StartServer, some / 2)
            }
            Fault::PauseNodePastLease => {
                process?.stop()?;
                (End::ResumeNode(at), lease.mul_f64(1.15) + some)
            }
            Fault::PauseNode => {
                process?.stop()?;
                (End::ResumeNode(at), some.mul_f64(0.6))
            }
            Fault::PauseServer => {
                server?.process.stop()?;
                (End::ResumeServer, some.mul_f64(1.5))
            }
            Fault::Cut => {
                slot.proxy.cut();
                slot.is_busy = false;
                return Ok(true);
            }
            Fault::Partition => {
                slot.proxy.partition();
                (End::Heal(at), some * 2)
            }
        };
        self.ends.push((Instant::now() + after, end));
        Ok(true)
    }

    /// Ends the faults that are due.
    async fn mend(&mut self, is_due: impl Fn(Instant) -> bool) -> Result<()> {
        let ends = std::mem::take(&mut self.ends);
        let (due, later) = ends.into_iter().partition(|&(due, _)| is_due(due));
        self.ends = later;
        let due: Vec<_> = due;
        for (_, end) in due {
            match end {
                End::StartNode(at) => self.start_node(at)?,
                End::ResumeNode(at) => {
                    self.slots[at].process.as_ref().context("the node is gone")?.resume()?;
                }
                End::Heal(at) => self.slots[at].proxy.heal(),
                End::StartServer => {
                    let data = self.path("data");
                    let program = self.plan.program.clone();
                    let server = ServerProcess::start(&program, &data, self.address).await;
                    self.server = Some(server.context("the server does not come back")?);
                }
                End::ResumeServer => {
                    self.server.as_ref().context("the server is gone")?.process.resume()?;
                }
            }
            match end {
                End::StartNode(at) | End::ResumeNode(at) | End::Heal(at) => {
                    self.slots[at].is_busy = false;
                }
                End::StartServer | End::ResumeServer => self.is_server_busy = false,
            }
        }
        Ok(())
    }

    async fn mend_all(&mut self) -> Result<()> {
        self.mend(|_| true).await
    }

    /// Nobody ends by itself.
    fn look_after_processes(&mut self) -> Result<()> {
        for (at, slot) in self.slots.iter_mut().enumerate() {
            if let Some(process) = &mut slot.process
                && let Some(status) = process.ended()?
            {
                bail!("node {at} has ended by itself: {status}");
            }
        }
        if let Some(server) = &mut self.server
            && let Some(status) = server.process.ended()?
        {
            bail!("the server has ended by itself: {status}");
        }
        Ok(())
    }

    /// Everybody goes on, everybody ends, nothing is left.
    async fn finish(mut self) -> Result<Report> {
        let calm = clock::now();
        let deadline = Instant::now() + PATIENCE;
        for at in 0..self.slots.len() {
            while since(&self.journal(at), calm)?.len() < PROGRESS {
                self.look_after_processes()?;
                if Instant::now() > deadline {
                    let got = since(&self.journal(at), calm)?.len();
                    let seed = self.plan.seed;
                    bail!(
                        "node {at} got {got} records in {PATIENCE:?} without a fault, seed {seed}"
                    );
                }
                sleep(Duration::from_millis(100)).await;
            }
        }
        for (at, slot) in self.slots.iter_mut().enumerate() {
            let process = slot.process.take().context("the node is gone")?;
            process.finish().await.with_context(|| format!("node {at}"))?;
        }
        nothing_is_left(self.address).await?;
        self.server.take().context("the server is gone")?.process.finish().await?;
        let verdict = check::check(&self.path("store"), &self.path("journals"))?;
        let mut longest_wait = Duration::ZERO;
        for path in check::files(&self.path("journals"))? {
            let waits = since(&path, calm)?;
            longest_wait = waits.into_iter().fold(longest_wait, Duration::max);
        }
        let (seed, faults) = (self.plan.seed, self.faults);
        Ok(Report { seed, faults, verdict, longest_wait })
    }
}

/// The waits that ended after a moment, counted from then.
fn since(journal: &Path, moment: u64) -> Result<Vec<Duration>> {
    if !journal.exists() {
        return Ok(Vec::new());
    }
    let waits = journal::read(journal)?.into_iter().filter_map(|entry| match entry {
        Entry::Held(held) if held.begin > moment => {
            Some(Duration::from_nanos(held.begin - held.asked.max(moment)))
        }
        _ => None,
    });
    Ok(waits.collect())
}

/// The server forgets everybody.
async fn nothing_is_left(server: std::net::SocketAddr) -> Result<()> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let info = info(server).await?;
        let left = ["sessions", "claims", "records"].map(|name| info.get(name).copied());
        if left == [Some(0); 3] {
            return Ok(());
        }
        if Instant::now() > deadline {
            bail!("when all had gone, sessions, claims and records were {left:?}");
        }
        sleep(Duration::from_millis(50)).await;
    }
}
