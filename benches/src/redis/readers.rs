//! What the scripts cost inside Redis when a record has one reader, a hundred, ten thousand.

use std::time::{Duration, Instant};

use ::redis::cmd;
use lockspan::{LockError, Options};

use super::stats;
use crate::args::Args;
use crate::contest::{Contest, Id};
use crate::process::Process;
use crate::report::{Report, Row, TIMES, Target};
use crate::say;
use crate::timing::lone_runtime;

pub(crate) const FAMILY: &str = "readers";
const READERS: [usize; 3] = [1, 100, 10_000];

pub(crate) fn run(args: &Args, report: &mut Report) -> Result<(), String> {
    report.cell("Time of a script inside Redis, by how many read the record");
    let (redis, sample) = (Process::redis()?, args.time(300));
    let mut contest = Contest::new(FAMILY, "");
    let mut entered = Vec::new();
    for readers in READERS {
        entered.push(enter(&mut contest, &redis, readers, sample)?);
    }
    let rounds = contest.run(args.rounds(7), report)?;
    let of = ["one more reader comes and goes", "a writer gets in line and gives up"];
    for (what, name) in of.into_iter().enumerate() {
        let one = entered[0][what];
        for (ids, readers) in entered.iter().zip(READERS).skip(1) {
            let micros = |id: Id| format!("{:.1} µs", rounds.median(id));
            report.row(Row {
                what: format!("{name}: {readers} readers against 1"),
                ours: micros(ids[what]),
                compared_with: format!("{} with 1", micros(one)),
                result: Some(rounds.ratio(ids[what], one)),
                unit: TIMES,
                target: Target::AtMost(2.0),
            });
        }
    }
    Ok(())
}

/// Enters a record with so many readers: the microseconds of a script of a reader, and of a writer.
fn enter(
    contest: &mut Contest<'_>,
    redis: &Process,
    readers: usize,
    sample: Duration,
) -> Result<[Id; 2], String> {
    let runtime = lone_runtime()?;
    let name = readers.to_string();
    let (record, mut look) = runtime.block_on(async {
        let mut look = stats::connect(redis).await?;
        // As their own scripts would have put them there, for a year.
        let time: (u64, u64) = cmd("TIME").query_async(&mut look).await.map_err(say)?;
        let end = (time.0 + 31_536_000) * 1_000_000;
        let (mut read, mut ends) = (cmd("SADD"), cmd("ZADD"));
        read.arg(format!("readlock:readers:{name}"));
        ends.arg(format!("lockspan:ends:readers:{name}"));
        for at in 0..readers {
            let identifier = format!("bench:{:032x}:{at}", at + 1);
            read.arg(&identifier);
            ends.arg(end).arg(&identifier);
        }
        read.query_async::<()>(&mut look).await.map_err(say)?;
        ends.query_async::<()>(&mut look).await.map_err(say)?;
        let options = Options::new().lease(Duration::from_secs(60)).caching(false);
        let locks = options.connect(&super::url(redis)).await.map_err(say)?;
        let record = locks.record("readers", &name).map_err(say)?;
        Ok::<_, String>((record, look))
    })?;
    let metrics = &["reader_us", "writer_us"];
    Ok(contest.enter_many(format!("{readers} readers"), metrics, move || {
        runtime.block_on(async {
            let mut micros = [0.0; 2];
            for (what, micros) in micros.iter_mut().enumerate() {
                let before = stats::scripts(&mut look).await?;
                let start = Instant::now();
                while start.elapsed() < sample {
                    if what == 0 {
                        drop(record.read().await.map_err(say)?);
                        continue;
                    }
                    match record.write_timeout(Duration::from_millis(2)).await {
                        Err(LockError::Timeout(_)) => {}
                        Err(why) => return Err(say(why)),
                        Ok(_) => return Err("nobody reads the record".to_owned()),
                    }
                }
                let after = stats::scripts(&mut look).await?;
                *micros = (after.micros - before.micros) / (after.calls - before.calls);
            }
            Ok(micros)
        })
    }))
}
