//! The tables: what was measured, beside what, and whether the target was met.

use std::fmt::Write as _;
use std::path::Path;

use crate::contest::Spread;

/// What a result is to be.
#[derive(Clone, Copy)]
pub(crate) enum Target {
    AtMost(f64),
    AtLeast(f64),
    /// It is only told.
    Open,
}

/// One line of a table.
pub(crate) struct Row {
    pub(crate) what: String,
    /// What Lockspan took.
    pub(crate) ours: String,
    /// What the peer took, and who it is.
    pub(crate) beside: String,
    /// None if it could not be measured; then `beside` says why.
    pub(crate) result: Option<Spread>,
    /// What follows the result's number.
    pub(crate) unit: &'static str,
    pub(crate) target: Target,
}

/// All tables.
pub(crate) struct Report {
    text: String,
    /// The table that is being written.
    title: String,
    missed: Vec<String>,
    unmeasured: usize,
}

/// Between a number of one and its unit: a ratio.
pub(crate) const TIMES: &str = " x";

const MISSED: &str = "**missed**";

impl Report {
    /// Peers are told by what these programs say about their versions.
    pub(crate) fn begin(title: &str, note: &str, peers: &[(&str, &str)], smoke: bool) -> Self {
        let mut report =
            Self { text: String::new(), title: String::new(), missed: Vec::new(), unmeasured: 0 };
        report.put(&format!("# {title}\n"));
        if smoke {
            report.put("A smoke run: its numbers mean nothing.\n");
        }
        let kernel = first_line("/proc/sys/kernel/osrelease");
        let cores = std::thread::available_parallelism().map_or(0, usize::from);
        let peers: Vec<_> = peers.iter().map(|(program, flag)| version(program, flag)).collect();
        let (peers, load) = (peers.join("; "), first_line("/proc/loadavg"));
        report.put(&format!(
            "Linux {kernel}, {cores} processors, load before: {load}. Peers: {peers}.\n\
             Medians of interleaved rounds; a ratio is taken inside each round, its lowest and \
             highest stand behind it. {note}\n"
        ));
        report
    }

    /// Prints it too, so that a long run shows where it is.
    pub(crate) fn put(&mut self, line: &str) {
        println!("{line}");
        self.text.push_str(line);
        self.text.push('\n');
    }

    /// A table begins.
    pub(crate) fn cell(&mut self, title: &str) {
        self.title = title.to_owned();
        self.put(&format!(
            "\n## {title}\n\n\
             | what | Lockspan | beside | result | target | |\n\
             |---|---|---|---|---|---|"
        ));
    }

    pub(crate) fn row(&mut self, row: Row) {
        let Row { what, ours, beside, result, unit, target } = row;
        let outcome = match (result, target) {
            (None, _) => {
                self.unmeasured += 1;
                "not measured"
            }
            (_, Target::Open) => "",
            (Some(it), Target::AtMost(most)) if it.median <= most => "met",
            (Some(it), Target::AtLeast(least)) if it.median >= least => "met",
            _ => MISSED,
        };
        let is_whole = result.is_none_or(|it| {
            unit != TIMES && [it.median, it.low, it.high].iter().all(|value| value.fract() == 0.0)
        });
        let places = if is_whole { 0 } else { 2 };
        let number = |value: f64| format!("{value:.places$}");
        let shown = match result {
            None => "–".to_owned(),
            Some(Spread { median, low, high }) if low == high => {
                format!("{}{unit}", number(median))
            }
            Some(Spread { median, low, high }) => {
                format!("{}{unit} ({}–{})", number(median), number(low), number(high))
            }
        };
        if outcome == MISSED {
            self.missed.push(format!("- {}: {what}: {shown}", self.title));
        }
        let target = match target {
            Target::AtMost(most) => format!("at most {}{unit}", number(most)),
            Target::AtLeast(least) => format!("at least {}{unit}", number(least)),
            Target::Open => String::new(),
        };
        self.put(&format!("| {what} | {ours} | {beside} | {shown} | {target} | {outcome} |"));
    }

    /// A peer that is not there, or another reason why there is no number.
    pub(crate) fn absent(&mut self, what: &str, why: &str, target: Target) {
        let (what, beside) = (what.to_owned(), why.to_owned());
        let ours = String::new();
        self.row(Row { what, ours, beside, result: None, unit: TIMES, target });
    }

    pub(crate) fn finish(mut self, out: Option<&Path>) -> Result<(), String> {
        let (missed, unmeasured) = (std::mem::take(&mut self.missed), self.unmeasured);
        let count = missed.len();
        let load = first_line("/proc/loadavg");
        self.put(&format!(
            "\nTargets missed: {count}; not measured: {unmeasured}. Load after: {load}."
        ));
        missed.iter().for_each(|row| self.put(row));
        let Some(path) = out else { return Ok(()) };
        std::fs::write(path, self.text).map_err(|why| format!("{}: {why}", path.display()))
    }
}

/// A time in nanoseconds, for people.
pub(crate) fn time(nanos: f64) -> String {
    match nanos {
        nanos if nanos < 1e3 => format!("{nanos:.1} ns"),
        nanos if nanos < 1e6 => format!("{:.1} µs", nanos / 1e3),
        nanos => format!("{:.2} ms", nanos / 1e6),
    }
}

/// So many a second, for people.
pub(crate) fn rate(per_second: f64) -> String {
    let whole = format!("{per_second:.0}");
    let mut text = String::new();
    for (at, digit) in whole.chars().enumerate() {
        if at > 0 && (whole.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    let _ = write!(text, "/s");
    text
}

fn first_line(path: &str) -> String {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    text.lines().next().unwrap_or("unknown").to_owned()
}

/// The first line that a program prints about its version.
fn version(program: &str, flag: &str) -> String {
    let output = std::process::Command::new(program).arg(flag).output();
    let Ok(output) = output else { return format!("{program} is not installed") };
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.lines().next().unwrap_or(program).to_owned()
}
