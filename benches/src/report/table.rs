//! Tables in Markdown, for the terminal and for the summary.

/// A table whose first column holds text and whose other columns hold numbers, or text too.
pub(crate) struct Table {
    rows: Vec<Vec<String>>,
    numbers: bool,
}

impl Table {
    pub(crate) fn new<T: Into<String>>(head: impl IntoIterator<Item = T>) -> Self {
        Self { rows: vec![head.into_iter().map(Into::into).collect()], numbers: true }
    }

    /// A table of nothing but text.
    pub(crate) fn text<T: Into<String>>(head: impl IntoIterator<Item = T>) -> Self {
        Self { numbers: false, ..Self::new(head) }
    }

    pub(crate) fn row(&mut self, cells: Vec<String>) {
        assert_eq!(cells.len(), self.rows[0].len(), "a row as wide as its head: {cells:?}");
        self.rows.push(cells);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rows.len() == 1
    }

    /// Markdown, padded so that it also reads well as plain text.
    pub(crate) fn markdown(&self) -> String {
        let widths: Vec<usize> = (0..self.rows[0].len())
            .map(|column| self.rows.iter().map(|row| row[column].chars().count()).max().unwrap())
            .map(|width| width.max(3))
            .collect();
        let left = |column| column == 0 || !self.numbers;
        let mut text = String::new();
        for (index, row) in self.rows.iter().enumerate() {
            text.push('|');
            for (column, (cell, width)) in row.iter().zip(&widths).enumerate() {
                text += &match left(column) {
                    true => format!(" {cell:<width$} |"),
                    false => format!(" {cell:>width$} |"),
                };
            }
            text.push('\n');
            if index == 0 {
                text.push('|');
                for (column, width) in widths.iter().enumerate() {
                    let dashes = "-".repeat(width + 1);
                    text += &format!("{dashes}{}|", if left(column) { '-' } else { ':' });
                }
                text.push('\n');
            }
        }
        text
    }
}
