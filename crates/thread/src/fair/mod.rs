//! A fair read-write lock for threads and async tasks: any number of readers or one writer, and a
//! stated bound on how long a waiter can be passed by others.
//!
//! # When to use it
//!
//! Use it when no thread may starve, and the throughput of a lock that lets threads starve is
//! wanted all the same.
//!
//! | type | choose it when |
//! |---|---|
//! | [`RwLock`] | in most cases: others may pass a waiter for at most 10 ms |
//! | [`StrictRwLock`] | nobody may ever pass a waiter; slow when threads outnumber processors |
//! | [`PolicyRwLock`] with [`Together`] | readers do input and output while they hold the lock |
//! | [`CheckedRwLock`] | tests: panics where a thread would deadlock with itself |
//!
//! If unbounded waits do no harm, `std::sync::RwLock` and `parking_lot` are smaller.
//!
//! ```
//! use lockspan_thread::fair::RwLock;
//!
//! let lock = RwLock::new(5);
//! {
//!     let (one, two) = (lock.read(), lock.read());
//!     assert_eq!(*one + *two, 10);
//! }
//! *lock.write() += 1;
//! assert_eq!(*lock.read(), 6);
//! ```
//!
//! The types are those of [`lock_api`], which also has upgradable, timed, mapped and `Arc` guards.
//! [`RwLockExt`] adds futures and recursive reads. Guards are `Send`. A panic under a guard
//! releases the lock; there is no poisoning. With the feature `serde` a lock is serialized and
//! deserialized as its data.
//!
//! # What is promised
//!
//! Readers and writers take turns (*phase-fair*): after a writer, all waiting readers come next,
//! then the next writer. Writers are served in the order in which they began to wait. An
//! upgradable read waits with the writers; an upgrade is served before everybody else.
//!
//! **[`Strict`]**: at most one writer's turn begins before a waiting reader, besides the one that
//! is under way. Once a writer waits, no further reader joins the readers inside. Between two
//! writers' turns at most one group of readers runs.
//!
//! **[`Bounded`]**, the policy of [`RwLock`]: a thread that arrives may pass the waiters until the
//! lock is *due*. That is 400 µs ([`QUANTUM_MICROS`]) after the last waiter's turn, or earlier if
//! many wait, and never later than the bound (10 ms by default) after the oldest waiter began to
//! wait. Then the next turn is a waiter's. The clock is read at every eighth pass, so up to seven
//! arrivals may pass after that moment, and up to seven more for each arrival that races with
//! another just then. While a writer waits, as many readers are let in together as there are
//! processors, and all of them once one has waited for the bound.
//!
//! A wait beyond the bound is the time that holders keep the lock, and the time that the operating
//! system takes to run a thread. If the operating system stops a thread in the middle of a
//! hand-over, the waiters behind it wait for that thread; arrivals can still take the lock.
//!
//! //! # Limits
//!
//! - At most 2^54 readers are inside (2^22 on 32-bit targets). Beyond that `try_read` returns
//!   `None`, a timed call waits until its time is over, a future waits, and `read` panics.
//! - A lock is not re-entrant. A thread that reads must not read again while a writer may wait: use
//!   [`RwLockExt::read_recursive`], which passes all waiters and can starve writers.
//! - The waker of a task runs in the thread that grants the lock. It may use the lock, but must not
//!   wait for anything that this thread holds. A panic of a waker is caught; a panic in the clock
//!   of a [`Policy`] during a hand-over aborts the process.
//!
//! # Fork
//!
//! The child of a fork has only the thread that forked. In the child:
//!
//! - What the forking thread held, it still holds and may release.
//! - What another thread held stays held until the child ends, as with any lock.
//! - Threads that waited for the lock are forgotten. Nothing on their stacks is touched.
//! - A future that waited is queued again when the child polls it.
//!
//! So the usual handlers of `pthread_atfork` work: lock for writing before the fork, unlock in the
//! parent and in the child, and the lock is free in the child. Handlers that lock for *reading* do
//! not: other readers may hold the lock in the child, and no thread there can release it.
//!
//! A thread must not fork in a signal handler that interrupted a call of this lock, unless the
//! child then calls `exec` or `_exit`. Forks are noticed on Linux; on other systems a child must
//! not touch a lock that another thread waited for.
//!
//! # Credits
//!
//! The idea of waiting threads that sleep and schedule each other is from the design note of an old
//! C library. `docs/failures.md` in the repository lists what goes wrong in that note, with the
//! tests that show that it does not happen here; `raw.rs` lists what differs on purpose.

