//! Which crate may stand on which: ARCHITECTURE.md has the table, Cargo the truth.
//!
//! The table is a fenced block marked `edges`, a line a crate: `name -> dependency, dependency`,
//! `name -> nothing`. A dependency for tests only is followed by `(dev)`.

use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::fs;

use anyhow::{Context as _, Result};

use super::Finding;
use crate::workspace::Workspace;

const PAPER: &str = "ARCHITECTURE.md";

/// What a crate stands on, as the table would write it, sorted.
type Edges = BTreeMap<String, BTreeSet<String>>;

pub(super) fn check(workspace: &Workspace) -> Result<Vec<Finding>> {
    let text = fs::read_to_string(workspace.root.join(PAPER)).context(PAPER)?;
    let mut actual = Edges::new();
    for package in &workspace.packages {
        let names = package.dependencies.iter().map(|dependency| {
            let dev = if dependency.dev { " (dev)" } else { "" };
            format!("{}{dev}", dependency.name)
        });
        actual.insert(package.name.clone(), names.collect());
    }
    Ok(compare(&text, &actual))
}

/// Compares the table in `text` with the actual edges.
fn compare(text: &str, actual: &Edges) -> Vec<Finding> {
    let Some((table, first_line)) = parse(text) else {
        let todo = "add a fenced block marked `edges` with a line a crate";
        return vec![Finding::new(PAPER, 1, "there is no table of edges", todo)];
    };
    let mut findings = Vec::new();
    let mut report = |wrong: String, todo: &str| {
        findings.push(Finding::new(PAPER, first_line, wrong, todo));
    };
    for (name, stands_on) in actual {
        let Some(allowed) = table.get(name) else {
            report(format!("the table lacks {name}"), "add its line");
            continue;
        };
        for edge in stands_on.difference(allowed) {
            report(
                format!("{name} depends on {edge}, which the table does not allow"),
                "remove the dependency, or add the edge here and say why in the commit",
            );
        }
        for edge in allowed.difference(stands_on) {
            report(format!("{name} does not depend on {edge}"), "remove the edge from the table");
        }
    }
    for name in table.keys().filter(|name| !actual.contains_key(*name)) {
        report(format!("there is no crate {name}"), "remove its line from the table");
    }
    findings
}

/// The table, and the number of its first line.
fn parse(text: &str) -> Option<(Edges, usize)> {
    let start = text.lines().position(|line| line.trim() == "```edges")?;
    let rows = text.lines().skip(start + 1).take_while(|line| line.trim() != "```");
    let edges = rows.filter_map(|row| {
        let (name, stands_on) = row.split_once("->")?;
        let stands_on = stands_on.split(',').map(|edge| edge.trim().to_owned());
        let stands_on = stands_on.filter(|edge| edge != "nothing").collect();
        Some((name.trim().to_owned(), stands_on))
    });
    Some((edges.collect(), start + 2))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "# A\n```edges\na -> nothing\nb -> a, c (dev)\nc -> a\n```\n";

    fn edges(rows: &[(&str, &[&str])]) -> Edges {
        let row = |(name, stands_on): &(&str, &[&str])| {
            (name.to_string(), stands_on.iter().map(|edge| edge.to_string()).collect())
        };
        rows.iter().map(row).collect()
    }

    fn wrongs(actual: &[(&str, &[&str])]) -> Vec<String> {
        let findings = compare(TEXT, &edges(actual)).into_iter();
        findings.map(|finding| finding.wrong).collect()
    }

    #[test]
    fn the_same_edges_pass() {
        assert!(wrongs(&[("a", &[]), ("b", &["a", "c (dev)"]), ("c", &["a"])]).is_empty());
    }

    #[test]
    fn edges_and_crates_missing_on_either_side_are_found() {
        let found = wrongs(&[("a", &["c"]), ("b", &["a", "c"]), ("d", &[])]);
        let expected = [
            "a depends on c, which the table does not allow",
            "b depends on c, which the table does not allow",
            "b does not depend on c (dev)",
            "the table lacks d",
            "there is no crate c",
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn a_paper_without_a_table_is_found() {
        assert_eq!(compare("# A\n", &Edges::new()).len(), 1);
    }
}
