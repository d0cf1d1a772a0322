//! What a person types to find something, as on the page: a part of a name, or a pattern for the
//! whole name if it has `*`, `?` or `[`.

use lockspan_server::Pattern;

/// A filter. An empty one fits everything. A label has brackets, so a text that is a part of a name
/// as it stands fits too: `billing@host9[412]`.
#[derive(Clone, Debug)]
pub(crate) struct Filter {
    pattern: Option<Pattern>,
    part: Vec<u8>,
}

impl Filter {
    pub(crate) fn new(text: &str) -> Self {
        let pattern = pattern(text).map(|pattern| Pattern::new(pattern.as_bytes()));
        Self { pattern, part: text.into() }
    }

    /// Whether one of these names fits.
    pub(crate) fn fits<'a>(&self, names: impl IntoIterator<Item = &'a [u8]>) -> bool {
        let Some(pattern) = &self.pattern else { return true };
        let has = |name: &[u8]| name.windows(self.part.len()).any(|part| part == self.part);
        names.into_iter().any(|name| pattern.fits(name) || has(name))
    }
}

/// The same as a pattern for whole names, for the service. `None` for an empty text.
pub(crate) fn pattern(text: &str) -> Option<String> {
    match text {
        "" => None,
        _ if text.contains(['*', '?', '[']) => Some(text.to_owned()),
        _ => Some(format!("*{}*", text.replace('\\', r"\\"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_is_found_and_a_pattern_is_for_the_whole_name() {
        let fits = |text: &str, names: &[&str]| {
            Filter::new(text).fits(names.iter().map(|name| name.as_bytes()))
        };
        assert!(fits("", &["order:1"]) && fits("", &[]));
        assert!(fits("der", &["order:1"]) && fits("ann", &["order:1", "joann"]));
        assert!(!fits("x", &["order:1"]) && !fits("x", &[]));
        assert!(fits("o*1", &["order:1"]) && !fits("rder*", &["order:1"]));
        assert!(fits("[op]rder:?", &["order:1"]));
        assert!(fits(r"a\b", &[r"x:a\bc"]));
        assert!(fits("sh@vm[412]", &["sh@vm[412]"]) && fits("vm[41", &["sh@vm[412]"]));
    }
}
