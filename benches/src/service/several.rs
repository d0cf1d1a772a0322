//! Several records at once, compared with one after the other and with keys on Redis that are set
//! in order, each polled until it is free.

use std::time::Duration;

use lockspan::{Locks, Options, Record};

use crate::args::Args;
use crate::contest::Contest;
use crate::dice::Dice;
use crate::process::Process;
use crate::report::format::{rate, time};
use crate::report::{Report, Row, TIMES, Target};
use crate::say;
use crate::set_nx::Redis;
use crate::timing::{Stop, lone_runtime, of_cycles, throughput, wide_runtime};

pub(crate) const FAMILY: &str = "several";
const CONTENDED: &str = "contended";

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
    // One for both nodes, which runs all the time: each has to give back what the other wants.
    let runtime = wide_runtime()?;
    let mut contest = Contest::new(FAMILY, "");

    let (locks, records) = runtime.block_on(connect(&server))?;
    let shared = &runtime;
    let together = contest.enter("all at once", &["ns"], move || {
        shared.block_on(of_cycles(sample, async || {
            let held = locks.all(&records).write().await.map_err(say)?;
            drop(held);
            // The next cycle finds them not cached.
            locks.give_back_idle();
            Ok::<(), String>(())
        }))
    });

    let (locks, records) = runtime.block_on(connect(&server))?;
    let one_by_one = contest.enter("one by one", &["ns"], move || {
        shared.block_on(of_cycles(sample, async || {
            let mut held = Vec::with_capacity(records.len());
            for record in &records {
                held.push(record.write().await.map_err(say)?);
            }
            drop(held);
            locks.give_back_idle();
            Ok::<(), String>(())
        }))
    });

    let alone = lone_runtime()?;
    let keys: Vec<_> = (0..RECORDS).map(|id| format!("several:{id}")).collect();
    let polled = match &redis {
        Err(why) => Err(why),
        Ok(server) => {
            let mut redis = alone.block_on(Redis::connect(server.address))?;
            Ok(contest.enter("SET NX PX in order", &["ns"], move || {
                alone.block_on(of_cycles(sample, async || {
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

/// How many clients want records of the same few at the same time, and how many each.
const CLIENTS: usize = 6;
const FEW: u32 = 12;
const EACH: usize = 3;

/// What a client does with what it has.
const WORK: Duration = Duration::from_micros(500);

/// A random set of records by their numbers, in the order in which they are locked.
fn set(dice: &mut Dice) -> [u32; EACH] {
    let mut set = [0; EACH];
    for at in 0..EACH {
        set[at] = loop {
            let record = dice.below(FEW);
            if !set[..at].contains(&record) {
                break record;
            }
        };
    }
    set.sort_unstable();
    set
}

/// Clients whose sets overlap, so that most of them wait.
pub(crate) fn contended(args: &Args, report: &mut Report) -> Result<(), String> {
    report.cell(&format!(
        "{CLIENTS} clients, each with {EACH} random records of {FEW} for {WORK:?} at a time"
    ));
    let (server, redis, runtime) = (Process::lockspan()?, Process::redis(), wide_runtime()?);
    let sample = args.time(500);
    // Each client is a node of its own, which asks the server each time.
    let nodes = || {
        (0..CLIENTS).map(|_| {
            let options = Options::new().lease(Duration::from_secs(60)).caching(false);
            let locks = runtime.block_on(options.connect(&server.url())).map_err(say)?;
            // All of one width, so that the order of names is that of numbers.
            let records: Result<Vec<_>, _> =
                (0..FEW).map(|id| locks.record("contended", format!("{id:02}"))).collect();
            Ok::<_, String>((locks, records.map_err(say)?))
        })
    };
    let ours: Result<Vec<_>, _> = nodes().collect();
    let (together_nodes, single_nodes) = (ours?, nodes().collect::<Result<Vec<_>, _>>()?);
    let mut contest = Contest::new(FAMILY, CONTENDED);
    let together = contest.enter("all at once", &["ops_per_s"], || {
        throughput(&runtime, sample, CLIENTS, |at, stop| {
            let ((locks, records), mut dice) = (together_nodes[at].clone(), Dice::new(at as u64));
            async move {
                let mut cycles = 0;
                while !stop.is_over() {
                    let wanted = set(&mut dice).map(|id| records[id as usize].clone());
                    let held = locks.all(&wanted).write().await.map_err(say)?;
                    tokio::time::sleep(WORK).await;
                    drop(held);
                    cycles += 1;
                }
                Ok(cycles)
            }
        })
    });
    let one_by_one = contest.enter("one by one", &["ops_per_s"], || {
        throughput(&runtime, sample, CLIENTS, |at, stop| {
            let ((_, records), mut dice) = (single_nodes[at].clone(), Dice::new(at as u64));
            async move {
                let mut cycles = 0;
                while !stop.is_over() {
                    let mut held = Vec::with_capacity(EACH);
                    for id in set(&mut dice) {
                        held.push(records[id as usize].write().await.map_err(say)?);
                    }
                    tokio::time::sleep(WORK).await;
                    drop(held);
                    cycles += 1;
                }
                Ok(cycles)
            }
        })
    });
    let polled = match &redis {
        Err(why) => Err(why),
        Ok(server) => {
            let connections: Result<Vec<_>, String> =
                (0..CLIENTS).map(|_| runtime.block_on(Redis::connect(server.address))).collect();
            let connections = connections?;
            let runtime = &runtime;
            Ok(contest.enter("SET NX PX in order", &["ops_per_s"], move || {
                throughput(runtime, sample, CLIENTS, |at, stop| {
                    let (redis, dice) = (connections[at].clone(), Dice::new(at as u64));
                    poll(redis, dice, format!("client-{at}"), stop)
                })
            }))
        }
    };
    let rounds = contest.run(args.rounds(7), report)?;
    let ours = rate(rounds.median(together));
    report.row(Row {
        what: "sets a second against one by one".to_owned(),
        ours: ours.clone(),
        compared_with: rate(rounds.median(one_by_one)),
        result: Some(rounds.ratio(together, one_by_one)),
        unit: TIMES,
        target: Target::Open,
    });
    let what = "sets a second against SET NX PX in order, tried again every 1 ms";
    match polled {
        Err(why) => report.absent(what, why, Target::Open),
        Ok(polled) => report.row(Row {
            what: what.to_owned(),
            ours,
            compared_with: rate(rounds.median(polled)),
            result: Some(rounds.ratio(together, polled)),
            unit: TIMES,
            target: Target::Open,
        }),
    }
    Ok(())
}

/// A client of Redis: each key of its set is tried until it is free.
async fn poll(mut redis: Redis, mut dice: Dice, me: String, stop: Stop) -> Result<u64, String> {
    let mut cycles = 0;
    while !stop.is_over() {
        let keys = set(&mut dice).map(|id| format!("contended:{id:02}"));
        for key in &keys {
            while !redis.try_lock(key, &me).await? {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        }
        tokio::time::sleep(WORK).await;
        for key in keys.iter().rev() {
            redis.unlock(key, &me).await?;
        }
        cycles += 1;
    }
    Ok(cycles)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_have_different_records_in_order() {
        let mut dice = Dice::new(7);
        for _ in 0..1000 {
            let set = set(&mut dice);
            assert!(set.is_sorted_by(|a, b| a < b) && set[EACH - 1] < FEW, "{set:?}");
        }
    }
}
