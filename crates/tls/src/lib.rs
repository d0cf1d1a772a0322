//! TLS sockets that several threads use at once, and certificates from PEM files.
//!
//! This crate is a part of Lockspan's server and client; programs have no need to call it. It uses
//! rustls with the cryptography of ring, for TLS 1.2 and 1.3, and knows nothing about locks.
//!
//! | type | job |
//! |---|---|
//! | [`ServerFiles`], [`ClientFiles`] | read certificates, keys and authorities from PEM files |
//! | [`Stream`] | a TCP, TLS or Unix socket, read and written without exclusive access |
//! | [`TlsStream`] | a TLS connection with reads and writes that never wait |
//! | [`TlsTrouble`] | why a connection failed, as far as a person can do something about it |
//!
//! With the feature `testing`, the module `testing` makes certificates for tests.
//!
//! Without the feature `rustls` only plain sockets are left, and no C compiler is needed.

#![forbid(unsafe_code)]

#[cfg(feature = "rustls")]
mod concerns;
mod files;
#[cfg(feature = "rustls")]
mod load;
mod socket;
#[cfg(feature = "rustls")]
mod stream;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
mod trouble;
#[cfg(not(feature = "rustls"))]
mod without;

pub use files::{BadFile, ClientFiles, ServerFiles};
#[cfg(feature = "rustls")]
pub use rustls::{ClientConfig, ServerConfig};
pub use socket::{KEEPALIVE, Stream, prepare};
#[cfg(feature = "rustls")]
pub use stream::{TlsStream, blocking};
pub use trouble::TlsTrouble;
#[cfg(not(feature = "rustls"))]
pub use without::{ClientConfig, ServerConfig, TlsStream, blocking};

/// The examples of this crate's README, which run with the documentation tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
