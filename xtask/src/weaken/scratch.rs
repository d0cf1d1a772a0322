//! A copy of the workspace that may be changed: the checkout never is.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

use crate::workspace::walk;

#[derive(Debug)]
pub(super) struct Scratch {
    pub(super) dir: PathBuf,
}

impl Scratch {
    /// Brings `dir` into step with `root`. Files that are the same already are left alone, so that
    /// Cargo builds only what has changed.
    pub(super) fn new(root: &Path, dir: &Path) -> Result<Self> {
        fs::create_dir_all(dir)?;
        let wanted = relative_files(root)?;
        for path in relative_files(dir)?.difference(&wanted) {
            fs::remove_file(dir.join(path))?;
        }
        let scratch = Self { dir: dir.to_owned() };
        for path in &wanted {
            let from = root.join(path);
            let content = fs::read(&from).with_context(|| from.display().to_string())?;
            scratch.write(path, content)?;
        }
        Ok(scratch)
    }

    /// Writes `content` to the file at `path` from the copy's root, unless it is there already.
    pub(super) fn write(&self, path: impl AsRef<Path>, content: impl AsRef<[u8]>) -> Result<()> {
        let path = self.dir.join(path);
        if fs::read(&path).is_ok_and(|old| old == content.as_ref()) {
            return Ok(());
        }
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent)?;
        }
        fs::write(&path, content).with_context(|| path.display().to_string())
    }
}

fn relative_files(root: &Path) -> Result<BTreeSet<PathBuf>> {
    let mut files = Vec::new();
    walk(root, &mut files)?;
    Ok(files.iter().filter_map(|file| file.strip_prefix(root).ok().map(Path::to_owned)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_follows_its_original_and_touches_nothing_that_is_the_same() {
        let home = std::env::temp_dir().join(format!("xtask-scratch-{}", std::process::id()));
        let (root, copy) = (home.join("root"), home.join("copy"));
        let original = Scratch { dir: root.clone() };
        original.write("src/a.rs", "1").unwrap();
        original.write("src/b.rs", "2").unwrap();
        original.write("target/built", "no").unwrap();
        Scratch::new(&root, &copy).unwrap();
        let before = fs::metadata(copy.join("src/a.rs")).unwrap().modified().unwrap();

        fs::remove_file(root.join("src/b.rs")).unwrap();
        let scratch = Scratch::new(&root, &copy).unwrap();
        assert_eq!(fs::metadata(copy.join("src/a.rs")).unwrap().modified().unwrap(), before);
        assert!(!copy.join("src/b.rs").exists());
        assert!(!copy.join("target").exists());

        scratch.write("src/a.rs", "mutant").unwrap();
        assert_eq!(fs::read_to_string(root.join("src/a.rs")).unwrap(), "1");
        fs::remove_dir_all(&home).unwrap();
    }
}
