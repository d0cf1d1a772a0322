//! `docs/sources.md` lists what each document says, where that is, and which tests show it. Every
//! test that the page names must exist, and every statement must name one or say why there is none.
//!
//! A statement is a list item that begins with a bold sentence; its sub-items are *Here*, *Tests*
//! and, where something differs from the document, *Differs*:
//!
//! ```text
//! - **Any number of readers pass together; one writer is alone.**
//!   - Here: `fair/word.rs`
//!   - Tests: `readers_share_and_a_writer_is_alone`
//!   - Differs: The count of readers has a limit.
//! ```

use std::collections::BTreeSet;
use std::fs;

use anyhow::Result;

use super::Finding;
use crate::workspace::{File, Workspace};

const PAPER: &str = "docs/sources.md";

/// How a statement begins.
const STATEMENT: &str = "- **";

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

/// A statement of a document, with the text of its sub-items. Empty: there is no such sub-item.
#[derive(Debug, Default)]
struct Statement {
    line: usize,
    here: String,
    tests: String,
    differs: String,
}

/// All statements of the page. Lines that are indented continue the sub-item before them.
fn statements(paper: &File) -> Vec<Statement> {
    let mut statements = Vec::new();
    let mut sub_item: fn(&mut Statement) -> Option<&mut String> = |_| None;
    for (line, text) in paper.lines() {
        if text.starts_with(STATEMENT) {
            statements.push(Statement { line, ..Statement::default() });
            sub_item = |_| None;
        } else if !text.starts_with(' ') {
            sub_item = |_| None;
        }
        let Some(statement) = statements.last_mut() else { continue };
        let mut rest = text.trim();
        if let Some(item) = text.strip_prefix("  - ") {
            let Some((label, after)) = item.split_once(':') else { continue };
            sub_item = match label {
                "Here" => |statement| Some(&mut statement.here),
                "Tests" => |statement| Some(&mut statement.tests),
                "Differs" => |statement| Some(&mut statement.differs),
                _ => |_| None,
            };
            rest = after.trim();
        }
        if let Some(text) = sub_item(statement) {
            text.push_str(rest);
            text.push(' ');
        }
    }
    statements
}

fn look(paper: &File, known: &BTreeSet<&str>, is_file: impl Fn(&str) -> bool) -> Vec<Finding> {
    let mut findings = Vec::new();
    let statements = statements(paper);
    if statements.is_empty() {
        let todo = "begin each statement of a document with `- **`";
        findings.push(Finding::new(&paper.path, 1, "there is no statement", todo));
    }
    for Statement { line, here, tests, differs } in &statements {
        let mut add = |wrong: String, todo: &str| {
            findings.push(Finding::new(&paper.path, *line, wrong, todo));
        };
        if here.trim().is_empty() {
            add("this statement has no `Here:`".to_owned(), "say where it is, or that it is not");
        }
        let names: Vec<_> = quoted(tests).collect();
        if names.is_empty() && differs.trim().is_empty() {
            add("no test shows this".to_owned(), "name one, or say why there is none");
        }
        for name in names {
            let is_known = if name.contains('/') { is_file(name) } else { known.contains(name) };
            if !is_known {
                add(format!("there is no test `{name}`"), "name one that exists");
            }
        }
        // `Differs:` names tests too, where they show what differs.
        for name in quoted(differs).filter(|name| name.matches('_').count() > 2) {
            if !known.contains(name) {
                add(format!("there is no test `{name}`"), "name one that exists");
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

    fn wrongs(text: &str) -> Vec<String> {
        let source = "#[test]\nfn it_is_so() {\n    async fn also_this<T>(\n".to_owned();
        let sources = [File { path: "crates/a.rs".to_owned(), text: source }];
        let paper = File { path: PAPER.to_owned(), text: text.to_owned() };
        let findings = look(&paper, &functions(&sources), |path| path == "tests/c/a.c");
        findings.into_iter().map(|finding| finding.wrong).collect()
    }

    #[test]
    fn statements_with_tests_that_exist_or_with_a_reason_pass() {
        let wrapped = "- **a**\n  - Here: `b`\n  - Tests: `it_is_so`,\n    `also_this`\n";
        assert!(wrongs(wrapped).is_empty());
        let file = "- **a**\n  - Here: b\n  - Tests: `tests/c/a.c`\n  - Differs: since\n";
        assert!(wrongs(file).is_empty());
        let reason = "- **a**\n  - Here: nothing\n  - Tests: none\n  - Differs: no need\n";
        assert!(wrongs(reason).is_empty());
        let other = "- other `it_is_not`\n\n- **a**\n  - Here: b\n  - Tests: `it_is_so`\n\ntext\n";
        assert!(wrongs(other).is_empty(), "other lists and paragraphs do not count");
    }

    #[test]
    fn what_is_missing_is_found() {
        let with = |tests: &str| wrongs(&format!("- **a**\n  - Here: b\n  - Tests: {tests}\n"));
        assert_eq!(with("none"), ["no test shows this"]);
        assert_eq!(with("`it_is_not`"), ["there is no test `it_is_not`"]);
        assert_eq!(with("`it_is_so`,\n    `it_is_not`"), ["there is no test `it_is_not`"]);
        assert_eq!(with("`tests/c/b.c`"), ["there is no test `tests/c/b.c`"]);
        let wrong = "there is no test `that_is_not_so`";
        assert_eq!(with("`it_is_so`\n  - Differs: but `that_is_not_so`"), [wrong]);
        let wrong = "this statement has no `Here:`";
        assert_eq!(wrongs("- **a**\n  - Tests: `it_is_so`\n"), [wrong]);
        assert_eq!(wrongs("# A page\n"), ["there is no statement"]);
    }
}
