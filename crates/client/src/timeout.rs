//! What a wait that was not granted in time knows about why: who holds the record, and how many
//! were before it.
//!
//! The server is asked shortly before the time is over ([`lead`]), so that its answer is there by
//! then and the wait does not take longer than it was allowed to.

use std::fmt;
use std::time::{Duration, Instant};

use lockspan_protocol::cache::Input;
use lockspan_protocol::{Annotation, Holder, Mode, Record as Name};

use crate::entry::lock;
use crate::error::LockError;
use crate::line::Place;
use crate::record::Record;
use crate::task;
use crate::way::Way;

/// How long before its end a wait asks who holds the record, at most: longer than an answer needs
/// from a busy server or over a slow network.
const LEAD: Duration = Duration::from_millis(500);

/// How often it is looked whether the server has said who holds a record.
const GLANCE: Duration = Duration::from_millis(5);

/// A record that was not granted in time.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TimedOut {
    /// Which record.
    pub record: Name,
    /// For how long it was waited for.
    pub waited: Duration,
    /// Who holds it: this process, if one of its threads or tasks does, and others as the server
    /// said shortly before. Others are missing if the server did not answer, or if this user may
    /// not inspect the record.
    pub holders: Vec<Holder>,
    /// How many acquires of this process and of others would have been granted before this one,
    /// as things were. `lockspan locks` and the page list one claim of each client, however many
    /// acquires of its threads and tasks are behind it: this counts all of this process, and one
    /// for each other client. `None` if the server did not say.
    pub place: Option<u32>,
    /// Whether there was a connection to the server. Without one nothing can be granted.
    pub connected: bool,
}

/// What the server said about who holds a record.
#[derive(Clone, Debug)]
pub(crate) struct HeldBy {
    pub(crate) ahead: Option<u32>,
    pub(crate) holders: Vec<Holder>,
}

/// How long before the end of a wait of this length the server is asked who holds the record.
pub(crate) fn lead(time: Duration) -> Duration {
    LEAD.min(time / 2)
}

impl Record {
    /// Asks the server who holds the record for which this node waits. Nothing, if it does not.
    pub(crate) fn ask_who_holds(&self) {
        let node = self.node();
        if node.is_forked() || node.is_closing() {
            return;
        }
        lock(&self.entry.line).held_by = None;
        let record = self.entry.name.clone();
        node.with_core(|_, core, _| core.push(Input::WhoHolds { record }));
    }

    /// Who holds the record for which this node waits, and how many acquires of others would be
    /// granted before its own, if the server knows. `None` if the server does not say within this
    /// time, or this node does not wait.
    #[doc(hidden)]
    pub async fn who_holds(&self, time: Duration) -> Option<(Vec<Holder>, Option<u32>)> {
        self.ask_who_holds();
        let deadline = Instant::now() + time;
        loop {
            if let Some(said) = &lock(&self.entry.line).held_by {
                return Some((said.holders.clone(), said.ahead));
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() || self.node().is_forked() {
                return None;
            }
            task::timer(self.node(), left.min(GLANCE)).await;
        }
    }

    /// How many are before a place in this node's line, and before this node in the server's.
    /// `None` if the server has to be waited for and has not said.
    pub(crate) fn ahead(&self, place: Place) -> Option<u32> {
        let node = self.node();
        if node.is_forked() {
            return None;
        }
        let elsewhere = {
            let cache = &lock(&node.core).cache;
            let said = cache.ahead(&self.entry.name);
            said.or_else(|| (!cache.is_wanted(&self.entry.name)).then_some(0))?
        };
        let here = lock(&self.entry.line).ahead(place, self.entry.gate.inside())?;
        Some(here.saturating_add(elsewhere))
    }

    /// This process, if one of its threads or tasks holds the record beside the reader that is
    /// `upgrading`. Nobody knows for how long: an acquire of what is cached is not timed.
    fn held_here(&self, upgrading: bool) -> Option<Holder> {
        if self.node().is_forked() {
            return None;
        }
        let inside = self.entry.gate.inside();
        let mode = match inside.readers.saturating_sub(u32::from(upgrading)) {
            _ if inside.writer => Mode::Write,
            0 => return None,
            _ => Mode::Read,
        };
        let label = lock(&self.node().core).cache.label().cloned();
        let label = label.or_else(|| Annotation::fitted("this process"))?;
        Some(Holder { label, note: None, mode, held: Duration::ZERO })
    }

    /// The error of a wait that was not granted in time.
    #[cold]
    pub(crate) fn timed_out(&self, waited: Duration, place: Option<Place>) -> LockError {
        self.late(waited, place, false)
    }

    /// The same, of a reader that is to be upgraded.
    #[cold]
    pub(crate) fn upgrade_timed_out(&self, waited: Duration, place: Option<Place>) -> LockError {
        self.late(waited, place, true)
    }

    fn late(&self, waited: Duration, place: Option<Place>, upgrading: bool) -> LockError {
        let node = self.node();
        // With what the server has just said, if it was asked: the cache has heard it first.
        let place = place.and_then(|place| self.ahead(place));
        let said = lock(&self.entry.line).held_by.take();
        let others = said.map_or_else(Vec::new, |said| said.holders);
        let holders = self.held_here(upgrading).into_iter().chain(others).collect();
        let connected = match &node.way {
            Way::Stream(outbox) => outbox.connection().is_some(),
            Way::Peer(peer) => peer.is_connected(),
            Way::Memory(_) => true,
        };
        LockError::Timeout(Box::new(TimedOut {
            record: self.entry.name.clone(),
            waited,
            place,
            holders,
            connected,
        }))
    }
}

impl fmt::Display for TimedOut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} was not granted within {}", self.record, Span(self.waited))?;
        if !self.connected {
            return f.write_str(": there is no connection to the server");
        }
        f.write_str(&why(&self.holders, self.place))
    }
}

