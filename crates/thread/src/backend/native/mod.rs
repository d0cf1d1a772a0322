//! Linux on x86-64: restartable sequences and membarrier.
//!
//! # Restartable sequences
//!
//! Each thread shares 32 bytes, its *area*, with the kernel: the number of the processor that it
//! runs on, and a pointer to the description of a section: first instruction, length, where to go
//! instead. If the thread is preempted, moved or gets a signal while it is inside, the kernel lets
//! it go on at that last place. So a section that ends with one store either made that store before
//! the interruption, or will not make it.
//!
//! - Nothing but the pointer is ever written. It need not be cleared: the kernel does so when it
//!   finds the thread elsewhere. A library that has run a section must therefore never be unloaded:
//!   see [`resident`].
//! - Sections call nothing and touch no stack. Each copy that the compiler makes of one has a
//!   description of its own, because all labels are local.
//! - Single steps of a debugger restart a section forever: each step is an interruption. Set a
//!   break point behind it (`docs/revocable.md` says so to users).
//!
//! # Membarrier
//!
//! The barrier for sections makes every running thread of the process leave the section that it is
//! in, and is a full barrier in each of them; threads that do not run leave theirs before they run
//! again. An error of the barrier is never ignored: after one nobody knows which stores are still
//! to come. If the kernel lacks memory at that moment (ENOMEM), the call is made again; any other
//! error stops the process with a message. That happens only if the program forbids itself the
//! call, by seccomp, after it has begun to use it: `docs/revocable.md` says so to users.

#[macro_use]
mod section;

mod area;
mod counter;
mod cpus;
mod membarrier;
mod resident;
mod selftest;
#[cfg(feature = "signals")]
pub(crate) mod signal;
mod stack;
mod words;

use std::cell::Cell;

use super::Backend;
use crate::sync::machine::{AtomicU32, Ordering};

pub(crate) use self::area::Area;
pub(crate) use self::cpus::possible_cpus;
pub(crate) use self::membarrier::{barrier, stop_sections, stop_sections_on};
pub(crate) use self::words::Compared;

/// Makes `backend` ready for this process, or says what is missing.
pub(crate) fn try_backend(backend: Backend) -> Result<String, String> {
    match backend {
        Backend::Rseq => {
            count_forks()?;
            resident::stay()?;
            membarrier::register_for_sections()?;
            let how = area::find()?;
            selftest::run()?;
            Ok(how.to_owned())
        }
        #[cfg(feature = "signals")]
        Backend::Signal => {
            count_forks()?;
            resident::stay()?;
            signal::prepare()
        }
        Backend::Membarrier => {
            count_forks()?;
            membarrier::register()?;
            Ok("membarrier is registered".to_owned())
        }
        Backend::Plain => {
            count_forks()?;
            Ok("an ordinary lock needs nothing".to_owned())
        }
    }
}

static FORKS: AtomicU32 = AtomicU32::new(0);

/// How many forks lie between this process and the one that first chose a backend.
pub(crate) fn forks() -> u32 {
    FORKS.load(Ordering::Relaxed)
}

thread_local! {
    static SURVIVOR: Cell<Option<&'static AtomicU32>> = const { Cell::new(None) };
}

/// Sets `word` to the number of forks, now and, by the calling thread, in the child of each fork.
/// So a word that lags behind belongs to a thread that is not in this process.
pub(crate) fn follow_forks(word: &'static AtomicU32) {
    SURVIVOR.set(Some(word));
    word.store(forks(), Ordering::Relaxed);
}

/// The calling thread gives its word up: it is not the one that survives for it any more.
pub(crate) fn forget_forks() {
    SURVIVOR.set(None);
}

/// Lets every child count itself, from its first moment on. Twice does no harm, and waiting for
/// another thread could: after a fork it may not be there.
fn count_forks() -> Result<(), String> {
    static COUNTS: AtomicU32 = AtomicU32::new(0);
    extern "C" fn in_the_child() {
        let forks = FORKS.fetch_add(1, Ordering::Relaxed) + 1;
        if let Some(word) = SURVIVOR.get() {
            word.store(forks, Ordering::Relaxed);
        }
    }
    if COUNTS.load(Ordering::Relaxed) != 0 {
        return Ok(());
    }
    // SAFETY: the handler only writes atomics, which is allowed in a child at any moment.
    match unsafe { libc::pthread_atfork(None, None, Some(in_the_child)) } {
        0 => {
            COUNTS.store(1, Ordering::Relaxed);
            Ok(())
        }
        error => Err(format!("pthread_atfork: {}", std::io::Error::from_raw_os_error(error))),
    }
}

/// `backend` is the one that counts.
pub(super) fn adopt(backend: Backend) {
    if backend == Backend::Rseq {
        area::publish();
    }
}
