//! What the comparisons measured, row by row, and the medians over it.

/// The measurements of one lock in one cell and round.
pub(crate) struct Row {
    pub(crate) family: &'static str,
    pub(crate) cell: String,
    pub(crate) lock: &'static str,
    pub(crate) round: u32,
    /// Names with their units last, and values.
    pub(crate) metrics: Vec<(&'static str, f64)>,
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

    pub(crate) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The locks measured in a family, in the order of their first rows.
    pub(crate) fn locks(&self, family: &str) -> Vec<&'static str> {
        distinct(self.rows.iter().filter(|row| row.family == family).map(|row| row.lock))
    }

    /// The cells measured in a family, in the order of their first rows.
    pub(crate) fn cells(&self, family: &str) -> Vec<&str> {
        distinct(self.rows.iter().filter(|row| row.family == family).map(|row| row.cell.as_str()))
    }

    fn of<'a>(
        &'a self,
        family: &'a str,
        cell: &'a str,
        lock: &'a str,
    ) -> impl Iterator<Item = &'a Row> {
        self.rows
            .iter()
            .filter(move |row| row.family == family && row.cell == cell && row.lock == lock)
    }

    /// How many rounds a lock was measured in a cell.
    pub(crate) fn rounds(&self, family: &str, cell: &str, lock: &str) -> usize {
        self.of(family, cell, lock).count()
    }

    /// The median over the rounds.
    pub(crate) fn median(&self, family: &str, cell: &str, lock: &str, metric: &str) -> Option<f64> {
        median(self.of(family, cell, lock).filter_map(|row| row.get(metric)).collect())
    }

    /// The median of the ratios, each taken inside one round, to the least of the `bases`.
    pub(crate) fn ratio(
        &self,
        family: &str,
        cell: &str,
        lock: &str,
        bases: &[&str],
        metric: &str,
    ) -> Option<f64> {
        let ratios = self.of(family, cell, lock).filter_map(|row| {
            let bases = bases.iter().flat_map(|base| self.of(family, cell, base));
            let same = bases.filter(|base| base.round == row.round);
            let base = same.filter_map(|base| base.get(metric)).min_by(f64::total_cmp)?;
            (base > 0.0).then_some(row.get(metric)? / base)
        });
        median(ratios.collect())
    }

    /// A metric in every row that has it.
    pub(crate) fn every(&self, metric: &str) -> Vec<f64> {
        let values = self.rows.iter().filter_map(|row| row.get(metric));
        values.filter(|value| !value.is_nan()).collect()
    }

    /// The rows of [`Results::csv`]. The names in them are kept for good: a program reads one file.
    pub(crate) fn from_csv(csv: &str) -> Result<Self, String> {
        let mut lines = csv.lines();
        let leak = |text: &str| -> &'static str { Box::leak(text.to_owned().into_boxed_str()) };
        let names: Vec<_> = lines.next().unwrap_or_default().split(',').skip(4).map(leak).collect();
        let mut results = Self::default();
        for (number, line) in (2..).zip(lines) {
            let wrong = || format!("line {number} of the rows makes no sense: {line}");
            let cells: Vec<_> = line.split(',').collect();
            let [family, cell, lock, round, values @ ..] = &cells[..] else { return Err(wrong()) };
            let metrics = names.iter().zip(values).filter(|(_, value)| !value.is_empty());
            let metrics = metrics.map(|(name, value)| value.parse().map(|value| (*name, value)));
            results.push(Row {
                family: leak(family),
                cell: (*cell).to_owned(),
                lock: leak(lock),
                round: round.parse().map_err(|_| wrong())?,
                metrics: metrics.collect::<Result<_, _>>().map_err(|_| wrong())?,
            });
        }
        Ok(results)
    }

    /// The rows as comma-separated values; a column for each metric that any row has.
    pub(crate) fn csv(&self) -> String {
        let names = self.rows.iter().flat_map(|row| row.metrics.iter().map(|metric| metric.0));
        let names = distinct(names);
        let mut csv = format!("family,cell,lock,round,{}\n", names.join(","));
        for row in &self.rows {
            csv += &format!("{},{},{},{}", row.family, row.cell, row.lock, row.round);
            for name in &names {
                csv.push(',');
                if let Some(value) = row.get(name) {
                    csv += &significant(value);
                }
            }
            csv.push('\n');
        }
        csv
    }
}

/// `value` with five significant digits and no exponent.
fn significant(value: f64) -> String {
    let digits = if value == 0.0 { 0 } else { value.abs().log10().floor() as i32 };
    format!("{value:.*}", (4 - digits).clamp(0, 9) as usize)
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

/// The middle value, or the mean of the middle two; not-a-numbers left out.
pub(crate) fn median(mut values: Vec<f64>) -> Option<f64> {
    values.retain(|value| !value.is_nan());
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => None,
        n if n % 2 == 1 => Some(values[middle]),
        _ => Some(f64::midpoint(values[middle - 1], values[middle])),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_are_taken_inside_a_round_before_the_median() {
        let mut results = Results::default();
        for (round, ours, theirs) in [(1, 10.0, 10.0), (2, 40.0, 20.0), (3, 90.0, 30.0)] {
            for (lock, value) in [("a", ours), ("b", theirs), ("c", theirs * 2.0)] {
                let metrics = vec![("x", value)];
                results.push(Row { family: "f", cell: "c".to_owned(), lock, round, metrics });
            }
        }
        assert_eq!(results.ratio("f", "c", "a", &["b"], "x"), Some(2.0));
        assert_eq!(results.ratio("f", "c", "a", &["c", "b"], "x"), Some(2.0));
        assert_eq!(results.ratio("f", "c", "a", &["absent"], "x"), None);
        assert_eq!(results.median("f", "c", "b", "x"), Some(20.0));
    }

    #[test]
    fn csv_leaves_absent_metrics_empty() {
        let mut results = Results::default();
        for (lock, metrics) in [("a", vec![("x", 1.0)]), ("b", vec![("y", 0.123_456_7)])] {
            results.push(Row { family: "f", cell: "c".to_owned(), lock, round: 1, metrics });
        }
        let expected = "family,cell,lock,round,x,y\nf,c,a,1,1.0000,\nf,c,b,1,,0.12346\n";
        assert_eq!(results.csv(), expected);
        assert_eq!(Results::from_csv(expected).unwrap().csv(), expected);
        assert!(Results::from_csv("family,cell,lock,round,x\nf,c,a,one,1\n").is_err());
    }
}
