//! `cargo xtask fuzz`: bytes that nobody should send, for longer than in a test run.

use std::process::ExitCode;

use anyhow::{Context as _, Result, ensure};

use crate::args::Args;
use crate::command::Cmd;
use crate::workspace::Workspace;

pub(crate) fn main(workspace: &Workspace, mut args: Args) -> Result<ExitCode> {
    let number = |name: &str, value: Option<String>, usually: u64| -> Result<u64> {
        let Some(value) = value else { return Ok(usually) };
        value.parse().with_context(|| format!("{name} {value}"))
    };
    let seeds = number("--seeds", args.value("--seeds")?, 20_000)?;
    let first = number("--first", args.value("--first")?, 0)?;
    ensure!(args.rest()?.is_empty(), "fuzz takes no filter");
    std::env::set_current_dir(&workspace.root)?;
    println!("seeds {first}..{}", first + seeds);
    Cmd::new("cargo test --release -p lockspan-server --test fuzz")
        .env("LOCKSPAN_FUZZ_SEEDS", seeds.to_string())
        .env("LOCKSPAN_FUZZ_FIRST", first.to_string())
        .args(["--", "--nocapture"])
        .run()?;
    Ok(ExitCode::SUCCESS)
}
