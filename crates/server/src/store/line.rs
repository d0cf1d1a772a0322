//! One line of the data file: a change, its number, and the checksum that shows it is whole.
//!
//! | line | meaning |
//! |---|---|
//! | `lockspan data 1 SIZE LONGEST BOOT` | the first line of a copy, see [`Head`] |
//! | `SEQ EPOCH epoch` | the epoch is `EPOCH` from now on |
//! | `SEQ EPOCH open ID MICROS HANDOFF LAST [user=NAME]` | a session, as in [`Store::Session`] |
//! | `SEQ EPOCH gone ID` | the session is forgotten |
//! | `SEQ EPOCH end` | the server has stopped, and everything before this line is synced |
//!
//! `SEQ` counts the lines of a file from 1. Every line has the epoch, so that it is not lost with
//! the line that raised it. Each line ends in a space, 16 hexadecimal digits of BLAKE2s over what
//! is before that space, and a newline. A line never has a zero byte.

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use blake2::Blake2s;
use blake2::digest::Digest as _;
use blake2::digest::consts::U8;
use lockspan_protocol::server::{Listed, Store};
use lockspan_protocol::{Epoch, Handoff, SessionId};

use super::Owners;
use super::past::listed;

/// What the first line of every version begins with.
const NAME: &str = "lockspan data ";
/// The version of the format that this server reads and writes.
const VERSION: &str = "1";

/// Digits of a checksum.
const DIGITS: usize = 16;

/// The first line of a copy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Head {
    /// The bytes of each copy, with the unused ones at its end.
    pub(super) size: u64,
    /// No session of this file has a longer lease.
    pub(super) longest: Duration,
    /// The boot of the machine in which it was written, if its sessions are not synced.
    pub(super) boot: Option<String>,
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Change {
    Epoch,
    Open { listed: Listed, user: Option<Arc<str>> },
    Gone { session: SessionId },
    End,
}

/// A line after the first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Line {
    pub(super) seq: u64,
    pub(super) epoch: Epoch,
    pub(super) change: Change,
}

fn checksum(bytes: &[u8]) -> String {
    let sum: [u8; 8] = Blake2s::<U8>::digest(bytes).into();
    format!("{:016x}", u64::from_be_bytes(sum))
}

/// Ends the line that begins at `start`.
fn seal(text: &mut String, start: usize) {
    let sum = checksum(&text.as_bytes()[start..]);
    text.push(' ');
    text.push_str(&sum);
    text.push('\n');
}

/// The line without its checksum, if that is right. `line` is without its newline.
fn unseal(line: &[u8]) -> Option<&str> {
    let (said, sum) = line.split_at_checked(line.len().checked_sub(DIGITS + 1)?)?;
    let is_right = sum[0] == b' ' && sum[1..] == *checksum(said).as_bytes();
    str::from_utf8(said).ok().filter(|_| is_right)
}

fn micros(lease: Duration) -> u64 {
    u64::try_from(lease.as_micros()).unwrap_or(u64::MAX)
}

impl Head {
    pub(super) fn put(&self, text: &mut String) {
        let start = text.len();
        let boot = self.boot.as_deref().unwrap_or("synced");
        // Writing to a text does not fail.
        let _ = write!(text, "{NAME}{VERSION} {} {} {boot}", self.size, micros(self.longest));
        seal(text, start);
    }

    pub(super) fn read(line: &[u8]) -> Option<Self> {
        let said = unseal(line)?.strip_prefix(NAME)?;
        let mut words = said.split(' ');
        let head = (words.next()? == VERSION).then(|| {
            Some(Self {
                size: words.next()?.parse().ok()?,
                longest: Duration::from_micros(words.next()?.parse().ok()?),
                boot: Some(words.next()?).filter(|boot| *boot != "synced").map(str::to_owned),
            })
        });
        head.flatten().filter(|_| words.next().is_none())
    }

    /// Whether a whole first line is that of another version.
    pub(super) fn is_foreign(line: &[u8]) -> bool {
        let said = unseal(line).and_then(|said| said.strip_prefix(NAME));
        said.is_some_and(|said| said.split(' ').next() != Some(VERSION))
    }
}

impl Line {
    /// The line of what is to be stored; `epoch` is the one that it leads to.
    pub(super) fn of(seq: u64, epoch: Epoch, what: &Store, owners: &Owners) -> Self {
        let change = match what {
            Store::Epoch(_) => Change::Epoch,
            &Store::Session { session, ttl, handoff, last, .. } => Change::Open {
                listed: listed(session, ttl, handoff, last),
                user: owners.get(session),
            },
            &Store::Forget { session } | &Store::Settle { former: session, .. } => {
                Change::Gone { session }
            }
        };
        Self { seq, epoch, change }
    }

