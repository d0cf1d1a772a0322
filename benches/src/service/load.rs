//! Many clients with many requests under way, each with records of its own.

use std::time::Duration;

use lockspan::{Locks, Options};
use tokio::runtime::Runtime;

use crate::args::Args;
use crate::contest::Contest;
use crate::process::Process;
use crate::report::format::rate;
use crate::report::{Report, Row, TIMES, Target};
use crate::say;
use crate::set_nx::Redis;
use crate::timing::{server_runtime, throughput, wide_runtime};

pub(crate) const FAMILY: &str = "load";

const CLIENTS: usize = 16;
const UNDER_WAY: usize = 32;
const WORKERS: usize = CLIENTS * UNDER_WAY;

pub(crate) fn run(args: &Args, report: &mut Report) -> Result<(), String> {
    report.cell(&format!("{CLIENTS} clients with {UNDER_WAY} requests under way each"));
    let (server, redis) = (Process::lockspan()?, Process::redis());
    let redis = redis.as_ref();
    // The clients share the processors with the server, or leave it half of them.
    for (runtime, cell, whose, target) in [
        (wide_runtime()?, "all", "a thread for each processor", Target::AtLeast(2.0)),
        (server_runtime()?, "half", "threads for half of the processors", Target::Open),
    ] {
        let what = format!("uncached cycles against Redis's PING; clients with {whose}");
        match redis {
            Ok(redis) => compare(args, report, (cell, &runtime), (&server, redis), (what, target))?,
            Err(why) => report.absent(&what, why, target),
        }
    }
    Ok(())
}

fn compare(
    args: &Args,
    report: &mut Report,
    (cell, runtime): (&'static str, &Runtime),
    (server, redis): (&Process, &Process),
    (what, target): (String, Target),
) -> Result<(), String> {
    let sample = args.time(500);
    let nodes = runtime.block_on(nodes(server))?;
    let connections = runtime.block_on(connections(redis))?;
    let mut contest = Contest::new(FAMILY, cell);
    let ours = contest.enter("lockspan", &["ops_per_s"], || {
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
    let ping = contest.enter("Redis PING", &["ops_per_s"], || {
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
    let lock = contest.enter("SET NX PX", &["ops_per_s"], || {
        throughput(runtime, sample, WORKERS, |at, stop| {
            let mut redis = connections[at / UNDER_WAY].clone();
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
    let rounds = contest.run(args.rounds(7), report)?;
    let cycles = rounds.median(ours);
    let requests = rounds.of(|round| 2.0 * round(ours) / round(ping));
    for (what, ours, peer, result, target) in [
        (what, cycles, ping, rounds.ratio(ours, ping), target),
        (
            "the same in requests, two a cycle".to_owned(),
            2.0 * cycles,
            ping,
            requests,
            Target::Open,
        ),
        (
            "cycles against SET NX PX and compare-and-delete".to_owned(),
            cycles,
            lock,
            rounds.ratio(ours, lock),
            Target::Open,
        ),
    ] {
        report.row(Row {
            what,
            ours: rate(ours),
            compared_with: rate(rounds.median(peer)),
            result: Some(result),
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
