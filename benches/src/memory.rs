//! How many bytes a lock adds to the data it guards.

use crate::args::Args;
use crate::locks::Data;
use crate::registry::Entry;
use crate::report::results::{Results, Row};

/// The name of these comparisons.
pub(crate) const FAMILY: &str = "memory";
/// Its only cell.
pub(crate) const CELL: &str = "size";

/// Measures all chosen locks.
pub(crate) fn run(args: &Args, locks: &[Entry], results: &mut Results) {
    if !args.wants(FAMILY, CELL) {
        return;
    }
    for lock in locks {
        let bytes = (lock.size - size_of::<Data>()) as f64;
        results.push(Row {
            family: FAMILY,
            cell: CELL.to_owned(),
            lock: lock.name,
            round: 1,
            metrics: vec![("bytes", bytes)],
        });
    }
}
