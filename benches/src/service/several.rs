//! Several records at once, compared with one after the other and with keys on Redis that are set
//! in order, each polled until it is free.

use std::time::Duration;

use lockspan::{Locks, Options, Record};

use crate::args::Args;
use crate::contest::Contest;
use crate::process::Process;
use crate::report::format::time;
use crate::report::{Report, Row, TIMES, Target};
use crate::say;
use crate::set_nx::Redis;
use crate::timing::{lone_runtime, of_cycles};

pub(crate) const FAMILY: &str = "several";

/// How many records are locked at once.
const RECORDS: u64 = 8;

/// A node, and its records.
async fn connect(server: &Process) -> Result<(Locks, Vec<Record>), String> {
    let options = Options::new().lease(Duration::from_secs(60));
    let locks = options.connect(&server.url()).await.map_err(say)?;
    let records: Result<Vec<_>, String> =
        (0..RECORDS).map(|id| locks.record("several", id).map_err(say)).collect();
    records.map(|records| (locks, records))
}

pub(crate) fn run(args: &Args, report: &mut Report) -> Result<(), String> {
    report.cell(&format!("{RECORDS} records that are not cached, one client, nobody else"));
    let (server, redis) = (Process::lockspan()?, Process::redis());
    let sample = args.time(200);
    let mut contest = Contest::new(FAMILY, "");

    let runtime = lone_runtime()?;
    let (locks, records) = runtime.block_on(connect(&server))?;
    let together = contest.enter("all at once", &["ns"], move || {
        runtime.block_on(of_cycles(sample, async || {
            let held = locks.all(&records).write().await.map_err(say)?;
            drop(held);
            // The next cycle finds them not cached.
            locks.give_back_idle();
            Ok::<(), String>(())
        }))
    });

    let runtime = lone_runtime()?;
    let (locks, records) = runtime.block_on(connect(&server))?;
    let one_by_one = contest.enter("one by one", &["ns"], move || {
        runtime.block_on(of_cycles(sample, async || {
            let mut held = Vec::with_capacity(records.len());
            for record in &records {
                held.push(record.write().await.map_err(say)?);
            }
            drop(held);
            locks.give_back_idle();
            Ok::<(), String>(())
        }))
    });

    let runtime = lone_runtime()?;
    let keys: Vec<_> = (0..RECORDS).map(|id| format!("several:{id}")).collect();
    let polled = match &redis {
        Err(why) => Err(why),
        Ok(server) => {
            let mut redis = runtime.block_on(Redis::connect(server.address))?;
            Ok(contest.enter("SET NX PX in order", &["ns"], move || {
                runtime.block_on(of_cycles(sample, async || {
                    for key in &keys {
                        while !redis.try_lock(key, "me").await? {
                            tokio::time::sleep(Duration::from_millis(1)).await;
                        }
                    }
                    for key in keys.iter().rev() {
                        redis.unlock(key, "me").await?;
                    }
                    Ok::<(), String>(())
                }))
            }))
        }
    };
    let rounds = contest.run(args.rounds(9), report)?;
    let ours = time(rounds.median(together));
    report.row(Row {
        what: "a cycle: how much less than one by one".to_owned(),
        ours: ours.clone(),
        compared_with: format!("{} one by one", time(rounds.median(one_by_one))),
        result: Some(rounds.ratio(one_by_one, together)),
        unit: TIMES,
        target: Target::Open,
    });
    let what = "a cycle: how much less than SET NX PX in order";
    match polled {
        Err(why) => report.absent(what, why, Target::Open),
        Ok(polled) => report.row(Row {
            what: what.to_owned(),
            ours,
            compared_with: format!("{} on Redis", time(rounds.median(polled))),
            result: Some(rounds.ratio(polled, together)),
            unit: TIMES,
            target: Target::Open,
        }),
    }
    Ok(())
}
