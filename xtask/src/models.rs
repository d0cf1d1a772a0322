//! Model tests (loom, shuttle): built with their own `--cfg`, run one process each.
//!
//! A process each, because a model that finds a deadlock aborts, and would take the others with it;
//! and because a model that hangs can then be ended and named.

mod stacks;

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

use crate::command::Cmd;
use crate::cpu;

/// A way to turn crates into models of themselves.
#[derive(Debug)]
pub(crate) struct Kind {
    /// The `--cfg` that does it.
    pub(crate) cfg: &'static str,
    /// The part of their names that tells the models from other tests.
    pub(crate) filter: &'static str,
    /// The crates that have such models.
    pub(crate) packages: &'static [&'static str],
}

/// Every interleaving, and every weak reading of an ordering.
pub(crate) const LOOM: Kind = Kind {
    cfg: "lockspan_loom",
    filter: "loom",
    packages: &["lockspan-park", "lockspan-thread", "lockspan-pthread"],
};

/// Random interleavings of longer stories.
pub(crate) const SHUTTLE: Kind = Kind {
    cfg: "lockspan_shuttle",
    filter: "shuttle",
    packages: &["lockspan-park", "lockspan-thread"],
};

impl Kind {
    /// The folder in the target directory where they are built. Each kind has its own, since other
    /// flags for the compiler rebuild everything.
    pub(crate) fn target_name(&self) -> &'static str {
        self.filter
    }

    /// How a person runs one model alone.
    pub(crate) fn by_hand(&self, name: &str) -> String {
        let packages: Vec<_> =
            self.packages.iter().map(|package| format!("-p {package}")).collect();
        format!(
            "RUSTFLAGS='--cfg {}' cargo test --profile model --lib {} \
             --target-dir target/{} {name} -- --exact --nocapture",
            self.cfg,
            packages.join(" "),
            self.target_name()
        )
    }
}

/// Which models, and where they are built.
#[derive(Debug)]
pub(crate) struct Suite<'a> {
    /// The workspace, or a copy of it.
    pub(crate) dir: &'a Path,
    pub(crate) target: PathBuf,
    pub(crate) kind: &'static Kind,
    /// Those to build, of the kind's.
    pub(crate) packages: &'a [&'a str],
    /// For builds that are repeated after small changes: the next build takes a seventh of the
    /// processor time (6 s instead of 44 s for lockspan-thread), and models take a tenth more.
    pub(crate) incremental: bool,
}

/// One test function in a built test program.
#[derive(Clone, Debug)]
pub(crate) struct Model {
    pub(crate) name: String,
    program: PathBuf,
}

/// How a model ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Passed,
    Failed,
    TimedOut,
}

impl Verdict {
    pub(crate) const ALL: [Self; 3] = [Self::Passed, Self::Failed, Self::TimedOut];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Passed => "passed",
            Self::Failed => "failed",
            Self::TimedOut => "timed out",
        }
    }
}

/// A model that has run.
#[derive(Debug)]
pub(crate) struct Report {
    pub(crate) model: Model,
    pub(crate) verdict: Verdict,
    /// Processor time, where the system tells it; otherwise wall-clock time.
    pub(crate) took: Duration,
    /// What it printed.
    pub(crate) log: PathBuf,
}

impl Report {
    /// One line for a person who watches.
    pub(crate) fn print(&self) {
        let seconds = self.took.as_secs_f64();
        println!("{seconds:>9.2} s  {}  {}", self.verdict.name(), self.model.name);
    }

    /// How what it printed begins, with the reason, and how it ends; between them is the stack.
    pub(crate) fn last_words(&self) -> String {
        let text = fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        if lines.len() <= 60 {
            return lines.join("\n");
        }
        let (head, tail) = (&lines[..40], &lines[lines.len() - 10..]);
        format!("{}\n[...]\n{}", head.join("\n"), tail.join("\n"))
    }
}

impl Suite<'_> {
    /// Builds the test programs and lists their models. None at all is an error: a filter that
    /// matches nothing must not look like success.
    pub(crate) fn build(&self) -> Result<Vec<Model>> {
        let packages = self.packages.iter().flat_map(|package| ["-p", package]);
        let messages = Cmd::new("cargo test --lib --no-run --profile model")
            .args(packages)
            .arg("--message-format=json-render-diagnostics")
            .arg("--target-dir")
            .arg(&self.target)
            .env("CARGO_PROFILE_MODEL_INCREMENTAL", self.incremental.to_string())
            .rustc_cfg(self.kind.cfg)
            .dir(self.dir)
            .read()?;
        let mut models = Vec::new();
        for program in messages.lines().filter_map(test_program) {
            let listing =
                Cmd::program(&program).args(["--list", "--format", "terse"]).read_quietly()?;
            let names = listing.lines().filter_map(|line| line.strip_suffix(": test"));
            let wanted = names.filter(|name| name.contains(self.kind.filter));
            models.extend(
                wanted.map(|name| Model { name: name.to_owned(), program: program.clone().into() }),
            );
        }
        ensure!(!models.is_empty(), "no test has `{}` in its name", self.kind.filter);
        Ok(models)
    }
}

/// A model that is stuck uses no processor time: it is ended after so many times its limit.
const WALL_CLOCK_FACTOR: u32 = 20;

