//! Ownership for many plain stores, which anybody may take away.
//!
//! # When to use it
//!
//! When a thread changes something very often, and others seldom have to: a thread acquires the
//! lock once, keeps the [`Ticket`], and each store costs little more than the store. It has no need
//! to release the lock: a thread that wants it takes it, at once, even from a thread that does not
//! run; the former owner learns of it from its next operation. So the lock protects single words.
//! What takes several stores must be sound after each of them. For data that one wants to borrow,
//! [`fair`](crate::fair) is the right lock.
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
//! // Somebody takes it, here the same thread. Another acquire would give it its ticket again.
//! arena.cancel(Steal::Force)?;
//! assert_eq!(ticket.store(|arena| &arena.used, 0), Err(Revoked));
//! assert_eq!(arena.words().used.peek(), 64);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! - A thread that stores in batches acquires before each, which is cheap while it owns the lock:
//!   [`Lock::acquire`] with [`Ticket::keep`], or [`Ticket::renew`].
//! - [`Lock::cancel_owner`] takes the lock from one given [`Owner`] and from no later one.
//! - [`Ticket::store_to`] stores to a word that is not under the lock, [`Ticket::store_raw`] to any
//!   address.
//! - [`Ticket::limit`] makes a ticket that releases the lock after a number of stores.
//! - [`PerCpu`] has words for each processor, each behind such a lock.
//!
//! # The word
//!
//! 0, or the name of an acquisition; `record.rs` explains names and what is known about them. An
//! acquisition is bound to the processor that its thread was on, and its stores happen only there;
//! if the thread has moved, its next store binds it anew, under a new name.
//!
//! | word | record of the name | who may store |
//! |------|--------------------|---------------|
//! | 0 | – | nobody |
//! | n | not settled | victims of n whose sections are not over yet; n waits for that |
//! | n | settled, bound to c | n's thread, in a section on c |
//! | n | released, or left behind by a fork | nobody |
//! | n, marked | – | nobody, once the signal has come: see `signals.rs` |
//!
//! # Invariants
//!
//! - **I1** A section stores only if the word is its name and the processor the name's, and no
//!   interruption lies between these checks and the store.
//! - **I2** The word changes by interlocked exchanges alone, each of which names what it replaces.
//!   No name comes twice, so an exchange proves that nobody has owned the lock in between.
//! - **I3** When a name has settled, no section of another name under this lock is at work, nor
//!   will one store. [`acquire`](Lock::acquire) returns after that.
//! - **I4** Only a settled name is released, or followed to another processor.
//! - **I5** While the word is a name that has moved (T7), the lock's `origin` is the first name of
//!   the same acquisition, which is its [`Owner`]. The owner stores it conditionally, as any word
//!   under the lock, before its acquire returns. So no store of another acquisition lands there
//!   later, and a thread that finds the same word before and after it reads `origin` has the
//!   word's owner.
//!
//! # Transitions
//!
//! | id | word | call | needs | then, before it settles |
//! |----|------|------|-------|-------------------------|
//! | T1 | 0 → m | acquire | – | nothing (I4) |
//! | T2 | n → m | acquire | n released, left behind, or of this thread | nothing (I4) |
//! | T3 | n → m | `Local`, `Force` | n settled and bound here | nothing: see below |
//! | T4 | n → m | `Force` | – | barrier that aborts sections: see below |
//! | T5 | n → m | `Force`, no sections | n settled: waits | barrier; waits for n's flag |
//! | T6 | n → 0 | release, drop | – | – |
//! | T7 | n → m, moved | store by a moved thread | n is the ticket's | nothing: n was its own |
//! | T8 | n | acquire | n of this thread, not released | nothing: the same ticket |
//! | T9 | n → m → 0 | `cancel_owner` | n's owner is the given one | as T2 to T5, then T6 |
//! | T10 | n | `cancel_owner` | n's owner is another one, or n is 0 | barrier or wait, see below |
//!
//! The backend `signal` has T1, T2, T6, T8 and steps of its own, in `signals.rs`.
//!
//! T3 exchanges the word on the processor that n is bound to: n's thread is elsewhere, or was
//! interrupted there, and then leaves the section that it may be in.
//!
//! T4 sends its barrier to n's processor; to all of them if that is not known, or if n has not
//! settled: then n's thread may not yet have sent its own barrier, so that whom it robbed may still
//! be in a section anywhere.
//!
//! T10 finds that the given owner has gone. If n has settled, that owner is over (I3). If not, n's
//! thread may not have sent its barrier yet: with sections the cancel sends its own to all
//! processors, without them it waits until n has settled.
//!
//! # Orderings
//!
//! Exchanges are `SeqCst`: interlocked instructions, whatever one writes. The fields of a record
//! are stored with release and read with acquire. A ticket's stores are plain ones; x86-64 shows
//! them in order, and who acquires sees those of all owners before: by T1 and T2 as it saw the
//! release, by T3 as both ran on one processor, by T4 and T5 as the barrier is the victim's too.
//!
//! # Faults
//!
//! A store to an address that cannot be written ([`Ticket::store_raw`]) faults inside a section.
//! With `rseq` the kernel leaves the section before it calls the handler: nothing is left behind,
//! and the section begins anew when the handler returns. With `membarrier` and `plain` the flag or
//! gate is up until then, and a thief waits for the handler. With `signal` a thief does not wait,
//! unless the mask of the handler (`sa_mask`) blocks `SIGSTKFLT`: the signal comes when the handler
//! returns, and the section compares again.
//!
//! # Progress
//!
//! With sections nobody waits for anybody: `Force` ends after one barrier, however long the owner
//! sleeps. Two threads that force the lock from each other all the time get little done; give the
//! owner some time, or use another lock. Without sections (see [`backend`]) a thief waits for the
//! end of the one store that the owner may be at, or of the acquisition.
//!
//! # Signals and forks
//!
//! A handler of a signal may interrupt anything here, but must not use any of it. In the child of a
//! fork, tickets of the thread that forked go on; locks that other threads own are free.

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

/// Releases everything that this thread owns, at once and however much that is: all its tickets are
/// revoked.
pub fn release_all() {
    if let Some(record) = record::mine_already() {
        record.release_all();
    }
}
