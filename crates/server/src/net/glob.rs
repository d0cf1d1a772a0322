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
//! in linear time.
//!
//! A pattern is compared as a machine whose state `i` means that the first `i` of its parts have
//! been seen. All states that a name can be in are kept as bits, and each byte of the name moves
//! all of them at once. So a comparison takes as many steps as the name has bytes, times
//! [`Pattern::words`], which is 9 for the longest pattern; no pattern makes it try anything again.

/// Bytes of a name for which one word of states has a bit.
const WORD: usize = 64;

/// The most words of states. A pattern with more parts fits nothing: no name has so many bytes.
const WORDS: usize = 9;

/// How many words a pattern has: there is code for each of these, without loops over words.
const SIZES: [usize; 4] = [1, 2, 4, WORDS];

/// A pattern that has been read. A part is whatever stands for one byte.
#[derive(Clone, Debug)]
pub struct Pattern {
    /// How many parts there are. The machine has one state more, the last of which accepts.
    parts: usize,
    /// None, if the pattern fits nothing.
    words: Option<usize>,
    /// For each byte the states in which it is the next part, `words` words each.
    next: Vec<u64>,
    /// The states in which a `*` comes next: any byte leaves the machine there.
    stars: [u64; WORDS],
}

/// A set of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Bytes([u64; 4]);

impl Bytes {
    const NONE: Self = Self([0; 4]);
    const ALL: Self = Self([u64::MAX; 4]);

    fn one(byte: u8) -> Self {
        let mut bytes = Self::NONE;
        bytes.add(byte, byte);
        bytes
    }

    fn add(&mut self, from: u8, to: u8) {
        for byte in from..=to {
            self.0[usize::from(byte >> 6)] |= 1 << (byte & 63);
        }
    }

    fn has(&self, byte: u8) -> bool {
        self.0[usize::from(byte >> 6)] >> (byte & 63) & 1 == 1
    }
}

/// One element of a pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Token {
    Anything,
    OneOf(Bytes),
}

impl Pattern {
    /// Reads a pattern.
    #[must_use]
    pub fn new(pattern: &[u8]) -> Self {
        Self::of(&tokens(pattern))
    }

    fn of(tokens: &[Token]) -> Self {
        let parts = tokens.iter().filter(|token| **token != Token::Anything).count();
        let words = SIZES.into_iter().find(|words| parts < words * WORD);
        let mut this = Self { parts, words, next: Vec::new(), stars: [0; WORDS] };
        let Some(words) = words else { return this };
        this.next = vec![0; 256 * words];
        let mut state = 0;
        for token in tokens {
            let (word, bit) = (state / WORD, 1 << (state % WORD));
            match token {
                Token::Anything => this.stars[word] |= bit,
                Token::OneOf(bytes) => {
                    for byte in (0..=u8::MAX).filter(|byte| bytes.has(*byte)) {
                        this.next[usize::from(byte) * words + word] |= bit;
                    }
                    state += 1;
                }
            }
        }
        this
    }

    /// How many steps a comparison takes for each byte of a name.
    pub(crate) fn words(&self) -> usize {
        self.words.unwrap_or(1)
    }

    /// Whether the pattern fits the whole name.
    #[must_use]
    pub fn fits(&self, name: &[u8]) -> bool {
        if name.len() < self.parts {
            return false;
        }
        match self.words {
            Some(1) => self.fits_in::<1>(name),
            Some(2) => self.fits_in::<2>(name),
            Some(4) => self.fits_in::<4>(name),
            Some(_) => self.fits_in::<WORDS>(name),
            None => false,
        }
    }

    fn fits_in<const WORDS: usize>(&self, name: &[u8]) -> bool {
        let (nexts, _) = self.next.as_chunks::<WORDS>();
        let mut states = [0; WORDS];
        states[0] = 1;
        let (last, accepts) = (self.parts / WORD, 1 << (self.parts % WORD));
        let ends_in_star = self.stars[last] & accepts != 0;
        for &byte in name {
            let next = &nexts[usize::from(byte)];
            let (mut carry, mut any) = (0, 0);
            for at in 0..WORDS {
                let moved = states[at] & next[at];
                states[at] = (moved << 1 | carry) | (states[at] & self.stars[at]);
                carry = moved >> (WORD - 1);
                any |= states[at];
            }
            // Nothing can fit any more, or whatever follows does.
            if any == 0 || ends_in_star && states[last] & accepts != 0 {
                break;
            }
        }
        states[last] & accepts != 0
    }
}

