//! The failures F1… of `docs/failures.md` with the real server and client, over sockets, and with
//! processes of their own where somebody has to be stopped or killed.

#![forbid(unsafe_code)]

mod floods;
mod foreign;
mod large;
mod network;
mod nodes;
mod servers;
mod story;

use std::path::Path;
use std::time::Duration;

use lockspan::{Locks, OwnedWriteGuard, Record};
use lockspan_faults::process::{self, Process};
use lockspan_faults::stage::soon;

/// The program of this package.
fn program() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_faults"))
}

/// A node in a process of its own.
fn puppet(url: &str, store: &Path, lease: Duration) -> Process {
    process::puppet(program(), url, store, lease).expect("it is started")
}

/// What a puppet answers.
async fn ask(puppet: &mut Process, line: &str) -> String {
    puppet.ask(line).await.expect("an answer")
}

/// The token with which a puppet holds a record.
async fn held(puppet: &mut Process, line: &str) -> i64 {
    let answer = ask(puppet, line).await;
    let token = answer.strip_prefix("held ").and_then(|token| token.parse().ok());
    token.unwrap_or_else(|| panic!("{line}: {answer}"))
}

fn record(locks: &Locks, name: &str) -> Record {
    locks.parse(name).expect("a name")
}

/// A record, held for writing.
async fn write(locks: &Locks, name: &str) -> OwnedWriteGuard {
    soon(name, record(locks, name).write_owned()).await.expect("granted")
}

/// A wait for a record, in a task of its own.
fn waits(locks: &Locks, name: &str) -> tokio::task::JoinHandle<OwnedWriteGuard> {
    let record = record(locks, name);
    tokio::spawn(async move { record.write_owned().await.expect("granted") })
}
