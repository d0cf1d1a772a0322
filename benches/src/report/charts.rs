//! The plots of a run: what is drawn; `svg` knows how.

use crate::report::results::Results;
use crate::report::scatter::{Axis, Scatter, Series};
use crate::report::svg::{Chart, Group, Panel, Scale};
use crate::report::tables::PARKING_LOTS;
use crate::{contended, starvation};

/// The locks drawn, for more could not be told apart.
const DRAWN: [&str; 6] =
    ["lockspan", "lockspan-strict", "parking_lot-0.12", "parking_lot-0.13", "std::RwLock", "tokio"];

/// The cells of the plot of both.
const PRICED: [(usize, u32); 4] = [(64, 1), (64, 10), (64, 50), (64, 100)];

/// The file name and text of every plot that the run has data for.
pub(crate) fn charts(results: &Results) -> Vec<(&'static str, String)> {
    let charts = [
        ("throughput.svg", throughput(results)),
        ("waits.svg", waits(results)),
        ("fairness.svg", fairness(results)),
    ];
    let drawn = charts.into_iter().filter(|(_, chart)| !chart.panels.is_empty());
    let drawn = drawn.map(|(name, chart)| (name, chart.render()));
    drawn.chain(price(results).map(|plot| ("price.svg", plot.render()))).collect()
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

/// What a short wait costs: throughput to the right, the longest wait upwards.
fn price(results: &Results) -> Option<Scatter> {
    let of = |(colour, name): (usize, &'static str)| {
        let points = PRICED.into_iter().filter_map(|(threads, writes)| {
            let cell = contended::cell(threads, writes);
            let median = |metric| results.median(contended::FAMILY, &cell, name, metric);
            let what = format!("{threads} threads, {writes} % writes");
            Some((what, median("ops_per_s")?, median("longest_ns")?))
        });
        Series { name, colour, points: points.collect() }
    };
    let series: Vec<_> = DRAWN.into_iter().enumerate().map(of).collect();
    let series: Vec<_> = series.into_iter().filter(|series| !series.points.is_empty()).collect();
    let plot = Scatter {
        title: "Throughput and longest wait",
        note: "64 threads with 1, 10, 50 and 100 % writes; right and low is good",
        x: Axis {
            title: "acquisitions in a second",
            ends: (3e4, 4e7),
            mark: |value| match value {
                1e6.. => format!("{} M", value / 1e6),
                _ => format!("{} k", value / 1e3),
            },
        },
        y: Axis {
            title: "longest wait",
            ends: (1e6, 1e9),
            mark: |value| match value {
                1e9.. => format!("{} s", value / 1e9),
                _ => format!("{} ms", value / 1e6),
            },
        },
        series,
    };
    (!plot.series.is_empty()).then_some(plot)
}

/// The drawn locks; one that the run lacks keeps its place, and so its colour, but has no name.
fn series(results: &Results, family: &str) -> Vec<Option<&'static str>> {
    let present = results.locks(family);
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
