//! `docs/failures.md` lists the failures that the fair lock and the lock service are tested
//! against. Every test whose name starts with `fair_s` or `service_f` and a number must be listed
//! there, and every such name that is listed must be a test.

use std::collections::BTreeMap;
use std::fs;

use anyhow::Result;

use super::Finding;
use crate::workspace::{File, Workspace};

const PAPER: &str = "docs/failures.md";

/// How the names of such tests begin; a number follows.
const PREFIXES: [&str; 2] = ["fair_s", "service_f"];

/// Where they are.
const FOLDERS: [&str; 2] = ["crates/", "faults/"];

/// A test's name and the place where it stands: path and line.
type Places = BTreeMap<String, (String, usize)>;

pub(super) fn check(workspace: &Workspace, sources: &[File]) -> Result<Vec<Finding>> {
    let paper = workspace.root.join(PAPER);
    let text = if paper.is_file() { fs::read_to_string(paper)? } else { String::new() };
    let paper = File { path: PAPER.to_owned(), text };
    let is_place = |file: &&File| FOLDERS.iter().any(|folder| file.path.starts_with(folder));
    let places = sources.iter().filter(is_place);
    Ok(compare(&tests(places), &listed(&paper)))
}

fn compare(tests: &Places, listed: &Places) -> Vec<Finding> {
    let not_listed = tests.iter().filter(|(name, _)| !listed.contains_key(*name));
    let missing_test = listed.iter().filter(|(name, _)| !tests.contains_key(*name));
    let not_listed = not_listed.map(|(name, (path, line))| {
        let todo = "add it to a case that says what would go wrong";
        Finding::new(path, *line, format!("`{name}` is not listed in {PAPER}"), todo)
    });
    let missing_test = missing_test.map(|(name, (path, line))| {
        let wrong = format!("there is no test `{name}` in crates/ or faults/");
        Finding::new(path, *line, wrong, "write it, or remove it from the list")
    });
    not_listed.chain(missing_test).collect()
}

/// Every `fn fair_s<digits>…` and `fn service_f<digits>…`.
fn tests<'a>(sources: impl Iterator<Item = &'a File>) -> Places {
    let mut places = Places::new();
    for file in sources {
        for (number, line) in file.lines() {
            let Some((_, name)) = line.split_once("fn ") else { continue };
            if let Some(name) = scenario(name) {
                places.insert(name.to_owned(), (file.path.clone(), number));
            }
        }
    }
    places
}

/// Every such name in back-quotes on the first line of a list item, alone or in a path.
fn listed(paper: &File) -> Places {
    let mut places = Places::new();
    for (number, line) in paper.lines().filter(|(_, line)| line.trim_start().starts_with("- ")) {
        for quoted in line.split('`').skip(1).step_by(2) {
            let name = quoted.rsplit("::").next().unwrap_or(quoted);
            if let Some(name) = scenario(name) {
                places.insert(name.to_owned(), (paper.path.clone(), number));
            }
        }
    }
    places
}

/// The identifier that `text` starts with, if it is the name of such a test.
fn scenario(text: &str) -> Option<&str> {
    let number = PREFIXES.iter().find_map(|prefix| text.strip_prefix(prefix))?;
    let end = text.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(text.len());
    number.starts_with(|c: char| c.is_ascii_digit()).then(|| &text[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wrongs(source: &str, paper: &str) -> Vec<String> {
        let source = File { path: "crates/a.rs".to_owned(), text: source.to_owned() };
        let paper = File { path: PAPER.to_owned(), text: paper.to_owned() };
        let findings = compare(&tests([&source].into_iter()), &listed(&paper)).into_iter();
        findings.map(|finding| finding.wrong).collect()
    }

    #[test]
    fn a_listed_test_passes_and_other_functions_do_not_matter() {
        let source = "fn fair_s1_lost_wakeup() {\nfn fair_state() {\nfn main() {\n";
        assert!(wrongs(source, "- **S1.** Story.\n  - `tests::fair_s1_lost_wakeup`\n").is_empty());
        let source = "async fn service_f01_death() {\nfn service_from() {\n";
        assert!(wrongs(source, "- **F1.** Story.\n  - `service_f01_death`\n").is_empty());
    }

    #[test]
    fn a_test_that_is_not_listed_and_a_listed_name_without_a_test_are_found() {
        let found = wrongs("fn fair_s1_a() {}\n", "`fair_s1_a` in prose\n  - `fair_s2_b`\n");
        let expected = [
            "`fair_s1_a` is not listed in docs/failures.md",
            "there is no test `fair_s2_b` in crates/ or faults/",
        ];
        assert_eq!(found, expected);
    }
}
