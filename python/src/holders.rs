//! Which threads and tasks hold a record, so that one of them that would wait for itself is
//! refused.
//!
//! | a waiter | is refused if a holder is |
//! |---|---|
//! | a thread that blocks | the same thread, or any task of an event loop of this thread |
//! | a task | the same task, or this thread before its event loop was started |
//!
//! Only a waiter whose first poll was pending looks here. A `with` block that a coroutine keeps
//! across an await counts as its thread's if nothing of this package was awaited in its event loop
//! before.

use std::cell::{Cell, RefCell};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pyo3::exceptions::PyException;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyWeakrefReference};

/// Who holds or waits: a thread, and its task if an event loop runs in it.
#[derive(Debug)]
pub(crate) struct Holder {
    thread: u64,
    /// Weak: a task that has ended is nobody, even if another one has its address.
    task: Option<Py<PyWeakrefReference>>,
}

/// A number for each thread that is never used again.
fn thread_number() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    thread_local! {
        static MINE: Cell<u64> = const { Cell::new(0) };
    }
    MINE.with(|mine| {
        if mine.get() == 0 {
            mine.set(NEXT.fetch_add(1, Ordering::Relaxed));
        }
        mine.get()
    })
}

/// What asyncio knows about running loops and tasks.
struct Asyncio {
    running_loop: Py<PyAny>,
    current_task: Py<PyAny>,
    /// The running task of each loop, where asyncio keeps it in a dict: a look into it costs less
    /// than a call of `current_task`. Elsewhere it is empty.
    tasks: Py<PyDict>,
}

fn asyncio(py: Python<'_>) -> PyResult<&Asyncio> {
    static FUNCTIONS: PyOnceLock<Asyncio> = PyOnceLock::new();
    FUNCTIONS.get_or_try_init(py, || {
        let module = py.import("asyncio")?;
        let tasks = module.getattr("tasks")?.getattr("_current_tasks").ok();
        let tasks = tasks.and_then(|tasks| tasks.cast_into::<PyDict>().ok());
        Ok(Asyncio {
            running_loop: module.getattr("_get_running_loop")?.unbind(),
            current_task: module.getattr("current_task")?.unbind(),
            tasks: tasks.unwrap_or_else(|| PyDict::new(py)).unbind(),
        })
    })
}

/// The event loop that was last seen running in this thread. While it runs, its `_thread_id` is one
/// object; the next run has another one.
struct LastLoop {
    event_loop: Py<PyAny>,
    run: Option<Py<PyAny>>,
}

thread_local! {
    /// Only threads that have awaited something of this package have one. Asking for the running
    /// loop is a system call before Python 3.12, and blocks in plain threads need none.
    static LAST: RefCell<Option<LastLoop>> = const { RefCell::new(None) };
}

impl Holder {
    /// The calling thread, and its running task if it is one that awaits.
    #[inline]
    pub(crate) fn current(py: Python<'_>) -> PyResult<Self> {
        let awaits = LAST.with_borrow(Option::is_some);
        let task = if awaits { current_task(py)? } else { None };
        Ok(Self { thread: thread_number(), task })
    }

    /// The running task of a caller that awaits.
    #[inline]
    pub(crate) fn current_task(py: Python<'_>) -> PyResult<Self> {
        Ok(Self { thread: thread_number(), task: current_task(py)? })
    }

    fn is_in_task(&self) -> bool {
        self.task.is_some()
    }

    fn is_same_task(&self, other: &Self) -> bool {
        let (Some(mine), Some(theirs)) = (&self.task, &other.task) else { return false };
        // As long as a weak reference lives, asking for one of the same object returns it again.
        mine.is(theirs)
    }
}

