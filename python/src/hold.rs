//! A record that is acquired, waited for or held.
//!
//! | state | what it is | goes to |
//! |---|---|---|
//! | `Idle` | not held | `Held`, `Waiting` (a task), `Busy` (a thread) |
//! | `Waiting` | a task waits | `Held`; `Idle` when it is cancelled or refused |
//! | `Busy` | a thread waits | `Held`, `Idle` |
//! | `Held` | held | `Idle` when released, `Upgrading` |
//! | `Upgrading` | an upgrade is under way | `Held`; `Idle` if it was released or interrupted |

use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use lockspan::LockError;
use pyo3::exceptions::{PyRuntimeError, PyStopIteration};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;

use crate::bell::Bell;
use crate::convert::Seconds;
use crate::errors;
use crate::grip::Grip;
use crate::holders::{Acquire, Holder};
use crate::lost::LostEvent;
use crate::park::{self, Boxed};
use crate::record::{First, Record};
use crate::task::Task;
use crate::wait::{Pending, Wait};

#[derive(Default)]
enum State {
    #[default]
    Idle,
    Waiting(Boxed<Result<Grip, LockError>>),
    Busy,
    Held(Grip),
    Upgrading {
        /// It was released meanwhile: the record is released when the upgrade ends.
        is_released: bool,
        /// The task that upgrades; `None` if a thread does.
        by: Option<Holder>,
    },
}

