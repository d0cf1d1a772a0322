//! Progressive locks: a holder moves on from state to state, each excluding a little more.
//!
//! | type | states | take it when |
//! |---|---|---|
//! | [`Lock`] | Read, Seek, Write, Atomic | readers now and then find something to write |
//! | [`UpgradeLock`] | Read, Atomic | readers change by atomics and must not be refused |
//! | [`ClaimLock`] | Read, Join, Claim, Atomic, Alone | many change at once, and agree first |
//!
//! They are three types because their states do not mix: a seeker that writes would look like the
//! beginning of a claim phase, and the other way round. Every state is a type of guard, every
//! transition consumes one and gives the next, and what has no transition does not compile:
//!
//! ```compile_fail,E0599
//! use lockspan_thread::progressive::base::{Lock, ReadGuard};
//! let lock = Lock::new(1);
//! let _ = ReadGuard::write(lock.read()); // a reader cannot write; it can try to seek
//! ```
//! ```compile_fail,E0599
//! use lockspan_thread::progressive::base::{Lock, SeekGuard};
//! let lock = Lock::new(1);
//! let _ = SeekGuard::join(lock.seek()); // Seek and Join do not mix
//! ```
//! ```compile_fail,E0599
//! use lockspan_thread::progressive::claim::{ClaimLock, ReadGuard};
//! let lock = ClaimLock::new(1);
//! let _ = ReadGuard::atomic(lock.read()); // a reader has to join and claim first
//! ```
//! ```compile_fail,E0599
//! use lockspan_thread::progressive::claim::{ClaimLock, ReadGuard};
//! let lock = ClaimLock::new(1);
//! let _ = ReadGuard::try_seek(lock.read()); // there is no Seek here
//! ```
//! ```compile_fail,E0599
//! use lockspan_thread::progressive::claim::ClaimLock;
//! let lock = ClaimLock::new(1);
//! let _ = lock.write(); // nor Write
//! ```
//! ```compile_fail,E0599
//! use lockspan_thread::progressive::upgrade::{AtomicGuard, ReadGuard, UpgradeLock};
//! let lock = UpgradeLock::new(1);
//! let _ = AtomicGuard::read(ReadGuard::atomic(lock.read())); // there is no way back
//! ```
//! ```compile_fail,E0596
//! use lockspan_thread::progressive::base::Lock;
//! let lock = Lock::new(1);
//! *lock.atomic() += 1; // beside others: the data has to be atomic itself
//! ```
//! ```compile_fail,E0382
//! use lockspan_thread::progressive::base::{Lock, SeekGuard};
//! let lock = Lock::new(1);
//! let seek = lock.seek();
//! let mut write = SeekGuard::write(seek);
//! *write = *seek; // the seek guard is gone
//! ```
//!
//! The states of a lock are its own: no other crate can add one, alone with the data or not.
//!
//! ```compile_fail,E0277
//! use lockspan_thread::progressive::{base::RawLock, state::Holds};
//! struct Mine;
//! impl Holds<Mine> for RawLock {
//!     fn leave(&self) {}
//! }
//! ```
//!
//! # Waiting
//!
//! All three wait in the same way: they spin a little, then sleep in a line whose first can be
//! passed for 200 µs at most; `turnstile.rs` explains it. Every transition that can wait has a
//! `try_` form, which never waits, and a `_timeout` form. Both give the guard back as it was if
//! they do not succeed; three timed transitions that can need two steps may end between these
//! ([`claim::Unfinished`]). There are no futures: the first in line looks at the clock, which a
//! task cannot do by itself. A lock is not re-entrant: a thread that holds a guard and asks for
//! another may wait for itself. Guards are `Send`; a panic under a guard ends the hold, and there
//! is no poisoning.
//!
//! # Fork
//!
//! In the child of a fork the thread that forked still holds what it held, and what other threads
//! held stays held. A lock that another thread waited for at that moment must not be used in the
//! child, not even to end a hold: the line may be locked by a thread that the child does not have,
//! and its first may be one.
//!
//! # Source
//!
//! Willy Tarreau's progressive locks for C (plock), and a note of his that adds Join and Claim. His
//! locks only spin, and collapse when threads outnumber processors; the note's table breaks its
//! promises in seven ways, which `docs/failures.md` lists with the tests that show that they do not
//! happen here. `docs/progressive.md` helps to choose, and has a table of all transitions.

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

/// The moment that lies `timeout` from now; a very long wait is thirty years.
fn until(timeout: std::time::Duration) -> std::time::Instant {
    const LONG: std::time::Duration = std::time::Duration::from_secs(1 << 30);
    std::time::Instant::now() + timeout.min(LONG)
}
