//! The licences of all dependencies are among those of `deny.toml`, and all come from a registry.
//!
//! Needs no tool, so it decides on every push; cargo-deny reads the same list. Of `A OR B` one is
//! enough, of `A AND B` both are needed; parentheses are understood.

use std::fs;

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

use super::Finding;
use crate::command::Cmd;
use crate::workspace::Workspace;

const PAPER: &str = "Cargo.lock";
const LIST: &str = "deny.toml";

pub(super) fn check(workspace: &Workspace) -> Result<Vec<Finding>> {
    let list = fs::read_to_string(workspace.root.join(LIST)).context(LIST)?;
    let allowed = allowed(&list)?;
    // With all features, as cargo-deny looks: an optional dependency has a licence too.
    let json =
        Cmd::new("cargo metadata --locked --all-features --format-version 1 --manifest-path")
            .arg(workspace.root.join("Cargo.toml"))
            .read_quietly()?;
    let metadata: Value = serde_json::from_str(&json).context("`cargo metadata`")?;
    let packages = metadata["packages"].as_array().context("`cargo metadata` has no packages")?;
    let others = packages.iter().filter(|package| package["source"].is_string());
    Ok(others.filter_map(|package| one(package, &allowed)).collect())
}

/// The strings of `allow = [` in the section `[licenses]`, one a line.
fn allowed(list: &str) -> Result<Vec<&str>> {
    let (_, section) = list.split_once("\n[licenses]\n").context("deny.toml has no [licenses]")?;
    let (_, rest) = section.split_once("\nallow = [\n").context("[licenses] has no `allow`")?;
    let (lines, _) = rest.split_once("\n]").context("`allow` has no end")?;
    let strings = lines.lines().map(|line| line.trim().trim_end_matches(',').trim_matches('"'));
    let strings: Vec<_> = strings.collect();
    ensure!(strings.contains(&"MIT"), "deny.toml allows no MIT, our own licence: {strings:?}");
    Ok(strings)
}

fn one(package: &Value, allowed: &[&str]) -> Option<Finding> {
    let text = |name: &str| package[name].as_str().unwrap_or_default();
    let name = format!("{} {}", text("name"), text("version"));
    if !text("source").starts_with("registry+") {
        let wrong = format!("{name} comes from {}", text("source"));
        return Some(Finding::new(PAPER, 1, wrong, "depend on what a registry has"));
    }
    if is_allowed(text("license"), allowed) {
        return None;
    }
    let wrong = format!("{name} has the licence {:?}", text("license"));
    Some(Finding::new(PAPER, 1, wrong, "find another crate, or allow it in deny.toml and say why"))
}

/// Whether an expression of SPDX can be met.
fn is_allowed(expression: &str, allowed: &[&str]) -> bool {
    // The older way to write OR.
    let text = expression.replace('/', " OR ").replace('(', " ( ").replace(')', " ) ");
    let words: Vec<&str> = text.split_whitespace().collect();
    let mut rest = &words[..];
    let is_met = any(&mut rest, allowed);
    is_met && rest.is_empty()
}

fn any(words: &mut &[&str], allowed: &[&str]) -> bool {
    let mut is_met = all(words, allowed);
    while let Some(("OR", rest)) = words.split_first().map(|(word, rest)| (*word, rest)) {
        *words = rest;
        is_met |= all(words, allowed);
    }
    is_met
}

fn all(words: &mut &[&str], allowed: &[&str]) -> bool {
    let mut is_met = term(words, allowed);
    while let Some(("AND", rest)) = words.split_first().map(|(word, rest)| (*word, rest)) {
        *words = rest;
        is_met &= term(words, allowed);
    }
    is_met
}

fn term(words: &mut &[&str], allowed: &[&str]) -> bool {
    match **words {
        ["(", ..] => {
            *words = &words[1..];
            let is_met = any(words, allowed);
            let is_closed = words.first() == Some(&")");
            *words = words.get(1..).unwrap_or_default();
            is_met && is_closed
        }
        [name, "WITH", exception, ..] => {
            *words = &words[3..];
            allowed.contains(&&*format!("{name} WITH {exception}"))
        }
        [name, ..] => {
            *words = &words[1..];
            allowed.contains(&name)
        }
        [] => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const ALLOWED: [&str; 4] =
        ["MIT", "Apache-2.0", "Unicode-3.0", "Apache-2.0 WITH LLVM-exception"];

    #[test]
    fn expressions_are_understood() {
        for good in [
            "MIT",
            "MIT/Apache-2.0",
            "GPL-3.0 OR MIT",
            "(MIT OR GPL-3.0) AND Unicode-3.0",
            "Apache-2.0 WITH LLVM-exception OR GPL-3.0",
        ] {
            assert!(is_allowed(good, &ALLOWED), "{good}");
        }
        for bad in ["", "GPL-3.0", "MIT AND GPL-3.0", "(MIT", "MIT)", "GPL-3.0 WITH x", "OR MIT"] {
            assert!(!is_allowed(bad, &ALLOWED), "{bad}");
        }
    }

    #[test]
    fn what_comes_from_elsewhere_is_found() {
        let package = |source: &str, license: &str| {
            let name = "a";
            json!({ "name": name, "version": "1.0.0", "source": source, "license": license })
        };
        assert_eq!(one(&package("registry+https://x", "MIT"), &ALLOWED), None);
        let wrong = |package| one(&package, &ALLOWED).unwrap().wrong;
        assert!(wrong(package("git+https://x", "MIT")).contains("comes from git"));
        assert!(wrong(package("registry+https://x", "AGPL-3.0")).contains("AGPL"));
        let missing =
            json!({ "name": "a", "version": "1", "source": "registry+x", "license": null });
        assert!(one(&missing, &ALLOWED).is_some());
    }

    #[test]
    fn the_list_is_that_of_cargo_deny() {
        let list = include_str!("../../../deny.toml");
        let found = allowed(list).unwrap();
        assert!(found.contains(&"Apache-2.0 WITH LLVM-exception"), "{found:?}");
        assert!(found.iter().all(|name| !name.is_empty() && !name.contains(['"', '#', ','])));
        for broken in ["", "\n[licenses]\n", "\n[licenses]\n\nallow = [\n    \"ISC\",\n]\n"] {
            assert!(allowed(broken).is_err(), "{broken}");
        }
    }
}
