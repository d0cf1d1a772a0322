//! `cargo xtask bench`: builds and runs `lockspan-bench`, which compares our locks with others.

use std::fs;
use std::process::ExitCode;

use anyhow::{Context as _, Result};

use crate::args::Args;
use crate::command::Cmd;
use crate::package;
use crate::table;
use crate::tidy;
use crate::workspace::Workspace;

/// Stands for every comparison, one after the other.
const ALL: &str = "all";

/// The page that lists the comparisons in a table.
const PAGE: &str = "benches/README.md";

/// What the comparison `python` imports, with a module of each. The package's own fixtures start
/// the server, and they are pytest's.
const PYTHON_PEERS: [(&str, &str); 3] =
    [("redis", "redis"), ("python-redis-lock", "redis_lock"), ("pytest", "pytest")];

pub(crate) fn main(workspace: &Workspace, mut args: Args) -> Result<ExitCode> {
    let readme = args.flag("--readme");
    let words = args.all();
    std::env::set_current_dir(&workspace.root)?;
    match words.split_first() {
        Some((all, options)) if all == ALL => {
            for row in rows(&page()?) {
                run(workspace, &row[0], options)?;
            }
        }
        Some((comparison, options)) => run(workspace, comparison, options)?,
        None if !readme => list()?,
        // `--readme` alone copies what is recorded already.
        None => {}
    }
    if readme {
        let folder = tidy::newest_results(workspace)?;
        let folder = folder.context("no results yet: `cargo xtask bench threads --record NAME`")?;
        fs::write(workspace.root.join("README.md"), tidy::with_results(workspace, &folder)?)?;
        println!("README.md shows {folder}");
    }
    Ok(ExitCode::SUCCESS)
}

/// Builds what the comparison measures, and runs it.
fn run(workspace: &Workspace, comparison: &str, options: &[String]) -> Result<()> {
    // Built apart, so that no package has features that only another one needs.
    match comparison {
        "service" => Cmd::new("cargo build --release -p lockspan-cli").run()?,
        "abuse" => {
            Cmd::new("cargo build --release -p lockspan-faults").run()?;
            Cmd::new("cargo build --release -p lockspan-cli").run()?;
        }
        "python" => {
            for (package, module) in PYTHON_PEERS {
                package::python_tool(workspace, package, module)?;
            }
            Cmd::new("cargo build --release -p lockspan-cli").run()?;
            Cmd::new("cargo build --release -p lockspan-python").run()?;
        }
        "preload" => Cmd::new("cargo build --release -p lockspan-pthread").run()?,
        _ => {}
    }
    Cmd::new("cargo build --release -p lockspan-benches").run()?;
    let bench = Cmd::program(workspace.target.join("release/lockspan-bench"));
    bench.arg(comparison).args(options).env("LOCKSPAN_PYTHON", workspace.python()).run()
}

fn page() -> Result<String> {
    fs::read_to_string(PAGE).context(PAGE)
}

/// Prints the table of comparisons.
fn list() -> Result<()> {
    table::print(&["comparison", "what is compared"], &rows(&page()?));
    println!("\n`cargo xtask bench COMPARISON --help` has its options; {PAGE} says more.");
    Ok(())
}

/// The rows of the page's table whose first cell is a name in back-quotes.
fn rows(page: &str) -> Vec<Vec<String>> {
    let row = |line: &str| {
        let (name, what) = line.strip_prefix("| `")?.strip_suffix(" |")?.split_once("` | ")?;
        // Other tables have file names in their first column.
        name.chars().all(char::is_alphabetic).then(|| vec![name.to_owned(), what.to_owned()])
    };
    page.lines().filter_map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_comparisons_are_read_from_the_page() {
        let page = "| comparison | what |\n|---|---|\n| `a` | one |\n| `b` | two |\n\n\
                    | `x.csv` | y |\n";
        assert_eq!(rows(page), [["a", "one"], ["b", "two"]]);
    }
}
