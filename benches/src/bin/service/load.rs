//! Many clients with many requests under way, each with records of its own.

use std::time::Duration;

use lockspan::{Locks, Options};

use crate::args::Args;
use crate::contest::Contest;
use crate::process::Process;
use crate::redis::Redis;
use crate::report::{Report, Row, TIMES, Target, rate};
use crate::say;
use crate::timing::{throughput, wide_runtime};

const CLIENTS: usize = 16;
const UNDER_WAY: usize = 32;
const WORKERS: usize = CLIENTS * UNDER_WAY;

pub(crate) fn run(args: &Args, report: &mut Report) -> Result<(), String> {
    report.cell(&format!("{CLIENTS} clients with {UNDER_WAY} requests under way each"));
    let (server, redis) = (Process::lockspan()?, Process::redis());
    let sample = args.time(500);
    let runtime = &wide_runtime()?;
    let nodes = runtime.block_on(nodes(&server))?;
    let mut contest = Contest::default();
    let ours = contest.enter(|| {
        throughput(runtime, sample, WORKERS, |at, stop| {
            let record = nodes[at / UNDER_WAY].record("load", at.to_string());
            async move {
                let (record, mut cycles) = (record.map_err(say)?, 0);
                while !stop.is_over() {
                    drop(record.write().await.map_err(say)?);
                    cycles += 1;
                }
                Ok(cycles)
            }
        })
    });
    let peers = match &redis {
        Err(why) => Err(why),
        Ok(redis) => {
            let connections = runtime.block_on(connections(redis))?;
            let lockers = connections.clone();
            let ping = contest.enter(move || {
                throughput(runtime, sample, WORKERS, |at, stop| {
                    let mut redis = connections[at / UNDER_WAY].clone();
                    async move {
                        let mut pings = 0;
                        while !stop.is_over() {
                            redis.ping().await?;
                            pings += 1;
                        }
                        Ok(pings)
                    }
                })
            });
            let lock = contest.enter(move || {
                throughput(runtime, sample, WORKERS, |at, stop| {
                    let mut redis = lockers[at / UNDER_WAY].clone();
                    async move {
                        let (name, mut cycles) = (format!("load:{at}"), 0);
                        while !stop.is_over() {
                            redis.try_lock(&name, "me").await?;
                            redis.unlock(&name, "me").await?;
                            cycles += 1;
                        }
                        Ok(cycles)
                    }
                })
            });
            Ok((contest.run(args.rounds(7))?, ping, lock))
        }
    };
    let what = "uncached cycles against Redis's PING";
    let (rounds, ping, lock) = match peers {
        Ok(peers) => peers,
        Err(why) => {
            report.absent(what, why, Target::AtLeast(2.0));
            return Ok(());
        }
    };
    for (what, peer, target) in [
        (what, ping, Target::AtLeast(2.0)),
        ("the same against SET NX PX and compare-and-delete", lock, Target::Open),
    ] {
        report.row(Row {
            what: what.to_owned(),
            ours: rate(rounds.median(ours)),
            beside: rate(rounds.median(peer)),
            result: Some(rounds.ratio(ours, peer)),
            unit: TIMES,
            target,
        });
    }
    Ok(())
}

async fn nodes(server: &Process) -> Result<Vec<Locks>, String> {
    let mut nodes = Vec::new();
    for _ in 0..CLIENTS {
        let options = Options::new().lease(Duration::from_secs(60)).caching(false);
        nodes.push(options.connect(&server.url()).await.map_err(say)?);
    }
    Ok(nodes)
}

async fn connections(redis: &Process) -> Result<Vec<Redis>, String> {
    let mut connections = Vec::new();
    for _ in 0..CLIENTS {
        connections.push(Redis::connect(redis.address).await?);
    }
    Ok(connections)
}
