//! Names for people. They are bytes of whoever chose them.

/// Text as it is, unless a reader, a terminal or a log could be misled by it; otherwise all that is
/// not ASCII is escaped.
#[must_use]
pub fn readable(bytes: &[u8]) -> String {
    match std::str::from_utf8(bytes) {
        Ok(text) if !text.chars().any(is_hidden) => text.to_owned(),
        _ => bytes.escape_ascii().to_string(),
    }
}

/// What does not show itself, or changes how others are shown: a name could look like another.
fn is_hidden(letter: char) -> bool {
    letter.is_control()
        || matches!(letter,
            '\u{ad}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}'
            | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}'
            | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}' | '\u{e0000}'..='\u{e0fff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_show_all_that_is_in_them() {
        assert_eq!(readable("straße:7 <b>".as_bytes()), "straße:7 <b>");
        assert_eq!(readable(b"a:\x1b[2J\xff"), r"a:\x1b[2J\xff");
        for trick in ["a:\u{202e}7", "a:1\u{200b}", "a:\u{2066}x", "a:\u{feff}", "a:\u{e0041}"] {
            let shown = readable(trick.as_bytes());
            assert!(shown.is_ascii() && shown.contains(r"\x"), "{shown}");
        }
    }
}
