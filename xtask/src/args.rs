//! The words after the command's name: flags are taken out by name, what is left is the rest.

use anyhow::{Context as _, Result, ensure};
use pico_args::Arguments;

/// The arguments that no one has taken yet.
#[derive(Debug)]
pub(crate) struct Args(Arguments);

impl Args {
    pub(crate) fn new(words: impl IntoIterator<Item = String>) -> Self {
        Self(Arguments::from_vec(words.into_iter().map(Into::into).collect()))
    }

    /// Takes out `flag`; true if it was there.
    pub(crate) fn flag(&mut self, flag: &'static str) -> bool {
        self.0.contains(flag)
    }

    /// Takes out `flag` and its value.
    pub(crate) fn value(&mut self, flag: &'static str) -> Result<Option<String>> {
        Ok(self.0.opt_value_from_str(flag)?)
    }

    /// What is left, none of it a flag.
    pub(crate) fn rest(self) -> Result<Vec<String>> {
        let words = self.all();
        let flag = words.iter().find(|word| word.starts_with('-')).map_or("", String::as_str);
        ensure!(flag.is_empty(), "unknown flag {flag}; `cargo xtask help` lists them");
        Ok(words)
    }

    /// What is left, flags too: for another program.
    pub(crate) fn all(self) -> Vec<String> {
        self.0.finish().into_iter().map(|word| word.to_string_lossy().into_owned()).collect()
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
