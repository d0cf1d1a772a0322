//! The Python package: one wheel for CPython 3.9 and later with the library and the program
//! `lockspan`, and a source distribution. Both are made by maturin, which pip installs into the
//! target directory.
//!
//! maturin compiles everything for itself. The test suite has compiled the library already, so it
//! packs a wheel from that one, with maturin's metadata. [`make`] compares the files of both.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};

use super::{fresh, licences, portable, ship};
use crate::built;
use crate::command::Cmd;
use crate::workspace::Workspace;

/// What somebody tries who has just installed it.
const FIRST: &str = "import lockspan
with lockspan.connect('memory:').record('invoice', 42).write(timeout=5) as held:
    held.check()
print(lockspan.__version__)";

/// What the wheel is made of: the library, and the program.
const OURS: [&str; 2] = ["lockspan-python", "lockspan-cli"];

/// The licences of the libraries that are linked into [`OURS`]; pyproject.toml names it.
const THIRD_PARTY: &str = "THIRD-PARTY";

/// What Cargo makes of `python/src`.
const LIBRARY: &str = "liblockspan_python.so";

/// Makes the wheel that ships and the source distribution in `out`, and tries the wheel.
///
/// zig links it against an old C library, so that it runs on every Linux since 2014; the program in
/// it is the static one. What can't be had here, zig or a static program, is said, and then that
/// part is for this machine's C library.
pub(super) fn make(workspace: &Workspace, out: &Path) -> Result<Vec<PathBuf>> {
    tool(workspace, "maturin", "maturin")?;
    let program = match portable::program(workspace) {
        Ok((program, _)) => program,
        Err(why) => {
            println!("no static program ({why:#}): it is for the C library of this machine");
            ship::build(workspace, None)?
        }
    };
    let target = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    put_licences(workspace)?;
    put_program(workspace, &program)?;
    let build = ["--release", "--locked", "--target", &target];
    let wheel = match tool(workspace, "ziglang", "ziglang") {
        Ok(()) => {
            let zig = ["--zig", "--compatibility", "manylinux2014"];
            wheel(workspace, out, build.iter().chain(&zig))?
        }
        Err(why) => {
            println!("no zig ({why:#}): the wheel is for the C library of this machine");
            wheel(workspace, out, build.iter())?
        }
    };
    try_in_clean_environment(workspace, &wheel)?;
    let library = workspace.target.join("python").join(&target).join("release").join(LIBRARY);
    let rehearsed = packed(workspace, &library, &program)?;
    let (ships, tested) = (files(workspace, &wheel)?, files(workspace, &rehearsed)?);
    ensure!(ships == tested, "the tests use a wheel with other files: {tested:?}, not {ships:?}");
    let sdist = maturin(workspace).arg("sdist").arg("--out").arg(out);
    sdist.dir(&workspace.root.join("python")).run()?;
    let sdist = newest(out, ".tar.gz", "lockspan-")?;
    compile_in_clean_environment(workspace, &sdist)?;
    Ok(vec![wheel, sdist])
}

/// Packs a wheel of the library and the program that the test suite has built, and tries it in a
/// clean environment.
pub(crate) fn rehearse(workspace: &Workspace) -> Result<PathBuf> {
    tool(workspace, "maturin", "maturin")?;
    put_licences(workspace)?;
    let (library, program) = (built::file(workspace, LIBRARY), built::file(workspace, "lockspan"));
    let wheel = packed(workspace, &library, &program)?;
    try_in_clean_environment(workspace, &wheel)?;
    Ok(wheel)
}

/// Installs the wheel into the environment of the tests.
pub(crate) fn install(workspace: &Workspace, wheel: &Path) -> Result<()> {
    let pip = ["-m", "pip", "install", "--quiet", "--no-index", "--no-deps", "--force-reinstall"];
    Cmd::program(workspace.python()).args(pip).arg(wheel).run()
}

