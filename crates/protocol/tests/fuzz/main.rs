//! Arbitrary inputs for both machines, sensible and senseless mixed: no panic, no hang, every
//! invariant after every step, bounded memory, and a refused input changes nothing.
//!
//! `LOCKSPAN_FUZZ_SEEDS=5000 cargo test -p lockspan-protocol --test fuzz` tries more.

#![forbid(unsafe_code)]

mod cache;
mod common;
mod harness;
mod rng;
mod server;

#[test]
fn a_server_stands_whatever_comes() {
    harness::run::<server::ServerFuzz>("server");
}

#[test]
fn a_cache_stands_whatever_comes() {
    harness::run::<cache::CacheFuzz>("cache");
}
