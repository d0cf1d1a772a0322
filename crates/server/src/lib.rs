//! The Lockspan lock server, to embed in a program.
//!
//! Most people run the server with the command `lockspan serve`, which is built on this crate. Use
//! the crate to start a server inside a test or another program: [`Server::start`] with a
//! [`Config`]. Clients connect with the crate `lockspan`.
//!
//! ```
//! use lockspan_server::{Address, Config, Data, Server};
//!
//! # #[tokio::main]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let server = Server::start(Config {
//!     listen: vec!["127.0.0.1:0".parse()?],
//!     data: Data::None { fresh: true },
//!     ..Config::default()
//! })
//! .await?;
//! assert!(matches!(server.addresses()[0], Address::Tcp(at) if at.port() != 0));
//! server.stop().await;
//! # Ok(())
//! # }
//! ```
//!
//! A server without a data directory ([`Data::None`]) that is not `fresh` grants nothing until
//! every lease of an earlier run must have expired, about a minute by default: clients may still
//! hold locks of that run. Give the server a directory, or set `fresh` if there was no earlier
//! run.
//!
//! The module [`users`] has the file of users and their rights.

#![forbid(unsafe_code)]

// | module | job |
// |---|---|
// | `service` | the state machines of `lockspan-protocol`, for many threads; see its header |
// | `store` | epochs and sessions on disk |
// | `net` | sockets, commands, replies |
// | `users` | users, passwords and rights |
// | `http` | the web page and the metrics |
// | `own_runtime` | threads apart from the lock service, for the page and for TLS handshakes |
// | `audit` | operators' actions are logged, or not carried out |
// | `machine` | limits that fit the memory and the file descriptors |
// | `readable` | names as text for people |
// | `private` | files that only the server's user can open |
// | `lock_holder` | which process has locked a file |
// | `seldom` | rate limits for log messages |
// | `server` | start and stop |
// | `turn` | how long a task keeps a thread |

mod advice;
mod audit;
mod clock;
mod config;
mod error;
mod http;
mod lock_holder;
mod machine;
mod net;
mod own_runtime;
mod private;
mod readable;
mod seldom;
mod server;
mod service;
mod stats;
mod store;
mod turn;
pub mod users;

use std::sync::{Mutex, MutexGuard};

pub use audit::{AUDIT, AuditGate};
pub use config::{
    Address, BadAddress, Config, DEFAULT_HTTP_PORT, DEFAULT_PORT, Data, Http, LostData,
    SocketRights,
};
pub use error::StartError;
pub use lock_holder::LockHolder;
pub use lockspan_tls::ServerFiles;
pub use machine::{Fitted, Machine};
#[doc(hidden)]
pub use net::glob::Pattern;
pub use readable::readable;
pub use server::{Server, threads};
pub use stats::Stats;

/// Locks a mutex. Panics if a thread panicked while it held it: its data may be inconsistent.
/// Clients then keep their locks until the leases expire.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().expect("no thread has died while it held this lock")
}

/// The examples of this crate's README, which run with the documentation tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
