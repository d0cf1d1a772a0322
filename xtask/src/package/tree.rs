//! Which file of a package goes where.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

use super::licences;
use crate::command::Cmd;
use crate::workspace::{Workspace, walk};

/// The folders of a kind of package, from the place where it is unpacked.
#[derive(Debug)]
pub(super) struct Layout {
    pub(super) bin: &'static str,
    pub(super) man: &'static str,
    pub(super) bash: &'static str,
    pub(super) zsh: &'static str,
    pub(super) fish: &'static str,
    pub(super) units: &'static str,
    pub(super) doc: &'static str,
    /// The folder of the configuration.
    pub(super) config: &'static str,
    /// What stands for `/usr` in the unit.
    pub(super) prefix: &'static str,
}

/// A package of Debian, unpacked at the root.
pub(super) const DEBIAN: Layout = Layout {
    bin: "usr/bin",
    man: "usr/share/man/man1",
    bash: "usr/share/bash-completion/completions",
    zsh: "usr/share/zsh/vendor-completions",
    fish: "usr/share/fish/vendor_completions.d",
    units: "usr/lib/systemd/system",
    doc: "usr/share/doc/lockspan",
    config: "etc/lockspan",
    prefix: "/usr",
};

/// An archive, unpacked at `/usr/local`; its configuration is an example.
pub(super) const LOCAL: Layout = Layout {
    bin: "bin",
    man: "share/man/man1",
    bash: "share/bash-completion/completions",
    zsh: "share/zsh/site-functions",
    fish: "share/fish/vendor_completions.d",
    units: "lib/systemd/system",
    doc: "share/doc/lockspan",
    config: "share/doc/lockspan/examples",
    prefix: "/usr/local",
};

/// Papers that a user of the program needs. `README.md` leads to the others.
const PAPERS: [&str; 2] = ["README.md", "CHANGELOG.md"];

/// Fills `root` with everything that both kinds of packages have.
pub(super) fn fill(
    workspace: &Workspace,
    root: &Path,
    layout: &Layout,
    binary: &Path,
) -> Result<()> {
    let place = |folder: &str| -> Result<PathBuf> {
        let dir = root.join(folder);
        fs::create_dir_all(&dir).with_context(|| dir.display().to_string())?;
        Ok(dir)
    };
    let program = place(layout.bin)?.join("lockspan");
    Cmd::new("strip --strip-unneeded -o").arg(&program).arg(binary).run()?;

    let man = place(layout.man)?;
    Cmd::program(&program).arg("man").arg(&man).run()?;
    for (shell, folder, name) in [
        ("bash", layout.bash, "lockspan"),
        ("zsh", layout.zsh, "_lockspan"),
        ("fish", layout.fish, "lockspan.fish"),
    ] {
        let text = Cmd::program(&program).args(["completions", shell]).read_quietly()?;
        fs::write(place(folder)?.join(name), text)?;
    }

    let packaging = workspace.root.join("packaging");
    let unit = fs::read_to_string(packaging.join("systemd/lockspan.service"))?;
    let unit = unit.replace("/usr/", &format!("{}/", layout.prefix));
    fs::write(place(layout.units)?.join("lockspan.service"), unit)?;
    fs::copy(packaging.join("lockspan.toml"), place(layout.config)?.join("lockspan.toml"))?;

    let doc = place(layout.doc)?;
    for paper in PAPERS {
        fs::copy(workspace.root.join(paper), doc.join(paper))?;
    }
    // Below `docs`, as in the repository, so that README's links lead there.
    let pages = place(&format!("{}/docs", layout.doc))?;
    for page in files(&workspace.root.join("docs"))? {
        if page.parent().is_some_and(|dir| dir.ends_with("docs")) {
            fs::copy(&page, pages.join(page.file_name().unwrap_or_default()))?;
        }
    }
    let examples = place(&format!("{}/examples", layout.doc))?;
    for example in ["grafana/lockspan.json", "prometheus/lockspan.rules.yml"] {
        let path = packaging.join(example);
        fs::copy(&path, examples.join(path.file_name().unwrap_or_default()))?;
    }
    fs::write(doc.join("licences"), licences::page(&["lockspan-cli"])?)?;

    for file in files(&man)?.into_iter().chain([doc.join("CHANGELOG.md"), doc.join("licences")]) {
        compress(&file)?;
    }
    Ok(())
}

/// Modes that do not depend on who builds it: programs may be run, all may be read.
pub(super) fn set_modes(root: &Path) -> Result<()> {
    for path in files(root)? {
        let is_program = path.parent().is_some_and(|dir| dir.ends_with("bin"));
        let mode = if is_program { 0o755 } else { 0o644 };
        fs::set_permissions(&path, fs::Permissions::from_mode(mode))?;
        for dir in path.ancestors().skip(1).take_while(|dir| dir.starts_with(root)) {
            fs::set_permissions(dir, fs::Permissions::from_mode(0o755))?;
        }
    }
    Ok(())
}

/// The same bytes give the same file: without name and time.
pub(super) fn compress(file: &Path) -> Result<()> {
    Cmd::new("gzip --best --no-name --force").arg(file).run()
}

/// All files below `dir`, in order.
pub(super) fn files(dir: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    walk(dir, &mut found)?;
    found.sort();
    Ok(found)
}