fn tokens(pattern: &[u8]) -> Vec<Token> {
    let mut tokens = Vec::new();
    let mut rest = pattern;
    // If one class has no end, none that begins later has.
    let mut classes_end = true;
    while let Some((&first, after)) = rest.split_first() {
        rest = after;
        let bytes = match (first, after.first()) {
            (b'*', _) => {
                tokens.push(Token::Anything);
                continue;
            }
            (b'?', _) => Bytes::ALL,
            (b'\\', Some(&escaped)) => {
                rest = &after[1..];
                Bytes::one(escaped)
            }
            (b'[', _) if classes_end => match class(after) {
                Some((bytes, behind)) => {
                    rest = behind;
                    bytes
                }
                None => {
                    classes_end = false;
                    Bytes::one(first)
                }
            },
            _ => Bytes::one(first),
        };
        tokens.push(Token::OneOf(bytes));
    }
    tokens
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

    /// The same by going back to the last star: takes long, but not forever.
    fn retried(tokens: &[Token], name: &[u8]) -> bool {
        let (mut at, mut seen, mut star) = (0, 0, None);
        while let Some(&byte) = name.get(seen) {
            match tokens.get(at) {
                Some(Token::Anything) => {
                    star = Some((at, seen));
                    at += 1;
                }
                Some(Token::OneOf(bytes)) if bytes.has(byte) => (at, seen) = (at + 1, seen + 1),
                _ => {
                    let Some((from, end)) = star else { return false };
                    star = Some((from, end + 1));
                    (at, seen) = (from + 1, end + 1);
                }
            }
        }
        tokens[at..].iter().all(|rest| *rest == Token::Anything)
    }

    #[test]
    fn service_f65_the_longest_pattern_is_compared_in_nine_steps_a_byte() {
        let long = |text: &str, count| text.repeat(count);
        for pattern in [long("a", 512), long("*", 512), long("a*", 256), long("[a-z]", 102)] {
            assert!(Pattern::new(pattern.as_bytes()).words() <= 9, "{pattern}");
        }
        assert_eq!(Pattern::new(long("a", 63).as_bytes()).words(), 1);
        assert_eq!(Pattern::new(b"*").words(), 1);
        // More parts than a name can have bytes.
        let endless = Pattern::new(long("?", 100_000).as_bytes());
        assert_eq!(endless.words(), 1, "it is not compared at all");
        assert!(!endless.fits(long("a", 100_000).as_bytes()));
    }

    proptest! {
        #[test]
        fn a_pattern_of_many_words_is_compared_as_a_short_one_is(
            mut parts in vec("[ab?]{1,110}", 1..6),
            star in any::<(bool, bool)>(),
            name in "[ab]{0,520}",
            spot in any::<proptest::sample::Index>(),
        ) {
            // The second name is made from the pattern, so that it fits or nearly does. No pattern
            // has more parts than it may.
            if star.0 {
                parts.insert(0, String::new());
            }
            if star.1 {
                parts.push(String::new());
            }
            let pattern = parts.join("*");
            let tokens = tokens(pattern.as_bytes());
            let mut near = parts.join("b").replace('?', "a").into_bytes();
            let this = Pattern::of(&tokens);
            prop_assert_eq!(this.fits(name.as_bytes()), retried(&tokens, name.as_bytes()));
            prop_assert_eq!(this.fits(&near), retried(&tokens, &near));
            if !near.is_empty() {
                let at = spot.index(near.len());
                near[at] ^= b'a' ^ b'b';
                prop_assert_eq!(this.fits(&near), retried(&tokens, &near));
            }
        }

        #[test]
        fn the_short_way_finds_what_trying_everything_finds(
            pattern in bytes(b"ab*?[]^-\\", 14),
            name in bytes(b"ab[]-^\\", 10),
        ) {
            let tokens = tokens(&pattern);
            prop_assert_eq!(Pattern::of(&tokens).fits(&name), tried(&tokens, &name));
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
            prop_assert!(tokens(&pattern).len() <= pattern.len());
        }
    }
}
