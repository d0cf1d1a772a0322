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

    /// Reads if nobody is in the way. What another node has cached but does not use is fetched; so
    /// this may take a few round trips, but not longer than
    /// [`Options::try_for`](crate::Options::try_for).
    pub async fn try_read(&self) -> Result<Option<ReadGuard<'_>>, LockError> {
        self.try_acquire(self.read()).await
    }

    /// Writes if nobody is in the way; as [`Record::try_read`].
    pub async fn try_write(&self) -> Result<Option<WriteGuard<'_>>, LockError> {
        self.try_acquire(self.write()).await
    }

    /// [`Record::read`] for a thread. Not to be called in a task: it blocks.
    #[inline]
    pub fn blocking_read(&self) -> Result<ReadGuard<'_>, LockError> {
        self.block(None)
    }

    /// [`Record::write`] for a thread. Not to be called in a task: it blocks.
    #[inline]
    pub fn blocking_write(&self) -> Result<WriteGuard<'_>, LockError> {
        self.block(None)
    }

    /// [`Record::read_timeout`] for a thread.
    pub fn blocking_read_timeout(&self, time: Duration) -> Result<ReadGuard<'_>, LockError> {
        self.block(Some(time))
    }

    /// [`Record::write_timeout`] for a thread.
    pub fn blocking_write_timeout(&self, time: Duration) -> Result<WriteGuard<'_>, LockError> {
        self.block(Some(time))
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

    #[inline(always)]
    fn block<K: Kind>(&self, time: Option<Duration>) -> Result<Guard<K, &Self>, LockError> {
        // What needs no waiting needs nothing to be woken by either.
        let (pass, token) = match self.enter(K::MODE) {
            Some(entered) => entered,
            None => self.block_in_line::<K>(time)?,
        };
        Ok(Guard::new(self, pass, token))
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

    async fn try_acquire<'a, K: Kind>(
        &'a self,
        acquire: Acquire<K, &'a Self>,
    ) -> Result<Option<Guard<K, &'a Self>>, LockError> {
        if self.node().is_forked() {
            return Err(LockError::Forked);
        }
        let inside = self.entry.gate.inside();
        if inside.writer || (K::MODE == Mode::Write && inside.readers > 0) {
            return Ok(None);
        }
        match self.in_time(acquire, self.handle.try_for).await {
            Ok(guard) => Ok(Some(guard)),
            Err(LockError::Timeout) => Ok(None),
            Err(why) => Err(why),
        }
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

impl fmt::Debug for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Record").field(self.name()).finish()
    }
}
