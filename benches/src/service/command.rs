//! A command that runs while a lock is held: `lockspan run` compared with `flock`.
//!
//! Against a service on a socket file alone, which is what `local:` is, and against one that also
//! listens on a port: that one syncs each session to its disk before the command may start.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::args::Args;
use crate::contest::Contest;
use crate::process::Process;
use crate::report::format::time;
use crate::report::{Report, Row, TIMES, Target};

pub(crate) const FAMILY: &str = "command";

/// What the ratio may be.
const TARGET: Target = Target::AtMost(2.0);

pub(crate) fn run(args: &Args, report: &mut Report) -> Result<(), String> {
    report.cell("A command under a lock");
    let what = "`lockspan run x:y -- true` against `flock FILE true`, a user's own service";
    let binary = &crate::built_folder()?.join("lockspan");
    if !binary.is_file() {
        report.absent(what, "not built: `cargo build -p lockspan-cli`", TARGET);
        return Ok(());
    }
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
    let mut contest = Contest::new(FAMILY, "");
    let ours = contest.enter("own service", &["ns"], || per_run(&mut ours, sample));
    let flock = contest.enter("flock", &["ns"], || per_run(&mut flock, sample));
    let synced = contest.enter("service on a port", &["ns"], || per_run(&mut synced, sample));
    let rounds = contest.run(args.rounds(9), report)?;
    let synced_what = "the same, a service that also listens on a port: it syncs each session";
    for (what, ours, target) in [(what, ours, TARGET), (synced_what, synced, Target::Open)] {
        report.row(Row {
            what: what.to_owned(),
            ours: time(rounds.median(ours)),
            compared_with: time(rounds.median(flock)),
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
