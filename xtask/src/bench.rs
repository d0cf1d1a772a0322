//! `cargo xtask bench`: starts the comparisons; the benches crate measures and writes the results.

use std::fs;
use std::process::ExitCode;

use anyhow::{Context as _, Result, ensure};

use crate::args::Args;
use crate::command::Cmd;
use crate::preload;
use crate::tidy;
use crate::workspace::Workspace;

/// Comparisons that are programs of their own: progressive locks, and revocable ones.
const PROGRAMS: [&str; 2] = ["progressive", "revocable"];

pub(crate) fn main(workspace: &Workspace, mut args: Args) -> Result<ExitCode> {
    let record = args.value("--record")?;
    let readme = args.flag("--readme");
    let filter = args.at_most_one()?;
    std::env::set_current_dir(&workspace.root)?;

    if filter.as_deref() == Some("preload") {
        ensure!(record.is_none(), "bench preload prints its results and records none");
        preload::compare(workspace, false)?;
        return Ok(ExitCode::SUCCESS);
    }
    if let Some(program) = PROGRAMS.into_iter().find(|name| filter.as_deref() == Some(name)) {
        let mut command = Cmd::new("cargo run --release -p lockspan-benches --bin");
        command = command.args([program, "--"]);
        if let Some(name) = record {
            command = command.arg("--record").arg(name);
        }
        command.run()?;
        return Ok(ExitCode::SUCCESS);
    }

    // `--readme` alone copies what is recorded already.
    if record.is_some() || filter.is_some() || !readme {
        let mut command = Cmd::new("cargo run --release -p lockspan-benches --");
        command = match record {
            Some(name) => command.arg("--record").arg(name),
            None => command.arg("--out").arg(workspace.target.join("bench")),
        };
        if let Some(filter) = filter {
            command = command.arg("--filter").arg(filter);
        }
        command.run()?;
    }
    if readme {
        let folder = tidy::newest_results(workspace)?;
        let folder = folder.context("no results yet: `cargo xtask bench --record NAME` first")?;
        fs::write(workspace.root.join("README.md"), tidy::with_results(workspace, &folder)?)?;
        println!("README.md shows {folder}");
    }
    Ok(ExitCode::SUCCESS)
}
