//! Several records at once: what is asked for, and in how many forms.
//!
//! | file | job |
//! |---|---|
//! | `acquire` | the future: locks one record after the other, in order |
//! | `forms` | with a time limit, without waiting, for threads |
//! | `guard` | the guard of all of them |
//! | `bugs` | mistakes that the tests must find |
//! | `tests` | random sets, modes and cancellations on several nodes, in every order |
//!
//! `node::batch` fetches the records that are not cached together.

mod acquire;
#[cfg(test)]
pub(crate) mod bugs;
mod forms;
mod guard;
#[cfg(test)]
mod tests;

use std::borrow::Borrow;
use std::fmt;
use std::sync::Arc;

use lockspan_protocol::{Annotation, Mode, Record as Name};

use crate::error::LockError;
use crate::locks::Locks;
use crate::record::Record;

pub use acquire::AcquireAll;
pub use guard::{AllGuard, AnyGuard};

/// Why records can't be acquired together.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum BadSet {
    /// There are no records.
    Empty,
    /// There are too many.
    TooMany {
        /// How many, without those that were given more than once.
        count: usize,
        /// How many there may be.
        max: usize,
    },
    /// A record is of another connection than the [`Locks`] whose `all` was called.
    OtherConnection {
        /// Which record.
        record: Name,
    },
}

impl fmt::Display for BadSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str("there are no records to acquire: give at least one to all"),
            Self::TooMany { count, max } => {
                write!(f, "{count} records are too many to acquire at once: at most {max}")
            }
            Self::OtherConnection { record } => write!(
                f,
                "{record} belongs to another connection: make all records with the Locks whose \
                 all is called"
            ),
        }
    }
}

impl std::error::Error for BadSet {}

/// A record given to [`Locks::all`], with a mode of its own or without one. Made from a [`Record`],
/// a reference to one, or either with a [`Mode`].
#[derive(Clone, Debug)]
pub struct Member {
    record: Record,
    mode: Option<Mode>,
}

impl From<Record> for Member {
    fn from(record: Record) -> Self {
        Self { record, mode: None }
    }
}

impl From<&Record> for Member {
    fn from(record: &Record) -> Self {
        record.clone().into()
    }
}

impl From<(Record, Mode)> for Member {
    fn from((record, mode): (Record, Mode)) -> Self {
        Self { record, mode: Some(mode) }
    }
}

impl From<(&Record, Mode)> for Member {
    fn from((record, mode): (&Record, Mode)) -> Self {
        (record.clone(), mode).into()
    }
}

/// Several records that are acquired together: all of them, or none. Made by [`Locks::all`].
///
/// ```
/// # tokio::runtime::Runtime::new().unwrap().block_on(async {
/// let locks = lockspan_client::connect("memory:all").await?;
/// let (from, to) = (locks.record("account", 1)?, locks.record("account", 2)?);
/// let held = locks.all([&from, &to]).write().await?;
/// println!("tokens {:?} and {:?}", held.token(&from), held.token(&to));
/// drop(held); // releases both
///
/// // Two accounts are written, the rates are only read.
/// let rates = locks.record("rates", "today")?;
/// let held = locks.all([&from, &to]).and_read(&rates).note("transfer").write().await?;
/// assert_eq!(held.len(), 3);
/// # Ok::<(), Box<dyn std::error::Error>>(()) }).unwrap();
/// ```
///
/// # Order and deadlocks
///
/// The records are locked one after the other in the byte order of (datatype, id), whatever the
/// order in which they were given. A record that was given twice is locked once, for writing if one
/// of the two says so.
///
/// So **calls of `all` never wait for each other in a cycle, as long as each caller holds nothing
/// else and upgrades nothing**. A caller that already holds a record, or that
/// [upgrades](crate::Guard::upgrade) one that it got here, can be part of a deadlock. Between
/// [owners](Locks::as_owner) such a deadlock is detected, and one of them gets
/// [`LockError::Deadlock`]. Without owners use the `_timeout` forms.
///
/// While the call waits for a record it holds those before it in the order, and nothing after it.
/// Records that are not cached are asked for together, up to 64 in one write to the server. When
/// the server can't grant one of them soon, the later ones are given back before the call waits.
/// (With [`Options::caching`](crate::Options::caching) off they are asked for one by one.)
///
/// # All forms
///
/// `write` acquires the records for writing, `read` for reading, except those that were given with
/// a mode of their own. `lock` acquires each in its own mode, and for writing those that have none.
///
/// | | waits | waits for a limited time | does not wait for holders |
/// |---|---|---|---|
#[doc = concat!(
    " | task | [`write`](All::write) [`read`](All::read) [`lock`](All::lock) | ",
    "[`write_timeout`](All::write_timeout) [`read_timeout`](All::read_timeout) ",
    "[`lock_timeout`](All::lock_timeout) | ",
    "[`try_write`](All::try_write) [`try_read`](All::try_read) [`try_lock`](All::try_lock) |",
)]
#[doc = concat!(
    " | thread | [`blocking_write`](All::blocking_write) [`blocking_read`](All::blocking_read) ",
    "[`blocking_lock`](All::blocking_lock) | ",
    "[`blocking_write_timeout`](All::blocking_write_timeout) ",
    "[`blocking_read_timeout`](All::blocking_read_timeout) ",
    "[`blocking_lock_timeout`](All::blocking_lock_timeout) | ",
    "[`blocking_try_write`](All::blocking_try_write) ",
    "[`blocking_try_read`](All::blocking_try_read) ",
    "[`blocking_try_lock`](All::blocking_try_lock) |",
)]
///
/// A time limit is for all records together. Whatever the reason for which a call fails or is
/// dropped, it holds nothing afterwards.
///
/// # Errors
///
/// [`LockError::BadSet`] if there are no records, more than [`All::MAX`], or one of another
/// connection; [`LockError::BadNote`]; otherwise as [`Record::read`] of the record that it failed
/// at. [`LockError::Timeout`] names the record that was waited for.
#[derive(Clone, Debug)]
#[must_use = "it acquires nothing until one of its forms is called"]
pub struct All {
    locks: Locks,
    members: Vec<Member>,
    note: Result<Option<Annotation>, LockError>,
}

