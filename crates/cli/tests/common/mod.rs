//! A private service in a process of its own, and what the tests do with processes.

#![expect(dead_code, reason = "each test program uses a part of it")]

pub(crate) mod resp;

use std::ffi::OsStr;
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

/// Nothing here takes nearly as long; what does has failed.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// The binary, without the variables of whoever runs the tests.
pub(crate) fn lockspan() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_lockspan"));
    for (name, _) in std::env::vars_os().filter(|(name, _)| is_ours(name)) {
        command.env_remove(name);
    }
    // Tests run side by side, and there is one default port.
    command.env("LOCKSPAN_HTTP", "none");
    command
}

fn is_ours(name: &OsStr) -> bool {
    name.to_string_lossy().starts_with("LOCKSPAN_")
}

/// Waits for something to be so.
pub(crate) fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < end, "waited for {PATIENCE:?} until {what}");
        thread::sleep(Duration::from_millis(5));
    }
}

/// A process that ends with the test, and whose lines can be waited for.
#[derive(Debug)]
pub(crate) struct Process {
    child: Child,
    lines: Receiver<String>,
    seen: Vec<String>,
}

impl Process {
    /// Starts `command`; the lines are those of its stdout.
    pub(crate) fn start(command: &mut Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).spawn().expect("a process starts");
        let lines = lines_of(child.stdout.take().expect("its stdout is a pipe"));
        Self { child, lines, seen: Vec::new() }
    }

    /// Starts `command`; the lines are those of its stderr.
    pub(crate) fn start_with_log(command: &mut Command) -> Self {
        let mut child = command.stderr(Stdio::piped()).spawn().expect("a process starts");
        let lines = lines_of(child.stderr.take().expect("its stderr is a pipe"));
        Self { child, lines, seen: Vec::new() }
    }

    /// Starts `command`, whose output goes elsewhere.
    pub(crate) fn start_on(command: &mut Command) -> Self {
        let child = command.spawn().expect("a process starts");
        Self { child, lines: channel().1, seen: Vec::new() }
    }

    /// Its next line.
    pub(crate) fn line(&mut self) -> String {
        match self.lines.recv_timeout(PATIENCE) {
            Ok(line) => {
                self.seen.push(line.clone());
                line
            }
            Err(why) => panic!("no line came ({why}); before it: {:?}", self.seen),
        }
    }

    /// Its next line that contains `text`.
    pub(crate) fn line_with(&mut self, text: &str) -> String {
        let end = Instant::now() + PATIENCE;
        loop {
            let line = self.line();
            assert!(Instant::now() < end, "no line with {text:?} came: {:?}", self.seen);
            if line.contains(text) {
                return line;
            }
        }
    }

    /// All its lines that were not seen yet, until it has ended.
    pub(crate) fn rest(&mut self) -> Vec<String> {
        self.end();
        self.lines.iter().collect()
    }

    /// A number that it prints.
    pub(crate) fn number(&mut self) -> i32 {
        let line = self.line();
        line.trim().parse().unwrap_or_else(|_| panic!("{line:?} is no number"))
    }

    /// Its stdin, which must be a pipe.
    pub(crate) fn stdin(&mut self) -> ChildStdin {
        self.child.stdin.take().expect("its stdin is a pipe")
    }

    pub(crate) fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(self.pid(), signal).expect("it is there");
    }

    /// Waits for its end.
    pub(crate) fn end(&mut self) -> ExitStatus {
        let mut status = None;
        wait_until("a process ends", || {
            status = self.child.try_wait().expect("it is ours");
            status.is_some()
        });
        status.expect("it has ended")
    }

    /// Waits for its end while something is done to it, and gives its exit code.
    pub(crate) fn code_by(&mut self, mut act: impl FnMut(&Self)) -> i32 {
        let mut status = None;
        wait_until("a process ends", || {
            status = self.child.try_wait().expect("it is ours");
            if status.is_none() {
                act(self);
            }
            status.is_some()
        });
        status.and_then(|status| status.code()).expect("it ended by itself")
    }

    /// Waits for its end, and gives its exit code.
    pub(crate) fn code(&mut self) -> i32 {
        self.end().code().expect("it ended by itself")
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn lines_of(from: impl Read + Send + 'static) -> Receiver<String> {
    let (send, lines) = channel();
    thread::spawn(move || {
        for line in BufReader::new(from).lines() {
            let Ok(line) = line else { return };
            if send.send(line).is_err() {
                return;
            }
        }
    });
    lines
}

/// Whether a process still runs; one that has ended and that nobody asked about does not.
pub(crate) fn runs(pid: i32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = stat.rsplit(')').next().and_then(|rest| rest.split_whitespace().next());
    !matches!(state, None | Some("Z" | "X"))
}

/// The guardian that a supervisor has started.
pub(crate) fn guardian_of(supervisor: Pid) -> Pid {
    let mut found = None;
    wait_until("there is a guardian", || {
        found = child_of(supervisor, "__guard");
        found.is_some()
    });
    found.expect("it was found")
}

/// A child of this process that has this word among its arguments.
pub(crate) fn child_of(parent: Pid, word: &str) -> Option<Pid> {
    let is_it = |pid: &i32| {
        let command = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let of = stat.rsplit(')').next().and_then(|rest| rest.split_whitespace().nth(1));
        let is_child = of == Some(&parent.as_raw_pid().to_string());
        is_child && command.split(|byte| *byte == 0).any(|one| one == word.as_bytes())
    };
    let all = fs::read_dir("/proc").expect("there is one").filter_map(Result::ok);
    let mut pids = all.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.find(is_it).and_then(Pid::from_raw)
}

/// A process that the test did not start itself, ended with it.
#[derive(Debug)]
pub(crate) struct Stray(pub(crate) i32);

impl Drop for Stray {
    fn drop(&mut self) {
        if let Some(pid) = Pid::from_raw(self.0).filter(|_| runs(self.0)) {
            let _ = kill_process(pid, Signal::KILL);
        }
    }
}

/// A service on a socket of its own.
#[derive(Debug)]
pub(crate) struct Service {
    pub(crate) process: Process,
    dir: tempfile::TempDir,
}

impl Service {
    pub(crate) fn start() -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let socket = dir.path().join("lock.sock");
        let mut command = lockspan();
        command.args(["serve", "--data-dir", "none", "--fresh", "--listen"]);
        let mut process =
            Process::start_with_log(command.arg(format!("unix:{}", socket.display())));
        process.line_with("listening on");
        Self { process, dir }
    }

    pub(crate) fn dir(&self) -> &Path {
        self.dir.path()
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.dir.path().join("lock.sock")
    }

    pub(crate) fn url(&self) -> String {
        format!("unix://{}", self.socket().display())
    }

    /// `lockspan run` with these words between `run` and the command, which is a line of `sh`.
    pub(crate) fn run(&self, words: &[&str], script: &str) -> Command {
        let mut command = lockspan();
        command.args(["run", "--url", &self.url()]).args(words).args(["--", "sh", "-c", script]);
        command.stdin(Stdio::null());
        command
    }

    /// The output of another command of the binary.
    pub(crate) fn tell(&self, words: &[&str]) -> String {
        let output = lockspan().args(words).env("LOCKSPAN_URL", self.url()).output();
        let output = output.expect("the binary runs");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).expect("it prints text")
    }
}

