//! The wheel on every interpreter of Python that this machine has: one wheel is for all of them.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::thread;

use anyhow::{Context as _, Result};

use crate::command::Cmd;
use crate::workspace::Workspace;

/// The minor versions of CPython 3 that the wheel is for, as far as they are released.
const VERSIONS: std::ops::RangeInclusive<u32> = 9..=14;

/// Runs `python/tests/smoke.py` on every interpreter found, at once, each in an environment that
/// has nothing but the wheel. Returns which versions ran, and which were not found.
pub(crate) fn smoke(workspace: &Workspace, wheel: &Path) -> Result<String> {
    let (mut found, mut missing) = (Vec::new(), Vec::new());
    for minor in VERSIONS {
        match interpreter(minor) {
            Some(path) => found.push((minor, path)),
            None => missing.push(format!("3.{minor}")),
        }
    }
    thread::scope(|scope| {
        let runs: Vec<_> = found
            .iter()
            .map(|(minor, path)| scope.spawn(move || run(workspace, wheel, *minor, path)))
            .collect();
        runs.into_iter().try_for_each(|run| run.join().expect("it does not panic"))
    })?;
    let ran: Vec<_> = found.iter().map(|(minor, _)| format!("3.{minor}")).collect();
    let mut said = format!("CPython {}", ran.join(", "));
    if !missing.is_empty() {
        said += &format!(" (not found: {})", missing.join(", "));
    }
    Ok(said)
}

/// An interpreter of this version, in the PATH or among those of pyenv.
fn interpreter(minor: u32) -> Option<PathBuf> {
    let name = format!("python3.{minor}");
    let path = env::var_os("PATH").unwrap_or_default();
    let in_path = env::split_paths(&path).map(|folder| folder.join(&name)).collect::<Vec<_>>();
    let pyenv = env::var_os("PYENV_ROOT").map(PathBuf::from);
    let pyenv = pyenv.or_else(|| Some(PathBuf::from(env::var_os("HOME")?).join(".pyenv")));
    let versions = pyenv.and_then(|pyenv| fs::read_dir(pyenv.join("versions")).ok());
    let of_pyenv = versions.into_iter().flatten().flatten();
    let of_pyenv = of_pyenv.map(|version| version.path().join("bin").join(&name));
    let code = format!("import sys, venv; assert sys.version_info[:2] == (3, {minor})");
    // A shim of pyenv is there for versions that are installed but not chosen, and fails.
    let works = |path: &PathBuf| path.exists() && Cmd::program(path).args(["-c", &code]).works();
    in_path.into_iter().chain(of_pyenv).find(works)
}

fn run(workspace: &Workspace, wheel: &Path, minor: u32, interpreter: &Path) -> Result<()> {
    let folder = workspace.target.join(format!("tools/python-smoke/3.{minor}"));
    let make = Cmd::program(interpreter).args(["-m", "venv", "--clear", "--without-pip"]);
    make.arg(&folder).run()?;
    let python = folder.join("bin/python");
    // The pip of the tests installs for all of them: it checks that the wheel is for them.
    let install = Cmd::program(workspace.python()).args(["-m", "pip", "--python"]).arg(&python);
    let install = install.args(["install", "--quiet", "--no-index", "--no-deps"]);
    install.arg(wheel).run().with_context(|| format!("the wheel on Python 3.{minor}"))?;
    let smoke = Cmd::program(&python).args(["-W", "ignore", "python/tests/smoke.py"]);
    smoke.dir(&workspace.root).run().with_context(|| format!("Python 3.{minor}"))
}
