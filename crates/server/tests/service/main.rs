//! The server over real sockets, with a small client of its own.

#![forbid(unsafe_code)]

mod client;
mod commands;
mod durable;
mod ending;
mod limits;
mod locks;
mod native;
mod replies;
mod stress;
mod waiting;
