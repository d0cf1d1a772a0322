//! Which threads and tasks hold a record or wait for it, so that one of them that would wait for
//! itself is refused.
//!
//! | a waiter | is refused if |
//! |---|---|
//! | a thread that blocks | it, or its event loop, has the record; or a task of that loop waits |
//! | a task | it holds the record, or its thread did before the event loop was started |
//!
//! A task that waits may be granted the record before the thread, and could not run then. Only a
//! read beside waiting reads is not refused, where the server's next grant lets all of them in.
//!
//! What a callback of an event loop holds belongs to the loop: another callback may release it, so
//! tasks may wait for it.
//!
//! Only a waiter whose poll was pending looks here: a set at each such poll, for the record that it
//! waits for then. A task's set is entered where it waits, and where it holds; not at the records
//! that come later. A `with` block that a coroutine keeps
//! across an await counts as its thread's if nothing of this package was awaited in its event loop
//! before.

use std::cell::{Cell, RefCell};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use lockspan::Mode;
use pyo3::exceptions::PyException;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyWeakrefReference};

/// Who holds or waits: a thread, and what runs in it.
#[derive(Debug)]
pub(crate) struct Holder {
    thread: u64,
    runs: Runs,
}

/// What runs in a thread.
#[derive(Debug)]
enum Runs {
    /// No event loop, as far as is known.
    Thread,
    /// A callback of an event loop.
    Callback,
    /// A task. Weak: one that has ended is nobody, even if another one has its address.
    Task(Py<PyWeakrefReference>),
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
        let runs = if awaits { current(py)? } else { Runs::Thread };
        Ok(Self { thread: thread_number(), runs })
    }

    /// The running task of a caller that awaits.
    #[inline]
    pub(crate) fn current_task(py: Python<'_>) -> PyResult<Self> {
        Ok(Self { thread: thread_number(), runs: current(py)? })
    }

    /// The same once more.
    pub(crate) fn again(&self, py: Python<'_>) -> Self {
        let runs = match &self.runs {
            Runs::Thread => Runs::Thread,
            Runs::Callback => Runs::Callback,
            Runs::Task(task) => Runs::Task(task.clone_ref(py)),
        };
        Self { thread: self.thread, runs }
    }

    fn is_in_loop(&self) -> bool {
        !matches!(self.runs, Runs::Thread)
    }

    /// Whether it is the caller that would wait.
    fn own(&self, me: &Self, blocks: bool) -> Option<Own> {
        if me.is_same_task(self) {
            return Some(Own::Task);
        }
        let is_in_the_way = self.thread == me.thread && (blocks || !self.is_in_loop());
        is_in_the_way.then_some(if self.is_in_loop() { Own::Loop } else { Own::Thread })
    }

    fn is_same_task(&self, other: &Self) -> bool {
        let (Runs::Task(mine), Runs::Task(theirs)) = (&self.runs, &other.runs) else {
            return false;
        };
        // As long as a weak reference lives, asking for one of the same object returns it again.
        mine.is(theirs)
    }
}

fn current(py: Python<'_>) -> PyResult<Runs> {
    let asyncio = asyncio(py)?;
    let task = match task_of_last_loop(py, asyncio)? {
        Some(task) => task,
        None => {
            let event_loop = asyncio.running_loop.bind(py).call0()?;
            if event_loop.is_none() {
                // The loop has ended: blocks of this thread are cheap again.
                drop(LAST.take());
                return Ok(Runs::Thread);
            }
            let task = asyncio.current_task.bind(py).call1((&event_loop,))?;
            let run = run_of(&event_loop)?.map(Bound::unbind);
            drop(LAST.replace(Some(LastLoop { event_loop: event_loop.unbind(), run })));
            if task.is_none() {
                return Ok(Runs::Callback);
            }
            task
        }
    };
    weak(py, &task).map(Runs::Task)
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

/// What a waiter would wait for, if that is itself.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Own {
    Thread,
    Task,
    /// A task that runs in the same thread.
    Loop,
    /// A task of the same thread that waits for the record too.
    LoopWaits,
    /// A released hold, until its upgrade ends in a task of the same thread.
    Upgrade,
}

