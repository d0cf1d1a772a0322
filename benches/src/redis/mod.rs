//! Locks on Redis compared with other locks on the same Redis: `SET NX PX` with a script that
//! compares and deletes, redis-py's Lock, the crate rslock, and the data model's own scripts with
//! polling.
//!
//! Each cell starts a Redis on a free loopback port, and stops it again. redis-py runs in the
//! Python that `LOCKSPAN_PYTHON` names, or in the one that `cargo xtask test tools` makes.

mod contended;
mod cycle;
mod model;
mod peers;
mod python;
mod readers;
mod stats;
mod writer;

use crate::comparison::{Cell, Comparison, View};
use crate::interpreter;
use crate::plot::Plot;
use crate::plot::scatter::{self, Waits};
use crate::process;
use crate::results::Results;

pub(crate) const NAME: &str = "redis";

/// How the results are shown.
pub(crate) const VIEW: View = View { plots, ..View::TABLES };

pub(crate) fn comparison() -> Comparison {
    let mut cells = vec![Cell::new(cycle::FAMILY, cycle::run)];
    cells.extend(contended::cells());
    cells.push(Cell::new(writer::FAMILY, writer::run));
    cells.push(Cell::new(readers::FAMILY, readers::run));
    Comparison {
        name: NAME,
        title: "Locks on Redis compared with other locks on Redis",
        note: format!("Redis keeps nothing on disk. redis-py {}.", interpreter::version("redis")),
        programs: &[("redis-server", "--version")],
        packages: &["redis", "rslock", "tokio"],
        cells,
        view: VIEW,
    }
}

fn plots(results: &Results) -> Vec<Plot> {
    let waits = |file, title, cell| {
        let waits = Waits {
            file,
            title,
            note: "right and low is good",
            family: contended::FAMILY,
            cells: &[cell],
            rate: "turns in a second",
            wait: ("longest_ns", "longest wait"),
            contestants: &[],
        };
        scatter::waits(results, &waits)
    };
    let at_once = "One lock among 8 clients that want it again at once";
    let with_work = "One lock among 8 clients: 1 ms with it, 2 ms without it";
    let at_once = waits("contended-at-once.svg", at_once, contended::AT_ONCE);
    let with_work = waits("contended-with-work.svg", with_work, contended::WITH_WORK);
    at_once.into_iter().chain(with_work).collect()
}

/// Where a Redis is.
fn url(redis: &process::Process) -> String {
    format!("redis://{}", redis.address)
}
