//! A SAFETY comment argues. One that only satisfies the lint is worse than none.

use super::Finding;
use crate::workspace::File;

/// Fewer words than this argue nothing: "as above", "untriaged".
const WORDS_MIN: usize = 3;
/// Cut in two, or clippy would take it for such a comment.
const MARK: &str = concat!("// SAFE", "TY:");
/// What people write instead of an argument.
const PLACEHOLDERS: [&str; 5] =
    ["untriaged", "trust me", "obviously", "it is safe", "this is safe"];

pub(super) fn check(file: &File) -> Vec<Finding> {
    let lines: Vec<&str> = file.text.lines().map(str::trim_start).collect();
    let mut findings = Vec::new();
    for (index, line) in lines.iter().enumerate() {
        let Some(first) = line.strip_prefix(MARK) else { continue };
        let more = lines[index + 1..].iter().map_while(|line| line.strip_prefix("//"));
        let argument = std::iter::once(first).chain(more).collect::<Vec<_>>().join(" ");
        if let Some(wrong) = fault(&argument) {
            let todo = "answer each point of the callee's `# Safety`";
            findings.push(Finding::new(&file.path, index + 1, wrong, todo));
        }
    }
    findings
}

/// What is wrong with the argument, if anything is.
fn fault(argument: &str) -> Option<String> {
    let lower = argument.to_lowercase();
    let words = lower.split_whitespace().count();
    let placeholder = PLACEHOLDERS.iter().find(|placeholder| {
        // A long argument may well contain such words; a short one is nothing else.
        lower.contains(**placeholder) && words < 2 * WORDS_MIN
    });
    match placeholder {
        Some(placeholder) => Some(format!("the SAFETY comment says only \"{placeholder}\"")),
        None if words < WORDS_MIN => Some("the SAFETY comment argues nothing".to_owned()),
        None => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(text: &str) -> usize {
        check(&File { path: "a.rs".to_owned(), text: text.to_owned() }).len()
    }

    #[test]
    fn an_argument_passes_on_one_line_or_several() {
        assert_eq!(findings("// SAFETY: by I3 the node is still on its owner's stack."), 0);
        assert_eq!(findings("// SAFETY:\n// - the pointer came from a live box,\nunsafe {}"), 0);
    }

    #[test]
    fn empty_and_placeholder_comments_are_found() {
        assert_eq!(findings("    // SAFETY:\n    unsafe {}"), 1);
        assert_eq!(findings("// SAFETY: Untriaged."), 1);
        assert_eq!(findings("// SAFETY: as above."), 1);
        assert_eq!(findings("// SAFETY: obviously this is safe."), 1);
    }
}
