//! Progressive locks compared with parking_lot's and std's read-write locks, our fair one, a lock
//! that only spins, and queues.

mod crowd;
mod entry;
mod index;
mod queue;
mod spinning;
mod uncontended;

use crate::comparison::{Cell, Comparison, View};
use crate::machine;
use crate::plot::Plot;
use crate::plot::scatter::{self, Waits};
use crate::results::Results;

pub(crate) const NAME: &str = "progressive";

const PACKAGES: &[&str] = &["parking_lot", "crossbeam-queue"];

/// How the results are shown.
pub(crate) const VIEW: View = View { plots, ..View::TABLES };

pub(crate) fn comparison() -> Comparison {
    let mut cells = vec![Cell::new(uncontended::FAMILY, uncontended::run)];
    cells.extend(index::cells());
    cells.extend(queue::cells());
    Comparison {
        name: NAME,
        title: "Progressive locks compared with other locks",
        note: format!(
            "{}.\nAfter a throughput: the longest wait, Jain's index of fairness and, for queues, \
             failed attempts for an item.",
            machine::versions(PACKAGES).join(", ")
        ),
        programs: &[("rustc", "--version")],
        packages: PACKAGES,
        cells,
        view: VIEW,
    }
}

fn plots(results: &Results) -> Vec<Plot> {
    let index = Waits {
        file: "index-waits.svg",
        title: "Index, 64 threads: throughput and longest wait",
        note: "0, 1, 5 and 20 % updates; right and low is good",
        family: index::FAMILY,
        cells: &["64t/0%", "64t/1%", "64t/5%", "64t/20%"],
        rate: "lookups in a second",
        wait: ("longest_ns", "longest wait"),
        contestants: &index::DRAWN,
    };
    let queue = Waits {
        file: "queue-waits.svg",
        title: "Queue: throughput and longest wait to pop",
        note: "2, 8 and 64 threads; right and low is good",
        family: queue::FAMILY,
        cells: &["2t", "8t", "64t"],
        rate: "items in a second",
        wait: ("longest_ns", "longest wait"),
        contestants: &[],
    };
    [index, queue].iter().filter_map(|waits| scatter::waits(results, waits)).collect()
}
