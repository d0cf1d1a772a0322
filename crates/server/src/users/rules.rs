//! Which datatypes a user may do something to.

use super::Verb;

/// What each verb is allowed for.
#[derive(Debug, Default)]
pub(super) struct Rules([Vec<Pattern>; 4]);

/// A datatype, or how some of them begin.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Pattern {
    /// `invoice`: this one.
    Exactly(Box<[u8]>),
    /// `invoice*`: all that begin so; `*`: all.
    Begins(Box<[u8]>),
}

impl Pattern {
    /// Reads one; the error is the end of a sentence that begins with the text.
    pub(super) fn parse(text: &str) -> Result<Self, &'static str> {
        let (name, begins) = match text.strip_suffix('*') {
            Some(start) => (start, true),
            None => (text, false),
        };
        if name.contains(['*', ':']) {
            return Err("is not a datatype: a colon is not allowed, and * only at the end");
        }
        if name.is_empty() && !begins {
            return Err("is not a datatype: use * for all of them");
        }
        let name = name.as_bytes().into();
        Ok(if begins { Self::Begins(name) } else { Self::Exactly(name) })
    }

    pub(super) fn fits(&self, datatype: &[u8]) -> bool {
        match self {
            Self::Exactly(name) => **name == *datatype,
            Self::Begins(start) => datatype.starts_with(start),
        }
    }

    fn fits_all(&self) -> bool {
        matches!(self, Self::Begins(start) if start.is_empty())
    }
}

impl Rules {
    pub(super) fn add(&mut self, verb: Verb, pattern: Pattern) {
        // Who may keep all others out may also look on with them.
        if verb == Verb::Write {
            self.0[Verb::Read as usize].push(pattern.clone());
        }
        self.0[verb as usize].push(pattern);
    }

    /// What may be locked.
    pub(super) fn locked(&self) -> &[Pattern] {
        &self.0[Verb::Read as usize]
    }

    pub(super) fn allow(&self, verb: Verb, datatype: &[u8]) -> bool {
        self.0[verb as usize].iter().any(|pattern| pattern.fits(datatype))
    }

    pub(super) fn allow_all(&self, verb: Verb) -> bool {
        self.0[verb as usize].iter().any(Pattern::fits_all)
    }
}
