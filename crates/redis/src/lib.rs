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
pub use url::service_address;

/// Connects to Redis, or to any other service, with the default [`Options`]:
/// `redis://[USER:PASSWORD@]HOST[:PORT][/DATABASE]`, `rediss://` for TLS,
/// `redis-sentinel://HOST,HOST?master=NAME`, `redis-cluster://HOST,HOST`, or what
/// [`lockspan_client::connect`] has.
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
