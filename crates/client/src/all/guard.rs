//! The guard of several records.

use std::future::{Future as _, poll_fn};
use std::task::Poll;
use std::time::{Duration, Instant};

use lockspan_park::fork::BoundFuture;
use lockspan_protocol::{Mode, Record as Name, Token};

use super::acquire::release;
use crate::entry::lock;
use crate::guard::{OwnedReadGuard, OwnedWriteGuard};
use crate::record::Record;
use crate::{block, task};

/// The guard of one record, in either mode: an element of [`AllGuard`].
#[derive(Debug)]
#[must_use = "the record is released as soon as its guard is dropped"]
pub enum AnyGuard {
    /// It is held for reading.
    Read(OwnedReadGuard),
    /// It is held for writing.
    Write(OwnedWriteGuard),
}

impl AnyGuard {
    /// The record that this guard holds.
    #[must_use]
    pub fn record(&self) -> &Record {
        match self {
            Self::Read(guard) => guard.record(),
            Self::Write(guard) => guard.record(),
        }
    }

    /// How it is held.
    #[must_use]
    pub fn mode(&self) -> Mode {
        match self {
            Self::Read(_) => Mode::Read,
            Self::Write(_) => Mode::Write,
        }
    }

    /// The fencing token: see [`Guard::token`](crate::Guard::token).
    #[must_use]
    pub fn token(&self) -> Token {
        match self {
            Self::Read(guard) => guard.token(),
            Self::Write(guard) => guard.token(),
        }
    }

    /// As [`Guard::is_valid`](crate::Guard::is_valid).
    #[must_use]
    pub fn is_valid(&self) -> bool {
        match self {
            Self::Read(guard) => guard.is_valid(),
            Self::Write(guard) => guard.is_valid(),
        }
    }

    /// As [`Guard::valid_for`](crate::Guard::valid_for).
    #[must_use]
    pub fn valid_for(&self) -> Duration {
        match self {
            Self::Read(guard) => guard.valid_for(),
            Self::Write(guard) => guard.valid_for(),
        }
    }
}

/// Several records that are held, from [`All`](super::All). Dropping the guard releases all of them
/// and never waits.
///
/// Each record has a [token](AllGuard::token) of its own. As for one record, the lease can expire
/// while the guard is held: [`is_valid`](AllGuard::is_valid) and [`lost`](AllGuard::lost) speak of
/// all records together, and are over as soon as one is lost.
///
/// Iterating over a reference shows the guards in the order in which they were locked. Iterating
/// over the guard itself takes it apart, to release or to [upgrade](crate::Guard::upgrade) some of
/// them.
///
/// ```
/// # tokio::runtime::Runtime::new().unwrap().block_on(async {
/// use lockspan_client::AnyGuard;
///
/// let locks = lockspan_client::connect("memory:all-guard").await?;
/// let (a, b) = (locks.record("account", 1)?, locks.record("account", 2)?);
/// let held = locks.all([&b, &a]).write().await?;
/// for guard in &held {
///     println!("{} with token {}", guard.record().name(), guard.token());
/// }
/// tokio::select! {
///     () = held.lost() => println!("stop: somebody else may write one of them now"),
///     () = async { /* the work */ } => {}
/// }
/// // Goes on with the first and releases the second.
/// let first = held.into_iter().next();
/// assert!(matches!(&first, Some(AnyGuard::Write(guard)) if guard.record().name() == a.name()));
/// assert!(b.try_write().await?.is_some());
/// # Ok::<(), Box<dyn std::error::Error>>(()) }).unwrap();
/// ```
#[derive(Debug)]
#[must_use = "the records are released as soon as their guard is dropped"]
pub struct AllGuard {
    /// In the order in which they were locked; never empty.
    held: Vec<AnyGuard>,
}

impl AllGuard {
    pub(super) fn new(held: Vec<AnyGuard>) -> Self {
        Self { held }
    }

    /// How many records are held; each was counted once.
    #[expect(clippy::len_without_is_empty, reason = "it is never empty")]
    #[must_use]
    pub fn len(&self) -> usize {
        self.held.len()
    }