/// A record that is held, or will be: what ``with`` gives, and what :meth:`Record.write` and
/// :meth:`Record.read` return.
///
/// The lease can expire while a record is held, because the network was cut or the process was
/// suspended. Then other processes may acquire the record. Three ways to deal with it:
/// :meth:`check` before each step that matters; :attr:`lost`, an event; and :attr:`token`, a number
/// that lets the data store refuse a write that comes too late. Only the token is safe even if the
/// process is suspended between the check and the write.
///
/// >>> import lockspan
/// >>> invoice = lockspan.connect("memory:doc-hold").record("invoice", 42)
/// >>> with invoice.read() as held:
/// ...     held.mode, held.is_valid()
/// ...     with_write = held.upgrade()
/// ...     held.mode
/// ('read', True)
/// 'write'
/// >>> held = invoice.write().acquire()   # without a block: release it yourself
/// >>> held.release()
#[pyclass(frozen, module = "lockspan", weakref)]
pub(crate) struct Hold {
    record: Py<Record>,
    write: bool,
    time: Option<Duration>,
    state: Mutex<State>,
    lost: Mutex<Option<Py<LostEvent>>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Hold {
    pub(crate) fn new(record: Py<Record>, write: bool, time: Option<Duration>) -> Self {
        let state = Mutex::new(State::Idle);
        Self { record, write, time, state, lost: Mutex::new(None) }
    }

    fn address(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }

    /// Acquires it if that needs no waiting; otherwise returns what to wait for.
    #[inline]
    fn begin(
        &self,
        py: Python<'_>,
        blocks: bool,
    ) -> PyResult<Option<Boxed<Result<Grip, LockError>>>> {
        let record = self.record.get();
        let me = if blocks { Holder::current(py)? } else { Holder::current_task(py)? };
        let mut state = lock(&self.state);
        if let Some(said) = in_use(&state) {
            drop(state);
            return Err(PyRuntimeError::new_err(said));
        }
        match record.begin(self.write, self.time) {
            First::Held(grip) => {
                *state = State::Held(grip);
                drop(state);
                record.holders.enter(self.address(), me);
                Ok(None)
            }
            First::Failed(why) => {
                drop(state);
                Err(errors::lock(py, &why))
            }
            First::Pending(mut pending) => {
                let (is_write, inner) = (self.write, &record.inner);
                let asks = Acquire { record: inner, is_write, blocks };
                *state = State::Busy;
                drop(state);
                let Some(own) = record.holders.own(&me, &asks) else {
                    if !blocks {
                        record.holders.wait(self.address(), me, self.write);
                    }
                    return Ok(Some(pending));
                };
                // It may have been granted between the poll and the question.
                let again = pending.as_mut().poll(&mut Context::from_waker(Waker::noop()));
                match again {
                    Poll::Ready(done) => self.end(py, done).map(|()| None),
                    Poll::Pending => {
                        drop(pending);
                        *lock(&self.state) = State::Idle;
                        Err(errors::waits_for_itself(py, &record.shown(), own))
                    }
                }
            }
        }
    }

    /// The wait has ended.
    fn end(&self, py: Python<'_>, done: Result<Grip, LockError>) -> PyResult<()> {
        // A task that waited is no longer one that waits.
        self.record.get().holders.leave(self.address());
        match done {
            Ok(grip) => self.take_over(py, grip),
            Err(why) => {
                *lock(&self.state) = State::Idle;
                Err(errors::lock(py, &why))
            }
        }
    }

    /// Holds the record by this grip from now on.
    pub(crate) fn take_over(&self, py: Python<'_>, grip: Grip) -> PyResult<()> {
        let me = match Holder::current(py) {
            Ok(me) => me,
            Err(why) => {
                *lock(&self.state) = State::Idle;
                drop(grip);
                return Err(why);
            }
        };
        *lock(&self.state) = State::Held(grip);
        self.record.get().holders.enter(self.address(), me);
        Ok(())
    }

    fn acquire_here(&self, py: Python<'_>) -> PyResult<()> {
        let Some(pending) = self.begin(py, true)? else { return Ok(()) };
        match park::wait(py, pending) {
            Ok(done) => self.end(py, done),
            Err(interrupt) => {
                *lock(&self.state) = State::Idle;
                Err(interrupt)
            }
        }
    }

    /// Lets go of the record. Returns whether it was held.
    pub(crate) fn let_go(&self) -> bool {
        let mut state = lock(&self.state);
        match &mut *state {
            State::Held(_) => {}
            State::Upgrading { is_released: true, .. } => return false,
            State::Upgrading { is_released, by } => {
                *is_released = true;
                // Before the upgrade can end, which leaves for good.
                self.record.get().holders.released(self.address(), by.take());
                return true;
            }
            _ => return false,
        }
        let held = std::mem::take(&mut *state);
        drop(state);
        self.left();
        drop(held);
        true
    }

    /// The record is not held any more. A watcher has a share in the guard, and drops it here.
    fn left(&self) {
        self.record.get().holders.leave(self.address());
        let event = lock(&self.lost).take();
        if let Some(event) = event {
            event.get().released();
        }
    }

    /// The task that waited was cancelled, perhaps just after the record was granted.
    pub(crate) fn abandon(&self) {
        let mut state = lock(&self.state);
        if matches!(*state, State::Waiting(_)) {
            let waiting = std::mem::take(&mut *state);
            drop(state);
            self.record.get().holders.leave(self.address());
            drop(waiting);
        } else {
            drop(state);
            self.let_go();
        }
    }

    /// An upgrade was ended by a signal or a cancelled task. The guard went with the wait: the
    /// record is released.
    fn upgrade_ended(&self) {
        *lock(&self.state) = State::Idle;
        self.left();
    }

    /// Refuses an upgrade that would wait for another hold of the same thread or task.
    fn refuse_own_readers(&self, py: Python<'_>, blocks: bool) -> PyResult<()> {
        let me = if blocks { Holder::current(py)? } else { Holder::current_task(py)? };
        let record = self.record.get();
        match record.holders.own_reader(&me, blocks, self.address()) {
            None => Ok(()),
            Some(own) => Err(errors::upgrade_waits_for_itself(py, &record.shown(), own)),
        }
    }

    /// The grip, for a question.
    fn with_grip<T>(&self, py: Python<'_>, ask: impl FnOnce(&Grip) -> T) -> PyResult<T> {
        let answer = match &*lock(&self.state) {
            State::Held(grip) => Some(ask(grip)),
            _ => None,
        };
        answer.ok_or_else(|| errors::not_held(py, NOT_HELD))
    }

    /// The grip, taken out to be changed. The state is `Upgrading` then.
    fn take_grip(&self, py: Python<'_>, by: Option<Holder>) -> PyResult<Grip> {
        // A watcher would keep the guard as it is.
        if let Some(event) = &*lock(&self.lost) {
            event.get().pause();
        }
        let mut state = lock(&self.state);
        match std::mem::replace(&mut *state, State::Upgrading { is_released: false, by }) {
            State::Held(grip) => match grip.unwatched() {
                Ok(grip) => Ok(grip),
                Err(grip) => {
                    *state = State::Held(grip);
                    drop(state);
                    Err(PyRuntimeError::new_err("another thread waits for held.lost just now"))
                }
            },
            other => {
                *state = other;
                drop(state);
                Err(errors::not_held(py, NOT_HELD))
            }
        }
    }

    /// The grip is back, as it is now. Returns whether it is still wanted; if not, it is released.
    fn give_back(&self, grip: Grip) -> bool {
        let mut state = lock(&self.state);
        if matches!(*state, State::Upgrading { is_released: true, .. }) {
            *state = State::Idle;
            drop(state);
            self.left();
            drop(grip);
            return false;
        }
        *state = State::Held(grip);
        drop(state);
        if let Some(event) = &*lock(&self.lost) {
            event.get().resume(self.watch());
        }
        true
    }

    /// A future that is ready when the record is lost.
    pub(crate) fn watch(&self) -> Option<Boxed<()>> {
        let mut state = lock(&self.state);
        match std::mem::take(&mut *state) {
            State::Held(grip) => {
                let (grip, lost) = grip.watched();
                *state = State::Held(grip);
                Some(lost)
            }
            other => {
                *state = other;
                None
            }
        }
    }

    fn upgraded(&self, py: Python<'_>, (grip, why): (Grip, Option<LockError>)) -> PyResult<()> {
        if !self.give_back(grip) {
            return Err(errors::not_held(py, RELEASED));
        }
        why.map_or(Ok(()), |why| Err(errors::lock(py, &why)))
    }
}

const NOT_HELD: &str = "the record is not held: enter the hold with `with`, or call acquire()";

const RELEASED: &str = "the hold was released during its upgrade";

/// Why a hold in this state can't be acquired.
fn in_use(state: &State) -> Option<&'static str> {
    match state {
        State::Idle => None,
        State::Held(_) => {
            Some("this hold holds its record already: call write() or read() once for each block")
        }
        State::Waiting(_) | State::Busy | State::Upgrading { .. } => Some(
            "this hold is in use by another thread or task: call write() or read() once for each",
        ),
    }
}

