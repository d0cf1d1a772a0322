//! `lockspan run` in a run of faults: the supervisor, and the command that it runs.
//!
//! The command is inside while it runs. It can be killed at any moment, so it writes down each
//! stretch of time as soon as that is over: each line begins where the last one ended.

use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result};
use fastrand::Rng;

use crate::clock;
use crate::journal::{Entry, Held, Journal};
use crate::store::Store;

/// The lease of a supervisor.
pub const LEASE: Duration = Duration::from_secs(2);

/// What a supervisor and its command are to do.
#[derive(Clone, Debug)]
pub struct Job {
    /// The number of the record.
    pub record: u32,
    /// What it is called in the store.
    pub name: String,
    /// The store's folder.
    pub store: PathBuf,
    /// Where to write down when it was inside.
    pub journal: PathBuf,
    /// For its choices.
    pub seed: u64,
}

/// Becomes `lockspan run` with the command below. It returns only if that fails.
pub fn supervise(cli: &PathBuf, url: &str, job: &Job) -> Result<()> {
    let mut command = Command::new(cli);
    let lease = format!("{}ms", LEASE.as_millis());
    command.args(["run", "--url", url, "--wait", "5s", "--lease", &lease]);
    command.arg(format!("r:{}", job.record)).arg("--").arg(std::env::current_exe()?);
    command.args(["inside", "--record", &job.record.to_string(), "--name", &job.name]);
    command.args(["--seed", &job.seed.to_string(), "--store"]).arg(&job.store);
    command.arg("--journal").arg(&job.journal);
    // It says whom it waits for, and that the lock was lost: both are to be expected.
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    Err(command.exec()).with_context(|| cli.display().to_string())
}

/// The command: it adds one to what is stored, and writes down when it was there.
pub fn inside(job: &Job) -> Result<()> {
    let begin = clock::now();
    let token = std::env::var("LOCKSPAN_TOKEN").context("LOCKSPAN_TOKEN")?.parse()?;
    let (journal, store) = (Journal::create(&job.journal)?, Store::new(&job.store));
    let (record, mut rng) = (format!("r{}", job.record), Rng::with_seed(job.seed));
    let mut last = begin;
    let mut look = || {
        let end = clock::now();
        let record = record.clone();
        let held = Held { record, is_write: true, token, asked: begin, begin: last, end };
        last = end;
        journal.write(&Entry::Held(held))
    };
    let fenced = || journal.write(&Entry::Fenced { record: record.clone(), token });
    look()?;
    let Ok(base) = store.open(&record, &job.name, token)? else { return Ok(fenced()?) };
    for _ in 0..rng.u32(..200) {
        std::thread::sleep(Duration::from_micros(rng.u64(..20_000)));
        look()?;
    }
    if store.put(&record, &job.name, token, base)?.is_err() {
        fenced()?;
    }
    Ok(look()?)
}
