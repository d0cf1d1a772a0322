//! `cargo xtask faults`: real processes that are killed, stopped and cut off, for minutes.

use std::process::ExitCode;

use anyhow::{Context as _, Result, ensure};

use crate::args::Args;
use crate::command::Cmd;
use crate::workspace::Workspace;

pub(crate) fn main(workspace: &Workspace, mut args: Args) -> Result<ExitCode> {
    let minutes = args.value("--minutes")?.unwrap_or_else(|| "3".to_owned());
    let minutes: u64 = minutes.parse().with_context(|| format!("--minutes {minutes}"))?;
    let (nodes, seed) = (args.value("--nodes")?, args.value("--seed")?);
    let cached = args.value("--cached")?;
    ensure!(args.rest()?.is_empty(), "faults takes no filter");
    std::env::set_current_dir(&workspace.root)?;
    // `lockspan run` takes part, and so does the program that forks.
    Cmd::new("cargo build --release -p lockspan-faults -p lockspan-cli").run()?;
    let mut run = Cmd::new("cargo run --release -p lockspan-faults --bin faults -- run --seconds")
        .arg((minutes * 60).to_string());
    for (name, value) in [("--nodes", nodes), ("--seed", seed), ("--cached", cached)] {
        if let Some(value) = value {
            run = run.arg(name).arg(value);
        }
    }
    run.run()?;
    Ok(ExitCode::SUCCESS)
}
