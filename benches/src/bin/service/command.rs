//! A command that runs while a lock is held: `lockspan run` beside `flock`.
//!
//! Against a service on a socket file alone, which is what `local:` is, and against one that also
//! listens on a port: that one syncs each session to its disk before the command may start.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::args::Args;
use crate::contest::Contest;
use crate::process::Process;
use crate::report::{Report, Row, TIMES, Target, time};

/// What the ratio may be.
const TARGET: Target = Target::AtMost(2.0);

pub(crate) fn run(args: &Args, report: &mut Report) -> Result<(), String> {
    report.cell("A command under a lock");
    let what = "`lockspan run x:y -- true` against `flock FILE true`, a user's own service";
    let Some(binary) = args.lockspan.as_ref().filter(|path| path.is_file()) else {
        let why = match &args.lockspan {
            Some(path) => format!("not built: there is no {}", path.display()),
            None => "not built: name the binary with --lockspan".to_owned(),
        };
        report.absent(what, &why, TARGET);
        return Ok(());
    };
    let (own, on_port) = (Process::own_lockspan()?, Process::lockspan()?);
    let run = |server: &Process| {
        let mut run = Command::new(binary);
        run.args(["run", "--url", &server.socket_url(), "x:y", "--", "true"]);
        run
    };
    let (mut ours, mut synced) = (run(&own), run(&on_port));
    let mut flock = Command::new("flock");
    flock.arg(own.folder().join("flock")).arg("true");
    if let Err(why) = once(&mut flock) {
        report.absent(what, &why, TARGET);
        return Ok(());
    }
    let sample = args.time(300);
    let mut contest = Contest::default();
    let ours = contest.enter(|| per_run(&mut ours, sample));
    let flock = contest.enter(|| per_run(&mut flock, sample));
    let synced = contest.enter(|| per_run(&mut synced, sample));
    let rounds = contest.run(args.rounds(9))?;
    let synced_what = "the same, a service that also listens on a port: it syncs each session";
    for (what, ours, target) in [(what, ours, TARGET), (synced_what, synced, Target::Open)] {
        report.row(Row {
            what: what.to_owned(),
            ours: time(rounds.median(ours)),
            beside: time(rounds.median(flock)),
            result: Some(rounds.ratio(ours, flock)),
            unit: TIMES,
            target,
        });
    }
    Ok(())
}

/// Nanoseconds of one run.
fn per_run(command: &mut Command, sample: Duration) -> Result<f64, String> {
    once(command)?;
    let (start, mut runs) = (Instant::now(), 0_u32);
    while start.elapsed() < sample {
        once(command)?;
        runs += 1;
    }
    Ok(start.elapsed().as_nanos() as f64 / f64::from(runs))
}

fn once(command: &mut Command) -> Result<(), String> {
    let program = command.get_program().to_string_lossy().into_owned();
    let status = command.stdin(Stdio::null()).stdout(Stdio::null()).status();
    match status {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("{program}: {status}")),
        Err(why) if why.kind() == std::io::ErrorKind::NotFound => {
            Err(format!("{program} is not installed"))
        }
        Err(why) => Err(format!("{program}: {why}")),
    }
}
