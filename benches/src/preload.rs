//! The preload library compared with glibc's `pthread_rwlock`.
//!
//! Each round runs the same program with glibc and with the library, one directly after the other.
//! A ratio is taken inside each round.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::args::Args;
use crate::comparison::{Cell, Comparison, View};
use crate::report::{Report, Row, TIMES, Target};
use crate::results::Row as RawRow;
use crate::stats::Spread;
use crate::{machine, say};

pub(crate) const NAME: &str = "preload";
const ROUNDS: usize = 15;

/// The folder of the programs.
const SOURCES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/preload");

/// Threads and rounds of the program that uses OpenSSL, and fewer rounds for a smoke run.
const OPENSSL: [&str; 2] = ["8", "400"];
const OPENSSL_SMOKE: [&str; 2] = ["8", "4"];
/// Pairs of lock and unlock of the other program, and fewer for a smoke run.
const PAIRS: &str = "1000000";
const PAIRS_SMOKE: &str = "1000";

/// Names of the cases of a program, each with the ratio that it must not exceed.
type Limits = &'static [(&'static str, f64)];

const LOCKS_LIMITS: Limits = &[("read", 1.3), ("write", 1.3), ("hand-over-hand", 1.3)];
const OPENSSL_LIMITS: Limits = &[("openssl", 1.1)];

/// A case and its number: of other locks held, or of threads.
type Case = (String, usize);

/// A program that is run with and without the library.
struct Program {
    family: &'static str,
    /// How it is run, given the folder of built programs and whether it is a smoke run.
    command: fn(&Path, bool) -> Command,
    unit: &'static str,
    metric: &'static str,
    limits: Limits,
}

pub(crate) fn comparison() -> Result<Comparison, String> {
    let folder = crate::target_folder()?;
    let cell = |program: Program| {
        let folder = folder.clone();
        Cell::new(program.family, move |args, report| run(&program, &folder, args, report))
    };
    Ok(Comparison {
        name: NAME,
        title: "The preload library compared with glibc's locks",
        note: format!("C library {}.", machine::output("getconf", &["GNU_LIBC_VERSION"])),
        programs: &[("cc", "--version"), ("python3", "--version")],
        packages: &[],
        cells: vec![
            cell(Program {
                family: "locks",
                command: |folder, smoke| {
                    let mut locks = Command::new(folder.join("preload-locks"));
                    locks.arg(if smoke { PAIRS_SMOKE } else { PAIRS });
                    locks
                },
                unit: "ns",
                metric: "ns",
                limits: LOCKS_LIMITS,
            }),
            cell(Program {
                family: "openssl",
                command: |_, smoke| {
                    let mut python = Command::new("python3");
                    python.arg(Path::new(SOURCES).join("openssl.py"));
                    python.args(if smoke { OPENSSL_SMOKE } else { OPENSSL });
                    python
                },
                unit: "s of CPU",
                metric: "cpu_s",
                limits: OPENSSL_LIMITS,
            }),
        ],
        view: View::TABLES,
    })
}

fn run(program: &Program, folder: &Path, args: &Args, report: &mut Report) -> Result<(), String> {
    let library = library()?;
    compile(&folder.join("preload-locks"))?;
    let mut rounds: BTreeMap<Case, Vec<(f64, f64)>> = BTreeMap::new();
    for round in 1..=args.rounds(ROUNDS) {
        let command = || (program.command)(folder, args.smoke);
        let theirs = measure(&mut command())?;
        let ours = measure(command().env("LD_PRELOAD", &library))?;
        for (case, theirs) in theirs {
            let ours = *ours.get(&case).ok_or("both runs must print the same cases")?;
            for (contestant, value) in [("glibc", theirs), ("preload", ours)] {
                report.raw(RawRow {
                    family: program.family.into(),
                    cell: format!("{}/{}", case.0, case.1).into(),
                    contestant: contestant.into(),
                    round,
                    metrics: vec![(program.metric.into(), value)],
                });
            }
            rounds.entry(case).or_default().push((theirs, ours));
        }
    }
    rows(program, &rounds, report);
    Ok(())
}

fn rows(program: &Program, rounds: &BTreeMap<Case, Vec<(f64, f64)>>, report: &mut Report) {
    let unit = program.unit;
    report.cell(match program.family {
        "openssl" => "Python threads that use OpenSSL, by number of threads",
        _ => "One uncontended lock and unlock, by number of other locks held",
    });
    for (name, limit) in program.limits {
        for ((_, number), times) in rounds.iter().filter(|((case, _), _)| case == name) {
            let median = |of: fn(&(f64, f64)) -> f64| Spread::of(times.iter().map(of)).median;
            report.row(Row {
                what: format!("{name}, {number}"),
                ours: format!("{:.2} {unit}", median(|times| times.1)),
                compared_with: format!("{:.2} {unit}", median(|times| times.0)),
                result: Some(Spread::of(times.iter().map(|(theirs, ours)| ours / theirs))),
                unit: TIMES,
                target: Target::AtMost(*limit),
            });
        }
    }
}

/// The library that was built like this program.
fn library() -> Result<PathBuf, String> {
    let folder = crate::built_folder()?;
    let library = folder.join("liblockspan_pthread.so");
    if library.is_file() {
        return Ok(library);
    }
    let release = if folder.ends_with("release") { " --release" } else { "" };
    Err(format!(
        "there is no {}: `cargo build{release} -p lockspan-pthread` makes it",
        library.display()
    ))
}

fn compile(program: &Path) -> Result<(), String> {
    let source = Path::new(SOURCES).join("locks.c");
    let mut command = Command::new("cc");
    command.args(["-O2", "-Wall", "-Wextra", "-pthread", "-o"]).arg(program).arg(source);
    let status = command.status().map_err(|why| format!("cc: {why}"))?;
    if status.success() { Ok(()) } else { Err(format!("cc: {status}")) }
}

/// The cases that a program prints, each `name number time`.
fn measure(command: &mut Command) -> Result<BTreeMap<Case, f64>, String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.output().map_err(|why| format!("{name}: {why}"))?;
    if !output.status.success() {
        let error = String::from_utf8_lossy(&output.stderr);
        return Err(format!("{name}: {}: {}", output.status, error.trim()));
    }
    cases(&String::from_utf8(output.stdout).map_err(say)?)
}

fn cases(printed: &str) -> Result<BTreeMap<Case, f64>, String> {
    let case = |line: &str| {
        let words: Vec<_> = line.split(' ').collect();
        let [name, number, time] = words[..] else { return None };
        Some(((name.to_owned(), number.parse().ok()?), time.parse().ok()?))
    };
    let cases: Option<_> = printed.lines().map(case).collect();
    cases.ok_or_else(|| format!("the program printed {printed:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cases_are_read_and_anything_else_is_refused() {
        let read = cases("read 0 5.5\nread 16 6.5\n").unwrap();
        assert_eq!(read[&("read".to_owned(), 16)], 6.5);
        assert!(cases("read 0\n").is_err() && cases("read x 1\n").is_err());
    }
}
