//! What a node writes down about its guards, to be judged when all is over.
//!
//! A file for each process, a line an event:
//!
//! ```text
//! held <record> R|W <token> <asked> <begin> <end>
//! fenced <record> <token>
//! lost <record> <token>
//! closed <node> <record> <sent> <until>
//! ```
//!
//! `begin` is a moment after the acquire has returned, `end` the last moment at which the guard
//! said that it is valid; both by the clock that all processes of a machine share. A guard that
//! once said that it is not is `lost` besides. `closed` is written by the run, not by a node: a
//! stranger closed the session of a node, or released its grant of a record (`*` is all). Each line
//! is one call, so a process that is killed leaves whole lines.

use std::fmt;
use std::fs::File;
use std::io::{self, Write as _};
use std::path::Path;
use std::str::FromStr;
use std::sync::Mutex;

/// What was written down.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Entry {
    /// A guard was held.
    Held(Held),
    /// The store refused a write, or the reading before it.
    Fenced {
        /// Of which record.
        record: String,
        /// With which token.
        token: i64,
    },
    /// The lease ended before the guard was given back.
    Lost {
        /// Of which record.
        record: String,
        /// With which token.
        token: i64,
    },
    /// A stranger ended what a node had.
    Closed(Closed),
}

/// A stranger closed a node's session, or released a grant of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Closed {
    /// Whose.
    pub node: String,
    /// Of which record, if not of all.
    pub record: Option<String>,
    /// Before the command was sent.
    pub sent: u64,
    /// When its lease, which nobody renews any more, is surely over.
    pub until: u64,
}

/// A guard, while it was valid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Held {
    /// Of which record.
    pub record: String,
    /// Whether for writing.
    pub is_write: bool,
    /// With which token.
    pub token: i64,
    /// When the acquire began.
    pub asked: u64,
    /// When it was surely held.
    pub begin: u64,
    /// When it was surely valid for the last time.
    pub end: u64,
}

/// The journal of a process.
#[derive(Debug)]
pub struct Journal(Mutex<File>);

impl Journal {
    /// A new one there.
    pub fn create(path: &Path) -> io::Result<Self> {
        Ok(Self(Mutex::new(File::options().create(true).append(true).open(path)?)))
    }

    /// Writes it down.
    pub fn write(&self, entry: &Entry) -> io::Result<()> {
        let mut file = self.0.lock().map_err(|_| io::Error::other("a thread died writing"))?;
        file.write_all(format!("{entry}\n").as_bytes())
    }
}

/// All that a process wrote down.
pub fn read(path: &Path) -> io::Result<Vec<Entry>> {
    let text = std::fs::read_to_string(path)?;
    let parse = |line: &str| {
        line.parse().map_err(|()| {
            let what = format!("{line:?} is no line of a journal");
            io::Error::new(io::ErrorKind::InvalidData, what)
        })
    };
    text.lines().map(parse).collect()
}

impl fmt::Display for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Held(Held { record, is_write, token, asked, begin, end }) => {
                let mode = if *is_write { 'W' } else { 'R' };
                write!(f, "held {record} {mode} {token} {asked} {begin} {end}")
            }
            Self::Fenced { record, token } => write!(f, "fenced {record} {token}"),
            Self::Lost { record, token } => write!(f, "lost {record} {token}"),
            Self::Closed(Closed { node, record, sent, until }) => {
                let record = record.as_deref().unwrap_or("*");
                write!(f, "closed {node} {record} {sent} {until}")
            }
        }
    }
}

impl FromStr for Entry {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let words: Vec<_> = text.split(' ').collect();
        let number = |word: &str| word.parse::<u64>().map_err(drop);
        let token = |word: &str| word.parse::<i64>().map_err(drop);
        match words[..] {
            ["held", record, mode, t, asked, begin, end] => Ok(Self::Held(Held {
                record: record.to_owned(),
                is_write: match mode {
                    "W" => true,
                    "R" => false,
                    _ => return Err(()),
                },
                token: token(t)?,
                asked: number(asked)?,
                begin: number(begin)?,
                end: number(end)?,
            })),
            ["fenced", record, t] => {
                Ok(Self::Fenced { record: record.to_owned(), token: token(t)? })
            }
            ["lost", record, t] => Ok(Self::Lost { record: record.to_owned(), token: token(t)? }),
            ["closed", node, record, sent, until] => Ok(Self::Closed(Closed {
                node: node.to_owned(),
                record: (record != "*").then(|| record.to_owned()),
                sent: number(sent)?,
                until: number(until)?,
            })),
            _ => Err(()),
        }
    }
}
