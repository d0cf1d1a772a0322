//! A server on which other clients hold very many records: the time of an acquire, and the memory
//! of a record.

use std::cell::Cell;
use std::time::Duration;

use lockspan::{Options, Record};

use crate::args::Args;
use crate::contest::Contest;
use crate::process::Process;
use crate::report::format::time;
use crate::report::{Report, Row, TIMES, Target};
use crate::say;
use crate::stats::Spread;
use crate::timing::{lone_runtime, of_cycles};

pub(crate) const FAMILY: &str = "many";

/// Records that the client takes in turn.
const OWN: usize = 1_000;

pub(crate) fn run(args: &Args, report: &mut Report) -> Result<(), String> {
    let sizes = [args.count(1_000, 100), args.count(1_000_000, 5_000)];
    report.cell(&format!(
        "A server with {} and with {} records that others hold",
        sizes[0], sizes[1]
    ));
    let sample = args.time(200);
    let mut held = Vec::new();
    for size in sizes {
        let server = Process::lockspan()?;
        // What the first session takes is not part of the records.
        drop(Process::holder(&server, 1)?);
        let before = server.resident()?;
        let holder = Process::holder(&server, size)?;
        let there = (server.resident()? - before) / size as f64;
        let here: f64 = holder.said.first().and_then(|word| word.parse().ok()).unwrap_or(f64::NAN);
        held.push((holder, server, there, here));
    }
    let mut contest = Contest::new(FAMILY, "");
    let mut ids = Vec::new();
    for ((_, server, ..), size) in held.iter().zip(sizes) {
        let runtime = lone_runtime()?;
        let options = Options::new().lease(Duration::from_secs(60)).caching(false);
        let locks = runtime.block_on(options.connect(&server.url())).map_err(say)?;
        let own = |at: usize| locks.record("own", at.to_string()).map_err(say);
        let records: Vec<Record> = (0..OWN).map(own).collect::<Result<_, _>>()?;
        let next = Cell::new(0);
        ids.push(contest.enter(format!("{size} records"), &["ns"], move || {
            runtime.block_on(of_cycles(sample, async || {
                next.set((next.get() + 1) % OWN);
                records[next.get()].write().await.map(drop)
            }))
        }));
    }
    let rounds = contest.run(args.rounds(9), report)?;
    report.row(Row {
        what: format!("uncached cycle with {} records against {}", sizes[1], sizes[0]),
        ours: time(rounds.median(ids[1])),
        compared_with: format!("{} with {}", time(rounds.median(ids[0])), sizes[0]),
        result: Some(rounds.ratio(ids[1], ids[0])),
        unit: TIMES,
        target: Target::AtMost(1.5),
    });
    let (_, _, there, here) = &held[1];
    for (what, bytes) in [("on the server", *there), ("on its node", *here)] {
        report.once(FAMILY, format!("cached record {what}"), &[("bytes", bytes)]);
        report.row(Row {
            what: format!("memory of a cached record {what}"),
            ours: format!("{bytes:.0} bytes"),
            compared_with: String::new(),
            result: Some(Spread::one(bytes.round())),
            unit: " bytes",
            target: Target::Open,
        });
    }
    Ok(())
}
