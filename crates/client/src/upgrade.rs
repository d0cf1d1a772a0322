//! A reader becomes the writer: the future, its error, and the forms with a time limit and for
//! threads.
//!
//! Every form that does not succeed gives the read guard back. One that gives up leaves the line
//! first; if it was granted at that moment, it has succeeded.

use std::borrow::Borrow;
use std::error::Error;
use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use lockspan_park::fork::BoundFuture;
use lockspan_protocol::{Mode, Token};
use lockspan_thread::gate::Pass;

use crate::acquire::InLine;
use crate::error::LockError;
use crate::guard::{Exclusive, Guard, OwnedReadGuard, Shared};
use crate::line::Place;
use crate::record::Record;
use crate::timeout::lead;
use crate::{block, clock, task};

/// An upgrade that was refused or not granted in time. It contains the read guard, which still
/// holds the record unless its lease has expired.
///
/// It works with `?` in functions that return [`LockError`] or `Box<dyn Error + Send + Sync>`. The
/// guard inside is always an [`OwnedReadGuard`], so that the error borrows nothing.
///
/// **The record is held for reading as long as the error exists**, also inside a `Box<dyn Error>`.
/// Drop the error before you acquire the same record for writing. Converting it into a
/// [`LockError`] releases the record.
///
/// ```
/// # tokio::runtime::Runtime::new().unwrap().block_on(async {
/// use lockspan_client::{LockError, Record, UpgradeError};
///
/// /// Fails if somebody else is upgrading the same record.
/// async fn count(record: &Record) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
///     let reading = record.read().await?;
///     let _writing = reading.upgrade().await?;
///     Ok(())
/// }
///
/// /// Upgrades, or else releases the record and waits as a writer.
/// async fn write_after_read(record: &Record) -> Result<(), LockError> {
///     let reading = record.read().await?;
///     let _writing = match reading.upgrade().await {
///         Ok(writing) => writing,
///         Err(UpgradeError { guard, source: LockError::UpgradeConflict }) => {
///             drop(guard);
///             record.write().await? // others may have written in between
///         }
///         Err(why) => return Err(why.into()),
///     };
///     Ok(())
/// }
/// # let locks = lockspan_client::connect("memory:upgrade-error").await?;
/// # let record = locks.record("counter", 1)?;
/// # count(&record).await?;
/// # write_after_read(&record).await?;
/// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(()) }).unwrap();
/// ```
#[derive(Debug)]
pub struct UpgradeError {
    /// The read guard. It still holds the record if it [is valid](Guard::is_valid).
    pub guard: OwnedReadGuard,
    /// Why the guard was not upgraded.
    pub source: LockError,
}

impl UpgradeError {
    fn new<R: Borrow<Record>>(guard: Guard<Shared, R>, source: LockError) -> Self {
        Self { guard: guard.into_owned(), source }
    }

    /// The read guard that was to be upgraded.
    pub fn into_guard(self) -> OwnedReadGuard {
        self.guard
    }

    /// Why the guard was not upgraded.
    #[must_use]
    pub fn cause(&self) -> &LockError {
        &self.source
    }
}

impl fmt::Display for UpgradeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} was not upgraded from reading to writing", self.guard.record().name())
    }
}

impl Error for UpgradeError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&self.source)
    }
}

/// Releases the record and returns the cause.
impl From<UpgradeError> for LockError {
    fn from(from: UpgradeError) -> Self {
        from.source
    }
}

/// What becomes of an upgrade.
type Upgraded<R> = Result<Guard<Exclusive, R>, UpgradeError>;

/// The future of [`Guard::upgrade`]. The guard keeps reading while it waits.
///
/// Dropping the future before it is ready drops the guard in it, which releases the record. Use
/// [`Guard::upgrade_timeout`] to get the guard back after a time limit.
#[derive(Debug)]
#[must_use = "a future does nothing unless it is awaited"]
pub struct Upgrade<R: Borrow<Record> + Unpin> {
    guard: Option<Guard<Shared, R>>,
    place: Option<InLine>,
}

/// The reader has become the writer; that counts only if its lease stands now.
fn turn<R: Borrow<Record>>(mut guard: Guard<Shared, R>, pass: Pass, token: Token) -> Upgraded<R> {
    guard.set_pass(pass);
    if guard.is_valid() {
        Ok(guard.turned(token))
    } else {
        Err(UpgradeError::new(guard, LockError::Lost))
    }
}

