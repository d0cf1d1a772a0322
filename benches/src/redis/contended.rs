//! One lock among clients which all want it. In one cell they do nothing with it and want it again
//! at once: a client that polls can keep the lock for itself by being the first to try again. In
//! the other cell they work with it for a while and without it for twice as long, so that it has to
//! go round.

use std::time::{Duration, Instant};

use tokio::runtime::Runtime;

use super::peers::{Client, Kind, PEERS, rest};
use super::python;
use crate::args::Args;
use crate::comparison::Cell;
use crate::contest::{Contest, Id, Rounds};
use crate::process::Process;
use crate::report::format::{rate, time};
use crate::report::{Report, Row, TIMES, Target};
use crate::stats::jain;
use crate::timing::{wide_runtime, workers};

pub(crate) const FAMILY: &str = "contended";
pub(crate) const AT_ONCE: &str = "at-once";
pub(crate) const WITH_WORK: &str = "with-work";

const CLIENTS: usize = 8;

/// What a client does with the lock, and before it wants it again.
type Work = (Duration, Duration);

/// What a sample of a contestant comes to.
const METRICS: [&str; 3] = ["ops_per_s", "longest_ns", "jain"];

pub(crate) fn cells() -> [Cell; 2] {
    let cell = |name: &'static str, hold: u64, pause: u64| {
        let work = (Duration::from_millis(hold), Duration::from_millis(pause));
        Cell::new(format!("{FAMILY}/{name}"), move |args, report| run(args, report, name, work))
    };
    [cell(AT_ONCE, 0, 0), cell(WITH_WORK, 1, 2)]
}

fn run(args: &Args, report: &mut Report, cell: &'static str, work: Work) -> Result<(), String> {
    let (redis, runtime, sample) = (Process::redis()?, wide_runtime()?, args.time(800));
    let mut contest = Contest::new(FAMILY, cell);
    let mut enter =
        |kind, name| enter(&mut contest, &runtime, &redis, (kind, name), (work, sample));
    let (faster, sooner) = (Target::AtLeast(2.0), Target::AtLeast(10.0));
    let ours = [
        ("", enter(Kind::Ours, "lockspan")?, [faster, sooner]),
        // Each turn is handed over: there is no target.
        ("without a stay: ", enter(Kind::Strict, "lockspan, no stay")?, [Target::Open; 2]),
        ("with caching: ", enter(Kind::Cached, "lockspan, caching")?, [faster, sooner]),
    ];
    let mut peers = Vec::new();
    for (kind, name, waits) in PEERS {
        peers.push((format!("{name} ({waits})"), Ok(enter(kind, name)?)));
    }
    let python = enter_python(&mut contest, &redis, work, sample);
    peers.push(("redis-py's Lock (tries every 100 ms, its default)".to_owned(), python));
    let rounds = contest.run(args.rounds(5), report)?;
    report.cell(&match work {
        (Duration::ZERO, _) => {
            format!("One lock among {CLIENTS} clients that want it again at once")
        }
        (hold, pause) => {
            format!("One lock among {CLIENTS} clients: {hold:?} with it, {pause:?} without it")
        }
    });
    for (how, ours, targets) in ours {
        for (name, peer) in &peers {
            rows(report, &rounds, (how, ours, targets), (name, peer));
        }
    }
    Ok(())
}

/// Enters redis-py, if there is one.
fn enter_python<'a>(
    contest: &mut Contest<'a>,
    redis: &'a Process,
    (hold, pause): Work,
    sample: Duration,
) -> Result<[Id; 3], String> {
    python::measure::<1>(redis, "cycle", Duration::from_millis(1), &[])?;
    let seconds = |time: Duration| time.as_secs_f64().to_string();
    let more = [CLIENTS.to_string(), seconds(hold), seconds(pause)];
    let turn = move || python::measure(redis, "contended", sample, &more);
    Ok(contest.enter_many("redis-py's Lock", &METRICS, turn))
}

/// The rows of one of ours compared with one peer.
fn rows(
    report: &mut Report,
    rounds: &Rounds,
    (how, ours, targets): (&str, [Id; 3], [Target; 2]),
    (name, peer): (&str, &Result<[Id; 3], String>),
) {
    let turns = format!("{how}turns a second against {name}");
    let longest = format!("{how}longest wait: how much less than {name}");
    let peer = match peer {
        Ok(peer) => peer,
        Err(why) => {
            report.absent(&turns, why, targets[0]);
            report.absent(&longest, why, targets[1]);
            return;
        }
    };
    report.row(Row {
        what: turns,
        ours: rate(rounds.median(ours[0])),
        compared_with: rate(rounds.median(peer[0])),
        result: Some(rounds.ratio(ours[0], peer[0])),
        unit: TIMES,
        target: targets[0],
    });
    report.row(Row {
        what: longest,
        ours: time(rounds.median(ours[1])),
        compared_with: time(rounds.median(peer[1])),
        result: Some(rounds.ratio(peer[1], ours[1])),
        unit: TIMES,
        target: targets[1],
    });
    report.row(Row {
        what: format!("{how}how even the turns are (Jain) compared with {name}"),
        ours: format!("{:.2}", rounds.median(ours[2])),
        compared_with: format!("{:.2}", rounds.median(peer[2])),
        result: Some(rounds.of(|round| round(ours[2]))),
        unit: "",
        target: Target::Open,
    });
}

/// Enters clients of a kind: turns a second, the longest wait in nanoseconds, and how even turns
/// are (Jain's index: 1 if all have as many, an eighth if one has all). A wait that does
/// not end in time counts as far as it went.
fn enter<'a>(
    contest: &mut Contest<'a>,
    runtime: &'a Runtime,
    redis: &Process,
    (kind, name): (Kind, &'static str),
    ((hold, pause), sample): (Work, Duration),
) -> Result<[Id; 3], String> {
    let mut clients = Vec::new();
    for at in 0..CLIENTS {
        clients.push(runtime.block_on(Client::connect(kind, redis, at))?);
    }
    Ok(contest.enter_many(name, &METRICS, move || {
        let (done, took) = workers(runtime, sample, CLIENTS, |at, stop| {
            let mut client = clients[at].clone();
            async move {
                let (mut turns, mut longest) = (0_u64, Duration::ZERO);
                while !stop.is_over() {
                    let start = Instant::now();
                    match client.turn(hold, Some(&stop)).await? {
                        Some(waited) => {
                            turns += 1;
                            longest = longest.max(waited);
                        }
                        None => longest = longest.max(start.elapsed()),
                    }
                    rest(pause).await;
                }
                Ok((turns, longest))
            }
        })?;
        let turns: Vec<f64> = done.iter().map(|(turns, _)| *turns as f64).collect();
        let longest = done.iter().map(|(_, longest)| *longest).max().unwrap_or_default();
        let rate = turns.iter().sum::<f64>() / took.as_secs_f64();
        Ok([rate, longest.as_nanos() as f64, jain(&turns)])
    }))
}
