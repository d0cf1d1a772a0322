//! Patterns for names, as Redis has them.
//!
//! | in a pattern | stands for |
//! |---|---|
//! | `*` | any bytes, also none |
//! | `?` | one byte |
//! | `[abc]`, `[a-z]` | one of these bytes |
//! | `[^a-z]` | one byte that is none of these |
//! | `\x` | the byte `x`, whatever it stands for otherwise |
//!
//! A `[` without its `]` stands for itself, and so does a `\` at the end. A pattern is read once,
//! in linear time. To compare it with a name takes at most as many steps as both have bytes,
//! multiplied: only the last `*` is ever tried again.

/// A pattern that has been read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Pattern(Vec<Token>);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Token {
    Anything,
    Byte(u8),
    OneOf(Bytes),
}

/// A set of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Bytes([u64; 4]);

impl Bytes {
    const NONE: Self = Self([0; 4]);
    const ALL: Self = Self([u64::MAX; 4]);

    fn add(&mut self, from: u8, to: u8) {
        for byte in from..=to {
            self.0[usize::from(byte >> 6)] |= 1 << (byte & 63);
        }
    }

    fn has(&self, byte: u8) -> bool {
        self.0[usize::from(byte >> 6)] >> (byte & 63) & 1 == 1
    }
}

impl Pattern {
    pub(crate) fn new(pattern: &[u8]) -> Self {
        let mut tokens = Vec::new();
        let mut rest = pattern;
        // If one class has no end, none that begins later has.
        let mut classes_end = true;
        while let Some((&first, after)) = rest.split_first() {
            rest = after;
            tokens.push(match (first, after.first()) {
                (b'*', _) => Token::Anything,
                (b'?', _) => Token::OneOf(Bytes::ALL),
                (b'\\', Some(&escaped)) => {
                    rest = &after[1..];
                    Token::Byte(escaped)
                }
                (b'[', _) if classes_end => match class(after) {
                    Some((bytes, behind)) => {
                        rest = behind;
                        Token::OneOf(bytes)
                    }
                    None => {
                        classes_end = false;
                        Token::Byte(first)
                    }
                },
                _ => Token::Byte(first),
            });
        }
        tokens.dedup_by(|next, before| *next == Token::Anything && next == before);
        Self(tokens)
    }

    /// Whether the pattern fits the whole name.
    pub(crate) fn fits(&self, name: &[u8]) -> bool {
        let (mut at, mut seen) = (0, 0);
        // Where the last star was, and where in the name it ended so far.
        let mut star: Option<(usize, usize)> = None;
        while let Some(&byte) = name.get(seen) {
            let is_fit = match self.0.get(at) {
                Some(Token::Anything) => {
                    star = Some((at, seen));
                    at += 1;
                    continue;
                }
                Some(Token::Byte(wanted)) => *wanted == byte,
                Some(Token::OneOf(bytes)) => bytes.has(byte),
                None => false,
            };
            if is_fit {
                at += 1;
                seen += 1;
            } else {
                let Some((star_at, star_end)) = star else { return false };
                star = Some((star_at, star_end + 1));
                (at, seen) = (star_at + 1, star_end + 1);
            }
        }
        self.0[at..].iter().all(|rest| *rest == Token::Anything)
    }
}

/// The class that begins behind a `[`, and what is behind its `]`; none if it has no end.
fn class(mut rest: &[u8]) -> Option<(Bytes, &[u8])> {
    let mut bytes = Bytes::NONE;
    let is_inverted = rest.first() == Some(&b'^');
    if is_inverted {
        rest = &rest[1..];
    }
    loop {
        let (from, after) = match rest {
            [b']', after @ ..] => {
                let inverted = Bytes(bytes.0.map(|bits| !bits));
                return Some((if is_inverted { inverted } else { bytes }, after));
            }
            [b'\\', escaped, after @ ..] => (*escaped, after),
            [byte, after @ ..] => (*byte, after),
            [] => return None,
        };
        let (to, after) = match after {
            [b'-', b'\\', escaped, after @ ..] => (*escaped, after),
            [b'-', to, after @ ..] if *to != b']' => (*to, after),
            after => (from, after),
        };
        bytes.add(from.min(to), from.max(to));
        rest = after;
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    fn fits(pattern: &str, name: &str) -> bool {
        Pattern::new(pattern.as_bytes()).fits(name.as_bytes())
    }

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
            ("[a-c]:?", "b:1", true),
            ("[a-c]:?", "d:1", false),
            ("[c-a]x", "bx", true),
            ("[^a-c]x", "bx", false),
            ("[^a-c]x", "zx", true),
            ("*[0-9]", "doc:17", true),
            ("*[0-9]", "doc:x", false),
            ("[]a", "a", false),
            ("[^]a", "ba", true),
            ("[a-]", "-", true),
            ("[\\]]", "]", true),
            ("[a", "[a", true),
            ("[[[", "[[[", true),
            ("a\\*", "a*", true),
            ("a\\*", "ab", false),
            ("a\\", "a\\", true),
            ("[^\\^]", "^", false),
        ] {
            assert_eq!(fits(pattern, name), expected, "{pattern} {name}");
        }
    }

    /// The same by trying everything.
    fn tried(tokens: &[Token], name: &[u8]) -> bool {
        match (tokens.split_first(), name.split_first()) {
            (None, None) => true,
            (Some((Token::Anything, rest)), _) => {
                tried(rest, name) || !name.is_empty() && tried(tokens, &name[1..])
            }
            (Some((Token::Byte(wanted), rest)), Some((byte, name))) => {
                wanted == byte && tried(rest, name)
            }
            (Some((Token::OneOf(bytes), rest)), Some((byte, name))) => {
                bytes.has(*byte) && tried(rest, name)
            }
            _ => false,
        }
    }

    /// Few different bytes, so that patterns often fit.
    fn bytes(of: &'static [u8], most: usize) -> impl Strategy<Value = Vec<u8>> {
        vec(proptest::sample::select(of), 0..most)
    }

    proptest! {
        #[test]
        fn the_short_way_finds_what_trying_everything_finds(
            pattern in bytes(b"ab*?[]^-\\", 14),
            name in bytes(b"ab[]-^\\", 10),
        ) {
            let pattern = Pattern::new(&pattern);
            prop_assert_eq!(pattern.fits(&name), tried(&pattern.0, &name));
        }

        #[test]
        fn a_class_has_its_bytes_and_no_others(from in any::<u8>(), to in any::<u8>(), byte: u8) {
            let escaped = [b'[', b'\\', from, b'-', b'\\', to, b']'];
            let inverted = [b'[', b'^', b'\\', from, b'-', b'\\', to, b']'];
            let is_in = (from.min(to)..=from.max(to)).contains(&byte);
            prop_assert_eq!(Pattern::new(&escaped).fits(&[byte]), is_in);
            prop_assert_eq!(Pattern::new(&inverted).fits(&[byte]), !is_in);
        }

        #[test]
        fn an_escaped_name_fits_itself_alone(
            name in vec(any::<u8>(), 0..20),
            other in vec(any::<u8>(), 0..20),
        ) {
            let escaped: Vec<u8> = name.iter().flat_map(|&byte| [b'\\', byte]).collect();
            prop_assert!(Pattern::new(&escaped).fits(&name));
            prop_assert_eq!(Pattern::new(&escaped).fits(&other), name == other);
        }

        #[test]
        fn a_pattern_has_no_more_parts_than_bytes(pattern in vec(any::<u8>(), 0..600)) {
            prop_assert!(Pattern::new(&pattern).0.len() <= pattern.len());
        }
    }
}
