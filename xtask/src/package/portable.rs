//! The archive with a binary that needs no library: for every Linux of an architecture.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};

use super::{check, date_of_change, fresh, ship, tree, version};
use crate::command::Cmd;
use crate::workspace::Workspace;

/// Builds the program, for the target that is returned too.
pub(super) fn program(workspace: &Workspace) -> Result<(PathBuf, String)> {
    let target = format!("{}-unknown-linux-musl", std::env::consts::ARCH);
    let add = format!("rustup target add {target}");
    Cmd::new(&add).run().with_context(|| format!("the target {target} is missing: `{add}`"))?;
    let compiler = Cmd::new("musl-gcc --version").works();
    ensure!(compiler, "musl-gcc is missing: install it (on Debian: `apt-get install musl-tools`)");
    let binary = ship::build(workspace, Some(&target))?;
    let linked = Cmd::new("readelf --dynamic").arg(&binary).read()?;
    ensure!(!linked.contains("(NEEDED)"), "{} needs libraries:\n{linked}", binary.display());
    Ok((binary, target))
}

/// Makes `lockspan-VERSION-ARCH-linux.tar.gz` in `out`, and tries what is in it. Also returns the
/// target that its binary is for.
pub(super) fn make(workspace: &Workspace, out: &Path) -> Result<(PathBuf, String)> {
    let (binary, target) = program(workspace)?;
    let version = version(&binary)?;
    let name = format!("lockspan-{version}-{}-linux", std::env::consts::ARCH);
    let root = fresh(&out.join(&name))?;
    tree::fill(workspace, &root, &tree::LOCAL, &binary)?;
    for licence in ["LICENSE-MIT", "LICENSE-APACHE"] {
        fs::copy(workspace.root.join(licence), root.join(tree::LOCAL.doc).join(licence))?;
    }
    tree::set_modes(&root)?;
    let archive = out.join(format!("{name}.tar.gz"));
    Cmd::new("tar --sort=name --owner=0 --group=0 --numeric-owner --mtime")
        .arg(format!("@{}", date_of_change()?))
        .arg("-C")
        .arg(out)
        .arg("-czf")
        .arg(&archive)
        .arg(&name)
        .run()?;
    fs::remove_dir_all(&root)?;

    let unpacked = fresh(&out.join("unpacked"))?;
    Cmd::new("tar --strip-components=1 -C").arg(&unpacked).arg("-xzf").arg(&archive).run()?;
    let tried = check::tree(&unpacked, &tree::LOCAL, &version)?;
    fs::remove_dir_all(&unpacked)?;
    println!("{}: {tried}", archive.display());
    Ok((archive, target))
}
