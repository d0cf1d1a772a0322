//! A connection to the lock service.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use lockspan_park::fork::ProcessBound;
use lockspan_protocol::{BadName, Owner, Record as Name, RecordId};

use crate::entry::Entry;
use crate::error::{CloseUnknown, LockError};
use crate::guard::{OwnedReadGuard, OwnedWriteGuard};
use crate::node::Node;
use crate::record::Record;
use crate::stats::Stats;
use crate::task;

/// What all handles of a connection share. When the last goes, the session ends.
pub(crate) struct Handle {
    node: ProcessBound<Arc<Node>>,
    pub(crate) try_for: Duration,
}

impl Handle {
    pub(crate) fn new(node: Arc<Node>, try_for: Duration) -> Self {
        Self { node: ProcessBound::new(node), try_for }
    }

    #[inline]
    pub(crate) fn node(&self) -> &Arc<Node> {
        &self.node
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        // A child has a copy of the handle, not of the session.
        if self.node.is_forked() {
            return;
        }
        self.node.close();
        self.node.is_ended.store(true, Ordering::Release);
        self.node.bell.notify_one();
    }
}

/// A connection to the lock service: this process as one of its nodes. A handle, cheap to clone.
///
/// It reconnects by itself. Records that were used stay cached on this node until somebody else
/// wants them. When the last handle, record and guard is dropped, the session ends and everything
/// goes back. It belongs to the process that [connected](crate::connect#after-a-fork).
#[derive(Clone)]
pub struct Locks {
    handle: Arc<Handle>,
    owner: Option<Owner>,
}

impl Locks {
    pub(crate) fn new(handle: Handle) -> Self {
        Self { handle: Arc::new(handle), owner: None }
    }

    /// The record with this name. The id is text, bytes or an integer, or a UUID with the feature
    /// `uuid`: [`RecordId`]. The datatype has no colon, neither is empty, and together they have at
    /// most 512 bytes.
    ///
    /// ```
    /// # tokio::runtime::Runtime::new().unwrap().block_on(async {
    /// let locks = lockspan_client::connect("memory:").await?;
    /// let invoice = locks.record("invoice", 42)?;
    /// assert_eq!(invoice.name(), locks.record("invoice", "42")?.name());
    /// # Ok::<(), Box<dyn std::error::Error>>(()) }).unwrap();
    /// ```
    pub fn record<As>(
        &self,
        datatype: impl AsRef<[u8]>,
        id: impl RecordId<As>,
    ) -> Result<Record, BadName> {
        Ok(self.named(&Name::new(datatype, id)?))
    }

    /// The record with this name, in one piece: `<datatype>:<id>`.
    pub fn parse(&self, name: impl AsRef<[u8]>) -> Result<Record, BadName> {
        Ok(self.named(&Name::parse(name.as_ref())?))
    }

    /// The record with this name.
    #[must_use]
    pub fn named(&self, name: &Name) -> Record {
        let node = self.handle.node();
        // In a child a thread that is not there may hold the map.
        let entry = if node.is_forked() { Entry::alone(name) } else { node.entries.get(name) };
        Record { handle: Arc::clone(&self.handle), entry, owner: self.owner }
    }

    /// Waits until the record may be read: [`Record::read_owned`] by name.
    pub async fn read(&self, name: &Name) -> Result<OwnedReadGuard, LockError> {
        self.named(name).read_owned().await
    }

    /// Waits until the record may be written: [`Record::write_owned`] by name.
    pub async fn write(&self, name: &Name) -> Result<OwnedWriteGuard, LockError> {
        self.named(name).write_owned().await
    }

    /// The same connection on behalf of an owner, such as a transaction. Deadlocks between owners
    /// are found: one of them is refused with [`LockError::Deadlock`]. The number must be unique
    /// in the service while it is used.
    ///
    /// An owner is taken for one thread of control. If it waits for what it holds itself, it is
    /// refused, although another task of the same owner might have let go soon: a second
    /// [`Record::read`] of the same record while a writer waits, or any [`Record::write`] of it.
    ///
    /// It costs the fast path: what a named owner holds is written down.
    #[must_use]
    pub fn as_owner(&self, owner: Owner) -> Self {
        Self { handle: Arc::clone(&self.handle), owner: Some(owner) }
    }

    /// What has happened so far.
    #[must_use]
    pub fn stats(&self) -> Stats {
        self.handle.node().stats()
    }

    /// Tells the recorder of the `metrics` façade what was counted until now. That happens once a
    /// second by itself, and when the connection ends; this is for who can't wait for it.
    pub fn publish_metrics(&self) {
        self.handle.node().publish();
    }

    /// Gives back what is cached and not in use, at once.
    pub fn give_back_idle(&self) {
        self.handle.node().give_back_idle();
    }

    /// What ends this session when another process sends it, on any connection to the same server
    /// and after the hello: for a helper that outlives this process and cleans up after it. It is
    /// a secret: whoever has it can end the session. `None`: there is no session yet, it is not
    /// one of a server (`memory:`, Redis), or it is that of the process that forked this one.
    #[must_use]
    pub fn last_will(&self) -> Option<Vec<u8>> {
        let node = self.handle.node();
        // In a child the outbox may be locked for ever, and the session is not its own.
        if node.is_forked() {
            return None;
        }
        node.way.last_will()
    }

    /// Whether an operator of the server has ended a session of this connection: then that is why
    /// guards are lost. The next acquire is in a new session.
    #[must_use]
    pub fn was_ended_by_operator(&self) -> bool {
        self.handle.node().ended_by_operator.load(Ordering::Acquire)
    }

    /// Ends the session now: guards are lost, waits fail with [`LockError::Closed`]. Returns when
    /// the server has heard it, or with [`CloseUnknown`] when it does not answer.
    pub async fn close(self) -> Result<(), CloseUnknown> {
        task::close(self.handle.node()).await
    }
}

impl fmt::Debug for Locks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Locks").field("owner", &self.owner).finish_non_exhaustive()
    }
}
