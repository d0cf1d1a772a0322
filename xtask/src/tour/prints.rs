//! Whether a program printed what a page says. `…` stands for any text within a line, and a line
//! that is only `…` for any lines. How many blanks there are in a row does not matter: columns are
//! as wide as what stands in them.

/// True if `printed` is all that `expected` says, and nothing else.
pub(super) fn whole(expected: &str, printed: &str) -> bool {
    let expected: Vec<&str> = expected.lines().collect();
    let printed: Vec<&str> = printed.lines().collect();
    lines(&expected, &printed)
}

fn lines(expected: &[&str], printed: &[&str]) -> bool {
    match (expected, printed) {
        ([], printed) => printed.is_empty(),
        (["…", rest @ ..], printed) => {
            (0..=printed.len()).any(|skipped| lines(rest, &printed[skipped..]))
        }
        ([first, rest @ ..], [line, others @ ..]) => is_line(first, line) && lines(rest, others),
        (_, []) => false,
    }
}

/// True if the lines of `expected` are among those of `printed`, in this order.
pub(super) fn among(expected: &str, printed: &str) -> bool {
    let mut printed = printed.lines();
    expected.lines().all(|wanted| printed.any(|line| is_line(wanted, line)))
}

fn is_line(expected: &str, line: &str) -> bool {
    let squeezed = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let (expected, line) = (squeezed(expected), squeezed(line));
    let Some((first, rest)) = expected.split_once('…') else { return expected == line };
    let Some(mut line) = line.strip_prefix(first) else { return false };
    let mut parts: Vec<&str> = rest.split('…').collect();
    let last = parts.pop().unwrap_or_default();
    for part in parts {
        let Some((_, after)) = line.split_once(part) else { return false };
        line = after;
    }
    line.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_compared_around_the_dots() {
        assert!(is_line("token …", "token 7"));
        assert!(is_line("… listening on …; data in …", "12:00 listening on x; data in y"));
        assert!(is_line("W …  W …", "W 17   W 18"));
        assert!(!is_line("token …", "no token 7"));
        assert!(!is_line("a…b", "a"));
        assert!(!is_line("exit code 75", "exit code 7"));
        assert!(!is_line("…ab", "b"));
    }

    #[test]
    fn nothing_may_be_missing_and_nothing_too_much() {
        assert!(whole("a\n…\nd\n", "a\nb\nc\nd\n"));
        assert!(whole("", ""));
        for printed in ["", "a\n", "a\nd\ne\n", "d\na\n"] {
            assert!(!whole("a\n…\nd\n", printed), "{printed}");
        }
        assert!(!whole("a\n", ""));
        assert!(!whole("", "a\n"));
    }

    #[test]
    fn a_program_that_goes_on_may_say_more() {
        assert!(among("a\nc\n", "x\na\nb\nc\nd\n"));
        assert!(!among("c\na\n", "a\nb\nc\n"));
    }
}
