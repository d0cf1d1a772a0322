//! What the suite needs beyond Cargo: it is installed if it can be, or else named.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail, ensure};

use crate::command::Cmd;
use crate::workspace::Workspace;

/// Installs a component of the toolchain in use, if it is missing.
pub(super) fn rust_component(name: &str, probe: &str) -> Result<()> {
    if Cmd::new(probe).works() {
        return Ok(());
    }
    let install = format!("rustup component add {name}");
    let installed = Cmd::new(&install).run();
    installed.with_context(|| format!("{name} is missing: run `{install}` and try again"))
}

/// Compilers for the programs that test the C interfaces, from C and from C++.
pub(super) fn c_compilers(workspace: &Workspace) -> Result<()> {
    for (compiler, suffix, packages) in
        [("cc", "c", ["gcc", "libc6-dev"]), ("c++", "cpp", ["g++", "libc6-dev"])]
    {
        if compiles(workspace, compiler, suffix)? {
            continue;
        }
        apt_install(&packages)?;
        let works = compiles(workspace, compiler, suffix)?;
        ensure!(works, "`{compiler}` still can't build a program that uses pthreads");
    }
    Ok(())
}

/// A program of another project that a test runs as it is.
pub(super) fn program(probe: &str, package: &str) -> Result<()> {
    if !Cmd::new(probe).works() {
        apt_install(&[package])?;
        ensure!(Cmd::new(probe).works(), "`{probe}` still does not work");
    }
    Ok(())
}

/// A Python with redis-py, in a folder of its own.
pub(super) fn python(workspace: &Workspace) -> Result<()> {
    let python = workspace.python();
    let probe = || Cmd::program(&python).args(["-c", "import redis"]).works();
    if probe() {
        return Ok(());
    }
    let folder = workspace.target.join("tools/python");
    let make = || Cmd::new("python3 -m venv").arg(&folder).run();
    if make().is_err() {
        apt_install(&["python3", "python3-venv"])?;
        make()?;
    }
    Cmd::program(folder.join("bin/pip")).args(["install", "--quiet", "redis"]).run()?;
    ensure!(probe(), "{} still can't import redis", python.display());
    Ok(())
}

/// Node.js with node-redis, in a folder of its own.
pub(super) fn node(workspace: &Workspace) -> Result<()> {
    program("node --version", "nodejs")?;
    let folder = workspace.node();
    let probe = || Cmd::new("node -e").arg("require('redis')").dir(&folder).works();
    fs::create_dir_all(&folder)?;
    if probe() {
        return Ok(());
    }
    program("npm --version", "npm")?;
    Cmd::new("npm install --no-audit --no-fund --silent redis").dir(&folder).run()?;
    ensure!(probe(), "node in {} still can't load redis", folder.display());
    Ok(())
}

/// Prometheus' checker of metrics and alerts, or the reason why it can't be had. It is taken out of
/// Debian's package: to install that would start a server.
pub(super) fn promtool(workspace: &Workspace) -> Result<PathBuf, String> {
    let works = |promtool: &Path| Cmd::program(promtool).arg("--version").works();
    let (installed, own) = (PathBuf::from("promtool"), workspace.promtool());
    if let Some(there) = [installed, own.clone()].into_iter().find(|it| works(it)) {
        return Ok(there);
    }
    let unpack = || -> Result<()> {
        let folder = workspace.target.join("tools/prometheus");
        fs::create_dir_all(&folder)?;
        let fetch = || Cmd::new("apt-get download prometheus").dir(&folder).run();
        if fetch().is_err() {
            Cmd::new("apt-get update").run()?;
            fetch()?;
        }
        let mut files = fs::read_dir(&folder)?.filter_map(|file| Some(file.ok()?.path()));
        let package = files.find(|file| file.extension().is_some_and(|it| it == "deb"));
        let package = package.context("apt-get download left no package")?;
        Cmd::new("dpkg -x").arg(package).arg(&folder).run()?;
        fs::rename(folder.join("usr/bin/promtool"), &own)?;
        Ok(fs::remove_dir_all(folder)?)
    };
    unpack().map_err(|why| format!("no promtool: {why:#}"))?;
    if works(&own) { Ok(own) } else { Err(format!("`{}` does not work", own.display())) }
}

/// Debian's packages, as root; otherwise says what to install.
pub(super) fn apt_install(packages: &[&str]) -> Result<()> {
    let by_hand = format!("apt-get install {}", packages.join(" "));
    let root = Cmd::new("id -u").read_quietly().is_ok_and(|id| id.trim() == "0");
    if !root || !Cmd::new("apt-get --version").works() {
        bail!("{} missing: install it (on Debian: `{by_hand}` as root)", packages.join(", "));
    }
    Cmd::new("apt-get update").run()?;
    let install = Cmd::new("apt-get install -y --no-install-recommends").args(packages);
    install.env("DEBIAN_FRONTEND", "noninteractive").run()
}

/// True if `cargo nextest` is there. It is not installed: building it takes longer than the suite,
/// and `cargo test` runs the same tests.
pub(super) fn has_nextest() -> bool {
    Cmd::new("cargo nextest --version").works()
}

/// Miri for the nightly toolchain, or the reason why it can't be had.
pub(super) fn miri() -> Result<(), String> {
    if !Cmd::new("cargo +nightly --version").works() {
        let install = "rustup toolchain install nightly --profile minimal";
        Cmd::new(install).run().map_err(|_| format!("no nightly toolchain: `{install}` failed"))?;
    }
    if !Cmd::new("cargo +nightly miri --version").works() {
        let add = "rustup component add miri rust-src --toolchain nightly";
        Cmd::new(add).run().map_err(|_| format!("Miri is missing: `{add}` failed"))?;
    }
    let setup = "cargo +nightly miri setup";
    Cmd::new(setup).run().map_err(|_| format!("no standard library for Miri: `{setup}` failed"))
}

fn compiles(workspace: &Workspace, compiler: &str, suffix: &str) -> Result<bool> {
    let dir = workspace.target.join("probe");
    fs::create_dir_all(&dir)?;
    let source = dir.join(format!("probe.{suffix}"));
    fs::write(&source, "#include <pthread.h>\nint main() { return 0; }\n")?;
    let program = dir.join(format!("probe-{suffix}"));
    Ok(Cmd::new(compiler).arg("-pthread").arg(&source).arg("-o").arg(&program).works())
}
