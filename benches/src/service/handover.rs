//! One record that goes round among clients which all want it, and release it at once.

use std::sync::Arc;
use std::time::{Duration, Instant};

use lockspan::{Handoff, Locks, Options};
use tokio::runtime::Runtime;
use tokio::sync::Mutex;

use super::etcd::Etcd;
use crate::args::Args;
use crate::contest::{Contest, Id, Rounds};
use crate::process::Process;
use crate::report::format::{rate, time};
use crate::report::{Report, Row, TIMES, Target};
use crate::say;
use crate::set_nx::Redis;
use crate::stats::jain;
use crate::timing::{Stop, wide_runtime, workers};

pub(crate) const FAMILY: &str = "handover";

const CLIENTS: usize = 8;
/// How long a client of Redis waits before it tries again.
const RETRY: Duration = Duration::from_millis(1);

/// How long each turn was waited for, in nanoseconds.
type Waits = Vec<u64>;

/// What a round comes to; peers do not count their messages.
const METRICS: [&str; 4] = ["ops_per_s", "jain", "p99_ns", "messages_per_op"];

/// The values of a contestant.
type Ids = [Id; 4];

const RATE: usize = 0;
const JAIN: usize = 1;
const P99: usize = 2;
const MESSAGES: usize = 3;

/// The values of a round, in the order of [`METRICS`].
fn turns(clients: &[Waits], took: Duration, messages: f64) -> [f64; 4] {
    let counts: Vec<f64> = clients.iter().map(|waits| waits.len() as f64).collect();
    let sum: f64 = counts.iter().sum();
    let mut waits: Waits = clients.concat();
    waits.sort_unstable();
    let p99 = waits.get(waits.len() * 99 / 100).copied().unwrap_or(0);
    [sum / took.as_secs_f64(), jain(&counts), p99 as f64, messages / sum]
}

pub(crate) fn run(args: &Args, report: &mut Report) -> Result<(), String> {
    report.cell(&format!("Hand-over of one record among {CLIENTS} clients"));
    let (server, redis, etcd) = (Process::lockspan()?, Process::redis(), Process::etcd());
    let (sample, runtime) = (args.time(1000), wide_runtime()?);
    let runtime = &runtime;
    let mut contest = Contest::new(FAMILY, "");
    let direct = enter_ours(&mut contest, runtime, sample, (&server, Handoff::Direct, "direct"))?;
    let retry = enter_ours(&mut contest, runtime, sample, (&server, Handoff::Retry, "retry"))?;
    let redis = match &redis {
        Err(why) => Err(why.clone()),
        Ok(redis) => Ok(enter_redis(&mut contest, runtime, sample, redis)?),
    };
    let etcd = match &etcd {
        Err(why) => Err(why.clone()),
        Ok(etcd) => Ok(enter_etcd(&mut contest, runtime, sample, etcd)?),
    };
    let rounds = contest.run(args.rounds(7), report)?;
    let what = "direct: turns against SET NX with retries after 1 ms";
    compare(report, &rounds, what, (direct, &redis), 4.0);
    compare(report, &rounds, "direct: turns against etcd's lock", (direct, &etcd), 100.0);
    report.row(Row {
        what: "direct against retry: turns".to_owned(),
        ours: rate(rounds.median(direct[RATE])),
        compared_with: format!("{} by retry", rate(rounds.median(retry[RATE]))),
        result: Some(rounds.ratio(direct[RATE], retry[RATE])),
        unit: TIMES,
        target: Target::Open,
    });
    let peers: Vec<_> = [("Redis", redis), ("etcd", etcd)]
        .into_iter()
        .filter_map(|(name, ids)| Some((name, ids.ok()?)))
        .collect();
    details(report, &rounds, ("direct", direct), &peers);
    details(report, &rounds, ("retry", retry), &peers);
    Ok(())
}

fn enter_ours<'a>(
    contest: &mut Contest<'a>,
    runtime: &'a Runtime,
    sample: Duration,
    (server, handoff, id): (&Process, Handoff, &'static str),
) -> Result<Ids, String> {
    let nodes = runtime.block_on(nodes(server, handoff))?;
    Ok(contest.enter_many(id, &METRICS, move || lockspan_turns(runtime, sample, &nodes, id)))
}

fn enter_redis<'a>(
    contest: &mut Contest<'a>,
    runtime: &'a Runtime,
    sample: Duration,
    redis: &Process,
) -> Result<Ids, String> {
    let mut clients = Vec::new();
    for _ in 0..CLIENTS {
        clients.push(runtime.block_on(Redis::connect(redis.address))?);
    }
    Ok(contest.enter_many("SET NX PX", &METRICS, move || {
        let turn = |at: usize, stop| redis_client(clients[at].clone(), at, stop);
        let (waits, took) = workers(runtime, sample, CLIENTS, turn)?;
        Ok(turns(&waits, took, f64::NAN))
    }))
}

