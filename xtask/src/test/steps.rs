//! The steps of `cargo xtask test`, cheap ones first.

use std::collections::BTreeSet;
use std::fs;
use std::num::NonZero;
use std::os::unix::fs::MetadataExt as _;
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};

use super::{Done, Step, tools};
use crate::built::{self, SAME};
use crate::command::Cmd;
use crate::deny::{self, Checked};
use crate::models::{self, Kind, LOOM, Report, SHUTTLE, Suite, Verdict};
use crate::package;
use crate::tidy;
use crate::workspace::Workspace;

/// All of them, in the order in which they run.
pub(super) const STEPS: &[Step] = &[
    Step::quick("tools", "rustfmt, clippy, compilers, programs under test", install_tools),
    Step::quick("format", "rustfmt would change nothing", format_check),
    Step::quick("tidy", "the rules that the compiler does not check", tidy_check),
    Step::new(
        "advisories",
        "licences, bans and known holes of dependencies; needs cargo-deny and a network",
        advisories,
    ),
    Step::quick("clippy", "no warnings, in the models neither", clippy),
    Step::new("docs", "the documentation builds without warnings", docs),
    Step::quick("build", "all that the steps below run unoptimised, in one build", build),
    Step::quick("tests", "unit, integration and C tests", tests),
    Step::new("doctests", "the examples in the documentation", doc_tests),
    Step::new("users", "locks between users of one machine; needs root", users),
    Step::new(
        "features",
        "each choice of features compiles, and takes along what docs say",
        features,
    ),
    Step::new(
        "static",
        "per-processor data and revocable locks, linked statically and as a whole",
        linked_statically,
    ),
    Step::new(
        "packages",
        "each crate and the Debian package can be made; what is in it works",
        packages,
    ),
    Step::new(
        "python",
        "the wheel in a clean environment, its tests on three services, its examples",
        python,
    ),
    Step::new("examples", "each example prints what it promises", examples),
    Step::new("tour", "each command block of README and its pages does what they say", tour),
    Step::new("sim", "simulated worlds with faults; every bug put back is found", sim),
    Step::new("loom", "every interleaving of the small models", loom),
    Step::new("shuttle", "random interleavings of the larger models", shuttle),
    Step::new("miri", "no undefined behaviour, under several seeds", miri),
    Step::new("bench", "each comparison with other locks and services still runs", bench_smoke),
];

/// The crates whose unit tests Miri can run; the others call what it does not know.
const MIRI_PACKAGES: [&str; 2] = ["lockspan-park", "lockspan-thread"];

/// The small worlds of the protocol are searched by the step `sim`, optimised: ten times faster.
/// The protocol has no debug assertions, and its release profile checks overflows too.
const NOT_SEARCHES: &str = "not (package(lockspan-protocol) & binary(model))";

/// Worlds of one test run: enough for every kind of fault and every state, and for each bug of a
/// change of owner.
const SIM_SEEDS: &str = "0..20000";

/// Processor time of one model. No model needs as long as this; one that does has lost its way.
const MODELS_LIMIT: Duration = Duration::from_secs(1800);

/// Each seed is another schedule and other failures of weak compare-and-swaps. Many tests panic on
/// purpose, and to interpret what writes a backtrace takes longer than the tests; the errors of
/// Miri itself have one regardless.
const MIRI_FLAGS: &str =
    "-Zmiri-disable-isolation -Zmiri-many-seeds=0..2 -Zmiri-env-set=RUST_BACKTRACE=0";

fn passed(what: impl Into<String>) -> Result<Done> {
    Ok(Done::Passed(what.into()))
}

