//! What outlives a run: the epoch of each group, and the sessions. Nothing per grant.
//!
//! With a data directory a thread of its own writes what comes, as much as is there in one commit,
//! and says so when it is durable. Without one everything counts as durable at once, and the
//! beginning of a run makes up for it, see [`Saved::nothing`].

mod file;

use std::path::Path;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::JoinHandle;
use std::time::Duration;
use std::{io, thread};

use lockspan_protocol::server::{Listed, Store};
use lockspan_protocol::{Epoch, Handoff, SessionId, StoreId};

use crate::error::StartError;
use file::DataFile;

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
}

impl Storage {
    /// Whether it is durable already; otherwise the writer will say so.
    pub(crate) fn put(&self, store: StoreId, what: Store) -> bool {
        match self {
            Self::Memory => true,
            Self::File(writer) => {
                // After the end nothing becomes durable any more, and nobody is told that it did.
                let _ = writer.queue.send(Job::Put(store, what));
                false
            }
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
    jobs: Receiver<Job>,
}

/// Opens the file in this directory, or makes it.
pub(crate) fn open(dir: &Path) -> Result<(Opened, Storage, Saved), StartError> {
    let (file, saved) = DataFile::open(dir)?;
    let (queue, jobs) = mpsc::channel();
    Ok((Opened { file, jobs }, Storage::File(Writer { queue }), saved))
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
        let Self { mut file, jobs } = self;
        thread::Builder::new().name("lockspan-store".to_owned()).spawn(move || {
            while let Ok(first) = jobs.recv() {
                let (mut ids, mut batch) = (Vec::new(), Vec::new());
                let mut all = [first].into_iter().chain(jobs.try_iter());
                let ends = all.any(|job| take_in(job, &mut ids, &mut batch));
                while !batch.is_empty()
                    && let Err(why) = file.write(&batch)
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
                if ends {
                    return;
                }
            }
        })
    }
}
