//! A comparison: cells that are measured one after the other, with a line of progress for each.

use std::time::Instant;

use crate::args::Args;
use crate::clock;
use crate::plot::Plot;
use crate::recorder::Recorder;
use crate::report::Report;
use crate::results::Results;

/// Measures one cell.
type Measure = Box<dyn FnOnce(&Args, &mut Report) -> Result<(), String>>;

/// One part of a comparison that can be measured alone.
pub(crate) struct Cell {
    /// Its name on the command line: parts with `/` between them.
    path: String,
    measure: Measure,
}

impl Cell {
    pub(crate) fn new(
        path: impl Into<String>,
        measure: impl FnOnce(&Args, &mut Report) -> Result<(), String> + 'static,
    ) -> Self {
        Self { path: path.into(), measure: Box::new(measure) }
    }
}

/// What is measured, and how it is shown.
pub(crate) struct Comparison {
    /// Its sub-command, and its folder below `benches/results`.
    pub(crate) name: &'static str,
    pub(crate) title: &'static str,
    /// What a reader of the tables has to know.
    pub(crate) note: String,
    /// Programs that are compared with, and the flag that makes each print its version.
    pub(crate) programs: &'static [(&'static str, &'static str)],
    /// Packages that are compared with.
    pub(crate) packages: &'static [&'static str],
    pub(crate) cells: Vec<Cell>,
    pub(crate) view: View,
}

/// How the results of a comparison are shown.
#[derive(Clone, Copy)]
pub(crate) struct View {
    /// Prints what follows from all cells.
    pub(crate) finish: fn(&mut Report),
    /// The text of `summary.md`.
    pub(crate) summary: fn(&Report) -> String,
    /// The plots of the raw rows; ratios are drawn from the summary's tables.
    pub(crate) plots: fn(&Results) -> Vec<Plot>,
}

impl View {
    /// The tables as they were printed, and no plots but those of the ratios.
    pub(crate) const TABLES: Self = Self {
        finish: Report::finish,
        summary: |report| report.text().to_owned(),
        plots: |_| Vec::new(),
    };
}

/// Measures the cells that `args` ask for, and writes the results if they ask for that.
pub(crate) fn run(comparison: Comparison, args: &Args) -> Result<(), String> {
    let Comparison { name, title, note, programs, packages, cells, view } = comparison;
    let cells = chosen(cells, &args.cells)?;
    let recorder = Recorder::begin(name, args)?;
    // Measures the clock before anything is timed by it.
    clock::ticks_per_ns();
    let mut report = Report::begin(title, &note, programs, args.smoke);
    let (begun, count) = (Instant::now(), cells.len());
    for (number, Cell { path, measure }) in (1..).zip(cells) {
        eprintln!("[{number}/{count}] {name} {path} ({} s so far)", begun.elapsed().as_secs());
        measure(args, &mut report).map_err(|why| format!("{name} {path}: {why}"))?;
    }
    eprintln!("{name}: {count} cells in {} s", begun.elapsed().as_secs());
    (view.finish)(&mut report);
    recorder.finish(&report, packages, view)
}

/// The cells that one of `wanted` names: all if it is empty.
fn chosen(cells: Vec<Cell>, wanted: &[String]) -> Result<Vec<Cell>, String> {
    let matches =
        |cell: &Cell, part: &String| format!("/{}", cell.path).contains(&format!("/{part}"));
    if let Some(part) = wanted.iter().find(|part| !cells.iter().any(|cell| matches(cell, part))) {
        let paths: Vec<_> = cells.iter().map(|cell| cell.path.as_str()).collect();
        return Err(format!("there is no cell '{part}'; there are {}", paths.join(", ")));
    }
    let is_wanted =
        |cell: &Cell| wanted.is_empty() || wanted.iter().any(|part| matches(cell, part));
    Ok(cells.into_iter().filter(is_wanted).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths(wanted: &str) -> Result<Vec<String>, String> {
        let cells =
            ["uncontended/read", "contended/8t/1%", "contended/64t/10%", "contended/64t/1%"];
        let cells = cells.map(|path| Cell::new(path, |_, _| Ok(()))).into();
        let wanted: Vec<_> = wanted.split_terminator(',').map(str::to_owned).collect();
        Ok(chosen(cells, &wanted)?.into_iter().map(|cell| cell.path).collect())
    }

    #[test]
    fn a_cell_is_named_from_the_start_of_a_part_of_its_path() {
        assert_eq!(paths("").unwrap().len(), 4);
        assert_eq!(paths("contended").unwrap().len(), 3);
        assert_eq!(paths("8t").unwrap(), ["contended/8t/1%"]);
        assert_eq!(paths("64t/1%").unwrap(), ["contended/64t/1%"]);
        assert_eq!(paths("unc,64t/10").unwrap(), ["uncontended/read", "contended/64t/10%"]);
    }

    #[test]
    fn a_name_that_no_cell_has_is_refused() {
        assert!(paths("contended,nothing").unwrap_err().contains("no cell 'nothing'"));
    }
}
