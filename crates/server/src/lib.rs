//! The lock service on sockets: [`Server::start`] with a [`Config`].
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
//! | module | job |
//! |---|---|
//! | `service` | the machines of `lockspan-protocol`, for many threads; see its header |
//! | `store` | epochs and sessions on disk |
//! | `net` | sockets, commands, replies |
//! | [`users`] | who may do what |
//! | `http` | the page and the metrics |
//! | `own_runtime` | threads apart from the lock service, for the page and for TLS handshakes |
//! | `audit` | nothing is done by operators that is not in the log |
//! | `machine` | limits that fit the memory and the descriptors |
//! | `readable` | names for people |
//! | `private` | files that only the server's user can open |
//! | `lock_holder` | which process has locked a file |
//! | `seldom` | messages that would flood the log |
//! | `server` | start and stop |
//! | `turn` | how long a task keeps a thread |

#![forbid(unsafe_code)]

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
pub use readable::readable;
pub use server::{Server, threads};
pub use stats::Stats;

/// Locks. A thread that died inside has left behind what nobody should go on with: then this dies
/// too, and clients keep what their leases give them.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().expect("no thread has died while it held this lock")
}
