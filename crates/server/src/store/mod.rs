//! What outlives a run: the epoch of each group, and the sessions. Nothing per grant.
//!
//! With a data directory a thread of its own writes what comes, as much as is there in one batch,
//! and says so when it is durable. If only processes of this machine can reach the server, its
//! sessions are written at once instead, by whoever changes them, and not synced. Without a
//! directory everything counts as durable at once, and the beginning of a run makes up for it, see
//! [`Saved::nothing`].
//!
//! | module | job |
//! |---|---|
//! | `dir` | the directory, and which files in it belong together |
//! | `line` | one line of the data file, with its checksum |
//! | `past` | what a file says of the last run, and whether that is all |
//! | `log` | the open file |
//! | `owners` | whose the sessions are |
//!
//! # Invariant
//!
//! A change that was acknowledged is known to every later start, or that start knows that something
//! is missing: then it waits for the longest lease that any session may have had, or refuses.

#[cfg(test)]
mod damage;
mod dir;
pub(crate) mod key;
mod line;
mod log;
mod owners;
mod past;
#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;
use std::{io, thread};

use lockspan_protocol::server::{Listed, Store};
use lockspan_protocol::{Epoch, Handoff, SessionId, StoreId};

use crate::config::LostData;
use crate::error::StartError;
use dir::{Dir, Lock};
use log::Log;
pub(crate) use owners::Owners;
use past::Past;

/// What a run begins with.
#[derive(Debug)]
pub(crate) struct Saved {
    /// The highest epoch of any group.
    pub(crate) epoch: Epoch,
    /// The sessions of the run before.
    pub(crate) sessions: Vec<Listed>,
}

impl Saved {
    /// Nothing is known of the run before. A session that nobody has stands for all that it may
    /// have had: as long as its lease is not over, nothing is granted, and since nobody else is
    /// listed, nothing is re-asserted.
    pub(crate) fn nothing(fresh: bool, ttl: Duration, phantom: SessionId) -> Self {
        // Nobody extends it: however often groups are taken again, it ends when it was to end.
        let listed = Listed { here: false, ..past::listed(phantom, ttl, Handoff::Direct, true) };
        let sessions = if fresh { Vec::new() } else { vec![listed] };
        Self { epoch: Epoch::NONE, sessions }
    }

    /// The data of the run before were lost: go on above its epoch, and wait for its leases.
    pub(crate) fn after(&mut self, lost: LostData, ttl: Duration, phantom: SessionId) {
        self.epoch = Epoch::new(lost.epoch).map_or(self.epoch, |lost| self.epoch.max(lost));
        if lost.held {
            tracing::warn!(
                "the data of the last run were deleted while it ran: nothing is granted for {:?}, \
                 until every lease of that run has expired",
                ttl + lockspan_protocol::margin(ttl)
            );
            self.sessions.extend(Self::nothing(false, ttl, phantom).sessions);
        }
    }
}

enum Job {
    Put(StoreId, Store),
    End,
}

/// Where to put what is to be durable.
#[derive(Debug)]
pub(crate) enum Storage {
    /// Nowhere; it counts at once.
    Memory,
    /// To the thread that writes.
    File(Writer),
}

/// The way to the thread that writes.
#[derive(Debug)]
pub(crate) struct Writer {
    queue: Sender<Job>,
    /// The log, if everybody may write to it.
    log: Option<Arc<Mutex<Logged>>>,
    owners: Owners,
    trouble: Trouble,
}

/// Why nothing can be written at the moment.
type Trouble = Arc<Mutex<Option<String>>>;

/// A log, and what was not told of it yet.
#[derive(Debug)]
struct Logged {
    log: Log,
    /// How much is with the thread that writes, and not told to be durable yet: an epoch, or what
    /// could not be written at once. As long as there is some, all goes that way, so that it
    /// becomes durable and is told in order.
    late: usize,
    ended: bool,
}

impl Logged {
    /// Whether it is written.
    fn put(&mut self, what: &Store) -> bool {
        if self.late == 0 && !self.ended && !matches!(what, Store::Epoch(_)) {
            match self.log.write(std::slice::from_ref(what)) {
                Ok(()) => return true,
                Err(why) => {
                    tracing::error!("can't write {}: {why}", self.log.path().display());
                }
            }
        }
        self.late += 1;
        false
    }