#[pymethods]
impl Hold {
    fn __enter__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, Self>> {
        slf.get().acquire_here(slf.py())?;
        Ok(slf.clone())
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

    fn __aenter__<'py>(slf: &Bound<'py, Self>) -> Bound<'py, Self> {
        slf.clone()
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

    /// Acquires; the result is this hold. A cached record does not suspend the task.
    fn __await__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        let py = slf.py();
        match slf.get().begin(py, false)? {
            None => Ok(Bound::new(py, Ready(slf.clone().unbind()))?.into_any()),
            Some(pending) => {
                *lock(&slf.get().state) = State::Waiting(pending);
                Ok(Bound::new(py, Wait::new(Pending::Hold(slf.clone().unbind())))?.into_any())
            }
        }
    }

    /// Acquires the record and returns this hold. Blocks the thread: in a coroutine ``await`` the
    /// hold instead. Release it with :meth:`release`.
    fn acquire<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, Self>> {
        Self::__enter__(slf)
    }

    /// Releases the record. It stays cached in this process until another one wants it.
    ///
    /// If another thread or task upgrades this hold just now, the record is held for reading until
    /// the upgrade ends, which raises :class:`lockspan.NotHeld` there.
    ///
    /// Raises :class:`lockspan.NotHeld` if it is not held.
    fn release(&self, py: Python<'_>) -> PyResult<()> {
        match self.let_go() {
            true => Ok(()),
            false => Err(errors::not_held(py, NOT_HELD)),
        }
    }

    /// Whether this hold holds its record, lost or not.
    #[getter]
    fn held(&self) -> bool {
        matches!(*lock(&self.state), State::Held(_))
    }

    /// The record.
    #[getter]
    fn record(&self, py: Python<'_>) -> Py<Record> {
        self.record.clone_ref(py)
    }

    /// ``"read"`` or ``"write"``.
    #[getter]
    fn mode(&self) -> &'static str {
        let write = match &*lock(&self.state) {
            State::Held(grip) => grip.is_write(),
            _ => self.write,
        };
        if write { "write" } else { "read" }
    }

    /// The fencing token: a number that grows with every write grant of the record.
    ///
    /// The data store remembers the highest token that a *write* hold has shown it, and refuses
    /// lower ones. Show the token with the first read under a write hold and with every write.
    #[getter]
    fn token(&self, py: Python<'_>) -> PyResult<i64> {
        self.with_grip(py, Grip::token)
    }

    /// Whether the lease stands now. Sends no message. ``True`` is never too late.
    fn is_valid(&self) -> bool {
        matches!(&*lock(&self.state), State::Held(grip) if grip.is_valid())
    }

    /// Raises :class:`lockspan.Lost` if the lease has expired.
    fn check(&self, py: Python<'_>) -> PyResult<()> {
        match self.with_grip(py, Grip::is_valid)? {
            true => Ok(()),
            false => Err(errors::lock(py, &LockError::Lost)),
        }
    }

    /// For how many seconds the lease stands if the server is not heard from again.
    #[getter]
    fn valid_for(&self, py: Python<'_>) -> PyResult<f64> {
        self.with_grip(py, |grip| grip.valid_for().as_secs_f64())
    }

    /// The event of this hold being lost: see :class:`LostEvent`.
    #[getter]
    fn lost(&self, py: Python<'_>) -> PyResult<Py<LostEvent>> {
        if let Some(event) = &*lock(&self.lost) {
            return Ok(event.clone_ref(py));
        }
        let Some(watch) = self.watch() else { return Err(errors::not_held(py, NOT_HELD)) };
        let event = Py::new(py, LostEvent::new(watch))?;
        *lock(&self.lost) = Some(event.clone_ref(py));
        Ok(event)
    }

    /// Turns a read into a write. Nobody else writes in between. Blocks the thread: in a coroutine
    /// use :meth:`aupgrade`. Returns this hold.
    ///
    /// Raises :class:`lockspan.UpgradeConflict` if another reader already waits to upgrade the same
    /// record, :class:`lockspan.Timeout` if the time is over, and :class:`lockspan.Deadlock` if the
    /// same thread or task holds the record a second time. The record is still held for reading
    /// then. An upgrade that a signal or a cancelled task ends releases the record.
    #[pyo3(signature = (timeout=None))]
    fn upgrade<'py>(
        slf: &Bound<'py, Self>,
        timeout: Option<Seconds>,
    ) -> PyResult<Bound<'py, Self>> {
        let (py, this) = (slf.py(), slf.get());
        this.refuse_own_readers(py, true)?;
        let grip = this.take_grip(py, None)?;
        match park::wait(py, grip.upgraded(timeout.map(|time| time.0))) {
            Ok(done) => this.upgraded(py, done)?,
            Err(interrupt) => {
                this.upgrade_ended();
                return Err(interrupt);
            }
        }
        Ok(slf.clone())
    }

    /// :meth:`upgrade` for coroutines.
    #[pyo3(signature = (timeout=None))]
    fn aupgrade<'py>(
        slf: &Bound<'py, Self>,
        timeout: Option<Seconds>,
    ) -> PyResult<Bound<'py, Task>> {
        let (begun, hold) = (slf.clone().unbind(), slf.clone().unbind());
        let abandoned = slf.clone().unbind();
        let task = Task::new(
            move |py| {
                begun.get().refuse_own_readers(py, false)?;
                let by = Holder::current_task(py)?;
                let grip = begun.get().take_grip(py, Some(by))?;
                Ok(grip.upgraded(timeout.map(|time| time.0)))
            },
            move |py, done| {
                hold.get().upgraded(py, done)?;
                Ok(hold.clone_ref(py).into_any())
            },
            move || abandoned.get().upgrade_ended(),
        );
        Bound::new(slf.py(), task)
    }

    /// Turns a write into a read. Never waits, and nobody writes in between. Returns this hold.
    fn downgrade<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, Self>> {
        let (py, this) = (slf.py(), slf.get());
        let grip = this.take_grip(py, None)?;
        this.give_back(grip.downgraded());
        Ok(slf.clone())
    }

    /// This hold belongs to no thread or task from now on: another one may release it, and the one
    /// that acquired it may wait for the record. Returns this hold.
    fn detach<'py>(slf: &Bound<'py, Self>) -> Bound<'py, Self> {
        let this = slf.get();
        this.record.get().holders.leave(this.address());
        slf.clone()
    }

    /// For the package: polls the wait of a task. `key` is what the bell rings for.
    fn _poll(&self, py: Python<'_>, bell: &Bound<'_, Bell>, key: u64) -> PyResult<bool> {
        let mut state = lock(&self.state);
        let State::Waiting(pending) = &mut *state else {
            return Err(PyRuntimeError::new_err("this hold does not wait in a task"));
        };
        let Poll::Ready(done) = bell.get().poll(key, pending) else { return Ok(false) };
        drop(state);
        self.end(py, done)?;
        Ok(true)
    }

    /// For the package: what awaiting it returns.
    fn _result<'py>(slf: &Bound<'py, Self>) -> Bound<'py, Self> {
        slf.clone()
    }

    fn __repr__(&self) -> String {
        let state = match &*lock(&self.state) {
            State::Idle => "not held",
            State::Waiting(_) | State::Busy | State::Upgrading { .. } => "waiting",
            State::Held(grip) if grip.is_valid() => "held",
            State::Held(_) => "lost",
        };
        format!("<lockspan.Hold {} for {}, {state}>", self.record.get().shown(), self.mode())
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        self.let_go();
    }
}

