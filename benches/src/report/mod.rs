//! The tables of a comparison: what was measured, compared with what, and whether the target was
//! met.
//!
//! A report prints each line as it comes, and keeps the text for `summary.md` and the rows for
//! `raw.csv`.

pub(crate) mod format;
pub(crate) mod table;

use crate::machine;
use crate::results::{Name, Results, Row as RawRow};
use crate::stats::Spread;

/// What a result is to be.
#[derive(Clone, Copy)]
pub(crate) enum Target {
    AtMost(f64),
    AtLeast(f64),
    /// There is no target; the result is for information.
    Open,
}

/// One line of a table.
pub(crate) struct Row {
    pub(crate) what: String,
    /// What Lockspan took.
    pub(crate) ours: String,
    /// What the peer took, and which peer it is.
    pub(crate) compared_with: String,
    /// None if it could not be measured; then `compared_with` says why.
    pub(crate) result: Option<Spread>,
    /// What follows the result's number.
    pub(crate) unit: &'static str,
    pub(crate) target: Target,
}

/// The unit of a ratio.
pub(crate) const TIMES: &str = " x";
/// The last column of a row whose target was met.
pub(crate) const MET: &str = "met";
/// The last column of a row whose target was missed.
pub(crate) const MISSED: &str = "**missed**";

/// All tables.
#[derive(Default)]
pub(crate) struct Report {
    text: String,
    results: Results,
    /// The table that is being written.
    title: String,
    missed: Vec<String>,
    unmeasured: usize,
}

impl Report {
    /// Writes the head: the machine, the versions of the peers and a note.
    pub(crate) fn begin(title: &str, note: &str, peers: &[(&str, &str)], smoke: bool) -> Self {
        let mut report = Self::default();
        report.put(&format!("# {title}\n"));
        if smoke {
            report.put("A smoke run: its numbers mean nothing.\n");
        }
        let kernel = machine::first_line("/proc/sys/kernel/osrelease");
        let cores = std::thread::available_parallelism().map_or(0, usize::from);
        let peers: Vec<_> =
            peers.iter().map(|(program, flag)| machine::version(program, flag)).collect();
        let mut head = format!("Linux {kernel}, {cores} processors.");
        if !peers.is_empty() {
            head += &format!(" Peers: {}.", peers.join("; "));
        }
        report.put(&format!(
            "{head}\nMedians of interleaved rounds; a ratio is taken inside each round, and its \
             lowest and highest value follow in parentheses.\n{note}"
        ));
        report
    }

    /// Writes a line, and prints it.
    pub(crate) fn put(&mut self, line: &str) {
        println!("{line}");
        self.text.push_str(line);
        self.text.push('\n');
    }

    /// Keeps a row for `raw.csv`.
    pub(crate) fn raw(&mut self, row: RawRow) {
        self.results.push(row);
    }

