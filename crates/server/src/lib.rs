//! The service on sockets.

#![forbid(unsafe_code)]
