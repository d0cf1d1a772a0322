//! `cargo xtask search`: what takes too long for every test run, of the lock protocol and of the
//! dearest model of a thread lock.

use std::process::ExitCode;

use anyhow::Result;

use crate::args::Args;
use crate::command::Cmd;
use crate::models::LOOM;
use crate::workspace::Workspace;

/// Seeds of the fuzzer.
const FUZZ_SEEDS: &str = "20000";

pub(crate) fn main(workspace: &Workspace, args: Args) -> Result<ExitCode> {
    let worlds = args.at_most_one()?.unwrap_or_else(|| "0..20000".to_owned());
    std::env::set_current_dir(&workspace.root)?;
    Cmd::new("cargo run --release -p sim -- --require-coverage --seeds").arg(worlds).run()?;
    Cmd::new("cargo run --release -p sim -- --bugs").run()?;
    Cmd::new("cargo test --release -p lockspan-protocol --features mutants --test model")
        .env("LOCKSPAN_MODEL", "full")
        .args(["--", "--nocapture"])
        .run()?;
    Cmd::new("cargo test --release -p lockspan-protocol --test fuzz")
        .env("LOCKSPAN_FUZZ_SEEDS", FUZZ_SEEDS)
        .args(["--", "--nocapture"])
        .run()?;
    Cmd::new("cargo test --profile model --lib -p lockspan-thread fair_s8 --target-dir")
        .arg(workspace.target.join(LOOM.target_name()))
        .rustc_cfg(LOOM.cfg)
        .env("LOCKSPAN_MODEL", "full")
        .args(["--", "--nocapture"])
        .run()?;
    // A billion stores under revocable locks with each backend, of which none may be lost.
    Cmd::new("cargo test --release -p lockspan-thread --features signals --lib stress")
        .env("LOCKSPAN_STRESS_BILLIONS", "1")
        .args(["--", "--nocapture"])
        .run()?;
    Ok(ExitCode::SUCCESS)
}
