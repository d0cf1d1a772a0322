//! The place behind `local:`, as long as this process serves it.
//!
//! **Invariant**: nobody serves it without the claim to it, which ends with the process; and
//! whoever serves it goes on with the data of the one before, or, if these were deleted under a
//! running service, above its epoch (the file `lost`). So there are never two, and tokens never
//! fall.
//!
//! Data count as deleted when the directory, the data file or the lock file is not what it was.
//! From then on until it ends, the service writes the note whenever it is missing or says less, and
//! makes the directory anew, so that a full log can be replaced. A note that can't be read is an
//! error, and not "nothing was lost".

use std::fs;
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
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

type Identity = (u64, u64);

/// The place, and the claim to it.
#[derive(Debug)]
pub(crate) struct Place {
    folder: PathBuf,
    socket: PathBuf,
    /// Which files they were: device and number.
    socket_was: Option<Identity>,
    /// The data directory and its lock file.
    data_was: Option<(Identity, Option<Identity>)>,
    /// There was a data file once: a disk may have been full when the service started.
    had_data: bool,
    /// The data were deleted under this service.
    is_lost: bool,
    /// The lock file that this process made anew, locked.
    lock: Option<fs::File>,
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
                tracing::debug!("can't answer a client that looks for this service: {why}");
                thread::sleep(LOOK);
            }
        })
        .map_err(|bad| Failure::new(SYSTEM, format!("can't start a thread: {bad}")))?;
        Ok(Self {
            folder,
            socket,
            socket_was: None,
            data_was: None,
            had_data: false,
            is_lost: false,
            lock: None,
            began: Instant::now(),
        })
    }

    fn data(&self) -> PathBuf {
        self.folder.join("data")
    }

    fn note(&self) -> PathBuf {
        self.folder.join("lost")
    }

    fn data_file(&self) -> PathBuf {
        self.data().join("lockspan.data")
    }

    fn lock_file(&self) -> PathBuf {
        self.data().join("lockspan.lock")
    }

    /// What is known of data that were deleted under an earlier service. A directory that such a
    /// service left without a data file is moved away: the server refuses it, and the note says
    /// all that is needed to go on.
    pub(crate) fn lost(&self) -> Result<Option<LostData>, Failure> {
        let failed = |path: &Path, why: io::Error| {
            Failure::new(CONFIG, format!("{} can't be used: {why}", path.display()))
        };
        let note = self.note();
        let Some(lost) = self.read_note().map_err(|why| failed(&note, why))? else {
            return Ok(None);
        };
        let (data, file) = (self.data(), self.data_file());
        let is_there = file.try_exists().map_err(|why| failed(&file, why))?;
        if !is_there && identity(&data).is_some() {
            let away = self.folder.join("data.lost");
            tracing::warn!(
                "{} is missing; moving its directory to {} and continuing above epoch {}",
                file.display(),
                away.display(),
                lost.epoch
            );
            match fs::remove_dir_all(&away) {
                Err(why) if why.kind() != io::ErrorKind::NotFound => {
                    return Err(failed(&away, why));
                }
                _ => {}
            }
            fs::rename(&data, &away).map_err(|why| failed(&data, why))?;
        }
        Ok(Some(lost))
    }

    fn read_note(&self) -> io::Result<Option<LostData>> {
        let text = match fs::read_to_string(self.note()) {
            Err(why) if why.kind() == io::ErrorKind::NotFound => return Ok(None),
            text => text?,
        };
        parse_note(&text).map(Some).ok_or_else(|| {
            let text = "expected `EPOCH held` or `EPOCH ended`, written by a service whose data \
                        were deleted; without this file fencing tokens could repeat";
            io::Error::new(io::ErrorKind::InvalidData, text)
        })
    }

    /// The server runs: these are its files.
    pub(crate) fn remember(&mut self) {
        self.socket_was = identity(&self.socket);
        let lock = identity(&self.lock_file());
        self.data_was = identity(&self.data()).map(|data| (data, lock));
        self.had_data = identity(&self.data_file()).is_some();
    }

    /// Looks whether the data were deleted, and writes down what the next service has to know.
    fn look(&mut self, epoch: u32) {
        let Some((data, lock)) = self.data_was else { return };
        let has_data = identity(&self.data_file()).is_some();
        let is_same = identity(&self.data()) == Some(data)
            && identity(&self.lock_file()) == lock
            && (has_data || !self.had_data);
        self.had_data |= has_data;
        if !is_same && !self.is_lost {
            tracing::error!(
                "files in {} were deleted while this service runs. It continues, and all locks \
                 stay held; but if it is killed, the next service must wait until all leases have \
                 expired",
                self.data().display()
            );
            self.is_lost = true;
        }
        if !self.is_lost {
            return;
        }
        let is_noted = |note: LostData| note.epoch >= epoch && note.held;
        if !self.read_note().is_ok_and(|note| note.is_some_and(is_noted))
            && let Err(why) = self.write_note(epoch, "held")
        {
            tracing::error!("can't write {}: {why}; trying again", self.note().display());
        }
        if let Err(why) = self.make_data() {
            tracing::error!("can't create {}: {why}; trying again", self.data().display());
        }
    }

    /// Makes the data directory and its lock file anew if they are missing. The claim keeps others
    /// away, so nobody else uses the directory.
    fn make_data(&mut self) -> io::Result<()> {
        let lock = self.lock_file();
        if identity(&lock).is_some() {
            return Ok(());
        }
        local::prepare().map_err(|bad| io::Error::other(bad.to_string()))?;
        match fs::DirBuilder::new().mode(0o700).create(self.data()) {
            Err(why) if why.kind() != io::ErrorKind::AlreadyExists => return Err(why),
            _ => {}
        }
        let file = fs::File::options().write(true).create_new(true).mode(0o600).open(&lock)?;
        file.try_lock()?;
        self.lock = Some(file);
        Ok(())
    }

    /// Looks after the files of a server for as long as it runs: a socket that was deleted is made
    /// anew, and of deleted data is noted what the next service has to know.
    pub(crate) async fn look_after(&mut self, server: &Server, longest: Duration) -> ! {
        loop {
            tokio::time::sleep(LOOK).await;
            self.look(server.epoch());
            if !self.is_lost && self.data_was.is_some() && self.began.elapsed() > longest * 2 {
                // Every lease of before is over, and the epoch is in the data.
                let _ = fs::remove_file(self.note());
            }
            let socket = identity(&self.socket);
            // One that was deleted at once when it was made has never been seen.
            if socket.is_none() || socket != self.socket_was {
                tracing::error!("{} was deleted; creating it again", self.socket.display());
                let made = match local::prepare() {
                    Ok(_) => server.listen_again(&self.socket).await.map_err(|bad| bad.to_string()),
                    Err(bad) => Err(bad.to_string()),
                };
                match made {
                    Ok(()) => self.socket_was = identity(&self.socket),
                    Err(why) => tracing::error!("clients can't connect: {why}; trying again"),
                }
            }
        }
    }

    /// The server has ended, with so many sessions left.
    pub(crate) fn leave(&mut self, epoch: u32, sessions: u64) {
        self.look(epoch);
        if self.is_lost && sessions == 0 {
            // Nothing is held: the next one need not wait.
            if let Err(why) = self.write_note(epoch, "ended") {
                tracing::error!("can't write {}: {why}", self.note().display());
            }
        }
    }

    fn write_note(&self, epoch: u32, how: &str) -> io::Result<()> {
        local::prepare().map_err(|bad| io::Error::other(bad.to_string()))?;
        let new = self.folder.join("lost.new");
        let mut options = fs::File::options();
        let mut file = options.write(true).create(true).truncate(true).mode(0o600).open(&new)?;
        writeln!(file, "{epoch} {how}")?;
        file.sync_all()?;
        fs::rename(&new, self.note())?;
        fs::File::open(&self.folder)?.sync_all()
    }
}

/// The epoch, and whether something may be held. What is said of that otherwise counts as held.
fn parse_note(text: &str) -> Option<LostData> {
    let mut words = text.split_whitespace();
    let epoch = words.next()?.parse().ok()?;
    Some(LostData { epoch, held: words.next() != Some("ended") })
}

fn identity(path: &Path) -> Option<Identity> {
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
            let text = format!("{process} already is this user's service");
            return Err(Failure::new(TAKEN, text));
        }
        let makes_room = asked == Some(process) || is_started_by_client(process);
        if !makes_room || Instant::now() > late {
            let text = format!(
                "{process} already is the service for local:, and there can be only one. Stop that \
                 process (locks are kept), or start this server with --listen or --data-dir"
            );
            return Err(Failure::new(CONFIG, text));
        }
        if asked != Some(process) {
            tracing::info!("taking over from {process}, which a client started");
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
