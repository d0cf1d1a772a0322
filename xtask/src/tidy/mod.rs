//! `cargo xtask tidy`: the rules of the house that neither the compiler nor clippy checks.
//!
//! Each check is a function from what it looks at to findings; a finding says where, what is wrong
//! and what to do.

mod atomics;
mod edges;
mod failures;
mod forbid;
mod includes;
mod licences;
mod links;
mod manifests;
mod prose;
mod readme;
mod safety;
mod sources;
mod text;
mod waits;

use std::fmt;
use std::process::ExitCode;

use anyhow::{Result, ensure};

use crate::args::Args;
use crate::workspace::Workspace;

pub(crate) use readme::{newest_results, with_results};

/// Something that is not as it should be.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Finding {
    path: String,
    line: usize,
    wrong: String,
    todo: String,
}

impl Finding {
    fn new(path: &str, line: usize, wrong: impl Into<String>, todo: impl Into<String>) -> Self {
        Self { path: path.to_owned(), line, wrong: wrong.into(), todo: todo.into() }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}; {}", self.path, self.line, self.wrong, self.todo)
    }
}

pub(crate) fn main(workspace: &Workspace, args: Args) -> Result<ExitCode> {
    ensure!(args.rest()?.is_empty(), "tidy takes no arguments");
    println!("{}", check(workspace)?);
    Ok(ExitCode::SUCCESS)
}

/// Runs every check and prints the findings; an error if there are any, else what was looked at.
pub(crate) fn check(workspace: &Workspace) -> Result<String> {
    let sources = workspace.files(&["rs"])?;
    let mut findings = Vec::new();
    for file in workspace.files(&["rs", "c", "h", "toml"])? {
        findings.extend(text::check(&file));
    }
    for file in &sources {
        findings.extend(atomics::check(file));
        findings.extend(safety::check(file));
        findings.extend(waits::check(file));
        findings.extend(includes::check(workspace, file));
    }
    for file in workspace.files(&["md"])? {
        findings.extend(links::check(&file, |target| workspace.root.join(target).exists()));
        findings.extend(prose::check(&file));
    }
    findings.extend(forbid::check(workspace)?);
    findings.extend(edges::check(workspace)?);
    findings.extend(licences::check(workspace)?);
    findings.extend(manifests::check(workspace)?);
    findings.extend(readme::check(workspace)?);
    findings.extend(failures::check(workspace, &sources)?);
    findings.extend(sources::check(workspace, &sources)?);
    for finding in &findings {
        println!("{finding}");
    }
    ensure!(findings.is_empty(), "{} findings", findings.len());
    let results = match newest_results(workspace)? {
        Some(folder) => format!("README's results are those of {folder}"),
        None => "no results are recorded yet, so README shows none".to_owned(),
    };
    Ok(format!("{} Rust files; {results}", sources.len()))
}