    pub(super) fn put(&self, text: &mut String) {
        let start = text.len();
        let Self { seq, epoch, change } = self;
        let _ = write!(text, "{seq} {} ", epoch.number());
        let _ = match change {
            Change::Epoch => write!(text, "epoch"),
            Change::Open { listed, user } => {
                let handoff = if listed.handoff == Handoff::Retry { "retry" } else { "direct" };
                let last = if listed.last { "last" } else { "lives" };
                let user = user.as_ref().map(|user| format!(" user={user}")).unwrap_or_default();
                let Listed { session, ttl, .. } = listed;
                write!(text, "open {} {} {handoff} {last}{user}", session.0, micros(*ttl))
            }
            Change::Gone { session } => write!(text, "gone {}", session.0),
            Change::End => write!(text, "end"),
        };
        seal(text, start);
    }

    /// Reads a line without its newline; none if it is damaged.
    pub(super) fn read(line: &[u8]) -> Option<Self> {
        let words: Vec<_> = unseal(line)?.split(' ').collect();
        let (seq, epoch, words) = match &words[..] {
            [seq, epoch, words @ ..] => {
                (seq.parse().ok()?, Epoch::new(epoch.parse().ok()?)?, words)
            }
            _ => return None,
        };
        let id = |id: &str| id.parse().ok().map(SessionId);
        let change = match words {
            ["epoch"] => Change::Epoch,
            ["open", session, micros, handoff, last, user @ ..] if user.len() < 2 => {
                let (retry, direct) = (("retry", Handoff::Retry), ("direct", Handoff::Direct));
                let listed = listed(
                    id(session)?,
                    Duration::from_micros(micros.parse().ok()?),
                    either(handoff, retry, direct)?,
                    either(last, ("last", true), ("lives", false))?,
                );
                let user = match user.first() {
                    Some(user) => Some(user.strip_prefix("user=")?.into()),
                    None => None,
                };
                Change::Open { listed, user }
            }
            ["gone", session] => Change::Gone { session: id(session)? },
            ["end"] => Change::End,
            _ => return None,
        };
        Some(Self { seq, epoch, change })
    }
}

fn either<T>(word: &str, one: (&str, T), other: (&str, T)) -> Option<T> {
    match word {
        word if word == one.0 => Some(one.1),
        word if word == other.0 => Some(other.1),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines() -> Vec<Line> {
        let epoch = Epoch::new(7).expect("small");
        let listed = |id, handoff, last| {
            super::listed(SessionId(id), Duration::from_micros(5_000_001), handoff, last)
        };
        let open = |listed, user| Change::Open { listed, user };
        let changes = [
            Change::Epoch,
            open(listed(u64::MAX, Handoff::Retry, false), None),
            open(listed(2, Handoff::Direct, true), Some("ann.b-c_d".into())),
            Change::Gone { session: SessionId(3) },
            Change::End,
        ];
        (1..).zip(changes).map(|(seq, change)| Line { seq, epoch, change }).collect()
    }

    fn heads() -> [Head; 2] {
        let boot = Some("11111111-1111-1111-1111-111111111111".to_owned());
        let (size, longest) = (1 << 20, Duration::from_secs(60));
        [Head { size, longest, boot }, Head { size, longest, boot: None }]
    }

    #[test]
    fn what_is_written_is_read() {
        for line in lines() {
            let mut text = String::new();
            line.put(&mut text);
            assert_eq!(Line::read(text.trim_end_matches('\n').as_bytes()), Some(line), "{text}");
            assert!(!text.bytes().any(|byte| byte == 0));
        }
        for head in heads() {
            let mut text = String::new();
            head.put(&mut text);
            let line = text.trim_end_matches('\n').as_bytes();
            assert_eq!(Head::read(line), Some(head), "{text}");
            assert!(!Head::is_foreign(line));
        }
    }

    #[test]
    fn service_f46_no_changed_bit_and_no_missing_byte_is_overlooked() {
        let written = |put: &dyn Fn(&mut String)| {
            let mut text = String::new();
            put(&mut text);
            text
        };
        let mut all: Vec<_> = lines().iter().map(|line| written(&|text| line.put(text))).collect();
        all.extend(heads().iter().map(|head| written(&|text| head.put(text))));
        let is_read = |line: &[u8]| Line::read(line).is_some() || Head::read(line).is_some();
        for text in all {
            let line = text.trim_end_matches('\n').as_bytes();
            assert!(is_read(line));
            for at in 0..line.len() {
                for bit in 0..8 {
                    let mut broken = line.to_owned();
                    broken[at] ^= 1 << bit;
                    assert!(!is_read(&broken), "bit {bit} of byte {at} of {text}");
                }
                assert!(!is_read(&line[..at]) && !is_read(&line[at + 1..]), "cut at {at}");
            }
        }
    }

    #[test]
    fn a_file_of_another_version_is_recognized() {
        let mut text = format!("{NAME}2 something else");
        seal(&mut text, 0);
        let line = text.trim_end_matches('\n').as_bytes();
        assert!(Head::is_foreign(line) && Head::read(line).is_none());
        assert!(!Head::is_foreign(b"lockspan data 2 without a checksum"));
    }
}
