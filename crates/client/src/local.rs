//! `local:`, one service per user on this machine: where its socket is, and how it is started.

use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use lockspan_tls::Stream;
use tokio::time::{Instant, sleep};

use crate::error::ConnectError;
use crate::task::Dial;

/// Names the binary to start, where it is not on the path.
const BINARY: &str = "LOCKSPAN_BIN";
/// How long the service may take to come up.
const PATIENCE: Duration = Duration::from_secs(5);

fn error(what: String) -> ConnectError {
    ConnectError::Local { what }
}

/// Where the socket of this user's service is. Its folder is made if it is missing, and refused if
/// it is somebody else's or open to others.
pub fn socket() -> Result<PathBuf, ConnectError> {
    let uid = rustix::process::getuid().as_raw();
    let folder = match std::env::var_os("XDG_RUNTIME_DIR").filter(|dir| !dir.is_empty()) {
        Some(runtime) => Path::new(&runtime).join("lockspan"),
        None => PathBuf::from(format!("/tmp/lockspan-{uid}")),
    };
    match fs::DirBuilder::new().mode(0o700).create(&folder) {
        Err(why) if why.kind() != io::ErrorKind::AlreadyExists => {
            return Err(error(format!("{} could not be made: {why}", folder.display())));
        }
        _ => {}
    }
    let found = fs::symlink_metadata(&folder)
        .map_err(|why| error(format!("{} could not be looked at: {why}", folder.display())))?;
    if !found.is_dir() || found.uid() != uid || found.mode() & 0o077 != 0 {
        return Err(error(format!(
            "{} has to be a folder of user {uid} with mode 0700, and is not; \
             remove it, or set XDG_RUNTIME_DIR",
            folder.display()
        )));
    }
    Ok(folder.join("lock.sock"))
}

/// Connects to the service of this user, and starts it if it does not run.
pub(crate) async fn reach(dial: &Dial) -> Result<Arc<Stream>, ConnectError> {
    match dial.connect().await {
        Err(why) if is_absent(&why) => start()?,
        connected => return connected,
    }
    let late = Instant::now() + PATIENCE;
    let mut pause = Duration::from_millis(1);
    loop {
        match dial.connect().await {
            Err(why) if is_absent(&why) && Instant::now() < late => {}
            Err(why) => {
                return Err(error(format!("this user's service was started, but: {why}")));
            }
            connected => return connected,
        }
        sleep(pause).await;
        pause = (pause * 2).min(Duration::from_millis(50));
    }
}

pub(crate) fn is_absent(why: &ConnectError) -> bool {
    let ConnectError::Unreachable { source, .. } = why else { return false };
    matches!(source.kind(), io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused)
}

/// Starts the service; if somebody else does so at the same time, one of the two goes away again.
fn start() -> Result<(), ConnectError> {
    let ours = std::env::current_exe().ok();
    let ours = ours.filter(|path| path.file_name().is_some_and(|name| name == "lockspan"));
    let binary = std::env::var_os(BINARY).map(PathBuf::from).or(ours);
    let binary = binary.unwrap_or_else(|| PathBuf::from("lockspan"));
    let mut command = Command::new(&binary);
    // They are meant for services that a person starts.
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("LOCKSPAN_") {
            command.env_remove(name);
        }
    }
    command.args(["serve", "--local"]).stdin(Stdio::null()).stdout(Stdio::null());
    // In a group of its own: a signal from our terminal is not meant for it.
    command.stderr(Stdio::null()).process_group(0);
    // The runtime takes note of its end, whenever that is.
    let started = tokio::process::Command::from(command).spawn();
    started.map(drop).map_err(|why| {
        error(format!(
            "this user's service does not run, and {} could not be started: {why}; \
             install the binary, or name it in {BINARY}",
            binary.display()
        ))
    })
}
