//! `cargo xtask fuzz --coverage`: the targets of `fuzz/` under libFuzzer.
//!
//! The compiler counts the edges of the control flow that each input reaches, by LLVM's pass
//! `sancov-module`; libFuzzer keeps the inputs that reach new ones, and changes those further. All
//! flags are those of a stable compiler, and `cargo-fuzz` is not needed; a C++ compiler is, for
//! libFuzzer itself. No sanitizer is linked: no crate under test has unsafe code.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context as _, Result, bail, ensure};

use crate::command::Cmd;
use crate::table;
use crate::workspace::Workspace;

/// What `cargo fuzz` passes to the compiler, without its sanitizers.
const FLAGS: &str = "--cfg fuzzing -Ccodegen-units=1 -Cpasses=sancov-module \
    -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
    -Cllvm-args=-sanitizer-coverage-pc-table \
    -Cllvm-args=-sanitizer-coverage-trace-compares";

/// The longest input. A run of 400 inputs of a state machine takes some 4,000 bytes.
const INPUT_MAX: &str = "-max_len=4096";

/// No input takes as long, in seconds.
const TIMEOUT: &str = "-timeout=20";

/// How far libFuzzer got with a target.
#[derive(Debug, Default, PartialEq, Eq)]
struct Progress {
    runs: String,
    edges: String,
    features: String,
    corpus: String,
}

/// Builds the program and runs each target, or the one of this name, for so many seconds.
pub(super) fn run(workspace: &Workspace, seconds: u64, only: Option<&str>) -> Result<ExitCode> {
    let targets = targets(workspace)?;
    let chosen: Vec<_> =
        targets.iter().filter(|name| only.is_none_or(|only| only == *name)).collect();
    ensure!(!chosen.is_empty(), "there is no such target; there are {}", targets.join(", "));
    let program = build(workspace)?;
    let mut rows = Vec::new();
    for name in chosen {
        let Progress { runs, edges, features, corpus } =
            fuzz(workspace, Path::new(&program), name, seconds)?;
        rows.push(vec![name.clone(), runs, edges, features, corpus]);
    }
    println!();
    table::print(&["target", "runs", "edges", "features", "corpus"], &rows);
    Ok(ExitCode::SUCCESS)
}

/// The names of the targets: each has a folder of seeds.
fn targets(workspace: &Workspace) -> Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(workspace.root.join("fuzz/seeds")).context("fuzz/seeds")? {
        names.push(entry?.file_name().to_string_lossy().into_owned());
    }
    names.sort();
    Ok(names)
}

/// Returns the path of the program. With `--target`, the flags leave build scripts alone.
fn build(workspace: &Workspace) -> Result<String> {
    let version = Cmd::new("rustc -vV").read_quietly()?;
    let host = version.lines().find_map(|line| line.strip_prefix("host: "));
    let host = host.context("rustc -vV names no host")?;
    let target = workspace.target.join("fuzz");
    Cmd::new("cargo build -p lockspan-fuzz --features libfuzzer --bin coverage --profile fuzz")
        .args(["--target", host, "--target-dir"])
        .arg(&target)
        .env("RUSTFLAGS", FLAGS)
        .run()?;
    Ok(target.join(host).join("fuzz/coverage").display().to_string())
}

/// Runs a target. What it finds is kept in `target/fuzz/corpus`, for the next run.
fn fuzz(workspace: &Workspace, program: &Path, name: &str, seconds: u64) -> Result<Progress> {
    let corpus = workspace.target.join("fuzz/corpus").join(name);
    let artifacts = workspace.target.join("fuzz/artifacts").join(name);
    fs::create_dir_all(&corpus)?;
    fs::create_dir_all(&artifacts)?;
    println!("\n=== {name}: {seconds} s, {}", corpus.display());
    let mut child = Command::new(program)
        .arg(&corpus)
        .arg(workspace.root.join("fuzz/seeds").join(name))
        .args([
            &format!("-max_total_time={seconds}"),
            INPUT_MAX,
            TIMEOUT,
            "-len_control=0",
            "-print_funcs=0",
        ])
        .arg(format!("-artifact_prefix={}/", artifacts.display()))
        .env("LOCKSPAN_FUZZ_TARGET", name)
        .stdin(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .with_context(|| format!("could not start {}", program.display()))?;
    let said = BufReader::new(child.stderr.take().context("stderr is a pipe")?);
    let mut progress = None;
    for line in said.split(b'\n') {
        let line = String::from_utf8_lossy(&line?).into_owned();
        match reached(&line) {
            Some(now) => progress = Some(now),
            // Why it fails; a run that does not has little to say.
            None => println!("{line}"),
        }
    }
    let status = child.wait()?;
    if !status.success() {
        bail!(
            "{name}: {status}; the input is in {}. To keep it found, mend what is wrong and copy \
             it to fuzz/seeds/{name}",
            artifacts.display()
        );
    }
    let progress = progress.context("libFuzzer did not say how far it got")?;
    println!("{name}: {} runs, {} edges", progress.runs, progress.edges);
    Ok(progress)
}

/// Reads a line such as `#1024 NEW cov: 12 ft: 14 corp: 3/7b lim: 4 exec/s: 0 rss: 30Mb`.
fn reached(line: &str) -> Option<Progress> {
    let words: Vec<_> = line.split_whitespace().collect();
    let after = |name: &str| {
        let at = words.iter().position(|word| *word == name)?;
        words.get(at + 1).map(|&word| word.to_owned())
    };
    Some(Progress {
        runs: words.first()?.strip_prefix('#')?.to_owned(),
        edges: after("cov:")?,
        features: after("ft:")?,
        corpus: after("corp:")?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_libfuzzer_is_read() {
        let line = "#1024\tNEW    cov: 12 ft: 14 corp: 3/7b lim: 4 exec/s: 0 rss: 30Mb L: 3/3";
        let progress = reached(line).unwrap();
        let Progress { runs, edges, features, corpus } = &progress;
        assert_eq!([runs, edges, features, corpus], ["1024", "12", "14", "3/7b"]);
        assert_eq!(reached("INFO: Seed: 3174242104"), None);
    }
}