mod alarms;
#[cfg(not(lockspan_loom))]
mod api;
mod bomb;
#[cfg(not(lockspan_loom))]
mod checked;
mod clock;
mod fork;
mod lists;
mod node;
mod ord;
mod policy;
mod probe;
mod raw;
mod schedule;
mod task;
mod wait;
mod word;

#[cfg(not(lockspan_loom))]
pub use self::api::{ReadAsync, RwLockExt, WriteAsync};
#[cfg(not(lockspan_loom))]
pub use self::checked::{OnThisThread, RawCheckedRwLock};
pub use self::policy::{Bounded, Policy, QUANTUM_MICROS, Strict, Together};
pub use self::raw::RawRwLock;

/// A fair read-write lock around its data, with the policy [`Bounded`]: a waiter is passed for at
/// most 10 ms. See the [module](self) for what is promised.
#[cfg(not(lockspan_loom))]
pub type RwLock<T> = PolicyRwLock<T, Bounded>;

/// A fair read-write lock whose waiters are never passed: the policy [`Strict`].
#[cfg(not(lockspan_loom))]
pub type StrictRwLock<T> = PolicyRwLock<T, Strict>;

/// A fair read-write lock with a [`Policy`] of your choice.
///
/// ```
/// use lockspan_thread::fair::{Bounded, PolicyRwLock};
///
/// // Waiters are passed for at most 1 ms.
/// let lock: PolicyRwLock<u32, Bounded<1_000>> = PolicyRwLock::new(5);
/// assert_eq!(*lock.read(), 5);
/// ```
#[cfg(not(lockspan_loom))]
pub type PolicyRwLock<T, P> = lock_api::RwLock<RawRwLock<P>, T>;

/// [`RwLock`] that panics where a thread would deadlock with itself. Its guards are not `Send`.
///
/// For tests and debugging: each call also updates a list of the locks that the thread holds.
///
/// ```should_panic
/// use lockspan_thread::fair::CheckedRwLock;
///
/// let lock = CheckedRwLock::new(5);
/// let _first = lock.read();
/// let _second = lock.write(); // panics: this thread reads already
/// ```
#[cfg(not(lockspan_loom))]
pub type CheckedRwLock<T> = lock_api::RwLock<RawCheckedRwLock<Bounded>, T>;

/// Guard of a read lock.
#[cfg(not(lockspan_loom))]
pub type RwLockReadGuard<'a, T, P = Bounded> = lock_api::RwLockReadGuard<'a, RawRwLock<P>, T>;

/// Guard of a write lock.
#[cfg(not(lockspan_loom))]
pub type RwLockWriteGuard<'a, T, P = Bounded> = lock_api::RwLockWriteGuard<'a, RawRwLock<P>, T>;

/// Guard of an upgradable read lock: it reads beside readers, and can become the writer.
#[cfg(not(lockspan_loom))]
pub type RwLockUpgradableReadGuard<'a, T, P = Bounded> =
    lock_api::RwLockUpgradableReadGuard<'a, RawRwLock<P>, T>;

#[cfg(all(test, lockspan_loom))]
mod loom;

#[cfg(all(test, lockspan_shuttle))]
mod shuttle;

#[cfg(all(test, not(any(lockspan_loom, lockspan_shuttle))))]
mod tests;

#[cfg(all(test, target_os = "linux", not(any(miri, lockspan_loom, lockspan_shuttle))))]
mod fork_tests;
