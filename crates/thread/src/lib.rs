//! Lockspan's in-process locks. They need no async runtime and no other process.
//!
//! | module   | what it is                                                                  |
//! |----------|-----------------------------------------------------------------------------|
//! | [`fair`] | a read-write lock for threads and tasks with a stated bound on every wait   |

pub mod fair;
mod sync;
