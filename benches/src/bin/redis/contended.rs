//! One lock among clients which all want it: once with nothing to do while they have it and between
//! two turns, where one that polls can keep it for itself by being the first to try again; and once
//! with some work under the lock and twice as much without it, where it has to go round.

use std::time::{Duration, Instant};

use tokio::runtime::Runtime;

use crate::args::Args;
use crate::contest::{Contest, Id};
use crate::peers::{Client, Kind, PEERS, rest};
use crate::process::Process;
use crate::python;
use crate::report::{Report, Row, TIMES, Target, rate, time};
use crate::timing::{wide_runtime, workers};

const CLIENTS: usize = 8;

/// What a client does with the lock, and before it wants it again.
type Work = (Duration, Duration);

pub(crate) fn run(args: &Args, report: &mut Report) -> Result<(), String> {
    report.cell(&format!("One lock among {CLIENTS} clients that want it again at once"));
    measure(args, report, (Duration::ZERO, Duration::ZERO))?;
    report.cell(&format!("One lock among {CLIENTS} clients: 1 ms with it, 2 ms without it"));
    measure(args, report, (Duration::from_millis(1), Duration::from_millis(2)))
}

fn measure(args: &Args, report: &mut Report, work: Work) -> Result<(), String> {
    let (redis, runtime, sample) = (Process::redis()?, wide_runtime()?, args.time(800));
    let mut contest = Contest::default();
    let (faster, sooner) = (Target::AtLeast(2.0), Target::AtLeast(10.0));
    let mut ours = Vec::new();
    for (how, kind, targets) in [
        ("", Kind::Ours, [faster, sooner]),
        // Each turn is handed over: this is only told.
        ("without a stay: ", Kind::Strict, [Target::Open, Target::Open]),
        ("with caching: ", Kind::Cached, [faster, sooner]),
    ] {
        let ids = enter(&mut contest, &runtime, &redis, kind, (work, sample))?;
        ours.push((how, ids, targets));
    }
    let mut peers = Vec::new();
    for (kind, name, waits) in PEERS {
        let ids = enter(&mut contest, &runtime, &redis, kind, (work, sample))?;
        peers.push((format!("{name} ({waits})"), Ok(ids)));
    }
    let has_python = python::measure::<1>(&redis, "cycle", Duration::from_millis(1), &[]);
    let python = has_python.map(|_| {
        let seconds = |time: Duration| time.as_secs_f64().to_string();
        let more = [CLIENTS.to_string(), seconds(work.0), seconds(work.1)];
        let redis = &redis;
        contest.enter_many(move || python::measure(redis, "contended", sample, &more))
    });
    peers.push(("redis-py's Lock (tries every 100 ms, its default)".to_owned(), python));
    let rounds = contest.run(args.rounds(5))?;
    for (how, ours, targets) in ours {
        for (name, peer) in &peers {
            let what = [
                format!("{how}turns a second against {name}"),
                format!("{how}longest wait: how much less than {name}"),
            ];
            let peer = match peer {
                Ok(peer) => peer,
                Err(why) => {
                    what.iter().zip(targets).for_each(|(what, to)| report.absent(what, why, to));
                    continue;
                }
            };
            let [turns, longest] = what;
            report.row(Row {
                what: turns,
                ours: rate(rounds.median(ours[0])),
                beside: rate(rounds.median(peer[0])),
                result: Some(rounds.ratio(ours[0], peer[0])),
                unit: TIMES,
                target: targets[0],
            });
            report.row(Row {
                what: longest,
                ours: time(rounds.median(ours[1])),
                beside: time(rounds.median(peer[1])),
                result: Some(rounds.ratio(peer[1], ours[1])),
                unit: TIMES,
                target: targets[1],
            });
            report.row(Row {
                what: format!("{how}how even the turns are (Jain) beside {name}"),
                ours: format!("{:.2}", rounds.median(ours[2])),
                beside: format!("{:.2}", rounds.median(peer[2])),
                result: Some(rounds.of(|round| round(ours[2]))),
                unit: "",
                target: Target::Open,
            });
        }
    }
    Ok(())
}

/// Enters clients of a kind: turns a second, the longest wait in nanoseconds, and how even turns
/// are (Jain's index: 1 if all have as many, an eighth if one has all). A wait that does
/// not end in time counts as far as it went.
fn enter<'a>(
    contest: &mut Contest<'a>,
    runtime: &'a Runtime,
    redis: &Process,
    kind: Kind,
    ((hold, pause), sample): (Work, Duration),
) -> Result<[Id; 3], String> {
    let mut clients = Vec::new();
    for at in 0..CLIENTS {
        clients.push(runtime.block_on(Client::connect(kind, redis, at))?);
    }
    Ok(contest.enter_many(move || {
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
        let turns: u64 = done.iter().map(|(turns, _)| turns).sum();
        let longest = done.iter().map(|(_, longest)| *longest).max().unwrap_or_default();
        let squares: f64 = done.iter().map(|(turns, _)| (*turns as f64).powi(2)).sum();
        let jain = (turns as f64).powi(2) / (CLIENTS as f64 * squares.max(1.0));
        Ok([turns as f64 / took.as_secs_f64(), longest.as_nanos() as f64, jain])
    }))
}
