//! The fair read-write lock compared with other locks, on plain threads of one machine.
//!
//! Each family of cells is a module with a `FAMILY` name and a `run` that leaves one row for each
//! lock and round; the tables, the targets and the plots are made from those rows alone.

mod charts;
mod contended;
mod locks;
mod memory;
#[cfg(target_os = "linux")]
mod pthread;
mod registry;
mod starvation;
mod summary;
mod tables;
mod targets;
mod uncontended;

use std::rc::Rc;

use crate::comparison::{Cell, Comparison, View};
use crate::report::Report;
use registry::Entry;

pub(crate) const NAME: &str = "threads";

/// How the results are shown.
pub(crate) const VIEW: View =
    View { finish, summary: |report| summary::summary(report.results()), plots: charts::plots };

/// The comparison of the locks that `wanted` names; all if it is empty.
pub(crate) fn comparison(wanted: &[String]) -> Result<Comparison, String> {
    Ok(Comparison {
        name: NAME,
        title: "Thread locks",
        note: String::new(),
        programs: &[("rustc", "--version")],
        packages: &["libc", "lock_api", "parking_lot", "parking_lot_core", "tokio"],
        cells: cells(&registry::choose(wanted)?.into()),
        view: VIEW,
    })
}

/// Prints the names of the locks that `wanted` names; all if it is empty.
pub(crate) fn list(wanted: &[String]) -> Result<(), String> {
    registry::choose(wanted)?.iter().for_each(|lock| println!("{}", lock.name));
    Ok(())
}

fn cells(locks: &Rc<[Entry]>) -> Vec<Cell> {
    let mut cells = Vec::new();
    for cell in uncontended::CELLS {
        let locks = Rc::clone(locks);
        cells.push(Cell::new(path(uncontended::FAMILY, cell), move |args, report| {
            uncontended::run(args, cell, &locks, report);
            Ok(())
        }));
    }
    let all = Rc::clone(locks);
    cells.push(Cell::new(path(memory::FAMILY, memory::CELL), move |_, report| {
        memory::run(&all, report);
        Ok(())
    }));
    for (threads, writes) in contended::cells() {
        let (name, locks) = (contended::cell(threads, writes), Rc::clone(locks));
        cells.push(Cell::new(path(contended::FAMILY, &name), move |args, report| {
            contended::run(args, (threads, writes), &locks, report);
            Ok(())
        }));
    }
    for cell in starvation::CELLS {
        let locks = Rc::clone(locks);
        cells.push(Cell::new(path(starvation::FAMILY, cell), move |args, report| {
            starvation::run(args, cell, &locks, report);
            Ok(())
        }));
    }
    cells
}

fn path(family: &str, cell: &str) -> String {
    format!("{family}/{cell}")
}

/// Prints what follows from all cells.
fn finish(report: &mut Report) {
    let results = report.results();
    let mut texts = Vec::new();
    if !results.cells(uncontended::FAMILY).is_empty() {
        texts.push(tables::uncontended(results));
    }
    if !results.cells(memory::FAMILY).is_empty() {
        texts.push(tables::memory(results));
    }
    texts.extend(summary::disturbance(results));
    texts.extend(summary::verdict(results));
    texts.iter().for_each(|text| report.put(text));
}
