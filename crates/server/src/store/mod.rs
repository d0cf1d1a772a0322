//! What outlives a run: the epoch of each group, and the sessions. Nothing per grant.
//!
//! With a data directory a thread of its own writes what comes, as much as is there in one commit,
//! and says so when it is durable. If only processes of this machine can reach the server, its
//! sessions are in a log instead, which is written at once, see `log`. Without a directory
//! everything counts as durable at once, and the beginning of a run makes up for it, see
//! [`Saved::nothing`].

mod file;
mod log;
mod owners;
#[cfg(test)]
mod tests;

use std::path::Path;
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;
use std::{io, thread};

use lockspan_protocol::server::{Listed, Store};
use lockspan_protocol::{Epoch, Handoff, SessionId, StoreId};

use crate::config::LostData;
use crate::error::StartError;
use file::DataFile;
use log::{Log, Past};
pub(crate) use owners::Owners;

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
        let listed =
            Listed { session: phantom, ttl, handoff: Handoff::Direct, here: false, last: true };
        let sessions = if fresh { Vec::new() } else { vec![listed] };
        Self { epoch: Epoch::NONE, sessions }
    }

    /// The data of the run before were lost: go on above its epoch, and wait for its leases.
    pub(crate) fn after(&mut self, lost: LostData, ttl: Duration, phantom: SessionId) {
        self.epoch = Epoch::new(lost.epoch).map_or(self.epoch, |lost| self.epoch.max(lost));
        if lost.held {
            tracing::warn!(
                "the data of the last run were deleted under it: nothing is granted for {:?}, \
                 until every lease of then is over",
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
    log: Option<Arc<Mutex<Logged>>>,
    owners: Owners,
}

/// A log that everybody writes to.
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
            match self.log.write([what]) {
                Ok(()) => return true,
                Err(why) => {
                    tracing::error!("can't write {}: {why}", self.log.path().display());
                }
            }
        }
        self.late += 1;
        false
    }

    /// Writes what is late.
    fn catch_up(&mut self, batch: &[Store]) -> io::Result<()> {
        let sessions = batch.iter().filter(|what| !matches!(what, Store::Epoch(_)));
        self.log.write(sessions)
    }

    /// So much of it was told.
    fn told(&mut self, count: usize) {
        self.late -= count;
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
    file: DataFile,
    log: Option<Arc<Mutex<Logged>>>,
    jobs: Receiver<Job>,
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

/// Opens the file in this directory, or makes it.
pub(crate) fn open(dir: &Path, how: Use) -> Result<(Opened, Storage, Saved), StartError> {
    let (mut file, mut saved, logged) = DataFile::open(dir)?;
    let owners = file.owners();
    let boot = log::boot();
    if let Some(longest) = logged {
        let damaged = |(path, why)| StartError::DamagedSessions { path, why };
        saved.sessions = match log::read(dir, boot.as_deref(), &owners).map_err(damaged)? {
            Past::Known(sessions) => sessions,
            Past::Unknown => {
                tracing::warn!(
                    "the machine was restarted while the server ran, or the file with its \
                     sessions is gone: nothing is granted for {:?}, until every lease of then \
                     is over",
                    longest + lockspan_protocol::margin(longest)
                );
                Saved::nothing(false, longest, how.phantom).sessions
            }
        };
    }
    let failed = |path: &Path, why| StartError::Data { path: path.to_owned(), why };
    let log = match boot.filter(|_| how.one_machine) {
        Some(boot) => {
            // First the log, then the word that it counts.
            let log = Log::make(dir, &boot, &saved.sessions, owners.clone());
            let log = log.map_err(|why| failed(dir, why))?;
            let leases = saved.sessions.iter().map(|one| one.ttl);
            let longest = leases.chain([how.longest]).max();
            if longest != logged {
                file.log_begins(longest.unwrap_or_default())
                    .map_err(|why| failed(file.path(), io::Error::other(why)))?;
            }
            Some(Arc::new(Mutex::new(Logged { log, late: 0, ended: false })))
        }
        None => {
            if logged.is_some() {
                let sessions: Vec<_> = saved.sessions.iter().map(log::store_of).collect();
                file.log_ends(&sessions)
                    .map_err(|why| failed(file.path(), io::Error::other(why)))?;
                log::remove(dir);
            }
            None
        }
    };
    let (queue, jobs) = mpsc::channel();
    let writer = Writer { queue, log: log.clone(), owners };
    Ok((Opened { file, log, jobs }, Storage::File(writer), saved))
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
    pub(crate) fn start(
        self,
        stored: impl Fn(Vec<StoreId>) + Send + 'static,
    ) -> io::Result<JoinHandle<()>> {
        let Self { mut file, log, jobs } = self;
        thread::Builder::new().name("lockspan-store".to_owned()).spawn(move || {
            while let Ok(first) = jobs.recv() {
                let (mut ids, mut batch) = (Vec::new(), Vec::new());
                let mut all = [first].into_iter().chain(jobs.try_iter());
                let ends = all.any(|job| take_in(job, &mut ids, &mut batch));
                while !batch.is_empty()
                    && let Err(why) = write(&mut file, log.as_deref(), &batch)
                {
                    // Nobody is told that it is durable before it is, so nothing goes wrong but
                    // that sessions don't open or end.
                    tracing::error!("can't write {}: {why}; trying again", file.path().display());
                    if ends || jobs.try_iter().any(|job| take_in(job, &mut ids, &mut batch)) {
                        return;
                    }
                    thread::sleep(Duration::from_millis(500));
                    file.open_again();
                }
                stored(ids);
                if let Some(log) = &log {
                    crate::lock(log).told(batch.len());
                }
                if ends {
                    if let Some(log) = &log {
                        crate::lock(log).end();
                    }
                    return;
                }
            }
        })
    }
}

/// Writes all of it, perhaps not for the first time.
fn write(
    file: &mut DataFile,
    log: Option<&Mutex<Logged>>,
    batch: &[Store],
) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let Some(log) = log else { return file.write(batch) };
    let epochs = batch.iter().filter(|what| matches!(what, Store::Epoch(_)));
    let epochs: Vec<_> = epochs.cloned().collect();
    if !epochs.is_empty() {
        file.write(&epochs)?;
    }
    Ok(crate::lock(log).catch_up(batch)?)
}