/// `: held by billing@host9[412] for 3m12s (nightly import); 2 before you`, or nothing.
fn why(holders: &[Holder], place: Option<u32>) -> String {
    let mut text = String::new();
    if let Some(first) = holders.first() {
        text = format!(": {}", held_by(first));
        if holders.len() > 1 {
            text += &format!(" and {} more", holders.len() - 1);
        }
    }
    if let Some(before) = place.filter(|&before| before > 0) {
        text += &format!("; {before} before you");
    }
    text
}

/// A holder for people: `held by billing@host9[412] for 3m12s (nightly import)`.
pub fn held_by(holder: &Holder) -> String {
    let note = holder.note.as_ref().map(|note| format!(" ({note})")).unwrap_or_default();
    let held = match holder.held {
        Duration::ZERO => String::new(),
        held => format!(" for {}", Span(held)),
    };
    format!("held by {}{held}{note}", holder.label)
}

/// A length of time for people, to two units: `3m12s`, `1.5s`, `12ms`.
#[derive(Clone, Copy, Debug)]
pub struct Span(pub Duration);

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.0.as_secs();
        match seconds {
            0 => write!(f, "{}ms", self.0.as_millis()),
            1..=9 => write!(f, "{:.1}s", self.0.as_secs_f64()),
            10..=59 => write!(f, "{seconds}s"),
            60..=3599 => write!(f, "{}m{}s", seconds / 60, seconds % 60),
            3600..=86_399 => write!(f, "{}h{}m", seconds / 3600, seconds % 3600 / 60),
            _ => write!(f, "{}d{}h", seconds / 86_400, seconds % 86_400 / 3600),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_error_names_record_holder_and_place() {
        let holder = Holder {
            label: "billing@host9[412]".parse().unwrap(),
            note: Some("nightly import".parse().unwrap()),
            mode: Mode::Write,
            held: Duration::from_secs(192),
        };
        let record = Name::new("invoice", "42").unwrap();
        let waited = Duration::from_secs(5);
        let mut out =
            TimedOut { record, waited, holders: vec![holder], place: Some(2), connected: true };
        assert_eq!(
            out.to_string(),
            "invoice:42 was not granted within 5.0s: held by billing@host9[412] for 3m12s \
             (nightly import); 2 before you"
        );
        out.place = Some(0);
        out.holders[0].note = None;
        out.holders.push(out.holders[0].clone());
        assert!(out.to_string().ends_with("for 3m12s and 1 more"), "{out}");
        out.connected = false;
        assert!(out.to_string().ends_with("no connection to the server"), "{out}");
    }

    #[test]
    fn spans_have_two_units() {
        let shown = |millis| Span(Duration::from_millis(millis)).to_string();
        let shown: Vec<_> =
            [7, 1500, 42_000, 192_000, 7_380_000, 200_000_000].into_iter().map(shown).collect();
        assert_eq!(shown, ["7ms", "1.5s", "42s", "3m12s", "2h3m", "2d7h"]);
    }
}
