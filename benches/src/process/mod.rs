//! Other processes of a measurement: started when needed, on free loopback ports, with a folder
//! of their own, and stopped by their id. They end with this process even if it is killed.

pub(crate) mod child;
pub(crate) mod memory;

use std::io::{self, BufRead as _, BufReader};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Resource, Rlimit, Signal, getrlimit, setrlimit};
use tempfile::TempDir;

use crate::say;

/// How long a process may take until it answers.
const PATIENCE: Duration = Duration::from_secs(20);
/// How long one of our own may take to end.
const FAREWELL: Duration = Duration::from_secs(5);

/// A process that listens.
pub(crate) struct Process {
    child: Child,
    /// One of this program's own ends when this is closed.
    stdin: Option<ChildStdin>,
    pub(crate) address: SocketAddr,
    /// What else it said when it was ready.
    pub(crate) said: Vec<String>,
    folder: TempDir,
}

impl Process {
    /// A lock server, on TCP and on a socket file in its folder.
    pub(crate) fn lockspan() -> Result<Self, String> {
        Self::ours(|folder| vec![child::SERVE.to_owned(), folder.display().to_string()])
    }

    /// A lock server on its socket file alone, as a user's own service is.
    pub(crate) fn own_lockspan() -> Result<Self, String> {
        Self::ours(|folder| vec![child::SERVE_SOCKET.to_owned(), folder.display().to_string()])
    }

    /// Answers so many bytes with so many bytes.
    pub(crate) fn echo(request: usize, reply: usize) -> Result<Self, String> {
        Self::ours(|_| vec![child::ECHO.to_owned(), request.to_string(), reply.to_string()])
    }

    /// A node that has cached so many records of a server; it says how many bytes that took.
    pub(crate) fn holder(server: &Self, records: usize) -> Result<Self, String> {
        Self::ours(|_| vec![child::HOLD.to_owned(), server.url(), records.to_string()])
    }

    /// This program again, as one of its own children. It says where it listens in its first line.
    fn ours(words: impl FnOnce(&Path) -> Vec<String>) -> Result<Self, String> {
        let this = std::env::current_exe().map_err(say)?;
        let folder = tempfile::tempdir().map_err(say)?;
        let mut command = Command::new(this);
        command.arg(child::CHILD).args(words(folder.path()));
        let mut child = spawn(command.stdin(Stdio::piped()).stdout(Stdio::piped()))?;
        let stdin = child.stdin.take();
        let mut line = String::new();
        if let Some(stdout) = child.stdout.take() {
            BufReader::new(stdout).read_line(&mut line).map_err(say)?;
        }
        let mut said = line.split_whitespace().map(str::to_owned);
        let address = said.next().and_then(|word| word.parse().ok());
        let nowhere = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let process = Self {
            child,
            stdin,
            address: address.unwrap_or(nowhere),
            said: said.collect(),
            folder,
        };
        address.map(|_| process).ok_or_else(|| "a part of this program did not start".to_owned())
    }

