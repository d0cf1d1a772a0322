//! `local:`, one service per user on this machine: how it is found, and how it is started.
//!
//! **Invariant**: at any moment one service answers to the `local:` of a user, whatever the
//! environment of a client says, and its fencing tokens rise. `place.rs` finds the one place by
//! the user's number alone; `claim.rs` keeps a second service away, also when the files of the
//! first were deleted under it. A client trusts only a service that runs as its own user. A program
//! that is setuid, setgid or has capabilities starts no service, and believes no variable.
//!
//! A service ends when it is idle, perhaps just as a client comes. Then the client meets a closed
//! connection or no socket, starts another one, and that may meet the lock of the one that ends and
//! leave: so a client goes on, for a bounded time, until one answers or one fails for a reason of
//! its own.

mod claim;
mod older;
mod place;

use std::fmt;
use std::fs;
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use lockspan_park::privilege;
use lockspan_tls::Stream;
use rustix::net::SocketAddrUnix;
use tokio::net::unix::UCred;
use tokio::process::Child;
use tokio::time::{Instant, sleep};

use crate::error::ConnectError;
use crate::task::Dial;
use crate::trust::own_user;
use crate::unix::connect_within;

pub use claim::{Claim, Taken};
pub use older::refuse as refuse_older;
pub use place::{folder, prepare, socket};

/// The URL of the service of this user.
pub const URL: &str = "local:";

/// The exit code of a service that leaves because another one has the place.
pub const TAKEN: u8 = 75;

/// Names the binary to start, where it is not on the path.
const BINARY: &str = "LOCKSPAN_BIN";

/// Variables of this kind are for tests, and are read by builds with debug assertions only.
const TEST: &str = "LOCKSPAN_TEST_";

/// How long the service may take to come up; one that ends may take two seconds of it.
const PATIENCE: Duration = Duration::from_secs(10);

/// A log that is longer is begun anew.
const LOG: u64 = 64 << 10;

fn error(what: String) -> ConnectError {
    ConnectError::Local { what }
}

/// How long [`process`] waits for room in the line of a socket.
const MOMENT: Duration = Duration::from_secs(2);

/// The process that listens on this socket, if somebody does and is not too busy to be asked.
#[must_use]
pub fn process(socket: &Path) -> Option<Process> {
    let stream = connect_within(&SocketAddrUnix::new(socket).ok()?, MOMENT).ok()?;
    Some(Process::of(&peer(&stream).ok()?))
}

/// A process as messages name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Process {
    /// Its number; `None` if it is in another namespace, such as a container, and has none here.
    pub number: Option<i32>,
}

impl Process {
    fn of(peer: &UCred) -> Self {
        Self { number: peer.pid().filter(|number| *number > 0) }
    }
}

impl fmt::Display for Process {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.number {
            Some(number) => write!(f, "process {number}"),
            None => f.write_str("a process of another container or namespace"),
        }
    }
}

/// Who is on the other side, as the kernel says. By way of tokio: `rustix` has no number for a
/// process of another namespace.
pub(crate) fn peer(stream: &UnixStream) -> io::Result<UCred> {
    let copy = stream.try_clone()?;
    // The copy and the stream have this in common.
    copy.set_nonblocking(true)?;
    let ask = |copy| tokio::net::UnixStream::from_std(copy)?.peer_cred();
    let found = match tokio::runtime::Handle::try_current() {
        Ok(_) => ask(copy),
        Err(_) => {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
            let _entered = runtime.enter();
            ask(copy)
        }
    };
    stream.set_nonblocking(false)?;
    found
}

/// Connects to the service of this user, and starts it if it does not run.
pub(crate) async fn reach(dial: &Dial) -> Result<Arc<Stream>, ConnectError> {
    refuse_older()?;
    let late = Instant::now() + PATIENCE;
    let mut started: Option<Child> = None;
    let mut pause = Duration::from_millis(1);
    loop {
        let why = match dial.connect().await {
            Err(why) if is_absent(&why) || is_busy(&why) => why,
            connected => return connected,
        };
        if Instant::now() >= late {
            return Err(unanswered(&why));
        }
        match started.as_mut().map(Child::try_wait) {
            // It may still be on its way.
            Some(Ok(None)) => {}
            // It met another one, which answers soon, or is about to end: then start again.
            Some(Ok(Some(status))) if status.success() || is_taken(status) => started = None,
            Some(Ok(Some(status))) => return Err(failed(status)),
            Some(Err(_)) => started = None,
            None if is_absent(&why) => started = Some(start()?),
            None => {}
        }
        sleep(pause).await;
        pause = (pause * 2).min(Duration::from_millis(50));
    }
}

fn is_taken(status: std::process::ExitStatus) -> bool {
    status.code() == Some(TAKEN.into())
}

