//! Runs every comparison once and very short, each in a process of its own: one pins its threads,
//! another one installs a recorder of metrics for the whole process.
//!
//! All but `python`, which needs the packages that it compares with: `cargo xtask test python`
//! installs them, and makes its smoke run.

use std::path::PathBuf;
use std::process::Command;
use std::time::Instant;

use crate::{cli, python, say};

pub(crate) fn run(out: Option<PathBuf>) -> Result<(), String> {
    let out = match out {
        Some(out) => out,
        None => crate::target_folder()?.join("bench-smoke"),
    };
    let this = std::env::current_exe().map_err(say)?;
    let mut failed = Vec::new();
    let names: Vec<_> = cli::NAMES.into_iter().filter(|name| *name != python::NAME).collect();
    for (number, name) in (1..).zip(names.iter().copied()) {
        eprintln!("[{number}/{}] {name}", names.len());
        let begun = Instant::now();
        let mut command = Command::new(&this);
        command.args([name, "--smoke", "--out"]).arg(out.join(name));
        let status = command.status().map_err(say)?;
        eprintln!("{name}: {status}, {:.1} s", begun.elapsed().as_secs_f64());
        if !status.success() {
            failed.push(name);
        }
    }
    match failed.is_empty() {
        true => Ok(()),
        false => Err(format!("failed: {}", failed.join(", "))),
    }
}
