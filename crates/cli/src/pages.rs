//! What a package of the program brings along: completions and manual pages.

use std::fs;
use std::path::Path;
use std::process::ExitCode;

use clap::{Arg, CommandFactory, ValueHint};
use clap_complete::Shell;

use crate::args::Cli;
use crate::exit::{Failure, SYSTEM};
use crate::manual;
use crate::output::print;

/// Prints the completions for `shell`.
pub(crate) fn completions(shell: Shell) -> Result<ExitCode, Failure> {
    let mut text = Vec::new();
    let mut command = Cli::command().mut_subcommands(|command| command.mut_args(with_hint));
    clap_complete::generate(shell, &mut command, "lockspan", &mut text);
    print(&text)
}

/// Files are offered for options that take one, and for no others: not for URLs and times.
fn with_hint(arg: Arg) -> Arg {
    if !arg.get_action().takes_values() || arg.get_value_hint() != ValueHint::Unknown {
        return arg;
    }
    let takes = |what| arg.get_value_names().is_some_and(|names| names[0].contains(what));
    let hint = match (takes("FILE"), takes("DIR")) {
        (true, _) => ValueHint::FilePath,
        (_, true) => ValueHint::DirPath,
        _ => ValueHint::Other,
    };
    arg.value_hint(hint)
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
