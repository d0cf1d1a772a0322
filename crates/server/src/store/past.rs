//! What a data file tells of the run that wrote it.
//!
//! # Layout
//!
//! The file has two copies of the same lines, one after the other, each in as many bytes as its
//! first line says. What a copy does not use yet is zero, apart from [`LAST`] in its last bytes: if
//! zeros were written over the end of one copy and the beginning of the other, that is missing. See
//! `line` for the lines.
//!
//! # Invariants
//!
//! - **No acknowledged change is lost unnoticed.** A change is acknowledged when both copies have
//!   its line. Damage to one copy (changed bits, zeros, a part cut off) is made good by the other.
//!   If a line is missing in both, its number is missing too, or neither copy has nothing but zeros
//!   after the last line that can be read. Then the past is [`Past::Unknown`], never a shorter one.
//! - **A change that was being written when the server was killed is kept or ignored**: nobody was
//!   told of it. A torn line in one copy only was never acknowledged, since the other copy lacks
//!   it. A torn line in both can't be told from damage, so the past is unknown.
//! - **Epochs never fall.** Every line has the epoch. If lines may be missing at the end, so may
//!   the last epochs, and [`JUMP`] is added.

use std::collections::BTreeMap;
use std::time::Duration;

use lockspan_protocol::server::Listed;
use lockspan_protocol::{Client, Epoch, Handoff, SessionId};

use super::Owners;
use super::line::{Change, Head, Line};

/// What an epoch is raised by if the last ones may be lost. A file has the epochs of one run: one
/// from its start, and one for each time that a client showed a later epoch.
const JUMP: u32 = 1 << 10;

/// The last bytes of each copy.
pub(super) const LAST: &[u8] = b"end of the copy\n";

/// The sessions that there are.
pub(super) type Sessions = BTreeMap<SessionId, Listed>;

/// A session of this server, as a start finds it. Whose it is is not kept, since one server never
/// leaves groups: it counts as a stranger's, which is on the safe side.
pub(super) fn listed(session: SessionId, ttl: Duration, handoff: Handoff, last: bool) -> Listed {
    let (client, acts) = (Client::Stranger, Duration::ZERO);
    Listed { session, ttl, handoff, here: true, last, client, acts }
}

/// What is known of the run that wrote a file.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Past {
    /// These were all its sessions.
    Known(Vec<Listed>),
    /// There may have been others; why.
    Unknown(String),
}

/// What a file says.
#[derive(Debug)]
pub(super) struct Found {
    /// At least the highest epoch that was given.
    pub(super) epoch: Epoch,
    pub(super) past: Past,
    /// No session of the file has a longer lease.
    pub(super) longest: Duration,
    /// Damage that made no difference, because the other copy is whole.
    pub(super) repaired: Option<String>,
}

/// Reads a file. `boot` names the machine's present boot. The users of sessions are put to
/// `owners` if the past is known.
///
/// Fails if not even a first line can be read: then neither the epoch nor the longest lease is
/// known.
pub(super) fn read(bytes: &[u8], boot: Option<&str>, owners: &Owners) -> Result<Found, String> {
    let head = find_head(bytes)?;
    let size = usize::try_from(head.size).unwrap_or(usize::MAX);
    let cut = |from: usize| {
        let from = from.min(bytes.len());
        &bytes[from..from.saturating_add(size).min(bytes.len())]
    };
    let copies = [OneCopy::read(cut(0), size), OneCopy::read(cut(size), size)];
    let last = copies.iter().map(OneCopy::last).max().unwrap_or(0);
    let is_damaged = |copy: &OneCopy| copy.bad > 0 || !copy.is_clean;
    let damaged: Vec<_> = ["first", "second"]
        .into_iter()
        .zip(&copies)
        .filter_map(|(name, copy)| is_damaged(copy).then_some(name))
        .collect();
    let ends = copies.iter().any(|copy| copy.is_clean && copy.last() == last);
    let mut lines = BTreeMap::new();
    for line in copies.into_iter().flat_map(|copy| copy.lines) {
        lines.insert(line.seq, line);
    }
    let epoch = lines.values().map(|line| line.epoch).max().ok_or("it has no intact line")?;
    let is_complete = lines.len() as u64 == last && lines.keys().next() == Some(&1);
    let ended = lines.values().next_back().is_some_and(|line| line.change == Change::End);
    let why = if !is_complete {
        Some("lines are missing in the middle of both copies of its content".to_owned())
    } else if !ends {
        Some("both copies of its content are damaged at the end".to_owned())
    } else if head.boot.is_some() && head.boot.as_deref() != boot && !ended {
        Some("the machine was restarted while the server ran".to_owned())
    } else {
        None
    };
    let epoch = if ends { epoch } else { raise(epoch)? };
    let longest = head.longest;
    let past = match why {
        Some(why) => Past::Unknown(why),
        None => Past::Known(replay(lines.into_values(), owners)),
    };
    let is_known = matches!(past, Past::Known(_));
    let repaired = (is_known && !damaged.is_empty())
        .then(|| format!("the {} copy of its content is damaged", damaged.join(" and the ")));
    Ok(Found { epoch, past, longest, repaired })
}

