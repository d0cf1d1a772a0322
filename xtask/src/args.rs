//! The words after the command's name: flags are taken out by name, what is left is the rest.

use anyhow::{Context as _, Result, ensure};

/// The arguments that no one has taken yet.
#[derive(Debug)]
pub(crate) struct Args {
    words: Vec<String>,
}

impl Args {
    pub(crate) fn new(words: impl IntoIterator<Item = String>) -> Self {
        Self { words: words.into_iter().collect() }
    }

    /// Takes out `flag`; true if it was there.
    pub(crate) fn flag(&mut self, flag: &str) -> bool {
        let before = self.words.len();
        self.words.retain(|word| word != flag);
        self.words.len() < before
    }

    /// Takes out `flag` and the word after it.
    pub(crate) fn value(&mut self, flag: &str) -> Result<Option<String>> {
        let Some(at) = self.words.iter().position(|word| word == flag) else {
            return Ok(None);
        };
        self.words.remove(at);
        ensure!(at < self.words.len(), "{flag} needs a value");
        Ok(Some(self.words.remove(at)))
    }

    /// What is left, none of it a flag.
    pub(crate) fn rest(self) -> Result<Vec<String>> {
        if let Some(flag) = self.words.iter().find(|word| word.starts_with('-')) {
            anyhow::bail!("unknown flag {flag}; `cargo xtask help` lists them");
        }
        Ok(self.words)
    }

    /// What is left: at most one word.
    pub(crate) fn at_most_one(self) -> Result<Option<String>> {
        let mut rest = self.rest()?.into_iter();
        let first = rest.next();
        match rest.next() {
            None => Ok(first),
            Some(second) => Err(anyhow::anyhow!("one filter at most")).context(second),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(line: &str) -> Args {
        Args::new(line.split_whitespace().map(str::to_owned))
    }

    #[test]
    fn flags_and_values_are_taken_from_anywhere() {
        let mut args = args("fair --limit 5 --readme");
        assert!(args.flag("--readme"));
        assert_eq!(args.value("--limit").unwrap().as_deref(), Some("5"));
        assert_eq!(args.at_most_one().unwrap().as_deref(), Some("fair"));
    }

    #[test]
    fn unknown_flags_missing_values_and_second_filters_are_refused() {
        assert!(args("--nope").rest().is_err());
        assert!(args("--limit").value("--limit").is_err());
        assert!(args("a b").at_most_one().is_err());
    }
}
