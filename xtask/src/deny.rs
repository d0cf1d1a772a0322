//! `cargo deny check`, in the two halves that need different things.
//!
//! Licences, bans and sources need nothing but the tool. Advisories need a database as well, which
//! is fetched over a network. `deny.toml` has the settings, and says what `tidy` checks without any
//! tool.

use std::path::Path;

use anyhow::{Context as _, Result};

use crate::command::Cmd;

/// What [`check`] did. What is wrong with a dependency is an error instead.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Checked {
    /// All of it, and nothing was found.
    All(String),
    /// Not all of it; the text says what ran, what did not, and why.
    NotAll(String),
}

const INSTALL: &str = "`cargo install --locked cargo-deny`";
const OFFLINE: &str = "licenses bans sources";

/// Checks the dependencies of the workspace at `root`, as far as this machine can.
pub(crate) fn check(root: &Path) -> Result<Checked> {
    let has_tool = Cmd::new("cargo deny --version").works();
    if has_tool {
        let check = Cmd::new("cargo deny --log-level error check --hide-inclusion-graph")
            .args(OFFLINE.split(' '));
        check.dir(root).run().context("deny.toml says what is allowed")?;
    }
    // Fetching by itself, so that an absent network is not taken for a hole, nor a hole for it.
    let has_database = has_tool && Cmd::new("cargo deny fetch db").dir(root).run().is_ok();
    if has_database {
        let check = Cmd::new("cargo deny --offline check advisories");
        check.dir(root).run().context("a dependency has a known hole, or is unmaintained")?;
    }
    Ok(summary(has_tool, has_database))
}

fn summary(has_tool: bool, has_database: bool) -> Checked {
    match (has_tool, has_database) {
        (true, true) => Checked::All(format!("cargo-deny: {OFFLINE} advisories")),
        (true, false) => Checked::NotAll(format!(
            "cargo-deny: {OFFLINE} passed; advisories DID NOT RUN: their database can't be fetched"
        )),
        (false, _) => Checked::NotAll(format!("no cargo-deny: {INSTALL}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_check_with_the_database_is_a_whole_one() {
        assert!(matches!(summary(true, true), Checked::All(_)));
        let Checked::NotAll(why) = summary(true, false) else { panic!("no database") };
        assert!(why.contains("advisories DID NOT RUN"), "{why}");
        let Checked::NotAll(why) = summary(false, false) else { panic!("no tool") };
        assert!(why.contains("cargo install"), "{why}");
    }
}