    /// The guards, in the order in which the records were locked.
    pub fn iter(&self) -> std::slice::Iter<'_, AnyGuard> {
        self.held.iter()
    }

    /// The guard of a record, if it is one of these.
    #[must_use]
    pub fn get(&self, record: &Record) -> Option<&AnyGuard> {
        let wanted = record.name().lock_order();
        let order = |guard: &AnyGuard| guard.record().name().lock_order().cmp(&wanted);
        self.held.binary_search_by(order).ok().map(|at| &self.held[at])
    }

    /// The fencing token of a record, if it is one of these: see
    /// [`Guard::token`](crate::Guard::token).
    #[must_use]
    pub fn token(&self, record: &Record) -> Option<Token> {
        self.get(record).map(AnyGuard::token)
    }

    /// The names with their tokens, in the order in which the records were locked.
    pub fn tokens(&self) -> impl Iterator<Item = (&Name, Token)> {
        self.held.iter().map(|guard| (guard.record().name(), guard.token()))
    }

    /// Whether the lease of every record stands now: as
    /// [`Guard::is_valid`](crate::Guard::is_valid).
    #[must_use]
    pub fn is_valid(&self) -> bool {
        self.held.iter().all(AnyGuard::is_valid)
    }

    /// How long all of them still stand if the server is not heard from again: as
    /// [`Guard::valid_for`](crate::Guard::valid_for).
    #[must_use]
    pub fn valid_for(&self) -> Duration {
        self.held.iter().map(AnyGuard::valid_for).min().unwrap_or_default()
    }

    /// Waits until one of the records is lost: as [`Guard::lost`](crate::Guard::lost).
    pub async fn lost(&self) {
        if !self.held[0].record().node().is_forked() {
            // The timer is the parent's, and so are the bells.
            BoundFuture::new(self.lost_here(), || Poll::Ready(())).await;
        }
    }

    /// [`AllGuard::lost`] that blocks the thread. Do not call it in an async task.
    pub fn blocking_lost(&self) {
        block::block_on(self.lost());
    }

    /// [`AllGuard::blocking_lost`] that waits for at most `time`. Returns `true` if one of the
    /// records is lost, `false` if the time is over.
    #[must_use = "it also returns when the time is over"]
    pub fn blocking_lost_timeout(&self, time: Duration) -> bool {
        // A time that no clock can show is forever.
        match Instant::now().checked_add(time) {
            Some(deadline) => block::block_until(self.lost(), deadline).is_some(),
            None => {
                self.blocking_lost();
                true
            }
        }
    }

    async fn lost_here(&self) {
        let bell = |guard: &AnyGuard| lock(&guard.record().entry.line).bell();
        let node = self.held[0].record().node();
        loop {
            let bells: Vec<_> = self.held.iter().map(bell).collect();
            let mut rung: Vec<_> = bells.iter().map(|bell| Box::pin(bell.rung())).collect();
            rung.iter_mut().for_each(|one| {
                one.as_mut().enable();
            });
            let left = self.valid_for();
            if left.is_zero() && !self.is_valid() {
                return;
            }
            let any = poll_fn(|context| {
                let is_rung = rung.iter_mut().any(|one| one.as_mut().poll(context).is_ready());
                if is_rung { Poll::Ready(()) } else { Poll::Pending }
            });
            tokio::select! {
                () = any => {}
                () = task::timer(node, left) => {}
            }
        }
    }
}

impl Drop for AllGuard {
    fn drop(&mut self) {
        release(&mut self.held);
    }
}

impl<'a> IntoIterator for &'a AllGuard {
    type Item = &'a AnyGuard;
    type IntoIter = std::slice::Iter<'a, AnyGuard>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl IntoIterator for AllGuard {
    type Item = AnyGuard;
    type IntoIter = std::vec::IntoIter<AnyGuard>;

    fn into_iter(mut self) -> Self::IntoIter {
        std::mem::take(&mut self.held).into_iter()
    }
}
