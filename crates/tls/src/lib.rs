//! TLS on a socket that several threads use at once, and the certificates that it needs.
//!
//! | module | job |
//! |---|---|
//! | `concerns` | what to tell about a server's certificate when it starts |
//! | `files` | certificates, keys and authorities from PEM files |
//! | `testing` | certificates for tests, with the feature of that name |
//! | `socket` | any of the sockets, with TLS or without |
//! | `stream` | a connection: reads and writes that never wait, as those of a plain socket |
//! | `trouble` | what a failed connection says about the other side |
//!
//! Versions 1.2 and 1.3, by rustls with the primitives of ring. This crate knows nothing about
//! locks.

#![forbid(unsafe_code)]

mod concerns;
mod files;
mod socket;
mod stream;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
mod trouble;

pub use files::{BadFile, ClientFiles, ServerFiles};
pub use rustls::{ClientConfig, ServerConfig};
pub use socket::{KEEPALIVE, Stream, prepare};
pub use stream::{TlsStream, blocking};
pub use trouble::TlsTrouble;