    /// So much of it was told. What only the thread writes was never counted.
    fn told(&mut self, count: usize) {
        self.late = self.late.saturating_sub(count);
    }

    fn end(&mut self) {
        self.ended = true;
        if let Err(why) = self.log.end() {
            tracing::error!("can't sync {}: {why}", self.log.path().display());
        }
    }
}

impl Storage {
    /// Whether it is durable already; otherwise the writer will say so.
    pub(crate) fn put(&self, store: StoreId, what: Store) -> bool {
        match self {
            Self::Memory => true,
            Self::File(writer) => {
                // Held until it is in the queue, if it has to go there: the order counts.
                let mut log = writer.log.as_ref().map(|log| crate::lock(log));
                if let Some(log) = &mut log
                    && log.put(&what)
                {
                    return true;
                }
                // After the end nothing becomes durable any more, and nobody is told that it did.
                let _ = writer.queue.send(Job::Put(store, what));
                false
            }
        }
    }

    /// Whose a session is that is put next.
    pub(crate) fn set_owner(&self, session: SessionId, user: Arc<str>) {
        if let Self::File(writer) = self {
            writer.owners.set(session, user);
        }
    }

    /// Whose a session of the run before is, if that is known.
    pub(crate) fn owner(&self, session: SessionId) -> Option<Arc<str>> {
        match self {
            Self::File(writer) => writer.owners.get(session),
            Self::Memory => None,
        }
    }

    /// Why nothing can be written at the moment, if so.
    pub(crate) fn trouble(&self) -> Option<String> {
        match self {
            Self::File(writer) => crate::lock(&writer.trouble).clone(),
            Self::Memory => None,
        }
    }

    /// The writer ends when it has written what was put before.
    pub(crate) fn end(&self) {
        if let Self::File(writer) = self {
            let _ = writer.queue.send(Job::End);
        }
    }
}

/// A data file that was read, and is about to be written.
#[derive(Debug)]
pub(crate) struct Opened {
    lock: Lock,
    log: Arc<Mutex<Logged>>,
    jobs: Receiver<Job>,
    trouble: Trouble,
    /// The file could be made. Otherwise the disk is full, and the thread tries again.
    pub(crate) is_made: bool,
}

/// How a data directory is used.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Use {
    /// Only processes of this machine can reach the server.
    pub(crate) one_machine: bool,
    /// The longest lease that a session may have from now on.
    pub(crate) longest: Duration,
    /// Stands for the sessions of an earlier run of which nothing is known.
    pub(crate) phantom: SessionId,
}

/// The machine's present boot, if the system names it.
fn boot() -> Option<String> {
    let name = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    let name = name.trim();
    let is_plain = |byte: u8| byte.is_ascii_hexdigit() || byte == b'-';
    (name.len() >= 32 && name.bytes().all(is_plain)).then(|| name.to_owned())
}

/// Opens the file in this directory, or makes it.
pub(crate) fn open(dir: &Path, how: Use) -> Result<(Opened, Storage, Saved), StartError> {
    let (dir, lock) = Dir::take(dir)?;
    let (boot, owners) = (boot(), Owners::default());
    let saved = match dir.read()? {
        Some(bytes) => saved(&dir, &bytes, boot.as_deref(), how, &owners)?,
        None => Saved { epoch: Epoch::NONE, sessions: Vec::new() },
    };
    let path = dir.data();
    let leases = saved.sessions.iter().map(|one| one.ttl);
    let longest = leases.chain([how.longest]).max().unwrap_or_default();
    let boot = boot.filter(|_| how.one_machine);
    let at_once = boot.is_some();
    let mut log = Log::new(dir, boot, longest, saved.epoch, &saved.sessions, owners.clone());
    let trouble = Trouble::default();
    let made = log.make(0);
    let is_made = made.is_ok();
    match made {
        Err(why) if dir::is_full(&why) => {
            tracing::error!("can't write {}: {why}; trying again", path.display());
            *crate::lock(&trouble) = Some(why.to_string());
        }
        made => made.map_err(|why| StartError::Data { path, why })?,
    }
    let log = Arc::new(Mutex::new(Logged { log, late: 0, ended: false }));
    let (queue, jobs) = mpsc::channel();
    let shared_log = at_once.then(|| Arc::clone(&log));
    let writer = Writer { queue, log: shared_log, owners, trouble: Arc::clone(&trouble) };
    Ok((Opened { lock, log, jobs, trouble, is_made }, Storage::File(writer), saved))
}

