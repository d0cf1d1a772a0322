//! Tables for people: columns, which on a terminal are cut so that a row is a line.

use std::io::{IsTerminal as _, stdout};

use ratatui::text::Span;

/// What is left of a column that is cut, at least.
const LEAST: usize = 10;

/// Between two columns.
const GAP: usize = 2;

/// What may be cut of a column where there is no room for all of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cut {
    /// Nothing.
    Never,
    /// The middle of a cell: begin and end tell names apart.
    Middle,
    /// The end of a cell.
    End,
    /// The whole column.
    Whole,
}

/// The columns of the terminal that stdout is; `None` if it is none, so that nothing is cut.
pub(crate) fn terminal_width() -> Option<usize> {
    if !stdout().is_terminal() {
        return None;
    }
    let size = rustix::termios::tcgetwinsize(stdout()).ok()?;
    Some(usize::from(size.ws_col)).filter(|&columns| columns > 0)
}

/// How many columns of a terminal a text takes.
pub(crate) fn width(text: &str) -> usize {
    Span::raw(text).width()
}

/// A head and rows in columns. Nothing is cut without a `room`; otherwise no line is longer.
pub(crate) fn table<const N: usize>(
    head: [(&str, Cut); N],
    rows: &[[String; N]],
    room: Option<usize>,
) -> String {
    let names = head.map(|(name, _)| name.to_owned());
    let widest = |at: usize| {
        let cells = std::iter::once(&names).chain(rows).map(|row| width(&row[at]));
        cells.max().unwrap_or(0)
    };
    let mut widths: [Option<usize>; N] = std::array::from_fn(|at| Some(widest(at)));
    if let Some(room) = room {
        fit(&mut widths, &head.map(|(_, cut)| cut), room);
    }
    let line = |row: &[String; N]| {
        let mut text = String::new();
        for ((cell, width), (_, cut)) in row.iter().zip(widths).zip(head) {
            let Some(most) = width else { continue };
            let cell = match cut {
                Cut::Middle => without_middle(cell, most),
                _ => without_end(cell, most),
            };
            let blanks = most.saturating_sub(self::width(&cell)) + GAP;
            text.push_str(&cell);
            text.extend(std::iter::repeat_n(' ', blanks));
        }
        let text = text.trim_end();
        format!("{}\n", room.map_or_else(|| text.to_owned(), |room| without_end(text, room)))
    };
    std::iter::once(&names).chain(rows).map(line).collect()
}

/// Rows in columns, the first of them the head; nothing is cut.
pub(crate) fn columns<const N: usize>(rows: &[[String; N]]) -> String {
    let Some((head, rows)) = rows.split_first() else { return String::new() };
    table(std::array::from_fn(|at| (&*head[at], Cut::Never)), rows, None)
}

/// Makes columns narrower until they fit, or leaves them out.
fn fit<const N: usize>(widths: &mut [Option<usize>; N], cuts: &[Cut; N], room: usize) {
    let over = |widths: &[Option<usize>; N]| {
        let all: Vec<usize> = widths.iter().copied().flatten().collect();
        (all.iter().sum::<usize>() + GAP * all.len().saturating_sub(1)).saturating_sub(room)
    };
    for at in 0..N {
        if over(widths) > 0 && cuts[at] == Cut::Whole {
            widths[at] = None;
        }
    }
    // The widest of them is cut, one column at a time.
    while over(widths) > 0 {
        let narrower = (0..N).filter(|&at| matches!(cuts[at], Cut::Middle | Cut::End));
        let Some(at) = narrower.max_by_key(|&at| widths[at]) else { return };
        match &mut widths[at] {
            Some(width) if *width > LEAST => *width -= 1,
            _ => return,
        }
    }
}

/// A text of at most `most` columns: `billing-im…@host9[412]`.
pub(crate) fn without_middle(text: &str, most: usize) -> String {
    if width(text) <= most || most == 0 {
        return without_end(text, most);
    }
    let begin = first(text.chars(), (most - 1) / 2);
    let end = first(text.chars().rev(), most - 1 - width(&begin));
    format!("{begin}…{}", end.chars().rev().collect::<String>())
}

/// A text of at most `most` columns, with `…` in the place of what is cut.
pub(crate) fn without_end(text: &str, most: usize) -> String {
    if width(text) <= most {
        return text.to_owned();
    }
    match most {
        0 => String::new(),
        _ => format!("{}…", first(text.chars(), most - 1)),
    }
}

/// As many letters as fit.
fn first(letters: impl Iterator<Item = char>, most: usize) -> String {
    let mut text = String::new();
    let mut used = 0;
    for letter in letters {
        used += width(letter.encode_utf8(&mut [0; 4]));
        if used > most {
            break;
        }
        text.push(letter);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(room: Option<usize>) -> String {
        let head =
            [("NAME", Cut::Middle), ("AGE", Cut::Never), ("TOKEN", Cut::Whole), ("NOTE", Cut::End)];
        let row = |cells: [&str; 4]| cells.map(str::to_owned);
        let rows = [
            row(["billing-importer@host9[412]", "3m12s", "1099511627777", "the nightly import"]),
            row(["a@b[1]", "1s", "-", "-"]),
        ];
        table(head, &rows, room)
    }

    #[test]
    fn without_a_terminal_nothing_is_cut() {
        assert_eq!(
            shown(None),
            "NAME                         AGE    TOKEN          NOTE\n\
             billing-importer@host9[412]  3m12s  1099511627777  the nightly import\n\
             a@b[1]                       1s     -              -\n"
        );
    }

    #[test]
    fn where_there_is_less_room_columns_are_left_out_and_then_cut() {
        assert_eq!(
            shown(Some(60)),
            "NAME                         AGE    NOTE\n\
             billing-importer@host9[412]  3m12s  the nightly import\n\
             a@b[1]                       1s     -\n"
        );
        assert_eq!(
            shown(Some(40)),
            "NAME             AGE    NOTE\n\
             billing…st9[412]  3m12s  the nightly im…\n\
             a@b[1]            1s     -\n"
                .replace("NAME             AGE", "NAME              AGE")
        );
        for room in 0..80 {
            for line in shown(Some(room)).lines() {
                assert!(width(line) <= room, "{room}: {line}");
            }
        }
    }

    #[test]
    fn wide_letters_count_twice() {
        assert_eq!(without_end("日本語", 6), "日本語");
        assert_eq!(without_end("日本語", 5), "日本…");
        assert_eq!(without_end("日本語", 4), "日…");
        assert_eq!(without_middle("日本語日本語", 7), "日…本語");
        assert_eq!(without_middle("abc", 0), "");
        assert_eq!(without_middle("abc", 1), "…");
    }
}
