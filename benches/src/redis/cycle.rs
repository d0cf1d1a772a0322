//! One client acquires and releases one lock that no other client wants.

use std::time::Duration;

use super::peers::{Client, Kind, PEERS};
use super::{python, stats};
use crate::args::Args;
use crate::contest::{Contest, Id};
use crate::process::Process;
use crate::report::format::time;
use crate::report::{Report, Row, TIMES, Target};
use crate::timing::{lone_runtime, of_cycles};

pub(crate) const FAMILY: &str = "cycle";

pub(crate) fn run(args: &Args, report: &mut Report) -> Result<(), String> {
    report.cell("One client, nobody else: acquire and release, each sent to Redis (no stay)");
    let (redis, sample) = (Process::redis()?, args.time(200));
    let mut contest = Contest::new(FAMILY, "");
    let [ours, calls] = enter_ours(&mut contest, &redis, sample)?;
    let mut peers = Vec::new();
    for (kind, name, _) in PEERS {
        peers.push((kind, name, Ok(enter(&mut contest, &redis, (kind, name), sample)?)));
    }
    let has_python = python::measure::<1>(&redis, "cycle", Duration::from_millis(1), &[]);
    let python = has_python.map(|_| {
        contest.enter("redis-py's Lock", &["ns"], || {
            python::measure(&redis, "cycle", sample, &[]).map(|[nanos]| nanos)
        })
    });
    peers.push((Kind::Ours, "redis-py's Lock", python));
    let stays = enter(&mut contest, &redis, (Kind::Ours, "lockspan, stay"), sample)?;
    let cached = enter(&mut contest, &redis, (Kind::Cached, "lockspan, caching"), sample)?;
    let rounds = contest.run(args.rounds(9), report)?;
    for (kind, name, peer) in peers {
        let target = if kind == Kind::SetNx { Target::AtLeast(0.8) } else { Target::Open };
        let what = format!("cycles a second against {name}");
        match peer {
            Err(why) => report.absent(&what, &why, target),
            Ok(peer) => report.row(Row {
                what,
                ours: time(rounds.median(ours)),
                compared_with: time(rounds.median(peer)),
                result: Some(rounds.ratio(peer, ours)),
                unit: TIMES,
                target,
            }),
        }
    }
    report.row(Row {
        what: "scripts that Redis was sent for a cycle".to_owned(),
        ours: String::new(),
        compared_with: "each a round trip; nothing else was sent".to_owned(),
        result: Some(rounds.of(|round| (round(calls) * 100.0).round() / 100.0)),
        unit: "",
        target: Target::AtMost(2.0),
    });
    report.row(Row {
        what: "with the stay, which is the default: how much less a cycle takes".to_owned(),
        ours: time(rounds.median(stays)),
        compared_with: format!("{} without", time(rounds.median(ours))),
        result: Some(rounds.ratio(ours, stays)),
        unit: TIMES,
        target: Target::Open,
    });
    report.row(Row {
        what: "with caching: how much less a cycle takes".to_owned(),
        ours: time(rounds.median(cached)),
        compared_with: format!("{} without", time(rounds.median(ours))),
        result: Some(rounds.ratio(ours, cached)),
        unit: TIMES,
        target: Target::Open,
    });
    Ok(())
}

/// Enters ours: the nanoseconds of a cycle, and how many scripts it took.
fn enter_ours<'a>(
    contest: &mut Contest<'a>,
    redis: &Process,
    sample: Duration,
) -> Result<[Id; 2], String> {
    let runtime = lone_runtime()?;
    let mut client = runtime.block_on(Client::connect(Kind::Strict, redis, 0))?;
    let mut look = runtime.block_on(stats::connect(redis))?;
    Ok(contest.enter_many("lockspan, no stay", &["ns", "scripts_per_op"], move || {
        runtime.block_on(async {
            let before = stats::scripts(&mut look).await?.calls;
            let mut cycles = 0_u32;
            let nanos = of_cycles(sample, async || {
                cycles += 1;
                client.turn(Duration::ZERO, None).await.map(drop)
            })
            .await?;
            let calls = stats::scripts(&mut look).await?.calls - before;
            Ok([nanos, calls / f64::from(cycles)])
        })
    }))
}

fn enter(
    contest: &mut Contest<'_>,
    redis: &Process,
    (kind, name): (Kind, &'static str),
    sample: Duration,
) -> Result<Id, String> {
    let runtime = lone_runtime()?;
    let mut client = runtime.block_on(Client::connect(kind, redis, 0))?;
    Ok(contest.enter(name, &["ns"], move || {
        runtime
            .block_on(of_cycles(sample, async || client.turn(Duration::ZERO, None).await.map(drop)))
    }))
}
