//! The plots of the thread locks.

use super::tables::PARKING_LOTS;
use super::{contended, starvation};
use crate::plot::Plot;
use crate::plot::groups::{Chart, Group, Panel, Scale};
use crate::plot::scatter::{self, Waits};
use crate::results::Results;

/// The locks drawn: with more of them, colours are hard to distinguish.
const DRAWN: [&str; 6] =
    ["lockspan", "lockspan-strict", "parking_lot-0.12", "parking_lot-0.13", "std::RwLock", "tokio"];

/// The cells in which throughput is drawn against the longest wait.
const PRICED: [&str; 4] = ["64t/1%", "64t/10%", "64t/50%", "64t/100%"];

/// Every plot that the run has data for.
pub(crate) fn plots(results: &Results) -> Vec<Plot> {
    let charts = [
        ("throughput.svg", throughput(results)),
        ("waits.svg", waits(results)),
        ("fairness.svg", fairness(results)),
    ];
    let drawn = charts.into_iter().filter(|(_, chart)| !chart.panels.is_empty());
    let plot = |(file, chart): (&str, Chart)| Plot {
        title: chart.title.to_owned(),
        file: file.to_owned(),
        svg: chart.render(),
    };
    price(results).into_iter().chain(drawn.map(plot)).collect()
}

fn throughput(results: &Results) -> Chart {
    let base = [PARKING_LOTS[0]];
    let panels = contended_panels(results, &|cell, lock| {
        results.ratio(contended::FAMILY, cell, lock, &base, "ops_per_s")
    });
    Chart {
        title: "Throughput relative to parking_lot 0.12",
        note: "higher is better; a bar with a number is cut",
        series: series(results, contended::FAMILY),
        scale: Scale::Linear { max: 2.0, step: 0.5 },
        line: Some(1.0),
        panels,
    }
}

fn waits(results: &Results) -> Chart {
    let mut panels = contended_panels(results, &|cell, lock| {
        results.median(contended::FAMILY, cell, lock, "longest_ns")
    });
    let groups: Vec<Group> = results
        .cells(starvation::FAMILY)
        .into_iter()
        .map(|cell| Group {
            label: cell.replace('-', " "),
            values: DRAWN
                .iter()
                .map(|lock| results.median(starvation::FAMILY, cell, lock, "longest_ns"))
                .collect(),
        })
        .collect();
    if !groups.is_empty() {
        panels.push(Panel { title: "starvation".to_owned(), groups });
    }
    let family = if results.cells(contended::FAMILY).is_empty() {
        starvation::FAMILY
    } else {
        contended::FAMILY
    };
    Chart {
        title: "Longest wait",
        note: "logarithmic; lower is better",
        series: series(results, family),
        scale: Scale::Log { min: 1e3, max: 1e9 },
        line: None,
        panels,
    }
}

fn fairness(results: &Results) -> Chart {
    let panels = contended_panels(results, &|cell, lock| {
        results.median(contended::FAMILY, cell, lock, "jain")
    });
    Chart {
        title: "Jain's fairness index over the threads",
        note: "1 is perfectly even",
        series: series(results, contended::FAMILY),
        scale: Scale::Linear { max: 1.0, step: 0.25 },
        line: None,
        panels,
    }
}

/// Throughput to the right, the longest wait upwards: what a short wait costs.
fn price(results: &Results) -> Option<Plot> {
    scatter::waits(
        results,
        &Waits {
            file: "price.svg",
            title: "Throughput and longest wait",
            note: "64 threads with 1, 10, 50 and 100 % writes; right and low is good",
            family: contended::FAMILY,
            cells: &PRICED,
            rate: "acquisitions in a second",
            wait: ("longest_ns", "longest wait"),
            contestants: &DRAWN,
        },
    )
}

/// The drawn locks; one that the run lacks keeps its place, and so its colour, but has no name.
fn series(results: &Results, family: &str) -> Vec<Option<&'static str>> {
    let present = results.contestants(family);
    DRAWN.into_iter().map(|lock| present.contains(&lock).then_some(lock)).collect()
}

/// A panel for each number of threads, a group for each share of writes.
fn contended_panels(results: &Results, value: &dyn Fn(&str, &str) -> Option<f64>) -> Vec<Panel> {
    let measured = results.cells(contended::FAMILY);
    let panel = |threads: usize| {
        let groups = contended::WRITES.into_iter().filter_map(|writes| {
            let cell = contended::cell(threads, writes);
            let values = DRAWN.iter().map(|lock| value(&cell, lock)).collect();
            let label = format!("{writes} % writes");
            measured.contains(&cell.as_str()).then_some(Group { label, values })
        });
        Panel { title: format!("{threads} threads"), groups: groups.collect() }
    };
    contended::THREADS.into_iter().map(panel).filter(|panel| !panel.groups.is_empty()).collect()
}
