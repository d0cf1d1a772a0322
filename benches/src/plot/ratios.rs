//! Ratios as bars, drawn from the tables of a summary: a bar for each row whose result is a ratio.
//!
//! A bar begins at 1 on a logarithmic axis: twice as much and half as much are equally long. The
//! thin line shows the lowest and the highest round, the upright mark the target.

use crate::plot::Plot;
use crate::plot::svg::{Svg, WIDTH, colour};
use crate::report::{MET, MISSED, TIMES};
use crate::stats::Spread;

const LEFT: f64 = 24.0;
const RIGHT: f64 = 180.0;
const TOP: f64 = 76.0;
const TITLE: f64 = 58.0;
const ROW: f64 = 36.0;
const BAR: f64 = 11.0;
const BOTTOM: f64 = 16.0;
/// Rows of one plot, unless a table has more.
const ROWS_MAX: usize = 40;
/// Characters of a label.
const LABEL_MAX: usize = 140;

/// What became of a row's target, and its colour.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Outcome {
    Met,
    Missed,
    Open,
}

/// A row whose result is a ratio.
#[derive(Debug, PartialEq)]
struct Ratio {
    label: String,
    value: Spread,
    target: Option<f64>,
    outcome: Outcome,
}

/// The ratios of one table.
#[derive(Debug, PartialEq)]
struct Table {
    title: String,
    rows: Vec<Ratio>,
}

/// The plots of all ratios in a summary: few tables each, so that a plot is not too long.
pub(crate) fn plots(summary: &str) -> Vec<Plot> {
    let mut pages: Vec<Vec<Table>> = Vec::new();
    for table in tables(summary) {
        let rows = |page: &Vec<Table>| page.iter().map(|table| table.rows.len()).sum::<usize>();
        match pages.last_mut() {
            Some(page) if rows(page) + table.rows.len() <= ROWS_MAX => page.push(table),
            _ => pages.push(vec![table]),
        }
    }
    let name = |number: usize| match number {
        1 => "ratios.svg".to_owned(),
        _ => format!("ratios-{number}.svg"),
    };
    let plot = |(number, page): (usize, Vec<Table>)| Plot {
        title: format!("Ratios: {}", page[0].title),
        file: name(number),
        svg: render(&page),
    };
    (1..).zip(pages).map(plot).collect()
}

/// The tables of a summary that have ratios.
fn tables(summary: &str) -> Vec<Table> {
    let mut tables: Vec<Table> = Vec::new();
    for line in summary.lines() {
        if let Some(title) = line.strip_prefix("## ") {
            tables.push(Table { title: title.to_owned(), rows: Vec::new() });
        } else if let (Some(table), Some(ratio)) = (tables.last_mut(), ratio(line)) {
            table.rows.push(ratio);
        }
    }
    tables.retain(|table| !table.rows.is_empty());
    tables
}

/// A row as [`crate::report::Report::row`] writes it, if its result is a ratio.
fn ratio(line: &str) -> Option<Ratio> {
    let cells: Vec<&str> = line.strip_prefix("| ")?.strip_suffix(" |")?.split(" | ").collect();
    let [what, ours, compared_with, result, target, outcome] = cells[..] else { return None };
    let (median, spread) = result.split_once(TIMES)?;
    let median: f64 = median.parse().ok()?;
    let (low, high) = match spread.trim().strip_prefix('(') {
        None => (median, median),
        Some(ends) => {
            let (low, high) = ends.strip_suffix(')')?.split_once('–')?;
            (low.parse().ok()?, high.parse().ok()?)
        }
    };
    // A peer that did nothing in a smoke run makes a ratio that cannot be drawn.
    if ![median, low, high].into_iter().all(f64::is_finite) {
        return None;
    }
    let target = target.strip_suffix(TIMES).and_then(|target| target.rsplit(' ').next());
    Some(Ratio {
        label: label(what, ours, compared_with),
        value: Spread { median, low, high },
        target: target.and_then(|target| target.parse().ok()),
        outcome: match outcome.trim() {
            MET => Outcome::Met,
            MISSED => Outcome::Missed,
            _ => Outcome::Open,
        },
    })
}

