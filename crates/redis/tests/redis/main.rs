//! Locks on a real Redis, which each test starts for itself.

#![forbid(unsafe_code)]

mod by_hand;
mod cluster;
mod leases;
mod line;
mod refusals;
mod sentinel;
mod server;
mod tls;
mod trouble;
mod world;
