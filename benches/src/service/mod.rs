//! The lock service compared with parking_lot, a raw TCP connection, Redis, etcd and flock.
//!
//! Each peer is started as a process of its own on a free loopback port, and stopped again.

mod cached;
mod command;
mod connections;
mod counting;
mod etcd;
mod handover;
mod load;
mod many;
mod restart;
mod several;
mod shared;
mod uncached;

use crate::comparison::{Cell, Comparison, View};
use crate::plot::Plot;
use crate::plot::scatter::{self, Waits};
use crate::process;
use crate::results::Results;

pub(crate) const NAME: &str = "service";

/// How the results are shown.
pub(crate) const VIEW: View = View { plots, ..View::TABLES };

pub(crate) fn comparison() -> Comparison {
    process::raise_open_files();
    Comparison {
        name: NAME,
        title: "The lock service compared with its peers",
        note: "Redis keeps nothing on disk here; etcd writes to it.".to_owned(),
        programs: &[("redis-server", "--version"), ("etcd", "--version")],
        packages: &["parking_lot", "redis", "tokio"],
        cells: vec![
            Cell::new(cached::FAMILY, cached::run),
            Cell::new(uncached::FAMILY, uncached::run),
            Cell::new(several::FAMILY, several::run),
            Cell::new(format!("{}/contended", several::FAMILY), several::contended),
            Cell::new(load::FAMILY, load::run),
            Cell::new(handover::FAMILY, handover::run),
            Cell::new(shared::FAMILY, shared::run),
            Cell::new(many::FAMILY, many::run),
            Cell::new(connections::FAMILY, connections::run),
            Cell::new(restart::FAMILY, restart::run),
            Cell::new(command::FAMILY, command::run),
            // The last: it installs a recorder of metrics for the whole process.
            Cell::new(counting::FAMILY, counting::run),
        ],
        view: VIEW,
    }
}

fn plots(results: &Results) -> Vec<Plot> {
    let waits = Waits {
        file: "handover-waits.svg",
        title: "Hand-over of one record among 8 clients: throughput and p99 of the wait",
        note: "right and low is good",
        family: handover::FAMILY,
        cells: &[],
        rate: "turns in a second",
        wait: ("p99_ns", "p99 of the wait for a turn"),
        contestants: &[],
    };
    scatter::waits(results, &waits).into_iter().collect()
}
