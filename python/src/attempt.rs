//! An acquire that does not wait for holders.

use std::sync::{Mutex, MutexGuard, PoisonError};

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;

use crate::errors;
use crate::grip::Grip;
use crate::hold::{Done, Hold, done};
use crate::holders::Holder;
use crate::park;
use crate::record::Record;
use crate::task::Task;
use crate::wait::{Pending, Wait};

/// What :meth:`Record.try_write` and :meth:`Record.try_read` return. ``with`` and ``async with``
/// give a :class:`Hold`, or ``None`` if the record is in use.
///
/// >>> import lockspan
/// >>> page = lockspan.connect("memory:doc-attempt").record("page", 1)
/// >>> with page.try_read() as held:
/// ...     held.mode if held else "in use"
/// 'read'
#[pyclass(frozen, module = "lockspan")]
#[derive(Debug)]
pub(crate) struct Attempt {
    record: Py<Record>,
    write: bool,
    /// The block that it was entered for, with what to release at its end.
    block: Mutex<Option<Block>>,
}

/// What a block has got: `None` if the record was in use, or is not decided yet.
type Block = Option<Py<Hold>>;

impl Attempt {
    pub(crate) fn new(record: Py<Record>, write: bool) -> Self {
        Self { record, write, block: Mutex::new(None) }
    }

    fn address(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }

    /// No task waits for the outcome any more.
    fn waits_no_more(&self) {
        self.record.get().holders.leave(self.address());
    }

    fn lock(&self) -> MutexGuard<'_, Option<Block>> {
        self.block.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A block begins. Only one at a time: each has something to release.
    fn enter(&self) -> PyResult<()> {
        let mut block = self.lock();
        if block.is_some() {
            drop(block);
            let said = "this attempt is in use already: call try_write() or try_read() once for \
                        each block";
            return Err(PyRuntimeError::new_err(said));
        }
        *block = Some(None);
        Ok(())
    }

    /// What the block has got, or the failure with which it ends before it has begun.
    fn entered(&self, py: Python<'_>, got: PyResult<Block>) -> PyResult<Block> {
        *self.lock() = got.as_ref().ok().map(|hold| hold.as_ref().map(|hold| hold.clone_ref(py)));
        got
    }

    /// The block has ended.
    fn leave(&self) {
        let block = self.lock().take();
        if let Some(hold) = block.flatten() {
            hold.get().let_go();
        }
    }

    /// A hold of what was granted.
    fn hold_of(&self, py: Python<'_>, grip: Option<Grip>) -> PyResult<Option<Py<Hold>>> {
        let Some(grip) = grip else { return Ok(None) };
        let hold = Py::new(py, Hold::new(self.record.clone_ref(py), self.write, None))?;
        hold.get().take_over(py, grip)?;
        Ok(Some(hold))
    }

    fn task(slf: &Bound<'_, Self>, is_block: bool) -> Task {
        let (begun, this) = (slf.clone().unbind(), slf.clone().unbind());
        let abandoned = slf.clone().unbind();
        Task::new(
            move |py| {
                let (begun, me) = (begun.get(), Holder::current_task(py)?);
                if is_block {
                    begun.enter()?;
                }
                let record = begun.record.get();
                record.holders.wait(begun.address(), me, begun.write);
                Ok(record.attempt(begun.write))
            },
            move |py, got| {
                this.get().waits_no_more();
                let got = got.map_err(|why| errors::lock(py, &why));
                let hold = got.and_then(|got| this.get().hold_of(py, got));
                let hold = if is_block { this.get().entered(py, hold)? } else { hold? };
                Ok(hold.map_or_else(|| py.None(), Py::into_any))
            },
            move || {
                abandoned.get().waits_no_more();
                if is_block {
                    abandoned.get().leave();
                }
            },
        )
    }
}

#[pymethods]
impl Attempt {
    fn __enter__(&self, py: Python<'_>) -> PyResult<Option<Py<Hold>>> {
        self.enter()?;
        let got = self.acquire(py);
        self.entered(py, got)
    }

    #[pyo3(signature = (_kind, _value, _traceback, /))]
    fn __exit__(
        &self,
        _kind: &Bound<'_, PyAny>,
        _value: &Bound<'_, PyAny>,
        _traceback: &Bound<'_, PyAny>,
    ) -> bool {
        self.leave();
        false
    }

    fn __aenter__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, Task>> {
        Bound::new(slf.py(), Self::task(slf, true))
    }

    #[pyo3(signature = (_kind, _value, _traceback, /))]
    fn __aexit__<'py>(
        &self,
        _kind: &Bound<'py, PyAny>,
        _value: &Bound<'py, PyAny>,
        _traceback: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, Done>> {
        self.__exit__(_kind, _value, _traceback);
        done(_kind.py())
    }

    fn __await__(slf: &Bound<'_, Self>) -> PyResult<Wait> {
        Ok(Wait::new(Pending::Task(Py::new(slf.py(), Self::task(slf, false))?)))
    }

    /// Acquires the record, or returns ``None`` if it is in use. Blocks the thread for a few round
    /// trips at most: in a coroutine ``await`` this instead.
    fn acquire(&self, py: Python<'_>) -> PyResult<Option<Py<Hold>>> {
        let got = park::wait(py, self.record.get().attempt(self.write))?;
        self.hold_of(py, got.map_err(|why| errors::lock(py, &why))?)
    }
}
