//! Lines of prose in Markdown files end within 100 columns, so that a page can be read in an editor
//! and a change to a sentence is a small diff.
//!
//! Lines that can't be broken are exempt: fenced code, tables, HTML, images, definitions of links,
//! and lines that consist of a single word or a single link.

use super::Finding;
use crate::workspace::File;

const COLUMNS_MAX: usize = 100;

/// `lockspan-bench --record` writes the files in this folder and does not wrap their text: its
/// length depends on what the machine reports (kernel, versions of peers).
const GENERATED: &str = "benches/results/";

pub(super) fn check(file: &File) -> Vec<Finding> {
    if file.path.starts_with(GENERATED) {
        return Vec::new();
    }
    let mut findings = Vec::new();
    let mut inside = Inside::Prose;
    for (number, line) in file.lines() {
        let was = inside;
        inside = was.after(line);
        let is_prose = matches!((was, inside), (Inside::Prose, Inside::Prose));
        let columns = line.chars().count();
        if is_prose && columns > COLUMNS_MAX && can_be_broken(line) {
            let wrong = format!("{columns} columns of prose, {COLUMNS_MAX} at most");
            findings.push(Finding::new(&file.path, number, wrong, "break the line"));
        }
    }
    findings
}

/// The kind of block that continues after a line.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Inside {
    Prose,
    /// Fenced code, by the character and the length of its fence. Only the same character, at least
    /// as often, ends it.
    Fence(char, usize),
    /// `<!-- … -->` over several lines.
    Comment,
}

impl Inside {
    fn after(self, line: &str) -> Self {
        match self {
            Self::Fence(character, length) => {
                let is_end = fence(line).is_some_and(|(other, its_length, rest)| {
                    other == character && its_length >= length && rest.is_empty()
                });
                if is_end { Self::Prose } else { self }
            }
            Self::Comment if line.contains("-->") => Self::Prose,
            Self::Comment => self,
            Self::Prose => match fence(line) {
                Some((character, length, _)) => Self::Fence(character, length),
                None => match line.rsplit_once("<!--") {
                    Some((_, rest)) if !rest.contains("-->") => Self::Comment,
                    _ => self,
                },
            },
        }
    }
}

/// The character of a line's fence, how often it stands there, and what follows it.
fn fence(line: &str) -> Option<(char, usize, &str)> {
    let line = line.trim();
    let character = line.chars().next().filter(|character| matches!(character, '`' | '~'))?;
    let rest = line.trim_start_matches(character);
    let length = line.len() - rest.len();
    let is_fence = length >= 3 && !rest.contains('`');
    is_fence.then_some((character, length, rest))
}

fn can_be_broken(line: &str) -> bool {
    let text = without_marker(line.trim());
    let is_table = text.starts_with('|');
    let is_html = text.starts_with('<');
    let is_image = text.starts_with("![") || text.starts_with("[![");
    let is_definition = text.starts_with('[') && text.contains("]: ");
    let is_word = !text.contains(char::is_whitespace);
    !(is_table || is_html || is_image || is_definition || is_word || is_one_link(text))
}

/// `[text](target)`, perhaps with punctuation behind it.
fn is_one_link(text: &str) -> bool {
    let Some((_, rest)) = text.strip_prefix('[').and_then(|rest| rest.split_once("](")) else {
        return false;
    };
    let Some((_, behind)) = rest.split_once(')') else { return false };
    behind.chars().all(|character| character.is_ascii_punctuation())
}

/// The text of a quotation or of a list item, without what marks it as one.
fn without_marker(text: &str) -> &str {
    let Some((marker, rest)) = text.split_once(' ') else { return text };
    let digits = marker.trim_end_matches(['.', ')']);
    let is_number = digits.len() + 1 == marker.len()
        && !digits.is_empty()
        && digits.bytes().all(|byte| byte.is_ascii_digit());
    if is_number || matches!(marker, "-" | "*" | "+" | ">") {
        without_marker(rest.trim_start())
    } else {
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A hundred columns of words and one more.
    fn long() -> String {
        format!("{}ab", "words ".repeat(16)) + "cde"
    }

    fn lines(path: &str, text: &str) -> Vec<usize> {
        let findings = check(&File { path: path.to_owned(), text: text.to_owned() });
        findings.into_iter().map(|finding| finding.line).collect()
    }

    fn found(text: &str) -> Vec<usize> {
        lines("docs/a.md", text)
    }

    #[test]
    fn a_hundred_columns_pass_and_one_more_does_not() {
        let long = long();
        assert_eq!(long.chars().count(), 101);
        assert!(found(&long[..100]).is_empty());
        assert_eq!(found(&format!("short\n{long}\n")), [2]);
        let wide = "é ".repeat(50);
        assert!(found(&wide).is_empty(), "columns are counted in characters");
    }

    #[test]
    fn headings_lists_and_quotations_are_prose() {
        for marker in ["# ", "- ", "  - ", "12. ", "> ", "> - "] {
            assert_eq!(found(&format!("{marker}{}", long())), [1], "{marker}");
        }
    }

    #[test]
    fn code_tables_html_and_images_may_be_wide() {
        let long = long();
        assert!(found(&format!("```text\n{long}\n```\n")).is_empty());
        assert!(found(&format!("- item\n  ~~~\n  {long}\n  ~~~\n")).is_empty());
        assert!(found(&format!("| a | {long} |\n")).is_empty());
        assert!(found(&format!("<!-- {long} -->\n<img alt=\"{long}\">\n")).is_empty());
        assert!(found(&format!("<!--\n{long}\n-->\n")).is_empty());
        assert!(found(&format!("![{long}](a.png)\n")).is_empty());
    }

    #[test]
    fn what_follows_code_or_a_comment_is_prose_again() {
        let long = long();
        assert_eq!(found(&format!("```\n```\n{long}\n")), [3]);
        assert_eq!(found(&format!("````\n```\n{long}\n````\n{long}\n")), [5]);
        assert_eq!(found(&format!("<!-- a\nb -->\n{long}\n")), [3]);
        assert_eq!(found(&format!("a <!-- b --> c\n{long}\n")), [2]);
        assert_eq!(found(&format!("`code` and ```code```\n{long}\n")), [2]);
    }

    #[test]
    fn what_can_not_be_broken_may_be_wide() {
        let word = "x".repeat(120);
        assert!(found(&word).is_empty());
        assert!(found(&format!("  - `{word}`\n1. https://{word}\n")).is_empty());
        assert!(found(&format!("- [a title](https://{word}).\n")).is_empty());
        assert!(found(&format!("[a title]: https://{word}\n")).is_empty());
        assert_eq!(found(&format!("see [a title](https://{word})\n")), [1]);
        assert_eq!(found(&format!("[a title](https://{word}) and more\n")), [1]);
    }

    #[test]
    fn results_of_benchmarks_are_written_by_programs() {
        assert!(lines("benches/results/redis/2026-01-01-host/summary.md", &long()).is_empty());
        assert_eq!(lines("benches/README.md", &long()), [1]);
        assert_eq!(lines("benches/results-by-hand/a.md", &long()), [1]);
    }
}