/// What an entry is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Holds,
    /// A task waits in this mode.
    Waits(Mode),
    /// It was released while this task upgrades it.
    Upgrades,
}

/// An acquire that would wait.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Acquire<'a> {
    pub(crate) record: &'a lockspan::Record,
    pub(crate) is_write: bool,
    pub(crate) blocks: bool,
}

#[derive(Debug)]
struct Entry {
    /// The address of the hold.
    hold: usize,
    holder: Holder,
    part: Part,
}

/// The holders of one record in one connection, and the tasks that wait for it.
#[derive(Debug, Default)]
pub(crate) struct Holders(Mutex<Vec<Entry>>);

impl Holders {
    fn lock(&self) -> MutexGuard<'_, Vec<Entry>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A hold, known by its address, belongs to this holder from now on.
    pub(crate) fn enter(&self, hold: usize, holder: Holder) {
        self.lock().push(Entry { hold, holder, part: Part::Holds });
    }

    /// A task waits for the record, to hold it by this hold; [`Self::leave`] ends it.
    pub(crate) fn wait(&self, hold: usize, holder: Holder, write: bool) {
        let part = Part::Waits(if write { Mode::Write } else { Mode::Read });
        self.lock().push(Entry { hold, holder, part });
    }

    /// A hold was released during its upgrade: until that ends, the record is held by whoever
    /// upgrades. A thread does nothing else meanwhile; a task is entered.
    pub(crate) fn released(&self, hold: usize, upgrader: Option<Holder>) {
        self.leave(hold);
        if let Some(holder) = upgrader {
            self.lock().push(Entry { hold, holder, part: Part::Upgrades });
        }
    }

    /// A hold or a wait has ended, or belongs to nobody in particular.
    pub(crate) fn leave(&self, hold: usize) {
        let mut holders = self.lock();
        if let Some(at) = holders.iter().rposition(|entry| entry.hold == hold) {
            let left = holders.swap_remove(at);
            drop(holders);
            drop(left);
        }
    }

    /// What of the caller, who would have to wait for the record, is in its own way.
    pub(crate) fn own(&self, me: &Holder, acquire: &Acquire<'_>) -> Option<Own> {
        let own = own(self.lock().iter(), me, acquire.blocks);
        if !matches!(own, Some(Own::LoopWaits)) || acquire.is_write {
            return own;
        }
        // Of tasks that wait to write, the line knows too.
        own.filter(|_| !acquire.record.is_granted_together())
    }

    /// The same for the upgrade of the hold at this address. It goes before writers that wait, but
    /// waits for readers, also for one that was granted its read and has not run since.
    pub(crate) fn own_reader(&self, me: &Holder, blocks: bool, hold: usize) -> Option<Own> {
        let is_reader =
            |entry: &&Entry| entry.hold != hold && entry.part != Part::Waits(Mode::Write);
        own(self.lock().iter().filter(is_reader), me, blocks)
    }
}

fn own<'a>(
    entries: impl Iterator<Item = &'a Entry> + Clone,
    me: &Holder,
    blocks: bool,
) -> Option<Own> {
    let waits = |entry: &&Entry| matches!(entry.part, Part::Waits(_));
    let mut holders = entries.clone().filter(|entry| !waits(entry));
    let holder = holders.find_map(|entry| {
        let own = entry.holder.own(me, blocks)?;
        Some(if entry.part == Part::Upgrades { Own::Upgrade } else { own })
    });
    let is_in_the_way = |entry: &Entry| blocks && entry.holder.thread == me.thread;
    holder.or_else(|| entries.filter(waits).any(is_in_the_way).then_some(Own::LoopWaits))
}

/// Shared by all handles of a record.
pub(crate) type SharedHolders = Arc<Holders>;
