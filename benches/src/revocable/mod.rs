//! Revocable locks and per-CPU data compared with plain stores, atomic read-modify-writes and
//! mutexes: the table of the article that proposed revocable locks, on the machine at hand.
//!
//! `LOCKSPAN_REVOCABLE_BACKEND` chooses another backend.

mod cost;
mod crowd;
mod inside;
mod latency;
mod methods;
mod system;
mod text;
mod threads;

use crate::clock;
use crate::comparison::{Cell, Comparison, View};
use crate::machine;

pub(crate) const NAME: &str = "revocable";

const PACKAGES: &[&str] = &["parking_lot", "crossbeam-queue"];

pub(crate) fn comparison() -> Comparison {
    let rate = clock::ticks_per_ns();
    let packages = machine::versions(PACKAGES).join(", ");
    let backend = lockspan::thread::revocable::backend();
    Comparison {
        name: NAME,
        title: "Revocable locks and per-CPU data",
        note: format!(
            "Cycles are counts of the time stamp counter, {rate:.3} a nanosecond. {packages}.\n\
             Backend: {backend}."
        ),
        programs: &[("rustc", "--version")],
        packages: PACKAGES,
        cells: vec![
            Cell::new(cost::FAMILY, cost::run),
            Cell::new(threads::FAMILY, threads::run),
            Cell::new(inside::FAMILY, inside::run),
            Cell::new(latency::FAMILY, latency::run),
        ],
        view: View::TABLES,
    }
}
