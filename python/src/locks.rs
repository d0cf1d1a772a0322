//! A connection as Python sees it.

use std::collections::HashMap;
use std::fmt;
use std::process;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use lockspan::{CloseUnknown, LockError, Name, Owner};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use crate::convert;
use crate::errors;
use crate::exit;
use crate::holders::{Holders, SharedHolders};
use crate::park;
use crate::record::Record;
use crate::sets::All;
use crate::task::Task;

/// What all handles of a connection share.
pub(crate) struct Shared {
    pub(crate) locks: lockspan::Locks,
    url: String,
    /// The process that connected.
    process: u32,
    holders: Mutex<Known>,
}

/// The records that have handles, by name.
#[derive(Default)]
struct Known {
    records: HashMap<Name, Weak<Holders>>,
    /// Those without handles are forgotten when there are so many.
    sweep_at: usize,
}

impl Shared {
    /// The holders of a record; all its handles get the same.
    fn holders(&self, name: &Name) -> SharedHolders {
        let mut known = self.holders.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(holders) = known.records.get(name).and_then(Weak::upgrade) {
            return holders;
        }
        if known.records.len() >= known.sweep_at {
            known.records.retain(|_, holders| holders.strong_count() > 0);
            known.sweep_at = 2 * known.records.len() + 64;
        }
        let holders = SharedHolders::default();
        known.records.insert(name.clone(), Arc::downgrade(&holders));
        holders
    }
}

/// A connection to the lock service, made by :func:`lockspan.connect`.
///
/// It reconnects by itself. It may be used by all threads and tasks of the process. It belongs to
/// the process that connected: in a child of a fork every call raises :class:`lockspan.Forked`, and
/// the child connects again. ``with`` closes it at the end of the block; in a child of a fork the
/// end of the block does nothing.
///
/// >>> import lockspan
/// >>> with lockspan.connect("memory:doc-locks") as locks:
/// ...     with locks.record("invoice", 42).write() as held:
/// ...         held.mode
/// 'write'
#[pyclass(frozen, module = "lockspan", weakref)]
pub(crate) struct Locks {
    inner: lockspan::Locks,
    shared: Arc<Shared>,
    owner: Option<u64>,
}

impl Locks {
    pub(crate) fn new(locks: lockspan::Locks, url: String) -> Self {
        let inner = locks.clone();
        let shared =
            Arc::new(Shared { locks, url, process: process::id(), holders: Mutex::default() });
        exit::remember(Arc::downgrade(&shared));
        Self { inner, shared, owner: None }
    }

    pub(crate) fn inner(&self) -> &lockspan::Locks {
        &self.inner
    }

    pub(crate) fn named(&self, name: &Name) -> Record {
        let (inner, holders) = (self.inner.named(name), self.shared.holders(name));
        Record { inner, holders, shared: Arc::clone(&self.shared) }
    }

    /// Whether this process is a child of a fork of the one that connected.
    fn is_in_child(&self) -> bool {
        self.shared.process != process::id()
    }

    fn refuse_in_child(&self, py: Python<'_>) -> PyResult<()> {
        if self.is_in_child() { Err(errors::lock(py, &LockError::Forked)) } else { Ok(()) }
    }

    /// Closes it, and blocks the thread until the server has confirmed it.
    fn closed(&self, py: Python<'_>) -> PyResult<Result<(), CloseUnknown>> {
        park::wait(py, Box::pin(self.shared.locks.clone().close()))
    }

    /// Closes it in a task. With `has_failed` an exception is on its way to the caller, which a
    /// close that the server does not confirm must not replace.
    fn closing(&self, has_failed: bool) -> Task {
        let locks = self.shared.locks.clone();
        Task::new(
            move |_| Ok(Box::pin(locks.close())),
            move |py, closed: Result<(), CloseUnknown>| match closed {
                Err(why) if !has_failed => Err(errors::close_unknown(py, why)),
                _ => Ok(py.None()),
            },
            || {},
        )
    }
}

