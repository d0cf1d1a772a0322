//! The rest of an await, in the event loop that runs.

use std::fmt;
use std::sync::{Mutex, PoisonError};

use pyo3::exceptions::PyStopIteration;
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyTuple;

use crate::hold::Hold;
use crate::task::Task;

/// What is waited for.
pub(crate) enum Pending {
    Hold(Py<Hold>),
    Task(Py<Task>),
}

/// What `__await__` returns for something that is pending: the steps of `lockspan._asyncio.wait`.
///
/// Whatever ends the wait before it is decided, the queue is left: an exception or a signal between
/// two steps, the end of the event loop, or a caller that drops it before the first step.
#[pyclass(frozen, module = "lockspan._lockspan")]
pub(crate) struct Wait(Mutex<Inner>);

struct Inner {
    /// `None` when it is decided or abandoned.
    pending: Option<Pending>,
    /// The coroutine of `wait`, from the first step on.
    steps: Option<Py<PyAny>>,
}

impl Wait {
    pub(crate) fn new(pending: Pending) -> Self {
        Self(Mutex::new(Inner { pending: Some(pending), steps: None }))
    }

    /// Nothing of Python is called while it is locked, so a collection of garbage finds it free.
    fn lock(&self) -> std::sync::MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn steps<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        static WAIT: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
        let inner = self.lock();
        if let Some(steps) = &inner.steps {
            return Ok(steps.bind(py).clone());
        }
        let pending = match &inner.pending {
            Some(Pending::Hold(hold)) => hold.clone_ref(py).into_any(),
            Some(Pending::Task(task)) => task.clone_ref(py).into_any(),
            // As an exhausted iterator.
            None => py.None(),
        };
        drop(inner);
        if pending.is_none(py) {
            return Err(PyStopIteration::new_err(()));
        }
        let wait = WAIT.get_or_try_init(py, || {
            PyResult::Ok(py.import("lockspan._asyncio")?.getattr("wait")?.unbind())
        })?;
        let steps = wait.bind(py).call1((pending,))?.call_method0("__await__")?;
        self.lock().steps = Some(steps.clone().unbind());
        Ok(steps)
    }

    /// Goes on by one step.
    fn step<'py>(
        &self,
        py: Python<'py>,
        step: impl FnOnce(&Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let done = self.steps(py).and_then(|steps| step(&steps));
        if let Err(why) = &done {
            if why.is_instance_of::<PyStopIteration>(py) {
                drop(self.take());
            } else {
                self.abandon();
            }
        }
        done
    }

    fn take(&self) -> Inner {
        let mut inner = self.lock();
        Inner { pending: inner.pending.take(), steps: inner.steps.take() }
    }

    fn abandon(&self) {
        let ended = self.take();
        match &ended.pending {
            Some(Pending::Hold(hold)) => hold.get().abandon(),
            Some(Pending::Task(task)) => task.get().abandon(),
            None => {}
        }
    }
}

/// It has `__iter__` because `asyncio.wait_for` and `gather` of Python 3.9 to 3.11 use
/// `yield from hold.__await__()`.
#[pymethods]
impl Wait {
    fn __iter__<'py>(slf: &Bound<'py, Self>) -> Bound<'py, Self> {
        slf.clone()
    }

    fn __next__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.step(py, |steps| steps.call_method0("__next__"))
    }

    fn send<'py>(&self, value: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        self.step(value.py(), |steps| steps.call_method1("send", (value,)))
    }

    #[pyo3(signature = (*why))]
    fn throw<'py>(&self, why: &Bound<'py, PyTuple>) -> PyResult<Bound<'py, PyAny>> {
        self.step(why.py(), |steps| steps.call_method1("throw", why))
    }

    fn close(&self, py: Python<'_>) -> PyResult<()> {
        let steps = self.lock().steps.as_ref().map(|steps| steps.clone_ref(py));
        let closed = steps.map_or(Ok(()), |steps| steps.call_method0(py, "close").map(drop));
        self.abandon();
        closed
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        let Ok(inner) = self.0.try_lock() else { return Ok(()) };
        match &inner.pending {
            Some(Pending::Hold(hold)) => visit.call(hold)?,
            Some(Pending::Task(task)) => visit.call(task)?,
            None => {}
        }
        visit.call(&inner.steps)
    }

    fn __clear__(&self) {
        self.abandon();
    }
}

impl Drop for Wait {
    fn drop(&mut self) {
        self.abandon();
    }
}

impl fmt::Debug for Wait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Wait")
    }
}
