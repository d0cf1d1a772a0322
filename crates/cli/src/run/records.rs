//! Which records a run locks: one, or several before a `--`.
//!
//! | words after the options | records | command |
//! |---|---|---|
//! | `a:1 make x` | `a:1` | `make x` |
//! | `a:1 -- make x` | `a:1` | `make x` |
//! | `a:1 b:2 -- make x` | `a:1`, `b:2` | `make x` |
//! | `a:1 make -- x` | `a:1` | `make -- x`: `make` is no record |
//! | `a:1 -- b:2 -- x` | `a:1` | `b:2 -- x`: the first `--` counts |

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt as _;

use lockspan_client::All;
use lockspan_protocol::{Mode, Record};

use crate::args::RunArgs;
use crate::exit::{Failure, USAGE};

/// The records that a run locks: each once, in the order in which they are locked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Records(Vec<(Record, Mode)>);

impl Records {
    /// Takes the records out of the words of the command line, `words`, and leaves the command.
    pub(crate) fn take(args: &mut RunArgs, words: &[OsString]) -> Result<Self, Failure> {
        let mode = if args.read { Mode::Read } else { Mode::Write };
        let mut all = vec![(args.record.clone(), mode)];
        all.extend(further(&mut args.command, words)?.into_iter().map(|record| (record, mode)));
        all.extend(args.and_read.iter().map(|record| (record.clone(), Mode::Read)));
        all.extend(args.and_write.iter().map(|record| (record.clone(), Mode::Write)));
        all.sort_by(|(one, _), (other, _)| one.lock_order().cmp(&other.lock_order()));
        all.dedup_by(|(later, stronger), (kept, mode)| {
            let is_same = later == kept;
            if is_same {
                *mode = (*mode).max(*stronger);
            }
            is_same
        });
        if all.len() > All::MAX {
            let text = format!("{} records are too many: at most {}", all.len(), All::MAX);
            return Err(Failure::new(USAGE, text));
        }
        Ok(Self(all))
    }

    pub(crate) fn iter(&self) -> std::slice::Iter<'_, (Record, Mode)> {
        self.0.iter()
    }

    /// The first of them, which is locked first.
    pub(crate) fn first(&self) -> &Record {
        &self.0[0].0
    }

    /// The record, if it is one.
    pub(crate) fn only(&self) -> Option<&Record> {
        match &self.0[..] {
            [(record, _)] => Some(record),
            _ => None,
        }
    }

    /// Their names, for people.
    pub(crate) fn shown(&self) -> String {
        let names: Vec<_> = self.0.iter().map(|(record, _)| record.to_string()).collect();
        names.join(", ")
    }
}

/// The records behind the first one: those before a `--` that the parser took for a word of the
/// command.
fn further(command: &mut Vec<OsString>, words: &[OsString]) -> Result<Vec<Record>, Failure> {
    let is_end = |word: &OsString| word == "--";
    // The parser has used a `--` if the command is all that stands behind the first one.
    let behind = words.iter().position(is_end).map(|at| &words[at + 1..]);
    if behind == Some(&command[..]) {
        return Ok(Vec::new());
    }
    let Some(end) = command.iter().position(is_end) else { return Ok(Vec::new()) };
    let records = command[..end].iter().map(|word| Record::parse(word.as_bytes()));
    let Ok(records) = records.collect::<Result<Vec<_>, _>>() else { return Ok(Vec::new()) };
    command.drain(..=end);
    if command.is_empty() {
        let text = "there is no command after --: lockspan run RECORD RECORD -- COMMAND";
        return Err(Failure::new(USAGE, text));
    }
    Ok(records)
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::args::{RunCli, RunCommand};

    /// What `lockspan run` with these words locks, and what it runs.
    fn read(words: &str) -> Result<(String, String), Failure> {
        let words: Vec<OsString> =
            format!("lockspan run {words}").split(' ').map(Into::into).collect();
        let RunCli { command: RunCommand::Run(mut args) } = RunCli::parse_from(&words);
        let records = Records::take(&mut args, &words)?;
        let shown = records.iter().map(|(record, mode)| format!("{record} {mode:?}"));
        let command: Vec<_> = args.command.iter().map(|word| word.to_string_lossy()).collect();
        Ok((shown.collect::<Vec<_>>().join(", "), command.join(" ")))
    }

    #[test]
    fn records_stand_before_the_dashes_and_the_command_behind() {
        for (words, records, command) in [
            ("a:1 make x", "a:1 Write", "make x"),
            ("a:1 -- make x", "a:1 Write", "make x"),
            ("b:2 a:1 -- make -- x", "a:1 Write, b:2 Write", "make -- x"),
            ("-r a:1 b:2 c:3 -- make", "a:1 Read, b:2 Read, c:3 Read", "make"),
            ("a:1 make -- x", "a:1 Write", "make -- x"),
            ("a:1 -- b:2 -- x", "a:1 Write", "b:2 -- x"),
            ("a:1 b:2 make", "a:1 Write", "b:2 make"),
            ("a:1 b:2 make -- x", "a:1 Write", "b:2 make -- x"),
            ("a:1 a:1 -- make", "a:1 Write", "make"),
            ("--and-read b:2 a:1 -- make", "a:1 Write, b:2 Read", "make"),
            ("-r --and-write a:1 a:1 b:2 -- make", "a:1 Write, b:2 Read", "make"),
            // By datatype first: the colon does not count.
            ("a!:1 a:2 -- make", "a:2 Write, a!:1 Write", "make"),
        ] {
            let (found, rest) = read(words).unwrap();
            assert_eq!((found.as_str(), rest.as_str()), (records, command), "{words}");
        }
        assert!(read("a:1 b:2 --").is_err(), "there is no command");
    }
}