fn enter_etcd<'a>(
    contest: &mut Contest<'a>,
    runtime: &'a Runtime,
    sample: Duration,
    etcd: &Process,
) -> Result<Ids, String> {
    let mut clients = Vec::new();
    for _ in 0..CLIENTS {
        let client = runtime.block_on(Etcd::connect(etcd.address))?;
        clients.push(Arc::new(Mutex::new(client)));
    }
    Ok(contest.enter_many("etcd", &METRICS, move || {
        let turn = |at: usize, stop| etcd_client(Arc::clone(&clients[at]), stop);
        let (waits, took) = workers(runtime, sample, CLIENTS, turn)?;
        Ok(turns(&waits, took, f64::NAN))
    }))
}

async fn nodes(server: &Process, handoff: Handoff) -> Result<Vec<Locks>, String> {
    let mut nodes = Vec::new();
    for _ in 0..CLIENTS {
        let options = Options::new().lease(Duration::from_secs(60)).handoff(handoff);
        // Each turn goes over the server: none is taken from the cache.
        let options = options.stay(0, Duration::ZERO).caching(false);
        nodes.push(options.connect(&server.url()).await.map_err(say)?);
    }
    Ok(nodes)
}

fn lockspan_turns(
    runtime: &Runtime,
    sample: Duration,
    nodes: &[Locks],
    id: &'static str,
) -> Result<[f64; 4], String> {
    let messages = || {
        let stats = nodes.iter().map(Locks::stats);
        stats.map(|stats| stats.told + stats.heard).sum::<u64>()
    };
    let before = messages();
    let (waits, took) = workers(runtime, sample, nodes.len(), |at, stop| {
        let record = nodes[at].record("handover", id);
        async move {
            let (record, mut waits) = (record.map_err(say)?, Waits::new());
            while !stop.is_over() {
                let start = Instant::now();
                let held = record.write().await.map_err(say)?;
                waits.push(start.elapsed().as_nanos() as u64);
                drop(held);
            }
            Ok(waits)
        }
    })?;
    Ok(turns(&waits, took, (messages() - before) as f64))
}

async fn redis_client(mut redis: Redis, at: usize, stop: Stop) -> Result<Waits, String> {
    let (value, mut waits) = (at.to_string(), Waits::new());
    while !stop.is_over() {
        let start = Instant::now();
        while !redis.try_lock("handover", &value).await? {
            tokio::time::sleep(RETRY).await;
            if stop.is_over() {
                return Ok(waits);
            }
        }
        waits.push(start.elapsed().as_nanos() as u64);
        redis.unlock("handover", &value).await?;
    }
    Ok(waits)
}

async fn etcd_client(etcd: Arc<Mutex<Etcd>>, stop: Stop) -> Result<Waits, String> {
    let (mut etcd, mut waits) = (etcd.lock().await, Waits::new());
    while !stop.is_over() {
        let start = Instant::now();
        let key = etcd.lock("handover").await?;
        waits.push(start.elapsed().as_nanos() as u64);
        etcd.unlock(key).await?;
    }
    Ok(waits)
}

/// A row of turns a second compared with a peer's, if there is one.
fn compare(
    report: &mut Report,
    rounds: &Rounds,
    what: &str,
    (ours, peer): (Ids, &Result<Ids, String>),
    least: f64,
) {
    match peer {
        Err(why) => report.absent(what, why, Target::AtLeast(least)),
        Ok(peer) => report.row(Row {
            what: what.to_owned(),
            ours: rate(rounds.median(ours[RATE])),
            compared_with: rate(rounds.median(peer[RATE])),
            result: Some(rounds.ratio(ours[RATE], peer[RATE])),
            unit: TIMES,
            target: Target::AtLeast(least),
        }),
    }
}

/// Fairness, waits and messages, compared with those of the peers.
fn details(report: &mut Report, rounds: &Rounds, (name, ours): (&str, Ids), peers: &[(&str, Ids)]) {
    let of = |at: usize, show: &dyn Fn(f64) -> String| {
        let peers =
            peers.iter().map(|(name, ids)| format!("{name} {}", show(rounds.median(ids[at]))));
        (show(rounds.median(ours[at])), peers.collect::<Vec<_>>().join(", "))
    };
    let (jain, peers_jain) = of(JAIN, &|jain| format!("{jain:.4}"));
    report.row(Row {
        what: format!("{name}: Jain's index of the clients' turns"),
        ours: jain,
        compared_with: peers_jain,
        result: Some(rounds.of(|round| round(ours[JAIN]))),
        unit: "",
        target: Target::AtLeast(0.99),
    });
    let (p99, peers_p99) = of(P99, &time);
    report.row(Row {
        what: format!("{name}: wait for a turn, p99"),
        ours: p99,
        compared_with: peers_p99,
        result: Some(rounds.of(|round| round(ours[P99]) / 1e6)),
        unit: " ms",
        target: Target::AtMost(5.0),
    });
    let messages = rounds.of(|round| round(ours[MESSAGES]));
    report.row(Row {
        what: format!("{name}: messages per turn, both ways"),
        ours: format!("{:.2}", messages.median),
        compared_with: String::new(),
        result: Some(messages),
        unit: "",
        target: Target::Open,
    });
}
