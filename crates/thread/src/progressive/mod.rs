//! Progressive locks: a holder moves on from state to state, and each state excludes more.
//!
//! | type | states | use it when |
//! |---|---|---|
//! | [`Lock`] | Read, Seek, Write, Atomic | readers sometimes find that they must write |
//! | [`UpgradeLock`] | Read, Atomic | readers change atomics, and must never be refused |
//! | [`ClaimLock`] | Read, Join, Claim, Atomic, Alone | many change at once, and agree first |
//!
//! ```
//! use lockspan_thread::progressive::base::{Lock, SeekGuard};
//!
//! let names = Lock::new(vec!["ann"]);
//! let seek = names.seek(); // reads beside readers, and is sure to become the writer
//! if !seek.contains(&"bob") {
//!     let mut write = SeekGuard::write(seek); // waits for the readers to leave
//!     write.push("bob");
//! }
//! assert_eq!(names.read().len(), 2);
//! ```
//!
//! Every state is a type of guard. Every transition consumes a guard and returns the next one, so a
//! transition that does not exist does not compile:
//!
//! ```compile_fail,E0599
//! use lockspan_thread::progressive::base::{Lock, ReadGuard};
//! let lock = Lock::new(1);
//! let _ = ReadGuard::write(lock.read()); // a reader cannot write; it can try to seek
//! ```
//!
//! # Waiting
//!
//! - All three wait in the same way: a thread spins a little, then sleeps in a queue. Others can
//!   pass the first in the queue for at most 200 µs.
//! - Every transition that can wait has a `try_` form, which never waits, and a `_timeout` form.
//!   Both return the guard as it was if they do not succeed. Three timed transitions take two steps
//!   and may end between them: [`claim::Unfinished`].
//! - The locks are not re-entrant: a thread that holds a guard and asks for another may deadlock
//!   with itself.
//! - Guards are `Send`. A panic under a guard releases it; there is no poisoning.
//! - There are no futures. For async tasks use [`fair::RwLock`](crate::fair::RwLock).
//!
//! # Fork
//!
//! In the child of a fork the forking thread still holds what it held, and what other threads held
//! stays held. If another thread waited for a lock at that moment, the child must not use that lock
//! at all, not even to release it.
//!
//! # More
//!
//! `docs/progressive.md` in the repository helps to choose and has a table of all transitions.
//!
//! The idea is from Willy Tarreau's progressive locks for C (plock), and from a note of his that
//! adds Join and Claim. His locks only spin, which is slow when threads outnumber processors; these
//! sleep. `docs/failures.md` lists seven ways in which the table of the note breaks its promises,
//! with the tests that show that they do not happen here.

pub mod base;
pub mod claim;
mod due;
mod guard;
mod line;
#[cfg(all(test, lockspan_loom))]
mod loom;
mod ord;
#[cfg(all(test, lockspan_shuttle))]
mod shuttle;
pub mod state;
mod turnstile;
pub mod upgrade;

pub use self::base::Lock;
pub use self::claim::ClaimLock;
pub use self::guard::{Guard, Locked};
pub use self::upgrade::UpgradeLock;

/// Transitions that do not exist, and states of other crates, do not compile.
///
/// ```compile_fail,E0599
/// use lockspan_thread::progressive::base::{Lock, SeekGuard};
/// let lock = Lock::new(1);
/// let _ = SeekGuard::join(lock.seek()); // Seek and Join do not mix
/// ```
/// ```compile_fail,E0599
/// use lockspan_thread::progressive::claim::{ClaimLock, ReadGuard};
/// let lock = ClaimLock::new(1);
/// let _ = ReadGuard::atomic(lock.read()); // a reader has to join and claim first
/// ```
/// ```compile_fail,E0599
/// use lockspan_thread::progressive::claim::{ClaimLock, ReadGuard};
/// let lock = ClaimLock::new(1);
/// let _ = ReadGuard::try_seek(lock.read()); // there is no Seek here
/// ```
/// ```compile_fail,E0599
/// use lockspan_thread::progressive::claim::ClaimLock;
/// let lock = ClaimLock::new(1);
/// let _ = lock.write(); // nor Write
/// ```
/// ```compile_fail,E0599
/// use lockspan_thread::progressive::upgrade::{AtomicGuard, ReadGuard, UpgradeLock};
/// let lock = UpgradeLock::new(1);
/// let _ = AtomicGuard::read(ReadGuard::atomic(lock.read())); // there is no way back
/// ```
/// ```compile_fail,E0596
/// use lockspan_thread::progressive::base::Lock;
/// let lock = Lock::new(1);
/// *lock.atomic() += 1; // beside others: the data has to be atomic itself
/// ```
/// ```compile_fail,E0382
/// use lockspan_thread::progressive::base::{Lock, SeekGuard};
/// let lock = Lock::new(1);
/// let seek = lock.seek();
/// let mut write = SeekGuard::write(seek);
/// *write = *seek; // the seek guard is gone
/// ```
/// ```compile_fail,E0277
/// use lockspan_thread::progressive::{base::RawLock, state::Holds};
/// struct Mine;
/// impl Holds<Mine> for RawLock {
///     fn leave(&self) {}
/// }
/// ```
#[cfg(doctest)]
struct DoesNotCompile;

/// The moment that lies `timeout` from now; a very long wait is thirty years.
fn until(timeout: std::time::Duration) -> std::time::Instant {
    const LONG: std::time::Duration = std::time::Duration::from_secs(1 << 30);
    std::time::Instant::now() + timeout.min(LONG)
}
