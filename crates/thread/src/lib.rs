//! Lockspan's in-process locks. They need no async runtime and no other process.
//!
//! | module          | what it is                                                              |
//! |-----------------|-------------------------------------------------------------------------|
//! | [`biased`]      | a mutex that costs the thread that used it last about a plain store     |
//! | [`fair`]        | a read-write lock for threads and tasks with a stated bound on each wait |
//! | [`gate`]        | a word that a keeper opens and shuts: the fast path of the caching client |
//! | [`percpu`]      | counters and stacks of each processor, without interlocked instructions |
//! | [`progressive`] | locks whose holder moves on: read, seek, write, atomic, join and claim  |
//! | [`revocable`]   | ownership for many plain stores, which anybody may take away            |

mod backend;
pub mod biased;
pub mod fair;
pub mod gate;
pub mod percpu;
pub mod progressive;
pub mod revocable;
#[cfg(all(test, lockspan_shuttle))]
mod shuttle;
mod spin;
mod sync;
