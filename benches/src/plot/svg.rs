//! The parts that all plots are made of.

use std::fmt::Write as _;

/// The width of every plot.
pub(super) const WIDTH: f64 = 960.0;

/// A colour for each place in a legend: mid tones, distinct also without colour vision.
const COLOURS: [&str; 8] =
    ["#2f81f7", "#12a594", "#e5852b", "#b35a1f", "#8b949e", "#a371f7", "#d6409f", "#7a8b00"];

const STYLE: &str = "\
text { font: 12px system-ui, sans-serif; fill: #3b424a }
.title { font-size: 16px; font-weight: 600 }
.quiet { fill: #656d76 }
.grid { stroke: #8b949e; stroke-opacity: .35 }
.line { stroke: #656d76; stroke-dasharray: 5 3 }
.mark { stroke: #3b424a; stroke-width: 2 }
@media (prefers-color-scheme: dark) {
  text { fill: #d1d7de }
  .quiet { fill: #9ea7b3 }
  .line { stroke: #9ea7b3 }
  .mark { stroke: #d1d7de }
}";

/// The colour of a place in the legend.
pub(super) fn colour(place: usize) -> &'static str {
    COLOURS[place % COLOURS.len()]
}

/// An image that is being drawn.
pub(super) struct Svg(String);

impl Svg {
    pub(super) fn new(title: &str, height: f64) -> Self {
        Self(format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" \
             width=\"{WIDTH}\" height=\"{height}\" role=\"img\" aria-label=\"{}\">\n\
             <style>\n{STYLE}\n</style>\n",
            escape(title),
        ))
    }

    pub(super) fn finish(self) -> String {
        self.0 + "</svg>\n"
    }

    /// Text at a place; `anchor` is `start`, `middle` or `end`.
    pub(super) fn text(&mut self, (x, y): (f64, f64), class: &str, anchor: &str, content: &str) {
        let content = escape(content);
        self.put(format_args!(
            "<text x=\"{x:.1}\" y=\"{y:.1}\" class=\"{class}\" text-anchor=\"{anchor}\">\
             {content}</text>",
        ));
    }

    pub(super) fn line(&mut self, class: &str, from: (f64, f64), to: (f64, f64)) {
        let ((x1, y1), (x2, y2)) = (from, to);
        self.put(format_args!(
            "<line class=\"{class}\" x1=\"{x1:.1}\" x2=\"{x2:.1}\" y1=\"{y1:.1}\" y2=\"{y2:.1}\"/>"
        ));
    }

    /// A filled rectangle; a browser shows its title under the mouse.
    pub(super) fn bar(
        &mut self,
        (x, y): (f64, f64),
        (wide, high): (f64, f64),
        colour: &str,
        title: &str,
    ) {
        let title = escape(title);
        self.put(format_args!(
            "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{wide:.1}\" height=\"{high:.1}\" \
             fill=\"{colour}\"><title>{title}</title></rect>",
        ));
    }

    /// A filled circle with a title.
    pub(super) fn dot(&mut self, (x, y): (f64, f64), colour: &str, title: &str) {
        let title = escape(title);
        self.put(format_args!(
            "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"5\" fill=\"{colour}\">\
             <title>{title}</title></circle>"
        ));
    }

    /// A line through some places.
    pub(super) fn path(&mut self, places: &[(f64, f64)], colour: &str) {
        let points: Vec<_> = places.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
        let points = points.join(" ");
        self.put(format_args!(
            "<polyline points=\"{points}\" fill=\"none\" stroke=\"{colour}\" \
             stroke-opacity=\".5\"/>",
        ));
    }

    /// A colour and its name; where the next one may begin.
    pub(super) fn legend(&mut self, (x, y): (f64, f64), colour: &str, name: &str) -> f64 {
        self.bar((x, y), (12.0, 12.0), colour, name);
        self.text((x + 17.0, y + 10.0), "", "start", name);
        x + 40.0 + name.chars().count() as f64 * 7.0
    }

    fn put(&mut self, line: std::fmt::Arguments<'_>) {
        writeln!(self.0, "{line}").expect("a string takes everything");
    }
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