fn current_task(py: Python<'_>) -> PyResult<Option<Py<PyWeakrefReference>>> {
    let asyncio = asyncio(py)?;
    let task = match task_of_last_loop(py, asyncio)? {
        Some(task) => task,
        None => {
            let event_loop = asyncio.running_loop.bind(py).call0()?;
            if event_loop.is_none() {
                // The loop has ended: blocks of this thread are cheap again.
                drop(LAST.take());
                return Ok(None);
            }
            let task = asyncio.current_task.bind(py).call1((&event_loop,))?;
            let run = run_of(&event_loop)?.map(Bound::unbind);
            drop(LAST.replace(Some(LastLoop { event_loop: event_loop.unbind(), run })));
            if task.is_none() {
                return Ok(None);
            }
            task
        }
    };
    weak(py, &task).map(Some)
}

/// The running task of the loop that was last seen, if that loop still runs. Loops do not nest: the
/// one that runs in this thread, and runs a task, runs the caller.
fn task_of_last_loop<'py>(
    py: Python<'py>,
    asyncio: &Asyncio,
) -> PyResult<Option<Bound<'py, PyAny>>> {
    let last = LAST.with_borrow(|last| {
        let LastLoop { event_loop, run } = last.as_ref()?;
        Some((event_loop.bind(py).clone(), run.as_ref()?.bind(py).clone()))
    });
    let Some((event_loop, run)) = last else { return Ok(None) };
    if !run_of(&event_loop)?.is_some_and(|now| now.is(&run)) {
        return Ok(None);
    }
    asyncio.tasks.bind(py).get_item(event_loop)
}

/// What tells one run of an event loop from the next; `None` if the loop has no such attribute or
/// does not run. Ctrl-C goes to the caller.
fn run_of<'py>(event_loop: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyAny>>> {
    let py = event_loop.py();
    match event_loop.getattr(intern!(py, "_thread_id")) {
        Ok(run) => Ok(if run.is_none() { None } else { Some(run) }),
        Err(why) if why.is_instance_of::<PyException>(py) => Ok(None),
        Err(why) => Err(why),
    }
}

/// A weak reference to a task. The last one is kept: as long as it lives, the same task gets it
/// again.
fn weak(py: Python<'_>, task: &Bound<'_, PyAny>) -> PyResult<Py<PyWeakrefReference>> {
    static LAST_TASK: Mutex<Option<Py<PyWeakrefReference>>> = Mutex::new(None);
    let weak = PyWeakrefReference::new(task)?.unbind();
    let mut last = LAST_TASK.lock().unwrap_or_else(PoisonError::into_inner);
    if !last.as_ref().is_some_and(|last| last.is(&weak)) {
        let before = last.replace(weak.clone_ref(py));
        drop(last);
        drop(before);
    }
    Ok(weak)
}

/// The holders of one record in one connection.
#[derive(Debug, Default)]
pub(crate) struct Holders(Mutex<Vec<(usize, Holder)>>);

impl Holders {
    fn lock(&self) -> MutexGuard<'_, Vec<(usize, Holder)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A hold, known by its address, belongs to this holder from now on.
    pub(crate) fn enter(&self, hold: usize, holder: Holder) {
        self.lock().push((hold, holder));
    }

    /// A hold has ended, or belongs to nobody in particular.
    pub(crate) fn leave(&self, hold: usize) {
        let mut holders = self.lock();
        if let Some(at) = holders.iter().rposition(|(known, _)| *known == hold) {
            let left = holders.swap_remove(at);
            drop(holders);
            drop(left);
        }
    }

    /// What holds the record and would have to wait for itself: `thread` or `task`.
    /// The hold at the address `except` does not count.
    pub(crate) fn is_own(
        &self,
        me: &Holder,
        blocks: bool,
        except: Option<usize>,
    ) -> Option<&'static str> {
        let holders = self.lock();
        let others = holders.iter().filter(|(hold, _)| Some(*hold) != except);
        let held = others.map(|(_, holder)| holder);
        for holder in held {
            if me.is_same_task(holder) {
                return Some("task");
            }
            if holder.thread == me.thread && (blocks || !holder.is_in_task()) {
                return Some(if holder.is_in_task() { "thread's event loop" } else { "thread" });
            }
        }
        None
    }
}

/// Shared by all handles of a record.
pub(crate) type SharedHolders = Arc<Holders>;
