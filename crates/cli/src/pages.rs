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
        return print(readable(&String::from_utf8_lossy(&page)).as_bytes());
    };
    write_pages(dir)
        .map_err(|bad| Failure::new(SYSTEM, format!("can't write to {}: {bad}", dir.display())))?;
    Ok(ExitCode::SUCCESS)
}

fn write_pages(dir: &Path) -> io::Result<()> {
    fs::create_dir_all(dir)?;
    clap_mangen::generate_to(Cli::command(), dir)?;
    let cli = Cli::command();
    let commands =
        cli.get_subcommands().map(|command| format!("lockspan-{}.1", command.get_name()));
    for name in commands.chain(["lockspan.1".to_owned()]) {
        let path = dir.join(name);
        fs::write(&path, readable(&fs::read_to_string(&path)?))?;
    }
    Ok(())
}

/// Lines that are set in, as examples and tables are, stay as they are: a page fills the others.
fn readable(page: &str) -> String {
    let mut readable = String::new();
    let mut kept = false;
    for line in page.lines() {
        let keep = line.starts_with(' ');
        if keep != kept {
            readable += if keep { ".nf\n" } else { ".fi\n" };
            kept = keep;
        }
        readable += line;
        readable.push('\n');
    }
    readable
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn examples_of_a_page_keep_their_lines() {
        let page = ".SH EXTRA\nA text.\n  one\n  two\nMore.\n";
        let expected = ".SH EXTRA\nA text.\n.nf\n  one\n  two\n.fi\nMore.\n";
        assert_eq!(readable(page), expected);
    }
}