    /// Keeps a row of what was measured once.
    pub(crate) fn once(
        &mut self,
        family: &'static str,
        contestant: impl Into<Name>,
        metrics: &[(&'static str, f64)],
    ) {
        self.raw(RawRow {
            family: family.into(),
            cell: "".into(),
            contestant: contestant.into(),
            round: 1,
            metrics: metrics.iter().map(|(name, value)| ((*name).into(), *value)).collect(),
        });
    }

    /// The rows kept so far.
    pub(crate) fn results(&self) -> &Results {
        &self.results
    }

    /// Everything written so far.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// Begins a table of rows.
    pub(crate) fn cell(&mut self, title: &str) {
        self.title = title.to_owned();
        self.put(&format!(
            "\n## {title}\n\n\
             | what | Lockspan | compared with | result | target | |\n\
             |---|---|---|---|---|---|"
        ));
    }

    /// Begins a table with columns of its own.
    pub(crate) fn table(&mut self, title: &str, columns: &[&str]) {
        self.put(&format!("\n## {title}\n\n| {} |", columns.join(" | ")));
        self.put(&format!("|---|{}", "---:|".repeat(columns.len() - 1)));
    }

    /// Writes a line of it.
    pub(crate) fn line(&mut self, cells: &[String]) {
        self.put(&format!("| {} |", cells.join(" | ")));
    }

    pub(crate) fn row(&mut self, row: Row) {
        let Row { what, ours, compared_with, result, unit, target } = row;
        let outcome = outcome(result, target);
        self.unmeasured += usize::from(result.is_none());
        let places = places(result, unit);
        let shown = shown(result, unit, places);
        if outcome == MISSED {
            self.missed.push(format!("- {}: {what}: {shown}", self.title));
        }
        let target = match target {
            Target::AtMost(most) => format!("at most {most:.places$}{unit}"),
            Target::AtLeast(least) => format!("at least {least:.places$}{unit}"),
            Target::Open => String::new(),
        };
        self.put(&format!(
            "| {what} | {ours} | {compared_with} | {shown} | {target} | {outcome} |"
        ));
    }

    /// A row without a number: the peer is not installed, or there is another reason.
    pub(crate) fn absent(&mut self, what: &str, why: &str, target: Target) {
        let (what, compared_with) = (what.to_owned(), why.to_owned());
        let ours = String::new();
        self.row(Row { what, ours, compared_with, result: None, unit: TIMES, target });
    }

    /// Repeats the rows that missed their target.
    pub(crate) fn finish(&mut self) {
        let (missed, unmeasured) = (std::mem::take(&mut self.missed), self.unmeasured);
        let count = missed.len();
        self.put(&format!("\nTargets missed: {count}; not measured: {unmeasured}."));
        missed.iter().for_each(|row| self.put(row));
    }
}

fn outcome(result: Option<Spread>, target: Target) -> &'static str {
    match (result, target) {
        (None, _) => "not measured",
        (_, Target::Open) => "",
        (Some(it), Target::AtMost(most)) if it.median <= most => MET,
        (Some(it), Target::AtLeast(least)) if it.median >= least => MET,
        _ => MISSED,
    }
}

/// Digits after the point: none for counts.
fn places(result: Option<Spread>, unit: &str) -> usize {
    let is_whole = result.is_none_or(|it| {
        unit != TIMES && [it.median, it.low, it.high].iter().all(|value| value.fract() == 0.0)
    });
    if is_whole { 0 } else { 2 }
}

fn shown(result: Option<Spread>, unit: &str, places: usize) -> String {
    match result {
        None => "–".to_owned(),
        Some(Spread { median, low, high }) if low == high => format!("{median:.places$}{unit}"),
        Some(Spread { median, low, high }) => {
            format!("{median:.places$}{unit} ({low:.places$}–{high:.places$})")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(result: Option<Spread>, target: Target) -> String {
        let mut report = Report::default();
        let (what, ours, compared_with) = ("w".to_owned(), "1 ns".to_owned(), "2 ns".to_owned());
        report.row(Row { what, ours, compared_with, result, unit: TIMES, target });
        report.text
    }

    #[test]
    fn a_row_says_whether_its_target_was_met() {
        let spread = Spread { median: 1.5, low: 1.0, high: 2.0 };
        let met = "| w | 1 ns | 2 ns | 1.50 x (1.00–2.00) | at most 1.50 x | met |\n";
        assert_eq!(row(Some(spread), Target::AtMost(1.5)), met);
        assert!(row(Some(spread), Target::AtLeast(1.6)).ends_with("| **missed** |\n"));
        assert!(row(Some(spread), Target::Open).ends_with("|  |  |\n"));
        assert!(row(None, Target::AtLeast(1.6)).ends_with("| not measured |\n"));
    }

    #[test]
    fn a_number_that_is_not_known_misses_its_target() {
        assert!(row(Some(Spread::of([])), Target::AtMost(1.0)).contains(MISSED));
    }

    #[test]
    fn missed_rows_are_repeated_at_the_end() {
        let mut report = Report::default();
        report.cell("A title");
        let (what, ours, compared_with) = ("w".to_owned(), String::new(), String::new());
        let (result, target) = (Some(Spread::one(3.0)), Target::AtMost(1.0));
        report.row(Row { what, ours, compared_with, result, unit: " ms", target });
        report.absent("x", "not installed", Target::Open);
        report.finish();
        let end = "Targets missed: 1; not measured: 1.\n- A title: w: 3 ms\n";
        assert!(report.text.ends_with(end), "{}", report.text);
    }
}
