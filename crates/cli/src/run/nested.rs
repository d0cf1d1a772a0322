//! A run inside of another one: which locks it runs under already.
//!
//! `LOCKSPAN_HELD` has a line for each run that the command is under, `MARK MODE SERVICE RECORD`,
//! with what is not plain in the last two written as `%20`. A run that asks for what one of them
//! holds would wait for itself, forever. It counts only while that run is an ancestor of ours: a
//! process that was left behind by a run that has ended has the variable still, and may wait.

use std::fmt::Write as _;
use std::fs;
use std::process::Command;

use lockspan_client::service_address;
use lockspan_protocol::{Mode, Record};

use super::guardian::now;
use super::records::Records;
use crate::args::RunArgs;
use crate::exit::{Failure, NESTED};

/// The variable with the locks that a command runs under.
const HELD: &str = "LOCKSPAN_HELD";

/// The variable that marks a command.
const MARK: &str = "LOCKSPAN_RUN";

/// What our command is told of the locks that it runs under.
#[derive(Debug)]
pub(crate) struct Marks {
    mark: String,
    held: String,
    /// An outer run reads what we are to read.
    reads_again: bool,
}

impl Marks {
    /// Refuses a lock that an outer run holds, unless both are for reading.
    pub(crate) fn check(args: &RunArgs, records: &Records) -> Result<Self, Failure> {
        let service = escaped(address(&args.service.url).as_bytes());
        let mut held = std::env::var(HELD).unwrap_or_default();
        let outer = held.lines().filter_map(Outer::read);
        let outer: Vec<_> = outer.filter(|outer| outer.service == service).collect();
        let mut reads_again = false;
        let mark = format!("{}-{}", std::process::id(), now().as_nanos());
        let mut ours = String::new();
        for (record, mode) in records.iter() {
            let name = escaped(record.as_bytes());
            let same = outer.iter().filter(|outer| outer.record == name);
            for outer in same.filter(|outer| is_ancestor(outer.mark)) {
                if !outer.reads || *mode != Mode::Read {
                    return Err(waits_for_itself(record, outer));
                }
                reads_again = true;
            }
            let letter = if *mode == Mode::Read { "R" } else { "W" };
            let _ = writeln!(ours, "{mark} {letter} {service} {name}");
        }
        held.push_str(&ours);
        Ok(Self { mark, held, reads_again })
    }

    /// Into the environment of the command.
    pub(crate) fn put(&self, command: &mut Command) {
        command.env(MARK, &self.mark).env(HELD, &self.held);
    }

    /// What may keep us waiting forever.
    pub(crate) fn remark(&self) -> &'static str {
        if self.reads_again {
            ": an outer lockspan run holds it for reading, and a writer that waits for that run to \
             end is next in line"
        } else {
            ""
        }
    }
}

fn waits_for_itself(record: &Record, outer: &Outer<'_>) -> Failure {
    let (process, how) = (outer.mark.0, if outer.reads { "reading" } else { "writing" });
    let text = format!(
        "deadlock: this command already runs under a lock on {record} for {how}, taken by \
         lockspan run (process {process}), and would wait for itself. Remove the inner lockspan \
         run, or lock another record"
    );
    Failure::new(NESTED, text)
}

/// A run that we may be in.
#[derive(Debug, PartialEq, Eq)]
struct Outer<'a> {
    /// The number of its process, and when it made the mark: nanoseconds since the machine's start.
    mark: (i32, u128),
    reads: bool,
    service: &'a str,
    record: &'a str,
}

impl<'a> Outer<'a> {
    fn read(line: &'a str) -> Option<Self> {
        let mut words = line.split(' ');
        let (process, when) = words.next()?.split_once('-')?;
        let mark = (process.parse().ok()?, when.parse().ok()?);
        let reads = words.next()? == "R";
        Some(Self { mark, reads, service: words.next()?, record: words.next()? })
    }
}

/// Whether the run with this mark is our parent, or its parent, and so on.
fn is_ancestor((process, marked): (i32, u128)) -> bool {
    let mut at = rustix::process::getpid().as_raw_pid();
    // A cycle has no end; there should be none.
    for _ in 0..10_000 {
        let Some((parent, began)) = parent_and_start(at) else { return false };
        if at == process {
            // Another process that has the same number began later.
            return began <= marked;
        }
        at = parent;
    }
    false
}

/// The parent of a process, and when that process began, in nanoseconds since the machine's start.
fn parent_and_start(process: i32) -> Option<(i32, u128)> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    let (_, rest) = stat.rsplit_once(')')?;
    let words: Vec<_> = rest.split_whitespace().collect();
    // Hundredths of a second, rounded down, on every architecture of Linux that we know.
    let began: u128 = words.get(19)?.parse().ok()?;
    Some((words.get(1)?.parse().ok()?, began * 10_000_000))
}

/// Where a service is, however its URL is written.
fn address(url: &str) -> String {
    lockspan_redis::service_address(url).unwrap_or_else(|| service_address(url))
}

/// Without spaces, ends of lines and what is not ASCII.
pub(super) fn escaped(bytes: &[u8]) -> String {
    let mut text = String::new();
    for &byte in bytes {
        if byte.is_ascii_graphic() && byte != b'%' {
            text.push(char::from(byte));
        } else {
            let _ = write!(text, "%{byte:02x}");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_held_is_one_line_whatever_its_name_is() {
        assert_eq!(escaped(b"a:b c\n%\xff"), "a:b%20c%0a%25%ff");
        let outer = Outer { mark: (7, 9), reads: true, service: "h:1", record: "a:b%20c" };
        assert_eq!(Outer::read("7-9 R h:1 a:b%20c"), Some(outer));
        for line in ["", "7", "7-9 R", "x-9 R h:1 a:b"] {
            assert_eq!(Outer::read(line), None, "{line:?}");
        }
    }

    #[test]
    fn only_a_process_above_us_that_was_there_counts() {
        let now = now().as_nanos();
        let parent = rustix::process::getppid().unwrap().as_raw_pid();
        assert!(is_ancestor((parent, now)));
        assert!(!is_ancestor((parent, 0)), "another process with that number");
        let mut child = Command::new("sleep").arg("1000").spawn().unwrap();
        let below = i32::try_from(child.id()).unwrap();
        assert!(!is_ancestor((below, now)));
        child.kill().unwrap();
        child.wait().unwrap();
    }
}