fn install_tools(workspace: &Workspace) -> Result<Done> {
    tools::rust_component("rustfmt", "cargo fmt --version")?;
    tools::rust_component("clippy", "cargo clippy --version")?;
    tools::c_compilers(workspace)?;
    // Its unchanged binary runs under the preload library; `nm` reads what the libraries export.
    tools::program("openssl version", "openssl")?;
    tools::program("nm --version", "binutils")?;
    // Strangers that talk to the server; README's tour has both, and a terminal.
    tools::program("redis-cli --version", "redis-tools")?;
    tools::program("curl --version", "curl")?;
    tools::program("script --version", "bsdutils")?;
    tools::python(workspace)?;
    tools::node(workspace)?;
    // The server's page is looked at in a real browser.
    tools::program("chromium --version", "chromium")?;
    // The service is measured beside them.
    tools::program("redis-server --version", "redis-server")?;
    tools::program("etcd --version", "etcd-server")?;
    let promtool = match tools::promtool(workspace) {
        Ok(_) => "promtool".to_owned(),
        Err(why) => why,
    };
    passed(format!(
        "rustfmt, clippy, C, openssl, nm, redis-cli, curl, script, redis-py, node-redis, \
         redis-server, etcd, Chromium, {promtool}"
    ))
}

fn format_check(_: &Workspace) -> Result<Done> {
    Cmd::new("cargo fmt --all --check").run().context("run `cargo fmt --all`")?;
    passed("all packages")
}

fn tidy_check(workspace: &Workspace) -> Result<Done> {
    let summary = tidy::check(workspace)?;
    passed(summary)
}

fn clippy(workspace: &Workspace) -> Result<Done> {
    Cmd::new("cargo clippy --workspace --all-targets -- -D warnings").run()?;
    for kind in [LOOM, SHUTTLE] {
        for package in kind.packages {
            // The profile `test` looks at the unit tests as well; integration tests are no models.
            // One package at a time: as a dependency it has parts that only its own models use.
            Cmd::new("cargo clippy --no-deps --lib --profile test -p")
                .arg(package)
                .arg("--target-dir")
                .arg(workspace.target.join(kind.target_name()))
                .args(["--", "-D", "warnings"])
                .rustc_cfg(kind.cfg)
                .run()?;
        }
    }
    passed("all packages, and those with models also as models")
}

fn docs(_: &Workspace) -> Result<Done> {
    Cmd::new("cargo doc --workspace --no-deps").env("RUSTDOCFLAGS", "-Dwarnings").run()?;
    passed("all packages")
}

fn build(workspace: &Workspace) -> Result<Done> {
    built::build(workspace)?;
    passed("libraries, programs and tests of all packages but the simulator")
}

fn tests(workspace: &Workspace) -> Result<Done> {
    let has_nextest = tools::has_nextest();
    let runner = if has_nextest { "cargo nextest run" } else { "cargo test --all-targets" };
    // The simulator has a step of its own, optimised.
    let mut tests = Cmd::new(runner).arg("--locked").args(SAME);
    if has_nextest {
        // Many tests wait for most of their time: for the end of a lease, or for a process.
        let threads = 3 * thread::available_parallelism().map_or(1, NonZero::get);
        tests = tests.arg("--no-fail-fast").arg("--test-threads").arg(threads.to_string());
        tests = tests.args(["-E", NOT_SEARCHES]);
    }
    let mut tests = tests.env("LOCKSPAN_PYTHON", workspace.python());
    let promtool = match tools::promtool(workspace) {
        Ok(promtool) => {
            tests = tests.env("LOCKSPAN_PROMTOOL", promtool);
            "metrics and alerts were checked by promtool".to_owned()
        }
        Err(why) => why,
    };
    tests.env("LOCKSPAN_NODE", workspace.node()).run()?;
    passed(format!("`{runner}`; {promtool}"))
}

fn doc_tests(_: &Workspace) -> Result<Done> {
    Cmd::new("cargo test --locked --doc").args(SAME).run()?;
    passed("all packages but the simulator, which has none")
}

/// Only root can become others.
fn users(_: &Workspace) -> Result<Done> {
    if fs::metadata("/proc/self")?.uid() != 0 {
        return Ok(Done::DidNotRun("this is not root, who could become other users".to_owned()));
    }
    for (probe, missing) in [
        ("setpriv --version", "no setpriv (util-linux)"),
        ("flock --version", "no flock (util-linux)"),
        ("ip -Version", "no ip (iproute2)"),
        ("unshare --mount --net true", "namespaces can't be made here"),
    ] {
        if !Cmd::new(probe).works() {
            return Ok(Done::DidNotRun(missing.to_owned()));
        }
    }
    Cmd::new("cargo test --locked").args(SAME).args(["--test", "users"]).run()?;
    passed("sockets with rights; files, homes and services of others; setuid programs")
}

