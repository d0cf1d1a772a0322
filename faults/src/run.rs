//! A server, nodes under load, and faults: who is killed, stopped, cut off, in an order that
//! follows from a seed. At the end there is a verdict.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use fastrand::Rng;
use lockspan_protocol::SessionId;
use tokio::time::{Instant, sleep};

use crate::check::{self, Verdict};
use crate::clock;
use crate::damage::{self, Undamaged};
use crate::foreign::Foreign;
use crate::hoard;
use crate::journal::{self, Closed, Entry, Journal};
use crate::process::{PATIENCE, Process, ServerProcess, info};
use crate::proxy::{Fate, Message, Proxy};
use crate::supervised;

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
    /// How many idle records one more node has in its cache.
    pub cached: u32,
}

impl Plan {
    /// `lockspan`, if it is beside the program of this package.
    #[must_use]
    pub fn cli(&self) -> Option<PathBuf> {
        let cli = self.program.with_file_name("lockspan");
        cli.exists().then_some(cli)
    }
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
    /// Another connection, which knows its secret, closes a node's session.
    ForeignClose,
    /// Another connection releases a grant of a node.
    ForeignRelease,
    /// A node forks, and the child tries what its parent has cached.
    Fork,
    /// `lockspan run` is stopped for longer than its lease, then continued.
    StopSupervisor,
    /// `lockspan run` is killed, its command is not.
    KillSupervisor,
    /// SIGKILL to the server, and one bit of its data file is changed before it is started again.
    DamageData,
    /// SIGKILL to the server, and the end of its data file is cut off before it is started again.
    /// The server may then know no session, and no client can tell it what it holds.
    CutData,
    /// A node does not drive the runtime of its connection, for less or more than its lease.
    UndrivenRuntime,
}

impl Fault {
    /// All of them.
    pub const ALL: [Self; 15] = [
        Self::KillNode,
        Self::KillServer,
        Self::PauseNodePastLease,
        Self::PauseNode,
        Self::PauseServer,
        Self::Cut,
        Self::Partition,
        Self::ForeignClose,
        Self::ForeignRelease,
        Self::Fork,
        Self::StopSupervisor,
        Self::KillSupervisor,
        Self::DamageData,
        Self::CutData,
        Self::UndrivenRuntime,
    ];

    /// Whether it needs the program `lockspan`.
    #[must_use]
    pub fn needs_cli(self) -> bool {
        matches!(self, Self::StopSupervisor | Self::KillSupervisor)
    }

    fn name(self) -> &'static str {
        match self {
            Self::KillNode => "node killed",
            Self::KillServer => "server killed",
            Self::PauseNodePastLease => "node stopped past its lease",
            Self::PauseNode => "node stopped for less",
            Self::PauseServer => "server stopped",
            Self::Cut => "connection cut in a frame",
            Self::Partition => "node cut off",
            Self::ForeignClose => "session closed by a stranger",
            Self::ForeignRelease => "grant released by a stranger",
            Self::Fork => "node forked",
            Self::StopSupervisor => "`lockspan run` stopped past its lease",
            Self::KillSupervisor => "`lockspan run` killed",
            Self::DamageData => "server killed and a bit of its data file changed",
            Self::CutData => "server killed and its data file cut off",
            Self::UndrivenRuntime => "runtime of a connection not driven",
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
    /// Damaged data files that the server refused; with the others it went on.
    pub refused_data: u64,
    /// Commands of `lockspan run` that were inside.
    pub commands: u64,
    /// Idle records in the large cache, after the restarts that it has to survive.
    pub cached: u64,
    /// Records that the large cache has lost, over those restarts.
    pub lost_cached: u64,
    /// The judge's word.
    pub verdict: Verdict,
    /// The longest wait for a record, from when the faults had stopped.
    pub longest_wait: Duration,
}

impl Report {
    /// Whether everything was as promised.
    #[must_use]
    pub fn is_good(&self) -> bool {
        self.verdict.is_good() && self.lost_cached == 0
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
        writeln!(f, "| damaged data files refused | {} |", self.refused_data)?;
        writeln!(f, "| commands of `lockspan run` inside | {} |", self.commands)?;
        writeln!(f, "| records in the large cache | {} |", self.cached)?;
        writeln!(f, "| of these lost over the restarts | {} |", self.lost_cached)?;
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
    /// The last session that was seen on its way.
    session: Arc<Mutex<Option<SessionId>>>,
}

impl Slot {
    /// The connections of every other node are in a runtime apart.
    fn is_apart(at: usize) -> bool {
        at.is_multiple_of(2)
    }

