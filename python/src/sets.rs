//! Several records that are acquired together: all of them, or none.

use std::cmp::Ordering;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use lockspan::{AllGuard, LockError, Mode};
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use crate::convert::{Seconds, shown};
use crate::errors;
use crate::hold::{Done, done};
use crate::holders::{Acquire, Holder, Own, SharedHolders};
use crate::locks::Locks;
use crate::lost::LostEvent;
use crate::park::{self, Boxed};
use crate::record::Record;
use crate::task::Task;
use crate::wait::{Pending, Wait};

/// A record among several: the record, who holds it, and its own mode if it has one.
#[derive(Clone)]
struct Member {
    record: lockspan::Record,
    holders: SharedHolders,
    mode: Option<Mode>,
}

/// Several records, made by :meth:`Locks.all`. They are locked in the order of their names, in
/// whatever order they are given, so that programs which lock several records only like this never
/// wait for each other in a cycle.
///
/// >>> import lockspan
/// >>> locks = lockspan.connect("memory:doc-all")
/// >>> accounts = locks.all(("account", 2), ("account", 1)).and_read("rates:today")
/// >>> with accounts.write(timeout=5) as held:
/// ...     list(held.tokens), held.is_valid()
/// (['account:1', 'account:2', 'rates:today'], True)
#[pyclass(frozen, module = "lockspan")]
pub(crate) struct All {
    locks: Py<Locks>,
    members: Vec<Member>,
}

impl All {
    pub(crate) fn new(locks: &Bound<'_, Locks>, records: &Bound<'_, PyTuple>) -> PyResult<Self> {
        let empty = Self { locks: locks.clone().unbind(), members: Vec::new() };
        empty.and(records, None)
    }

    /// The same with more records.
    fn and(&self, records: &Bound<'_, PyTuple>, mode: Option<Mode>) -> PyResult<Self> {
        let mut members = self.members.clone();
        for given in records {
            let made;
            let record = match given.cast::<Record>() {
                Ok(record) => record.get(),
                Err(_) => {
                    made = self.locks.get().named(&crate::convert::one_of_several(&given)?);
                    &made
                }
            };
            let holders = Arc::clone(&record.holders);
            members.push(Member { record: record.inner.clone(), holders, mode });
        }
        Ok(Self { locks: self.locks.clone_ref(records.py()), members })
    }

    fn hold(
        &self,
        py: Python<'_>,
        mode: Mode,
        timeout: Option<Seconds>,
        note: Option<&str>,
    ) -> HoldAll {
        HoldAll {
            locks: self.locks.clone_ref(py),
            members: self.members.clone(),
            mode,
            time: timeout.map(|time| time.0),
            note: note.map(ToOwned::to_owned),
            state: Mutex::default(),
            lost: Mutex::new(None),
        }
    }
}

#[pymethods]
impl All {
    /// Also these records, for reading.
    #[pyo3(signature = (*records))]
    fn and_read(&self, records: &Bound<'_, PyTuple>) -> PyResult<Self> {
        self.and(records, Some(Mode::Read))
    }

    /// Also these records, for writing.
    #[pyo3(signature = (*records))]
    fn and_write(&self, records: &Bound<'_, PyTuple>) -> PyResult<Self> {
        self.and(records, Some(Mode::Write))
    }

    /// A hold of all for writing, except those of :meth:`and_read`. The timeout is for all of them.
    #[pyo3(signature = (timeout=None, note=None))]
    fn write(&self, py: Python<'_>, timeout: Option<Seconds>, note: Option<&str>) -> HoldAll {
        self.hold(py, Mode::Write, timeout, note)
    }

    /// A hold of all for reading, except those of :meth:`and_write`.
    #[pyo3(signature = (timeout=None, note=None))]
    fn read(&self, py: Python<'_>, timeout: Option<Seconds>, note: Option<&str>) -> HoldAll {
        self.hold(py, Mode::Read, timeout, note)
    }

    fn __len__(&self) -> usize {
        self.members.len()
    }

    fn __repr__(&self) -> String {
        format!("<lockspan.All {}>", names(&self.members))
    }
}

/// A task's set has come to wait for this record: it holds those before in the order of locking,
/// and is not in line yet for those behind.
fn enter_waiting(
    members: &[Member],
    address: usize,
    me: &Holder,
    (record, is_write): (&lockspan::Record, bool),
) {
    Python::attach(|py| {
        for member in members {
            match member.record.name().lock_order().cmp(&record.name().lock_order()) {
                Ordering::Less => member.holders.enter(address, me.again(py)),
                Ordering::Equal => member.holders.wait(address, me.again(py), is_write),
                Ordering::Greater => {}
            }
        }
    });
}

fn names(members: &[Member]) -> String {
    let names = members.iter().map(|member| shown(member.record.name().as_bytes()));
    names.collect::<Vec<_>>().join(", ")
}

#[derive(Default)]
enum State {
    #[default]
    Idle,
    /// A thread or a task waits.
    Busy,
    Held(Arc<AllGuard>),
}

