//! The Debian package, by `dpkg-deb` alone.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};

use super::{date_of_change, fresh, tree, version};
use crate::command::Cmd;
use crate::workspace::Workspace;

/// Makes `lockspan_VERSION_ARCH.deb` in `out`; also says the version.
pub(super) fn make(workspace: &Workspace, binary: &Path, out: &Path) -> Result<(PathBuf, String)> {
    let version = version(binary)?;
    let arch = Cmd::new("dpkg --print-architecture").read()?.trim().to_owned();
    let date = date_of_change()?;
    let root = fresh(&out.join("debian"))?;
    tree::fill(workspace, &root, &tree::DEBIAN, binary)?;
    let from = workspace.root.join("packaging/debian");
    papers(workspace, &from, &root.join(tree::DEBIAN.doc), &version, &date)?;
    tree::set_modes(&root)?;
    control(&from, &root, &version, &arch)?;
    let package = out.join(format!("lockspan_{version}_{arch}.deb"));
    Cmd::new("dpkg-deb --root-owner-group -Zxz --build")
        .arg(&root)
        .arg(&package)
        .env("SOURCE_DATE_EPOCH", &date)
        .run()?;
    fs::remove_dir_all(&root)?;
    Ok((package, version))
}

/// The copyright and a changelog in Debian's form; ours is beside it.
fn papers(workspace: &Workspace, from: &Path, doc: &Path, version: &str, date: &str) -> Result<()> {
    let mut copyright = read(&from.join("copyright"))?;
    let licence = read(&workspace.root.join("LICENSE-MIT"))?;
    for line in licence.trim().lines() {
        copyright += &format!(" {}\n", if line.is_empty() { "." } else { line });
    }
    fs::write(doc.join("copyright"), copyright)?;
    let day = Cmd::new("date --utc --rfc-email --date").arg(format!("@{date}"));
    let day = day.env("LC_ALL", "C").read()?;
    let changelog = doc.join("changelog");
    let text = format!(
        "lockspan ({version}) unstable; urgency=medium\n\n  * What changed is in \
         /usr/share/doc/lockspan/CHANGELOG.md.gz.\n\n -- {}  {}\n",
        maintainer(),
        day.trim()
    );
    fs::write(&changelog, text)?;
    tree::compress(&changelog)
}

/// What dpkg reads: the description of the package, its configuration files and sums, and scripts.
fn control(from: &Path, root: &Path, version: &str, arch: &str) -> Result<()> {
    let files = tree::files(root)?;
    let bytes = files.iter().map(|file| Ok(fs::metadata(file)?.len())).sum::<Result<u64>>()?;
    let names: Vec<&Path> = files.iter().filter_map(|file| file.strip_prefix(root).ok()).collect();
    let sums = Cmd::new("md5sum --").args(&names).dir(root).read_quietly()?;
    let binary = root.join(tree::DEBIAN.bin).join("lockspan");
    let needs = Cmd::new("readelf --wide --dynamic --version-info").arg(&binary).read()?;
    let text = format!(
        "Package: lockspan\nVersion: {version}\nArchitecture: {arch}\nMaintainer: {}\n\
         Installed-Size: {}\nDepends: {}\nSuggests: redis-tools\nSection: net\n\
         Priority: optional\nDescription: {}",
        maintainer(),
        bytes.div_ceil(1024),
        depends(&needs)?,
        read(&from.join("description"))?,
    );
    let dir = root.join("DEBIAN");
    fs::create_dir(&dir)?;
    fs::write(dir.join("control"), text)?;
    fs::write(dir.join("md5sums"), sums)?;
    let settings = names.iter().filter(|name| name.starts_with("etc"));
    let settings: String = settings.map(|name| format!("/{}\n", name.display())).collect();
    fs::write(dir.join("conffiles"), settings)?;
    for script in ["postinst", "prerm", "postrm"] {
        fs::copy(from.join(script), dir.join(script)).with_context(|| script.to_owned())?;
    }
    for entry in fs::read_dir(&dir)? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let is_script = name.starts_with("post") || name.starts_with("pre");
        let mode = if is_script { 0o755 } else { 0o644 };
        fs::set_permissions(&path, fs::Permissions::from_mode(mode))?;
    }
    fs::set_permissions(&dir, fs::Permissions::from_mode(0o755))?;
    Ok(())
}

/// Whoever makes a package answers for it: as Debian's own tools do, by two variables.
fn maintainer() -> String {
    let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    let name = variable("DEBFULLNAME").unwrap_or_else(|| "The Lockspan authors".to_owned());
    let address = variable("DEBEMAIL").unwrap_or_else(|| "lockspan@localhost".to_owned());
    format!("{name} <{address}>")
}

/// The packages with the libraries that `readelf` names, and the oldest C library that will do.
fn depends(readelf: &str) -> Result<String> {
    let libraries = readelf.lines().filter(|line| line.contains("(NEEDED)"));
    let mut packages = Vec::new();
    for line in libraries {
        let name = line.split(['[', ']']).nth(1).unwrap_or_default();
        let package = match name {
            "libgcc_s.so.1" => "libgcc-s1".to_owned(),
            name if name.starts_with("libc.so.") => format!("libc6 (>= {})", c_library(readelf)?),
            // The rest of the C library comes with it.
            name if name.starts_with("libm.so.") || name.starts_with("ld-linux") => continue,
            other => bail!("the binary needs {other}; say here which package has it"),
        };
        packages.push(package);
    }
    packages.sort();
    Ok(packages.join(", "))
}

/// The newest version of a symbol of the C library that is used.
fn c_library(readelf: &str) -> Result<String> {
    let words = readelf.split(|c: char| c.is_whitespace());
    let versions = words.filter_map(|word| word.strip_prefix("GLIBC_"));
    let parts = |version: &&str| -> Option<Vec<u32>> {
        version.split('.').map(|part| part.parse().ok()).collect()
    };
    let newest = versions.filter(|version| parts(version).is_some()).max_by_key(parts);
    newest.map(str::to_owned).context("the binary names no version of the C library")
}

fn read(path: &Path) -> Result<String> {
    fs::read_to_string(path).with_context(|| path.display().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    const READELF: &str = "
 0x0000000000000001 (NEEDED)             Shared library: [libgcc_s.so.1]
 0x0000000000000001 (NEEDED)             Shared library: [libc.so.6]
 0x0000000000000001 (NEEDED)             Shared library: [ld-linux-x86-64.so.2]
  0x0010:   Name: GLIBC_2.9  Flags: none  Version: 12
  0x0020:   Name: GLIBC_2.34  Flags: none  Version: 8
  0x0030:   Name: GCC_3.0  Flags: none  Version: 11
";

    #[test]
    fn libraries_become_packages_and_versions_are_compared_as_numbers() {
        assert_eq!(depends(READELF).unwrap(), "libc6 (>= 2.34), libgcc-s1");
    }

    #[test]
    fn a_library_that_nobody_knows_is_refused() {
        let more = format!("{READELF} 0x1 (NEEDED) Shared library: [libssl.so.3]\n");
        assert!(depends(&more).unwrap_err().to_string().contains("libssl.so.3"));
    }
}
