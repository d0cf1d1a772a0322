//! A record as Python sees it.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use lockspan::{Kind, LockError};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::attempt::Attempt;
use crate::convert::{Seconds, shown};
use crate::errors;
use crate::grip::Grip;
use crate::hold::Hold;
use crate::holders::SharedHolders;
use crate::locks::Shared;
use crate::park::Boxed;

/// One record, ``datatype:id``: what is locked for reading or for writing.
///
/// Made by :meth:`Locks.record`. Keep it where the same record is acquired again and again. While
/// the record is cached in this process, acquiring and releasing it sends no message.
///
/// >>> import lockspan
/// >>> locks = lockspan.connect("memory:doc-record")
/// >>> invoice = locks.record("invoice", 42)
/// >>> invoice.name
/// 'invoice:42'
/// >>> with invoice.write(timeout=5) as held:
/// ...     held.mode
/// 'write'
#[pyclass(frozen, module = "lockspan")]
pub(crate) struct Record {
    pub(crate) inner: lockspan::Record,
    /// Who holds it, shared by all handles of the record in its connection.
    pub(crate) holders: SharedHolders,
    /// Keeps the connection open.
    pub(crate) shared: Arc<Shared>,
}

/// What the first poll of an acquire has brought.
pub(crate) enum First {
    Held(Grip),
    Pending(Boxed<Result<Grip, LockError>>),
    Failed(LockError),
}

impl Record {
    /// Polls an acquire once; what is pending then waits for at most `time`.
    #[inline]
    pub(crate) fn begin(&self, write: bool, time: Option<Duration>) -> First {
        begin(&self.inner, write, time)
    }

    /// An acquire that does not wait for holders.
    pub(crate) fn attempt(&self, write: bool) -> Boxed<Result<Option<Grip>, LockError>> {
        let record = self.inner.clone();
        Box::pin(async move {
            Ok(if write {
                record.try_write_owned().await?.map(Grip::Write)
            } else {
                record.try_read_owned().await?.map(Grip::Read)
            })
        })
    }

    pub(crate) fn shown(&self) -> String {
        shown(self.inner.name().as_bytes())
    }

    fn hold(
        slf: &Bound<'_, Self>,
        write: bool,
        timeout: Option<Seconds>,
        note: Option<&str>,
    ) -> PyResult<Hold> {
        let record = match note {
            None => slf.clone().unbind(),
            Some(note) => Py::new(slf.py(), slf.get().noted(slf.py(), note)?)?,
        };
        Ok(Hold::new(record, write, timeout.map(|time| time.0)))
    }

    fn noted(&self, py: Python<'_>, note: &str) -> PyResult<Self> {
        let noted = self.inner.with_note(note);
        let inner = noted.map_err(|why| errors::lock(py, &LockError::BadNote(why)))?;
        let (holders, shared) = (Arc::clone(&self.holders), Arc::clone(&self.shared));
        Ok(Self { inner, holders, shared })
    }
}

/// Polls an acquire once; what is pending then waits for at most `time`.
#[inline]
pub(crate) fn begin(record: &lockspan::Record, write: bool, time: Option<Duration>) -> First {
    let record = record.clone();
    if write {
        first(record.write_owned(), time, Grip::Write)
    } else {
        first(record.read_owned(), time, Grip::Read)
    }
}

/// Polls once without anybody to wake, and boxes what is pending.
#[inline]
fn first<K: Kind + Send>(
    mut acquire: lockspan::Acquire<K, lockspan::Record>,
    time: Option<Duration>,
    grip: fn(lockspan::Guard<K, lockspan::Record>) -> Grip,
) -> First {
    let mut context = Context::from_waker(Waker::noop());
    match Pin::new(&mut acquire).poll(&mut context) {
        Poll::Ready(Ok(guard)) => First::Held(grip(guard)),
        Poll::Ready(Err(why)) => First::Failed(why),
        Poll::Pending => First::Pending(match time {
            None => Box::pin(async move { acquire.await.map(grip) }),
            Some(time) => Box::pin(async move { acquire.within(time).await.map(grip) }),
        }),
    }
}

#[pymethods]
impl Record {
    /// The name as text, ``datatype:id``. Bytes that are not UTF-8 are replaced.
    #[getter]
    fn name(&self) -> String {
        self.shown()
    }

    /// The name as bytes.
    #[getter]
    fn name_bytes<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, self.inner.name().as_bytes())
    }

    /// A hold for writing: nobody else reads or writes. Nothing happens before it is entered by
    /// ``with`` or ``async with``, awaited, or acquired by :meth:`Hold.acquire`.
    ///
    /// ``timeout`` is a number of seconds or a timedelta; without one it waits until the record is
    /// granted. ``note`` says for people what the record is wanted for.
    #[pyo3(signature = (timeout=None, note=None))]
    fn write(
        slf: &Bound<'_, Self>,
        timeout: Option<Seconds>,
        note: Option<&str>,
    ) -> PyResult<Hold> {
        Self::hold(slf, true, timeout, note)
    }

    /// A hold for reading: others may read, nobody writes. See :meth:`write`.
    #[pyo3(signature = (timeout=None, note=None))]
    fn read(slf: &Bound<'_, Self>, timeout: Option<Seconds>, note: Option<&str>) -> PyResult<Hold> {
        Self::hold(slf, false, timeout, note)
    }

    /// As :meth:`write`, but does not wait for holders: ``with record.try_write() as held:`` has
    /// ``None`` in ``held`` if the record is in use.
    ///
    /// A record that another process has cached but does not use is fetched from there, which takes
    /// a few round trips, at most the option ``try_for`` of :func:`lockspan.connect`.
    ///
    /// >>> import lockspan
    /// >>> page = lockspan.connect("memory:doc-try").record("page", 1)
    /// >>> with page.write(), page.try_write() as held:
    /// ...     held is None
    /// True
    fn try_write(slf: &Bound<'_, Self>) -> Attempt {
        Attempt::new(slf.clone().unbind(), true)
    }

    /// As :meth:`try_write`, for reading.
    fn try_read(slf: &Bound<'_, Self>) -> Attempt {
        Attempt::new(slf.clone().unbind(), false)
    }

    /// The same record, acquired with a note that says for people what it is wanted for, wherever
    /// they see who holds the record. At most 256 bytes without control characters.
    fn with_note(&self, py: Python<'_>, note: &str) -> PyResult<Self> {
        self.noted(py, note)
    }

    fn __repr__(&self) -> String {
        format!("<lockspan.Record {}>", self.shown())
    }

    fn __eq__(&self, other: &Bound<'_, PyAny>) -> bool {
        let other = other.cast::<Self>();
        other.is_ok_and(|other| {
            let other = other.get();
            self.inner.name() == other.inner.name() && Arc::ptr_eq(&self.shared, &other.shared)
        })
    }

    fn __hash__(&self) -> u64 {
        use std::hash::{DefaultHasher, Hash as _, Hasher as _};
        let mut hasher = DefaultHasher::new();
        self.inner.name().hash(&mut hasher);
        hasher.finish()
    }
}

impl fmt::Debug for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}