impl<R: Borrow<Record> + Unpin> Upgrade<R> {
    fn new(guard: Guard<Shared, R>) -> Self {
        Self { guard: Some(guard), place: None }
    }

    fn record(&self) -> &Record {
        self.guard.as_ref().expect("it is not ready yet").record()
    }

    /// Stops waiting, for this reason. It may have been granted just before.
    fn stop(mut self, why: impl FnOnce(&Record, Option<Place>) -> LockError) -> Upgraded<R> {
        let guard = self.guard.take().expect("it is not ready yet");
        let there = self.place.take();
        let why = why(guard.record(), there.as_ref().map(|there| there.place));
        match there.as_ref().and_then(|there| guard.record().give_up(there.place)) {
            Some((pass, token)) => {
                if let Some(there) = there {
                    there.over(clock::now());
                }
                turn(guard, pass, token)
            }
            None => Err(UpgradeError::new(guard, why)),
        }
    }

    /// Waits for at most this long.
    async fn in_time(mut self, time: Duration) -> Upgraded<R> {
        // What is decided at once needs no timer.
        let first = poll_fn(|context| Poll::Ready(Pin::new(&mut self).poll(context)));
        if let Poll::Ready(upgraded) = first.await {
            return upgraded;
        }
        let lead = lead(time);
        let (asks, ends) = {
            let node = self.record().node();
            (task::timer(node, time - lead), task::timer(node, time))
        };
        let decided = {
            let waiting = async {
                tokio::select! {
                    biased;
                    upgraded = &mut self => return Ok(upgraded),
                    () = asks => self.record().ask_who_holds(),
                }
                tokio::select! {
                    biased;
                    upgraded = &mut self => Ok(upgraded),
                    () = ends => Err(None),
                }
            };
            // The timers are the parent's.
            BoundFuture::new(waiting, || Poll::Ready(Err(Some(LockError::Forked)))).await
        };
        decided.unwrap_or_else(|why| {
            self.stop(|record, place| why.unwrap_or_else(|| record.upgrade_timed_out(time, place)))
        })
    }

    /// Blocks the thread for at most this long, or until it is decided.
    fn block(mut self, time: Option<Duration>) -> Upgraded<R> {
        // A time that no clock can show is forever.
        let deadline = time.and_then(|time| Some((time, Instant::now().checked_add(time)?)));
        let Some((time, deadline)) = deadline else {
            return block::block_on(self);
        };
        if let Some(decided) = block::block_until(&mut self, deadline - lead(time)) {
            return decided;
        }
        self.record().ask_who_holds();
        let decided = block::block_until(&mut self, deadline);
        decided.unwrap_or_else(|| self.stop(|record, place| record.upgrade_timed_out(time, place)))
    }

    /// Whether another thread or task of this node reads the record too. One that is lost is not
    /// asked: its error is the one to be told.
    fn is_in_company(&self) -> bool {
        let guard = self.guard.as_ref().expect("it is not ready yet");
        guard.is_valid() && guard.record().entry.gate.inside().readers > 1
    }
}

impl<R: Borrow<Record> + Unpin> Future for Upgrade<R> {
    type Output = Upgraded<R>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        let guard = this.guard.take().expect("a future is not polled after it is ready");
        let record = guard.record();
        if record.node().is_forked() {
            this.place = None;
            return Poll::Ready(Err(UpgradeError::new(guard, LockError::Forked)));
        }
        let place = match &this.place {
            Some(there) => there.place,
            None => {
                // The node may have the record for writing already, with nobody else in it.
                if let Some(pass) = record.entry.gate.upgrade(guard.pass().reader(), true) {
                    let token = record.entry.token();
                    return Poll::Ready(turn(guard, pass, token));
                }
                if !guard.is_valid() {
                    return Poll::Ready(Err(UpgradeError::new(guard, LockError::Lost)));
                }
                let wait = record.begin_wait();
                let reader = guard.pass().reader();
                let note = record.note.clone();
                match record.get_in_line(Mode::Write, Some(reader), note, context.waker()) {
                    Ok(place) => this.place.insert(InLine { place, wait }).place,
                    Err(why) => return Poll::Ready(Err(UpgradeError::new(guard, why))),
                }
            }
        };
        match record.ask(place, context.waker()) {
            None => {
                this.guard = Some(guard);
                Poll::Pending
            }
            Some(Ok((pass, token))) => {
                if let Some(there) = this.place.take() {
                    there.over(clock::now());
                }
                Poll::Ready(turn(guard, pass, token))
            }
            Some(Err(why)) => {
                this.place = None;
                Poll::Ready(Err(UpgradeError::new(guard, why)))
            }
        }
    }
}

