//! `docs/sources.md` says where each sentence of the documents is, and which tests show it: each
//! test that it names exists, and each row names one or says why there is none.
//!
//! A table has the columns *what the document says*, *here*, *test*, *what differs*.

use std::collections::BTreeSet;
use std::fs;

use anyhow::Result;

use super::Finding;
use crate::workspace::{File, Workspace};

const PAPER: &str = "docs/sources.md";

/// How the heading of a table begins that is looked at.
const HEADING: &str = "| the document says | ";

pub(super) fn check(workspace: &Workspace, sources: &[File]) -> Result<Vec<Finding>> {
    let text = fs::read_to_string(workspace.root.join(PAPER))?;
    let paper = File { path: PAPER.to_owned(), text };
    Ok(look(&paper, &functions(sources), |path| workspace.root.join(path).is_file()))
}

/// The names of all functions.
fn functions(sources: &[File]) -> BTreeSet<&str> {
    let lines = sources.iter().flat_map(|file| file.text.lines());
    let after_fn = lines.filter_map(|line| line.split_once("fn "));
    after_fn.filter_map(|(_, rest)| rest.split_once(['(', '<'])).map(|(name, _)| name).collect()
}

fn look(paper: &File, known: &BTreeSet<&str>, is_file: impl Fn(&str) -> bool) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut is_table = false;
    for (number, line) in paper.lines() {
        let is_heading = line.starts_with(HEADING);
        is_table = is_heading || is_table && line.starts_with('|');
        if !is_table || is_heading || line.starts_with("|---") {
            continue;
        }
        let mut add = |wrong: String, todo: &str| {
            findings.push(Finding::new(&paper.path, number, wrong, todo));
        };
        let cells: Vec<_> = line.trim_matches('|').split(" | ").map(str::trim).collect();
        let [_, _, tests, differs] = cells[..] else {
            add(format!("this row has {} cells", cells.len()), "it should have four");
            continue;
        };
        let names: Vec<_> = quoted(tests).collect();
        if names.is_empty() && differs.is_empty() {
            add("no test shows this".to_owned(), "name one, or say why there is none");
        }
        for name in names {
            let is_known = if name.contains('/') { is_file(name) } else { known.contains(name) };
            if !is_known {
                add(format!("there is no test `{name}`"), "name one that there is");
            }
        }
        // Names of tests stand in the last cell too, where they show what differs.
        for name in quoted(differs).filter(|name| name.matches('_').count() > 2) {
            if !known.contains(name) {
                add(format!("there is no test `{name}`"), "name one that there is");
            }
        }
    }
    findings
}

/// What is in back-quotes.
fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wrongs(rows: &str) -> Vec<String> {
        let source = "#[test]\nfn it_is_so() {\n    async fn also_this<T>(\n".to_owned();
        let sources = [File { path: "crates/a.rs".to_owned(), text: source }];
        let text = format!("{HEADING}here | test | what differs |\n|---|---|---|---|\n{rows}\n");
        let paper = File { path: PAPER.to_owned(), text };
        let findings = look(&paper, &functions(&sources), |path| path == "tests/c/a.c");
        findings.into_iter().map(|finding| finding.wrong).collect()
    }

    #[test]
    fn rows_with_tests_that_exist_or_with_a_reason_pass() {
        assert!(wrongs("| a | `b` | `it_is_so`, `also_this` | |").is_empty());
        assert!(wrongs("| a | `b` | `tests/c/a.c` | since |").is_empty());
        assert!(wrongs("| a | – | – | nobody needs it |").is_empty());
        assert!(wrongs("| a | b | `it_is_so` | |\n\n| x | y |").is_empty(), "another table");
    }

    #[test]
    fn what_is_missing_is_found() {
        assert_eq!(wrongs("| a | b | – | |"), ["no test shows this"]);
        assert_eq!(wrongs("| a | b | `it_is_not` | |"), ["there is no test `it_is_not`"]);
        assert_eq!(wrongs("| a | b | `tests/c/b.c` | |"), ["there is no test `tests/c/b.c`"]);
        assert_eq!(wrongs("| a | b | `it_is_so` |"), ["this row has 3 cells"]);
        let wrong = "there is no test `that_is_not_so`";
        assert_eq!(wrongs("| a | b | `it_is_so` | but `that_is_not_so` |"), [wrong]);
    }
}