    /// A Redis that keeps nothing on disk.
    pub(crate) fn redis() -> Result<Self, String> {
        Self::peer("redis-server", |command, folder| {
            let port = free_port()?;
            command.args(["--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]);
            command.args(["--port", &port.to_string(), "--dir"]).arg(folder);
            Ok(port)
        })
    }

    /// A cluster of one etcd.
    pub(crate) fn etcd() -> Result<Self, String> {
        Self::peer("etcd", |command, folder| {
            let (port, other) = (free_port()?, free_port()?);
            let at = |port: u16| format!("http://127.0.0.1:{port}");
            command.arg("--data-dir").arg(folder);
            command.args(["--listen-client-urls", &at(port), "--advertise-client-urls", &at(port)]);
            command.args(["--listen-peer-urls", &at(other)]);
            command.args(["--initial-advertise-peer-urls", &at(other)]);
            command.args(["--initial-cluster", &format!("default={}", at(other))]);
            Ok(port)
        })
    }

    fn peer(
        program: &str,
        prepare: impl FnOnce(&mut Command, &Path) -> Result<u16, String>,
    ) -> Result<Self, String> {
        let folder = tempfile::tempdir().map_err(say)?;
        let mut command = Command::new(program);
        let port = prepare(&mut command, folder.path())?;
        command.current_dir(folder.path()).stdin(Stdio::null()).stdout(Stdio::null());
        let child = spawn(command.stderr(Stdio::null()))?;
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let mut process = Self { child, stdin: None, address, said: Vec::new(), folder };
        let late = Instant::now() + PATIENCE;
        while TcpStream::connect(address).is_err() {
            if let Some(status) = process.child.try_wait().map_err(say)? {
                return Err(format!("{program} ended at once: {status}"));
            }
            if Instant::now() > late {
                return Err(format!("{program} does not answer"));
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(process)
    }

    /// Where a Lockspan client finds it.
    pub(crate) fn url(&self) -> String {
        format!("lockspan://{}", self.address)
    }

    /// The same, through its socket file.
    pub(crate) fn socket_url(&self) -> String {
        format!("unix://{}", child::socket(self.folder.path()).display())
    }

    /// A folder that goes with the process.
    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// CPU time of its threads so far, in nanoseconds.
    pub(crate) fn cpu_time(&self) -> Result<f64, String> {
        let folder = format!("/proc/{}/task", self.child.id());
        let mut sum = 0.0;
        for thread in std::fs::read_dir(&folder).map_err(|why| format!("{folder}: {why}"))? {
            // One that has ended meanwhile has no file any more.
            let path = thread.map_err(say)?.path().join("schedstat");
            let text = std::fs::read_to_string(path).unwrap_or_default();
            sum += text.split(' ').next().and_then(|time| time.parse().ok()).unwrap_or(0.0);
        }
        Ok(sum)
    }

    /// Kills a lock server, and starts it again in its folder and on its port.
    pub(crate) fn kill_and_restart(&mut self) -> Result<(), String> {
        self.child.kill().map_err(say)?;
        self.child.wait().map_err(say)?;
        let this = std::env::current_exe().map_err(say)?;
        let mut command = Command::new(this);
        let (folder, address) = (self.folder.path(), self.address.to_string());
        command.args([child::CHILD, child::SERVE_AGAIN]).arg(folder).arg(address);
        self.child = spawn(command.stdin(Stdio::piped()).stdout(Stdio::null()))?;
        self.stdin = self.child.stdin.take();
        Ok(())
    }

    /// Its number in the system.
    pub(crate) fn id(&self) -> String {
        self.child.id().to_string()
    }

    /// Its resident bytes.
    pub(crate) fn resident(&self) -> Result<f64, String> {
        memory::resident(&self.child.id().to_string())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if self.stdin.take().is_some() {
            let late = Instant::now() + FAREWELL;
            while matches!(self.child.try_wait(), Ok(None)) && Instant::now() < late {
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        // It fails only if the process has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Starts a process that ends with this one.
pub(crate) fn spawn(command: &mut Command) -> Result<Child, String> {
    let die_too = || {
        rustix::process::set_parent_process_death_signal(Some(Signal::KILL))
            .map_err(io::Error::from)
    };
    // SAFETY: between fork and exec this makes one system call, and touches no lock and no memory
    // of the process that was forked.
    unsafe { command.pre_exec(die_too) };
    let program = command.get_program().to_string_lossy().into_owned();
    command.spawn().map_err(|why| match why.kind() {
        io::ErrorKind::NotFound => format!("{program} is not installed"),
        _ => format!("{program}: {why}"),
    })
}

/// A port that was free a moment ago.
fn free_port() -> Result<u16, String> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(say)?;
    Ok(listener.local_addr().map_err(say)?.port())
}

/// As many open files as are allowed, for this process and those that it starts.
pub(crate) fn raise_open_files() {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    // If it fails, opening a thousand connections says so.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
}
