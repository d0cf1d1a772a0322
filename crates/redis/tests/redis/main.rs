//! Locks on a real Redis, which each test starts for itself.

#![forbid(unsafe_code)]

mod by_hand;
mod cluster;
mod late;
mod leases;
mod line;
mod proxy;
mod refusals;
mod sentinel;
mod server;
mod tls;
mod trouble;
mod world;
