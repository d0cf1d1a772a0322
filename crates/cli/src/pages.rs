//! What a package of the program brings along: completions and manual pages.

use std::fs;
use std::path::Path;
use std::process::ExitCode;

use clap::CommandFactory;
use clap_complete::Shell;

use crate::args::Cli;
use crate::exit::{Failure, SYSTEM};
use crate::manual;
use crate::output::print;

/// Prints the completions for `shell`.
pub(crate) fn completions(shell: Shell) -> Result<ExitCode, Failure> {
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "lockspan", &mut text);
    print(&text)
}

/// Prints the manual page, or writes those of all commands into `dir`.
pub(crate) fn manual(dir: Option<&Path>) -> Result<ExitCode, Failure> {
    let pages = manual::pages().map_err(|bad| Failure::new(SYSTEM, bad.to_string()))?;
    match dir {
        None => print(&pages[0].text),
        Some(dir) => {
            let written = fs::create_dir_all(dir).and_then(|()| {
                pages.iter().try_for_each(|page| fs::write(dir.join(&page.file), &page.text))
            });
            let failed =
                |bad| Failure::new(SYSTEM, format!("can't write to {}: {bad}", dir.display()));
            written.map(|()| ExitCode::SUCCESS).map_err(failed)
        }
    }
}
