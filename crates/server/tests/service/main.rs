//! The server over real sockets, with a small client of its own.

#![forbid(unsafe_code)]

mod actions;
mod again;
mod browser;
mod client;
mod commands;
mod crowd;
mod durable;
mod ending;
mod epochs;
mod everybody;
mod exposition;
mod graph;
mod guessing;
mod http;
mod labels;
mod limits;
mod lists;
mod lock;
mod lock_all;
mod lock_all_random;
mod locks;
mod metrics;
mod native;
mod page;
mod quotas;
mod readme;
mod replies;
mod rights;
mod stale;
mod strangers;
mod stress;
mod tls;
mod turns;
mod untrusted;
mod users;
mod waiting;
