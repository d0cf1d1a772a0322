//! Clients of others talk to the real binary: `redis-cli`, redis-py, node-redis and redis-rs.
//!
//! `cargo xtask test tools` installs what is not here yet, and `cargo xtask test tests` says where
//! it is: `LOCKSPAN_PYTHON` is an interpreter with redis-py, `LOCKSPAN_NODE` a folder in which
//! `redis` can be imported.

#![forbid(unsafe_code)]

#[path = "../common/mod.rs"]
mod common;
mod names;
mod node;
mod page;
mod python;
mod redis_cli;
mod redis_rs;
mod replay;
mod server;
mod tool;