/// What a run begins with if this is the data file.
fn saved(
    dir: &Dir,
    bytes: &[u8],
    boot: Option<&str>,
    how: Use,
    owners: &Owners,
) -> Result<Saved, StartError> {
    let path = dir.data();
    let found = past::read(bytes, boot, owners)
        .map_err(|why| StartError::Damaged { path: path.clone(), why })?;
    if let Some(why) = found.repaired {
        tracing::warn!("{}: {why}; the other copy is intact, and nothing is lost", path.display());
    }
    let epoch = found.epoch;
    Ok(match found.past {
        Past::Known(sessions) => Saved { epoch, sessions },
        Past::Unknown(why) => {
            let longest = found.longest;
            tracing::warn!(
                "{}: {why}; it is not known which leases were granted, so nothing is granted for \
                 {:?}, until all of them have expired",
                path.display(),
                longest + lockspan_protocol::margin(longest)
            );
            Saved { epoch, ..Saved::nothing(false, longest, how.phantom) }
        }
    })
}

/// Puts a job to the others; whether it is the end.
fn take_in(job: Job, ids: &mut Vec<StoreId>, batch: &mut Vec<Store>) -> bool {
    let Job::Put(id, what) = job else { return true };
    ids.push(id);
    batch.push(what);
    false
}

impl Opened {
    /// Writes, until [`Storage::end`]. The directory is free for others when the thread has ended.
    /// `stored` is told what is durable, and `failed` is called after each attempt that was none.
    pub(crate) fn start(
        self,
        stored: impl Fn(Vec<StoreId>) + Send + 'static,
        failed: impl Fn() + Send + 'static,
    ) -> io::Result<JoinHandle<()>> {
        thread::Builder::new().name("lockspan-store".to_owned()).spawn(move || {
            self.run(stored, failed);
            // Nobody else writes either when others may use the directory.
            crate::lock(&self.log).ended = true;
            drop(self.lock);
        })
    }

    fn run(&self, stored: impl Fn(Vec<StoreId>), failed: impl Fn()) {
        let Self { log, jobs, trouble, .. } = self;
        while let Ok(first) = jobs.recv() {
            let (mut ids, mut batch) = (Vec::new(), Vec::new());
            let mut all = [first].into_iter().chain(jobs.try_iter());
            let ends = all.any(|job| take_in(job, &mut ids, &mut batch));
            while !batch.is_empty()
                && let Err((path, why)) = write(log, &batch)
            {
                // Nobody is told that it is durable before it is, so nothing goes wrong but that
                // sessions don't open or end.
                tracing::error!("can't write {}: {why}; trying again", path.display());
                *crate::lock(trouble) = Some(why.to_string());
                failed();
                if ends || jobs.try_iter().any(|job| take_in(job, &mut ids, &mut batch)) {
                    return;
                }
                thread::sleep(AGAIN);
            }
            if !batch.is_empty() && crate::lock(trouble).take().is_some() {
                tracing::info!("the data file can be written again");
            }
            stored(ids);
            crate::lock(log).told(batch.len());
            if ends {
                crate::lock(log).end();
                return;
            }
        }
    }
}

/// The pause after an attempt to write that failed.
const AGAIN: Duration = Duration::from_millis(500);

/// Writes all of it, perhaps not for the first time.
fn write(log: &Mutex<Logged>, batch: &[Store]) -> Result<(), (PathBuf, io::Error)> {
    let log = &mut crate::lock(log).log;
    log.write(batch).map_err(|why| (log.path(), why))
}
