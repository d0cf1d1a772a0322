//! One measurement to the right, another one upwards: a point for each contestant and cell.
//!
//! Both axes are logarithmic, since locks differ by factors of hundreds.

use crate::plot::Plot;
use crate::plot::svg::{Svg, WIDTH, colour};
use crate::results::Results;

const HEIGHT: f64 = 460.0;
const LEFT: f64 = 72.0;
const RIGHT: f64 = 280.0;
const TOP: f64 = 76.0;
const BOTTOM: f64 = 52.0;

/// One axis.
pub(crate) struct Axis {
    pub(crate) title: &'static str,
    /// Where it begins and ends.
    pub(crate) ends: (f64, f64),
    /// How a mark is written.
    pub(crate) mark: fn(f64) -> String,
}

/// One series of points, joined by a line in their order.
pub(crate) struct Series {
    pub(crate) name: String,
    /// Its place among the colours.
    pub(crate) colour: usize,
    /// What a point is, and where.
    pub(crate) points: Vec<(String, f64, f64)>,
}

/// The whole plot.
pub(crate) struct Scatter {
    pub(crate) title: String,
    pub(crate) note: String,
    pub(crate) x: Axis,
    pub(crate) y: Axis,
    pub(crate) series: Vec<Series>,
}

/// What [`waits`] draws.
pub(crate) struct Waits<'a> {
    pub(crate) file: &'a str,
    pub(crate) title: &'a str,
    pub(crate) note: &'a str,
    pub(crate) family: &'a str,
    /// The cells to draw; all if it is empty.
    pub(crate) cells: &'a [&'a str],
    /// The title of the horizontal axis.
    pub(crate) rate: &'static str,
    /// The metric of the vertical axis and its title.
    pub(crate) wait: (&'a str, &'static str),
    /// The contestants to draw, in the order of their colours; all if it is empty.
    pub(crate) contestants: &'a [&'a str],
}

/// Throughput (`ops_per_s`) against a wait; none if the run has nothing of it.
pub(crate) fn waits(results: &Results, what: &Waits<'_>) -> Option<Plot> {
    let measured = results.contestants(what.family);
    let names = if what.contestants.is_empty() { &measured[..] } else { what.contestants };
    let all = results.cells(what.family);
    let cells = if what.cells.is_empty() { &all[..] } else { what.cells };
    let of = |(colour, name): (usize, &&str)| {
        let points = cells.iter().filter_map(|cell| {
            let median = |metric| results.median(what.family, cell, name, metric);
            Some(((*cell).to_owned(), median("ops_per_s")?, median(what.wait.0)?))
        });
        let points = points.filter(|(_, x, y)| *x > 0.0 && *y > 0.0);
        Series { name: (*name).to_owned(), colour, points: points.collect() }
    };
    let series = names.iter().enumerate().map(of);
    let series: Vec<_> = series.filter(|series| !series.points.is_empty()).collect();
    let points = || series.iter().flat_map(|series| &series.points);
    let scatter = Scatter {
        title: what.title.to_owned(),
        note: what.note.to_owned(),
        x: Axis { title: what.rate, ends: ends(points().map(|it| it.1))?, mark: rate_mark },
        y: Axis { title: what.wait.1, ends: ends(points().map(|it| it.2))?, mark: time_mark },
        series,
    };
    let (title, file) = (scatter.title.clone(), what.file.to_owned());
    Some(Plot { title, file, svg: scatter.render() })
}

/// The powers of ten around some values.
fn ends(values: impl Iterator<Item = f64> + Clone) -> Option<(f64, f64)> {
    let least = values.clone().min_by(f64::total_cmp)?.log10().floor() as i32;
    let most = values.max_by(f64::total_cmp)?.log10().ceil() as i32;
    Some((10_f64.powi(least), 10_f64.powi(most.max(least + 1))))
}

fn rate_mark(value: f64) -> String {
    match value {
        1e6.. => format!("{} M", value / 1e6),
        1e3.. => format!("{} k", value / 1e3),
        _ => format!("{value}"),
    }
}

fn time_mark(ns: f64) -> String {
    match ns {
        1e9.. => format!("{:.0} s", ns / 1e9),
        1e6.. => format!("{:.0} ms", ns / 1e6),
        1e3.. => format!("{:.0} µs", ns / 1e3),
        _ => format!("{ns:.0} ns"),
    }
}

impl Axis {
    /// The share of the axis at which `value` is, cut at its ends.
    fn share(&self, value: f64) -> f64 {
        let (first, last) = self.ends;
        ((value / first).ln() / (last / first).ln()).clamp(0.0, 1.0)
    }

