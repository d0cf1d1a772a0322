//! Locks on records in a Redis (or Valkey) that is already there.
//!
//! [`connect`] gives the same `Locks`, `Record` and guards as any lock service. The data model is
//! one that a person with `redis-cli` and a program in any language can follow by hand;
//! `docs/redis.md` has it, and says what Redis can't promise.
//!
//! | module | job |
//! |---|---|
//! | `options`, `url` | how to be connected, and to what |
//! | `desk`, `claim`, `answer` | the server's half of the protocol, played with scripts |
//! | `script`, `lua/`, `keys`, `identity` | what is said to Redis |
//! | `link` | connections: one server, sentinels, a cluster |
//! | `trouble` | what can go wrong, in words |

#![forbid(unsafe_code)]

mod alarms;
mod answer;
mod claim;
mod desk;
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
#[doc = concat!(
    " | `redis://[USER:PASSWORD@]HOST[:PORT][/DATABASE]`, `rediss://` | a Redis, without ",
    "and with TLS |",
)]
/// | `redis-sentinel://HOST,HOST?master=NAME` | a Redis that sentinels look after |
/// | `redis-cluster://HOST,HOST` | a Redis Cluster |
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
/// # After a fork
///
/// The connection belongs to the process that made it: in a child that `fork` has made, everything
/// of it is lost, and the child has to connect again. See
/// [`lockspan_client::connect`](lockspan_client::connect#after-a-fork).
pub async fn connect(url: &str) -> Result<Locks, ConnectError> {
    Options::new().connect(url).await
}

/// Connects for a program without an async runtime.
pub fn blocking_connect(url: &str) -> Result<Locks, ConnectError> {
    Options::new().blocking_connect(url)
}
