//! Locks on records of a lock service, cached on this node.
//!
//! [`connect`] gives [`Locks`]; a [`Record`] of it is read or written with guards. What was used
//! stays here: taking it again makes no call, until another node wants it.
//!
//! ```
//! # tokio::runtime::Runtime::new().unwrap().block_on(async {
//! let locks = lockspan_client::connect("memory:").await?;
//! let invoice = locks.record("invoice", 42)?;
//! {
//!     let held = invoice.write().await?;
//!     println!("writing with token {}", held.token());
//! }
//! let held = invoice.read().await?; // no message: the node still has it
//! assert!(held.is_valid());
//! # Ok::<(), Box<dyn std::error::Error>>(()) }).unwrap();
//! ```
//!
//! | module | job |
//! |---|---|
//! | `record`, `guard`, `acquire`, `upgrade` | what users hold: the fast path is `Record::enter` |
//! | `line` | who waits for a record here, and what is needed from the server |
//! | `node` | the protocol's cache between the lines and the way to the server |
//! | `way`, `stream`, `memory` | the way: a connection, or a service in this process |
//! | `peer` | the way for other crates: whoever stands in for the server |
//! | `task` | the background task: hears, reconnects, keeps the time |
//! | `meter` | what the `metrics` façade hears, and how it is counted for nearly nothing |
//! | `greeting` | the first exchange, and what a strange answer means |
//! | `plain` | a connection for tools: commands and replies, nothing kept |
//! | `trust` | to whom a password may be sent |
//! | `local` | the service of this user, started when it is needed |

#![forbid(unsafe_code)]

mod acquire;
mod block;
mod clock;
mod entry;
mod error;
mod greeting;
mod guard;
mod line;
#[doc(hidden)]
pub mod local;
mod locks;
mod memory;
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
mod trust;
mod unix;
mod upgrade;
mod url;
mod way;

pub use acquire::Acquire;
pub use error::{CloseUnknown, ConnectError, LockError, TlsTrouble, Trouble, TroubleKind};
pub use guard::{
    Exclusive, Guard, Kind, OwnedReadGuard, OwnedWriteGuard, ReadGuard, Shared, WriteGuard,
};
pub use locks::Locks;
pub use lockspan_protocol::{
    AsBytes, AsText, BadName, BadToken, Handoff, Owner, Record as Name, RecordId, Token,
};
pub use options::Options;
#[doc(hidden)]
pub use peer::{Ear, Peer};
#[doc(hidden)]
pub use plain::Plain;
pub use record::Record;
pub use stats::Stats;
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
    " | `memory:` | inside this process. All connections to it of the process are one ",
    "service, which ends with the last of them |",
)]
#[doc = concat!(
    " | `memory:NAME` | the same, but one service for each name: connections with ",
    "different names do not see each other's locks. Give each test a name of its own |",
)]
/// | `local:` | this user's own service on this machine, started when it is needed |
/// | `unix:///PATH` | a server, by its socket file |
/// | `lockspan://HOST:PORT` | a server; the port defaults to 7420 |
/// | `lockspans://USER:PASSWORD@HOST:PORT?ca=FILE` | a server, with TLS |
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
/// # After a fork
///
/// A connection belongs to the process that made it. In a child that `fork` (or a bare `clone`) has
/// made, all of it is lost at once:
///
/// - calls fail with [`LockError::Forked`], whose text says to call `connect` again; waits that
///   began in the parent end with it when they are polled in the child;
/// - guards are not valid, and [`Guard::lost`] returns;
/// - dropping guards, futures, records and [`Locks`] does nothing: nothing is sent, no session ends
///   and no thread is waited for. The parent goes on as if there were no child.
///
/// The child connects again, by `connect` in a runtime of its own (in a thread of its own too, if
/// it was a task that forked) or by [`blocking_connect`]. `memory:` is a new and empty service
/// there.
///
/// Tokio's runtimes do not survive a fork: a child must not use one of its parent's. It must not
/// drop one with threads either, which would wait for threads that are not there
/// (`std::mem::forget` it, or end by `std::process::exit`); nor one without threads if it has a
/// connection to Redis, whose socket would be cut off in the parent, which then connects again.
/// A command that is started by [`std::process::Command`] is no such child: it inherits nothing.
///
/// A child is noticed by memory that Linux wipes on a fork, at no cost. Before Linux 4.14 it is a
/// handler of `pthread_atfork` that wipes: then a child of a bare `clone` is not noticed.
pub async fn connect(url: &str) -> Result<Locks, ConnectError> {
    Options::new().connect(url).await
}

/// Runs a connecting future for a program without an async runtime, on the thread that looks after
/// such connections. For crates that connect to something else.
#[doc(hidden)]
pub fn connect_in_background(
    connecting: impl Future<Output = Result<Locks, ConnectError>> + Send + 'static,
) -> Result<Locks, ConnectError> {
    task::connect_in_background(connecting)
}

/// Connects for a program without an async runtime. The connection belongs to the calling process:
/// see [`connect`](connect#after-a-fork).
pub fn blocking_connect(url: &str) -> Result<Locks, ConnectError> {
    Options::new().blocking_connect(url)
}
