//! Builds `stacks.c`, which makes models three times faster: loom maps and unmaps a stack for each
//! thread of each execution, and the library keeps them.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

use crate::command::Cmd;

const SOURCE: &str = include_str!("stacks.c");

/// The library for `LD_PRELOAD`, built in `folder`. None where it can't be built or is not known to
/// work: models run without it, only slower.
pub(super) fn library(folder: &Path) -> Result<Option<PathBuf>> {
    if cfg!(not(target_os = "linux")) {
        return Ok(None);
    }
    fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
    let (source, library) = (folder.join("stacks.c"), folder.join("stacks.so"));
    fs::write(&source, SOURCE).with_context(|| source.display().to_string())?;
    let cc = Cmd::new("cc -O2 -Wall -Wextra -shared -fPIC -o").arg(&library).arg(&source);
    if cc.works() {
        return Ok(Some(library));
    }
    println!("`cc` can't build {}: the models run without it, only slower", source.display());
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(target_os = "linux")]
    #[test]
    fn a_program_runs_with_the_library() {
        let folder = std::env::temp_dir().join(format!("xtask-stacks-{}", std::process::id()));
        let library = library(&folder).unwrap().expect("the tests have a C compiler");
        // One that uses threads: their stacks are mapped by the C library itself.
        let program = std::env::current_exe().unwrap();
        let listing = Cmd::program(program).arg("--list").env("LD_PRELOAD", &library);
        assert!(listing.read_quietly().unwrap().contains("a_program_runs_with_the_library"));
        fs::remove_dir_all(&folder).unwrap();
    }
}
