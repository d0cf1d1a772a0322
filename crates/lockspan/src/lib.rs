//! Lockspan: locks that keep ownership close to whoever used it last, and take it back fairly when
//! somebody else needs it.
//!
//! This is the crate to depend on; it has no code of its own.
//!
//! | what | for |
//! |---|---|
//! | [`connect`], [`Locks`], [`Record`], guards | records shared by processes and machines |
//! | [`thread`] | in-process locks, with no async runtime needed |
//!
//! ```
//! # tokio::runtime::Runtime::new().unwrap().block_on(async {
//! let locks = lockspan::connect("memory:").await?; // or local:  lockspan://host  redis://host
//! let invoice = locks.record("invoice", 42)?;
//! let held = invoice.write().await?;
//! println!("the store may refuse tokens below {}", held.token());
//! drop(held); // the node keeps the record until somebody else wants it
//! # Ok::<(), Box<dyn std::error::Error>>(()) }).unwrap();
//! ```
//!
//! Locks between threads need nothing of that:
//!
//! ```
//! use lockspan::thread::fair::RwLock;
//!
//! let lock = RwLock::new(1);
//! *lock.write() += 1;
//! assert_eq!(*lock.read(), 2);
//! ```
//!
//! With the feature `redis`, which is there unless it is switched off, [`connect`] takes `redis://`
//! and its relatives too: locks on a Redis that is already there.
//!
//! With the feature `serde`, a lock is serialized as the value inside it, and a [`Token`] as its
//! number. With the feature `uuid`, a `uuid::Uuid` is the [id of a record](RecordId) as its
//! hyphenated text. With the feature `signals` revocable locks have one more
//! [backend](thread::revocable::backend), for those who name it.
#![forbid(unsafe_code)]

pub use lockspan_client::{
    Acquire, AsBytes, AsText, BadName, BadToken, CloseUnknown, ConnectError, Guard, Handoff,
    LockError, Locks, Name, OwnedReadGuard, OwnedWriteGuard, Owner, ReadGuard, Record, RecordId,
    Stats, TlsTrouble, Token, Trouble, TroubleKind, Upgrade, UpgradeError, WriteGuard,
};
// The parameters of `Guard`, for code that is generic over guards.
#[doc(hidden)]
pub use lockspan_client::{Exclusive, Kind, Shared};
#[cfg(not(feature = "redis"))]
pub use lockspan_client::{Options, blocking_connect, connect};
#[cfg(feature = "redis")]
pub use lockspan_redis::{Options, blocking_connect, connect};
pub use lockspan_thread as thread;

/// README's examples, which compile and run with the documentation tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

/// The examples of `docs/progressive.md`.
#[cfg(doctest)]
#[doc = include_str!("../docs/progressive.md")]
struct Progressive;

/// The examples of `docs/revocable.md`.
#[cfg(doctest)]
#[doc = include_str!("../docs/revocable.md")]
struct Revocable;
