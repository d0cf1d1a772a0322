//! Data of each processor, changed by plain stores.
//!
//! # When to use it
//!
//! When many threads change one thing so often that its cache line is what they wait for: a
//! counter, the free list of an allocator. Most of the gain comes from the split into one part a
//! processor; the rest from leaving out the interlocked instruction, which a part needs none of,
//! because the kernel aborts a change that is interrupted. Reading the whole is slow, and a moment
//! when all parts are looked at does not exist: [`Counter::sum`] adds up what it finds.
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
//! // Another processor's part is reached by `drain`; this thread may have moved meanwhile.
//! let buffer = spare.pop().or_else(|| spare.drain_all().pop());
//! assert!(buffer.is_some());
//! ```
//!
//! The global allocator must not be the first to use any of this: [`backend`] says why, and also
//! what it means for libraries that are unloaded.
//!
//! [`Slot`] is for values that are more than a word: a thread borrows its processor's, by a lock
//! that costs little, and gets a spare one if another thread was stopped in the middle.
//!
//! [`revocable::PerCpu`](crate::revocable::PerCpu) is for words of which a thread stores several,
//! one after the other: the next thread on the processor takes them from one that was stopped in
//! the middle, and any thread can take the words of each processor to read them.
//!
//! # What is promised
//!
//! - Nothing is lost or seen twice, whatever is preempted, moved to another processor or
//!   interrupted by a signal, and whatever processors come and go: there is a part for each one
//!   that the machine can have.
//! - A change by a thread is seen by whoever learns of it by other means, as with any store.
//! - In the child of a fork everything goes on, even if another thread of the parent was at work.
//!   Only the values of a [`Slot`] that other threads had at that moment stay taken in the child,
//!   since nobody knows what state they are in: [`Slot::lock`] takes spares instead, up to the
//!   limit, and then waits for ever, as [`Slot::for_each`] and [`Slot::drain`] do for such a value.
//!   If the child is the first to ask for the [`backend`], it finds that out by itself and starts a
//!   thread for it, which is not every C library's strength: ask before you fork. A child of
//!   `vfork` must not touch any of this.
//! - A signal handler may interrupt anything here, but must not use any of it. A [`Stack`] that its
//!   thread drains at that moment has a latch shut, for which the handler would wait for ever.
//! - [`backend`] says whether all this is had without locks. Where it is not, a part has a lock,
//!   and threads are spread over the parts by the order in which they first came.

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