/// Sees to it that the environment of the tests has the package; the step `python` puts the
/// present one there.
pub(crate) fn for_tests(workspace: &Workspace) -> Result<()> {
    if Cmd::program(workspace.python()).args(["-c", "import lockspan"]).works() {
        return Ok(());
    }
    built::build(workspace)?;
    let wheel = rehearse(workspace)?;
    install(workspace, &wheel)
}

/// A wheel of a library that is built already, for this machine only.
fn packed(workspace: &Workspace, library: &Path, program: &Path) -> Result<PathBuf> {
    tool(workspace, "wheel", "wheel")?;
    let content = fresh(&workspace.target.join("python/content"))?;
    let metadata = maturin(workspace).args(["pep517", "write-dist-info", "--interpreter"]);
    let metadata = metadata.arg(workspace.python()).args(["--compatibility", "linux"]);
    let metadata = metadata.arg("--metadata-directory").arg(&content);
    let said = metadata.dir(&workspace.root.join("python")).read()?;
    let version = said.trim().strip_suffix(".dist-info").context("maturin names no metadata")?;
    let scripts = content.join(format!("{version}.data/scripts"));
    let module = content.join("lockspan");
    fs::create_dir_all(&module)?;
    fs::create_dir_all(&scripts)?;
    for entry in fs::read_dir(workspace.root.join("python/lockspan"))? {
        let path = entry?.path();
        if path.is_file() && path.extension().is_none_or(|ending| ending != "so") {
            fs::copy(&path, module.join(path.file_name().unwrap_or_default()))?;
        }
    }
    stripped(library, &module.join("_lockspan.abi3.so"))?;
    stripped(program, &scripts.join("lockspan"))?;
    let out = fresh(&workspace.target.join("python/wheels"))?;
    let pack = Cmd::program(workspace.python()).args(["-m", "wheel", "pack", "--dest-dir"]);
    pack.arg(&out).arg(&content).run()?;
    newest(&out, ".whl", "lockspan-")
}

/// The names of the files in a wheel, without the bill of materials that maturin adds when it
/// compiles.
fn files(workspace: &Workspace, wheel: &Path) -> Result<Vec<String>> {
    let code = "import sys, zipfile; print(*sorted(zipfile.ZipFile(sys.argv[1]).namelist()))";
    let names = Cmd::program(workspace.python()).args(["-c", code]).arg(wheel).read()?;
    let is_compared = |name: &&str| !name.ends_with('/') && !name.contains(".dist-info/sboms/");
    Ok(names.split_whitespace().filter(is_compared).map(str::to_owned).collect())
}

/// Installs a package of PyPI beside the others that the tests need, if it is missing. `package`
/// may name a version, as `redis==8.1.0`; then another version is replaced.
pub(crate) fn tool(workspace: &Workspace, package: &str, module: &str) -> Result<()> {
    let python = workspace.python();
    let mut code = format!("import {module}");
    if let Some((name, version)) = package.split_once("==") {
        code += &format!(
            "; from importlib.metadata import version; assert version('{name}') == '{version}'"
        );
    }
    let probe = || Cmd::program(&python).args(["-c", &code]).works();
    if probe() {
        return Ok(());
    }
    let folder = workspace.target.join("tools/python");
    let pip = folder.join("bin/pip");
    if !pip.exists() {
        let venv = Cmd::new("python3 -m venv").arg(&folder).run();
        venv.context("an environment of Python: on Debian it needs the package python3-venv")?;
    }
    let install = Cmd::program(pip).args(["install", "--quiet", package]).run();
    install.with_context(|| format!("pip install {package}: this needs the network once"))?;
    ensure!(probe(), "{} still can't import {module}", python.display());
    Ok(())
}

/// The licences of others go where maturin looks for them.
fn put_licences(workspace: &Workspace) -> Result<()> {
    let place = workspace.root.join("python").join(THIRD_PARTY);
    fs::write(&place, licences::page(&OURS)?).with_context(|| place.display().to_string())
}

