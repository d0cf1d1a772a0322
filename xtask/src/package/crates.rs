//! `cargo package` for each crate that may be published.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};

use crate::command::Cmd;
use crate::workspace::{Package, Workspace};

/// Packages them, and compiles each from its package, with the packages of the others.
pub(super) fn verified(workspace: &Workspace, out: &Path) -> Result<Vec<PathBuf>> {
    // A folder of its own, in which they share what is compiled.
    package(workspace, out, |cargo| cargo.env("CARGO_PROFILE_DEV_DEBUG", "0"))
}

/// Packages them only; compiling all of it takes minutes.
pub(super) fn unverified(workspace: &Workspace, out: &Path) -> Result<Vec<PathBuf>> {
    package(workspace, out, |cargo| cargo.args(["--no-verify", "--quiet"]))
}

fn package(
    workspace: &Workspace,
    out: &Path,
    finish: impl FnOnce(Cmd) -> Cmd,
) -> Result<Vec<PathBuf>> {
    let (published, private): (Vec<_>, Vec<_>) =
        workspace.packages.iter().partition(|package| package.is_published);
    let target = workspace.target.join("crates");
    // What is not committed yet is packaged too: nothing is published from here.
    let cargo = Cmd::new("cargo package --workspace --locked --allow-dirty --target-dir");
    let cargo = cargo.arg(&target);
    let cargo = cargo.args(private.iter().flat_map(|package| ["--exclude", &package.name]));
    finish(cargo).run()?;
    let mut made = Vec::new();
    for package in published {
        let name = format!("{}-{}.crate", package.name, package.version);
        let to = out.join(&name);
        fs::rename(target.join("package").join(&name), &to).with_context(|| name.clone())?;
        check(package, &name, &Cmd::new("tar -tzf").arg(&to).read_quietly()?)?;
        made.push(to);
    }
    Ok(made)
}

/// A package has its licences, its README and its first file.
fn check(package: &Package, name: &str, files: &str) -> Result<()> {
    let root = package.targets.iter().find(|target| is_shipped(&target.kind));
    let root = root.with_context(|| format!("{name} has neither a library nor a program"))?;
    let root = root.root_file.strip_prefix(&package.dir)?.display().to_string();
    for file in ["LICENSE-MIT", "LICENSE-APACHE", "README.md", &root] {
        let there = files.lines().any(|line| line.split_once('/').is_some_and(|(_, f)| f == file));
        ensure!(there, "{name} lacks {file}; see `include` in {}", package.dir.display());
    }
    Ok(())
}

fn is_shipped(kind: &str) -> bool {
    matches!(kind, "lib" | "cdylib" | "bin")
}
