//! Lockspan: locks that keep ownership close to whoever used it last, and take it back fairly when
//! somebody else needs it.
//!
//! This is the crate to depend on; it has no code of its own. Today it holds the locks between the
//! threads and tasks of one process:
//!
//! | module         | what it is                                                              |
//! |----------------|-------------------------------------------------------------------------|
//! | [`thread`]     | in-process locks, with no async runtime needed                          |
//! | `thread::fair` | a read-write lock for threads and tasks, with a bound on every wait     |
//!
//! ```
//! use lockspan::thread::fair::RwLock;
//!
//! let lock = RwLock::new(1);
//! *lock.write() += 1;
//! assert_eq!(*lock.read(), 2);
//! ```
//!
//! With the feature `serde`, a lock is serialized as the value inside it.
#![forbid(unsafe_code)]

pub use lockspan_thread as thread;

/// README's examples, which compile and run with the documentation tests.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;