#[pymethods]
impl Locks {
    /// The record ``datatype:id``. Sends no message: a record needs no creation.
    ///
    /// The id is a str, bytes, int or ``uuid.UUID``. With one argument it is the whole name:
    /// ``locks.record("invoice:42")``.
    ///
    /// >>> import lockspan, uuid
    /// >>> locks = lockspan.connect("memory:doc-ids")
    /// >>> locks.record("invoice", 42) == locks.record("invoice:42")
    /// True
    /// >>> locks.record("user", uuid.UUID(int=7)).name
    /// 'user:00000000-0000-0000-0000-000000000007'
    #[pyo3(signature = (datatype, id=None))]
    fn record(
        &self,
        datatype: &Bound<'_, PyAny>,
        id: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Record> {
        Ok(self.named(&convert::name(datatype, id)?))
    }

    /// Several records, to be acquired together: all of them, or none. Each is a :class:`Record`, a
    /// pair ``(datatype, id)`` or a name ``"datatype:id"``. See :class:`All`.
    ///
    /// >>> import lockspan
    /// >>> locks = lockspan.connect("memory:doc-locks-all")
    /// >>> with locks.all(("account", 1), ("account", 2)).write(timeout=5) as held:
    /// ...     sorted(held.tokens)
    /// ['account:1', 'account:2']
    #[pyo3(signature = (*records))]
    fn all(slf: &Bound<'_, Self>, records: &Bound<'_, PyTuple>) -> PyResult<All> {
        All::new(slf, records)
    }

    /// The same connection on behalf of an owner, such as a transaction. Deadlocks between owners
    /// are detected, across processes too: one of them gets :class:`lockspan.Deadlock`. The number
    /// must be unique in the service while it is used.
    ///
    /// >>> import lockspan
    /// >>> locks = lockspan.connect("memory:doc-owner")
    /// >>> transaction = locks.as_owner(7)
    /// >>> with transaction.record("account", 1).write():
    /// ...     try:
    /// ...         transaction.record("account", 1).write().acquire()
    /// ...     except lockspan.Deadlock as why:
    /// ...         why.cycle
    /// [7]
    fn as_owner(&self, owner: u64) -> Self {
        let inner = self.inner.as_owner(Owner(owner));
        Self { inner, shared: Arc::clone(&self.shared), owner: Some(owner) }
    }

    /// The owner of :meth:`as_owner`, or ``None``.
    #[getter]
    fn owner(&self) -> Option<u64> {
        self.owner
    }

    /// The URL of the connection, without a password.
    #[getter]
    fn url(&self) -> &str {
        &self.shared.url
    }

    /// Counts of messages (``told``, ``heard``), grants and connections so far.
    fn stats<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let counts = self.inner.stats();
        let stats = PyDict::new(py);
        stats.set_item("told", counts.told)?;
        stats.set_item("heard", counts.heard)?;
        stats.set_item("acquires", counts.acquires)?;
        stats.set_item("grants", counts.grants)?;
        stats.set_item("revokes", counts.revokes)?;
        stats.set_item("retries", counts.retries)?;
        stats.set_item("lost", counts.lost)?;
        stats.set_item("lost_leases", counts.lost_leases)?;
        stats.set_item("connects", counts.connects)?;
        stats.set_item("sent_bytes", counts.sent_bytes)?;
        stats.set_item("received_bytes", counts.received_bytes)?;
        stats.set_item("records", counts.records)?;
        Ok(stats)
    }

    /// Gives back to the server, at once, all records that are cached and not in use.
    fn give_back_idle(&self) {
        self.inner.give_back_idle();
    }

    /// Whether an operator of the server has ended a session of this connection.
    #[getter]
    fn was_ended_by_operator(&self) -> bool {
        self.inner.was_ended_by_operator()
    }

    /// Ends the session now, and waits until the server has confirmed it. Holds are lost, and calls
    /// raise :class:`lockspan.Closed`. Blocks the thread: in a coroutine use :meth:`aclose`.
    ///
    /// Raises :class:`lockspan.CloseUnknown` if the server does not answer. Then what was held is
    /// free when the lease expires, at the latest. Raises :class:`lockspan.Forked` in a child of a
    /// fork: the connection is the parent's.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        self.refuse_in_child(py)?;
        self.closed(py)?.map_err(|why| errors::close_unknown(py, why))
    }

    /// :meth:`close` for coroutines.
    fn aclose(&self, py: Python<'_>) -> PyResult<Task> {
        self.refuse_in_child(py)?;
        Ok(self.closing(false))
    }

    fn __enter__<'py>(slf: &Bound<'py, Self>) -> Bound<'py, Self> {
        slf.clone()
    }

    #[pyo3(signature = (_kind, _value, _traceback, /))]
    fn __exit__(
        &self,
        _kind: &Bound<'_, PyAny>,
        _value: &Bound<'_, PyAny>,
        _traceback: &Bound<'_, PyAny>,
    ) -> PyResult<bool> {
        if self.is_in_child() {
            return Ok(false);
        }
        match self.closed(_kind.py())? {
            Err(why) if _kind.is_none() => Err(errors::close_unknown(_kind.py(), why)),
            // The exception of the block matters more than an unconfirmed close.
            _ => Ok(false),
        }
    }

    fn __aenter__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, Task>> {
        let this = slf.clone().unbind();
        let begin = |_: Python<'_>| -> PyResult<park::Boxed<()>> { Ok(Box::pin(async {})) };
        let task = Task::new(begin, move |py, ()| Ok(this.clone_ref(py).into_any()), || {});
        Bound::new(slf.py(), task)
    }

    #[pyo3(signature = (_kind, _value, _traceback, /))]
    fn __aexit__(
        &self,
        _kind: &Bound<'_, PyAny>,
        _value: &Bound<'_, PyAny>,
        _traceback: &Bound<'_, PyAny>,
    ) -> Task {
        if self.is_in_child() {
            let begin = |_: Python<'_>| -> PyResult<park::Boxed<()>> { Ok(Box::pin(async {})) };
            return Task::new(begin, |py, ()| Ok(py.None()), || {});
        }
        self.closing(!_kind.is_none())
    }

    fn __repr__(&self) -> String {
        match self.owner {
            Some(owner) => format!("<lockspan.Locks {} as owner {owner}>", self.shared.url),
            None => format!("<lockspan.Locks {}>", self.shared.url),
        }
    }
}

impl fmt::Debug for Locks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}