    fn session(&self) -> Option<SessionId> {
        *self.session.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How a fault ends.
#[derive(Clone, Copy, Debug)]
enum End {
    StartNode(usize),
    ResumeNode(usize),
    Heal(usize),
    StartServer,
    ResumeServer,
    /// The runtime of its connection is driven again.
    Driven(usize),
    StopSupervisor,
    ResumeSupervisor,
    KillSupervisor,
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
    forker: Option<Process>,
    hoard: Option<Process>,
    supervisor: Option<Process>,
    supervisors: u32,
    undamaged: Option<Undamaged>,
    refused_data: u64,
    notes: Journal,
}

/// Runs it. All processes have ended when this returns, or is dropped.
pub async fn run(plan: Plan) -> Result<Report> {
    let folder = tempfile::tempdir()?;
    for name in ["data", "store", "journals"] {
        std::fs::create_dir(folder.path().join(name))?;
    }
    let free = "127.0.0.1:0".parse()?;
    let (data, longest) = (folder.path().join("data"), Some(hoard::LEASE));
    let server = ServerProcess::start_or_refuse(&plan.program, &data, free, longest).await?;
    let server = server.context("it refuses an empty folder")?;
    let notes = Journal::create(&folder.path().join("journals/run"))?;
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
        forker: None,
        hoard: None,
        supervisor: None,
        supervisors: 0,
        undamaged: None,
        refused_data: 0,
        notes,
    };
    run.start_others()?;
    for at in 0..run.plan.nodes as usize {
        let proxy = Proxy::start(address, run.rng.u64(..)).await?;
        let lease = Duration::from_millis(run.rng.u64(1000..2000));
        let session: Arc<Mutex<Option<SessionId>>> = Arc::default();
        let seen = Arc::clone(&session);
        proxy.set_rule(move |message| {
            if let Message::Up(session, _) = message {
                *seen.lock().unwrap_or_else(PoisonError::into_inner) = Some(session);
            }
            Fate::Pass
        });
        run.slots.push(Slot { proxy, process: None, lease, count: 0, is_busy: false, session });
        run.start_node(at)?;
    }
    // The large cache is judged before the first data file is cut off: a server that has lost its
    // list of sessions can't let the cache re-assert anything.
    let time = run.plan.time;
    run.break_things(time * 3 / 4, |fault| fault != Fault::CutData).await?;
    run.mend_all().await?;
    let cache = run.finish_hoard().await.context("the large cache")?;
    run.break_things(time / 4, |_| true).await?;
    run.mend_all().await?;
    run.finish(cache).await
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
            text("--apart", Slot::is_apart(at).to_string()),
        ];
        let (store, journal) = (self.path("store"), self.journal(at));
        let paths = ["--store".as_ref(), store.as_ref(), "--journal".as_ref(), journal.as_ref()];
        let words = words.as_flattened().iter().map(OsStr::new);
        let words: Vec<_> = [OsStr::new("node")].into_iter().chain(words).chain(paths).collect();
        self.slots[at].process = Some(Process::start(&self.plan.program, &words)?);
        Ok(())
    }

    /// The node that forks and the node with the large cache.
    fn start_others(&mut self) -> Result<()> {
        let url = format!("lockspan://{}", self.address);
        let (store, journal) = (self.path("store"), self.path("journals").join("forker"));
        let records = RECORDS.to_string();
        let words: [&OsStr; 6] = [
            "holds".as_ref(),
            url.as_ref(),
            "forker".as_ref(),
            store.as_ref(),
            journal.as_ref(),
            records.as_ref(),
        ];
        let forker = self.plan.program.with_file_name("forker");
        self.forker = Some(Process::start(&forker, &words)?);
        let cached = self.plan.cached.to_string();
        let words = ["hoard", "--url", &url, "--records", &cached];
        self.hoard = Some(Process::start(&self.plan.program, &words)?);
        Ok(())
    }

    /// `lockspan run` of a command on one of the records.
    fn start_supervisor(&mut self) -> Result<()> {
        self.supervisors += 1;
        let cli = self.plan.cli().context("there is no program lockspan")?;
        let url = format!("lockspan://{}", self.address);
        let name = format!("s{}", self.supervisors);
        let journal = self.path("journals").join(&name);
        let (record, seed) = (self.rng.u32(..RECORDS).to_string(), self.rng.u64(..).to_string());
        let words = ["supervise", "--url", &url, "--record", &record, "--name", &name];
        let words = words.into_iter().chain(["--seed", &seed]).map(OsStr::new);
        let store = self.path("store");
        let paths: [&OsStr; 6] = [
            "--cli".as_ref(),
            cli.as_ref(),
            "--store".as_ref(),
            store.as_ref(),
            "--journal".as_ref(),
            journal.as_ref(),
        ];
        let words: Vec<_> = words.chain(paths).collect();
        self.supervisor = Some(Process::start(&self.plan.program, &words)?);
        Ok(())
    }

