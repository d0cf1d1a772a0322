//! What a comparison measured, row by row: `raw.csv`, and the medians over it.

use std::borrow::Cow;

use crate::stats::median;

/// A name in a row: a literal, or read from a file.
pub(crate) type Name = Cow<'static, str>;

/// The measurements of one contestant in one cell and round.
pub(crate) struct Row {
    /// The first part of the cell's name on the command line.
    pub(crate) family: Name,
    /// The rest of it; empty if the family has one cell.
    pub(crate) cell: Name,
    pub(crate) contestant: Name,
    /// Counted from 1.
    pub(crate) round: usize,
    /// Names with their units last, and values.
    pub(crate) metrics: Vec<(Name, f64)>,
}

impl Row {
    pub(crate) fn get(&self, metric: &str) -> Option<f64> {
        self.metrics.iter().find(|(name, _)| *name == metric).map(|(_, value)| *value)
    }
}

/// All rows of a run.
#[derive(Default)]
pub(crate) struct Results {
    rows: Vec<Row>,
}

impl Results {
    pub(crate) fn push(&mut self, row: Row) {
        self.rows.push(row);
    }

    /// The contestants measured in a family, in the order of their first rows.
    pub(crate) fn contestants(&self, family: &str) -> Vec<&str> {
        distinct(self.rows.iter().filter(|row| row.family == family).map(|row| &*row.contestant))
    }

    /// The cells measured in a family, in the order of their first rows.
    pub(crate) fn cells(&self, family: &str) -> Vec<&str> {
        distinct(self.rows.iter().filter(|row| row.family == family).map(|row| &*row.cell))
    }

    fn of<'a>(
        &'a self,
        family: &'a str,
        cell: &'a str,
        contestant: &'a str,
    ) -> impl Iterator<Item = &'a Row> {
        self.rows.iter().filter(move |row| {
            row.family == family && row.cell == cell && row.contestant == contestant
        })
    }

    /// How many rounds a contestant was measured in a cell.
    pub(crate) fn rounds(&self, family: &str, cell: &str, contestant: &str) -> usize {
        self.of(family, cell, contestant).count()
    }

    /// The median over the rounds.
    pub(crate) fn median(
        &self,
        family: &str,
        cell: &str,
        contestant: &str,
        metric: &str,
    ) -> Option<f64> {
        median(self.of(family, cell, contestant).filter_map(|row| row.get(metric)))
    }

    /// The ratios, each taken inside one round, to the least of the `bases`.
    pub(crate) fn ratios(
        &self,
        family: &str,
        cell: &str,
        contestant: &str,
        bases: &[&str],
        metric: &str,
    ) -> Vec<f64> {
        let ratios = self.of(family, cell, contestant).filter_map(|row| {
            let bases = bases.iter().flat_map(|base| self.of(family, cell, base));
            let same = bases.filter(|base| base.round == row.round);
            let base = same.filter_map(|base| base.get(metric)).min_by(f64::total_cmp)?;
            (base > 0.0).then_some(row.get(metric)? / base)
        });
        ratios.collect()
    }

    /// The median of [`Results::ratios`].
    pub(crate) fn ratio(
        &self,
        family: &str,
        cell: &str,
        contestant: &str,
        bases: &[&str],
        metric: &str,
    ) -> Option<f64> {
        median(self.ratios(family, cell, contestant, bases, metric))
    }

    /// A metric in every row that has it.
    pub(crate) fn every(&self, metric: &str) -> Vec<f64> {
        let values = self.rows.iter().filter_map(|row| row.get(metric));
        values.filter(|value| !value.is_nan()).collect()
    }

    /// The rows as comma-separated values; a column for each metric that any row has.
    pub(crate) fn csv(&self) -> String {
        let names = self.rows.iter().flat_map(|row| row.metrics.iter().map(|metric| &*metric.0));
        let names = distinct(names);
        let mut csv = format!("family,cell,contestant,round,{}\n", names.join(","));
        for row in &self.rows {
            for name in [&row.family, &row.cell, &row.contestant] {
                csv += &quoted(name);
                csv.push(',');
            }
            csv += &row.round.to_string();
            for name in &names {
                csv.push(',');
                if let Some(value) = row.get(name).filter(|value| !value.is_nan()) {
                    csv += &significant(value);
                }
            }
            csv.push('\n');
        }
        csv
    }

    /// The rows of [`Results::csv`].
    pub(crate) fn from_csv(csv: &str) -> Result<Self, String> {
        let mut lines = csv.lines();
        let names: Vec<_> = split(lines.next().unwrap_or_default()).into_iter().skip(4).collect();
        let mut results = Self::default();
        for (number, line) in (2..).zip(lines) {
            let wrong = || format!("line {number} of raw.csv is not a row: {line}");
            let cells = split(line);
            let [family, cell, contestant, round, values @ ..] = &cells[..] else {
                return Err(wrong());
            };
            let metrics = names.iter().zip(values).filter(|(_, value)| !value.is_empty());
            let metrics = metrics
                .map(|(name, value)| value.parse().map(|value| (Name::Owned(name.clone()), value)));
            results.push(Row {
                family: family.clone().into(),
                cell: cell.clone().into(),
                contestant: contestant.clone().into(),
                round: round.parse().map_err(|_| wrong())?,
                metrics: metrics.collect::<Result<_, _>>().map_err(|_| wrong())?,
            });
        }
        Ok(results)
    }
}

