//! What every source file looks like: size, width, header, no unfinished work.

use super::Finding;
use crate::workspace::File;

const LINES_MAX: usize = 800;
const COLUMNS_MAX: usize = 100;

/// Words that mark work as unfinished, cut in two so that this file passes its own check.
const UNFINISHED: [&str; 5] = [
    concat!("TO", "DO"),
    concat!("FIX", "ME"),
    concat!("to", "do!"),
    concat!("unimplemented", "!"),
    concat!("#[ign", "ore"),
];

pub(super) fn check(file: &File) -> Vec<Finding> {
    let mut findings = Vec::new();
    let lines = file.text.lines().count();
    if lines > LINES_MAX && !file.path.ends_with(".toml") {
        let wrong = format!("{lines} lines, {LINES_MAX} at most");
        findings.push(Finding::new(&file.path, lines, wrong, "split it where it has a seam"));
    }
    for (number, line) in file.lines() {
        for word in UNFINISHED.iter().filter(|word| line.contains(**word)) {
            let todo = "finish it, or open an issue";
            findings.push(Finding::new(&file.path, number, format!("`{word}`"), todo));
        }
    }
    if file.path.ends_with(".rs") {
        check_rust(file, &mut findings);
    }
    findings
}

fn check_rust(file: &File, findings: &mut Vec<Finding>) {
    if !file.text.starts_with("//!") {
        let wrong = "the first line is no `//!` header";
        findings.push(Finding::new(&file.path, 1, wrong, "say in a sentence what the file is for"));
    }
    for (number, line) in file.lines() {
        let columns = line.chars().count();
        if columns > COLUMNS_MAX {
            let wrong = format!("{columns} columns, {COLUMNS_MAX} at most");
            findings.push(Finding::new(&file.path, number, wrong, "break the line"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(path: &str, text: &str) -> usize {
        check(&File { path: path.to_owned(), text: text.to_owned() }).len()
    }

    #[test]
    fn a_plain_file_passes() {
        assert_eq!(findings("a.rs", "//! A file.\n\nfn f() {}\n"), 0);
    }

    #[test]
    fn a_missing_header_is_found_in_rust_only() {
        assert_eq!(findings("a.rs", "fn f() {}\n"), 1);
        assert_eq!(findings("a.toml", "[package]\n"), 0);
    }

    #[test]
    fn width_is_counted_in_characters() {
        assert_eq!(findings("a.rs", &format!("//! {}\n", "é".repeat(96))), 0);
        assert_eq!(findings("a.rs", &format!("//! {}\n", "é".repeat(97))), 1);
    }

    #[test]
    fn long_files_are_found() {
        assert_eq!(findings("a.rs", &"//! x\n".repeat(800)), 0);
        assert_eq!(findings("a.rs", &"//! x\n".repeat(801)), 1);
    }

    #[test]
    fn unfinished_work_is_found() {
        for word in UNFINISHED {
            assert_eq!(findings("a.rs", &format!("//! x\n// {word}\n")), 1, "{word}");
        }
    }
}
