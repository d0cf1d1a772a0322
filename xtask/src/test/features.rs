//! The features of the crate `lockspan`: each sensible set compiles without a warning, and takes
//! along no more than it needs.

use std::collections::BTreeSet;

use anyhow::{Result, ensure};

use crate::command::Cmd;
use crate::table;

/// A set of features, the most crates that it may compile, and whether a C compiler may be needed.
struct Choice {
    features: &'static str,
    crates: usize,
    may_compile_c: bool,
}

/// A dependency that grows beyond its row here is looked at before the number is raised.
const CHOICES: [Choice; 6] = [
    Choice { features: "", crates: 6, may_compile_c: false },
    Choice { features: "client", crates: 45, may_compile_c: false },
    Choice { features: "client,metrics", crates: 48, may_compile_c: false },
    Choice { features: "client,tls", crates: 60, may_compile_c: true },
    Choice { features: "client,redis", crates: 98, may_compile_c: false },
    Choice { features: "client,metrics,redis,tls", crates: 115, may_compile_c: true },
];

/// Crates that call a C compiler when they are built, or whose build needs one.
const C_CRATES: [&str; 4] = ["aws-lc-sys", "cc", "cmake", "ring"];

/// Checks them all, prints a row for each, and returns what was done.
pub(super) fn check() -> Result<String> {
    let mut rows = Vec::new();
    for choice in &CHOICES {
        Cmd::new("cargo clippy --quiet -p lockspan --no-default-features --features")
            .arg(choice.features)
            .args(["--", "-D", "warnings"])
            .run()?;
        let crates = crates(choice.features)?;
        let compile_c: Vec<_> =
            C_CRATES.into_iter().filter(|name| crates.iter().any(|it| it == name)).collect();
        let name = if choice.features.is_empty() { "none" } else { choice.features };
        ensure!(
            choice.may_compile_c || compile_c.is_empty(),
            "the features `{name}` of lockspan need a C compiler, for {}",
            compile_c.join(" and ")
        );
        ensure!(
            crates.len() <= choice.crates,
            "the features `{name}` of lockspan compile {} crates; {} are expected at most",
            crates.len(),
            choice.crates
        );
        let needs_c = if compile_c.is_empty() { "no" } else { "yes" };
        rows.push(vec![name.to_owned(), crates.len().to_string(), needs_c.to_owned()]);
    }
    table::print(&["features of lockspan", "crates", "needs a C compiler"], &rows);
    Cmd::new("cargo test --quiet -p lockspan --test missing_features --no-default-features")
        .args(["--features", "client"])
        .run()?;
    Ok(format!("{} sets of features of lockspan", CHOICES.len()))
}

/// The names of the crates that are compiled with these features, lockspan's own among them.
fn crates(features: &str) -> Result<Vec<String>> {
    let tree = Cmd::new("cargo tree -p lockspan -e normal,build --prefix none --format {p}")
        .args(["--no-default-features", "--features"])
        .arg(features)
        .read()?;
    Ok(names(&tree))
}

/// A line is the name, the version and, behind these, where it is from or that it was there before.
fn names(tree: &str) -> Vec<String> {
    let ids = tree.lines().filter_map(|line| {
        let mut words = line.split_whitespace();
        Some((words.next()?, words.next()?))
    });
    // Two versions of one crate are two crates.
    let ids: BTreeSet<_> = ids.collect();
    ids.into_iter().map(|(name, _)| name.to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_crate_is_counted_once_for_each_version() {
        let tree = "a v0.1.0 (/somewhere)\nb v1.0.0\n\nb v2.0.0\nb v1.0.0 (*)\n";
        assert_eq!(names(tree), ["a", "b", "b"]);
    }
}
