//! Text for people: the label of a session and the note of an acquire. It decides nothing.

use std::fmt;
use std::sync::Arc;

/// The label of a session (who it is) or the note of an acquire (what it is for).
///
/// At most [`Annotation::LEN_MAX`] bytes of UTF-8, not empty, and without characters that do not
/// show themselves or that change how others are shown: control characters, line separators and
/// marks of writing direction. So it can be written to a terminal or a log as it is. In HTML it has
/// to be escaped.
///
/// ```
/// use lockspan_protocol::{Annotation, BadAnnotation};
///
/// let note: Annotation = "nightly import".parse()?;
/// assert_eq!(note.as_str(), "nightly import");
/// assert_eq!(Annotation::new("two\nlines"), Err(BadAnnotation::Hidden { at: 3 }));
/// # Ok::<(), BadAnnotation>(())
/// ```
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Annotation(Arc<str>);

/// Why a text can be neither a label nor a note.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum BadAnnotation {
    /// It is empty.
    Empty,
    /// It is longer than [`Annotation::LEN_MAX`].
    TooLong {
        /// Its length in bytes.
        len: usize,
    },
    /// It is not UTF-8.
    NotUtf8 {
        /// The offset of the first byte that is not.
        at: usize,
    },
    /// It has a control character, or another one that does not show itself.
    Hidden {
        /// The offset of the first such character, in bytes.
        at: usize,
    },
}

impl Annotation {
    /// The greatest length, in bytes.
    pub const LEN_MAX: usize = 256;

    /// Checks the text, and keeps a copy of it.
    pub fn new(text: impl AsRef<[u8]>) -> Result<Self, BadAnnotation> {
        Self::check(text.as_ref()).map(|text| Self(text.into()))
    }

    /// Whether a text can be an annotation. Allocates nothing.
    pub fn check(bytes: &[u8]) -> Result<&str, BadAnnotation> {
        if bytes.is_empty() {
            return Err(BadAnnotation::Empty);
        }
        if bytes.len() > Self::LEN_MAX {
            return Err(BadAnnotation::TooLong { len: bytes.len() });
        }
        let text = std::str::from_utf8(bytes)
            .map_err(|error| BadAnnotation::NotUtf8 { at: error.valid_up_to() })?;
        match text.char_indices().find(|&(_, letter)| is_hidden(letter)) {
            Some((at, _)) => Err(BadAnnotation::Hidden { at }),
            None => Ok(text),
        }
    }

    /// Makes a text fit: hidden characters and what is not UTF-8 become question marks, and it is
    /// cut at [`Annotation::LEN_MAX`]. `None` if nothing is left. For texts that nobody chose as an
    /// annotation, such as the name of a program.
    #[must_use]
    pub fn fitted(text: &str) -> Option<Self> {
        let mut fitted: String =
            text.chars().map(|letter| if is_hidden(letter) { '?' } else { letter }).collect();
        fitted.truncate(fitted.floor_char_boundary(Self::LEN_MAX));
        (!fitted.is_empty()).then(|| Self(fitted.into()))
    }

    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Whether a character does not show itself, or changes how others are shown: a text with it could
/// look like another.
#[must_use]
pub fn is_hidden(letter: char) -> bool {
    letter.is_control()
        || matches!(letter,
            '\u{ad}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}'
            | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}'
            | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}' | '\u{e0000}'..='\u{e0fff}')
}

impl std::str::FromStr for Annotation {
    type Err = BadAnnotation;

    fn from_str(text: &str) -> Result<Self, BadAnnotation> {
        Self::new(text)
    }
}

impl AsRef<str> for Annotation {
    fn as_ref(&self) -> &str {
        self.as_str()
    }
}

impl fmt::Display for Annotation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl fmt::Debug for Annotation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}

impl fmt::Display for BadAnnotation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str("the text is empty"),
            Self::TooLong { len } => {
                write!(f, "the text has {len} bytes; {} is the most", Annotation::LEN_MAX)
            }
            Self::NotUtf8 { at } => write!(f, "the text is not UTF-8 at byte {at}"),
            Self::Hidden { at } => {
                write!(f, "the text has a control or hidden character at byte {at}")
            }
        }
    }
}

impl std::error::Error for BadAnnotation {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_that_shows_itself_is_taken_as_it_is() {
        for text in ["a", "billing@host9[412]", "straße <b>&amp;</b> 日本", &"x".repeat(256)] {
            assert_eq!(Annotation::new(text).unwrap().as_str(), text);
        }
    }

    #[test]
    fn everything_else_is_refused_with_its_reason() {
        use BadAnnotation::*;
        let cases: [(&[u8], BadAnnotation); 7] = [
            (b"", Empty),
            (&[b'x'; 257], TooLong { len: 257 }),
            (b"ab\xff", NotUtf8 { at: 2 }),
            (b"a\x1b[2J", Hidden { at: 1 }),
            (b"one\ntwo", Hidden { at: 3 }),
            ("é\u{202e}".as_bytes(), Hidden { at: 2 }),
            ("a\u{200b}".as_bytes(), Hidden { at: 1 }),
        ];
        for (text, why) in cases {
            assert_eq!(Annotation::new(text), Err(why), "{text:?}");
        }
    }

    #[test]
    fn a_text_that_nobody_chose_is_made_to_fit() {
        assert_eq!(Annotation::fitted(""), None);
        assert_eq!(Annotation::fitted("a\nb").unwrap().as_str(), "a?b");
        let long = Annotation::fitted(&"é".repeat(200)).unwrap();
        assert_eq!(long.as_str().len(), 256);
        assert_eq!(Annotation::new(long.as_str()), Ok(long));
    }
}