/// The program goes to the scripts of the wheel.
fn put_program(workspace: &Workspace, program: &Path) -> Result<()> {
    let scripts = workspace.root.join("python/lockspan._lockspan.data/scripts");
    fs::create_dir_all(&scripts).with_context(|| scripts.display().to_string())?;
    stripped(program, &scripts.join("lockspan"))
}

/// Copies a library or program without what only a debugger reads.
fn stripped(from: &Path, to: &Path) -> Result<()> {
    Cmd::new("strip --strip-unneeded -o").arg(to).arg(from).run()
}

fn maturin(workspace: &Workspace) -> Cmd {
    // It looks for zig in the Python that is first in the path.
    let mut path = workspace.target.join("tools/python/bin").into_os_string();
    path.push(":");
    path.push(std::env::var_os("PATH").unwrap_or_default());
    Cmd::program(workspace.python()).args(["-m", "maturin"]).env("PATH", path)
}

fn wheel<'a>(
    workspace: &Workspace,
    out: &Path,
    options: impl Iterator<Item = &'a &'a str>,
) -> Result<PathBuf> {
    let build = maturin(workspace).arg("build").args(options).arg("--out").arg(out);
    // A folder of its own: maturin tells PyO3 what Cargo alone does not.
    let build = build.arg("--target-dir").arg(workspace.target.join("python"));
    build.dir(&workspace.root.join("python")).run()?;
    newest(out, ".whl", "lockspan-")
}

/// The file that was made last.
fn newest(dir: &Path, ending: &str, beginning: &str) -> Result<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let is_linux = name.contains("-linux.tar");
        if name.ends_with(ending) && name.starts_with(beginning) && !is_linux {
            found.push((entry.metadata()?.modified()?, entry.path()));
        }
    }
    let newest = found.into_iter().max().map(|(_, path)| path);
    newest.with_context(|| format!("there is no {beginning}*{ending} in {}", dir.display()))
}

/// Installs the source distribution into an environment that has nothing, and uses the library. pip
/// fetches what compiles it.
fn compile_in_clean_environment(workspace: &Workspace, sdist: &Path) -> Result<()> {
    let list = Cmd::new("tar --list --file").arg(sdist).read_quietly()?;
    ensure!(list.contains(THIRD_PARTY), "{} has no {THIRD_PARTY}", sdist.display());
    let bin = clean_environment(workspace)?;
    let install = Cmd::program(bin.join("pip")).args(["install", "--quiet"]).arg(sdist);
    // The same build as the wheel's, as far as Cargo can tell.
    install.env("CARGO_TARGET_DIR", workspace.target.join("python")).run()?;
    Cmd::program(bin.join("python")).args(["-c", FIRST]).read().map(drop)
}

/// An environment that has nothing; returns the folder of its programs.
fn clean_environment(workspace: &Workspace) -> Result<PathBuf> {
    let folder = workspace.target.join("tools/python-clean");
    Cmd::program(workspace.python()).args(["-m", "venv", "--clear"]).arg(&folder).run()?;
    Ok(folder.join("bin"))
}

/// Installs the wheel, and nothing else, into an environment that has nothing, and uses it.
fn try_in_clean_environment(workspace: &Workspace, wheel: &Path) -> Result<()> {
    let bin = clean_environment(workspace)?;
    let install = Cmd::program(bin.join("pip")).args(["install", "--quiet", "--no-index"]);
    install.arg(wheel).run()?;
    let version = Cmd::program(bin.join("python")).args(["-c", FIRST]).read()?;
    let said = Cmd::program(bin.join("python")).args(["-m", "lockspan", "--version"]).read()?;
    let direct = Cmd::program(bin.join("lockspan")).arg("--version").read()?;
    ensure!(
        said == format!("lockspan {version}") && direct == said,
        "the versions differ: {version:?}, {said:?}, {direct:?}"
    );
    Ok(())
}
