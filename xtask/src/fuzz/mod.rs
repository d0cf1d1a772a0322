//! `cargo xtask fuzz`: bytes that nobody should send, for longer than in a test run.
//!
//! By default they come from seeds, and go to the decoder and to a running server. With
//! `--coverage` libFuzzer makes them, guided by which code they reach.

mod coverage;

use std::process::ExitCode;

use anyhow::{Context as _, Result, ensure};

use crate::args::Args;
use crate::command::Cmd;
use crate::workspace::Workspace;

/// Seconds for each target of `--coverage`, by default.
const SECONDS: u64 = 60;

/// Streams of bytes from seeds, by default.
const SEEDS: u64 = 20_000;

pub(crate) fn main(workspace: &Workspace, mut args: Args) -> Result<ExitCode> {
    std::env::set_current_dir(&workspace.root)?;
    if args.flag("--coverage") {
        let seconds = number("--seconds", args.value("--seconds")?, SECONDS)?;
        return coverage::run(workspace, seconds, args.at_most_one()?.as_deref());
    }
    let seeds = number("--seeds", args.value("--seeds")?, SEEDS)?;
    let first = number("--first", args.value("--first")?, 0)?;
    ensure!(args.rest()?.is_empty(), "only `fuzz --coverage` takes the name of a target");
    println!("seeds {first}..{}", first + seeds);
    Cmd::new("cargo test --release -p lockspan-server --test fuzz")
        .env("LOCKSPAN_FUZZ_SEEDS", seeds.to_string())
        .env("LOCKSPAN_FUZZ_FIRST", first.to_string())
        .args(["--", "--nocapture"])
        .run()?;
    Ok(ExitCode::SUCCESS)
}

fn number(name: &str, value: Option<String>, default: u64) -> Result<u64> {
    let Some(value) = value else { return Ok(default) };
    value.parse().with_context(|| format!("{name} {value}"))
}