fn raise(epoch: Epoch) -> Result<Epoch, String> {
    let raised = epoch.number().checked_add(JUMP).and_then(Epoch::new);
    raised.ok_or_else(|| "it is damaged, and its epochs are used up".to_owned())
}

/// The first line of either copy.
fn find_head(bytes: &[u8]) -> Result<Head, String> {
    if bytes.is_empty() {
        return Err("it is empty".to_owned());
    }
    let first_line = |from: usize| bytes[from..].split(|byte| *byte == b'\n').next();
    let half = bytes.len() / 2;
    for from in [0, half] {
        if let Some(head) = first_line(from).and_then(Head::read)
            && (from == 0 || usize::try_from(head.size) == Ok(half))
        {
            return Ok(head);
        }
    }
    if first_line(0).is_some_and(Head::is_foreign) {
        return Err("it was written by another version of the server".to_owned());
    }
    Err("it is damaged, or was not written by a Lockspan server".to_owned())
}

fn replay(lines: impl Iterator<Item = Line>, owners: &Owners) -> Vec<Listed> {
    let mut sessions = Sessions::new();
    for line in lines {
        match line.change {
            Change::Open { listed, user } => {
                sessions.insert(listed.session, listed);
                if let Some(user) = user {
                    owners.set(listed.session, user);
                }
            }
            Change::Gone { session } => {
                sessions.remove(&session);
                owners.remove(session);
            }
            Change::Epoch | Change::End => {}
        }
    }
    sessions.into_values().collect()
}

/// One copy, as far as it can be read.
struct OneCopy {
    lines: Vec<Line>,
    /// Damaged lines.
    bad: usize,
    /// After the last line there is nothing but zeros, and then [`LAST`].
    is_clean: bool,
}

impl OneCopy {
    fn read(bytes: &[u8], size: usize) -> Self {
        let mut copy = Self { lines: Vec::new(), bad: 0, is_clean: false };
        let whole = bytes.strip_suffix(LAST).filter(|_| bytes.len() == size);
        let mut rest = whole.unwrap_or(bytes);
        let mut is_first = true;
        loop {
            if rest.iter().all(|byte| *byte == 0) {
                copy.is_clean &= whole.is_some();
                return copy;
            }
            let end = rest.iter().position(|byte| *byte == b'\n').unwrap_or(rest.len());
            let line = &rest[..end];
            rest = rest.get(end + 1..).unwrap_or_default();
            let read = if is_first { None } else { Line::read(line) };
            copy.is_clean = read.is_some() || (is_first && Head::read(line).is_some());
            copy.bad += usize::from(!copy.is_clean);
            copy.lines.extend(read);
            is_first = false;
        }
    }

    /// The number of the last line that can be read.
    fn last(&self) -> u64 {
        self.lines.iter().map(|line| line.seq).max().unwrap_or(0)
    }
}
