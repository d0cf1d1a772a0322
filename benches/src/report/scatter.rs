//! A point for each lock and cell in SVG: one measurement to the right, another one upwards.
//!
//! Both axes are logarithmic, since locks differ by factors of hundreds.

use std::fmt::Write as _;

use crate::report::svg::{COLOURS, STYLE, escape, text};

const WIDTH: f64 = 960.0;
const HEIGHT: f64 = 460.0;
const LEFT: f64 = 72.0;
const RIGHT: f64 = 170.0;
const TOP: f64 = 64.0;
const BOTTOM: f64 = 52.0;

/// One axis.
pub(crate) struct Axis {
    pub(crate) title: &'static str,
    /// Where it begins and ends.
    pub(crate) ends: (f64, f64),
    /// How a mark is written.
    pub(crate) mark: fn(f64) -> String,
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

/// One series of points, joined by a line in their order.
pub(crate) struct Series {
    pub(crate) name: &'static str,
    /// Its place among the colours.
    pub(crate) colour: usize,
    /// What a point is, and where.
    pub(crate) points: Vec<(String, f64, f64)>,
}

/// The whole plot.
pub(crate) struct Scatter {
    pub(crate) title: &'static str,
    pub(crate) note: &'static str,
    pub(crate) x: Axis,
    pub(crate) y: Axis,
    pub(crate) series: Vec<Series>,
}

impl Scatter {
    pub(crate) fn render(&self) -> String {
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" \
             width=\"{WIDTH}\" height=\"{HEIGHT}\" role=\"img\" aria-label=\"{}\">\n\
             <style>\n{STYLE}\n</style>\n",
            escape(self.title),
        );
        text(&mut svg, LEFT, 22.0, "title", "start", self.title);
        text(&mut svg, LEFT, 42.0, "quiet", "start", self.note);
        self.axes(&mut svg);
        for (place, series) in self.series.iter().enumerate() {
            self.series(&mut svg, series);
            let (x, y) = (WIDTH - RIGHT + 20.0, TOP + 10.0 + 22.0 * place as f64);
            dot(&mut svg, (x, y), series.colour, "");
            text(&mut svg, x + 11.0, y + 4.0, "", "start", series.name);
        }
        svg + "</svg>\n"
    }

    fn place(&self, x: f64, y: f64) -> (f64, f64) {
        let (wide, high) = (WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM);
        (LEFT + wide * self.x.share(x), HEIGHT - BOTTOM - high * self.y.share(y))
    }

    fn axes(&self, svg: &mut String) {
        let (low, right) = (HEIGHT - BOTTOM, WIDTH - RIGHT);
        for value in self.x.marks() {
            let (x, _) = self.place(value, 1.0);
            let _ = writeln!(
                svg,
                "<line class=\"grid\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{TOP}\" y2=\"{low}\"/>"
            );
            text(svg, x, low + 17.0, "quiet", "middle", &(self.x.mark)(value));
        }
        for value in self.y.marks() {
            let (_, y) = self.place(1.0, value);
            let _ = writeln!(
                svg,
                "<line class=\"grid\" x1=\"{LEFT}\" x2=\"{right}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>"
            );
            text(svg, LEFT - 6.0, y + 4.0, "quiet", "end", &(self.y.mark)(value));
        }
        text(svg, right, low + 38.0, "", "end", self.x.title);
        text(svg, LEFT, TOP - 6.0, "", "start", self.y.title);
    }

    fn series(&self, svg: &mut String, series: &Series) {
        let colour = COLOURS[series.colour % COLOURS.len()];
        let places: Vec<_> = series.points.iter().map(|&(_, x, y)| self.place(x, y)).collect();
        let path: Vec<_> = places.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
        let _ = writeln!(
            svg,
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-opacity=\".5\"/>",
            path.join(" ")
        );
        for ((what, ..), (x, y)) in series.points.iter().zip(&places) {
            dot(svg, (*x, *y), series.colour, &format!("{} {what}", series.name));
        }
    }
}

fn dot(svg: &mut String, (x, y): (f64, f64), colour: usize, title: &str) {
    let colour = COLOURS[colour % COLOURS.len()];
    let title = escape(title);
    let _ = writeln!(
        svg,
        "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"5\" fill=\"{colour}\">\
         <title>{title}</title></circle>"
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_point_is_where_its_values_say() {
        let axis = || Axis { title: "t", ends: (1.0, 100.0), mark: |value| value.to_string() };
        let points = vec![("a<b".to_owned(), 10.0, 10.0), ("far".to_owned(), 1e9, 1.0)];
        let series = vec![Series { name: "x", colour: 1, points }];
        let scatter = Scatter { title: "t", note: "n", x: axis(), y: axis(), series };
        let middle = (LEFT + (WIDTH - LEFT - RIGHT) / 2.0, TOP + (HEIGHT - TOP - BOTTOM) / 2.0);
        assert_eq!(scatter.place(10.0, 10.0), middle);
        assert_eq!(scatter.place(1e9, 1.0), (WIDTH - RIGHT, HEIGHT - BOTTOM));
        let svg = scatter.render();
        assert_eq!(svg.matches("<circle").count(), 3, "two points, and a legend");
        assert!(svg.contains("a&lt;b") && svg.ends_with("</svg>\n"));
    }
}
