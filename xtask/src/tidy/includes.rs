//! What a published crate includes while it is compiled is in its own folder, so that its package
//! has it. A link to a file elsewhere in the repository is followed when the package is made.

use std::path::{Component, Path, PathBuf};

use super::Finding;
use crate::workspace::{File, Workspace};

/// The macros that read a file, cut in two so that this file passes its own check.
const MACROS: [&str; 2] = [concat!("include_", "str!(\""), concat!("include_", "bytes!(\"")];

pub(super) fn check(workspace: &Workspace, file: &File) -> Vec<Finding> {
    match workspace.package_of(&file.path) {
        Some(package) if package.is_published => {
            check_file(file, &workspace.relative(&package.dir.join("src")))
        }
        _ => Vec::new(),
    }
}

/// Only what is below `src` is in a package.
fn check_file(file: &File, src: &str) -> Vec<Finding> {
    let path = Path::new(&file.path);
    let (Some(folder), Some(package)) = (path.parent(), Path::new(src).parent()) else {
        return Vec::new();
    };
    if !path.starts_with(src) {
        return Vec::new();
    }
    let mut findings = Vec::new();
    for (number, line) in file.lines() {
        for name in MACROS.iter().filter_map(|name| line.split_once(name)) {
            let name = name.1.split('"').next().unwrap_or_default();
            if !plain(&folder.join(name)).starts_with(package) {
                let wrong = format!("{name} is outside of the crate, so its package lacks it");
                let todo = "include it by a link inside of the crate, and name that in `include`";
                findings.push(Finding::new(&file.path, number, wrong, todo));
            }
        }
    }
    findings
}

/// `path` without `..`, as it is written: links are not followed.
fn plain(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        if part == Component::ParentDir {
            plain.pop();
        } else {
            plain.push(part);
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(path: &str, name: &str) -> usize {
        let text = format!("const PAGE: &str = {}{name}\");\n", MACROS[0]);
        check_file(&File { path: path.to_owned(), text }, "crates/a/src").len()
    }

    #[test]
    fn a_file_outside_of_the_crate_is_found() {
        assert_eq!(findings("crates/a/src/lib.rs", "../../../README.md"), 1);
        assert_eq!(findings("crates/a/src/deep/b.rs", "../../../b/src/page.html"), 1);
    }

    #[test]
    fn a_file_of_the_crate_passes_and_so_do_tests_that_no_package_has() {
        assert_eq!(findings("crates/a/src/lib.rs", "../README.md"), 0);
        assert_eq!(findings("crates/a/src/deep/b.rs", "page/index.html"), 0);
        assert_eq!(findings("crates/a/tests/b.rs", "../../../README.md"), 0);
    }
}