fn label(what: &str, ours: &str, compared_with: &str) -> String {
    let values: Vec<_> =
        [ours, compared_with].into_iter().filter(|text| !text.is_empty()).collect();
    let mut label = what.replace("**", "");
    if !values.is_empty() {
        label += &format!(" – {}", values.join(", compared with "));
    }
    match label.char_indices().nth(LABEL_MAX) {
        None => label,
        Some((end, _)) => format!("{}…", &label[..end]),
    }
}

/// A logarithmic axis around 1.
struct Axis {
    least: f64,
    most: f64,
}

impl Axis {
    /// Wide enough for all values and targets.
    fn of(tables: &[Table]) -> Self {
        let rows = tables.iter().flat_map(|table| &table.rows);
        let values = rows.flat_map(|row| {
            let Spread { median, low, high } = row.value;
            [median, low, high, row.target.unwrap_or(1.0)]
        });
        // Two digits after the point: what is shown as 0.00 is at the left end.
        let values = values.filter(|value| *value > 0.0);
        let (least, most) =
            values.fold((0.5_f64, 2.0_f64), |(least, most), it| (least.min(it), most.max(it)));
        Self { least: least / 1.1, most: most * 1.1 }
    }

    fn x(&self, value: f64) -> f64 {
        let share = (value / self.least).ln() / (self.most / self.least).ln();
        LEFT + (WIDTH - LEFT - RIGHT) * share.clamp(0.0, 1.0)
    }

    /// Powers of ten; in between 2 and 5 where there is room.
    fn marks(&self) -> Vec<f64> {
        let powers = (self.most / self.least).log10();
        let digits: &[f64] = if powers > 3.0 { &[1.0] } else { &[1.0, 2.0, 5.0] };
        let all = (-4..8).flat_map(|power| digits.iter().map(move |it| it * 10_f64.powi(power)));
        all.filter(|mark| (self.least..self.most).contains(mark)).collect()
    }
}

fn render(tables: &[Table]) -> String {
    let height = |table: &Table| TITLE + ROW * table.rows.len() as f64;
    let total = TOP + tables.iter().map(height).sum::<f64>() + BOTTOM;
    let (mut svg, axis) = (Svg::new("Ratios", total), Axis::of(tables));
    svg.text((LEFT, 22.0), "title", "start", "Ratios, logarithmic");
    let note = "bar: median; thin line: lowest and highest round; upright mark: target";
    svg.text((WIDTH - 16.0, 22.0), "quiet", "end", note);
    let mut x = LEFT;
    for outcome in [Outcome::Met, Outcome::Missed, Outcome::Open] {
        x = svg.legend((x, 38.0), outcome.colour(), outcome.name());
    }
    let mut top = TOP;
    for table in tables {
        draw(&mut svg, &axis, table, top);
        top += height(table);
    }
    svg.finish()
}

fn draw(svg: &mut Svg, axis: &Axis, table: &Table, top: f64) {
    svg.text((LEFT, top + 20.0), "title", "start", &table.title);
    let (first, last) = (top + TITLE - 14.0, top + TITLE + ROW * table.rows.len() as f64 - 6.0);
    for mark in axis.marks() {
        let x = axis.x(mark);
        svg.line(if mark == 1.0 { "line" } else { "grid" }, (x, first), (x, last));
        svg.text((x, first - 2.0), "quiet", "middle", &format!("{mark}"));
    }
    for (at, row) in row_tops(table, top) {
        let Spread { median, low, high } = row.value;
        let (one, end) = (axis.x(1.0), axis.x(median));
        let bar = at + 18.0;
        svg.text((LEFT, at + 12.0), "", "start", &row.label);
        // At least one pixel, so that a ratio of 1 is visible.
        let (from, wide) = (one.min(end), (one - end).abs().max(1.0));
        let number = |value: f64| format!("{value:.*}", if value < 100.0 { 2 } else { 0 });
        let title = match low == high {
            true => format!("{} x", number(median)),
            false => format!("{} x ({}–{})", number(median), number(low), number(high)),
        };
        svg.bar((from, bar), (wide, BAR), row.outcome.colour(), &title);
        let middle = bar + BAR / 2.0;
        svg.line("mark", (axis.x(low), middle), (axis.x(high), middle));
        if let Some(target) = row.target {
            let x = axis.x(target);
            svg.line("mark", (x, bar - 3.0), (x, bar + BAR + 3.0));
        }
        svg.text((WIDTH - RIGHT + 8.0, bar + BAR - 1.0), "quiet", "start", &title);
    }
}