impl fmt::Debug for Hold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.__repr__())
    }
}

/// The rest of an await that did not have to wait: it returns the hold at once.
///
/// It has `__iter__` because `asyncio.wait_for` and `gather` of Python 3.9 to 3.11 use
/// `yield from hold.__await__()`.
#[pyclass(frozen, module = "lockspan._lockspan")]
#[derive(Debug)]
pub(crate) struct Ready(Py<Hold>);

#[pymethods]
impl Ready {
    fn __iter__<'py>(slf: &Bound<'py, Self>) -> Bound<'py, Self> {
        slf.clone()
    }

    fn __next__(&self, py: Python<'_>) -> PyResult<Option<Py<PyAny>>> {
        Err(PyStopIteration::new_err(self.0.clone_ref(py)))
    }
}

/// Awaiting it returns `None` at once.
#[pyclass(frozen, module = "lockspan._lockspan")]
#[derive(Debug)]
pub(crate) struct Done;

#[pymethods]
impl Done {
    fn __await__<'py>(slf: &Bound<'py, Self>) -> Bound<'py, Self> {
        slf.clone()
    }

    fn __iter__<'py>(slf: &Bound<'py, Self>) -> Bound<'py, Self> {
        slf.clone()
    }

    fn __next__(&self) -> Option<Py<PyAny>> {
        None
    }
}

pub(crate) fn done(py: Python<'_>) -> PyResult<Bound<'_, Done>> {
    static DONE: PyOnceLock<Py<Done>> = PyOnceLock::new();
    Ok(DONE.get_or_try_init(py, || Py::new(py, Done))?.bind(py).clone())
}
