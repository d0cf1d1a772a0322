//! Plain text tables for a terminal.

/// Prints `rows` under `head` in aligned columns. The last column is not padded.
pub(crate) fn print(head: &[&str], rows: &[Vec<String>]) {
    print!("{}", render(head, rows));
}

fn render(head: &[&str], rows: &[Vec<String>]) -> String {
    let head: Vec<String> = head.iter().map(|&cell| cell.to_owned()).collect();
    let widths: Vec<usize> = (0..head.len())
        .map(|column| {
            let cells = rows.iter().chain([&head]).map(|row| row[column].chars().count());
            cells.max().unwrap_or(0)
        })
        .collect();
    let rule: Vec<String> = widths.iter().map(|&width| "-".repeat(width)).collect();
    [&head, &rule].into_iter().chain(rows).map(|row| line(row, &widths)).collect()
}

fn line(row: &[String], widths: &[usize]) -> String {
    let cells: Vec<String> =
        row.iter().zip(widths).map(|(cell, width)| format!("{cell:<width$}")).collect();
    format!("{}\n", cells.join("  ").trim_end())
}

#[cfg(test)]
mod tests {
    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let rows = [vec!["a".to_owned(), "long cell".to_owned()]];
        let expected = "step  what\n----  ---------\na     long cell\n";
        assert_eq!(super::render(&["step", "what"], &rows), expected);
    }
}