impl Locks {
    /// Several records, to be acquired together: see [`All`].
    ///
    /// Takes records, references to records, or either with a [`Mode`]:
    ///
    /// ```
    /// # tokio::runtime::Runtime::new().unwrap().block_on(async {
    /// use lockspan_client::Mode;
    ///
    /// let locks = lockspan_client::connect("memory:all").await?;
    /// let [a, b] = [locks.record("stock", "apple")?, locks.record("stock", "pear")?];
    /// drop(locks.all([a.clone(), b.clone()]).write().await?);
    /// drop(locks.all([&a, &b]).read().await?);
    /// drop(locks.all([(&a, Mode::Read), (&b, Mode::Write)]).lock().await?);
    /// # Ok::<(), Box<dyn std::error::Error>>(()) }).unwrap();
    /// ```
    ///
    /// If this `Locks` is [on behalf of an owner](Locks::as_owner), so is what is acquired;
    /// otherwise each record is acquired for the owner that it was made for.
    pub fn all<M: Into<Member>>(&self, records: impl IntoIterator<Item = M>) -> All {
        let members = records.into_iter().map(Into::into).collect();
        All { locks: self.clone(), members, note: Ok(None) }
    }
}

impl All {
    /// How many records can be acquired at once.
    pub const MAX: usize = 1000;

    /// Also this record, for reading.
    pub fn and_read(self, record: impl Borrow<Record>) -> Self {
        self.and((record.borrow(), Mode::Read))
    }

    /// Also this record, for writing.
    pub fn and_write(self, record: impl Borrow<Record>) -> Self {
        self.and((record.borrow(), Mode::Write))
    }

    /// Also this record, with a mode of its own or without one.
    pub fn and(mut self, record: impl Into<Member>) -> Self {
        self.members.push(record.into());
        self
    }

    /// Says for people what the records are wanted for: as [`Acquire::note`](crate::Acquire::note),
    /// for each of them.
    pub fn note(mut self, note: impl AsRef<str>) -> Self {
        let checked = Annotation::new(note.as_ref());
        self.note = checked.map(Some).map_err(LockError::BadNote);
        self
    }

    /// Acquires all for writing; those with a mode of their own in that.
    ///
    /// Dropping the future before it is ready releases what it has, and leaves the queue.
    pub fn write(self) -> AcquireAll {
        self.acquire(Mode::Write)
    }

    /// Acquires all for reading; those with a mode of their own in that.
    pub fn read(self) -> AcquireAll {
        self.acquire(Mode::Read)
    }

    /// Acquires each in the mode that was given with it, and those without one for writing.
    pub fn lock(self) -> AcquireAll {
        self.acquire(Mode::Write)
    }

    fn acquire(mut self, mode: Mode) -> AcquireAll {
        let note = std::mem::replace(&mut self.note, Ok(None));
        let ready = self.sorted(mode).and_then(|records| Ok((records, note?)));
        match ready {
            Ok((records, note)) => AcquireAll::new(records, note),
            Err(why) => AcquireAll::refused(why),
        }
    }

    /// The records in the order in which they are locked, each once.
    fn sorted(self, mode: Mode) -> Result<Vec<(Record, Mode)>, LockError> {
        let bad = |why| Err(LockError::BadSet(Box::new(why)));
        let mut records: Vec<(Record, Mode)> = Vec::with_capacity(self.members.len());
        for Member { mut record, mode: own } in self.members {
            if !Arc::ptr_eq(&record.handle, self.locks.handle()) {
                return bad(BadSet::OtherConnection { record: record.name().clone() });
            }
            record.owner = self.locks.owner().or(record.owner);
            records.push((record, own.unwrap_or(mode)));
        }
        #[cfg(test)]
        if bugs::has(bugs::Bug::Unsorted) {
            return Ok(records);
        }
        records.sort_by(|(one, _), (other, _)| {
            one.name().lock_order().cmp(&other.name().lock_order())
        });
        records.dedup_by(|(later, stronger), (kept, mode)| {
            let is_same = later.name() == kept.name();
            if is_same {
                *mode = (*mode).max(*stronger);
            }
            is_same
        });
        match records.len() {
            0 => bad(BadSet::Empty),
            count if count > Self::MAX => bad(BadSet::TooMany { count, max: Self::MAX }),
            _ => Ok(records),
        }
    }
}
