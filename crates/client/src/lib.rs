//! Client of the Lockspan lock service: locks on records that processes and machines share.
//!
//! Most programs depend on the crate `lockspan`, which re-exports all of this and adds Redis and
//! the locks between threads.
//!
//! [`connect`] returns [`Locks`], one connection. [`Locks::record`] names what to lock,
//! [`Record::read`] and [`Record::write`] acquire it, and the [`Guard`] releases it when it is
//! dropped. The client caches what it was granted: acquiring the same record again sends no
//! message until another process wants it.
//!
//! ```
//! # tokio::runtime::Runtime::new().unwrap().block_on(async {
//! let locks = lockspan_client::connect("memory:").await?;
//! let invoice = locks.record("invoice", 42)?;
//! {
//!     let held = invoice.write().await?;
//!     println!("writing with token {}", held.token());
//! }
//! let held = invoice.read().await?; // sends no message: the grant is still cached
//! assert!(held.is_valid());
//! # Ok::<(), Box<dyn std::error::Error>>(()) }).unwrap();
//! ```
//!
//! # What is promised, and what is not
//!
//! - While a guard [is valid](Guard::is_valid), no other process holds the record in a way that
//!   excludes it: one writer, or any number of readers.
//! - A guard can become invalid while it is held: the lease of this process expires when it cannot
//!   reach the server for 10 s (the default of [`Options::lease`]). Then another process may
//!   acquire the record. A store that checks the [fencing token](Guard::token) refuses the writes
//!   of a process that came too late.
//! - Readers and writers that wait take turns, and writers are served in the order in which they
//!   asked. A process that has the record cached may use it a bounded number of times more before
//!   it hands it over: [`Options::stay`].
//! - Deadlocks are detected between [owners](Locks::as_owner), and only between them.
//! - Locks are not re-entrant.
//!
//! # Features
//!
//! `tls` and `metrics` are on by default.
//!
//! | feature | what it adds |
//! |---|---|
//! | `tls` | `lockspans://`. Compiles C code (ring) |
//! | `metrics` | counts and times for the recorder of the crate `metrics` |
//! | `serde` | a [`Token`] is serialized as its number |
//! | `uuid` | a `uuid::Uuid` is the [id of a record](RecordId), as its hyphenated text |
//!
//! # Forms
//!
//! Every way to acquire exists for tasks and, with the prefix `blocking_`, for threads without an
//! async runtime. [`Record`] has a table of all forms.

#![forbid(unsafe_code)]
#![cfg_attr(docsrs, feature(doc_cfg))]

// | module | job |
// |---|---|
// | `record`, `guard`, `acquire`, `upgrade` | the public types; the fast path is `Record::enter` |
// | `all` | several records at once |
// | `line` | the waiters for one record in this process, and what they need from the server |
// | `node` | the protocol's cache, between the lines and the transport |
// | `way`, `stream`, `memory` | the transport: a connection, or a service in this process |
// | `peer` | the transport for other crates: whatever stands in for the server |
// | `task` | the background task: receives, reconnects, keeps the time |
// | `meter` | counters for the `metrics` façade, cheap enough for the fast path |
// | `greeting` | the first exchange, and what an unexpected answer means |
// | `plain` | a connection for tools: commands and replies, nothing cached |
// | `trust` | to which servers a password may be sent |
// | `local` | this user's own service, started on demand |

mod acquire;
mod all;
mod block;
mod clock;
mod entry;
mod error;
mod greeting;
mod guard;
#[doc(hidden)]
pub mod label;
mod line;
#[doc(hidden)]
pub mod local;
mod locks;
mod memory;
#[cfg(feature = "metrics")]
mod meter;
#[cfg(not(feature = "metrics"))]
#[path = "meter/off.rs"]
mod meter;
mod node;
mod options;
mod peer;
mod places;
mod plain;
mod record;
mod stats;
mod stream;
mod task;
#[cfg(test)]
mod tests;
mod timeout;
mod trust;
mod unix;
mod upgrade;
mod url;
mod way;

pub use acquire::{Acquire, Noted};
pub use all::{AcquireAll, All, AllGuard, AnyGuard, BadSet, Member};
pub use error::{CloseUnknown, ConnectError, LockError, TlsTrouble, Trouble, TroubleKind};
pub use guard::{
    Exclusive, Guard, Kind, OwnedReadGuard, OwnedWriteGuard, ReadGuard, Shared, WriteGuard,
};
pub use locks::Locks;
pub use lockspan_protocol::cache::WantRefusal;
pub use lockspan_protocol::{
    AcquireRefusal, Annotation, BadAnnotation, BadName, BadToken, Handoff, Holder, Mode, Owner,
    Record as Name, RecordId, SessionRefusal, Token,
};
pub use options::Options;
#[doc(hidden)]
pub use peer::{Ear, Peer};
#[doc(hidden)]
pub use plain::Plain;
pub use record::Record;
pub use stats::Stats;
pub use timeout::TimedOut;
#[doc(hidden)]
pub use timeout::{Span, held_by};
#[doc(hidden)]
pub use trust::check_authorities;
pub use upgrade::{Upgrade, UpgradeError};
#[doc(hidden)]
pub use url::{DEFAULT_PORT, service_address, shown_url};

