//! Locks on records in an existing Redis or Valkey.
//!
//! Most programs depend on the crate `lockspan`, whose feature `redis` (on by default) contains all
//! of this.
//!
//! Use it where a Redis is already in operation and a Lockspan server is not wanted. [`connect`]
//! returns the same [`Locks`], records and guards as with a Lockspan server:
//!
//! ```no_run
//! # tokio::runtime::Runtime::new().unwrap().block_on(async {
//! let locks = lockspan_redis::connect("redis://localhost").await?;
//! let invoice = locks.record("invoice", 42)?;
//! let held = invoice.write().await?;
//! println!("writing with token {}", held.token());
//! # Ok::<(), Box<dyn std::error::Error>>(()) }).unwrap();
//! ```
//!
//! Two keys per record show who holds it, so that a person with `redis-cli`, or a program in any
//! language, can lock the same records by hand. `docs/redis.md` in the repository describes them.
//!
//! # What differs from a Lockspan server
//!
//! - Redis can lose acknowledged writes in a fail-over, and a lock with them. Check the [fencing
//!   token](lockspan_client::Guard::token) where that matters.
//! - Records are not cached by default: every acquire and release is a round trip to Redis
//!   ([`Options::caching`]).
//! - A failure of Redis is [`LockError::Trouble`](lockspan_client::LockError::Trouble).
//!
//! # Features
//!
//! Both are on by default: `tls` adds `rediss://` and `lockspans://` and compiles C code (ring);
//! `metrics` adds counts and times for the recorder of the crate `metrics`.

#![forbid(unsafe_code)]

// | module | job |
// |---|---|
// | `options`, `url` | options of a connection, and addresses |
// | `desk`, `claim`, `answer` | the server's half of the protocol, made of scripts |
// | `script`, `lua/`, `keys`, `identity` | the commands and keys in Redis |
// | `link` | connections: one server, sentinels, a cluster |
// | `trouble` | errors, with messages for people |

mod alarms;
mod answer;
mod claim;
mod desk;
mod holders;
mod identity;
mod keys;
mod link;
mod options;
mod peer;
mod script;
mod trouble;
mod url;

use lockspan_client::{ConnectError, Locks};

pub use options::Options;
#[doc(hidden)]
pub use url::service_address;

/// Connects to Redis, or to any other service, with the default [`Options`].
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
#[doc = concat!(
    " | `redis://[USER:PASSWORD@]HOST[:PORT][/DATABASE]`, `rediss://…` | a Redis, without ",
    "and with TLS. The port defaults to 6379 |",
)]
/// | `redis-sentinel://HOST,HOST?master=NAME` | a Redis that Redis Sentinel looks after |
/// | `redis-cluster://HOST,HOST` | a Redis Cluster |
///
/// The connection is looked after by a task of the tokio runtime that this is called in. It
/// reconnects by itself.
///
/// ```
/// # tokio::runtime::Runtime::new().unwrap().block_on(async {
/// let one = lockspan_redis::connect("memory:a").await?;
/// let held = one.record("invoice", 42)?.write_owned().await?;
/// // Another name is another service.
/// let other = lockspan_redis::connect("memory:b").await?;
/// assert!(other.record("invoice", 42)?.try_write().await?.is_some());
/// // The same name is the same service.
/// let same = lockspan_redis::connect("memory:a").await?;
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
/// The connection belongs to the process that made it. A child made by `fork` has to connect again:
/// see [`lockspan_client::connect`](lockspan_client::connect#after-a-fork).
pub async fn connect(url: &str) -> Result<Locks, ConnectError> {
    Options::new().connect(url).await
}

/// Connects for a program without an async runtime, with the default [`Options`].
///
/// Takes the URLs of [`connect`]. One background thread looks after all connections that are made
/// like this. Use the `blocking_` methods of records and guards with it.
///
/// ```
/// let locks = lockspan_redis::blocking_connect("memory:")?;
/// let invoice = locks.record("invoice", 42)?;
/// let held = invoice.blocking_write()?;
/// assert!(held.is_valid());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
///
/// As [`connect`].
pub fn blocking_connect(url: &str) -> Result<Locks, ConnectError> {
    Options::new().blocking_connect(url)
}

/// The examples of this crate's README, which run with the documentation tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
