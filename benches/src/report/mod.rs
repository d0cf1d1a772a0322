//! Everything that is said about a run, computed from its rows.

mod charts;
mod folder;
pub(crate) mod results;
mod scatter;
mod summary;
mod svg;
pub(crate) mod tables;
mod targets;

use std::fs;
use std::path::Path;

use crate::args::Args;
use crate::{memory, uncontended};
use results::Results;

/// Draws the plots of a result folder anew, from its rows.
pub(crate) fn redraw(folder: &Path) -> Result<(), String> {
    let file = folder.join("raw.csv");
    let csv = fs::read_to_string(&file).map_err(|error| format!("{}: {error}", file.display()))?;
    folder::draw(folder, &Results::from_csv(&csv)?)
}

/// Prints what the comparisons have not printed yet, and writes the result folder if asked.
pub(crate) fn finish(args: &Args, results: &Results, load_before: &str) -> Result<(), String> {
    if !results.cells(uncontended::FAMILY).is_empty() {
        println!("{}", tables::uncontended(results));
    }
    if !results.cells(memory::FAMILY).is_empty() {
        println!("{}", tables::memory(results));
    }
    if let Some(disturbance) = summary::disturbance(results) {
        println!("{disturbance}");
    }
    if let Some(verdict) = summary::verdict(results) {
        println!("{verdict}");
    }
    match folder::path(args) {
        Some(path) => folder::write(&path, results, load_before),
        None => Ok(()),
    }
}
