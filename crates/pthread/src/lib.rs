//! `liblockspan_pthread.so`: the `pthread_rwlock_*` calls of an unchanged program, served by
//! Lockspan.
//!
//! ```text
//! LD_PRELOAD=/path/to/liblockspan_pthread.so program …
//! ```
//!
//! | file      | what it knows                                                             |
//! |-----------|---------------------------------------------------------------------------|
//! | `calls`   | the C functions: null and time checks, then one line each                 |
//! | `attr`    | the `pthread_rwlockattr_*` functions                                      |
//! | `serve`   | what each call means and returns                                          |
//! | `abi`     | where our lock lies inside a `pthread_rwlock_t`                           |
//! | `held`    | what the calling thread holds                                             |
//! | `shared`  | the lock for `PTHREAD_PROCESS_SHARED`; the private one is `lockspan-thread`'s |
//!
//! What a program may see that glibc does not do, all of it left open or recommended by POSIX:
//!
//! - a reader that comes after a waiting writer waits, whatever the lock's `kind_np`, unless its
//!   thread reads already; glibc's default lets it pass;
//! - `EDEADLK` for a write lock by a thread that reads, `EPERM` for an unlock by a thread that does
//!   not hold the lock, `EBUSY` for destroying a lock in use, `EINVAL` for a lock that is null or
//!   destroyed;
//! - threads of higher priority are not served first;
//! - a process that is killed while it *waits* for a process-shared lock leaves its place in line
//!   behind. If it was a writer, nobody gets the lock after it: after the present writer has left,
//!   where glibc goes on with the others, and beside readers, where glibc still lets readers in. A
//!   process that is killed while it *holds* the lock leaves it held, here as there;
//! - the child of a thread that read a process-shared lock when it forked may leave that hold, as
//!   with glibc; any other unlock of what a thread does not hold is `EPERM`;
//! - in the child of a `fork`, threads of the parent that waited for a private lock are forgotten.
//!   With handlers of `pthread_atfork` that hold the lock for writing over the fork the child can
//!   go on using it; glibc's lock waits there for threads that do not exist. What other threads
//!   *held* stays locked in both.
//!
//! Once loaded it calls no `malloc`, no call acts on a cancellation (`pthread_cancel`), and it
//! leaves `errno` alone.
//! Only x86-64 Linux with glibc: elsewhere the library is empty, as the place of the kind in a
//! static initialiser is another.
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
