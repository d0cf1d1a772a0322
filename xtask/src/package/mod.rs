//! `cargo xtask package`: what others install.
//!
//! | part     | what it makes in `target/package`                                     |
//! |----------|-----------------------------------------------------------------------|
//! | `crates` | a `.crate` of each crate that may be published, compiled from itself  |
//! | `deb`    | `lockspan_VERSION_ARCH.deb`                                           |
//! | `static` | `lockspan-VERSION-ARCH-linux.tar.gz`, whose binary needs no library   |
//! | `python` | a wheel with the library and the binary, and a source distribution    |
//!
//! `deb` and `static` leave a bill of materials beside their package, `….cdx.json`: `sbom.rs`.
//! `ship.rs` builds the binary, `tree.rs` says which file goes where, `check.rs` tries what came
//! out. The step `packages` of the test suite does the same with a binary that is not optimised.

mod check;
mod crates;
mod debian;
mod interpreters;
mod licences;
mod portable;
mod python;
mod sbom;
mod ship;
mod tree;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, Result, ensure};

use crate::args::Args;
use crate::built;
use crate::command::Cmd;
use crate::workspace::Workspace;

pub(crate) use check::Tried;
pub(crate) use interpreters::smoke as python_on_all_interpreters;
pub(crate) use python::{
    for_tests as python_for_tests, install as install_python, rehearse as rehearse_python,
    tool as python_tool,
};

const PARTS: [&str; 4] = ["crates", "deb", "static", "python"];

pub(crate) fn main(workspace: &Workspace, args: Args) -> Result<ExitCode> {
    let named = args.rest()?;
    if let Some(unknown) = named.iter().find(|name| !PARTS.contains(&name.as_str())) {
        anyhow::bail!("there is no part `{unknown}`; there are {}", PARTS.join(", "));
    }
    let wanted = |part: &str| named.is_empty() || named.iter().any(|name| name == part);
    std::env::set_current_dir(&workspace.root)?;
    let out = folder(workspace)?;
    let mut made = Vec::new();
    if wanted("crates") {
        made.extend(crates::verified(workspace, &out)?);
    }
    if wanted("deb") {
        let binary = ship::build(workspace, None)?;
        let (package, tried) = deb(workspace, &binary, &out)?;
        println!("{}: {tried}", package.display());
        made.extend(with_sbom(workspace, None, package)?);
    }
    if wanted("static") {
        let (archive, target) = portable::make(workspace, &out)?;
        made.extend(with_sbom(workspace, Some(&target), archive)?);
    }
    if wanted("python") {
        made.extend(python::make(workspace, &out)?);
    }
    println!();
    for file in made {
        println!("{:>10}  {}", fs::metadata(&file)?.len(), file.display());
    }
    Ok(ExitCode::SUCCESS)
}

/// Packages everything with what the test suite has built already, and tries it.
pub(crate) fn rehearse(workspace: &Workspace) -> Result<(usize, Tried)> {
    let out = folder(workspace)?;
    let crates = crates::unverified(workspace, &out)?.len();
    built::build(workspace)?;
    let (package, tried) = deb(workspace, &built::file(workspace, "lockspan"), &out)?;
    with_sbom(workspace, None, package)?;
    Ok((crates, tried))
}

/// A package, and beside it the bill of materials of its binary.
fn with_sbom(
    workspace: &Workspace,
    target: Option<&str>,
    package: PathBuf,
) -> Result<[PathBuf; 2]> {
    let name = package.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let name = name.trim_end_matches(".deb").trim_end_matches(".tar.gz");
    let bill = package.with_file_name(format!("{name}.cdx.json"));
    sbom::write(workspace, target, &bill)?;
    Ok([package, bill])
}

/// A Debian package of `binary`, unpacked again and tried.
fn deb(workspace: &Workspace, binary: &Path, out: &Path) -> Result<(PathBuf, Tried)> {
    let (package, version) = debian::make(workspace, binary, out)?;
    let root = fresh(&out.join("unpacked"))?;
    Cmd::new("dpkg-deb --contents").arg(&package).run()?;
    Cmd::new("dpkg-deb --extract").arg(&package).arg(&root).run()?;
    let mut tried = check::tree(&root, &tree::DEBIAN, &version)?;
    tried.if_there("lintian --version", "lintian", || {
        // Who makes it without `DEBEMAIL` has no address to show.
        let lintian = Cmd::new("lintian --fail-on error --suppress-tags");
        lintian.arg("bogus-mail-host,bogus-mail-host-in-debian-changelog").arg(&package).run()
    })?;
    fs::remove_dir_all(&root)?;
    Ok((package, tried))
}

/// Where the packages are.
fn folder(workspace: &Workspace) -> Result<PathBuf> {
    let out = workspace.target.join("package");
    fs::create_dir_all(&out).with_context(|| out.display().to_string())?;
    Ok(out)
}

/// An empty folder in place of whatever is there.
fn fresh(dir: &Path) -> Result<PathBuf> {
    if dir.exists() {
        fs::remove_dir_all(dir).with_context(|| dir.display().to_string())?;
    }
    fs::create_dir_all(dir).with_context(|| dir.display().to_string())?;
    Ok(dir.to_owned())
}

/// The version that a binary says it has.
fn version(binary: &Path) -> Result<String> {
    let said = Cmd::program(binary).arg("--version").read()?;
    let version = said.trim().strip_prefix("lockspan ").unwrap_or_default();
    ensure!(!version.is_empty(), "`{} --version` said {said:?}", binary.display());
    Ok(version.to_owned())
}

/// When the last change was made, as seconds since 1970: what a package has instead of the time of
/// its building, so that it can be built again.
fn date_of_change() -> Result<String> {
    if let Ok(date) = std::env::var("SOURCE_DATE_EPOCH") {
        return Ok(date);
    }
    let date = Cmd::new("git log -1 --format=%ct").read();
    let date = date.or_else(|_| Cmd::new("date +%s").read())?;
    Ok(date.trim().to_owned())
}
