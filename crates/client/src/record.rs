//! A record as its users see it.

use std::borrow::Borrow;
use std::fmt;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant};

use lockspan_park::fork::BoundFuture;
use lockspan_protocol::{Mode, Owner, Record as Name};
use lockspan_thread::gate::Use;

use crate::acquire::Acquire;
use crate::block;
use crate::entry::Entry;
use crate::error::LockError;
use crate::guard::{
    Exclusive, Guard, Kind, OwnedReadGuard, OwnedWriteGuard, ReadGuard, Shared, WriteGuard,
};
use crate::line::Answer;
use crate::locks::Handle;
use crate::node::Node;
use crate::task;

/// One record: `<datatype>:<id>`, to be held for reading or for writing.
///
/// A handle: cheap to clone, and to be kept where the record is used again and again, since it
/// saves the search by name. While the node has the record cached, taking and leaving it makes no
/// call.
///
/// # Forms
///
/// Each way to acquire is there for tasks (`async`) and for threads (`blocking_`, which must not be
/// called in a task), with a guard that borrows the record and with one that has its handle
/// (`_owned`). All of them exist for `write` too.
///
/// | | waits | gives up in time | takes it only if nobody is in the way |
/// |---|---|---|---|
#[doc = concat!(
    " | task | [`read`](Record::read) | [`read_timeout`](Record::read_timeout) | ",
    "[`try_read`](Record::try_read) |",
)]
#[doc = concat!(
    " | task, owned | [`read_owned`](Record::read_owned) | ",
    "[`read_owned_timeout`](Record::read_owned_timeout) | ",
    "[`try_read_owned`](Record::try_read_owned) |",
)]
#[doc = concat!(
    " | thread | [`blocking_read`](Record::blocking_read) | ",
    "[`blocking_read_timeout`](Record::blocking_read_timeout) | ",
    "[`blocking_try_read`](Record::blocking_try_read) |",
)]
#[doc = concat!(
    " | thread, owned | [`blocking_read_owned`](Record::blocking_read_owned) | ",
    "[`blocking_read_owned_timeout`](Record::blocking_read_owned_timeout) | ",
    "[`blocking_try_read_owned`](Record::blocking_try_read_owned) |",
)]
///
/// Those that give up answer [`LockError::Timeout`], those that try answer `None`. A reader becomes
/// a writer by [`Guard::upgrade`], which has the same forms but `_owned`: the guard stays of the
/// kind that it is. A writer becomes a reader by [`Guard::downgrade`], which never waits. Until a
/// guard is lost one waits with [`Guard::lost`] or [`Guard::blocking_lost`].
#[derive(Clone)]
pub struct Record {
    pub(crate) handle: Arc<Handle>,
    pub(crate) entry: Arc<Entry>,
    pub(crate) owner: Option<Owner>,
}

impl Record {
    #[inline]
    pub(crate) fn node(&self) -> &Node {
        self.handle.node()
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &Name {
        &self.entry.name
    }

    /// Waits until it may be read. Others may read at the same time; nobody writes.
    ///
    /// Do not read again what the same task or thread already reads. The second read waits behind
    /// a writer that waits, and the writer waits for the first read: a deadlock. It is found, and
    /// the second read refused, for owners only: [`Locks::as_owner`](crate::Locks::as_owner).
    #[inline]
    pub fn read(&self) -> Acquire<Shared, &Self> {
        Acquire::new(self)
    }

    /// Waits until it may be written. Nobody else reads or writes.
    #[inline]
    pub fn write(&self) -> Acquire<Exclusive, &Self> {
        Acquire::new(self)
    }

    /// As [`Record::read`]; the guard borrows nothing.
    pub fn read_owned(self) -> Acquire<Shared, Self> {
        Acquire::new(self)
    }

    /// As [`Record::write`]; the guard borrows nothing.
    pub fn write_owned(self) -> Acquire<Exclusive, Self> {
        Acquire::new(self)
    }

    /// As [`Record::read`], for at most this long: then [`LockError::Timeout`].
    pub async fn read_timeout(&self, time: Duration) -> Result<ReadGuard<'_>, LockError> {
        self.in_time(self.read(), time).await
    }

