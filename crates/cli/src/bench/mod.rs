//! `lockspan bench`: a load on a service, its progress, and its latencies.

mod load;

use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use serde_json::{Value as Json, json};

use crate::args::BenchArgs;
use crate::exit::{Failure, SYSTEM};
use crate::table::columns;
use load::{Counts, Shared};

/// Measures.
pub(crate) fn main(args: BenchArgs) -> Result<ExitCode, Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|bad| Failure::new(SYSTEM, format!("can't start threads: {bad}")))?;
    let is_json = args.json;
    let (counts, took) = runtime.block_on(measure(args))?;
    let text = match is_json {
        true => format!("{}\n", to_json(&counts, took)),
        false => report(&counts, took),
    };
    match io::stdout().write_all(text.as_bytes()) {
        Err(bad) if bad.kind() != io::ErrorKind::BrokenPipe => {
            Err(Failure::new(SYSTEM, format!("can't write to stdout: {bad}")))
        }
        _ => Ok(ExitCode::SUCCESS),
    }
}

async fn measure(args: BenchArgs) -> Result<(Counts, Duration), Failure> {
    let shared = Arc::new(Shared::default());
    let mut clients = Vec::new();
    for _ in 0..args.clients {
        clients.push(load::connect(&args).await?);
    }
    let start = Instant::now();
    let end = start + args.seconds;
    let work = clients.into_iter().enumerate().map(|(number, client)| {
        tokio::spawn(load::work(number, client, args.clone(), end, Arc::clone(&shared)))
    });
    let work: Vec<_> = work.collect();
    let progress = tokio::spawn(progress(Arc::clone(&shared), end));
    let mut counts = Counts::new();
    let mut failed = None;
    for one in work {
        match one.await {
            Ok(Ok(more)) => counts.add(&more),
            Ok(Err(bad)) => failed = Some(bad),
            Err(bad) => failed = Some(Failure::new(crate::exit::INTERNAL, bad.to_string())),
        }
    }
    let took = start.elapsed();
    progress.abort();
    let _ = progress.await;
    match failed {
        Some(bad) => Err(bad),
        None => Ok((counts, took)),
    }
}

/// Once a second: on a terminal one line that changes, else a line each.
async fn progress(shared: Arc<Shared>, end: Instant) {
    let terminal = io::stderr().is_terminal();
    let (mut before, mut every) = (0, tokio::time::interval(Duration::from_secs(1)));
    every.tick().await;
    loop {
        every.tick().await;
        let (done, left) = (shared.locks(), end.saturating_duration_since(Instant::now()));
        let line = format!("{:>10} locks/s, {} s to go", done - before, left.as_secs());
        before = done;
        if terminal {
            eprint!("\r{line}   \r");
        } else {
            eprintln!("{line}");
        }
        let _ = io::stderr().flush();
    }
}

/// Reads and writes together.
fn all(counts: &Counts) -> Histogram<u64> {
    let mut all = counts.read.clone();
    // They have the same bounds, so nothing is lost.
    let _ = all.add(&counts.write);
    all
}

/// The same as the table. What was not measured is null.
fn to_json(counts: &Counts, took: Duration) -> Json {
    let mode = |times: &Histogram<u64>| {
        let at = |share| (!times.is_empty()).then(|| times.value_at_quantile(share));
        json!({
            "locks": times.len(),
            "locks_per_second": times.len() as f64 / took.as_secs_f64(),
            "p50_ns": at(0.5),
            "p90_ns": at(0.9),
            "p99_ns": at(0.99),
            "p999_ns": at(0.999),
            "max_ns": at(1.0),
        })
    };
    let all = all(counts);
    json!({
        "seconds": took.as_secs_f64(),
        "read": mode(&counts.read),
        "write": mode(&counts.write),
        "cached": counts.cached.min(all.len()),
        "all": mode(&all),
    })
}

fn report(counts: &Counts, took: Duration) -> String {
    let head = ["", "locks", "locks/s", "p50", "p90", "p99", "p99.9", "max"].map(str::to_owned);
    let all = all(counts);
    let rows = [("read", &counts.read), ("write", &counts.write), ("all", &all)];
    let rows = rows.map(|(name, times)| row(name, times, took));
    let table: Vec<_> = std::iter::once(head).chain(rows).collect();
    let cached = match all.len() {
        0 => 0.0,
        total => 100.0 * counts.cached.min(total) as f64 / total as f64,
    };
    format!("{}\ncached: {cached:.1} % of the locks needed no message\n", columns(&table))
}

fn row(name: &str, times: &Histogram<u64>, took: Duration) -> [String; 8] {
    let at = |share| {
        if times.is_empty() { "-".to_owned() } else { short(times.value_at_quantile(share)) }
    };
    let rate = times.len() as f64 / took.as_secs_f64();
    [
        name.to_owned(),
        times.len().to_string(),
        format!("{rate:.0}"),
        at(0.5),
        at(0.9),
        at(0.99),
        at(0.999),
        at(1.0),
    ]
}

/// Nanoseconds with three digits or so.
fn short(nanos: u64) -> String {
    match nanos {
        0..1000 => format!("{nanos} ns"),
        1000..1_000_000 => format!("{:.1} µs", nanos as f64 / 1e3),
        1_000_000..1_000_000_000 => format!("{:.1} ms", nanos as f64 / 1e6),
        _ => format!("{:.1} s", nanos as f64 / 1e9),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_has_a_row_for_each_mode_and_for_all() {
        let mut counts = Counts::new();
        counts.read.record_n(1500, 3).unwrap();
        counts.write.record(2_500_000).unwrap();
        counts.cached = 2;
        let text = report(&counts, Duration::from_secs(2));
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[1].starts_with("read   3      2"), "{text}");
        assert!(lines[2].contains("2.5 ms"), "{text}");
        assert!(lines[3].starts_with("all    4      2        1.5 µs"), "{text}");
        assert!(text.ends_with("cached: 50.0 % of the locks needed no message\n"), "{text}");
    }

    #[test]
    fn the_json_has_what_the_table_has() {
        let mut counts = Counts::new();
        counts.read.record_n(1500, 3).unwrap();
        counts.cached = 2;
        let json = to_json(&counts, Duration::from_secs(2));
        assert_eq!((&json["read"]["locks"], &json["all"]["p50_ns"]), (&json!(3), &json!(1500)));
        assert_eq!((&json["write"]["max_ns"], &json["cached"]), (&Json::Null, &json!(2)));
        assert_eq!(json["all"]["locks_per_second"], json!(1.5));
    }

    #[test]
    fn nothing_measured_is_shown_as_nothing() {
        let text = report(&Counts::new(), Duration::from_secs(1));
        assert!(text.contains("read   0      0        -"), "{text}");
    }

    #[test]
    fn times_have_a_unit_that_fits() {
        assert_eq!([short(999), short(1500), short(2_000_000)], ["999 ns", "1.5 µs", "2.0 ms"]);
        assert_eq!(short(3_200_000_000), "3.2 s");
    }
}
