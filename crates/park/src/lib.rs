//! How a waiting thread sleeps and is woken: the bottom layer of Lockspan's locks.
//!
//! A waiter owns a [`Spot`]: one 32-bit word, and what it takes to wake its owner. The lock above
//! gives the word its meaning; this crate only promises *compare, then sleep*:
//!
//! 1. [`Spot::sleep`] returns once the word differs from the value that the sleeper expected.
//! 2. Whoever changes the word away from that value takes an [`Alarm`] **before** the change and
//!    rings it after; the spot may be gone by then, the alarm does not need it.
//!
//! | body          | used for                           | sleeps by                    |
//! |---------------|------------------------------------|------------------------------|
//! | `futex.rs`    | Linux                              | a private futex on the word  |
//! | `parked.rs`   | every other OS, loom, shuttle      | thread parking               |
//! | `Alarm::Task` | futures, wherever the program runs | returning `Pending`          |
//!
//! Beside that, [`fork`] tells the layers above that they run in a copy of the process, `exec` is
//! for those that run on after their parent, and [`privilege`] says whether the environment may be
//! believed.
//!
//! No function here is a cancellation point of POSIX threads (`cancel.rs`), and none waits for
//! another thread to find something out: in a child of a fork ([`fork`]) that thread is gone.

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

/// Where one thread sleeps: a word, and the way to wake the thread that made the spot.
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
    /// Only the thread that made the spot may call this: another one would sleep unheard.
    pub fn sleep(&self, expected: u32, deadline: Option<Deadline>) -> Woken {
        self.sleeper.sleep(&self.word, expected, deadline)
    }

    /// Wakes the spot's thread, even after the spot has gone.
    #[inline]
    pub fn alarm(&self) -> Alarm {
        Alarm::Thread(ThreadAlarm(self.sleeper.alarm(&self.word)))
    }
}

/// Wakes one waiter. Outlives the waiter's memory.
#[derive(Debug)]
pub enum Alarm {
    /// Wakes a thread that sleeps on a [`Spot`].
    Thread(ThreadAlarm),
    /// Wakes a task.
    Task(Waker),
}

/// The thread's side of an [`Alarm`].
#[derive(Debug)]
pub struct ThreadAlarm(body::Bell);

impl Alarm {
    /// Wakes the waiter. A spurious ring is harmless: sleepers look at their word again.
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
