//! `liblockspan.so`: locks for C, as the headers in `include/` describe them.
//!
//! | header | here | the lock |
//! |---|---|---|
//! | `lockspan.h` | `rwlock` | the fair read-write lock |
//! | `lockspan_plock.h` | `plock` | the three progressive locks |
//! | `lockspan_rlock.h` | `rlock` | revocable locks |
//!
//! A descriptor points to a lock on the heap. Nothing is kept about who holds it, so misuse is
//! seen where the lock's own state shows it: null, the end of a hold that nobody has, the free of
//! a lock in use. Each is one line on standard error and an abort (`misuse`). A panic would be a
//! bug of ours; it cannot cross into C, as an `extern "C"` function aborts on it.
//!
//! Only on Linux, whose clock the timed calls name; elsewhere, and in model runs, it is empty.
#![cfg(all(target_os = "linux", not(any(lockspan_loom, lockspan_shuttle))))]

mod descriptor;
mod misuse;
mod plock;
mod rlock;
mod rwlock;
mod time;