/// Several records that are held, or will be: what ``with locks.all(…).write()`` gives.
#[pyclass(frozen, module = "lockspan", weakref)]
pub(crate) struct HoldAll {
    locks: Py<Locks>,
    members: Vec<Member>,
    mode: Mode,
    time: Option<Duration>,
    note: Option<String>,
    state: Mutex<State>,
    lost: Mutex<Option<Py<LostEvent>>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What an acquire has brought.
type Acquired = Result<AllGuard, Why>;

/// Why several records were not acquired.
enum Why {
    Failed(LockError),
    /// It would wait for this record, which is the caller's own.
    Own(String, Own),
}

const NOT_HELD: &str = "the records are not held: enter the hold with `with`, or call acquire()";

impl HoldAll {
    fn address(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }

    /// What to wait for. A thread or task that would wait for a record that it holds itself is
    /// refused, now or when the wait has come to that record.
    fn begin(&self, py: Python<'_>, blocks: bool) -> PyResult<Boxed<Acquired>> {
        let me = if blocks { Holder::current(py)? } else { Holder::current_task(py)? };
        let mut state = lock(&self.state);
        if !matches!(*state, State::Idle) {
            drop(state);
            let said = "this hold is in use already: call write() or read() once for each block";
            return Err(PyRuntimeError::new_err(said));
        }
        *state = State::Busy;
        drop(state);
        let mut acquire = self.acquire_all(me, blocks);
        match acquire.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(done) => Ok(Box::pin(std::future::ready(done))),
            Poll::Pending => Ok(acquire),
        }
    }

    /// The client's future for all records. It ends when it would wait for a record of the caller's
    /// own, whenever that is: a second read is granted at once unless a writer waits.
    fn acquire_all(&self, me: Holder, blocks: bool) -> Boxed<Acquired> {
        let none: [lockspan::Record; 0] = [];
        let mut all = self.locks.get().inner().all(none);
        for member in &self.members {
            all = match member.mode {
                None => all.and(&member.record),
                Some(mode) => all.and((&member.record, mode)),
            };
        }
        if let Some(note) = &self.note {
            all = all.note(note);
        }
        let (members, own) = (self.members.clone(), Arc::new(Mutex::new(None)));
        let (found, address, set_mode) = (Arc::clone(&own), self.address(), self.mode);
        let waits_for = Mutex::new(None);
        let is_own = move |record: &lockspan::Record| {
            let same = members.iter().filter(|member| member.record.name() == record.name());
            let mut writes = same.clone().map(|member| member.mode.unwrap_or(set_mode));
            let is_write = writes.any(|mode| mode == Mode::Write);
            let asks = Acquire { record, is_write, blocks };
            let mut waits_for = lock(&waits_for);
            // A thread that blocks does nothing else meanwhile.
            let goes_on = !blocks && waits_for.as_ref() != Some(record.name());
            if goes_on {
                // It may have begun again, with records that it has let go of.
                members.iter().for_each(|member| member.holders.leave(address));
                *waits_for = Some(record.name().clone());
            }
            let own = same.clone().find_map(|member| member.holders.own(&me, &asks));
            if let Some(own) = own {
                *lock(&found) = Some((shown(record.name().as_bytes()), own));
            } else if goes_on {
                enter_waiting(&members, address, &me, (record, is_write));
            }
            own.is_some()
        };
        let acquire = if self.mode == Mode::Write { all.write() } else { all.read() };
        let acquire = acquire.unless(is_own);
        let time = self.time;
        Box::pin(async move {
            let done = match time {
                None => acquire.await,
                Some(time) => acquire.within(time).await,
            };
            done.map_err(|why| {
                let own = lock(&own).take();
                own.map_or(Why::Failed(why), |(record, own)| Why::Own(record, own))
            })
        })
    }

    fn end(&self, py: Python<'_>, done: Acquired) -> PyResult<()> {
        // A task that waited is no longer one that waits.
        self.leave();
        let guard = match done {
            Ok(guard) => guard,
            Err(why) => {
                *lock(&self.state) = State::Idle;
                return Err(match why {
                    Why::Failed(why) => errors::lock(py, &why),
                    Why::Own(record, own) => errors::waits_for_itself(py, &record, own),
                });
            }
        };
        let holders = self.members.iter().map(|_| Holder::current(py)).collect();
        let holders: Vec<_> = match holders {
            Ok(holders) => holders,
            Err(why) => {
                *lock(&self.state) = State::Idle;
                drop(guard);
                return Err(why);
            }
        };
        *lock(&self.state) = State::Held(Arc::new(guard));
        for (member, me) in self.members.iter().zip(holders) {
            member.holders.enter(self.address(), me);
        }
        Ok(())
    }

    fn let_go(&self) -> bool {
        let mut state = lock(&self.state);
        if !matches!(*state, State::Held(_)) {
            return false;
        }
        let held = std::mem::take(&mut *state);
        drop(state);
        self.leave();
        // A watcher has a share in the guard, and drops it here.
        let event = lock(&self.lost).take();
        if let Some(event) = event {
            event.get().released();
        }
        drop(held);
        true
    }

