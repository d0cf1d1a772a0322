//! Everything that is said about a run, computed from its rows.

mod charts;
mod folder;
pub(crate) mod results;
mod summary;
mod svg;
pub(crate) mod tables;
mod targets;

use crate::args::Args;
use crate::{memory, uncontended};
use results::Results;

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
