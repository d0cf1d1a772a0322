//! The Python package compared with Python's own locks and with the locks of Redis.
//!
//! `python/bench/compare.py` measures one cell and prints a row for each contestant and round, as
//! JSON. It starts a Lockspan server and a Redis of its own, on loopback. The tables, the folder
//! and the look at the machine are those of every comparison.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::args::Args;
use crate::comparison::{Cell, Comparison, View};
use crate::plot::Plot;
use crate::plot::scatter::{self, Waits};
use crate::report::format::{known, rate, time_or_dash};
use crate::report::{Report, Row, TIMES, Target};
use crate::results::{Results, Row as RawRow};
use crate::stats::Spread;
use crate::{interpreter, say};

pub(crate) const NAME: &str = "python";

/// How the results are shown.
pub(crate) const VIEW: View = View { plots, ..View::TABLES };

const PROGRAM: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../python/bench/compare.py");

const CACHED: &str = "cached";
const UNCACHED: &str = "uncached";
const HAND_OVER: &str = "hand-over";
/// The one cell of each family is named by what is in it.
const PROCESSES: &str = "8-processes";

/// Rounds of each family.
const ROUNDS: [(&str, usize); 3] = [(CACHED, 15), (UNCACHED, 15), (HAND_OVER, 3)];
const OURS: &str = "Lockspan";
/// The peer whose waiters do not poll.
const WAITS: &str = "python-redis-lock";
/// How long the processes compete in a round.
const MILLIS: u64 = 5_000;
const MILLIS_SMOKE: u64 = 500;

