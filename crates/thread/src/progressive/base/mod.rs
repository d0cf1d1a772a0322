//! Read, Seek, Write and Atomic.
//!
//! # When to use it
//!
//! When threads mostly read a structure and sometimes find that it has to be changed. A *seeker*
//! reads beside readers and is sure to become the writer without letting anybody else write before;
//! there is one at a time. *Atomics* change the data by its own atomics, many at once, while no
//! reader is there. If every change is made alone and nobody upgrades,
//! [`fair::RwLock`](crate::fair::RwLock) is the better lock: it also promises an order.
//!
//! ```
//! use lockspan_thread::progressive::base::{Lock, ReadGuard, SeekGuard, WriteGuard};
//!
//! let names = Lock::new(vec!["ann"]);
//! let read = names.read();
//! if !read.contains(&"bob") {
//!     // Look again, unless nobody can have written in between.
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
//! # The word
//!
//! ```text
//!  63  60  59    58     57    56        38 37       19 18        0
//! ┌──────┬─────┬───────┬──────┬────────────┬───────────┬───────────┐
//! │flags │  0  │ WRITE │ SEEK │ RETURNERS  │  ATOMICS  │  READERS  │
//! └──────┴─────┴───────┴──────┴────────────┴───────────┴───────────┘
//! ```
//!
//! The flags belong to those who wait; `turnstile.rs` explains them.
//!
//! | WRITE | SEEK | ATOMICS | READERS | RETURNERS | who may touch the data              |
//! |:-----:|:----:|:-------:|:-------:|:---------:|-------------------------------------|
//! |   0   |  0   |    0    |    n    |     0     | n readers read                      |
//! |   0   |  1   |    0    |    n    |     0     | n readers and the seeker read       |
//! |   1   |  0   |    0    |  n > 0  |     0     | n readers read; the writer waits    |
//! |   1   |  0   |    0    |    0    |     0     | the writer                          |
//! |   0   |  0   |    a    |  n > 0  |     0     | n readers read; the atomics wait    |
//! |   0   |  0   |    a    |    0    |     q     | a atomics; q wait to read           |
//!
//! # Invariants
//!
//! - **I1** SEEK and WRITE are never together, nor either with ATOMICS or RETURNERS.
//! - **I2** While WRITE or ATOMICS is set, nobody comes in to read. READERS rises only when an
//!   upgrade from Read is taken back, and that only while a reader is there: zero stays zero.
//! - **I3** RETURNERS > 0 only while atomics are inside (ATOMICS > 0, READERS = 0); the exchange
//!   that takes the last atomic away makes readers of all of them.
//! - **I4** READERS + ATOMICS + RETURNERS + SEEK is at most 524,287, so no field overflows.
//!
//! # Transitions
//!
//! | id  | from → to | call | needs | ordering | pairs with |
//! |-----|-----------|------|-------|----------|------------|
//! | T1  | U → R | [`Lock::read`] | no WRITE, no ATOMICS | Acquire | T7, 8, 13, 14 |
//! | T2  | U → S | [`Lock::seek`] | also no SEEK | Acquire | T7, T8 |
//! | T3  | U → W | [`Lock::write`] | as T2; then waits for READERS = 0 | Acquire | T5 to T8 |
//! | T4  | U → A | [`Lock::atomic`] | no SEEK, WRITE, RETURNERS; waits as T3 | Acquire | T5 to T8 |
//! | T5  | R → U | drop | – | Release | T3, 4, 10, 11 |
//! | T6  | S → U | drop | – | Release | T3, T11 |
//! | T7  | W → U | drop | – | Release | T1 to T4 |
//! | T8  | A → U | drop | – | Release | T1 to T4, T15 |
//! | T9  | R → S | [`ReadGuard::try_seek`] | as T2, and an open door | Relaxed | – |
//! | T10 | R → A | [`ReadGuard::atomic`] | no SEEK, WRITE; waits | Release, Acquire | T5, T10 |
//! | T11 | S → W | [`SeekGuard::write`] | waits as T3 | Acquire | T5, T6 |
//! | T12 | S → R | [`SeekGuard::read`] | – | Relaxed | – |
//! | T13 | W → S | [`WriteGuard::seek`] | – | Release | T1 |
//! | T14 | W → R | [`WriteGuard::read`] | – | Release | T1 |
//! | T15 | A → R | [`AtomicGuard::read`] | waits to be a reader (I3) | Release, Acquire | T8, T15 |
//!
//! Who waits in T3, T4, T10, T11 and T15 does so *inside*: it is counted already, so by I2 and I3
//! what it waits for stays once it is there. T9 and T12 publish nothing: the thread goes on
//! reading, and whoever wants to write waits for its T5 or T6.
//!
//! # Why R → A is refused beside a seeker
//!
//! 1. T1 reads, T2 seeks. 2. T1 wants to be an atomic and waits for the seeker to go. 3. T2 wants
//!    to write and waits for all readers to go: if T1 still counted as a reader, both would wait
//!    for ever; if it counted as an atomic, the data would change after T1 had read it.
//!
//! # Progress
//!
//! A writer or an atomic waits for the readers inside, and nobody else: no reader comes in
//! meanwhile. A thread that cannot come in stands in a line, whose first may be passed for 200 µs
//! at most, whether it has a processor or not. Returners wait for the atomics inside; none comes in
//! meanwhile.

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
