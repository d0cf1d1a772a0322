//! Model tests (loom, shuttle): built with their own `--cfg`, run one process each.
//!
//! A process each, because a model that finds a deadlock aborts, and would take the others with it;
//! and because a model that hangs can then be ended and named.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

use crate::command::Cmd;

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

/// A model that has run.
#[derive(Debug)]
pub(crate) struct Report {
    pub(crate) model: Model,
    pub(crate) verdict: Verdict,
    pub(crate) took: Duration,
    /// What it printed.
    pub(crate) log: PathBuf,
}

impl Report {
    /// One line for a person who watches.
    pub(crate) fn print(&self) {
        let seconds = self.took.as_secs_f64();
        println!("{seconds:>9.2} s  {:?}  {}", self.verdict, self.model.name);
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

/// Runs `models` in their order, as many at a time as there are processors, and none beyond
/// `deadline`; stops at the first that does not pass if `stop_early`. Tells `ended` about each one
/// as it ends, and returns them all.
pub(crate) fn run(
    models: &[Model],
    deadline: Instant,
    stop_early: bool,
    logs: &Path,
    ended: impl Fn(&Report),
) -> Result<Vec<Report>> {
    fs::create_dir_all(logs)?;
    let places = thread::available_parallelism().map_or(1, usize::from);
    let mut waiting = models.iter();
    let mut running: Vec<Running> = Vec::new();
    let mut reports = Vec::new();
    loop {
        while running.len() < places {
            let Some(model) = waiting.next() else { break };
            running.push(Running::start(model, logs)?);
        }
        if running.is_empty() {
            return Ok(reports);
        }
        let mut still_running = Vec::new();
        for mut one in running {
            match one.poll(deadline)? {
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
        thread::sleep(Duration::from_millis(2));
    }
}

struct Running {
    model: Model,
    child: Child,
    started: Instant,
    log: PathBuf,
}

impl Running {
    fn start(model: &Model, logs: &Path) -> Result<Self> {
        let program = model.program.file_name().unwrap_or_default().to_string_lossy();
        let log = logs.join(format!("{program}.{}.log", model.name.replace("::", ".")));
        let output = File::create(&log).with_context(|| log.display().to_string())?;
        let mut command = Command::new(&model.program);
        command.args([&model.name, "--exact", "--nocapture"]);
        command.stdin(Stdio::null()).stderr(output.try_clone()?).stdout(output);
        let child = command.spawn().with_context(|| model.program.display().to_string())?;
        Ok(Self { model: model.clone(), child, started: Instant::now(), log })
    }

    /// The verdict, if there is one yet.
    fn poll(&mut self, deadline: Instant) -> Result<Option<Verdict>> {
        if let Some(status) = self.child.try_wait()? {
            return Ok(Some(if status.success() { Verdict::Passed } else { Verdict::Failed }));
        }
        if Instant::now() < deadline {
            return Ok(None);
        }
        self.kill()?;
        Ok(Some(Verdict::TimedOut))
    }

    fn kill(&mut self) -> Result<()> {
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }

    fn end(self, verdict: Verdict) -> Report {
        Report { model: self.model, verdict, took: self.started.elapsed(), log: self.log }
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

    #[test]
    fn a_program_that_does_not_end_is_ended_at_the_deadline() {
        let mut running = Running {
            model: Model { name: "sleep".to_owned(), program: "sleep".into() },
            child: Command::new("sleep").arg("3600").spawn().unwrap(),
            started: Instant::now(),
            log: PathBuf::new(),
        };
        let later = Instant::now() + Duration::from_secs(600);
        assert_eq!(running.poll(later).unwrap(), None);
        assert_eq!(running.poll(Instant::now()).unwrap(), Some(Verdict::TimedOut));
    }
}