/// Runs `models` in their order, as many at a time as there are processors, each for at most
/// `limit` of processor time; stops at the first that does not pass if `stop_early`. Calls `ended`
/// with each report as its model ends, and returns them all.
pub(crate) fn run(
    models: &[Model],
    limit: Duration,
    stop_early: bool,
    logs: &Path,
    mut ended: impl FnMut(&Report),
) -> Result<Vec<Report>> {
    fs::create_dir_all(logs)?;
    let stacks = stacks::library(logs)?;
    let places = thread::available_parallelism().map_or(1, usize::from);
    let mut waiting = models.iter();
    let mut running: Vec<Running> = Vec::new();
    let mut reports = Vec::new();
    loop {
        while running.len() < places {
            let Some(model) = waiting.next() else { break };
            running.push(Running::start(model, logs, stacks.as_deref())?);
        }
        if running.is_empty() {
            return Ok(reports);
        }
        let mut still_running = Vec::new();
        for mut one in running {
            match one.poll(limit)? {
                Some(verdict) => {
                    let report = one.end(verdict);
                    ended(&report);
                    reports.push(report);
                }
                None => still_running.push(one),
            }
        }
        running = still_running;
        if stop_early && reports.iter().any(|report| report.verdict != Verdict::Passed) {
            running.iter_mut().try_for_each(Running::kill)?;
            return Ok(reports);
        }
        thread::sleep(Duration::from_millis(5));
    }
}

struct Running {
    model: Model,
    child: Child,
    started: Instant,
    /// Processor time at the last look.
    cpu: Option<Duration>,
    log: PathBuf,
}

impl Running {
    fn start(model: &Model, logs: &Path, stacks: Option<&Path>) -> Result<Self> {
        let program = model.program.file_name().unwrap_or_default().to_string_lossy();
        let log = logs.join(format!("{program}.{}.log", model.name.replace("::", ".")));
        let output = File::create(&log).with_context(|| log.display().to_string())?;
        let mut command = Command::new(&model.program);
        command.args([&model.name, "--exact", "--nocapture"]);
        if let Some(library) = stacks {
            command.env("LD_PRELOAD", library);
        }
        command.stdin(Stdio::null()).stderr(output.try_clone()?).stdout(output);
        let child = command.spawn().with_context(|| model.program.display().to_string())?;
        Ok(Self { model: model.clone(), child, started: Instant::now(), cpu: None, log })
    }

    /// The verdict, if there is one yet.
    fn poll(&mut self, limit: Duration) -> Result<Option<Verdict>> {
        // Before the wait that makes the process and its counters disappear.
        self.cpu = cpu::of_process(self.child.id()).or(self.cpu);
        if let Some(status) = self.child.try_wait()? {
            return Ok(Some(if status.success() { Verdict::Passed } else { Verdict::Failed }));
        }
        if self.took() < limit && self.started.elapsed() < limit * WALL_CLOCK_FACTOR {
            return Ok(None);
        }
        self.kill()?;
        Ok(Some(Verdict::TimedOut))
    }

    fn took(&self) -> Duration {
        self.cpu.unwrap_or_else(|| self.started.elapsed())
    }

    fn kill(&mut self) -> Result<()> {
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }

    fn end(self, verdict: Verdict) -> Report {
        let took = self.took();
        Report { model: self.model, verdict, took, log: self.log }
    }
}

/// The test program that this line of Cargo's report names, if it names one.
fn test_program(line: &str) -> Option<String> {
    let message: Value = serde_json::from_str(line).ok()?;
    let is_test = message["reason"] == "compiler-artifact" && message["profile"]["test"] == true;
    is_test.then(|| message["executable"].as_str().map(str::to_owned))?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_test_programs_are_taken_from_cargos_report() {
        let built = r#"{"reason":"compiler-artifact","profile":{"test":true},"executable":"/t/x"}"#;
        let library = r#"{"reason":"compiler-artifact","profile":{"test":false}}"#;
        assert_eq!(test_program(built).as_deref(), Some("/t/x"));
        assert_eq!(test_program(library), None);
        assert_eq!(test_program("no JSON"), None);
    }

    fn running(program: &str, args: &[&str]) -> Running {
        Running {
            model: Model { name: program.to_owned(), program: program.into() },
            child: Command::new(program).args(args).spawn().unwrap(),
            started: Instant::now(),
            cpu: None,
            log: PathBuf::new(),
        }
    }

    #[test]
    fn a_model_that_computes_is_ended_by_processor_time() {
        let mut running = running("sh", &["-c", "while :; do :; done"]);
        let limit = Duration::from_millis(100);
        let verdict = loop {
            match running.poll(limit).unwrap() {
                Some(verdict) => break verdict,
                None => thread::sleep(Duration::from_millis(5)),
            }
        };
        assert_eq!(verdict, Verdict::TimedOut);
        assert!(running.took() >= limit);
    }

    #[test]
    fn a_model_that_is_stuck_is_ended_by_the_clock() {
        let mut running = running("sleep", &["3600"]);
        assert_eq!(running.poll(Duration::from_secs(600)).unwrap(), None);
        running.started -= Duration::from_secs(20);
        assert_eq!(running.poll(Duration::from_secs(1)).unwrap(), Some(Verdict::TimedOut));
    }
}
