//! Processes that are started, stopped, continued and killed, each by its id, and that never
//! outlive whoever started them.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use rustix::process::{Pid, Signal, getppid, kill_process, set_parent_process_death_signal};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::net::TcpStream;
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::time::timeout;

use crate::damage::REFUSED;

/// Whatever takes longer has failed.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// A process of ours. Killed when it is dropped.
#[derive(Debug)]
pub struct Process {
    child: Child,
    pid: Pid,
    stdin: Option<ChildStdin>,
    stdout: Lines<BufReader<ChildStdout>>,
}

impl Process {
    /// Starts `program`, which is this package's, with these words. To be called by a thread that
    /// lives as long as the process is to: the system kills it when that thread ends.
    pub fn start<S: AsRef<OsStr>>(program: &Path, words: &[S]) -> Result<Self> {
        let mut command = Command::new(program);
        command.args(words).args(["--parent", &std::process::id().to_string()]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true);
        let mut child = command.spawn().with_context(|| program.display().to_string())?;
        let id = child.id().context("it has ended at once")?;
        let pid = i32::try_from(id).ok().and_then(Pid::from_raw).context("it has no id")?;
        let stdout = child.stdout.take().context("its output is missing")?;
        let stdin = child.stdin.take();
        Ok(Self { child, pid, stdin, stdout: BufReader::new(stdout).lines() })
    }

    /// The next line that it prints.
    pub async fn line(&mut self) -> Result<String> {
        let line = timeout(PATIENCE, self.stdout.next_line()).await;
        line.context("it prints nothing")??.context("it has ended")
    }

    /// Tells it a line.
    pub async fn tell(&mut self, line: &str) -> Result<()> {
        let stdin = self.stdin.as_mut().context("it is not listening any more")?;
        stdin.write_all(format!("{line}\n").as_bytes()).await?;
        Ok(stdin.flush().await?)
    }

    /// Tells it a line, and returns what it answers.
    pub async fn ask(&mut self, line: &str) -> Result<String> {
        self.tell(line).await?;
        self.line().await.with_context(|| format!("asked {line:?}"))
    }

    fn signal(&self, signal: Signal) -> Result<()> {
        // While it was not waited for, its id is not given to another.
        kill_process(self.pid, signal).with_context(|| format!("{signal:?} to {:?}", self.pid))
    }

    /// SIGSTOP: it stands still until it is continued.
    pub fn stop(&self) -> Result<()> {
        self.signal(Signal::STOP)
    }

    /// SIGCONT.
    pub fn resume(&self) -> Result<()> {
        self.signal(Signal::CONT)
    }

    /// SIGKILL, and waits until it is gone.
    pub async fn kill(mut self) -> Result<()> {
        self.signal(Signal::KILL)?;
        timeout(PATIENCE, self.child.wait()).await.context("it does not die")??;
        Ok(())
    }

    /// Waits until it has ended by itself.
    pub async fn end(&mut self) -> Result<std::process::ExitStatus> {
        Ok(timeout(PATIENCE, self.child.wait()).await.context("it does not end")??)
    }

    /// Ends its input, upon which it goes: what it prints last can still be read.
    pub fn end_input(&mut self) {
        drop(self.stdin.take());
    }

    /// Whether it has ended, and how.
    pub fn ended(&mut self) -> Result<Option<std::process::ExitStatus>> {
        Ok(self.child.try_wait()?)
    }

    /// Ends its input, upon which it goes, and waits until it has; it must say that all was well.
    pub async fn finish(mut self) -> Result<()> {
        drop(self.stdin.take());
        let status = timeout(PATIENCE, self.child.wait()).await.context("it does not end")??;
        ensure!(status.success(), "it ended with {status}");
        Ok(())
    }
}

/// For a process that was started so: it is killed when its parent dies, even if it is stopped.
pub fn die_with_parent(parent: u32) -> Result<()> {
    set_parent_process_death_signal(Some(Signal::KILL))?;
    let present = getppid().map(|pid| pid.as_raw_nonzero().get());
    if present != i32::try_from(parent).ok() {
        bail!("whoever started this is gone");
    }
    Ok(())
}

/// A server in a process of its own, on a folder of its own.
#[derive(Debug)]
pub struct ServerProcess {
    /// The process.
    pub process: Process,
    /// Where it listens.
    pub address: SocketAddr,
}

impl ServerProcess {
    /// Starts it there and waits until it answers. Port 0 is a free one.
    pub async fn start(program: &Path, data: &Path, listen: SocketAddr) -> Result<Self> {
        let started = Self::start_or_refuse(program, data, listen, None).await?;
        started.context("it refuses its data file")
    }

    /// The same, with a limit for leases; nothing if it says that its data file is damaged.
    pub async fn start_or_refuse(
        program: &Path,
        data: &Path,
        listen: SocketAddr,
        longest: Option<Duration>,
    ) -> Result<Option<Self>> {
        let listen = listen.to_string();
        let words = [OsStr::new("serve"), "--data".as_ref(), data.as_ref()];
        let words = [&words[..], &["--listen".as_ref(), OsStr::new(&listen)]].concat();
        let longest = longest.map(|lease| lease.as_millis().to_string());
        let longest = longest.iter().flat_map(|lease| ["--longest".as_ref(), OsStr::new(lease)]);
        let words: Vec<_> = words.into_iter().chain(longest).collect();
        let mut process = Process::start(program, &words)?;
        let said = match process.line().await {
            Ok(said) => said,
            Err(why) => {
                let status = process.end().await?;
                ensure!(status.code() == Some(REFUSED.into()), "{why:#}: {status}");
                return Ok(None);
            }
        };
        let address =
            said.strip_prefix("listening ").context("it does not say where it listens")?;
        let address = address.parse()?;
        Ok(Some(Self { process, address }))
    }

    /// How nodes find it.
    #[must_use]
    pub fn url(&self) -> String {
        format!("lockspan://{}", self.address)
    }

    /// SIGKILL, and another on the same folder and port.
    pub async fn kill_and_restart(self, program: &Path, data: &Path) -> Result<Self> {
        let address = self.address;
        self.process.kill().await?;
        Self::start(program, data, address).await
    }
}

/// The numbers that a server tells about itself.
pub async fn info(server: SocketAddr) -> Result<BTreeMap<String, u64>> {
    let mut stream = TcpStream::connect(server).await?;
    stream.write_all(b"INFO\r\nQUIT\r\n").await?;
    let mut text = String::new();
    timeout(PATIENCE, stream.read_to_string(&mut text)).await.context("no answer")??;
    let numbers = text.lines().filter_map(|line| {
        let (name, number) = line.split_once(':')?;
        Some((name.to_owned(), number.parse().ok()?))
    });
    Ok(numbers.collect())
}

/// Starts a [puppet](crate::puppet).
pub fn puppet(program: &Path, url: &str, store: &Path, lease: Duration) -> Result<Process> {
    let lease = lease.as_millis().to_string();
    let words = [OsStr::new("puppet"), "--url".as_ref(), url.as_ref()];
    let store = ["--store".as_ref(), store.as_ref()];
    let words = [&words[..], &store, &["--lease".as_ref(), OsStr::new(&lease)]].concat();
    Process::start(program, &words)
}
