//! The one unoptimised build that tests, examples, packages, tour and smoke benches share.
//!
//! Cargo chooses the features of a dependency by the packages that a command names: `cargo run -p
//! lockspan-examples` builds another tokio, and so another everything, than `cargo test
//! --workspace`. Each command of the suite therefore names the same packages ([`SAME`]), and
//! programs are started from the target directory instead of with `cargo run`.

use std::path::PathBuf;

use anyhow::Result;

use crate::command::Cmd;
use crate::workspace::Workspace;

/// What every command names that shares the build. The simulator is left out: it turns on the
/// protocol's feature `mutants`, whose bugs must be in nothing that the tests run.
///
/// The optional features are on, so that their tests need no build of their own. `serde` and `uuid`
/// only add implementations of traits.
///
/// `signals` adds a backend of revocable locks. With it the same backends are tried in the same
/// order, and the same one is chosen: `signal` is skipped unless the environment names it
/// (`signals_are_for_those_who_name_them`). What differs is a record of a thread, which also keeps
/// the thread's number and a second word, and a branch in a ticket's store that no section does.
///
/// The steps `clippy`, `static`, `loom`, `shuttle` and `miri` compile lockspan-thread without these
/// features. `static` runs the tests `percpu`, `revocable` and `sections` that way, the others the
/// models and the unit tests. Its other integration tests run only with them.
pub(crate) const SAME: [&str; 5] = [
    "--workspace",
    "--exclude",
    "sim",
    "--features",
    "lockspan/serde,lockspan/signals,lockspan/uuid",
];

/// Builds all libraries, programs and tests, unless they are there already.
pub(crate) fn build(workspace: &Workspace) -> Result<()> {
    Cmd::new("cargo build --locked --all-targets").args(SAME).dir(&workspace.root).run()
}

/// A program or library that [`build`] has made.
pub(crate) fn file(workspace: &Workspace, name: &str) -> PathBuf {
    workspace.target.join("debug").join(name)
}