/// A row of a table of ratios: what it is, ours, the peer, and the most that the ratio of their
/// times may be.
type Pair = (&'static str, &'static str, &'static str, f64);

const CACHED_ROWS: [Pair; 2] = [
    ("with", "with record.write()", "with threading.Lock()", 2.5),
    ("async with", "async with record.write()", "async with asyncio.Lock()", 2.5),
];
const UNCACHED_ROWS: [Pair; 1] = [("with", "with record.write()", "redis-py", 1.0 / 3.0)];

pub(crate) fn comparison() -> Comparison {
    let version = interpreter::version;
    let cell = |(family, rounds): (&'static str, usize)| {
        Cell::new(family, move |args, report| run(family, rounds, args, report))
    };
    let interpreter = interpreter::read(Command::new(interpreter::python()).arg("--version"));
    Comparison {
        name: NAME,
        title: "The Python package compared with other locks",
        note: format!(
            "{}, redis-py {}, python-redis-lock {}. Lockspan's server is reached by TCP, as Redis.",
            interpreter.unwrap_or_else(|_| "Python is not installed".to_owned()),
            version("redis"),
            version("python-redis-lock"),
        ),
        programs: &[("redis-server", "--version")],
        packages: &["pyo3"],
        cells: ROUNDS.map(cell).into(),
        view: VIEW,
    }
}

fn run(
    family: &'static str,
    rounds: usize,
    args: &Args,
    report: &mut Report,
) -> Result<(), String> {
    let seconds = args.millis(MILLIS, MILLIS_SMOKE).as_secs_f64();
    let mut program = Command::new(interpreter::python());
    program.arg(PROGRAM).arg(crate::built_folder()?).args(["--cell", family]);
    program.args(["--rounds", &args.rounds(rounds).to_string()]);
    program.args(["--seconds", &seconds.to_string()]);
    if args.smoke {
        program.arg("--quick");
    }
    let said = interpreter::read_and_show(&mut program)
        .map_err(|why| format!("{}: {why}", Path::new(PROGRAM).display()))?;
    for line in said.lines() {
        report.raw(row(family, line)?);
    }
    match family {
        CACHED => {
            let title = "Cached, in one process: a block that takes and releases the lock";
            ratios(title, family, &CACHED_ROWS, report);
        }
        UNCACHED => {
            let title = "Not cached: each block asks the server";
            ratios(title, family, &UNCACHED_ROWS, report);
        }
        _ => hand_over(report),
    }
    Ok(())
}

/// A line of the program: a contestant, its round, and its metrics in their order.
fn row(family: &'static str, line: &str) -> Result<RawRow, String> {
    let wrong = || format!("compare.py printed {line:?}, which is no row");
    let row: Value = serde_json::from_str(line).map_err(say)?;
    let metric =
        |pair: &Value| Some((pair.get(0)?.as_str()?.to_owned().into(), pair.get(1)?.as_f64()?));
    let metrics: Option<Vec<_>> =
        row["metrics"].as_array().ok_or_else(wrong)?.iter().map(metric).collect();
    Ok(RawRow {
        family: family.into(),
        cell: if family == HAND_OVER { PROCESSES } else { "" }.into(),
        contestant: row["contestant"].as_str().ok_or_else(wrong)?.to_owned().into(),
        round: row["round"].as_u64().ok_or_else(wrong)?.try_into().map_err(say)?,
        metrics: metrics.ok_or_else(wrong)?,
    })
}

fn ratios(title: &str, family: &str, rows: &[Pair], report: &mut Report) {
    report.cell(title);
    for (what, ours, theirs, most) in rows {
        let results = report.results();
        let time = |name| time_or_dash(results.median(family, "", name, "time_ns"));
        let ratios = results.ratios(family, "", ours, &[theirs], "time_ns");
        let row = Row {
            what: (*what).to_owned(),
            ours: time(ours),
            compared_with: format!("{theirs}: {}", time(theirs)),
            result: Some(Spread::of(ratios)),
            unit: TIMES,
            target: Target::AtMost(*most),
        };
        report.row(row);
    }
}

fn hand_over(report: &mut Report) {
    let names: Vec<String> =
        report.results().contestants(HAND_OVER).into_iter().map(str::to_owned).collect();
    report.table(
        "Hand-over among 8 processes, from one release to the next acquire",
        &["lock", "hand-overs", "p50", "p99", "longest wait", "in order", "Jain's index"],
    );
    for name in names {
        let median = |metric| report.results().median(HAND_OVER, PROCESSES, &name, metric);
        let cells = [
            name.clone(),
            median("ops_per_s").map_or_else(|| "–".to_owned(), rate),
            time_or_dash(median("p50_ns")),
            time_or_dash(median("p99_ns")),
            time_or_dash(median("longest_ns")),
            median("in_order").map_or_else(|| "–".to_owned(), |it| format!("{:.1} %", it * 100.0)),
            known(median("jain").unwrap_or(f64::NAN)),
        ];
        report.line(&cells);
    }
    report.put("\nIn order: the share of turns that no later waiter overtook.");
    report.cell("Hand-over among 8 processes, compared");
    let results = report.results();
    let median = |name, metric| results.median(HAND_OVER, PROCESSES, name, metric);
    let per_second = |name| median(name, "ops_per_s").map_or_else(|| "–".to_owned(), rate);
    let ratios = results.ratios(HAND_OVER, PROCESSES, OURS, &[WAITS], "ops_per_s");
    let share = |what: &str, metric, least| Row {
        what: what.to_owned(),
        ours: known(median(OURS, metric).unwrap_or(f64::NAN)),
        compared_with: "1 is the best".to_owned(),
        result: median(OURS, metric).map(Spread::one),
        unit: "",
        target: Target::AtLeast(least),
    };
    let rows = [
        Row {
            what: "hand-overs".to_owned(),
            ours: per_second(OURS),
            compared_with: format!("{WAITS}: {}", per_second(WAITS)),
            result: Some(Spread::of(ratios)),
            unit: TIMES,
            target: Target::AtLeast(2.0),
        },
        share("in order", "in_order", 0.999),
        share("Jain's index", "jain", 0.99),
    ];
    for row in rows {
        report.row(row);
    }
}

fn plots(results: &Results) -> Vec<Plot> {
    let waits = Waits {
        file: "hand-over.svg",
        title: "One lock among 8 Python processes",
        note: "right and low is good",
        family: HAND_OVER,
        cells: &[PROCESSES],
        rate: "hand-overs in a second",
        wait: ("longest_ns", "longest wait"),
        contestants: &[],
    };
    scatter::waits(results, &waits).into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_the_program_is_a_row() {
        let line = r#"{"contestant": "redis-py", "round": 2, "metrics": [["time_ns", 5.5]]}"#;
        let row = row(UNCACHED, line).unwrap();
        assert_eq!((&*row.contestant, row.round, row.get("time_ns")), ("redis-py", 2, Some(5.5)));
        for wrong in ["", "{}", r#"{"contestant": "a", "round": 1, "metrics": [[1, "x"]]}"#] {
            assert!(super::row(CACHED, wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_program_names_the_contestants_of_the_tables() {
        let program = include_str!("../../python/bench/compare.py");
        for (_, ours, theirs, _) in CACHED_ROWS.iter().chain(&UNCACHED_ROWS) {
            for name in [ours, theirs] {
                assert!(program.contains(&format!("\"{name}\": ")), "{name}");
            }
        }
        for (family, _) in ROUNDS {
            assert!(program.contains(&format!("\"{family}\": ")), "{family}");
        }
    }

    #[test]
    fn hand_overs_have_a_row_and_a_point_for_each_lock() {
        let mut report = Report::default();
        for name in [OURS, "redis-py"] {
            let line = format!(
                "{{\"contestant\": \"{name}\", \"round\": 1, \"metrics\": [[\"ops_per_s\", 1234], \
                 [\"longest_ns\", 5000], [\"in_order\", 0.5]]}}"
            );
            report.raw(row(HAND_OVER, &line).unwrap());
        }
        hand_over(&mut report);
        let expected = "| Lockspan | 1,234/s | – | – | 5.0 µs | 50.0 % | n/a |";
        assert!(report.text().contains(expected), "{}", report.text());
        assert_eq!(plots(report.results()).len(), 1);
    }
}
