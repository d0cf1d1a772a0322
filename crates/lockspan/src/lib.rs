//! Locks for data that several processes, machines or threads share: readers together, one writer
//! alone, in a fair order.
//!
//! This is the crate to depend on. It has two halves:
//!
//! | you share data between | begin with |
//! |---|---|
//! | processes or machines | [`connect`], then [`Locks::record`] |
//! | threads of one program | [`thread::fair::RwLock`]; no async runtime, no server |
//!
//! # Between processes and machines
//!
//! ```
//! # tokio::runtime::Runtime::new().unwrap().block_on(async {
//! let locks = lockspan::connect("memory:").await?; // or local:  lockspan://host  redis://host
//! let invoice = locks.record("invoice", 42)?;
//! let held = invoice.write().await?;
//! println!("the data store may refuse tokens below {}", held.token());
//! drop(held); // released; it stays cached until another process wants it
//! # Ok::<(), Box<dyn std::error::Error>>(()) }).unwrap();
//! ```
//!
//! A program without an async runtime uses [`blocking_connect`] and the methods that begin with
//! `blocking_`. A lock is held as long as its lease: a process that is cut off or suspended loses
//! its locks after 10 s by default ([`Options::lease`]). [`Guard`] says how to deal with that.
//!
//! # Between threads
//!
//! ```
//! use lockspan::thread::fair::RwLock;
//!
//! let lock = RwLock::new(1);
//! *lock.write() += 1;
//! assert_eq!(*lock.read(), 2);
//! ```
//!
//! A program that needs only these can depend on the crate `lockspan-thread` instead, which has no
//! network code in its dependencies. The module [`thread`] lists all of its locks.
//!
//! # Features
//!
//! The first four are on by default. `default-features = false` leaves the locks between threads,
//! and six crates to compile.
//!
//! | feature | what it adds |
//! |---|---|
//! | `client` | [`connect`] and records: `memory:`, `local:`, `unix://`, `lockspan://` |
//! | `tls` | `lockspans://` and, with `redis`, `rediss://`. Compiles C code (ring) |
//! | `redis` | `redis://`, sentinels and clusters: locks on an existing Redis |
//! | `metrics` | counts and times of connections for the recorder of the crate `metrics` |
//! | `serde` | a thread lock is serialized as the value in it, a [`Token`] as its number |
//! | `uuid` | a `uuid::Uuid` is the [id of a record](RecordId), as its hyphenated text |
//! | `signals` | one more [backend](thread::revocable::backend) for revocable locks |
//!
//! A URL that needs a feature which is off is refused with an error that names the feature.
//!
//! The examples on these pages name the crates that this one re-exports: read `lockspan` for
//! `lockspan_client`, `lockspan_redis` and `lockspan_protocol`, and `lockspan::thread` for
//! `lockspan_thread`.
#![forbid(unsafe_code)]
#![cfg_attr(docsrs, feature(doc_cfg))]

#[cfg(feature = "client")]
#[doc(hidden)]
pub use lockspan_client::label;
#[cfg(feature = "client")]
#[doc(inline)]
pub use lockspan_client::{
    Acquire, AcquireAll, AcquireRefusal, All, AllGuard, Annotation, AnyGuard, BadAnnotation,
    BadName, BadSet, BadToken, CloseUnknown, ConnectError, Exclusive, Guard, Handoff, Holder, Kind,
    LockError, Locks, Member, Mode, Name, Noted, OwnedReadGuard, OwnedWriteGuard, Owner, ReadGuard,
    Record, RecordId, SessionRefusal, Shared, Stats, TimedOut, TlsTrouble, Token, Trouble,
    TroubleKind, Upgrade, UpgradeError, WantRefusal, WriteGuard,
};
#[cfg(all(feature = "client", not(feature = "redis")))]
#[doc(inline)]
pub use lockspan_client::{Options, blocking_connect, connect};
#[cfg(feature = "redis")]
// They exist without the feature too, for fewer kinds of URLs.
#[cfg_attr(docsrs, doc(auto_cfg = false))]
#[doc(inline)]
pub use lockspan_redis::{Options, blocking_connect, connect};
#[doc(inline)]
pub use lockspan_thread as thread;

/// The examples of this crate's README, which run with the documentation tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

/// The examples of the repository's README.
#[cfg(doctest)]
#[doc = include_str!("../docs/README.md")]
struct FrontPage;

/// The examples of `docs/progressive.md`.
#[cfg(doctest)]
#[doc = include_str!("../docs/progressive.md")]
struct Progressive;

/// The examples of `docs/revocable.md`.
#[cfg(doctest)]
#[doc = include_str!("../docs/revocable.md")]
struct Revocable;

/// Without the feature `uuid` a `Uuid` is not an id: its 16 raw bytes would be another record than
/// its text.
///
/// ```compile_fail,E0277
/// let uuid = uuid::Uuid::from_u128(7);
/// let _ = lockspan::Name::new("invoice", uuid);
/// ```
///
/// Its text is one, with and without the feature:
///
/// ```
/// let uuid = uuid::Uuid::from_u128(7);
/// let name = lockspan::Name::new("invoice", uuid.to_string())?;
/// assert_eq!(name.as_bytes(), b"invoice:00000000-0000-0000-0000-000000000007");
/// # Ok::<(), lockspan::BadName>(())
/// ```
#[cfg(all(doctest, feature = "client", not(feature = "uuid")))]
struct UuidWithoutItsFeature;