/// Connects to a lock service, with the default [`Options`].
///
/// | URL | service |
/// |---|---|
#[doc = concat!(
    " | `memory:` | inside this process, for tests and single programs. All connections of the ",
    "process to `memory:` share one service, which ends with the last of them |",
)]
#[doc = concat!(
    " | `memory:NAME` | the same, but one service for each name. Connections with different names ",
    "do not see each other's locks: give each test its own name |",
)]
/// | `local:` | this user's own service on this machine, started on demand |
/// | `unix:///PATH` | a server, by its socket file |
/// | `lockspan://HOST[:PORT]` | a server. The port defaults to 7420 |
/// | `lockspans://[USER:PASSWORD@]HOST[:PORT][?ca=FILE]` | a server, with TLS |
///
/// After `?` there may be `ca`, `cert`, `key`, `password-file` and `insecure`, joined by `&`. A
/// password is sent to another machine only with TLS, unless the URL says `?insecure=yes`.
///
/// The connection is looked after by a task of the tokio runtime that this is called in. It
/// reconnects by itself.
///
/// ```
/// # tokio::runtime::Runtime::new().unwrap().block_on(async {
/// let one = lockspan_client::connect("memory:a").await?;
/// let held = one.record("invoice", 42)?.write_owned().await?;
/// // Another name is another service.
/// let other = lockspan_client::connect("memory:b").await?;
/// assert!(other.record("invoice", 42)?.try_write().await?.is_some());
/// // The same name is the same service.
/// let same = lockspan_client::connect("memory:a").await?;
/// assert!(same.record("invoice", 42)?.try_write().await?.is_none());
/// # drop(held);
/// # Ok::<(), Box<dyn std::error::Error>>(()) }).unwrap();
/// ```
///
/// # Errors
///
/// [`ConnectError`]: the URL or an option is wrong, nobody answers, the login is refused. Only the
/// first connection fails like this; a connection that is lost later is made again.
///
/// # After a fork
///
/// A connection belongs to the process that made it. A child made by `fork` (or a bare `clone`)
/// has none of it:
///
/// - Calls fail with [`LockError::Forked`]. A future that waited in the parent ends with the same
///   error when the child polls it.
/// - Guards are not valid, and [`Guard::lost`] returns.
/// - Dropping guards, futures, records and [`Locks`] does nothing: no message is sent, no session
///   ends, and no thread is waited for. The parent continues as if there were no child.
///
/// The child connects again: by [`blocking_connect`], or by `connect` in a new runtime. If a task
/// forked, that runtime needs a new thread too. `memory:` is a new and empty service in the child.
///
/// Tokio's runtimes do not survive a fork:
///
/// - The child must not use a runtime of its parent.
/// - It must not drop a multi-thread runtime of its parent either: the drop would wait for threads
///   that the child does not have. `std::mem::forget` it, or end by `std::process::exit`.
/// - It must not drop a current-thread runtime that has a connection to Redis: that would close the
///   parent's socket, and the parent would have to reconnect.
///
/// A command that [`std::process::Command`] starts inherits nothing and is not concerned.
///
/// On Linux 4.14 and later, forks are detected by memory that the kernel wipes in the child, at no
/// cost. Earlier kernels need a handler of `pthread_atfork`, which a bare `clone` does not call: a
/// child made by it is not detected there.
pub async fn connect(url: &str) -> Result<Locks, ConnectError> {
    Options::new().connect(url).await
}

/// Runs a connecting future on the background thread of [`blocking_connect`]. For crates that
/// connect to other services.
#[doc(hidden)]
pub fn connect_in_background(
    connecting: impl Future<Output = Result<Locks, ConnectError>> + Send + 'static,
) -> Result<Locks, ConnectError> {
    task::connect_in_background(connecting)
}

/// Connects for a program without an async runtime, with the default [`Options`].
///
/// Takes the URLs of [`connect`]. One background thread looks after all connections that are made
/// like this. Use the `blocking_` methods of [`Record`] and [`Guard`] with it.
///
/// ```
/// let locks = lockspan_client::blocking_connect("memory:")?;
/// let invoice = locks.record("invoice", 42)?;
/// let held = invoice.blocking_write()?;
/// assert!(held.is_valid());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
///
/// As [`connect`].
///
/// The connection belongs to the calling process: see [after a fork](connect#after-a-fork).
pub fn blocking_connect(url: &str) -> Result<Locks, ConnectError> {
    Options::new().blocking_connect(url)
}

/// The examples of this crate's README, which run with the documentation tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
