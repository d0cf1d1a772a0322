//! `cargo xtask semver`: what changed in public interfaces, compared with an earlier revision.
//!
//! cargo-semver-checks builds the documentation of both as JSON and compares it. It does not know
//! the published state, but any revision of the repository: a release is a tag. While there is no
//! tag, a person has to name the revision: any other choice could be the present commit.

use std::process::ExitCode;

use anyhow::{Result, bail, ensure};

use crate::args::Args;
use crate::command::Cmd;
use crate::workspace::{Package, Workspace};

const INSTALL: &str = "cargo install --locked cargo-semver-checks";

pub(crate) fn main(workspace: &Workspace, mut args: Args) -> Result<ExitCode> {
    let base = args.value("--base")?;
    let (libraries, others) = published(workspace);
    let chosen = chosen(&libraries, &args.rest()?)?;
    std::env::set_current_dir(&workspace.root)?;
    let tags = Cmd::new("git tag --list v* --sort=-version:refname").read_quietly()?;
    let base = base_of(base, &tags)?;
    let has_tool = Cmd::new("cargo semver-checks --version").works();
    ensure!(has_tool, "nothing was compared: cargo-semver-checks is missing; run `{INSTALL}`");
    let commit = commit_of(&base)?;
    println!("compared with {base} ({commit})");

    let mut broken = Vec::new();
    let mut added = Vec::new();
    for name in &chosen {
        if !has_package(&commit, workspace, name)? {
            added.push(*name);
        } else if check(name, &commit).is_err() {
            broken.push(*name);
        }
    }
    println!("\n{}", summary(&base, &chosen, &broken, &added, &others));
    if commit == commit_of("HEAD")? {
        println!("{base} is the present commit: only what is not committed could differ");
    }
    Ok(ExitCode::from(u8::from(!broken.is_empty())))
}

fn check(name: &str, commit: &str) -> Result<()> {
    Cmd::new("cargo semver-checks --color never -p").args([name, "--baseline-rev", commit]).run()
}

/// The names of the published crates with an interface for Rust, and those without.
fn published(workspace: &Workspace) -> (Vec<&str>, Vec<&str>) {
    let published = workspace.packages.iter().filter(|package| package.is_published);
    let is_library = |package: &&Package| package.targets.iter().any(|target| target.kind == "lib");
    let (libraries, others): (Vec<_>, Vec<_>) = published.partition(is_library);
    (names(&libraries), names(&others))
}

fn names<'a>(packages: &[&'a Package]) -> Vec<&'a str> {
    packages.iter().map(|package| package.name.as_str()).collect()
}

/// The libraries that were named; all if none was.
fn chosen<'a>(libraries: &[&'a str], named: &[String]) -> Result<Vec<&'a str>> {
    if let Some(unknown) = named.iter().find(|name| !libraries.contains(&name.as_str())) {
        bail!("`{unknown}` is no published library; there are {}", libraries.join(", "));
    }
    let wanted = |name: &&str| named.is_empty() || named.iter().any(|it| it == name);
    Ok(libraries.iter().copied().filter(wanted).collect())
}

/// The revision that was asked for, else the last release: the first of `tags`.
fn base_of(asked: Option<String>, tags: &str) -> Result<String> {
    if let Some(base) = asked.or_else(|| tags.lines().next().map(str::to_owned)) {
        return Ok(base);
    }
    bail!(
        "nothing was compared: no release has a tag `v…` yet, so name an earlier revision: \
         `cargo xtask semver --base REV`"
    );
}

fn commit_of(revision: &str) -> Result<String> {
    let commit = Cmd::new("git rev-parse --short --verify").arg(format!("{revision}^{{commit}}"));
    Ok(commit.read_quietly()?.trim().to_owned())
}

/// Whether the crate was there at `commit`, in the folder that it has today.
fn has_package(commit: &str, workspace: &Workspace, name: &str) -> Result<bool> {
    let package = workspace.packages.iter().find(|package| package.name == name);
    let Some(package) = package else { bail!("{name} is no package") };
    let manifest = workspace.relative(&package.dir.join("Cargo.toml"));
    Ok(Cmd::new("git cat-file -e").arg(format!("{commit}:{manifest}")).works())
}

/// The closing line: what was compared, what was not, and what came out.
fn summary(
    base: &str,
    chosen: &[&str],
    broken: &[&str],
    added: &[&str],
    others: &[&str],
) -> String {
    let result = match broken {
        [] => "no change that breaks callers was found".to_owned(),
        _ => format!("changes that break callers, or no build, in {}", broken.join(", ")),
    };
    let mut text =
        format!("compared with {base}: {} of our crates; {result}", chosen.len() - added.len());
    if !added.is_empty() {
        text += &format!("; new since then: {}", added.join(", "));
    }
    text += &format!("; not compared, as Rust cannot link them: {}", others.join(", "));
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn crates_are_chosen_by_name_and_unknown_names_are_refused() {
        let libraries = ["a", "b"];
        assert_eq!(chosen(&libraries, &[]).unwrap(), ["a", "b"]);
        assert_eq!(chosen(&libraries, &["b".to_owned()]).unwrap(), ["b"]);
        assert!(chosen(&libraries, &["c".to_owned()]).unwrap_err().to_string().contains("a, b"));
    }

    #[test]
    fn the_base_is_what_was_asked_for_then_the_newest_tag_and_never_a_guess() {
        let asked = Some("abc".to_owned());
        assert_eq!(base_of(asked, "v0.2.0\nv0.1.0\n").unwrap(), "abc");
        assert_eq!(base_of(None, "v0.2.0\nv0.1.0\n").unwrap(), "v0.2.0");
        let refused = base_of(None, "").unwrap_err().to_string();
        assert!(refused.contains("semver --base REV"), "{refused}");
    }

    #[test]
    fn the_closing_line_names_what_was_found_and_what_was_not_compared() {
        let fine = summary("v1", &["a", "b"], &[], &["b"], &["c"]);
        assert!(fine.starts_with("compared with v1: 1 of our crates; no change"), "{fine}");
        assert!(fine.contains("new since then: b") && fine.ends_with("them: c"), "{fine}");
        let broken = summary("v1", &["a", "b"], &["b"], &[], &["c"]);
        assert!(broken.contains("callers, or no build, in b"), "{broken}");
    }
}