    /// A stranger closes a node's session, or releases a grant of whoever has it.
    async fn meddle(&mut self, fault: Fault, at: usize) -> Result<bool> {
        if self.is_server_busy {
            return Ok(false);
        }
        let mut foreign = Foreign::connect(self.address).await?;
        let sent = clock::now();
        let (at, record) = if fault == Fault::ForeignClose {
            let Some(session) = self.slots[at].session() else { return Ok(false) };
            if !foreign.close(session).await? {
                return Ok(false);
            }
            (at, None)
        } else {
            let number = self.rng.u32(..RECORDS);
            let record = format!("r:{number}");
            let Some(seq) = foreign.grant(&record).await? else { return Ok(false) };
            let mut released = None;
            for (at, slot) in self.slots.iter().enumerate() {
                if let Some(session) = slot.session()
                    && foreign.release(session, &record, seq).await?
                {
                    released = Some(at);
                    break;
                }
            }
            let Some(at) = released else { return Ok(false) };
            (at, Some(format!("r{number}")))
        };
        let slot = &self.slots[at];
        let lease = u64::try_from(slot.lease.as_nanos())?;
        let (node, until) = (format!("n{at}-{}", slot.count), clock::now() + lease);
        self.notes.write(&Entry::Closed(Closed { node, record, sent, until }))?;
        Ok(true)
    }

