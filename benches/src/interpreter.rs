//! The Python that measures its own locks: the one that `LOCKSPAN_PYTHON` names, or the one that
//! `cargo xtask test tools` makes.

use std::path::PathBuf;
use std::process::{Command, Stdio};

/// The interpreter.
pub(crate) fn python() -> PathBuf {
    let named = std::env::var_os("LOCKSPAN_PYTHON").map(PathBuf::from);
    named.unwrap_or_else(|| {
        let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../target/tools/python/bin/python");
        PathBuf::from(root)
    })
}

/// What a program prints, or what it says of its failure.
pub(crate) fn read(command: &mut Command) -> Result<String, String> {
    let output = command.output().map_err(|why| format!("{}: {why}", python().display()))?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).trim().to_owned());
    }
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// As [`read`], but what the program says on stderr is shown at once.
pub(crate) fn read_and_show(command: &mut Command) -> Result<String, String> {
    let output = command.stderr(Stdio::inherit()).output();
    let output = output.map_err(|why| format!("{}: {why}", python().display()))?;
    if !output.status.success() {
        return Err(format!("{}: {}", python().display(), output.status));
    }
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// The version of an installed package, or that there is none.
pub(crate) fn version(package: &str) -> String {
    let program = format!("import importlib.metadata as it; print(it.version('{package}'))");
    read(Command::new(python()).args(["-c", &program]))
        .unwrap_or_else(|_| "is not installed".to_owned())
}
