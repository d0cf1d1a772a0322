//! Under which licences what we stand on may be used, and where it comes from.
//!
//! Of `A OR B` one is enough, of `A AND B` both are needed; parentheses are understood.

use anyhow::{Context as _, Result};
use serde_json::Value;

use super::Finding;
use crate::command::Cmd;
use crate::workspace::Workspace;

/// Those that ask for no more than a notice.
const ALLOWED: [&str; 10] = [
    "MIT",
    "Apache-2.0",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "BSL-1.0",
    "ISC",
    "Unicode-3.0",
    "Unlicense",
    "Zlib",
    "Apache-2.0 WITH LLVM-exception",
];

const PAPER: &str = "Cargo.lock";

pub(super) fn check(workspace: &Workspace) -> Result<Vec<Finding>> {
    let json = Cmd::new("cargo metadata --locked --format-version 1 --manifest-path")
        .arg(workspace.root.join("Cargo.toml"))
        .read_quietly()?;
    let metadata: Value = serde_json::from_str(&json).context("`cargo metadata`")?;
    let packages = metadata["packages"].as_array().context("`cargo metadata` has no packages")?;
    Ok(packages.iter().filter(|package| package["source"].is_string()).filter_map(one).collect())
}

fn one(package: &Value) -> Option<Finding> {
    let text = |name: &str| package[name].as_str().unwrap_or_default();
    let name = format!("{} {}", text("name"), text("version"));
    if !text("source").starts_with("registry+") {
        let wrong = format!("{name} comes from {}", text("source"));
        return Some(Finding::new(PAPER, 1, wrong, "depend on what a registry has"));
    }
    if is_allowed(text("license")) {
        return None;
    }
    let wrong = format!("{name} has the licence {:?}", text("license"));
    Some(Finding::new(
        PAPER,
        1,
        wrong,
        "find another crate, or allow it in licences.rs and say why",
    ))
}

/// Whether an expression of SPDX can be met.
fn is_allowed(expression: &str) -> bool {
    // The older way to write OR.
    let text = expression.replace('/', " OR ").replace('(', " ( ").replace(')', " ) ");
    let words: Vec<&str> = text.split_whitespace().collect();
    let mut rest = &words[..];
    let is_met = any(&mut rest);
    is_met && rest.is_empty()
}

fn any(words: &mut &[&str]) -> bool {
    let mut is_met = all(words);
    while let Some(("OR", rest)) = words.split_first().map(|(word, rest)| (*word, rest)) {
        *words = rest;
        is_met |= all(words);
    }
    is_met
}

fn all(words: &mut &[&str]) -> bool {
    let mut is_met = term(words);
    while let Some(("AND", rest)) = words.split_first().map(|(word, rest)| (*word, rest)) {
        *words = rest;
        is_met &= term(words);
    }
    is_met
}

fn term(words: &mut &[&str]) -> bool {
    match **words {
        ["(", ..] => {
            *words = &words[1..];
            let is_met = any(words);
            let is_closed = words.first() == Some(&")");
            *words = words.get(1..).unwrap_or_default();
            is_met && is_closed
        }
        [name, "WITH", exception, ..] => {
            *words = &words[3..];
            ALLOWED.contains(&&*format!("{name} WITH {exception}"))
        }
        [name, ..] => {
            *words = &words[1..];
            ALLOWED.contains(&name)
        }
        [] => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn expressions_are_understood() {
        for good in [
            "MIT",
            "MIT/Apache-2.0",
            "GPL-3.0 OR MIT",
            "(MIT OR GPL-3.0) AND Unicode-3.0",
            "Apache-2.0 WITH LLVM-exception OR GPL-3.0",
        ] {
            assert!(is_allowed(good), "{good}");
        }
        for bad in ["", "GPL-3.0", "MIT AND GPL-3.0", "(MIT", "MIT)", "GPL-3.0 WITH x", "OR MIT"] {
            assert!(!is_allowed(bad), "{bad}");
        }
    }

    #[test]
    fn what_comes_from_elsewhere_is_found() {
        let package = |source: &str, license: &str| {
            let name = "a";
            json!({ "name": name, "version": "1.0.0", "source": source, "license": license })
        };
        assert_eq!(one(&package("registry+https://x", "MIT")), None);
        assert!(one(&package("git+https://x", "MIT")).unwrap().wrong.contains("comes from git"));
        assert!(one(&package("registry+https://x", "AGPL-3.0")).unwrap().wrong.contains("AGPL"));
        let missing =
            json!({ "name": "a", "version": "1", "source": "registry+x", "license": null });
        assert!(one(&missing).is_some());
    }
}
