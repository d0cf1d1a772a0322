//! The event of a hold that was lost.
//!
//! One future of the client is shared by all who wait: it is polled with a waker that wakes them
//! all. It has a share in the guard, so it is dropped before the guard is released or changed.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Instant;

use lockspan_park::fork::ProcessMutex;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;

use crate::convert::Seconds;
use crate::park::{self, Boxed};
use crate::task::Task;
use crate::wait::{Pending, Wait};

enum State {
    Watching(Boxed<()>),
    /// The guard is being upgraded.
    Paused,
    Lost,
    Released,
}

/// Wakes all who wait, each under a number. Threads that never attach lock it; a child of a fork
/// has nobody to wake.
#[derive(Default)]
struct Fan(ProcessMutex<Vec<(u64, Waker)>>);

impl Fan {
    fn set(&self, number: u64, waker: &Waker) {
        let Some(mut wakers) = self.0.lock() else { return };
        match wakers.iter_mut().find(|(known, _)| *known == number) {
            Some((_, known)) => known.clone_from(waker),
            None => wakers.push((number, waker.clone())),
        }
    }
}

impl Wake for Fan {
    fn wake(self: Arc<Self>) {
        let Some(mut waiting) = self.0.lock() else { return };
        let wakers = std::mem::take(&mut *waiting);
        drop(waiting);
        wakers.into_iter().for_each(|(_, waker)| waker.wake());
    }
}

/// What the event and all who wait for it share.
struct Watch {
    state: Mutex<State>,
    fan: Arc<Fan>,
}

impl Watch {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether it is lost; pending while it is neither lost nor released.
    fn poll(&self) -> Poll<bool> {
        let mut state = self.lock();
        if let State::Watching(future) = &mut *state {
            let waker = Waker::from(Arc::clone(&self.fan));
            if future.as_mut().poll(&mut Context::from_waker(&waker)).is_ready() {
                *state = State::Lost;
                drop(state);
                Arc::clone(&self.fan).wake();
                return Poll::Ready(true);
            }
        }
        match *state {
            State::Watching(_) | State::Paused => Poll::Pending,
            State::Lost => Poll::Ready(true),
            State::Released => Poll::Ready(false),
        }
    }

    /// Ends or changes what is watched; returns what was.
    fn change(&self, to: State) {
        let mut state = self.lock();
        if matches!(*state, State::Watching(_) | State::Paused) {
            let was = std::mem::replace(&mut *state, to);
            drop(state);
            drop(was);
            Arc::clone(&self.fan).wake();
        }
    }
}

/// One who waits.
struct LostWait {
    watch: Arc<Watch>,
    number: u64,
}

impl LostWait {
    fn new(watch: &Arc<Watch>) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        Self { watch: Arc::clone(watch), number }
    }
}

impl Future for LostWait {
    type Output = bool;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<bool> {
        self.watch.fan.set(self.number, context.waker());
        self.watch.poll()
    }
}

impl Drop for LostWait {
    fn drop(&mut self) {
        if let Some(mut wakers) = self.watch.fan.0.lock() {
            wakers.retain(|(number, _)| *number != self.number);
        }
    }
}

/// The event of a hold being lost: its lease has expired, or the server has given the record to
/// another process.
///
/// | to | write |
/// |---|---|
/// | ask | ``held.lost.is_set()`` |
/// | wait in a thread that watches | ``held.lost.wait(timeout=None)`` |
/// | wait in a task | ``await held.lost`` |
/// | be called | ``held.lost.add_callback(stop_the_work)`` |
///
/// ``wait`` and ``await`` return ``True`` if the record is lost, and ``False`` if it was released
/// (or, for ``wait``, if the time is over).
///
/// >>> import lockspan
/// >>> invoice = lockspan.connect("memory:doc-lost").record("invoice", 42)
/// >>> with invoice.write() as held:
/// ...     held.lost.is_set(), held.lost.wait(timeout=0.01)
/// (False, False)
#[pyclass(frozen, module = "lockspan")]
pub(crate) struct LostEvent(Arc<Watch>);

impl LostEvent {
    pub(crate) fn new(lost: Boxed<()>) -> Self {
        let state = Mutex::new(State::Watching(lost));
        Self(Arc::new(Watch { state, fan: Arc::default() }))
    }

    /// The hold is released: it can't be lost any more.
    pub(crate) fn released(&self) {
        // What was lost stays lost.
        let _ = self.0.poll();
        self.0.change(State::Released);
    }

    /// The guard is about to change: nobody may have a share in it.
    pub(crate) fn pause(&self) {
        self.0.change(State::Paused);
    }

    /// The guard has changed; this future watches it.
    pub(crate) fn resume(&self, lost: Option<Boxed<()>>) {
        self.0.change(lost.map_or(State::Released, State::Watching));
    }
}

#[pymethods]
impl LostEvent {
    /// Whether the record is lost.
    fn is_set(&self) -> bool {
        self.0.poll() == Poll::Ready(true)
    }

    /// Blocks the thread until the record is lost or released, or the time is over. Returns whether
    /// it is lost.
    #[pyo3(signature = (timeout=None))]
    fn wait(&self, py: Python<'_>, timeout: Option<Seconds>) -> PyResult<bool> {
        let deadline = timeout.and_then(|time| Instant::now().checked_add(time.0));
        let done = park::wait_until(py, Box::pin(LostWait::new(&self.0)), deadline)?;
        Ok(done.unwrap_or_else(|| self.is_set()))
    }

    fn __await__(slf: &Bound<'_, Self>) -> PyResult<Wait> {
        Ok(Wait::new(Pending::Task(Self::_task(slf)?.unbind())))
    }

    /// Calls ``callback()`` once when the record is lost, and never if it is released before. It is
    /// called by one thread of this package: it must be short, and in an event loop's program use
    /// ``loop.call_soon_threadsafe`` in it.
    fn add_callback(slf: &Bound<'_, Self>, callback: Bound<'_, PyAny>) -> PyResult<()> {
        static ADD: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
        let py = slf.py();
        let add = ADD.get_or_try_init(py, || {
            PyResult::Ok(py.import("lockspan._callbacks")?.getattr("add")?.unbind())
        })?;
        add.bind(py).call1((Self::_task(slf)?, callback)).map(drop)
    }

    /// For the package: something to poll.
    fn _task<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, Task>> {
        let wait = LostWait::new(&slf.get().0);
        let begin = move |_: Python<'_>| -> PyResult<Boxed<bool>> { Ok(Box::pin(wait)) };
        let finish = |py: Python<'_>, is_lost: bool| {
            Ok(is_lost.into_pyobject(py)?.to_owned().into_any().unbind())
        };
        Bound::new(slf.py(), Task::new(begin, finish, || {}))
    }

    fn __repr__(&self) -> String {
        format!("<lockspan.LostEvent, set: {}>", self.is_set())
    }
}
