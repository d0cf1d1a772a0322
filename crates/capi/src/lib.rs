//! `liblockspan.so`: Lockspan's thread locks for C and C++.
//!
//! This crate has no Rust interface. The headers in `include/` are its documentation:
//!
//! | header | locks |
//! |---|---|
//! | `lockspan.h` | the fair read-write lock |
//! | `lockspan_plock.h` | the three progressive locks |
//! | `lockspan_rlock.h` | revocable locks |
//!
//! Build it with `cargo build --release -p lockspan-capi` and link with `-llockspan`. It is for
//! Linux only; on other systems the library is empty.
//!
//! A descriptor points to a lock on the heap. The library does not record which thread holds a
//! lock. It detects misuse that the state of the lock shows: a null descriptor, the release of a
//! lock that is not held, the free of a lock in use. Each prints one line to standard error and
//! aborts. A panic cannot unwind into C: it aborts too.

// Module `rwlock` has `lockspan.h`, `plock` has `lockspan_plock.h`, `rlock` has `lockspan_rlock.h`.
// It is for Linux only because the timed calls name a clock of Linux; in model runs it is empty
// too.
#![cfg(all(target_os = "linux", not(any(lockspan_loom, lockspan_shuttle))))]

mod descriptor;
mod misuse;
mod plock;
mod rlock;
mod rwlock;
mod time;
