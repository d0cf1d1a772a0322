//! Wakes the tasks of one event loop, without the interpreter.
//!
//! A waker writes to a file descriptor that the event loop listens to. So the thread that looks
//! after the connection never waits for the interpreter, which a long computation may keep for
//! longer than a lease; `loop.call_soon_threadsafe` would need it.

use std::future::Future;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use lockspan_park::fork::ProcessMutex;
use pyo3::exceptions::PyOSError;
use pyo3::prelude::*;
use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd};

use crate::exit;

/// What wakers share with the bell of their event loop.
#[derive(Debug)]
struct Rope {
    /// Open as long as any waker lives, so that nobody writes to a number that was given anew.
    descriptor: OwnedFd,
    /// What was woken and not yet collected. Threads that never attach lock it.
    rung: ProcessMutex<Vec<u64>>,
    /// The event loop has been told.
    is_told: AtomicBool,
}

/// The bell of an event loop; `lockspan._asyncio` listens to it.
#[pyclass(frozen, module = "lockspan._lockspan")]
#[derive(Debug)]
pub(crate) struct Bell(Arc<Rope>);

struct Pull {
    rope: Arc<Rope>,
    key: u64,
}

impl Rope {
    fn pull(&self, key: u64) {
        // In a child of a fork nobody waits, and the descriptor is the parent's too.
        let Some(mut rung) = self.rung.lock() else { return };
        rung.push(key);
        drop(rung);
        if !self.is_told.swap(true, Ordering::AcqRel) {
            // It cannot be full: the loop reads all of it before it is told again.
            let _ = rustix::io::write(&self.descriptor, &1_u64.to_ne_bytes());
        }
    }
}

impl Wake for Pull {
    fn wake(self: Arc<Self>) {
        self.rope.pull(self.key);
    }
}

impl Bell {
    /// Polls for the one who waits under this key.
    pub(crate) fn poll<F: Future + ?Sized>(
        &self,
        key: u64,
        future: &mut Pin<Box<F>>,
    ) -> Poll<F::Output> {
        let waker = Waker::from(Arc::new(Pull { rope: Arc::clone(&self.0), key }));
        future.as_mut().poll(&mut Context::from_waker(&waker))
    }
}

#[pymethods]
impl Bell {
    #[new]
    fn new() -> PyResult<Self> {
        let descriptor = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)
            .map_err(|why| PyOSError::new_err((why.raw_os_error(), why.to_string())))?;
        let (rung, is_told) = (ProcessMutex::default(), AtomicBool::new(false));
        Ok(Self(Arc::new(Rope { descriptor, rung, is_told })))
    }

    fn fileno(&self) -> i32 {
        self.0.descriptor.as_raw_fd()
    }

    /// Wakes the one who waits under this key.
    fn ring(&self, key: u64) {
        self.0.pull(key);
    }

    /// Blocks the thread until a key was woken. For a thread of the package.
    fn wait(&self, py: Python<'_>) {
        let rope = Arc::clone(&self.0);
        py.detach(|| {
            let mut listened = [PollFd::new(&rope.descriptor, PollFlags::IN)];
            // An interrupted call returns early, which the caller does not mind.
            let _ = rustix::event::poll(&mut listened, None);
            exit::stay_out();
        });
    }

    /// The keys that were woken since the last call.
    fn collect(&self) -> Vec<u64> {
        if self.0.rung.lock().is_none() {
            return Vec::new();
        }
        let mut count = [0; 8];
        let _ = rustix::io::read(&self.0.descriptor, &mut count);
        // From here on another write is needed; what came before is in the list already.
        self.0.is_told.store(false, Ordering::Release);
        self.0.rung.lock().map(|mut rung| std::mem::take(&mut *rung)).unwrap_or_default()
    }
}