    /// Each allowed kind of fault once, then kinds drawn at random until the time is over.
    async fn break_things(&mut self, time: Duration, is_allowed: fn(Fault) -> bool) -> Result<()> {
        let until = Instant::now() + time;
        let mut all = Fault::ALL.to_vec();
        let has_cli = self.plan.cli().is_some();
        all.retain(|&fault| is_allowed(fault) && (has_cli || !fault.needs_cli()));
        let mut first = all.clone();
        self.rng.shuffle(&mut first);
        while Instant::now() < until || !first.is_empty() {
            let (random, at) = (self.rng.usize(..all.len()), self.rng.usize(..self.slots.len()));
            let fault = first.last().copied().unwrap_or(all[random]);
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
        match fault {
            Fault::ForeignClose | Fault::ForeignRelease => return self.meddle(fault, at).await,
            Fault::Fork => {
                let forker = self.forker.as_mut().context("the forker is gone")?;
                let said = forker.ask("fork").await?;
                ensure!(said == "forked", "the forker said {said:?}");
                return Ok(true);
            }
            Fault::StopSupervisor | Fault::KillSupervisor => {
                if self.supervisor.is_some() {
                    return Ok(false);
                }
                self.start_supervisor()?;
                let is_stop = fault == Fault::StopSupervisor;
                let end = if is_stop { End::StopSupervisor } else { End::KillSupervisor };
                self.ends.push((Instant::now() + some, end));
                return Ok(true);
            }
            Fault::UndrivenRuntime if !Slot::is_apart(at) => return Ok(false),
            _ => {}
        }
        let is_of_server = matches!(
            fault,
            Fault::KillServer | Fault::PauseServer | Fault::DamageData | Fault::CutData
        );
        let is_busy =
            if is_of_server { &mut self.is_server_busy } else { &mut self.slots[at].is_busy };
        if std::mem::replace(is_busy, true) {
            return Ok(false);
        }
        let slot = &mut self.slots[at];
        let process = slot.process.as_mut().context("the node is gone");
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
            Fault::DamageData | Fault::CutData => {
                self.server.take().context("the server is gone")?.process.kill().await?;
                let data = self.folder.path().join("data");
                let rng = &mut self.rng;
                let undamaged = damage::damage(&data, |bytes| match fault {
                    Fault::CutData => damage::cut(bytes, rng),
                    _ => damage::flip(bytes, rng),
                })?;
                self.undamaged = Some(undamaged);
                (End::StartServer, some / 4)
            }
            Fault::UndrivenRuntime => {
                process?.tell(&format!("undriven {}", (some * 2).as_millis())).await?;
                (End::Driven(at), some * 2)
            }
            Fault::ForeignClose
            | Fault::ForeignRelease
            | Fault::Fork
            | Fault::StopSupervisor
            | Fault::KillSupervisor => return Ok(false),
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
                    self.start_server().await.context("the server does not come back")?;
                }
                End::ResumeServer => {
                    self.server.as_ref().context("the server is gone")?.process.resume()?;
                }
                End::Driven(_) => {}
                End::StopSupervisor => {
                    self.supervisor.as_ref().context("the supervisor is gone")?.stop()?;
                    let time = supervised::LEASE.mul_f64(1.15 + self.rng.f64());
                    self.ends.push((Instant::now() + time, End::ResumeSupervisor));
                }
                End::ResumeSupervisor => {
                    self.supervisor.as_ref().context("the supervisor is gone")?.resume()?;
                    self.ends.push((Instant::now() + supervised::LEASE, End::KillSupervisor));
                }
                End::KillSupervisor => {
                    // If it has ended by itself, this only collects it.
                    self.supervisor.take().context("the supervisor is gone")?.kill().await?;
                }
            }
            match end {
                End::StartNode(at) | End::ResumeNode(at) | End::Heal(at) | End::Driven(at) => {
                    self.slots[at].is_busy = false;
                }
                End::StartServer | End::ResumeServer => self.is_server_busy = false,
                End::StopSupervisor | End::ResumeSupervisor | End::KillSupervisor => {}
            }
        }
        Ok(())
    }

    async fn mend_all(&mut self) -> Result<()> {
        while !self.ends.is_empty() {
            self.mend(|_| true).await?;
        }
        Ok(())
    }

    /// Starts the server again, if it refuses a damaged file with the undamaged one.
    async fn start_server(&mut self) -> Result<()> {
        let (data, program) = (self.path("data"), self.plan.program.clone());
        let start =
            || ServerProcess::start_or_refuse(&program, &data, self.address, Some(hoard::LEASE));
        let mut server = start().await?;
        if let Some(undamaged) = self.undamaged.take()
            && server.is_none()
        {
            self.refused_data += 1;
            undamaged.restore()?;
            server = start().await?;
        }
        self.server = Some(server.context("it refuses its data file")?);
        Ok(())
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
        for (name, process) in [("forker", &mut self.forker), ("hoard", &mut self.hoard)] {
            if let Some(process) = process
                && let Some(status) = process.ended()?
            {
                bail!("the {name} has ended by itself: {status}");
            }
        }
        if let Some(server) = &mut self.server
            && let Some(status) = server.process.ended()?
        {
            bail!("the server has ended by itself: {status}");
        }
        Ok(())
    }

    /// Every node is served without faults, ends, and leaves nothing on the server.
    async fn finish(mut self, (cached, lost_cached): (u64, u64)) -> Result<Report> {
        let calm = clock::now();
        // A server whose past is unknown serves nobody for as long as the longest lease.
        let patience = PATIENCE + 2 * hoard::LEASE;
        let deadline = Instant::now() + patience;
        let mut journals: Vec<_> = (0..self.slots.len()).map(|at| self.journal(at)).collect();
        journals.push(self.path("journals").join("forker"));
        for journal in journals {
            while since(&journal, calm)?.len() < PROGRESS {
                self.look_after_processes()?;
                if Instant::now() > deadline {
                    let (got, seed) = (since(&journal, calm)?.len(), self.plan.seed);
                    let name = journal.display();
                    bail!("{name} got {got} records in {patience:?} without a fault, seed {seed}");
                }
                sleep(Duration::from_millis(100)).await;
            }
        }
        for (at, slot) in self.slots.iter_mut().enumerate() {
            let process = slot.process.take().context("the node is gone")?;
            process.finish().await.with_context(|| format!("node {at}"))?;
        }
        let forker = self.forker.take().context("the forker is gone")?;
        forker.finish().await.context("the forker")?;
        nothing_is_left(self.address).await?;
        self.server.take().context("the server is gone")?.process.finish().await?;
        let verdict = check::check(&self.path("store"), &self.path("journals"))?;
        let mut longest_wait = Duration::ZERO;
        for path in check::files(&self.path("journals"))? {
            let waits = since(&path, calm)?;
            longest_wait = waits.into_iter().fold(longest_wait, Duration::max);
        }
        let commands = (1..=self.supervisors).map(|at| format!("s{at}"));
        let commands = commands.filter(|name| self.path("journals").join(name).exists());
        let commands = commands.count() as u64;
        let Self { plan: Plan { seed, .. }, faults, refused_data, .. } = self;
        Ok(Report {
            seed,
            faults,
            refused_data,
            commands,
            cached,
            lost_cached,
            verdict,
            longest_wait,
        })
    }

    /// What the node with the large cache says at its end: how much it has, and has lost.
    async fn finish_hoard(&mut self) -> Result<(u64, u64)> {
        let mut hoard = self.hoard.take().context("it is gone")?;
        let filled = hoard.line().await?;
        ensure!(filled == "filled", "it said {filled:?}");
        hoard.end_input();
        let said = hoard.line().await?;
        let words: Vec<_> = said.split(' ').collect();
        let ["cached", cached, "lost", lost] = words[..] else { bail!("it said {said:?}") };
        let numbers = (cached.parse()?, lost.parse()?);
        hoard.finish().await?;
        Ok(numbers)
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
