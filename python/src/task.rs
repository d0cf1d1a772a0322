//! Something that a task awaits: a future of the client, and what becomes of its result.

use std::fmt;
use std::sync::{Mutex, PoisonError};
use std::task::Poll;

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;

use crate::bell::Bell;
use crate::park::Boxed;
use crate::wait::{Pending, Wait};

/// What is left to do with a result, attached to the interpreter.
type Finish = Box<dyn FnOnce(Python<'_>) -> PyResult<Py<PyAny>> + Send>;
/// What to do when the task was cancelled, perhaps after the result was there.
type Cancel = Box<dyn FnOnce() + Send>;
/// What begins it.
type Begin = Box<dyn FnOnce(Python<'_>) -> PyResult<Boxed<Finish>> + Send>;

struct Inner {
    begin: Option<Begin>,
    future: Option<Boxed<Finish>>,
    cancel: Option<Cancel>,
    result: Option<Py<PyAny>>,
}

/// An awaitable of this package. It begins when it is awaited.
#[pyclass(frozen, module = "lockspan._lockspan")]
pub(crate) struct Task(Mutex<Inner>);

impl Task {
    /// `cancel` is called only after `begin` has returned a future, and not if `finish` fails.
    pub(crate) fn new<T: Send + 'static>(
        begin: impl FnOnce(Python<'_>) -> PyResult<Boxed<T>> + Send + 'static,
        finish: impl FnOnce(Python<'_>, T) -> PyResult<Py<PyAny>> + Send + 'static,
        cancel: impl FnOnce() + Send + 'static,
    ) -> Self {
        let begin: Begin = Box::new(move |py| {
            let future = begin(py)?;
            Ok(Box::pin(async move {
                let done = future.await;
                let finish: Finish = Box::new(move |py| finish(py, done));
                finish
            }))
        });
        let cancel: Option<Cancel> = Some(Box::new(cancel));
        Self(Mutex::new(Inner { begin: Some(begin), future: None, cancel, result: None }))
    }

    /// The task that waited was cancelled.
    pub(crate) fn abandon(&self) {
        let mut inner = self.lock();
        let (future, result) = (inner.future.take(), inner.result.take());
        let cancel = inner.cancel.take().filter(|_| future.is_some() || result.is_some());
        drop(inner);
        drop(future);
        cancel.into_iter().for_each(|cancel| cancel());
        drop(result);
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[pymethods]
impl Task {
    fn __await__(slf: &Bound<'_, Self>) -> Wait {
        Wait::new(Pending::Task(slf.clone().unbind()))
    }

    fn _poll(&self, py: Python<'_>, bell: &Bound<'_, Bell>, key: u64) -> PyResult<bool> {
        let begin = self.lock().begin.take();
        if let Some(begin) = begin {
            let future = begin(py)?;
            self.lock().future = Some(future);
        }
        let mut inner = self.lock();
        let Some(future) = &mut inner.future else {
            return Err(PyRuntimeError::new_err("it was awaited already"));
        };
        let Poll::Ready(finish) = bell.get().poll(key, future) else { return Ok(false) };
        inner.future = None;
        let cancel = inner.cancel.take();
        drop(inner);
        let result = finish(py)?;
        let mut inner = self.lock();
        (inner.result, inner.cancel) = (Some(result), cancel);
        Ok(true)
    }

    fn _result(&self, py: Python<'_>) -> Py<PyAny> {
        let mut inner = self.lock();
        let (result, cancel) = (inner.result.take(), inner.cancel.take());
        drop(inner);
        drop(cancel);
        result.unwrap_or_else(|| py.None())
    }
}

impl fmt::Debug for Task {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Task")
    }
}
