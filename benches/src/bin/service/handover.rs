//! One record that goes round among clients which all want it, with nothing to do while they have
//! it.

use std::cell::RefCell;
use std::sync::Arc;
use std::time::{Duration, Instant};

use lockspan::{Handoff, Locks, Options};
use tokio::runtime::Runtime;
use tokio::sync::Mutex;

use crate::args::Args;
use crate::contest::{Contest, Id, Rounds, Spread};
use crate::etcd::Etcd;
use crate::process::Process;
use crate::redis::Redis;
use crate::report::{Report, Row, TIMES, Target, rate, time};
use crate::say;
use crate::timing::{Stop, wide_runtime, workers};

const CLIENTS: usize = 8;
/// How long a client of Redis waits before it tries again.
const RETRY: Duration = Duration::from_millis(1);

/// How long each turn was waited for, in nanoseconds.
type Waits = Vec<u64>;

/// What one round came to.
struct Turns {
    rate: f64,
    jain: f64,
    p99: f64,
    /// Messages per turn.
    messages: f64,
}

impl Turns {
    fn new(clients: &[Waits], took: Duration, messages: f64) -> Self {
        let counts = clients.iter().map(|waits| waits.len() as f64);
        let (sum, squares) = (counts.clone().sum::<f64>(), counts.map(|n| n * n).sum::<f64>());
        let mut waits: Waits = clients.concat();
        waits.sort_unstable();
        let p99 = waits.get(waits.len() * 99 / 100).copied().unwrap_or(0);
        Self {
            rate: sum / took.as_secs_f64(),
            jain: sum * sum / (clients.len() as f64 * squares),
            p99: p99 as f64,
            messages: messages / sum,
        }
    }
}

/// The rounds of one contestant.
type Log = RefCell<Vec<Turns>>;

fn spread(log: &Log, of: impl Fn(&Turns) -> f64) -> Spread {
    Spread::of(log.borrow().iter().map(of))
}

/// A lap of a contest: keeps what it came to, and returns its rate.
fn keep(log: &Log, turns: Turns) -> f64 {
    let rate = turns.rate;
    log.borrow_mut().push(turns);
    rate
}

pub(crate) fn run(args: &Args, report: &mut Report) -> Result<(), String> {
    report.cell(&format!("Hand-over of one record among {CLIENTS} clients"));
    let (server, redis, etcd) = (Process::lockspan()?, Process::redis(), Process::etcd());
    let (sample, runtime) = (args.time(1000), wide_runtime()?);
    let runtime = &runtime;
    let direct = runtime.block_on(nodes(&server, Handoff::Direct))?;
    let retry = runtime.block_on(nodes(&server, Handoff::Retry))?;
    let logs: [Log; 4] = Default::default();
    let [direct_log, retry_log, redis_log, etcd_log] = &logs;
    let mut contest = Contest::default();
    let ours = [
        contest.enter(|| Ok(keep(direct_log, lockspan_turns(runtime, sample, &direct, "direct")?))),
        contest.enter(|| Ok(keep(retry_log, lockspan_turns(runtime, sample, &retry, "retry")?))),
    ];
    let redis = match &redis {
        Err(why) => Err(why.clone()),
        Ok(redis) => {
            let mut clients = Vec::new();
            for _ in 0..CLIENTS {
                clients.push(runtime.block_on(Redis::connect(redis.address))?);
            }
            Ok(contest.enter(move || {
                let turn = |at: usize, stop| redis_client(clients[at].clone(), at, stop);
                let (waits, took) = workers(runtime, sample, CLIENTS, turn)?;
                Ok(keep(redis_log, Turns::new(&waits, took, f64::NAN)))
            }))
        }
    };
    let etcd = match &etcd {
        Err(why) => Err(why.clone()),
        Ok(etcd) => {
            let mut clients = Vec::new();
            for _ in 0..CLIENTS {
                let client = runtime.block_on(Etcd::connect(etcd.address))?;
                clients.push(Arc::new(Mutex::new(client)));
            }
            Ok(contest.enter(move || {
                let turn = |at: usize, stop| etcd_client(Arc::clone(&clients[at]), stop);
                let (waits, took) = workers(runtime, sample, CLIENTS, turn)?;
                Ok(keep(etcd_log, Turns::new(&waits, took, f64::NAN)))
            }))
        }
    };
    let rounds = contest.run(args.rounds(7))?;
    let what = "direct: turns against SET NX with retries after 1 ms";
    beside(report, &rounds, what, (ours[0], redis), 4.0);
    beside(report, &rounds, "direct: turns against etcd's lock", (ours[0], etcd), 100.0);
    let ratio = Some(rounds.ratio(ours[0], ours[1]));
    let (direct, retry) = (rate(rounds.median(ours[0])), rate(rounds.median(ours[1])));
    let what = "direct against retry: turns".to_owned();
    report.row(Row {
        what,
        ours: direct,
        beside: format!("{retry} by retry"),
        result: ratio,
        unit: TIMES,
        target: Target::Open,
    });
    details(report, &logs);
    Ok(())
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
) -> Result<Turns, String> {
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
    Ok(Turns::new(&waits, took, (messages() - before) as f64))
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

/// A row of turns a second beside a peer's, if there is one.
fn beside(
    report: &mut Report,
    rounds: &Rounds,
    what: &str,
    (ours, peer): (Id, Result<Id, String>),
    least: f64,
) {
    match peer {
        Err(why) => report.absent(what, &why, Target::AtLeast(least)),
        Ok(peer) => report.row(Row {
            what: what.to_owned(),
            ours: rate(rounds.median(ours)),
            beside: rate(rounds.median(peer)),
            result: Some(rounds.ratio(ours, peer)),
            unit: TIMES,
            target: Target::AtLeast(least),
        }),
    }
}

/// Fairness, waits and messages, the peers' beside ours.
fn details(report: &mut Report, logs: &[Log; 4]) {
    let [_, _, redis, etcd] = logs;
    let peers = |show: &dyn Fn(&Log) -> String| {
        let known = [("Redis", redis), ("etcd", etcd)].into_iter();
        let known = known.filter(|(_, log)| !log.borrow().is_empty());
        known.map(|(name, log)| format!("{name} {}", show(log))).collect::<Vec<_>>().join(", ")
    };
    for (name, log) in ["direct", "retry"].into_iter().zip(logs) {
        let jain = spread(log, |turns| turns.jain);
        report.row(Row {
            what: format!("{name}: Jain's index of the clients' turns"),
            ours: format!("{:.4}", jain.median),
            beside: peers(&|log| format!("{:.4}", spread(log, |turns| turns.jain).median)),
            result: Some(jain),
            unit: "",
            target: Target::AtLeast(0.99),
        });
        let p99 = spread(log, |turns| turns.p99 / 1e6);
        report.row(Row {
            what: format!("{name}: wait for a turn, 99 of 100"),
            ours: time(p99.median * 1e6),
            beside: peers(&|log| time(spread(log, |turns| turns.p99).median)),
            result: Some(p99),
            unit: " ms",
            target: Target::AtMost(5.0),
        });
        let messages = spread(log, |turns| turns.messages);
        report.row(Row {
            what: format!("{name}: messages per turn, both ways"),
            ours: format!("{:.2}", messages.median),
            beside: String::new(),
            result: Some(messages),
            unit: "",
            target: Target::Open,
        });
    }
}
