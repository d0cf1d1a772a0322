//! Grouped bar charts in SVG, legible on light and on dark pages.

use std::fmt::Write as _;

use crate::report::tables::{number, time};

const WIDTH: f64 = 960.0;
const LEFT: f64 = 64.0;
const RIGHT: f64 = 16.0;
const TOP: f64 = 76.0;
const PANEL: f64 = 150.0;
const PANEL_GAP: f64 = 58.0;
const GROUP_GAP: f64 = 18.0;

/// A colour for each place in the legend: mid tones, distinct also without colour vision.
pub(super) const COLOURS: [&str; 6] =
    ["#2f81f7", "#12a594", "#e5852b", "#b35a1f", "#8b949e", "#a371f7"];

pub(super) const STYLE: &str = "\
text { font: 12px system-ui, sans-serif; fill: #3b424a }
.title { font-size: 16px; font-weight: 600 }
.quiet { fill: #656d76 }
.grid { stroke: #8b949e; stroke-opacity: .35 }
.line { stroke: #656d76; stroke-dasharray: 5 3 }
@media (prefers-color-scheme: dark) {
  text { fill: #d1d7de }
  .quiet { fill: #9ea7b3 }
  .line { stroke: #9ea7b3 }
}";

/// How a value becomes a height.
#[derive(Clone, Copy)]
pub(crate) enum Scale {
    /// From 0 to `max`, a grid line each `step`.
    Linear { max: f64, step: f64 },
    /// From `min` to `max` nanoseconds, a grid line each power of ten.
    Log { min: f64, max: f64 },
}

/// Bars side by side under one label, one for each series.
pub(crate) struct Group {
    pub(crate) label: String,
    pub(crate) values: Vec<Option<f64>>,
}

/// A row of groups with its own axis.
pub(crate) struct Panel {
    pub(crate) title: String,
    pub(crate) groups: Vec<Group>,
}

/// A chart of panels, one below the other, that share series and scale.
pub(crate) struct Chart {
    pub(crate) title: &'static str,
    pub(crate) note: &'static str,
    pub(crate) series: Vec<Option<&'static str>>,
    pub(crate) scale: Scale,
    /// A value to mark across each panel.
    pub(crate) line: Option<f64>,
    pub(crate) panels: Vec<Panel>,
}

impl Scale {
    /// The share of a panel's height that `value` reaches, cut at the ends.
    fn share(self, value: f64) -> f64 {
        let share = match self {
            Self::Linear { max, .. } => value / max,
            Self::Log { min, max } => (value / min).ln() / (max / min).ln(),
        };
        share.clamp(0.0, 1.0)
    }

    fn marks(self) -> Vec<f64> {
        match self {
            Self::Linear { max, step } => {
                (0..=(max / step).round() as u32).map(|mark| f64::from(mark) * step).collect()
            }
            Self::Log { min, max } => {
                let powers = (max / min).log10().round() as i32;
                (0..=powers).map(|power| min * 10_f64.powi(power)).collect()
            }
        }
    }

    fn mark(self, value: f64) -> String {
        match self {
            Self::Linear { .. } => number(Some(value), 2),
            Self::Log { .. } if value >= 1e9 => format!("{:.0} s", value / 1e9),
            Self::Log { .. } if value >= 1e6 => format!("{:.0} ms", value / 1e6),
            Self::Log { .. } => format!("{:.0} µs", value / 1e3),
        }
    }

    fn value(self, value: f64) -> String {
        match self {
            Self::Linear { .. } => number(Some(value), 3),
            Self::Log { .. } => time(Some(value)),
        }
    }

    fn cuts(self, value: f64) -> bool {
        match self {
            Self::Linear { max, .. } | Self::Log { max, .. } => value > max,
        }
    }
}

impl Chart {
    pub(crate) fn render(&self) -> String {
        let height = TOP + self.panels.len() as f64 * (PANEL + PANEL_GAP);
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" \
             width=\"{WIDTH}\" height=\"{height}\" role=\"img\" aria-label=\"{}\">\n\
             <style>\n{STYLE}\n</style>\n",
            escape(self.title),
        );
        text(&mut svg, LEFT, 22.0, "title", "start", self.title);
        text(&mut svg, WIDTH - RIGHT, 22.0, "quiet", "end", self.note);
        self.legend(&mut svg);
        for (index, panel) in self.panels.iter().enumerate() {
            self.panel(&mut svg, panel, TOP + 14.0 + index as f64 * (PANEL + PANEL_GAP));
        }
        svg + "</svg>\n"
    }

    fn legend(&self, svg: &mut String) {
        let mut x = LEFT;
        for (name, colour) in self.series.iter().zip(COLOURS) {
            let Some(name) = name else { continue };
            let _ = writeln!(
                svg,
                "<rect x=\"{x}\" y=\"38\" width=\"12\" height=\"12\" rx=\"2\" fill=\"{colour}\"/>"
            );
            text(svg, x + 17.0, 48.0, "", "start", name);
            x += 40.0 + name.len() as f64 * 7.0;
        }
    }

    fn panel(&self, svg: &mut String, panel: &Panel, top: f64) {
        let bottom = top + PANEL;
        text(svg, LEFT, top - 8.0, "quiet", "start", &panel.title);
        for mark in self.scale.marks() {
            let y = bottom - PANEL * self.scale.share(mark);
            line(svg, "grid", y);
            text(svg, LEFT - 6.0, y + 4.0, "quiet", "end", &self.scale.mark(mark));
        }
        let drawn: Vec<usize> =
            (0..self.series.len()).filter(|index| self.series[*index].is_some()).collect();
        let room = (WIDTH - LEFT - RIGHT) / panel.groups.len() as f64;
        let bar = ((room - GROUP_GAP) / drawn.len().max(1) as f64).min(40.0);
        for (index, group) in panel.groups.iter().enumerate() {
            let middle = LEFT + room * (index as f64 + 0.5);
            let start = middle - bar * drawn.len() as f64 / 2.0;
            for (place, series) in drawn.iter().enumerate() {
                if let Some(value) = group.values[*series] {
                    self.bar(svg, *series, value, start + bar * place as f64, bar, bottom);
                }
            }
            text(svg, middle, bottom + 17.0, "", "middle", &group.label);
        }
        if let Some(value) = self.line {
            line(svg, "line", bottom - PANEL * self.scale.share(value));
        }
    }

    fn bar(&self, svg: &mut String, series: usize, value: f64, x: f64, width: f64, bottom: f64) {
        // Never quite nothing, so that a tiny value is seen to be there.
        let height = (PANEL * self.scale.share(value)).max(1.0);
        let _ = writeln!(
            svg,
            "<rect x=\"{x:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{height:.1}\" \
             fill=\"{}\"><title>{} {}</title></rect>",
            bottom - height,
            width - 2.0,
            COLOURS[series % COLOURS.len()],
            escape(self.series[series].unwrap_or_default()),
            self.scale.value(value),
        );
        if self.scale.cuts(value) {
            let middle = x + width / 2.0;
            text(svg, middle, bottom - PANEL - 3.0, "quiet", "middle", &number(Some(value), 1));
        }
    }
}

fn line(svg: &mut String, class: &str, y: f64) {
    let right = WIDTH - RIGHT;
    let _ = writeln!(
        svg,
        "<line class=\"{class}\" x1=\"{LEFT}\" x2=\"{right}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>"
    );
}

pub(super) fn text(svg: &mut String, x: f64, y: f64, class: &str, anchor: &str, content: &str) {
    let _ = writeln!(
        svg,
        "<text x=\"{x:.1}\" y=\"{y:.1}\" class=\"{class}\" text-anchor=\"{anchor}\">{}</text>",
        escape(content),
    );
}

pub(super) fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scales_map_their_ends_to_the_ends_of_the_panel_and_cut_beyond() {
        let log = Scale::Log { min: 1e3, max: 1e9 };
        assert_eq!((log.share(1e3), log.share(1e9), log.share(1e12)), (0.0, 1.0, 1.0));
        assert!((log.share(1e6) - 0.5).abs() < 1e-9);
        assert_eq!(log.marks().len(), 7);
        let linear = Scale::Linear { max: 2.0, step: 0.5 };
        assert_eq!((linear.share(1.0), linear.marks().len()), (0.5, 5));
    }

    #[test]
    fn a_chart_draws_a_bar_for_each_value_it_has() {
        let groups = vec![Group { label: "a<b".to_owned(), values: vec![Some(1.0), None] }];
        let svg = Chart {
            title: "t",
            note: "n",
            series: vec![Some("x"), Some("y")],
            scale: Scale::Linear { max: 2.0, step: 0.5 },
            line: None,
            panels: vec![Panel { title: "p".to_owned(), groups }],
        }
        .render();
        assert_eq!(svg.matches("<title>").count(), 1);
        assert!(svg.contains("a&lt;b") && svg.ends_with("</svg>\n"));
    }
}
