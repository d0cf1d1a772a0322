//! The build that ships: `release`, without the paths of the machine that makes it.
//!
//! A message of a panic names its source file, and that of a library is below the builder's home.
//! Cargo has no stable option that leaves it out, so the compilers are told to write other names.
//! Flags are a part of what Cargo compares, so this build has a folder of its own.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};

use crate::command::Cmd;
use crate::workspace::Workspace;

/// Builds the binary for a target, or else for this machine.
pub(super) fn build(workspace: &Workspace, target: Option<&str>) -> Result<PathBuf> {
    let mut dir = workspace.target.join("ship");
    let names = [(cargo_home()?, "/cargo"), (workspace.root.clone(), "/lockspan")];
    let rust = names.iter().map(|(path, name)| format!("{:?}", remap(path, name)));
    let rust = format!("build.rustflags=[{}]", rust.collect::<Vec<_>>().join(","));
    let build = Cmd::new("cargo build -p lockspan-cli --locked --release --config").arg(rust);
    let build = build.arg("--target-dir").arg(&dir).env("CFLAGS", c_flags(&names));
    let build = match target {
        Some(target) => build.args(["--target", target]),
        None => build,
    };
    build.run()?;
    dir.extend(target);
    let binary = dir.join("release/lockspan");
    let bytes = fs::read(&binary).with_context(|| binary.display().to_string())?;
    let paths = names.map(|(path, _)| path);
    if let Some(found) = path_in(&bytes, &paths) {
        bail!("{} has a path of this machine in it: {found}", binary.display());
    }
    Ok(binary)
}

fn remap(path: &Path, name: &str) -> String {
    format!("--remap-path-prefix={}={name}", path.display())
}

/// For the C of *ring*, after the flags that are set already.
fn c_flags(names: &[(PathBuf, &str)]) -> String {
    let mut flags = std::env::var("CFLAGS").unwrap_or_default();
    for (path, name) in names {
        flags += &format!(" -ffile-prefix-map={}={name}", path.display());
    }
    format!("{flags} -fstack-protector-strong").trim_start().to_owned()
}

/// Where Cargo has the sources of libraries.
fn cargo_home() -> Result<PathBuf> {
    let named = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = || std::env::var_os("HOME").map(|home| Path::new(&home).join(".cargo"));
    named.or_else(home).context("neither CARGO_HOME nor HOME is set")
}

/// The first place that begins with one of these paths, as far as it is readable.
fn path_in(bytes: &[u8], paths: &[PathBuf]) -> Option<String> {
    let begins = |at: usize| {
        paths.iter().any(|path| bytes[at..].starts_with(path.as_os_str().as_encoded_bytes()))
    };
    let at = (0..bytes.len()).find(|at| bytes[*at] == b'/' && begins(*at))?;
    let readable = bytes[at..].iter().take_while(|byte| byte.is_ascii_graphic()).take(200);
    Some(readable.map(|byte| char::from(*byte)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_of_the_builder_is_found() {
        let paths = [PathBuf::from("/home/ann/.cargo"), PathBuf::from("/src/lockspan")];
        let binary = b"\0/cargo/registry/a.rs\0msg/home/ann/.cargo/registry/b.rs\0/home/ann";
        let found = path_in(binary, &paths);
        assert_eq!(found.as_deref(), Some("/home/ann/.cargo/registry/b.rs"));
        assert_eq!(path_in(b"/cargo/registry/a.rs /home/ann", &paths), None);
        assert_eq!(path_in(b"", &paths), None);
    }

    #[test]
    fn compilers_are_told_other_names() {
        let names = [(PathBuf::from("/home/ann/.cargo"), "/cargo")];
        assert_eq!(remap(&names[0].0, "/cargo"), "--remap-path-prefix=/home/ann/.cargo=/cargo");
        assert!(
            c_flags(&names)
                .ends_with("-ffile-prefix-map=/home/ann/.cargo=/cargo -fstack-protector-strong")
        );
    }
}
