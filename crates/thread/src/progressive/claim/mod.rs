//! Read, Join, Claim and Atomic: many threads change different parts at once, after each has
//! claimed its part.
//!
//! # When to use it
//!
//! Use it when many threads want to change different parts of a structure, and each finds out by
//! reading which part is still free. In the *claim* phase each thread marks what it will change,
//! and sees what others have marked. In the *atomic* phase all change what they have marked, at
//! once. Nobody reads during either phase, and nobody has to start again because another was
//! quicker.
//!
//! [`Queue`] is a queue built on it. If changes are rare, or each needs the whole structure,
//! [`Lock`](super::Lock) is simpler.
//!
//! ```
//! use std::sync::atomic::{AtomicBool, Ordering};
//! use lockspan_thread::progressive::claim::{ClaimGuard, ClaimLock, ReadGuard};
//!
//! let seats = ClaimLock::new([const { AtomicBool::new(false) }; 3]);
//! let read = seats.read(); // is any seat free?
//! assert!(read.iter().any(|taken| !taken.load(Ordering::Relaxed)));
//! let claim = ReadGuard::claim(read); // all threads that want a seat are in this phase
//! let mine = claim.iter().position(|taken| !taken.swap(true, Ordering::Relaxed));
//! let atomic = ClaimGuard::atomic(claim); // all of them have chosen
//! assert_eq!(mine, Some(0));
//! drop(atomic);
//! ```
//!
//! # Phases and transitions
//!
//! | phase | readers | joiners | atomics |
//! |---|---|---|---|
//! | open | read | – | – |
//! | joining | read | go on reading | wait to change |
//! | claiming | wait to read | claim | wait to change |
//! | changing | wait to read | wait for the next claim phase | change |
//! | alone | – | one alone | – |
//!
//! | from | to | call | waits for |
//! |---|---|---|---|
//! | – | Read | [`ClaimLock::read`] | the open phase |
//! | – | Claim | [`ClaimLock::claim`] | the claim phase |
//! | – | Atomic | [`ClaimLock::atomic`] | the atomic phase |
//! | – | Alone | [`ClaimLock::join_alone`] | everybody to leave |
//! | Read | Join | [`ReadGuard::join`] | never |
//! | Read, Join | Claim | [`ReadGuard::claim`], [`JoinGuard::claim`] | readers to leave or join |
//! | Claim | Atomic | [`ClaimGuard::atomic`] | all claimants to go on or give up |
//! | Atomic | Read | [`AtomicGuard::read`] | the other atomics to leave |
//! | Atomic | Join | [`AtomicGuard::join`] | never |
//! | Atomic | Claim | [`AtomicGuard::claim`] | the next claim phase |
//! | any | – | drop | never |
//!
//! Every transition that can wait has a form that does not (`try_`) and one with a limit
//! (`_timeout`). Both leave the guard in its old state if they do not succeed. Three transitions
//! take two steps, and may end between them when their time is over: [`Unfinished`].
//!
//! # How to give up
//!
//! | in    | to       | by | waits |
//! |-------|----------|----|-------|
//! | Join  | unlocked | drop | no |
//! | Join  | Read     | [`JoinGuard::read`] | not before the claim phase, for a thread from Read |
//! | Join  | Atomic   | [`JoinGuard::atomic`] | not in the atomic phase that it came from |
//! | Claim | unlocked | take the marks back, drop | no |
//! | Claim | Read     | take the marks back, [`ClaimGuard::refuge`] | for the others' changes |
//!
//! # What is promised
//!
//! - Atomics and readers are never inside together, nor claimants and readers, nor claimants and
//!   atomics. The holder of Alone is alone.
//! - Joiners, and threads that come for Atomic, wait for the readers inside; no reader enters
//!   meanwhile. Atomics that go back to Read or Join wait for the other atomics; no atomic enters
//!   meanwhile.
//! - A thread that stays in a state forever blocks the threads that wait for the next phase, as
//!   with every lock. So does a thread that goes round from Atomic to Join and never leaves.
//! - A thread that cannot enter waits in a queue. Others can pass the first in the queue for at
//!   most 200 µs.
//!
//! At most 524,287 threads are inside. Beyond that [`ClaimLock::read`], [`ClaimLock::claim`] and
//! [`ClaimLock::atomic`] panic.

mod guard;
mod holders;
#[cfg(all(test, lockspan_loom))]
mod loom;
mod ord;
pub mod queue;
mod raw;
#[cfg(all(test, not(any(lockspan_loom, lockspan_shuttle))))]
mod search;
#[cfg(all(test, not(any(lockspan_loom, lockspan_shuttle))))]
mod tests;
mod unfinished;
mod word;

pub use self::guard::{AloneGuard, AtomicGuard, ClaimGuard, ClaimLock, JoinGuard, ReadGuard};
pub use self::holders::{Holders, Phase};
pub use self::queue::Queue;
pub use self::raw::RawClaimLock;
pub use self::unfinished::Unfinished;
