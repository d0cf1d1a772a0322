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

/// A connection to the lock service. Cheap to clone: clones share one connection.
///
/// - It reconnects by itself when the connection is lost.
/// - Records that were acquired stay cached until another process wants them.
/// - When the last clone, record and guard is dropped, the session ends and the server frees
///   everything. [`Locks::close`] does so at once and waits for the confirmation.
/// - It belongs to the process that connected: see [after a fork](crate::connect#after-a-fork).
///
/// ```
/// # tokio::runtime::Runtime::new().unwrap().block_on(async {
/// let locks = lockspan_client::connect("memory:").await?;
/// let invoice = locks.record("invoice", 42)?;
/// let held = invoice.write().await?;
/// // … change invoice 42 …
/// drop(held);
/// locks.close().await?;
/// # Ok::<(), Box<dyn std::error::Error>>(()) }).unwrap();
/// ```
#[derive(Clone)]
pub struct Locks {
    handle: Arc<Handle>,
    owner: Option<Owner>,
}

impl Locks {
    pub(crate) fn new(handle: Handle) -> Self {
        Self { handle: Arc::new(handle), owner: None }
    }

    pub(crate) fn handle(&self) -> &Arc<Handle> {
        &self.handle
    }

    pub(crate) fn owner(&self) -> Option<Owner> {
        self.owner
    }

    /// The record with the name `<datatype>:<id>`. Sends no message: a record needs no creation.
    ///
    /// The id is text, bytes or an integer, or a UUID with the feature `uuid`: see [`RecordId`].
    ///
    /// ```
    /// # tokio::runtime::Runtime::new().unwrap().block_on(async {
    /// let locks = lockspan_client::connect("memory:").await?;
    /// let invoice = locks.record("invoice", 42)?;
    /// assert_eq!(invoice.name(), locks.record("invoice", "42")?.name());
    /// # Ok::<(), Box<dyn std::error::Error>>(()) }).unwrap();
    /// ```
    ///
    /// # Errors
    ///
    /// [`BadName`]: the datatype has a colon, either part is empty, or both together have more than
    /// 512 bytes.
    pub fn record(&self, datatype: impl AsRef<[u8]>, id: impl RecordId) -> Result<Record, BadName> {
        Ok(self.named(&Name::new(datatype, id)?))
    }

    /// The record with this name, given in one piece: `<datatype>:<id>`. The first colon divides
    /// the two.
    ///
    /// # Errors
    ///
    /// [`BadName`]: there is no colon, either part is empty, or both together have more than 512
    /// bytes.
    pub fn parse(&self, name: impl AsRef<[u8]>) -> Result<Record, BadName> {
        Ok(self.named(&Name::parse(name.as_ref())?))
    }

    /// The record with this [`Name`].
    #[must_use]
    pub fn named(&self, name: &Name) -> Record {
        let node = self.handle.node();
        // In a child a thread that is not there may hold the map.
        let entry = if node.is_forked() { Entry::alone(name) } else { node.entries.get(name) };
        Record { handle: Arc::clone(&self.handle), entry, owner: self.owner, note: None }
    }

    /// Acquires the record with this name for reading: [`Locks::named`], then
    /// [`Record::read_owned`].
    ///
    /// # Errors
    ///
    /// As [`Record::read`].
    pub async fn read(&self, name: &Name) -> Result<OwnedReadGuard, LockError> {
        self.named(name).read_owned().await
    }

    /// Acquires the record with this name for writing: [`Locks::named`], then
    /// [`Record::write_owned`].
    ///
    /// # Errors
    ///
    /// As [`Record::write`].
    pub async fn write(&self, name: &Name) -> Result<OwnedWriteGuard, LockError> {
        self.named(name).write_owned().await
    }

    /// The same connection on behalf of an owner, such as a transaction. Deadlocks between owners
    /// are detected: one of them is refused with [`LockError::Deadlock`].
    ///
    /// The owner's number must be unique in the service while it is used.
    ///
    /// An owner counts as one thread of control. If it waits for a record that it holds itself, it
    /// is refused, even if another task of the same owner would release the record soon. That
    /// concerns a second [`Record::read`] of the same record while a writer waits, and any
    /// [`Record::write`] of it.
    ///
    /// Acquiring costs more than without an owner: what an owner holds and waits for is recorded
    /// under a mutex.
    ///
    /// ```
    /// # tokio::runtime::Runtime::new().unwrap().block_on(async {
    /// use lockspan_client::{LockError, Owner};
    ///
    /// let locks = lockspan_client::connect("memory:").await?;
    /// let transaction = locks.as_owner(Owner(7));
    /// let account = transaction.record("account", 1)?;
    /// let held = account.write().await?;
    /// // The same owner would wait for itself.
    /// let refused = account.write().await;
    /// assert!(matches!(refused, Err(LockError::Deadlock { .. })));
    /// # drop(held);
    /// # Ok::<(), Box<dyn std::error::Error>>(()) }).unwrap();
    /// ```
    #[must_use]
    pub fn as_owner(&self, owner: Owner) -> Self {
        Self { handle: Arc::clone(&self.handle), owner: Some(owner) }
    }

    /// Counts of messages, grants and reconnections so far.
    #[must_use]
    pub fn stats(&self) -> Stats {
        self.handle.node().stats()
    }

    /// Reports to the recorder of the `metrics` crate now. It happens once a second in the
    /// background, and when the connection ends; call this where a test or a short program needs
    /// the numbers earlier.
    #[cfg(feature = "metrics")]
    pub fn publish_metrics(&self) {
        self.handle.node().publish();
    }

    /// Gives back to the server, at once, all records that are cached and not in use.
    pub fn give_back_idle(&self) {
        self.handle.node().give_back_idle();
    }

    /// The bytes that end this session when another process sends them to the same server, after
    /// the hello of its connection. For the command line's helper process, which cleans up after a
    /// program that was killed. They are a secret: anybody who has them can end the session.
    ///
    /// `None` if there is no session yet, if the service is not a server (`memory:`, Redis), or if
    /// the session belongs to the parent that forked this process.
    #[doc(hidden)]
    #[must_use]
    pub fn last_will(&self) -> Option<Vec<u8>> {
        let node = self.handle.node();
        // In a child the outbox may be locked forever, and the session is not its own.
        if node.is_forked() {
            return None;
        }
        node.way.last_will()
    }

    /// Whether an operator of the server has ended a session of this connection. That makes its
    /// guards invalid. The next acquire begins a new session.
    #[must_use]
    pub fn was_ended_by_operator(&self) -> bool {
        self.handle.node().ended_by_operator.load(Ordering::Acquire)
    }

    /// Ends the session now. Guards become invalid, and calls fail with [`LockError::Closed`].
    /// Returns when the server has confirmed it.
    ///
    /// # Errors
    ///
    /// [`CloseUnknown`] if the server does not answer. Then what was held is free when the lease
    /// expires, at the latest.
    pub async fn close(self) -> Result<(), CloseUnknown> {
        task::close(self.handle.node()).await
    }
}

impl fmt::Debug for Locks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Locks").field("owner", &self.owner).finish_non_exhaustive()
    }
}
