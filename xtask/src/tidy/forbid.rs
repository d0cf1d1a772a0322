//! `unsafe` lives in few crates; every other one forbids it, and then the compiler does the rest.

use std::fs;

use anyhow::{Context as _, Result};

use super::Finding;
use crate::workspace::Workspace;

/// Where the sleeping, the queues of nodes and the C interfaces are; and the benches, which are
/// never shipped and call the C library's own lock to compare with it.
const UNSAFE_CRATES: [&str; 5] =
    ["lockspan-park", "lockspan-thread", "lockspan-capi", "lockspan-pthread", "lockspan-benches"];

/// Programs of other crates: the one that forks, for which there is no safe call. Never shipped.
const UNSAFE_PROGRAMS: [&str; 1] = ["forker"];

const FORBID: &str = "#![forbid(unsafe_code)]";

pub(super) fn check(workspace: &Workspace) -> Result<Vec<Finding>> {
    let mut findings = Vec::new();
    let safe = |name: &str| !UNSAFE_CRATES.contains(&name);
    for package in workspace.packages.iter().filter(|package| safe(&package.name)) {
        let targets = package.targets.iter();
        let is_safe = |name: &str| !UNSAFE_PROGRAMS.contains(&name);
        for target in targets.filter(|target| is_safe(&target.name)) {
            let path = &target.root_file;
            let text = fs::read_to_string(path).with_context(|| path.display().to_string())?;
            if !forbids(&text) {
                let path = workspace.relative(path);
                let wrong = format!("the {} {} may use unsafe code", target.kind, target.name);
                findings.push(Finding::new(&path, 1, wrong, format!("add `{FORBID}`")));
            }
        }
    }
    Ok(findings)
}

fn forbids(text: &str) -> bool {
    text.lines().any(|line| line.trim() == FORBID)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_attribute_must_stand_on_a_line_of_its_own() {
        assert!(forbids("//! A crate.\n#![forbid(unsafe_code)]\n"));
        assert!(!forbids("//! We would like #![forbid(unsafe_code)] here.\n"));
        assert!(!forbids("#![deny(unsafe_code)]\n"));
    }
}
