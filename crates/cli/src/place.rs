//! The place behind `local:`, as long as this process serves it.
//!
//! **Invariant**: nobody serves it without the claim to it, which ends with the process; and
//! whoever serves it goes on with the data of the one before, or, if these were deleted under a
//! running service, above its epoch (the file `lost`). So there are never two, and tokens never
//! fall.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use lockspan_client::local::{self, Claim, Process, TAKEN, Taken};
use lockspan_server::{LostData, Server};
use rustix::process::{Pid, Signal, kill_process};

use crate::exit::{CONFIG, Failure, SYSTEM};

/// How often it looks whether its files are there.
const LOOK: Duration = Duration::from_millis(500);

/// How long another service may take to end.
const PATIENCE: Duration = Duration::from_secs(10);

/// The place, and the claim to it.
#[derive(Debug)]
pub(crate) struct Place {
    folder: PathBuf,
    socket: PathBuf,
    /// Which files they were: device and number.
    socket_was: Option<(u64, u64)>,
    data_was: Option<(u64, u64)>,
    began: Instant,
}

impl Place {
    /// Takes it. A service that a client has started makes room for one that a person starts: the
    /// data stay, and so do the locks. `quietly`: this is one that a client has started, and leaves
    /// if there is another.
    pub(crate) fn take(quietly: bool) -> Result<Self, Failure> {
        let bad = |bad: lockspan_client::ConnectError| Failure::new(CONFIG, bad.to_string());
        local::refuse_older().map_err(bad)?;
        let (folder, socket) = (local::prepare().map_err(bad)?, local::socket().map_err(bad)?);
        let claim = claim(quietly)?;
        let keep = thread::Builder::new().name("lockspan-claim".to_owned());
        keep.spawn(move || {
            while let Err(why) = claim.keep() {
                tracing::debug!("can't let go who has looked for us: {why}");
                thread::sleep(LOOK);
            }
        })
        .map_err(|bad| Failure::new(SYSTEM, format!("can't start a thread: {bad}")))?;
        let began = Instant::now();
        Ok(Self { folder, socket, socket_was: None, data_was: None, began })
    }

    fn data(&self) -> PathBuf {
        self.folder.join("data")
    }

    fn note(&self) -> PathBuf {
        self.folder.join("lost")
    }

    /// What is known of data that were deleted under an earlier service.
    pub(crate) fn lost(&self) -> Option<LostData> {
        let text = fs::read_to_string(self.note()).ok()?;
        let mut words = text.split_whitespace();
        let epoch = words.next()?.parse().ok()?;
        Some(LostData { epoch, held: words.next() != Some("ended") })
    }

    /// The server runs: these are its files.
    pub(crate) fn remember(&mut self) {
        self.socket_was = identity(&self.socket);
        self.data_was = identity(&self.data());
    }

    /// Looks after the files of a server for as long as it runs: a socket that was deleted is made
    /// anew, and of deleted data is noted what the next service has to know.
    pub(crate) async fn look_after(&mut self, server: &Server, longest: Duration) -> ! {
        loop {
            tokio::time::sleep(LOOK).await;
            if self.data_was.is_some() && identity(&self.data()) != self.data_was {
                if let Err(why) = self.write_note(server.epoch(), "held") {
                    tracing::error!("can't write {}: {why}; trying again", self.note().display());
                    continue;
                }
                tracing::error!(
                    "{} was deleted under the running service. It goes on, and what is held stays \
                     held; but if it is killed, the next one has to wait for all leases",
                    self.data().display()
                );
                self.data_was = None;
            } else if self.data_was.is_some() && self.began.elapsed() > longest * 2 {
                // Every lease of before is over, and the epoch is in the data.
                let _ = fs::remove_file(self.note());
            }
            if identity(&self.socket) != self.socket_was {
                tracing::error!("{} was deleted; made anew", self.socket.display());
                let made = match local::prepare() {
                    Ok(_) => server.listen_again(&self.socket).await.map_err(|bad| bad.to_string()),
                    Err(bad) => Err(bad.to_string()),
                };
                match made {
                    Ok(()) => self.socket_was = identity(&self.socket),
                    Err(why) => tracing::error!("nobody can connect: {why}; trying again"),
                }
            }
        }
    }

    /// The server has ended, with so many sessions left.
    pub(crate) fn leave(&self, epoch: u32, sessions: u64) {
        if self.data_was.is_none() && sessions == 0 {
            // Nothing is held: the next one need not wait.
            if let Err(why) = self.write_note(epoch, "ended") {
                tracing::error!("can't write {}: {why}", self.note().display());
            }
        }
    }

    fn write_note(&self, epoch: u32, how: &str) -> io::Result<()> {
        local::prepare().map_err(|bad| io::Error::other(bad.to_string()))?;
        let new = self.folder.join("lost.new");
        fs::write(&new, format!("{epoch} {how}\n"))?;
        fs::File::open(&new)?.sync_all()?;
        fs::rename(&new, self.note())
    }
}

fn identity(path: &Path) -> Option<(u64, u64)> {
    fs::symlink_metadata(path).ok().map(|found| (found.dev(), found.ino()))
}

fn claim(quietly: bool) -> Result<Claim, Failure> {
    let late = Instant::now() + PATIENCE;
    let mut asked = None;
    loop {
        let Taken { process } = match Claim::take() {
            Ok(claim) => return Ok(claim),
            Err(taken) => taken,
        };
        if quietly {
            let text = format!("{process} is this user's service already");
            return Err(Failure::new(TAKEN, text));
        }
        let makes_room = asked == Some(process) || is_started_by_client(process);
        if !makes_room || Instant::now() > late {
            let text = format!(
                "{process} is the service behind local: already, so this one can't be: commands \
                 without a URL would not find it. End that one, over which locks are kept, or say \
                 where this one is to be: --listen, --data-dir"
            );
            return Err(Failure::new(CONFIG, text));
        }
        if asked != Some(process) {
            tracing::info!("taking over from {process}, which a client has started");
            if let Some(pid) = process.number.and_then(Pid::from_raw) {
                let _ = kill_process(pid, Signal::TERM);
            }
            asked = Some(process);
        }
        thread::sleep(Duration::from_millis(5));
    }
}

/// Whether a service was started with `--local` alone, as clients do.
fn is_started_by_client(process: Process) -> bool {
    let Some(process) = process.number else { return false };
    let words = fs::read(format!("/proc/{process}/cmdline")).unwrap_or_default();
    let mut words = words.split(|byte| *byte == 0).skip(1);
    words.next() == Some(b"serve") && words.next() == Some(b"--local") && {
        // The last word has an end too.
        words.all(|word| word.is_empty())
    }
}
