//! `cargo xtask bench preload`: what the preload library costs compared with glibc's locks.
//!
//! Each round runs the same program with glibc and with the library, one directly after the other.
//! A row is the median of the ratios of all rounds.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context as _, Result};

use crate::command::Cmd;
use crate::table;
use crate::workspace::Workspace;

/// Rounds of a comparison; a smoke run has one.
const ROUNDS: usize = 15;

/// Threads and rounds of the program that uses OpenSSL.
const THREADS: [&str; 2] = ["8", "400"];

/// Names of a case, its unit, and the ratio that it must not exceed.
const CASES: [(&str, &str, f64); 4] = [
    ("read", "ns", 1.3),
    ("write", "ns", 1.3),
    ("hand-over-hand", "ns", 1.3),
    ("openssl", "s of CPU", 1.1),
];

/// A case and its number: of other locks held, or of threads.
type Case = (String, usize);

pub(crate) fn compare(workspace: &Workspace, is_smoke: bool) -> Result<()> {
    let (release, folder) = if is_smoke { (None, "debug") } else { (Some("--release"), "release") };
    Cmd::new("cargo build -p lockspan-pthread").args(release).run()?;
    let library = workspace.target.join(folder).join("liblockspan_pthread.so");
    let sources = workspace.root.join("benches/preload");
    let program = workspace.target.join("preload-locks");
    Cmd::new("cc -O2 -Wall -Wextra -pthread -o")
        .arg(&program)
        .arg(sources.join("locks.c"))
        .run()?;
    let script = sources.join("openssl.py");
    let mut rounds: BTreeMap<Case, Vec<(f64, f64)>> = BTreeMap::new();
    for round in 1..=if is_smoke { 1 } else { ROUNDS } {
        println!("round {round}");
        let commands = || {
            let python = Cmd::new("python3").arg(&script).args(THREADS);
            [Cmd::program(&program), python]
        };
        for (ours, theirs) in commands().into_iter().zip(commands()) {
            let theirs = measure(theirs, None)?;
            let ours = measure(ours, Some(&library))?;
            for (case, time) in theirs {
                let own = ours.get(&case).context("both print the same cases")?;
                rounds.entry(case).or_default().push((time, *own));
            }
        }
    }
    let mut rows = Vec::new();
    for (name, unit, limit) in CASES {
        for ((_, number), times) in rounds.iter().filter(|((case, _), _)| case == name) {
            let ratio = median(times.iter().map(|(theirs, ours)| ours / theirs));
            rows.push(vec![
                name.to_owned(),
                number.to_string(),
                format!("{:.2} {unit}", median(times.iter().map(|times| times.0))),
                format!("{:.2} {unit}", median(times.iter().map(|times| times.1))),
                format!("{ratio:.2} x"),
                if ratio <= limit { "met" } else { "missed" }.to_owned() + &format!(" ({limit} x)"),
            ]);
        }
    }
    table::print(&["case", "held or threads", "glibc", "preload", "ratio", "target"], &rows);
    Ok(())
}

/// The cases that a program prints, each `name number time`.
fn measure(command: Cmd, library: Option<&Path>) -> Result<BTreeMap<Case, f64>> {
    let command = match library {
        Some(library) => command.env("LD_PRELOAD", library),
        None => command,
    };
    let printed = command.read_quietly()?;
    let case = |line: &str| {
        let words: Vec<_> = line.split(' ').collect();
        let [name, number, time] = words[..] else { return None };
        Some(((name.to_owned(), number.parse().ok()?), time.parse().ok()?))
    };
    let cases: Option<_> = printed.lines().map(case).collect();
    cases.with_context(|| format!("it printed {printed:?}"))
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<_> = values.collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
