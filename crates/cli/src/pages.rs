//! What a package of the program brings along: completions and manual pages.

use std::fs;
use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;

use clap::CommandFactory;
use clap_complete::Shell;

use crate::args::Cli;
use crate::exit::{Failure, SYSTEM};

/// Prints the completions for `shell`.
pub(crate) fn completions(shell: Shell) -> Result<ExitCode, Failure> {
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "lockspan", &mut text);
    print(&text)
}

/// Prints the manual page, or writes those of all commands into `dir`.
pub(crate) fn manual(dir: Option<&Path>) -> Result<ExitCode, Failure> {
    let Some(dir) = dir else {
        let mut page = Vec::new();
        let rendered = clap_mangen::Man::new(Cli::command()).render(&mut page);
        rendered.map_err(|bad| Failure::new(SYSTEM, bad.to_string()))?;
        return print(&page);
    };
    fs::create_dir_all(dir)
        .and_then(|()| clap_mangen::generate_to(Cli::command(), dir))
        .map_err(|bad| Failure::new(SYSTEM, format!("can't write to {}: {bad}", dir.display())))?;
    Ok(ExitCode::SUCCESS)
}

/// A reader that has seen enough, such as `head`, is no failure.
fn print(text: &[u8]) -> Result<ExitCode, Failure> {
    match io::stdout().write_all(text) {
        Err(bad) if bad.kind() != io::ErrorKind::BrokenPipe => {
            Err(Failure::new(SYSTEM, format!("can't write to stdout: {bad}")))
        }
        _ => Ok(ExitCode::SUCCESS),
    }
}