    /// As [`Record::write`], for at most this long: then [`LockError::Timeout`].
    pub async fn write_timeout(&self, time: Duration) -> Result<WriteGuard<'_>, LockError> {
        self.in_time(self.write(), time).await
    }

    /// [`Record::read_timeout`] with the guard of [`Record::read_owned`].
    pub async fn read_owned_timeout(self, time: Duration) -> Result<OwnedReadGuard, LockError> {
        let record = self.clone();
        record.in_time(self.read_owned(), time).await
    }

    /// [`Record::write_timeout`] with the guard of [`Record::write_owned`].
    pub async fn write_owned_timeout(self, time: Duration) -> Result<OwnedWriteGuard, LockError> {
        let record = self.clone();
        record.in_time(self.write_owned(), time).await
    }

    /// Reads if nobody is in the way; else `None`. What another node has cached but does not use is
    /// fetched; so this may take a few round trips, but not longer than
    /// [`Options::try_for`](crate::Options::try_for).
    pub async fn try_read(&self) -> Result<Option<ReadGuard<'_>>, LockError> {
        self.try_acquire(self.read()).await
    }

    /// Writes if nobody is in the way; as [`Record::try_read`].
    pub async fn try_write(&self) -> Result<Option<WriteGuard<'_>>, LockError> {
        self.try_acquire(self.write()).await
    }

    /// [`Record::try_read`] with the guard of [`Record::read_owned`].
    pub async fn try_read_owned(self) -> Result<Option<OwnedReadGuard>, LockError> {
        let record = self.clone();
        record.try_acquire(self.read_owned()).await
    }

    /// [`Record::try_write`] with the guard of [`Record::write_owned`].
    pub async fn try_write_owned(self) -> Result<Option<OwnedWriteGuard>, LockError> {
        let record = self.clone();
        record.try_acquire(self.write_owned()).await
    }

    /// [`Record::read`] for a thread. Not to be called in a task: it blocks.
    #[inline]
    pub fn blocking_read(&self) -> Result<ReadGuard<'_>, LockError> {
        block(self, None)
    }

    /// [`Record::write`] for a thread. Not to be called in a task: it blocks.
    #[inline]
    pub fn blocking_write(&self) -> Result<WriteGuard<'_>, LockError> {
        block(self, None)
    }

    /// [`Record::read_owned`] for a thread.
    pub fn blocking_read_owned(self) -> Result<OwnedReadGuard, LockError> {
        block(self, None)
    }

    /// [`Record::write_owned`] for a thread.
    pub fn blocking_write_owned(self) -> Result<OwnedWriteGuard, LockError> {
        block(self, None)
    }

    /// [`Record::read_timeout`] for a thread.
    pub fn blocking_read_timeout(&self, time: Duration) -> Result<ReadGuard<'_>, LockError> {
        block(self, Some(time))
    }

    /// [`Record::write_timeout`] for a thread.
    pub fn blocking_write_timeout(&self, time: Duration) -> Result<WriteGuard<'_>, LockError> {
        block(self, Some(time))
    }

    /// [`Record::read_owned_timeout`] for a thread.
    pub fn blocking_read_owned_timeout(self, time: Duration) -> Result<OwnedReadGuard, LockError> {
        block(self, Some(time))
    }

    /// [`Record::write_owned_timeout`] for a thread.
    pub fn blocking_write_owned_timeout(
        self,
        time: Duration,
    ) -> Result<OwnedWriteGuard, LockError> {
        block(self, Some(time))
    }

    /// [`Record::try_read`] for a thread.
    pub fn blocking_try_read(&self) -> Result<Option<ReadGuard<'_>>, LockError> {
        try_block(self)
    }

    /// [`Record::try_write`] for a thread.
    pub fn blocking_try_write(&self) -> Result<Option<WriteGuard<'_>>, LockError> {
        try_block(self)
    }

    /// [`Record::try_read_owned`] for a thread.
    pub fn blocking_try_read_owned(self) -> Result<Option<OwnedReadGuard>, LockError> {
        try_block(self)
    }

    /// [`Record::try_write_owned`] for a thread.
    pub fn blocking_try_write_owned(self) -> Result<Option<OwnedWriteGuard>, LockError> {
        try_block(self)
    }

    #[cold]
    fn block_in_line<K: Kind>(&self, time: Option<Duration>) -> Answer {
        let acquire = Acquire::<K, _>::new(self);
        // A time that no clock can show is for ever.
        let acquired = match time.and_then(|time| Instant::now().checked_add(time)) {
            None => block::block_on(acquire),
            Some(deadline) => {
                block::block_until(acquire, deadline).unwrap_or(Err(LockError::Timeout))
            }
        };
        acquired.map(Guard::into_entered)
    }

    async fn in_time<K: Kind, R: Borrow<Self> + Unpin>(
        &self,
        mut acquire: Acquire<K, R>,
        time: Duration,
    ) -> Result<Guard<K, R>, LockError> {
        // What is there at once needs no timer.
        let first = poll_fn(|context| Poll::Ready(Pin::new(&mut acquire).poll(context)));
        if let Poll::Ready(acquired) = first.await {
            return acquired;
        }
        let waiting = async move {
            tokio::select! {
                biased;
                acquired = acquire => acquired,
                () = task::timer(self.node(), time) => Err(LockError::Timeout),
            }
        };
        // The timer is the parent's.
        BoundFuture::new(waiting, || Poll::Ready(Err(LockError::Forked))).await
    }

    async fn try_acquire<K: Kind, R: Borrow<Self> + Unpin>(
        &self,
        acquire: Acquire<K, R>,
    ) -> Result<Option<Guard<K, R>>, LockError> {
        if self.is_in_use_here(K::MODE)? {
            return Ok(None);
        }
        unless_late(self.in_time(acquire, self.handle.try_for).await)
    }

    /// Whether somebody of this node is in the way.
    fn is_in_use_here(&self, mode: Mode) -> Result<bool, LockError> {
        if self.node().is_forked() {
            return Err(LockError::Forked);
        }
        let inside = self.entry.gate.inside();
        Ok(inside.writer || (mode == Mode::Write && inside.readers > 0))
    }

    /// Somebody who wrote goes on reading.
    pub(crate) fn downgraded(&self, how: Use) {
        if self.node().is_forked() {
            return;
        }
        self.node().with_line(&self.entry, |line, look, wakes| {
            if how == Use::Write {
                line.writer_left();
            }
            line.left(look, wakes);
        });
    }
}

/// Blocks the thread until the record is held, or for at most this long.
#[inline(always)]
fn block<K: Kind, R: Borrow<Record>>(
    record: R,
    time: Option<Duration>,
) -> Result<Guard<K, R>, LockError> {
    // What needs no waiting needs nothing to be woken by either.
    let (pass, token) = match record.borrow().enter(K::MODE) {
        Some(entered) => entered,
        None => record.borrow().block_in_line::<K>(time)?,
    };
    Ok(Guard::new(record, pass, token))
}

/// Blocks the thread while what nobody uses is fetched.
fn try_block<K: Kind, R: Borrow<Record>>(record: R) -> Result<Option<Guard<K, R>>, LockError> {
    let this = record.borrow();
    if this.is_in_use_here(K::MODE)? {
        return Ok(None);
    }
    let time = this.handle.try_for;
    unless_late(block(record, Some(time)))
}

/// Nothing if the time was over.
fn unless_late<T>(acquired: Result<T, LockError>) -> Result<Option<T>, LockError> {
    match acquired {
        Ok(guard) => Ok(Some(guard)),
        Err(LockError::Timeout) => Ok(None),
        Err(why) => Err(why),
    }
}

impl fmt::Debug for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Record").field(self.name()).finish()
    }
}
