//! The store behind the records: a file each, which refuses writes by their fencing token.
//!
//! A writer *opens* a record before it writes: it reads the present value and shows its token. The
//! store remembers the highest token that it was shown by a writer, and refuses whatever is lower,
//! the open and the write. Without the first half of it a late write could come between the next
//! writer's reading and writing, and one of the two would be lost.
//!
//! Each file is a log, a line an event, the whole state in each line:
//!
//! ```text
//! open <node> <token> <value>
//! put <node> <token> <base> <value>
//! ```
//!
//! The log is judged by [`crate::check`], which believes nothing that this module decided.

use std::fmt;
use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// No line is as long as this.
const LINE: u64 = 256;

/// A folder of records.
#[derive(Clone, Debug)]
pub struct Store {
    folder: PathBuf,
}

/// One line of a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// Whether the value was written, not only read.
    pub is_put: bool,
    /// Who did it.
    pub node: String,
    /// With which token.
    pub token: i64,
    /// The value that was there, as far as the node knew.
    pub base: u64,
    /// The value after it.
    pub value: u64,
}

/// A write, or the reading before it, came too late: somebody with a higher token was here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fenced {
    /// The highest token so far.
    pub mark: i64,
}

impl Store {
    /// The records in this folder, which exists.
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        Self { folder: folder.into() }
    }

    /// Where a record's log is.
    #[must_use]
    pub fn path(&self, record: &str) -> PathBuf {
        self.folder.join(format!("{record}.log"))
    }

    /// Reads the value for a writer.
    pub fn open(&self, record: &str, node: &str, token: i64) -> io::Result<Result<u64, Fenced>> {
        self.change(record, |last| {
            let value = last.map_or(0, |line| line.value);
            fence(last, token)?;
            let node = node.to_owned();
            Ok(Line { is_put: false, node, token, base: value, value })
        })
    }

    /// Writes the value after `base`, which the writer has read.
    pub fn put(
        &self,
        record: &str,
        node: &str,
        token: i64,
        base: u64,
    ) -> io::Result<Result<u64, Fenced>> {
        self.change(record, |last| {
            fence(last, token)?;
            Ok(Line { is_put: true, node: node.to_owned(), token, base, value: base + 1 })
        })
    }

    /// Looks at the last line and adds one, with nobody in between.
    fn change(
        &self,
        record: &str,
        decide: impl FnOnce(Option<&Line>) -> Result<Line, Fenced>,
    ) -> io::Result<Result<u64, Fenced>> {
        let path = self.path(record);
        let mut file = File::options().create(true).read(true).append(true).open(path)?;
        file.lock()?;
        let last = last_line(&mut file)?;
        match decide(last.as_ref()) {
            Ok(line) => {
                // One call, so that a process that is killed has written all of it or nothing.
                file.write_all(format!("{line}\n").as_bytes())?;
                Ok(Ok(line.value))
            }
            Err(fenced) => Ok(Err(fenced)),
        }
        // The lock ends with the file.
    }
}

fn fence(last: Option<&Line>, token: i64) -> Result<(), Fenced> {
    match last {
        Some(line) if token < line.token => Err(Fenced { mark: line.token }),
        _ => Ok(()),
    }
}

fn last_line(file: &mut File) -> io::Result<Option<Line>> {
    let len = file.metadata()?.len();
    file.seek(SeekFrom::Start(len.saturating_sub(LINE)))?;
    let mut tail = String::new();
    file.read_to_string(&mut tail)?;
    let Some(text) = tail.lines().last() else { return Ok(None) };
    text.parse().map(Some).map_err(|()| broken(text))
}

fn broken(text: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("{text:?} is no line of a store"))
}

/// Every line of a log.
pub fn lines(path: &Path) -> io::Result<Vec<Line>> {
    let text = std::fs::read_to_string(path)?;
    text.lines().map(|line| line.parse().map_err(|()| broken(line))).collect()
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { is_put, node, token, base, value } = self;
        if *is_put {
            write!(f, "put {node} {token} {base} {value}")
        } else {
            write!(f, "open {node} {token} {value}")
        }
    }
}

impl FromStr for Line {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let words: Vec<_> = text.split(' ').collect();
        let number = |word: &str| word.parse().map_err(drop);
        match words[..] {
            ["open", node, token, value] => {
                let (node, token) = (node.to_owned(), token.parse().map_err(drop)?);
                let value = number(value)?;
                Ok(Self { is_put: false, node, token, base: value, value })
            }
            ["put", node, token, base, value] => {
                let (node, token) = (node.to_owned(), token.parse().map_err(drop)?);
                Ok(Self { is_put: true, node, token, base: number(base)?, value: number(value)? })
            }
            _ => Err(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lower_token_is_refused_and_the_same_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::new(folder.path());
        assert_eq!(store.open("a", "n1", 5).unwrap(), Ok(0));
        assert_eq!(store.put("a", "n1", 5, 0).unwrap(), Ok(1));
        assert_eq!(store.put("a", "n1", 5, 1).unwrap(), Ok(2));
        assert_eq!(store.open("a", "n2", 7).unwrap(), Ok(2), "this shows the token");
        assert_eq!(store.put("a", "n1", 5, 2).unwrap(), Err(Fenced { mark: 7 }));
        assert_eq!(store.open("a", "n1", 6).unwrap(), Err(Fenced { mark: 7 }));
        assert_eq!(store.put("b", "n1", 1, 0).unwrap(), Ok(1), "another record");
        let lines = lines(&store.path("a")).unwrap();
        assert_eq!(lines.iter().filter(|line| line.is_put).count(), 2);
    }

    #[test]
    fn a_log_that_is_not_ours_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::new(folder.path());
        std::fs::write(store.path("a"), "put n1 x 0 1\n").unwrap();
        assert!(store.open("a", "n1", 5).unwrap_err().to_string().contains("put n1 x 0 1"));
    }
}
