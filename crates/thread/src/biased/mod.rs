//! A mutex that is nearly free for the thread that used it last.
//!
//! # When to use it
//!
//! Use it when nearly every access to some data is by one thread, which must lock it all the same
//! because others come now and then: the state of a worker that is seldom inspected, a cache that
//! moves from thread to thread. The lock is *biased* towards that thread, which locks it with plain
//! stores instead of an atomic read-modify-write.
//!
//! Another thread that comes revokes the bias, which costs it some microseconds. If that happens
//! again and again, the mutex becomes an ordinary [`fair`](crate::fair) lock. For data that many
//! threads use at once, split it ([`percpu`](crate::percpu)) or use the fair lock from the start.
//!
//! ```
//! use lockspan_thread::biased::Mutex;
//!
//! static SEEN: Mutex<Vec<u32>> = Mutex::new(Vec::new());
//! for n in 0..100 {
//!     SEEN.lock().push(n);
//! }
//! // Another thread may come at any time.
//! let count = std::thread::spawn(|| SEEN.lock().len()).join().unwrap();
//! assert_eq!(count, 100);
//! ```
//!
//! # What is promised
//!
//! - The mutex and its guards are those of [`lock_api`]. Guards are not `Send`; they may be dropped
//!   in any order.
//! - A panic under a guard releases the lock; there is no poisoning.
//! - The mutex is not re-entrant. A thread that locks a mutex that it holds panics where that is
//!   detected, and deadlocks where it is not. A `try_` call returns `None`.
//! - A thread that revokes the bias waits for at most one critical section of its owner. Threads
//!   behind it wait in the queue of the fair lock. `try_lock` does not wait.
//! - A guard that is leaked (`mem::forget`) leaves the lock held, even if the mutex is moved.
//!
//! # When a thread gets the bias
//!
//! When it has locked the mutex 8 times in a row, nobody else did in between, and nobody waits.
//! Each revocation multiplies that number by eight, up to 4096: about as many uses as it takes to
//! earn back the cost of a revocation. So a mutex that threads pass to each other becomes an
//! ordinary one. Whatever threads do, it is never much slower than twice the better of the two
//! kinds.
//!
//! A revoking thread spins a little and then sleeps for 20 µs to 1 ms at a time, until the owner
//! has left. The owner does not look for revoking threads when it unlocks: that would cost it time
//! on every unlock.
//!
//! Where the kernel has no barrier for this (see [`backend`]), no mutex is ever biased.
//!
//! # Limits
//!
//! - A thread holds at most eight locks by their bias at once; further ones it takes as fair locks.
//!   A leaked guard counts forever.
//! - Signal handlers must not use any of this.
//! - The first use of such a mutex in the process determines the [`backend`], which takes some
//!   milliseconds.
//!
//! # Fork
//!
//! In the child of a fork, a mutex that no other thread held or was locking at that moment works as
//! before. One that another thread held stays held, as with any mutex. Threads in the queue of the
//! fair lock are forgotten, as [`fair`](crate::fair#fork) says. But a thread that was revoking the
//! bias holds the fair lock meanwhile, and does not exist in the child to release it. So holding
//! such a mutex across a fork, as handlers of `pthread_atfork` do, is safe only if no other thread
//! wants it at that moment.

#[cfg(not(lockspan_loom))]
mod api;
mod core;
mod fences;
mod history;
#[cfg(all(test, lockspan_loom))]
mod loom;
mod ord;
mod record;
#[cfg(all(test, not(any(lockspan_loom, lockspan_shuttle))))]
mod tests;
#[cfg(not(lockspan_loom))]
mod thread;

#[cfg(not(lockspan_loom))]
pub use self::api::{Hold, MutexExt, RawMutex};
pub use crate::backend::{Backend, Choice, backend};

/// A biased mutex around its data. See the [module](self).
#[cfg(not(lockspan_loom))]
pub type Mutex<T> = lock_api::Mutex<RawMutex, T>;

/// Guard of a [`Mutex`].
#[cfg(not(lockspan_loom))]
pub type MutexGuard<'a, T> = lock_api::MutexGuard<'a, RawMutex, T>;

/// Guard of a [`Mutex`], narrowed to a part of its data.
#[cfg(not(lockspan_loom))]
pub type MappedMutexGuard<'a, T> = lock_api::MappedMutexGuard<'a, RawMutex, T>;
