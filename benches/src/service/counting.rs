//! What it costs to count cached acquires: not at all, as the client does, and as one would at
//! first.

use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use lockspan::{LockError, Locks, Options, Record};
use metrics::{Counter, Key, Level, Metadata, Recorder as _};
use metrics_exporter_prometheus::PrometheusBuilder;

use crate::args::Args;
use crate::contest::{Contest, Id};
use crate::padded::Padded;
use crate::process::Process;
use crate::report::format::time;
use crate::report::{Report, Row, TIMES, Target};
use crate::say;
use crate::timing::{BATCH, of_batches};

pub(crate) const FAMILY: &str = "counting";

/// One number for all threads, alone on its cache line.
static SHARED: Padded<AtomicU64> = Padded(AtomicU64::new(0));

pub(crate) fn run(args: &Args, report: &mut Report) -> Result<(), String> {
    report.cell("Counting cached acquires: CPU time of a cycle, writing, blocking");
    let recorder = PrometheusBuilder::new().build_recorder();
    let about = Metadata::new("service", Level::INFO, None);
    let facade = recorder.register_counter(&Key::from_name("acquires_total"), &about);
    // There can be one; what was measured before in this process had none.
    metrics::set_global_recorder(recorder).map_err(say)?;
    let server = Process::lockspan()?;
    let connect = |counting| {
        let options = Options::new().lease(Duration::from_secs(60)).counting(counting);
        options.blocking_connect(&server.url()).map_err(say)
    };
    let (silent, counting) = (connect(false)?, connect(true)?);
    for threads in [1, 2] {
        let silent = records(&silent, "silent", threads)?;
        let counting = records(&counting, "counting", threads)?;
        rows(args, report, &silent, &counting, &facade)?;
    }
    Ok(())
}

/// A record for each thread, cached.
fn records(locks: &Locks, datatype: &str, count: usize) -> Result<Vec<Record>, String> {
    let records = (0..count).map(|id| {
        let record = locks.record(datatype, format!("{count}-{id}")).map_err(say)?;
        drop(record.blocking_write().map_err(say)?);
        Ok(record)
    });
    records.collect()
}

fn rows(
    args: &Args,
    report: &mut Report,
    silent: &[Record],
    counting: &[Record],
    facade: &Counter,
) -> Result<(), String> {
    let sample = args.time(20);
    let mut contest = Contest::new(FAMILY, format!("{}t", silent.len()));
    let nothing = contest.enter("not counted", &["ns"], || together(sample, silent, || ()));
    let ours = contest.enter("by processor", &["ns"], || together(sample, counting, || ()));
    let shared = contest.enter("one atomic", &["ns"], || {
        together(sample, silent, || _ = SHARED.0.fetch_add(1, Ordering::Relaxed))
    });
    let facade =
        contest.enter("façade", &["ns"], || together(sample, silent, || facade.increment(1)));
    let rounds = contest.run(args.rounds(25), report)?;
    let threads = match silent.len() {
        1 => "one thread".to_owned(),
        count => format!("{count} threads, a record each"),
    };
    let mut row = |what: &str, id: Id, target| {
        report.row(Row {
            what: format!("{threads}: {what}"),
            ours: time(rounds.median(id)),
            compared_with: format!("not counted: {}", time(rounds.median(nothing))),
            result: Some(rounds.ratio(id, nothing)),
            unit: TIMES,
            target,
        });
    };
    row("counted by processor, as the client does", ours, Target::AtMost(MOST));
    row("counted by one atomic for all", shared, Target::Open);
    row("counted by a handle of the façade", facade, Target::Open);
    Ok(())
}

/// What counting by processor may cost.
const MOST: f64 = 1.1;

/// Nanoseconds of a cycle when each record is taken by a thread of its own.
fn together(sample: Duration, records: &[Record], count: impl Fn() + Sync) -> Result<f64, String> {
    let count = &count;
    let cycles = |record: &Record| {
        of_batches(sample, || {
            for _ in 0..BATCH {
                let held = record.blocking_write()?;
                count();
                black_box(&held);
            }
            Ok::<(), LockError>(())
        })
    };
    let taken = std::thread::scope(|scope| {
        let threads: Vec<_> =
            records.iter().map(|record| scope.spawn(move || cycles(record))).collect();
        let ended = threads.into_iter().map(|it| it.join().map_err(|_| "a thread panicked"));
        ended.collect::<Result<Result<Vec<f64>, String>, _>>()
    })??;
    Ok(taken.iter().sum::<f64>() / taken.len() as f64)
}
