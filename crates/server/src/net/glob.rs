//! Names with `*` (anything) and `?` (one byte).

/// Whether the pattern fits the whole name.
pub(crate) fn fits(pattern: &[u8], name: &[u8]) -> bool {
    let (mut at, mut seen) = (0, 0);
    // Where the last star was, and where in the name it ended so far.
    let mut star: Option<(usize, usize)> = None;
    while seen < name.len() {
        match pattern.get(at) {
            Some(b'*') => {
                star = Some((at, seen));
                at += 1;
            }
            Some(&wanted) if wanted == b'?' || wanted == name[seen] => {
                at += 1;
                seen += 1;
            }
            _ => {
                let Some((star_at, star_end)) = star else { return false };
                star = Some((star_at, star_end + 1));
                (at, seen) = (star_at + 1, star_end + 1);
            }
        }
    }
    pattern[at..].iter().all(|&rest| rest == b'*')
}

#[cfg(test)]
mod tests {
    use super::fits;

    #[test]
    fn patterns() {
        for (pattern, name, expected) in [
            ("*", "", true),
            ("", "", true),
            ("", "a", false),
            ("a*", "abc", true),
            ("*c", "abc", true),
            ("a?c", "abc", true),
            ("a?c", "ac", false),
            ("a*b*c", "axxbyyc", true),
            ("a*b*c", "axxbyy", false),
            ("*aab", "aaaaaab", true),
            ("invoice:*", "order:1", false),
        ] {
            assert_eq!(fits(pattern.as_bytes(), name.as_bytes()), expected, "{pattern} {name}");
        }
    }
}