/// A user database with a home for the user who runs the test, so that `local:` is not theirs. Its
/// service ends with it.
#[derive(Debug)]
pub(crate) struct Home {
    dir: tempfile::TempDir,
}

impl Home {
    pub(crate) fn new() -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let home = dir.path().join("home");
        fs::create_dir(&home).expect("a home");
        let user = rustix::process::geteuid().as_raw();
        let entry = format!("me:x:{user}:{user}::{}:/bin/sh\n", home.display());
        fs::write(dir.path().join("passwd"), entry).expect("a user database");
        Self { dir }
    }

    pub(crate) fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// The binary at home here.
    pub(crate) fn lockspan(&self) -> Command {
        let mut command = lockspan();
        command.env("LOCKSPAN_TEST_PASSWD", self.dir.path().join("passwd"));
        command.env("LOCKSPAN_BIN", env!("CARGO_BIN_EXE_lockspan"));
        command.env_remove("XDG_RUNTIME_DIR").env_remove("XDG_STATE_HOME");
        command
    }

    /// `lockspan run` without a URL.
    pub(crate) fn run(&self, words: &[&str], script: &str) -> Command {
        let mut command = self.lockspan();
        command.arg("run").args(words).args(["--", "sh", "-c", script]).stdin(Stdio::null());
        command
    }

    /// Where the service is. There is one as soon as it was started once.
    pub(crate) fn folder(&self) -> PathBuf {
        let above = self.dir.path().join("home/.local/state/lockspan");
        let all = fs::read_dir(&above).into_iter().flatten().filter_map(Result::ok);
        let folder = all.map(|entry| entry.path()).find(|path| {
            path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("local-"))
        });
        folder.unwrap_or_else(|| above.join("local-none"))
    }

    /// The process of the service, if one listens.
    pub(crate) fn service(&self) -> Option<Pid> {
        let socket = self.folder().join("lock.sock");
        let stream = std::os::unix::net::UnixStream::connect(socket).ok()?;
        rustix::net::sockopt::socket_peercred(&stream).ok().map(|peer| peer.pid)
    }

    /// Ends the service, and waits until it has.
    pub(crate) fn end(&self, signal: Signal) {
        if let Some(service) = self.service() {
            let _ = kill_process(service, signal);
            wait_until("the service has ended", || !runs(service.as_raw_pid()));
        }
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        if let Some(service) = self.service() {
            let _ = kill_process(service, Signal::KILL);
        }
    }
}