/// By cargo-deny; tidy has checked licences and sources without it.
fn advisories(workspace: &Workspace) -> Result<Done> {
    match deny::check(&workspace.root)? {
        Checked::All(what) => passed(what),
        Checked::NotAll(why) => Ok(Done::DidNotRun(why)),
    }
}

/// The optional features are on in the shared build, so their tests belong to the step `tests`.
fn features(_: &Workspace) -> Result<Done> {
    Cmd::new("cargo clippy --locked --all-targets -p lockspan-thread --features serde,signals")
        .args(["--", "-D", "warnings"])
        .run()?;
    passed(super::features::check()?)
}

/// Where the C library is part of the program its areas are found in another way, and a linker that
/// sees everything could drop what describes a section.
fn linked_statically(workspace: &Workspace) -> Result<Done> {
    if cfg!(not(all(target_os = "linux", target_arch = "x86_64", target_env = "gnu"))) {
        return Ok(Done::DidNotRun("there are no sections here".to_owned()));
    }
    Cmd::new("cargo test --release --target x86_64-unknown-linux-gnu -p lockspan-thread")
        .args(["--test", "percpu", "--test", "revocable", "--test", "sections"])
        .args(["--config", "profile.release.lto=\"fat\"", "--target-dir"])
        .arg(workspace.target.join("static"))
        .env("RUSTFLAGS", "-C target-feature=+crt-static")
        .run()?;
    passed("percpu, revocable, sections: +crt-static, lto = fat")
}

/// With the binary that is there already; `cargo xtask package` is for the one that ships.
fn packages(workspace: &Workspace) -> Result<Done> {
    if !Cmd::new("dpkg-deb --version").works() {
        return Ok(Done::DidNotRun("no dpkg-deb: this is no Debian".to_owned()));
    }
    let (crates, tried) = package::rehearse(workspace)?;
    passed(format!("{crates} crates; lockspan.deb, {tried}"))
}

/// With the binary that is there already, and a library that is not optimised.
fn python(workspace: &Workspace) -> Result<Done> {
    for (package, module) in PYTHON_TOOLS {
        package::python_tool(workspace, package, module)?;
    }
    built::build(workspace)?;
    let wheel = package::rehearse_python(workspace)?;
    package::install_python(workspace, &wheel)?;
    let interpreters = package::python_on_all_interpreters(workspace, &wheel)?;
    let python = workspace.python();
    // From the root, so that the package is the installed one and not the folder beside the tests.
    Cmd::program(&python)
        .args(["-m", "pytest", "-c", "python/pyproject.toml", "-n", "auto", "python/tests"])
        .run()?;
    // The other comparisons are in the step `bench`; this one needs the packages from above.
    Cmd::program(built::file(workspace, "lockspan-bench"))
        .args(["python", "--smoke", "--out"])
        .arg(workspace.target.join("bench-smoke/python"))
        .env("LOCKSPAN_PYTHON", &python)
        .run()?;
    passed(format!(
        "wheel, threads and tasks, forks, redis-py's lock tests, examples, types, comparison; also \
         on {interpreters}"
    ))
}

/// What the tests of the Python package use, with a module of each. The tests count the lock tests
/// of redis-py, so its version is fixed; docs/python.md names it.
const PYTHON_TOOLS: [(&str, &str); 8] = [
    ("redis==8.1.0", "redis"),
    ("pytest", "pytest"),
    ("pytest-xdist", "xdist"),
    ("mypy", "mypy"),
    ("python-redis-lock", "redis_lock"),
    ("celery", "celery"),
    ("gunicorn", "gunicorn"),
    ("django", "django"),
];

fn loom(workspace: &Workspace) -> Result<Done> {
    model_step(workspace, &LOOM)
}

fn shuttle(workspace: &Workspace) -> Result<Done> {
    model_step(workspace, &SHUTTLE)
}

