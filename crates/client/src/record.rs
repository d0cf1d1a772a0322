//! A record as its users see it.

use std::borrow::Borrow;
use std::fmt;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant};

use lockspan_park::fork::BoundFuture;
use lockspan_protocol::{Annotation, BadAnnotation, Mode, Owner, Record as Name};
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
use crate::timeout::lead;

/// One record, `<datatype>:<id>`: what is locked for reading or for writing.
///
/// Made by [`Locks::record`](crate::Locks::record). Cheap to clone. Keep it where the same record
/// is acquired again and again: that saves the lookup by name. While the record is cached in this
/// process, acquiring and releasing it sends no message.
///
/// ```
/// # tokio::runtime::Runtime::new().unwrap().block_on(async {
/// use std::time::Duration;
/// use lockspan_client::LockError;
///
/// let locks = lockspan_client::connect("memory:").await?;
/// let invoice = locks.record("invoice", 42)?;
/// let writing = invoice.write().await?;
/// assert!(invoice.try_read().await?.is_none()); // somebody writes
/// let late = invoice.read_timeout(Duration::from_millis(5)).await;
/// assert!(matches!(late, Err(LockError::Timeout(_))));
/// drop(writing);
/// assert!(invoice.read().await?.is_valid());
/// # Ok::<(), Box<dyn std::error::Error>>(()) }).unwrap();
/// ```
///
/// # All forms
///
/// Every method exists for `read` and for `write`; the table shows `read`. Methods with the prefix
/// `blocking_` are for threads and must not be called in an async task. Methods with `_owned`
/// consume the record, and their guard borrows nothing, so it can be stored and sent to other
/// threads; clone the record first to keep it.
///
/// | | waits | waits for a limited time | does not wait for holders |
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
/// When the time is over, `_timeout` methods return [`LockError::Timeout`]; `try_` methods return
/// `None` if the record is in use. [`Guard::upgrade`] turns a read guard into a write guard, and
/// has the same forms. [`Guard::downgrade`] turns a write guard into a read guard and never waits.
/// [`Guard::lost`] and [`Guard::blocking_lost`] wait until a guard becomes invalid.
///
/// # Errors
///
/// All forms return [`LockError`]. [`LockError::is_retryable`] says whether the same call may
/// succeed later, [`LockError::may_still_hold`] whether the server may count the record as held
/// although the call failed.
#[derive(Clone)]
pub struct Record {
    pub(crate) handle: Arc<Handle>,
    pub(crate) entry: Arc<Entry>,
    pub(crate) owner: Option<Owner>,
    /// What it is acquired for, shown to people.
    pub(crate) note: Option<Annotation>,
}

impl Record {
    #[inline]
    pub(crate) fn node(&self) -> &Node {
        self.handle.node()
    }

    /// The name of the record.
    #[must_use]
    pub fn name(&self) -> &Name {
        &self.entry.name
    }

