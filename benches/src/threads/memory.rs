//! How many bytes a lock adds to the data it guards.

use super::locks::Data;
use super::registry::Entry;
use crate::report::Report;
use crate::results::Row;

/// The name of these cells.
pub(crate) const FAMILY: &str = "memory";
/// The only cell.
pub(crate) const CELL: &str = "size";

/// Measures all chosen locks.
pub(crate) fn run(locks: &[Entry], report: &mut Report) {
    for lock in locks {
        let bytes = (lock.size - size_of::<Data>()) as f64;
        report.raw(Row {
            family: FAMILY.into(),
            cell: CELL.into(),
            contestant: lock.name.into(),
            round: 1,
            metrics: vec![("bytes".into(), bytes)],
        });
    }
}
