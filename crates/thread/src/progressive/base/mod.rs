//! Read, Seek, Write and Atomic.
//!
//! # When to use it
//!
//! Use it when threads mostly read a structure and sometimes find that they must change it.
//!
//! - A *seeker* reads beside readers, and can become the writer before anybody else writes. There
//!   is one seeker at a time.
//! - *Atomics* change atomic variables in the data, many threads at once, while nobody reads.
//!
//! If every change is made by a writer alone and nobody upgrades,
//! [`fair::RwLock`](crate::fair::RwLock) is the better lock: it also promises an order.
//!
//! ```
//! use lockspan_thread::progressive::base::{Lock, ReadGuard, SeekGuard, WriteGuard};
//!
//! let names = Lock::new(vec!["ann"]);
//! let read = names.read();
//! if !read.contains(&"bob") {
//!     // If the upgrade is refused, somebody may have written in between: look again.
//!     let seek = ReadGuard::try_seek(read).unwrap_or_else(|read| {
//!         drop(read);
//!         names.seek()
//!     });
//!     if !seek.contains(&"bob") {
//!         let mut write = SeekGuard::write(seek);
//!         write.push("bob");
//!         let read = WriteGuard::read(write);
//!         assert_eq!(read.len(), 2);
//!     }
//! }
//! ```
//!
//! # Transitions
//!
//! | from | to | call | waits for |
//! |---|---|---|---|
//! | – | Read | [`Lock::read`] | writers and atomics to leave |
//! | – | Seek | [`Lock::seek`] | also another seeker |
//! | – | Write | [`Lock::write`] | as Seek, then readers to leave |
//! | – | Atomic | [`Lock::atomic`] | seekers and writers, then readers to leave |
//! | Read | Seek | [`ReadGuard::try_seek`] | never; refused beside a seeker, writer or atomic |
//! | Read | Atomic | [`ReadGuard::atomic`] | other readers; refused beside a seeker or writer |
//! | Seek | Write | [`SeekGuard::write`] | readers to leave |
//! | Seek | Read | [`SeekGuard::read`] | never |
//! | Write | Seek, Read | [`WriteGuard::seek`], [`WriteGuard::read`] | never |
//! | Atomic | Read | [`AtomicGuard::read`] | the other atomics to leave |
//! | any | – | drop | never |
//!
//! # What is promised
//!
//! - A writer or an atomic waits for the readers that are inside; no reader enters meanwhile.
//! - A thread that cannot enter waits in a queue. Others can pass the first in the queue for at
//!   most 200 µs.
//! - Atomics that return to Read wait for the atomics inside; no atomic enters meanwhile.
//!
//! # Limits
//!
//! At most 524,287 threads are inside. Beyond that [`Lock::read`], [`Lock::seek`] and
//! [`Lock::atomic`] panic.

mod guard;
mod holders;
#[cfg(all(test, lockspan_loom))]
mod loom;
mod ord;
mod raw;
#[cfg(all(test, not(any(lockspan_loom, lockspan_shuttle))))]
mod search;
#[cfg(all(test, not(any(lockspan_loom, lockspan_shuttle))))]
mod tests;
// The tests of the turnstile use this lock's word.
pub(super) mod word;

pub use self::guard::{AtomicGuard, Lock, ReadGuard, SeekGuard, WriteGuard};
pub use self::holders::Holders;
pub use self::raw::RawLock;
