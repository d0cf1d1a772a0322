//! The libraries of others that are linked into a package, and the licences that they want shown.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use serde_json::Value;

use crate::command::Cmd;

/// How the names of files begin that a licence is in.
const NAMES: [&str; 5] = ["license", "licence", "copying", "notice", "copyright"];

/// Each library with the name of its licence; then every text once, with those that it is from.
/// `ours` are the packages of this workspace that they are linked into.
pub(super) fn page(ours: &[&str]) -> Result<String> {
    let tree = Cmd::new("cargo tree --locked --edges normal --prefix none")
        .args(ours.iter().flat_map(|package| ["-p", package]))
        .args(["--format", "{p}: {l}"])
        .read()?;
    let folders = folders()?;
    let mut page = "Libraries that are linked into lockspan, and their licences.\n\n".to_owned();
    let mut texts: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (library, licence) in linked(&tree) {
        page += &format!("{library}: {licence}\n");
        let folder = folders.get(library).with_context(|| format!("where is {library}?"))?;
        for (file, text) in texts_in(folder)? {
            texts.entry(text).or_default().push(format!("{library}, {file}"));
        }
    }
    for (text, from) in texts {
        page += &format!("\n==== {}\n\n{}\n", from.join("\n==== "), text.trim_end());
    }
    Ok(page)
}

/// The lines of `cargo tree`, each library once, without our own: `name vVERSION` and its licence.
fn linked(tree: &str) -> BTreeMap<&str, &str> {
    let lines = tree.lines().filter(|line| !line.starts_with("lockspan"));
    let libraries = lines.filter_map(|line| line.split_once(": "));
    libraries.map(|(name, licence)| (bare(name), licence.trim_end_matches(" (*)"))).collect()
}

/// `name vVERSION`, without what Cargo adds.
fn bare(name: &str) -> &str {
    name.split(" (").next().unwrap_or(name)
}

/// Where the source of each library is, by `name vVERSION`.
fn folders() -> Result<BTreeMap<String, PathBuf>> {
    let json = Cmd::new("cargo metadata --locked --format-version 1").read_quietly()?;
    let metadata: Value = serde_json::from_str(&json).context("`cargo metadata`")?;
    let packages = metadata["packages"].as_array().context("`cargo metadata` has no packages")?;
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let entry = |package: &Value| {
        let mut folder = PathBuf::from(text(&package["manifest_path"]));
        folder.pop();
        (format!("{} v{}", text(&package["name"]), text(&package["version"])), folder)
    };
    Ok(packages.iter().map(entry).collect())
}

fn texts_in(folder: &Path) -> Result<BTreeMap<String, String>> {
    let mut texts = BTreeMap::new();
    for entry in fs::read_dir(folder).with_context(|| folder.display().to_string())? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let small = name.to_lowercase();
        if path.is_file() && NAMES.iter().any(|begin| small.starts_with(begin)) {
            let bytes = fs::read(&path).with_context(|| path.display().to_string())?;
            texts.insert(name, String::from_utf8_lossy(&bytes).into_owned());
        }
    }
    Ok(texts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_library_of_others_is_listed_once() {
        let tree = "lockspan-cli v0.1.0 (/src/cli): MIT\nbytes v1.2.3: MIT\n\
                    derive v2.0.0 (proc-macro): MIT OR Apache-2.0\nbytes v1.2.3: MIT (*)\n";
        let expected = [("bytes v1.2.3", "MIT"), ("derive v2.0.0", "MIT OR Apache-2.0")];
        assert_eq!(linked(tree), BTreeMap::from(expected));
    }
}