    /// The powers of ten on it.
    fn marks(&self) -> impl Iterator<Item = f64> {
        let (first, last) = self.ends;
        let powers = first.log10().ceil() as i32..=last.log10().floor() as i32;
        powers.map(|power| 10_f64.powi(power))
    }
}

impl Scatter {
    pub(crate) fn render(&self) -> String {
        let mut svg = Svg::new(&self.title, HEIGHT);
        svg.text((LEFT, 22.0), "title", "start", &self.title);
        svg.text((LEFT, 42.0), "quiet", "start", &self.note);
        self.axes(&mut svg);
        for (place, series) in self.series.iter().enumerate() {
            self.series(&mut svg, series);
            let (x, y) = (WIDTH - RIGHT + 20.0, TOP + 10.0 + 22.0 * place as f64);
            svg.dot((x, y), colour(series.colour), &series.name);
            svg.text((x + 11.0, y + 4.0), "", "start", &series.name);
        }
        svg.finish()
    }

    fn place(&self, x: f64, y: f64) -> (f64, f64) {
        let (wide, high) = (WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM);
        (LEFT + wide * self.x.share(x), HEIGHT - BOTTOM - high * self.y.share(y))
    }

    fn axes(&self, svg: &mut Svg) {
        let (low, right) = (HEIGHT - BOTTOM, WIDTH - RIGHT);
        for value in self.x.marks() {
            let (x, _) = self.place(value, 1.0);
            svg.line("grid", (x, TOP), (x, low));
            svg.text((x, low + 17.0), "quiet", "middle", &(self.x.mark)(value));
        }
        for value in self.y.marks() {
            let (_, y) = self.place(1.0, value);
            svg.line("grid", (LEFT, y), (right, y));
            svg.text((LEFT - 6.0, y + 4.0), "quiet", "end", &(self.y.mark)(value));
        }
        svg.text((right, low + 38.0), "", "end", self.x.title);
        svg.text((LEFT, TOP - 10.0), "", "start", self.y.title);
    }

    fn series(&self, svg: &mut Svg, series: &Series) {
        let colour = colour(series.colour);
        let places: Vec<_> = series.points.iter().map(|&(_, x, y)| self.place(x, y)).collect();
        svg.path(&places, colour);
        for ((what, x, y), place) in series.points.iter().zip(&places) {
            let values = format!("{} a second, {}", x.round(), crate::report::format::time(*y));
            svg.dot(*place, colour, &format!("{} {what}: {values}", series.name));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::Row;

    #[test]
    fn a_point_is_where_its_values_say() {
        let axis = || Axis { title: "t", ends: (1.0, 100.0), mark: |value| value.to_string() };
        let points = vec![("a<b".to_owned(), 10.0, 10.0), ("far".to_owned(), 1e9, 1.0)];
        let series = vec![Series { name: "x".to_owned(), colour: 1, points }];
        let (title, note) = ("t".to_owned(), "n".to_owned());
        let scatter = Scatter { title, note, x: axis(), y: axis(), series };
        let middle = (LEFT + (WIDTH - LEFT - RIGHT) / 2.0, TOP + (HEIGHT - TOP - BOTTOM) / 2.0);
        assert_eq!(scatter.place(10.0, 10.0), middle);
        assert_eq!(scatter.place(1e9, 1.0), (WIDTH - RIGHT, HEIGHT - BOTTOM));
        let svg = scatter.render();
        assert_eq!(svg.matches("<circle").count(), 3, "two points, and a legend");
        assert!(svg.contains("a&lt;b") && svg.ends_with("</svg>\n"));
    }

    #[test]
    fn throughput_and_wait_are_drawn_from_the_rows() {
        let mut results = Results::default();
        for (contestant, ops) in [("a", 2e4), ("b", 3e5), ("idle", 0.0)] {
            results.push(Row {
                family: "f".into(),
                cell: "c".into(),
                contestant: contestant.into(),
                round: 1,
                metrics: vec![("ops_per_s".into(), ops), ("longest_ns".into(), 5e6)],
            });
        }
        let mut what = Waits {
            file: "w.svg",
            title: "t",
            note: "n",
            family: "f",
            cells: &[],
            rate: "turns in a second",
            wait: ("longest_ns", "longest wait"),
            contestants: &[],
        };
        let svg = waits(&results, &what).unwrap().svg;
        assert_eq!(svg.matches("<circle").count(), 4, "two points, and two in the legend");
        assert!(svg.contains("10 k") && svg.contains("1 M") && svg.contains("1 ms"));
        what.family = "other";
        assert!(waits(&results, &what).is_none());
    }
}
