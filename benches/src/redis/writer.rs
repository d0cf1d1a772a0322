//! A writer among readers that come and go, so that there is always one: how many read phases it
//! waits for. The phase that it comes into is one; every read that a reader begins while the writer
//! waits is part of a further one.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use lockspan::{Options, Record};
use tokio::runtime::Runtime;

use crate::args::Args;
use crate::contest::{Contest, Id};
use crate::process::Process;
use crate::report::format::time;
use crate::report::{Report, Row, Target};
use crate::say;
use crate::timing::{Stop, wide_runtime, workers};

pub(crate) const FAMILY: &str = "writer";
const READERS: usize = 8;
/// How long a read takes.
const READ: Duration = Duration::from_millis(2);

pub(crate) fn run(args: &Args, report: &mut Report) -> Result<(), String> {
    report.cell(&format!("A writer among {READERS} readers that come and go, {READ:?} each"));
    let (redis, runtime, sample) = (Process::redis()?, wide_runtime()?, args.time(1000));
    let mut contest = Contest::new(FAMILY, "");
    let ours = enter(&mut contest, &runtime, &redis, ("ours", Options::new()), sample)?;
    let model = Options::new().plain(true).poll(Duration::from_millis(10));
    let model = enter(&mut contest, &runtime, &redis, ("model", model), sample)?;
    let rounds = contest.run(args.rounds(7), report)?;
    report.row(Row {
        what: "read phases that a write waits for, at most".to_owned(),
        ours: String::new(),
        compared_with: format!(
            "{:.0} by the data model's scripts with polling, which may starve it",
            rounds.median(model[0])
        ),
        result: Some(rounds.of(|round| round(ours[0]))),
        unit: "",
        target: Target::AtMost(2.0),
    });
    report.row(Row {
        what: "longest wait of a writer".to_owned(),
        ours: time(rounds.median(ours[1])),
        compared_with: format!("{} with polling", time(rounds.median(model[1]))),
        result: Some(rounds.of(|round| round(ours[1]) / 1e6)),
        unit: " ms",
        target: Target::Open,
    });
    Ok(())
}

/// Enters nodes: the most phases, and the longest wait in nanoseconds.
fn enter<'a>(
    contest: &mut Contest<'a>,
    runtime: &'a Runtime,
    redis: &Process,
    (id, options): (&str, Options),
    sample: Duration,
) -> Result<[Id; 2], String> {
    let mut records: Vec<Record> = Vec::new();
    for _ in 0..=READERS {
        let options = options.clone().lease(Duration::from_secs(60));
        let locks = runtime.block_on(options.connect(&super::url(redis))).map_err(say)?;
        records.push(locks.record("phases", id).map_err(say)?);
    }
    let begun: Arc<[AtomicU64]> = (0..READERS).map(|_| AtomicU64::new(0)).collect();
    Ok(contest.enter_many(id.to_owned(), &["phases", "longest_ns"], move || {
        let (said, _) = workers(runtime, sample, READERS + 1, |at, stop| {
            let (record, begun) = (records[at].clone(), Arc::clone(&begun));
            async move {
                match at {
                    READERS => write(&record, &begun, &stop).await,
                    _ => read(&record, &begun[at], &stop).await.map(|()| (0, Duration::ZERO)),
                }
            }
        })?;
        let (phases, longest) = said[READERS];
        Ok([phases as f64, longest.as_nanos() as f64])
    }))
}

async fn read(record: &Record, begun: &AtomicU64, stop: &Stop) -> Result<(), String> {
    while !stop.is_over() {
        let held = record.read().await.map_err(say)?;
        begun.fetch_add(1, Ordering::Relaxed);
        tokio::time::sleep(READ).await;
        drop(held);
    }
    Ok(())
}

/// Writes again and again; the most phases that it waited for, and the longest wait.
async fn write(
    record: &Record,
    begun: &[AtomicU64],
    stop: &Stop,
) -> Result<(u64, Duration), String> {
    let counts = || begun.iter().map(|count| count.load(Ordering::Relaxed)).collect::<Vec<_>>();
    let (mut most, mut longest) = (0, Duration::ZERO);
    while !stop.is_over() {
        // The readers are in their stride again.
        tokio::time::sleep(READ * 3).await;
        let (before, start) = (counts(), Instant::now());
        let held = record.write().await.map_err(say)?;
        longest = longest.max(start.elapsed());
        let further = counts().iter().zip(&before).map(|(after, before)| after - before).max();
        drop(held);
        most = most.max(1 + further.unwrap_or(0));
    }
    Ok((most, longest))
}