/// Builds the models of `kind`, runs them all, and names those that failed.
fn model_step(workspace: &Workspace, kind: &'static Kind) -> Result<Done> {
    let target = workspace.target.join(kind.target_name());
    let logs = target.join("logs");
    let (dir, packages) = (&workspace.root, kind.packages);
    let suite = Suite { dir, target, kind, packages, incremental: false };
    let models = suite.build()?;
    println!("{} models, each in a process of its own", models.len());
    let reports = models::run(&models, MODELS_LIMIT, false, &logs, Report::print)?;
    let mut failed = Vec::new();
    for report in reports.iter().filter(|report| report.verdict != Verdict::Passed) {
        let name = &report.model.name;
        failed.push(name.as_str());
        println!("\n{name}: {}\n{}", report.verdict.name(), report.last_words());
        println!("all of it: {}\nalone: {}", report.log.display(), kind.by_hand(name));
    }
    ensure!(
        failed.is_empty(),
        "{} of {} models: {}",
        failed.len(),
        models.len(),
        failed.join(", ")
    );
    passed(format!("{} models", models.len()))
}

fn miri(_: &Workspace) -> Result<Done> {
    if let Err(why) = tools::miri() {
        return Ok(Done::DidNotRun(why));
    }
    let flags = std::env::var("MIRIFLAGS").unwrap_or_else(|_| MIRI_FLAGS.to_owned());
    Cmd::new("cargo +nightly miri test --lib")
        .args(MIRI_PACKAGES.iter().flat_map(|package| ["-p", package]))
        .env("MIRIFLAGS", &flags)
        .run()?;
    passed(format!("park and thread, {flags}"))
}

fn examples(workspace: &Workspace) -> Result<Done> {
    let package = workspace.packages.iter().find(|package| package.name == "lockspan-examples");
    let package = package.context("the package lockspan-examples is gone")?;
    let programs: BTreeSet<_> = package.targets.iter().map(|target| target.name.clone()).collect();
    let expected = package.dir.join("expected");
    for entry in fs::read_dir(&expected).context("examples/expected")? {
        let path = entry?.path();
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        ensure!(programs.contains(&name), "{} belongs to no example", path.display());
    }
    built::build(workspace)?;
    for name in &programs {
        let run = Cmd::program(built::file(workspace, name));
        let printed = run.env("LOCKSPAN_PYTHON", workspace.python()).read()?;
        let path = expected.join(format!("{name}.txt"));
        let promised = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        if printed != promised {
            bail!("{name} printed\n{printed}\nand not what {} says", path.display());
        }
    }
    passed(format!("{} programs", programs.len()))
}

fn tour(workspace: &Workspace) -> Result<Done> {
    passed(crate::tour::check(workspace, None)?)
}

/// The protocol's worlds; a failure prints its seed and the command that replays it.
fn sim(workspace: &Workspace) -> Result<Done> {
    // Both in each command, so that they share a build: the simulator turns on the protocol's
    // feature `mutants`, which its own tests need as well.
    let packages = ["-p", "sim", "-p", "lockspan-protocol"];
    Cmd::new("cargo build --locked --release --all-targets").args(packages).run()?;
    // The worlds use all processors, and the tests below too: neither waits for the other.
    let worlds = Cmd::program(workspace.target.join("release/sim"))
        .args(["--require-coverage", "--seeds", SIM_SEEDS])
        .start(&workspace.target.join("sim.log"))?;
    // The simulator's own tests replay each bug with its seed; they are slow without optimisation.
    let runner =
        if tools::has_nextest() { "cargo nextest run" } else { "cargo test --all-targets" };
    Cmd::new(runner).args(["--locked", "--release"]).args(packages).run()?;
    worlds.finish()?;
    passed(format!("worlds {SIM_SEEDS}, each bug put back, the small worlds in every order"))
}

/// Not optimised, as the tests are: the numbers of a smoke run mean nothing.
fn bench_smoke(workspace: &Workspace) -> Result<Done> {
    built::build(workspace)?;
    Cmd::program(built::file(workspace, "lockspan-bench"))
        .arg("smoke")
        .env("LOCKSPAN_PYTHON", workspace.python())
        .run()?;
    passed("each comparison once, tiny; its numbers mean nothing")
}