/// `value` with five significant digits and no exponent.
fn significant(value: f64) -> String {
    let digits = if value == 0.0 { 0 } else { value.abs().log10().floor() as i32 };
    format!("{value:.*}", (4 - digits).clamp(0, 9) as usize)
}

/// A name as RFC 4180 has it in a line of comma-separated values. No name has a line break.
fn quoted(name: &str) -> Cow<'_, str> {
    match name.contains([',', '"']) {
        true => format!("\"{}\"", name.replace('"', "\"\"")).into(),
        false => name.into(),
    }
}

/// The values of a line, without the quotes.
fn split(line: &str) -> Vec<String> {
    let mut values = vec![String::new()];
    let mut is_quoted = false;
    let mut characters = line.chars().peekable();
    while let Some(character) = characters.next() {
        let value = values.last_mut().expect("there is one from the start");
        match character {
            '"' if is_quoted && characters.next_if_eq(&'"').is_some() => value.push('"'),
            '"' => is_quoted = !is_quoted,
            ',' if !is_quoted => values.push(String::new()),
            _ => value.push(character),
        }
    }
    values
}

fn distinct<T: PartialEq>(items: impl Iterator<Item = T>) -> Vec<T> {
    let mut found = Vec::new();
    for item in items {
        if !found.contains(&item) {
            found.push(item);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(contestant: &'static str, round: usize, metric: &'static str, value: f64) -> Row {
        let metrics = vec![(metric.into(), value)];
        Row { family: "f".into(), cell: "c".into(), contestant: contestant.into(), round, metrics }
    }

    #[test]
    fn ratios_are_taken_inside_a_round_before_the_median() {
        let mut results = Results::default();
        for (round, ours, theirs) in [(1, 10.0, 10.0), (2, 40.0, 20.0), (3, 90.0, 30.0)] {
            for (contestant, value) in [("a", ours), ("b", theirs), ("c", theirs * 2.0)] {
                results.push(row(contestant, round, "x", value));
            }
        }
        assert_eq!(results.ratio("f", "c", "a", &["b"], "x"), Some(2.0));
        assert_eq!(results.ratio("f", "c", "a", &["c", "b"], "x"), Some(2.0));
        assert_eq!(results.ratio("f", "c", "a", &["absent"], "x"), None);
        assert_eq!(results.median("f", "c", "b", "x"), Some(20.0));
    }

    #[test]
    fn csv_leaves_absent_metrics_empty_and_quotes_names_with_commas() {
        let mut results = Results::default();
        results.push(row("a, the \"first\"", 1, "x", 1.0));
        results.push(row("b", 1, "y", 0.123_456_7));
        let expected = "family,cell,contestant,round,x,y\n\
                        f,c,\"a, the \"\"first\"\"\",1,1.0000,\nf,c,b,1,,0.12346\n";
        assert_eq!(results.csv(), expected);
        assert_eq!(Results::from_csv(expected).unwrap().csv(), expected);
        assert!(Results::from_csv("family,cell,lock,round,x\nf,c,a,one,1\n").is_err());
    }
}