/// Each row with the height at which it begins.
fn row_tops(table: &Table, top: f64) -> impl Iterator<Item = (f64, &Ratio)> {
    let tops = (0..).map(move |at| top + TITLE - 10.0 + ROW * f64::from(at));
    tops.zip(&table.rows)
}

impl Outcome {
    fn colour(self) -> &'static str {
        match self {
            Self::Met => colour(0),
            Self::Missed => colour(2),
            Self::Open => colour(4),
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Met => "target met",
            Self::Missed => "target missed",
            Self::Open => "no target",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::{Report, Row, Target};

    /// A summary with one ratio, one time and one row that was not measured.
    fn summary() -> String {
        let mut report = Report::default();
        report.cell("Cycles & turns");
        let row = |what: &str, unit, target| Row {
            what: what.to_owned(),
            ours: "2 ns".to_owned(),
            compared_with: String::new(),
            result: Some(Spread { median: 0.25, low: 0.2, high: 1.5 }),
            unit,
            target,
        };
        report.row(row("**a**", TIMES, Target::AtMost(0.2)));
        report.row(row("b", " ms", Target::Open));
        report.absent("c", "not installed", Target::AtLeast(2.0));
        report.finish();
        report.text().to_owned()
    }

    #[test]
    fn the_rows_of_a_report_are_read_back() {
        let row = Ratio {
            label: "a – 2 ns".to_owned(),
            value: Spread { median: 0.25, low: 0.2, high: 1.5 },
            target: Some(0.2),
            outcome: Outcome::Missed,
        };
        let table = Table { title: "Cycles & turns".to_owned(), rows: vec![row] };
        assert_eq!(tables(&summary()), [table]);
        let once = ratio("| a |  | b | 3.00 x |  |  |").unwrap();
        assert_eq!((once.value, once.target), (Spread::one(3.0), None));
        assert_eq!(once.label, "a – b");
    }

    #[test]
    fn a_plot_has_a_bar_for_each_ratio() {
        let plots = plots(&summary());
        assert_eq!((plots.len(), plots[0].file.as_str()), (1, "ratios.svg"));
        let svg = &plots[0].svg;
        assert_eq!(svg.matches("<rect").count(), 4, "a bar, and three in the legend");
        assert!(svg.contains("Cycles &amp; turns") && svg.ends_with("</svg>\n"));
    }

    #[test]
    fn a_long_summary_is_split_between_tables() {
        let row = "| a |  | b | 3.00 x |  |  |\n".repeat(25);
        let files: Vec<_> = plots(&format!("## A\n{row}## B\n{row}## C\n| x | y |\n"))
            .into_iter()
            .map(|plot| plot.file)
            .collect();
        assert_eq!(files, ["ratios.svg", "ratios-2.svg"]);
    }

    #[test]
    fn the_axis_has_half_and_twice_at_equal_distances_from_one() {
        let axis = Axis { least: 0.25, most: 4.0 };
        let [half, one, two] = [0.5, 1.0, 2.0].map(|value| axis.x(value));
        assert!((one - half - (two - one)).abs() < 1e-9);
        assert_eq!(axis.marks(), [0.5, 1.0, 2.0]);
    }
}
