//! Nodes that all read the same record, each from its own cache.

use std::sync::Barrier;
use std::time::Duration;

use lockspan::{Locks, Options, Record};

use crate::args::Args;
use crate::contest::Contest;
use crate::process::Process;
use crate::report::format::time;
use crate::report::{Report, Row, TIMES, Target};
use crate::say;
use crate::stats::Spread;
use crate::timing::process_time;

pub(crate) const FAMILY: &str = "shared";

const NODES: usize = 16;

pub(crate) fn run(args: &Args, report: &mut Report) -> Result<(), String> {
    report.cell(&format!("The same record read on {NODES} nodes"));
    let server = Process::lockspan()?;
    let mut nodes: Vec<(Locks, Record)> = Vec::new();
    for _ in 0..NODES {
        let options = Options::new().lease(Duration::from_secs(60));
        let locks = options.blocking_connect(&server.url()).map_err(say)?;
        let record = locks.record("shared", "1").map_err(say)?;
        drop(record.blocking_read().map_err(say)?);
        nodes.push((locks, record));
    }
    let cycles = args.count(2_000_000, 20_000);
    let acquires = || nodes.iter().map(|(locks, _)| locks.stats().acquires).sum::<u64>();
    let messages = || {
        let stats = nodes.iter().map(|(locks, _)| locks.stats());
        stats.map(|stats| stats.told + stats.heard).sum::<u64>()
    };
    let (acquired, said) = (acquires(), messages());
    let mut contest = Contest::new(FAMILY, "");
    let one = contest.enter("1 node", &["cpu_ns"], || cpu_time(&nodes[..1], cycles));
    let all = contest.enter("16 nodes", &["cpu_ns"], || cpu_time(&nodes, cycles));
    let count = args.rounds(9);
    let rounds = contest.run(count, report)?;
    let (acquired, said) = (acquires() - acquired, messages() - said);
    report.row(Row {
        what: format!("CPU time per read on {NODES} nodes against 1"),
        ours: time(rounds.median(all)),
        compared_with: format!("{} on 1 node", time(rounds.median(one))),
        result: Some(rounds.ratio(all, one)),
        unit: TIMES,
        target: Target::AtMost(1.2),
    });
    report.row(Row {
        what: format!("acquires sent in {} reads", 2 * count * cycles),
        ours: acquired.to_string(),
        compared_with: format!("{said} messages in all, which are keep-alives"),
        result: Some(Spread::one(acquired as f64)),
        unit: "",
        target: Target::AtMost(0.0),
    });
    Ok(())
}

/// Nanoseconds of CPU time per read; each node has a thread of its own, and a share of the reads.
fn cpu_time(nodes: &[(Locks, Record)], cycles: usize) -> Result<f64, String> {
    let begin = Barrier::new(nodes.len() + 1);
    let share = cycles / nodes.len();
    std::thread::scope(|scope| {
        let reader = |record: &Record| {
            begin.wait();
            (0..share).try_for_each(|_| record.blocking_read().map(drop)).map_err(say)
        };
        let threads: Vec<_> =
            nodes.iter().map(|(_, record)| scope.spawn(move || reader(record))).collect();
        let before = process_time();
        begin.wait();
        for thread in threads {
            thread.join().map_err(|_| "a reader died".to_owned())??;
        }
        Ok((process_time() - before) / (share * nodes.len()) as f64)
    })
}