    /// The same record, acquired with a note that says for people what it is wanted for, in every
    /// form: see [`Acquire::note`]. At most 256 bytes without control characters.
    ///
    /// ```
    /// # let locks = lockspan_client::Options::new().blocking_connect("memory:")?;
    /// let invoice = locks.record("invoice", 42)?.with_note("nightly import")?;
    /// let held = invoice.blocking_write()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn with_note(&self, note: impl AsRef<str>) -> Result<Self, BadAnnotation> {
        Ok(Self { note: Some(Annotation::new(note.as_ref())?), ..self.clone() })
    }

    /// Acquires the record for reading. Waits while somebody writes, or a writer is first in line.
    /// Others may read at the same time; nobody writes.
    ///
    /// Do not read a record that the same task or thread already reads: the second read waits
    /// behind a waiting writer, and that writer waits for the first read. This deadlock is detected
    /// only for [owners](crate::Locks::as_owner).
    ///
    /// Dropping the future before it is ready leaves the queue.
    ///
    /// # Errors
    ///
    /// [`LockError`], but not [`LockError::Timeout`]: without a limit it waits until the record is
    /// granted or refused. While the server is not reachable it keeps waiting.
    #[inline]
    pub fn read(&self) -> Acquire<Shared, &Self> {
        Acquire::new(self)
    }

    /// Acquires the record for writing. Waits while anybody reads or writes. Nobody else reads or
    /// writes while the guard is held and valid.
    ///
    /// # Errors
    ///
    /// As [`Record::read`].
    #[inline]
    pub fn write(&self) -> Acquire<Exclusive, &Self> {
        Acquire::new(self)
    }

    /// [`Record::read`] with a guard that borrows nothing.
    ///
    /// # Errors
    ///
    /// As [`Record::read`].
    pub fn read_owned(self) -> Acquire<Shared, Self> {
        Acquire::new(self)
    }

    /// [`Record::write`] with a guard that borrows nothing.
    ///
    /// # Errors
    ///
    /// As [`Record::read`].
    pub fn write_owned(self) -> Acquire<Exclusive, Self> {
        Acquire::new(self)
    }

    /// [`Record::read`] that waits for at most `time`.
    ///
    /// # Errors
    ///
    /// [`LockError::Timeout`] when the time is over; otherwise as [`Record::read`].
    pub async fn read_timeout(&self, time: Duration) -> Result<ReadGuard<'_>, LockError> {
        self.in_time(self.read(), time).await
    }

    /// [`Record::write`] that waits for at most `time`.
    ///
    /// # Errors
    ///
    /// As [`Record::read_timeout`].
    pub async fn write_timeout(&self, time: Duration) -> Result<WriteGuard<'_>, LockError> {
        self.in_time(self.write(), time).await
    }

    /// [`Record::read_timeout`] with a guard that borrows nothing.
    ///
    /// # Errors
    ///
    /// As [`Record::read_timeout`].
    pub async fn read_owned_timeout(self, time: Duration) -> Result<OwnedReadGuard, LockError> {
        let record = self.clone();
        record.in_time(self.read_owned(), time).await
    }

    /// [`Record::write_timeout`] with a guard that borrows nothing.
    ///
    /// # Errors
    ///
    /// As [`Record::read_timeout`].
    pub async fn write_owned_timeout(self, time: Duration) -> Result<OwnedWriteGuard, LockError> {
        let record = self.clone();
        record.in_time(self.write_owned(), time).await
    }

    /// Acquires the record for reading if nobody writes; otherwise returns `None`.
    ///
    /// If another process has the record cached but does not use it, the record is fetched from
    /// there. That takes a few round trips, for at most
    /// [`Options::try_for`](crate::Options::try_for), which defaults to 100 ms.
    ///
    /// # Errors
    ///
    /// As [`Record::read`].
    pub async fn try_read(&self) -> Result<Option<ReadGuard<'_>>, LockError> {
        self.try_acquire(self.read()).await
    }

    /// Acquires the record for writing if nobody reads or writes; otherwise returns `None`. Waits
    /// as [`Record::try_read`] does.
    ///
    /// # Errors
    ///
    /// As [`Record::read`].
    pub async fn try_write(&self) -> Result<Option<WriteGuard<'_>>, LockError> {
        self.try_acquire(self.write()).await
    }

    /// [`Record::try_read`] with a guard that borrows nothing.
    ///
    /// # Errors
    ///
    /// As [`Record::read`].
    pub async fn try_read_owned(self) -> Result<Option<OwnedReadGuard>, LockError> {
        let record = self.clone();
        record.try_acquire(self.read_owned()).await
    }

    /// [`Record::try_write`] with a guard that borrows nothing.
    ///
    /// # Errors
    ///
    /// As [`Record::read`].
    pub async fn try_write_owned(self) -> Result<Option<OwnedWriteGuard>, LockError> {
        let record = self.clone();
        record.try_acquire(self.write_owned()).await
    }

    /// [`Record::read`] that blocks the thread. Do not call it in an async task.
    ///
    /// # Errors
    ///
    /// As [`Record::read`].
    #[inline]
    pub fn blocking_read(&self) -> Result<ReadGuard<'_>, LockError> {
        block(self, None)
    }

    /// [`Record::write`] that blocks the thread. Do not call it in an async task.
    ///
    /// # Errors
    ///
    /// As [`Record::read`].
    #[inline]
    pub fn blocking_write(&self) -> Result<WriteGuard<'_>, LockError> {
        block(self, None)
    }

    /// [`Record::read_owned`] that blocks the thread. Do not call it in an async task.
    ///
    /// # Errors
    ///
    /// As [`Record::read`].
    pub fn blocking_read_owned(self) -> Result<OwnedReadGuard, LockError> {
        block(self, None)
    }

    /// [`Record::write_owned`] that blocks the thread. Do not call it in an async task.
    ///
    /// # Errors
    ///
    /// As [`Record::read`].
    pub fn blocking_write_owned(self) -> Result<OwnedWriteGuard, LockError> {
        block(self, None)
    }

    /// [`Record::read_timeout`] that blocks the thread. Do not call it in an async task.
    ///
    /// # Errors
    ///
    /// As [`Record::read_timeout`].
    pub fn blocking_read_timeout(&self, time: Duration) -> Result<ReadGuard<'_>, LockError> {
        block(self, Some(time))
    }

    /// [`Record::write_timeout`] that blocks the thread. Do not call it in an async task.
    ///
    /// # Errors
    ///
    /// As [`Record::read_timeout`].
    pub fn blocking_write_timeout(&self, time: Duration) -> Result<WriteGuard<'_>, LockError> {
        block(self, Some(time))
    }

    /// [`Record::read_owned_timeout`] that blocks the thread. Do not call it in an async task.
    ///
    /// # Errors
    ///
    /// As [`Record::read_timeout`].
    pub fn blocking_read_owned_timeout(self, time: Duration) -> Result<OwnedReadGuard, LockError> {
        block(self, Some(time))
    }

    /// [`Record::write_owned_timeout`] that blocks the thread. Do not call it in an async task.
    ///
    /// # Errors
    ///
    /// As [`Record::read_timeout`].
    pub fn blocking_write_owned_timeout(
        self,
        time: Duration,
    ) -> Result<OwnedWriteGuard, LockError> {
        block(self, Some(time))
    }

    /// [`Record::try_read`] that blocks the thread. Do not call it in an async task.
    ///
    /// # Errors
    ///
    /// As [`Record::read`].
    pub fn blocking_try_read(&self) -> Result<Option<ReadGuard<'_>>, LockError> {
        try_block(self)
    }

    /// [`Record::try_write`] that blocks the thread. Do not call it in an async task.
    ///
    /// # Errors
    ///
    /// As [`Record::read`].
    pub fn blocking_try_write(&self) -> Result<Option<WriteGuard<'_>>, LockError> {
        try_block(self)
    }

    /// [`Record::try_read_owned`] that blocks the thread. Do not call it in an async task.
    ///
    /// # Errors
    ///
    /// As [`Record::read`].
    pub fn blocking_try_read_owned(self) -> Result<Option<OwnedReadGuard>, LockError> {
        try_block(self)
    }

    /// [`Record::try_write_owned`] that blocks the thread. Do not call it in an async task.
    ///
    /// # Errors
    ///
    /// As [`Record::read`].
    pub fn blocking_try_write_owned(self) -> Result<Option<OwnedWriteGuard>, LockError> {
        try_block(self)
    }

    #[cold]
    fn block_in_line<K: Kind>(&self, time: Option<Duration>) -> Answer {
        let mut acquire = Acquire::<K, _>::new(self);
        // A time that no clock can show is forever.
        let deadline = time.and_then(|time| Some((time, Instant::now().checked_add(time)?)));
        let acquired = match deadline {
            None => block::block_on(acquire),
            Some((time, deadline)) => {
                let first = block::block_until(&mut acquire, deadline - lead(time));
                first.unwrap_or_else(|| {
                    self.ask_who_holds();
                    let last = block::block_until(&mut acquire, deadline);
                    last.unwrap_or_else(|| Err(self.timed_out(time, acquire.in_line())))
                })
            }
        };
        acquired.map(Guard::into_entered)
    }

    pub(crate) async fn in_time<K: Kind, R: Borrow<Self> + Unpin>(
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
            let lead = lead(time);
            tokio::select! {
                biased;
                acquired = &mut acquire => return acquired,
                () = task::timer(self.node(), time - lead) => self.ask_who_holds(),
            }
            tokio::select! {
                biased;
                acquired = &mut acquire => acquired,
                () = task::timer(self.node(), lead) => {
                    Err(self.timed_out(time, acquire.in_line()))
                }
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
    pub(crate) fn is_in_use_here(&self, mode: Mode) -> Result<bool, LockError> {
        if self.node().is_forked() {
            return Err(LockError::Forked);
        }
        let inside = self.entry.gate.inside();
        Ok(inside.writer || (mode == Mode::Write && inside.readers > 0))
    }

    /// Whether all who wait for the record on this node wait to read, and only for the server: its
    /// answer lets all of them in at once. For bindings to other languages, where one of those who
    /// wait may not be able to run before another one has been in.
    #[doc(hidden)]
    #[must_use]
    pub fn is_granted_together(&self) -> bool {
        !self.node().is_forked() && crate::entry::lock(&self.entry.line).is_granted_together()
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
pub(crate) fn unless_late<T>(acquired: Result<T, LockError>) -> Result<Option<T>, LockError> {
    match acquired {
        Ok(guard) => Ok(Some(guard)),
        Err(LockError::Timeout(_)) => Ok(None),
        Err(why) => Err(why),
    }
}

impl fmt::Debug for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Record").field(self.name()).finish()
    }
}
