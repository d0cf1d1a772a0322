//! The steps of `cargo xtask test`, cheap ones first.

use std::collections::BTreeSet;
use std::fs;
use std::num::NonZero;
use std::os::unix::fs::MetadataExt as _;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};

use super::{Done, Step, tools};
use crate::command::Cmd;
use crate::models::{self, Kind, LOOM, Report, SHUTTLE, Suite, Verdict};
use crate::package;
use crate::preload;
use crate::tidy;
use crate::workspace::Workspace;

/// All of them, in the order in which they run.
pub(super) const STEPS: &[Step] = &[
    Step {
        name: "tools",
        what: "rustfmt, clippy, compilers, programs under test",
        run: install_tools,
    },
    Step { name: "format", what: "rustfmt would change nothing", run: format_check },
    Step { name: "tidy", what: "the rules that the compiler does not check", run: tidy_check },
    Step {
        name: "advisories",
        what: "no known hole in what we depend on; needs cargo-audit and a network",
        run: advisories,
    },
    Step { name: "clippy", what: "no warnings, in the models neither", run: clippy },
    Step { name: "docs", what: "the documentation builds without warnings", run: docs },
    Step { name: "tests", what: "unit, integration, C and documentation tests", run: tests },
    Step { name: "users", what: "locks between users of one machine; needs root", run: users },
    Step { name: "features", what: "the tests with the optional features on", run: features },
    Step {
        name: "static",
        what: "per-processor data and revocable locks, linked statically and as a whole",
        run: linked_statically,
    },
    Step {
        name: "packages",
        what: "each crate and the Debian package can be made; what is in it works",
        run: packages,
    },
    Step { name: "examples", what: "each example prints what it promises", run: examples },
    Step {
        name: "tour",
        what: "each command block of README and its pages does what they say",
        run: tour,
    },
    Step {
        name: "sim",
        what: "simulated worlds with faults; every bug put back is found",
        run: sim,
    },
    Step { name: "loom", what: "every interleaving of the small models", run: loom },
    Step { name: "shuttle", what: "random interleavings of the larger models", run: shuttle },
    Step { name: "miri", what: "no undefined behaviour, under several seeds", run: miri },
    Step {
        name: "bench",
        what: "each comparison with other locks and services still runs",
        run: bench_smoke,
    },
];

/// The crates whose unit tests Miri can run; the others call what it does not know.
const MIRI_PACKAGES: [&str; 2] = ["lockspan-park", "lockspan-thread"];

/// Worlds of one test run: enough for every kind of fault and every state.
const SIM_SEEDS: &str = "0..600";

/// No model needs as long as this; one that does has lost its way.
const MODELS_LIMIT: Duration = Duration::from_secs(1800);

/// Each seed is another schedule and other failures of weak compare-and-swaps.
const MIRI_SEEDS: &str = "-Zmiri-disable-isolation -Zmiri-many-seeds=0..2";

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

fn tests(workspace: &Workspace) -> Result<Done> {
    let has_nextest = tools::has_nextest();
    let runner = if has_nextest { "cargo nextest run" } else { "cargo test --all-targets" };
    // The simulator has a step of its own, optimised.
    let mut tests = Cmd::new(runner).args(["--workspace", "--exclude", "sim"]);
    if has_nextest {
        // Many tests wait for most of their time: for the end of a lease, or for a process.
        let threads = 2 * thread::available_parallelism().map_or(1, NonZero::get);
        tests = tests.arg("--no-fail-fast").arg("--test-threads").arg(threads.to_string());
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
    Cmd::new("cargo test --workspace --doc").run()?;
    passed(format!("`{runner}`, then the documentation tests; {promtool}"))
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
    Cmd::new("cargo test -p lockspan-cli --test users").run()?;
    passed("sockets with rights; files, homes and services of others; setuid programs")
}

/// Against the advisory database that `cargo audit` has fetched, which needs a network.
fn advisories(_: &Workspace) -> Result<Done> {
    if !Cmd::new("cargo audit --version").works() {
        let missing = "no cargo-audit: `cargo install --locked cargo-audit`";
        return Ok(Done::DidNotRun(missing.to_owned()));
    }
    Cmd::new("cargo audit").run()?;
    passed("Cargo.lock")
}

fn features(_: &Workspace) -> Result<Done> {
    Cmd::new("cargo test -p lockspan-thread --features serde,signals").run()?;
    Cmd::new("cargo clippy -p lockspan-thread --all-targets --features serde,signals")
        .args(["--", "-D", "warnings"])
        .run()?;
    Cmd::new("cargo test -p lockspan-protocol --features serde,uuid --lib").run()?;
    Cmd::new("cargo test -p lockspan --features serde,uuid --test features").run()?;
    passed("lockspan-thread with serde and signals, records with serde and uuid")
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
    let suite = Suite { dir: &workspace.root, target, kind, packages: kind.packages };
    let models = suite.build()?;
    println!("{} models, each in a process of its own", models.len());
    let reports = models::run(&models, Instant::now() + MODELS_LIMIT, false, &logs, Report::print)?;
    let mut failed = Vec::new();
    for report in reports.iter().filter(|report| report.verdict != Verdict::Passed) {
        let name = &report.model.name;
        failed.push(name.as_str());
        println!("\n{name}: {:?}\n{}", report.verdict, report.last_words());
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
    let flags = std::env::var("MIRIFLAGS").unwrap_or_else(|_| MIRI_SEEDS.to_owned());
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
    for name in &programs {
        let run = Cmd::new("cargo run --quiet -p lockspan-examples --bin").arg(name);
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
fn sim(_: &Workspace) -> Result<Done> {
    Cmd::new("cargo run --release -p sim -- --require-coverage --seeds").arg(SIM_SEEDS).run()?;
    // The simulator's own tests replay each bug with its seed; they are slow without optimisation.
    Cmd::new("cargo test --release -p sim").run()?;
    Cmd::new("cargo test --release -p lockspan-protocol --features mutants").run()?;
    passed(format!("worlds {SIM_SEEDS}, each bug put back, the small worlds in every order"))
}

/// Not optimised, as the tests are: what is measured here says nothing, and is built already.
fn bench_smoke(workspace: &Workspace) -> Result<Done> {
    Cmd::new("cargo run -p lockspan-benches -- --smoke --out")
        .arg(workspace.target.join("bench-smoke"))
        .run()?;
    preload::compare(workspace, true)?;
    Cmd::new("cargo run -p lockspan-benches --bin protocol -- --smoke").run()?;
    Cmd::new("cargo run -p lockspan-benches --bin gathered -- --smoke").run()?;
    Cmd::new("cargo run -p lockspan-benches --bin progressive -- --smoke").run()?;
    Cmd::new("cargo run -p lockspan-benches --bin revocable -- --smoke").run()?;
    Cmd::new("cargo run -p lockspan-benches --bin service -- --smoke").run()?;
    Cmd::new("cargo run -p lockspan-benches --bin redis -- --smoke")
        .env("LOCKSPAN_PYTHON", workspace.python())
        .run()?;
    passed("each comparison once, tiny; its numbers mean nothing")
}
