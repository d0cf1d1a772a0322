//! What the operating system gives to [`percpu`](crate::percpu) and
//! [`revocable`](crate::revocable), found out once.
//!
//! | backend      | needs                    | per-processor data | revocable locks               |
//! |--------------|--------------------------|--------------------|-------------------------------|
//! | `rseq`       | Linux 5.10, x86-64       | plain stores       | plain stores, nobody waits    |
//! | `signal`     | the same, and a feature  | a lock a part      | plain stores, nobody waits    |
//! | `membarrier` | Linux 4.14, x86-64       | a lock a part      | plain stores, a thief waits   |
//! | `plain`      | nothing                  | a lock a part      | a lock an operation           |
//!
//! On other systems and processors, and under Miri and in models, `plain` is the only one.
//!
//! The best one that works is taken when something first asks. `rseq` counts as working after a
//! self-test: a thread sits in a section while another sends the barrier, and the section must be
//! gone when the barrier returns; it sits in one again while another takes its processor, and that
//! one must be gone as well. A variable in the environment, `LOCKSPAN_REVOCABLE_BACKEND`, set to a
//! name of the table before that moment, rules out what stands above the named one. A program that
//! is setuid, setgid or has capabilities ignores it.
//!
//! `signal` is there with the feature `signals` alone, and chosen only if it is named: it takes a
//! signal of the process for itself. `native/signal/mod.rs` tells what that means.
//!
//! # Fork
//!
//! Registrations of the kernel are inherited. A child counts itself ([`forks`]), and what another
//! thread of the parent had latched counts as open in it: see [`Latch`].

mod latch;
#[cfg(all(
    target_os = "linux",
    target_arch = "x86_64",
    target_pointer_width = "64",
    not(any(miri, lockspan_loom, lockspan_shuttle))
))]
mod native;
#[cfg(not(all(
    target_os = "linux",
    target_arch = "x86_64",
    target_pointer_width = "64",
    not(any(miri, lockspan_loom, lockspan_shuttle))
)))]
#[path = "none.rs"]
mod native;
mod regions;
#[cfg(test)]
pub(crate) mod sabotage;
mod spares;
#[cfg(all(test, not(any(lockspan_loom, lockspan_shuttle))))]
mod tests;

use std::fmt;
use std::ptr;

use lockspan_park::uncancelled;

use crate::sync::machine::{AtomicPtr, Ordering};

pub(crate) use self::latch::Latch;
#[cfg(feature = "signals")]
pub(crate) use self::native::signal;
#[cfg(all(test, target_os = "linux", not(any(miri, lockspan_loom, lockspan_shuttle))))]
pub(crate) use self::native::try_backend;
pub(crate) use self::native::{
    Area, Compared, barrier, follow_forks, forget_forks, forks, possible_cpus, stop_sections,
    stop_sections_on,
};
pub(crate) use self::regions::{APART, Claim, ITEMS, LATCH, LENGTH, Outcome, Regions};
pub(crate) use self::spares::{Chained, Spares};

/// The variable that chooses a backend.
const VARIABLE: &str = "LOCKSPAN_REVOCABLE_BACKEND";

/// How a thread excludes others without atomic read-modify-writes, if it can. See [`backend`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Backend {
    /// An ordinary lock.
    Plain,
    /// Barriers that the kernel runs in other threads.
    Membarrier,
    /// Signals to owners, and such barriers. With the feature `signals`, and only if the
    /// environment names it.
    #[cfg(feature = "signals")]
    Signal,
    /// Restartable sequences, and barriers that abort them.
    Rseq,
}

impl Backend {
    /// The best one first.
    const ALL: &[Self] = &[
        Self::Rseq,
        #[cfg(feature = "signals")]
        Self::Signal,
        Self::Membarrier,
        Self::Plain,
    ];

    /// The name of the backend, as in the environment variable.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Plain => "plain",
            Self::Membarrier => "membarrier",
            #[cfg(feature = "signals")]
            Self::Signal => "signal",
            Self::Rseq => "rseq",
        }
    }

    /// Whether it is taken only by those who name it.
    fn must_be_named(self) -> bool {
        match self {
            #[cfg(feature = "signals")]
            Self::Signal => true,
            _ => false,
        }
    }
}

impl fmt::Display for Backend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The backend that this process uses, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice {
    backend: Backend,
    reason: String,
}

impl Choice {
    /// The backend.
    #[inline]
    #[must_use]
    pub fn backend(&self) -> Backend {
        self.backend
    }

    /// Why it was chosen, and why not a better one.
    #[must_use]
    pub fn reason(&self) -> &str {
        &self.reason
    }
}

impl fmt::Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.backend, self.reason)
    }
}

