//! How a waiting thread sleeps and is woken: the bottom layer of Lockspan's locks.
//!
//! This crate is for those who write locks. Programs use the locks of `lockspan-thread`.
//!
//! A waiter owns a [`Spot`]: a 32-bit word, and a way to wake the thread. The lock gives the word
//! its meaning. This crate promises *compare, then sleep*:
//!
//! 1. [`Spot::sleep`] returns once the word differs from the value that the sleeper expected.
//! 2. A thread that changes the word takes an [`Alarm`] **before** the change and rings it after.
//!    The spot may be gone by then; the alarm does not need it.
//!
//! ```
//! use std::sync::atomic::Ordering;
//! use lockspan_park::Spot;
//!
//! let spot = Spot::new(0);
//! std::thread::scope(|scope| {
//!     scope.spawn(|| {
//!         let alarm = spot.alarm();
//!         spot.word().store(1, Ordering::Release);
//!         alarm.ring();
//!     });
//!     spot.sleep(0, None); // while the word is 0
//! });
//! assert_eq!(spot.word().load(Ordering::Acquire), 1);
//! ```
//!
//! | used for | a waiter sleeps by |
//! |---|---|
//! | Linux | a private futex on the word |
//! | other systems, and the model checkers loom and shuttle | thread parking |
//! | futures ([`Alarm::Task`]) | returning `Pending` |
//!
//! The modules: [`fork`] lets a library notice that it runs in a forked copy of the process, `exec`
//! marks inherited file descriptors, [`privilege`] tells whether environment variables can be
//! trusted, [`sync`] has the atomics, which are those of a model checker in model runs.
//!
//! No function here is a cancellation point of POSIX threads. None waits for another thread to
//! initialize something: in the child of a fork that thread does not exist.

mod cancel;
mod deadline;
#[cfg(unix)]
pub mod exec;
pub mod fork;
pub mod privilege;
pub mod sync;

#[cfg(all(target_os = "linux", not(any(lockspan_loom, lockspan_shuttle))))]
#[path = "futex.rs"]
mod body;
#[cfg(not(all(target_os = "linux", not(any(lockspan_loom, lockspan_shuttle)))))]
#[path = "parked.rs"]
mod body;

use std::task::Waker;

use crate::sync::AtomicU32;

pub use crate::cancel::{nap, stop, uncancelled};
pub use crate::deadline::{Deadline, monotonic_nanos};

/// Where one thread sleeps: a word, and the way to wake the thread that made the spot. The
/// front page of this [crate] has an example.
#[derive(Debug)]
pub struct Spot {
    word: AtomicU32,
    sleeper: body::Sleeper,
}

/// What woke a sleeper.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Woken {
    /// The word no longer has the expected value.
    Changed,
    /// The deadline passed; the word may have changed as well.
    TimedOut,
}

impl Spot {
    /// A spot for the calling thread, with `value` in its word.
    #[must_use]
    #[inline]
    pub fn new(value: u32) -> Self {
        Self { word: AtomicU32::new(value), sleeper: body::Sleeper::current() }
    }

    /// The word; its meaning belongs to the lock.
    #[inline]
    pub fn word(&self) -> &AtomicU32 {
        &self.word
    }

    /// Sleeps while the word is `expected`, until `deadline` at the latest.
    ///
    /// Only the thread that made the spot may call this: another thread would not be woken.
    pub fn sleep(&self, expected: u32, deadline: Option<Deadline>) -> Woken {
        self.sleeper.sleep(&self.word, expected, deadline)
    }

    /// The alarm that wakes the thread of this spot, even after the spot was dropped.
    #[inline]
    pub fn alarm(&self) -> Alarm {
        Alarm::Thread(ThreadAlarm(self.sleeper.alarm(&self.word)))
    }
}

/// Wakes one waiter. It stays usable after the waiter's memory is gone.
#[derive(Debug)]
pub enum Alarm {
    /// Wakes a thread that sleeps on a [`Spot`].
    Thread(ThreadAlarm),
    /// Wakes a task.
    Task(Waker),
}

/// The [`Alarm`] of a thread.
#[derive(Debug)]
pub struct ThreadAlarm(body::Bell);

impl Alarm {
    /// Wakes the waiter. A spurious ring is harmless: a sleeper checks its word again.
    #[inline]
    pub fn ring(self) {
        match self {
            Self::Thread(alarm) => alarm.0.ring(),
            Self::Task(waker) => waker.wake(),
        }
    }
}

#[cfg(all(test, not(any(lockspan_loom, lockspan_shuttle))))]
mod tests;

#[cfg(all(test, lockspan_loom))]
mod loom;

/// The examples of this crate's README, which run with the documentation tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
