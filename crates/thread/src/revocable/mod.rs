//! Locks that any thread may take from their owner at any time: for many plain stores by one
//! thread.
//!
//! # When to use it
//!
//! Use it when one thread changes some words very often, and other threads seldom have to. The
//! thread acquires the lock once and keeps the [`Ticket`]; each store through the ticket costs
//! little more than a plain store. The thread need not release the lock: another thread takes it at
//! once, even from a thread that is not running. The former owner learns of it from its next store,
//! which is not made.
//!
//! So the lock protects single words: data that takes several stores must be valid after each of
//! them. For data that a thread wants to borrow, use [`fair`](crate::fair).
//!
//! ```
//! use lockspan_thread::revocable::{Lock, Revoked, Steal, Word};
//!
//! #[derive(Default)]
//! struct Arena {
//!     used: Word,
//! }
//!
//! let arena = Lock::new(Arena::default());
//! let ticket = arena.acquire(Steal::Never)?;
//! ticket.add(|arena| &arena.used, 64)?;
//! assert_eq!(ticket.load(|arena| &arena.used), Ok(64));
//!
//! // Another thread takes the lock; here the same thread does, so it uses `cancel`.
//! arena.cancel(Steal::Force)?;
//! assert_eq!(ticket.store(|arena| &arena.used, 0), Err(Revoked));
//! assert_eq!(arena.words().used.peek(), 64);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! - A thread that stores in batches acquires before each batch, which is cheap while it owns the
//!   lock: [`Lock::acquire`] with [`Ticket::keep`], or [`Ticket::renew`].
//! - [`Lock::cancel_owner`] takes the lock from one given [`Owner`] and from no later one.
//! - [`Ticket::store_to`] stores to a word that is not under the lock, [`Ticket::store_raw`] to any
//!   address.
//! - [`Ticket::limit`] makes a ticket that releases the lock after a number of stores.
//! - [`PerCpu`] has words for each processor, each behind such a lock.
//!
//! # What is promised
//!
//! - A store through a ticket is made only if the ticket owns the lock at that moment. Otherwise it
//!   returns [`Revoked`] and nothing is stored.
//! - When [`Lock::acquire`] returns, no store of a former owner is made any more, and all stores
//!   that were made are visible.
//! - With the backends `rseq` and `signal` nobody waits: [`Steal::Force`] returns after one barrier
//!   of the kernel, however long the owner sleeps. With the others a thief waits for the one store
//!   or acquisition that the owner may be in. [`backend`] tells which backend is in use.
//! - Two threads that force the lock from each other all the time get little done: give the owner
//!   some time, or use another lock.
//!
//! # Faults
//!
//! A store to an address that cannot be written ([`Ticket::store_raw`]) calls the program's fault
//! handler. With `rseq` the store begins anew when the handler returns, and a thief does not wait
//! for it. With `membarrier` and `plain` a thief waits for the handler. With `signal` it does not,
//! unless the mask of the handler (`sa_mask`) blocks `SIGSTKFLT`.
//!
//! # Signals and forks
//!
//! A signal handler must not use any of this, but may interrupt anything here. In the child of a
//! fork the tickets of the forking thread stay good, and locks that other threads owned are free.

#[cfg(all(test, target_os = "linux", not(any(miri, lockspan_loom, lockspan_shuttle))))]
mod ending;
mod limit;
mod lock;
#[cfg(all(test, not(any(miri, lockspan_loom, lockspan_shuttle))))]
mod model;
mod owner;
mod per_cpu;
mod record;
#[cfg(feature = "signals")]
mod signals;
#[cfg(all(test, target_os = "linux", not(any(miri, lockspan_loom, lockspan_shuttle))))]
mod stress;
#[cfg(all(test, not(any(lockspan_loom, lockspan_shuttle))))]
mod tests;
mod ticket;
mod word;

pub use self::limit::Limited;
pub use self::lock::{Lock, Refused, Steal};
pub use self::owner::Owner;
pub use self::per_cpu::PerCpu;
pub use self::ticket::{Revoked, Ticket};
pub use self::word::Word;
pub use crate::backend::{Backend, Choice, backend};

/// Releases all locks that this thread owns, at once. All its tickets are revoked.
pub fn release_all() {
    if let Some(record) = record::mine_already() {
        record.release_all();
    }
}