/// The backend that this process uses: what the operating system offers to
/// [`percpu`](crate::percpu), [`revocable`](crate::revocable) and [`biased`](crate::biased).
///
/// | backend | needs | per-CPU data | revocable locks |
/// |---|---|---|---|
/// | `rseq` | Linux 5.10, x86-64 | plain stores | plain stores, nobody waits |
/// | `signal` | the same, and the feature `signals` | a lock per part | as `rseq` |
/// | `membarrier` | Linux 4.14, x86-64 | a lock per part | plain stores, a thief waits |
/// | `plain` | nothing | a lock per part | a lock per operation |
///
/// The first call chooses the best one that passes a self-test. That takes some milliseconds and
/// starts a few threads: call it at the start of a program that must not be delayed later.
///
/// The environment variable `LOCKSPAN_REVOCABLE_BACKEND`, set to a name of the table, rules out the
/// backends above the named one. `signal` is used only if it is named like this. Programs that are
/// setuid, setgid or have capabilities ignore the variable.
///
/// ```
/// use lockspan_thread::revocable::{Backend, backend};
///
/// println!("{}", backend()); // for example: rseq: the self-test passed
/// assert!(backend().backend() >= Backend::Plain);
/// ```
///
/// # Global allocators
///
/// The first call allocates. A global allocator that uses `percpu` or `revocable` must not make
/// that call, nor make its parts inside an allocation: it would call itself without end. Let `main`
/// call this first, and let the allocator serve earlier requests by other means.
///
/// # Unloading
///
/// With `rseq` and `signal` a shared library that contains this code stays in memory, whatever
/// `dlclose` is told: threads that have used it need it as long as they live. If the loader cannot
/// promise that, the backend is not used. Where this crate is a shared library of its own
/// (`prefer-dynamic`), the libraries that call it contain inlined parts of it and must not be
/// unloaded either.
///
/// # Other processors
///
/// On processors other than x86-64 it is always [`Backend::Plain`]: the others need assembly that
/// was not tested there.
#[inline]
pub fn backend() -> &'static Choice {
    match chosen(CHOICE.load(Ordering::Acquire)) {
        Some(choice) => choice,
        None => first_choice(),
    }
}

/// Nobody waits for another one's choice: after a fork that one may not be there. Several may find
/// it out, and the first one's counts. The self-tests have a latch, which forks open.
static CHOICE: AtomicPtr<Choice> = AtomicPtr::new(ptr::null_mut());

#[inline]
fn chosen(choice: *mut Choice) -> Option<&'static Choice> {
    // SAFETY: null, or a choice that stays forever: `first_choice` leaks it.
    unsafe { choice.as_ref() }
}

#[cold]
fn first_choice() -> &'static Choice {
    let wish = lockspan_park::privilege::variable(VARIABLE);
    let wish = wish.as_ref().map(|wish| wish.to_string_lossy());
    // The self-tests join threads, which is a cancellation point.
    let choice = uncancelled(|| choose(wish.as_deref(), native::try_backend));
    let mine = Box::into_raw(Box::new(choice));
    let order = (Ordering::AcqRel, Ordering::Acquire);
    let theirs = CHOICE.compare_exchange(ptr::null_mut(), mine, order.0, order.1).err();
    if theirs.is_some() {
        // SAFETY: made above, and nobody else has seen it.
        drop(unsafe { Box::from_raw(mine) });
    }
    let choice = chosen(theirs.unwrap_or(mine)).expect("an exchange fails if there is one");
    native::adopt(choice.backend);
    choice
}

/// Tries the backends from the best on; `wish` rules out those above the one that it names.
fn choose(wish: Option<&str>, works: impl Fn(Backend) -> Result<String, String>) -> Choice {
    let mut reasons = Vec::new();
    let mut best = Backend::Rseq;
    if let Some(wish) = wish.filter(|wish| !wish.is_empty()) {
        match Backend::ALL.iter().find(|backend| backend.name() == wish) {
            Some(&backend) => {
                reasons.push(format!("{VARIABLE}={wish}"));
                best = backend;
            }
            None => {
                let names: Vec<_> = Backend::ALL.iter().map(|backend| backend.name()).collect();
                let names = names.join(", ");
                reasons.push(format!("{VARIABLE}={wish} is ignored: it is none of {names}"));
            }
        }
    }
    let may_be =
        |backend: &Backend| *backend <= best && (*backend == best || !backend.must_be_named());
    for backend in Backend::ALL.iter().copied().filter(may_be) {
        match works(backend) {
            Ok(how) => {
                reasons.push(how);
                return Choice { backend, reason: reasons.join("; ") };
            }
            Err(why_not) => reasons.push(format!("no {backend}: {why_not}")),
        }
    }
    Choice { backend: Backend::Plain, reason: reasons.join("; ") }
}
