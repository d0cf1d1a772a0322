//! `liblockspan_pthread.so`: replaces the `pthread_rwlock_*` functions of an unchanged program with
//! Lockspan's fair read-write lock.
//!
//! ```text
//! LD_PRELOAD=/path/to/liblockspan_pthread.so program …
//! ```
//!
//! This crate has no Rust interface. It is for x86-64 Linux with glibc; elsewhere the library is
//! empty.
//!
//! # What differs from glibc
//!
//! All of it is left open or recommended by POSIX.
//!
//! - A reader that comes after a waiting writer waits, whatever the lock's `kind_np`, unless its
//!   thread reads already. By default, glibc lets it pass the writer.
//! - More errors are reported: `EDEADLK` for a write lock by a thread that reads, `EPERM` for an
//!   unlock by a thread that does not hold the lock, `EBUSY` for destroying a lock in use, `EINVAL`
//!   for a lock that is null or destroyed.
//! - Threads of higher priority are not served first.
//! - A process that is killed while it *waits* for a process-shared lock keeps its place in the
//!   queue. If it was a writer, nobody gets the lock after it; glibc goes on with the other waiters
//!   and still lets readers in beside readers. A process that is killed while it *holds* the lock
//!   leaves it held in both.
//! - The child of a fork may release a process-shared read lock that the forking thread held, as
//!   with glibc. Any other unlock by a thread that does not hold the lock is `EPERM`.
//! - In the child of a `fork`, threads of the parent that waited for a private lock are forgotten.
//!   If handlers of `pthread_atfork` hold the lock for writing over the fork, the child can go on
//!   using it; glibc's lock waits for threads that do not exist there. What other threads *held*
//!   stays locked in both.
//!
//! # What is promised
//!
//! Once loaded, the library does not call `malloc`, no call acts on a cancellation
//! (`pthread_cancel`), and `errno` is not changed.
#![cfg(all(
    target_os = "linux",
    target_env = "gnu",
    target_arch = "x86_64",
    not(lockspan_shuttle),
    any(test, not(lockspan_loom))
))]
#![cfg_attr(
    lockspan_loom,
    allow(
        dead_code,
        clippy::reversed_empty_ranges,
        reason = "a model has no clocks and no spinning"
    )
)]

// | file | job |
// |---|---|
// | `calls` | the C functions: checks of pointers and times, then one line each |
// | `attr` | the `pthread_rwlockattr_*` functions |
// | `serve` | what each call means and returns |
// | `abi` | where our lock lies inside a `pthread_rwlock_t` |
// | `held` | what the calling thread holds |
// | `shared` | the lock for `PTHREAD_PROCESS_SHARED`; the private one is `lockspan-thread`'s |
//
// Other systems would need another `abi`: the place of the kind in a static initializer differs.

mod clock;
#[cfg(not(lockspan_loom))]
mod errno;
#[cfg(not(lockspan_loom))]
mod held;
mod shared;
#[cfg(not(lockspan_loom))]
mod sync;
#[cfg(lockspan_loom)]
#[path = "sync_loom.rs"]
mod sync;

// A test program must not serve its own calls, and models have no C memory.
#[cfg(not(any(test, lockspan_loom)))]
mod abi;
#[cfg(not(any(test, lockspan_loom)))]
mod attr;
#[cfg(not(any(test, lockspan_loom)))]
mod calls;
#[cfg(not(any(test, lockspan_loom)))]
mod serve;