impl<R: Borrow<Record> + Unpin> Drop for Upgrade<R> {
    fn drop(&mut self) {
        let (Some(guard), Some(there)) = (&mut self.guard, &self.place) else { return };
        if let Some((pass, _)) = guard.record().give_up(there.place) {
            // It leaves as the writer that it has just become.
            guard.set_pass(pass);
        }
    }
}

impl<R: Borrow<Record> + Unpin> Guard<Shared, R> {
    /// Turns this read guard into a write guard. Nobody else writes in between.
    ///
    /// | | waits | waits for a limited time | does not wait for readers |
    /// |---|---|---|---|
    #[doc = concat!(
        " | in a task | `upgrade` | [`upgrade_timeout`](Guard::upgrade_timeout) | ",
        "[`try_upgrade`](Guard::try_upgrade) |",
    )]
    #[doc = concat!(
        " | in a thread | [`blocking_upgrade`](Guard::blocking_upgrade) | ",
        "[`blocking_upgrade_timeout`](Guard::blocking_upgrade_timeout) | ",
        "[`blocking_try_upgrade`](Guard::blocking_try_upgrade) |",
    )]
    ///
    /// ```
    /// # tokio::runtime::Runtime::new().unwrap().block_on(async {
    /// let locks = lockspan_client::connect("memory:").await?;
    /// let invoice = locks.record("invoice", 42)?;
    /// let reading = invoice.read().await?;
    /// // … found that something has to be changed …
    /// let writing = reading.upgrade().await?;
    /// let reading = writing.downgrade();
    /// # drop(reading);
    /// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(()) }).unwrap();
    /// ```
    ///
    /// # Errors
    ///
    /// [`UpgradeError`], which contains the guard. Its cause is [`LockError::UpgradeConflict`] if
    /// another reader already waits to upgrade the same record: each would wait for the other to
    /// release it.
    pub fn upgrade(self) -> Upgrade<R> {
        Upgrade::new(self)
    }

    /// [`Guard::upgrade`] that waits for at most `time`.
    ///
    /// # Errors
    ///
    /// As [`Guard::upgrade`]; the cause is [`LockError::Timeout`] when the time is over.
    pub async fn upgrade_timeout(self, time: Duration) -> Upgraded<R> {
        self.upgrade().in_time(time).await
    }

    /// [`Guard::upgrade`] if nobody else reads. If another process has the record cached but does
    /// not use it, this waits for a few round trips, for at most
    /// [`Options::try_for`](crate::Options::try_for), which defaults to 100 ms.
    ///
    /// # Errors
    ///
    /// As [`Guard::upgrade`]; the cause is [`LockError::Timeout`] if somebody else reads.
    pub async fn try_upgrade(self) -> Upgraded<R> {
        let upgrade = self.upgrade();
        if upgrade.is_in_company() {
            return upgrade.stop(|record, place| record.upgrade_timed_out(Duration::ZERO, place));
        }
        let time = upgrade.record().handle.try_for;
        upgrade.in_time(time).await
    }

    /// [`Guard::upgrade`] that blocks the thread. Do not call it in an async task.
    ///
    /// # Errors
    ///
    /// As [`Guard::upgrade`].
    pub fn blocking_upgrade(self) -> Upgraded<R> {
        self.upgrade().block(None)
    }

    /// [`Guard::upgrade_timeout`] that blocks the thread. Do not call it in an async task.
    ///
    /// # Errors
    ///
    /// As [`Guard::upgrade_timeout`].
    pub fn blocking_upgrade_timeout(self, time: Duration) -> Upgraded<R> {
        self.upgrade().block(Some(time))
    }

    /// [`Guard::try_upgrade`] that blocks the thread. Do not call it in an async task.
    ///
    /// # Errors
    ///
    /// As [`Guard::try_upgrade`].
    pub fn blocking_try_upgrade(self) -> Upgraded<R> {
        let upgrade = self.upgrade();
        if upgrade.is_in_company() {
            return upgrade.stop(|record, place| record.upgrade_timed_out(Duration::ZERO, place));
        }
        let time = upgrade.record().handle.try_for;
        upgrade.block(Some(time))
    }
}
