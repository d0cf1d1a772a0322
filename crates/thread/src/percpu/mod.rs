//! Per-CPU data: counters, stacks and values of which each processor has its own part.
//!
//! # When to use it
//!
//! Use it when many threads change one thing so often that they wait for its cache line: a counter,
//! the free list of an allocator. Most of the gain comes from the split into one part per
//! processor. The rest comes from plain stores instead of atomic read-modify-writes: the kernel
//! aborts a change that is interrupted (restartable sequences). Reading the whole is slow, and
//! there is no snapshot of all parts at one moment: [`Counter::sum`] adds up one after the other.
//!
//! | type | for |
//! |---|---|
//! | [`Counter`] | a sum |
//! | [`Stack`] | a free list of values that fit into a word, such as `Box` |
//! | [`Slot`] | any value: a thread borrows the one of its processor |
//! | [`revocable::PerCpu`](crate::revocable::PerCpu) | several words that a thread stores in turn |
//!
//! ```
//! use lockspan_thread::percpu::{Counter, Stack};
//!
//! let hits = Counter::new();
//! hits.add(2);
//! hits.add(-1);
//! assert_eq!(hits.sum(), 1);
//!
//! let spare: Stack<Box<[u8; 64]>> = Stack::with_capacity(32);
//! spare.push(Box::new([0; 64])).expect("a new stack is not full");
//! // This thread may have moved to another processor meanwhile: `drain_all` looks everywhere.
//! let buffer = spare.pop().or_else(|| spare.drain_all().pop());
//! assert!(buffer.is_some());
//! ```
//!
//! # What is promised
//!
//! - Nothing is lost or counted twice, even if a thread is preempted, moved to another processor or
//!   interrupted by a signal. There is a part for every processor that the machine can have, so
//!   processors may go online and offline.
//! - A change by a thread is visible to a thread that learns of it by synchronization, as with any
//!   store.
//! - [`backend`] tells whether this machine supports it without locks. Where it does not, each part
//!   has a lock, and threads are distributed over the parts in the order of their first use.
//!
//! # Limits
//!
//! - The global allocator must not be the first to use any of this: [`backend`] says why, and what
//!   it means for libraries that are unloaded.
//! - A signal handler must not use any of this: if the interrupted thread drains a [`Stack`],
//!   that is a deadlock.
//!
//! # Fork
//!
//! Everything works in the child of a fork, even if another thread of the parent was at work, with
//! one exception: a value of a [`Slot`] that another thread held stays locked in the child. There,
//! [`Slot::lock`] takes spare values up to the limit and then never returns, and neither do
//! [`Slot::for_each`] and [`Slot::drain`] for such a value.
//!
//! Call [`backend`] before you fork: the first call starts threads, which not every C library
//! supports in the child of a multi-threaded process. A child of `vfork` must not touch any of
//! this.

pub(crate) mod chain;
mod counter;
pub(crate) mod parts;
#[cfg(not(lockspan_loom))]
mod slot;
mod stack;
#[cfg(all(test, target_os = "linux", not(any(miri, lockspan_loom, lockspan_shuttle))))]
mod stress;
#[cfg(all(test, not(any(lockspan_loom, lockspan_shuttle))))]
mod tests;

pub use self::counter::Counter;
#[cfg(not(lockspan_loom))]
pub use self::slot::Slot;
pub use self::stack::{Item, Stack};
pub use crate::backend::{Backend, Choice, backend};