/// Nobody listens there, or the one who did has just ended.
pub(crate) fn is_absent(why: &ConnectError) -> bool {
    let ConnectError::Unreachable { source, .. } = why else { return false };
    matches!(
        source.kind(),
        io::ErrorKind::NotFound
            | io::ErrorKind::ConnectionRefused
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::ConnectionAborted
            | io::ErrorKind::BrokenPipe
            | io::ErrorKind::UnexpectedEof
    )
}

/// So many call at once that there is no room in the line of those who were not answered yet.
fn is_busy(why: &ConnectError) -> bool {
    let ConnectError::Unreachable { source, .. } = why else { return false };
    source.kind() == io::ErrorKind::WouldBlock
}

/// A service that runs as somebody else is not ours.
pub(crate) fn check_user(user: u32) -> io::Result<()> {
    let own = own_user();
    if user == own {
        return Ok(());
    }
    let text = format!("it runs as user {user}, and this process as user {own}");
    Err(io::Error::new(io::ErrorKind::PermissionDenied, text))
}

fn unanswered(why: &ConnectError) -> ConnectError {
    let running = match Claim::holder() {
        Some(process) => format!(
            " This user's service is {process}, but it can't be reached: its files may have been \
             deleted, or are not visible here (a container). Stop it, or use another service by \
             its URL"
        ),
        None => String::new(),
    };
    error(format!("this user's service was started, but: {why}{running}"))
}

/// It ended with an error, which is the last line of its log.
fn failed(status: std::process::ExitStatus) -> ConnectError {
    let log = folder().map(|folder| log_of(&folder)).ok();
    let text = log.as_ref().and_then(|log| fs::read_to_string(log).ok()).unwrap_or_default();
    let last = text.lines().rfind(|line| !line.trim().is_empty()).unwrap_or("it printed nothing");
    let log = log.map_or_else(String::new, |log| format!(" (its log is {})", log.display()));
    error(format!("this user's service failed to start, {status}: {last}{log}"))
}

fn log_of(folder: &Path) -> PathBuf {
    folder.join("service.log")
}

/// Starts the service; if somebody else does so at the same time, one of the two goes away again.
fn start() -> Result<Child, ConnectError> {
    if privilege::is_privileged() {
        return Err(error(format!(
            "the service of user {0} does not run, and this program does not start it: the program \
             is setuid, setgid or has capabilities, and the user who started it would control the \
             environment of the service. Start the service as user {0} (lockspan serve --local), \
             or use another service by its URL",
            own_user()
        )));
    }
    let folder = prepare()?;
    let log = log_of(&folder);
    let is_long = fs::metadata(&log).is_ok_and(|found| found.len() > LOG);
    let mut options = fs::OpenOptions::new();
    let log_file = options.create(true).append(true).mode(0o600).open(&log);
    let log_file =
        log_file.map_err(|why| error(format!("{} can't be written: {why}", log.display())))?;
    if is_long {
        // What cannot be shortened grows.
        let _ = log_file.set_len(0);
    }
    let binary = binary();
    let mut command = Command::new(&binary);
    // They are meant for services that a person starts.
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        if text.starts_with("LOCKSPAN_") && !text.starts_with(TEST) {
            command.env_remove(&name);
        }
    }
    command.args(["serve", "--local"]).stdin(Stdio::null()).stdout(Stdio::null());
    // In a group of its own: a signal from our terminal is not meant for it. And nobody should find
    // a disk busy because we were started there.
    command.stderr(log_file).process_group(0).current_dir("/");
    // The runtime takes note of its end, whenever that is. What it needs for that is made once.
    let spawn = || tokio::process::Command::from(command).spawn();
    lockspan_park::fork::without_forks(spawn).map_err(|why| {
        error(format!(
            "this user's service does not run, and {} could not be started: {why}; install \
             lockspan, or set {BINARY} to the path of the binary",
            binary.display()
        ))
    })
}

/// For a service that a client has started, before it does anything: lets go of the descriptors
/// that it has inherited from the client, such as pipes that somebody reads to their end and files
/// locked with `flock`. It does so by running itself anew, once, as the same process.
pub fn let_go_of_inherited() -> io::Result<()> {
    if !lockspan_park::exec::close_on_exec_from(3)? {
        return Ok(());
    }
    let mut args = std::env::args_os();
    let mut command = Command::new(std::env::current_exe()?);
    if let Some(name) = args.next() {
        command.arg0(name);
    }
    Err(command.args(args).exec())
}

fn binary() -> PathBuf {
    let ours = std::env::current_exe().ok();
    let ours = ours.filter(|path| path.file_name().is_some_and(|name| name == "lockspan"));
    let named = std::env::var_os(BINARY).map(PathBuf::from);
    // It is started in another directory.
    let named = named.map(|path| match path.components().count() {
        0 | 1 => path,
        _ => std::path::absolute(&path).unwrap_or(path),
    });
    named.or(ours).unwrap_or_else(|| PathBuf::from("lockspan"))
}