    /// The task that waited was cancelled, perhaps just after the records were granted.
    fn abandon(&self) {
        let mut state = lock(&self.state);
        if matches!(*state, State::Busy) {
            *state = State::Idle;
            drop(state);
            self.leave();
        } else {
            drop(state);
            self.let_go();
        }
    }

    fn leave(&self) {
        for member in &self.members {
            member.holders.leave(self.address());
        }
    }

    fn guard(&self, py: Python<'_>) -> PyResult<Arc<AllGuard>> {
        let guard = match &*lock(&self.state) {
            State::Held(guard) => Some(Arc::clone(guard)),
            _ => None,
        };
        guard.ok_or_else(|| errors::not_held(py, NOT_HELD))
    }

    fn task(slf: &Bound<'_, Self>) -> Task {
        let (begun, this, abandoned) =
            (slf.clone().unbind(), slf.clone().unbind(), slf.clone().unbind());
        Task::new(
            move |py| begun.get().begin(py, false),
            move |py, done| {
                this.get().end(py, done)?;
                Ok(this.clone_ref(py).into_any())
            },
            move || abandoned.get().abandon(),
        )
    }
}

#[pymethods]
impl HoldAll {
    /// Acquires all records and returns this hold. Blocks the thread: in a coroutine ``await`` the
    /// hold instead. Release them with :meth:`release`.
    fn acquire<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, Self>> {
        let (py, this) = (slf.py(), slf.get());
        match park::wait(py, this.begin(py, true)?) {
            Ok(done) => this.end(py, done)?,
            Err(interrupt) => {
                *lock(&this.state) = State::Idle;
                return Err(interrupt);
            }
        }
        Ok(slf.clone())
    }

    /// Releases all of them.
    fn release(&self, py: Python<'_>) -> PyResult<()> {
        match self.let_go() {
            true => Ok(()),
            false => Err(errors::not_held(py, NOT_HELD)),
        }
    }

    /// This hold belongs to no thread or task from now on: see :meth:`Hold.detach`. Returns this
    /// hold.
    fn detach<'py>(slf: &Bound<'py, Self>) -> Bound<'py, Self> {
        slf.get().leave();
        slf.clone()
    }

    /// Whether the records are held, lost or not.
    #[getter]
    fn held(&self) -> bool {
        matches!(*lock(&self.state), State::Held(_))
    }

    /// The fencing token of each record, by its name: see :attr:`Hold.token`.
    #[getter]
    fn tokens<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let tokens = PyDict::new(py);
        for (name, token) in self.guard(py)?.tokens() {
            tokens.set_item(shown(name.as_bytes()), token.number())?;
        }
        Ok(tokens)
    }

    /// Whether the lease of every record stands now.
    fn is_valid(&self) -> bool {
        matches!(&*lock(&self.state), State::Held(guard) if guard.is_valid())
    }

    /// Raises :class:`lockspan.Lost` if one of the leases has expired.
    fn check(&self, py: Python<'_>) -> PyResult<()> {
        match self.guard(py)?.is_valid() {
            true => Ok(()),
            false => Err(errors::lock(py, &LockError::Lost)),
        }
    }

    /// The event of one of the records being lost.
    #[getter]
    fn lost(&self, py: Python<'_>) -> PyResult<Py<LostEvent>> {
        if let Some(event) = &*lock(&self.lost) {
            return Ok(event.clone_ref(py));
        }
        let guard = self.guard(py)?;
        let event = Py::new(py, LostEvent::new(Box::pin(async move { guard.lost().await })))?;
        *lock(&self.lost) = Some(event.clone_ref(py));
        Ok(event)
    }

    fn __enter__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, Self>> {
        Self::acquire(slf)
    }

    #[pyo3(signature = (_kind, _value, _traceback, /))]
    fn __exit__(
        &self,
        _kind: &Bound<'_, PyAny>,
        _value: &Bound<'_, PyAny>,
        _traceback: &Bound<'_, PyAny>,
    ) -> bool {
        self.let_go();
        false
    }

    fn __aenter__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, Task>> {
        Bound::new(slf.py(), Self::task(slf))
    }

    #[pyo3(signature = (_kind, _value, _traceback, /))]
    fn __aexit__<'py>(
        &self,
        _kind: &Bound<'py, PyAny>,
        _value: &Bound<'py, PyAny>,
        _traceback: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, Done>> {
        self.let_go();
        done(_kind.py())
    }

    fn __await__(slf: &Bound<'_, Self>) -> PyResult<Wait> {
        Ok(Wait::new(Pending::Task(Py::new(slf.py(), Self::task(slf))?)))
    }

    fn __repr__(&self) -> String {
        let state = match &*lock(&self.state) {
            State::Idle => "not held",
            State::Busy => "waiting",
            State::Held(guard) if guard.is_valid() => "held",
            State::Held(_) => "lost",
        };
        format!("<lockspan.HoldAll {}, {state}>", names(&self.members))
    }
}

impl Drop for HoldAll {
    fn drop(&mut self) {
        self.let_go();
    }
}

impl fmt::Debug for All {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.__repr__())
    }
}

impl fmt::Debug for HoldAll {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.__repr__())
    }
}
