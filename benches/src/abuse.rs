//! Clients that misbehave: what a well-behaved client beside them notices, and what the server's
//! memory grows to. Where the same misuse exists on Redis, it is made there in the same round.
//!
//! The misuse itself is in `lockspan_faults::abuse`. It is made by a process of its own, the
//! program `faults`, against the program `lockspan`; both have to be built beside this one.

use std::path::PathBuf;

use lockspan_faults::abuse::{self, Kind, Plan, Server, Size};
use tokio::runtime::Runtime;

use crate::args::Args;
use crate::comparison::{Cell, Comparison, View};
use crate::contest::{Contest, Id, Rounds};
use crate::report::format::time;
use crate::report::{Report, Row, TIMES, Target};
use crate::say;

pub(crate) const NAME: &str = "abuse";
const MILLIS: u64 = 5_000;
const MILLIS_SMOKE: u64 = 200;
/// The one kind of a smoke run. The tests of `faults` run all of them.
const SMOKE: Kind = Kind::Pipelines;

/// What is measured in a round. Times are those of one lock and unlock of the innocent client.
const METRICS: [&str; 10] = [
    "p50_before_ns",
    "p99_before_ns",
    "p50_ns",
    "p99_ns",
    "longest_ns",
    "memory_before_bytes",
    "memory_bytes",
    "requests",
    "health_checks",
    "health_checks_failed",
];

/// The values of a server, in the order of [`METRICS`].
type Ids = [Id; METRICS.len()];

pub(crate) fn comparison() -> Comparison {
    let cell = |kind: Kind| Cell::new(kind.name(), move |args, report| run(kind, args, report));
    Comparison {
        name: NAME,
        title: "Clients that misbehave, and what others notice",
        note: "An innocent client locks and unlocks a record every 2 ms, before and during each \
               misuse. The misbehaving clients are a process of the lowest priority on the same \
               machine, so a part of the delay is theirs and not the server's."
            .to_owned(),
        programs: &[("redis-server", "--version")],
        packages: &[],
        cells: Kind::ALL.map(cell).into(),
        view: View::TABLES,
    }
}

fn run(kind: Kind, args: &Args, report: &mut Report) -> Result<(), String> {
    if args.smoke && kind != SMOKE {
        return Ok(());
    }
    let plan = Plan {
        program: built("faults")?,
        binary: built("lockspan")?,
        time: args.millis(MILLIS, MILLIS_SMOKE),
        size: Size(args.count(1, 10)),
    };
    let runtime = Runtime::new().map_err(say)?;
    let mut contest = Contest::new(kind.name(), "");
    let (plan, runtime) = (&plan, &runtime);
    let mut enter = |server: Server| {
        let turn = move || measure(runtime, plan, kind, server);
        contest.enter_many(server.name(), &METRICS, turn)
    };
    let ours = enter(Server::Lockspan);
    let theirs = kind.exists_on_redis().then(|| enter(Server::Redis));
    let rounds = contest.run(args.rounds(1), report)?;
    rows(kind, ours, theirs, &rounds, report);
    Ok(())
}

/// One misuse of one server, in the order of [`METRICS`].
fn measure(
    runtime: &Runtime,
    plan: &Plan,
    kind: Kind,
    server: Server,
) -> Result<[f64; METRICS.len()], String> {
    let row = runtime.block_on(abuse::misuse(plan, kind, server));
    let row = row.map_err(|why| format!("{}: {why:#}", server.name()))?;
    let before = |part| row.before.quantile(part).as_nanos() as f64;
    let during = |part| row.during.quantile(part).as_nanos() as f64;
    Ok([
        before(0.5),
        before(0.99),
        during(0.5),
        during(0.99),
        during(1.0),
        row.memory_before as f64,
        row.memory_most as f64,
        row.requests as f64,
        (row.during.healthy + row.during.unhealthy) as f64,
        row.during.unhealthy as f64,
    ])
}

fn rows(kind: Kind, ours: Ids, theirs: Option<Ids>, rounds: &Rounds, report: &mut Report) {
    report.cell(kind.title());
    let mut row = |what: &str, metric: &str, at: &str, peer: Id| {
        let shown = |id: Id| match metric {
            "memory_bytes" => format!("{:.0} MiB", rounds.median(id) / 1048576.0),
            _ => time(rounds.median(id)),
        };
        let id = of(&ours, metric);
        report.row(Row {
            what: what.to_owned(),
            ours: shown(id),
            compared_with: format!("{at}: {}", shown(peer)),
            result: Some(rounds.ratio(id, peer)),
            unit: TIMES,
            target: Target::Open,
        });
    };
    for (what, metric, before) in [
        ("p50", "p50_ns", "p50_before_ns"),
        ("p99", "p99_ns", "p99_before_ns"),
        ("memory", "memory_bytes", "memory_before_bytes"),
    ] {
        row(what, metric, "before", of(&ours, before));
    }
    if let Some(theirs) = theirs {
        for (what, metric) in
            [("p99", "p99_ns"), ("longest", "longest_ns"), ("memory", "memory_bytes")]
        {
            row(what, metric, "Redis", of(&theirs, metric));
        }
    }
    let checks = rounds.total(of(&ours, "health_checks"));
    report.put(&format!(
        "\nLongest: {}. Requests of the misbehaving clients: {}. Health checks answered: {} of {}.",
        time(rounds.median(of(&ours, "longest_ns"))),
        rounds.median(of(&ours, "requests")),
        checks - rounds.total(of(&ours, "health_checks_failed")),
        checks
    ));
}

/// The value of that name.
fn of(ids: &Ids, metric: &str) -> Id {
    let at = METRICS.iter().position(|name| *name == metric);
    ids[at.expect("a name of METRICS")]
}

/// A program that was built like this one.
fn built(name: &str) -> Result<PathBuf, String> {
    let path = crate::built_folder()?.join(name);
    match path.is_file() {
        true => Ok(path),
        false => {
            Err(format!("there is no {}: `cargo xtask bench {NAME}` builds it", path.display()))
        }
    }
}
