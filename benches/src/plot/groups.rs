//! Grouped bars.

use crate::plot::svg::{Svg, WIDTH, colour};
use crate::report::format::{number, time};

const LEFT: f64 = 64.0;
const RIGHT: f64 = 16.0;
const TOP: f64 = 76.0;
const PANEL: f64 = 150.0;
const PANEL_GAP: f64 = 58.0;
const GROUP_GAP: f64 = 18.0;

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
            Self::Log { .. } => time(value),
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
        let mut svg = Svg::new(self.title, height);
        svg.text((LEFT, 22.0), "title", "start", self.title);
        svg.text((WIDTH - RIGHT, 22.0), "quiet", "end", self.note);
        let mut x = LEFT;
        for (place, name) in self.series.iter().enumerate() {
            if let Some(name) = name {
                x = svg.legend((x, 38.0), colour(place), name);
            }
        }
        for (index, panel) in self.panels.iter().enumerate() {
            self.panel(&mut svg, panel, TOP + 14.0 + index as f64 * (PANEL + PANEL_GAP));
        }
        svg.finish()
    }

    fn panel(&self, svg: &mut Svg, panel: &Panel, top: f64) {
        let bottom = top + PANEL;
        svg.text((LEFT, top - 8.0), "quiet", "start", &panel.title);
        for mark in self.scale.marks() {
            let y = bottom - PANEL * self.scale.share(mark);
            svg.line("grid", (LEFT, y), (WIDTH - RIGHT, y));
            svg.text((LEFT - 6.0, y + 4.0), "quiet", "end", &self.scale.mark(mark));
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
                    self.bar(svg, *series, value, (start + bar * place as f64, bar), bottom);
                }
            }
            svg.text((middle, bottom + 17.0), "", "middle", &group.label);
        }
        if let Some(value) = self.line {
            let y = bottom - PANEL * self.scale.share(value);
            svg.line("line", (LEFT, y), (WIDTH - RIGHT, y));
        }
    }

    fn bar(&self, svg: &mut Svg, series: usize, value: f64, (x, width): (f64, f64), bottom: f64) {
        // At least one pixel, so that a tiny value is visible.
        let height = (PANEL * self.scale.share(value)).max(1.0);
        let name = self.series[series].unwrap_or_default();
        let title = format!("{name} {}", self.scale.value(value));
        svg.bar((x, bottom - height), (width - 2.0, height), colour(series), &title);
        if self.scale.cuts(value) {
            let place = (x + width / 2.0, bottom - PANEL - 3.0);
            svg.text(place, "quiet", "middle", &number(Some(value), 1));
        }
    }
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
        assert_eq!(svg.matches("<title>").count(), 3, "a bar, and two in the legend");
        assert!(svg.contains("a&lt;b") && svg.ends_with("</svg>\n"));
    }
}
