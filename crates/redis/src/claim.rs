//! What we have at one record: held, in line, or asked for.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use lockspan_protocol::{Annotation, Holder, Mode, Seq, Token};
use tokio::time::Instant;

use crate::alarms::Alarm;
use crate::keys::Keys;
use crate::script::Op;

/// A lock of ours. Each upgrade and downgrade gives it a new identifier: one of them that reaches
/// Redis late finds nothing that it could convert.
#[derive(Debug)]
pub(crate) struct Claim {
    /// The number in its identifier, or in the one that it is about to have.
    pub(crate) count: u64,
    /// Those that it may have instead, as long as a conversion is not answered.
    pub(crate) before: Vec<u64>,
    pub(crate) keys: Arc<Keys>,
    /// The number under which the node knows it.
    pub(crate) seq: Seq,
    /// The number of the upgrade that it waits for.
    pub(crate) upgrade: Option<Seq>,
    /// What is held, or asked for if nothing is.
    pub(crate) mode: Mode,
    pub(crate) token: Token,
    /// What others want of what is held, as far as we know.
    pub(crate) wanted: Option<Mode>,
    /// What has yet to succeed. Nothing: it is held, as far as we know.
    pub(crate) pending: Option<Op>,
    /// How many have written here since Redis granted it, beyond the first.
    pub(crate) turns: u32,
    /// It stands in line.
    pub(crate) is_queued: bool,
    /// What others want of it, heard before we heard that it is ours.
    pub(crate) wish: Option<Option<Mode>>,
    pub(crate) alarm: Option<Alarm>,
    pub(crate) trouble: Retry,
    /// Its lease counts from then or later.
    pub(crate) renewed: Instant,
    /// When we last heard that something became of it.
    pub(crate) changed: Instant,
    /// Since when an answer is missing, or its end is not renewed: a word that it is granted is not
    /// believed but asked about, until something that was sent later is answered.
    pub(crate) doubt: Option<Instant>,
    /// What it is for, if the node has said so.
    pub(crate) note: Option<Annotation>,
    /// Who holds the record that it waits for, by their identifiers: as far as they have told, once
    /// they were asked.
    pub(crate) holders: BTreeMap<String, Holder>,
    /// How many are served before it, as Redis last said. Where there are the two keys alone there
    /// is no line.
    pub(crate) ahead: Option<u32>,
    /// Redis may have heard of it.
    pub(crate) was_sent: bool,
    /// Redis may have heard of its last number.
    pub(crate) is_number_sent: bool,
}

/// How long something has not worked, and when it is tried again.
#[derive(Debug, Default)]
pub(crate) struct Retry {
    pub(crate) since: Option<Instant>,
    pause: Duration,
}

impl Retry {
    /// It has failed once more: how long to wait, and for how long it fails already.
    pub(crate) fn failed(&mut self, now: Instant) -> (Duration, Duration) {
        self.pause = (self.pause * 2).clamp(Duration::from_millis(10), Duration::from_millis(500));
        (self.pause, now - *self.since.get_or_insert(now))
    }
}

impl Claim {
    pub(crate) fn new(count: u64, seq: Seq, mode: Mode, keys: Arc<Keys>) -> Self {
        let acquire = if mode == Mode::Read { Op::AcquireRead } else { Op::AcquireWrite };
        Self {
            count,
            before: Vec::new(),
            keys,
            seq,
            upgrade: None,
            mode,
            token: Token::default(),
            wanted: None,
            pending: Some(acquire),
            turns: 0,
            is_queued: false,
            wish: None,
            alarm: None,
            trouble: Retry::default(),
            renewed: Instant::now(),
            changed: Instant::now(),
            doubt: None,
            note: None,
            holders: BTreeMap::new(),
            ahead: None,
            was_sent: false,
            is_number_sent: false,
        }
    }

    /// Whether something of it is held, be it while an upgrade waits.
    pub(crate) fn is_held(&self) -> bool {
        !matches!(self.pending, Some(Op::AcquireRead | Op::AcquireWrite))
    }

    /// Whether the node knows it, or the upgrade that it waits for, by this number.
    pub(crate) fn is_of(&self, seq: Seq) -> bool {
        self.seq == seq || self.upgrade == Some(seq)
    }

    /// Whether it has, or may have, the identifier with this number.
    pub(crate) fn has(&self, count: u64) -> bool {
        self.count == count || self.before.contains(&count)
    }

    /// It is to be converted, and has another number then.
    pub(crate) fn convert(&mut self, op: Op, count: u64) {
        if std::mem::take(&mut self.is_number_sent) {
            self.before.push(self.count);
        }
        (self.count, self.pending, self.is_queued) = (count, Some(op), false);
        (self.wish, self.trouble) = (None, Retry::default());
    }

    /// Something that was sent then is answered: Redis has its last number.
    pub(crate) fn is_certain(&mut self, sent: Instant) {
        self.before.clear();
        self.is_alive(sent);
    }

    /// Something that was sent then is answered.
    pub(crate) fn is_alive(&mut self, sent: Instant) {
        self.doubt = self.doubt.filter(|&since| sent < since);
    }

    pub(crate) fn is_doubtful(&mut self) {
        self.doubt = Some(Instant::now());
    }

    /// How it ends, given what is known about it.
    pub(crate) fn end(&self) -> Op {
        match (self.pending, self.mode) {
            _ if self.doubt.is_some() => Op::Cancel,
            (None, Mode::Read) => Op::ReleaseRead,
            (None, _) => Op::ReleaseWrite,
            (Some(_), _) => Op::Cancel,
        }
    }
}

/// A lock of ours that is over, until Redis has heard it.
#[derive(Debug)]
pub(crate) struct Leaving {
    /// Numbers that it may have had instead of its last.
    pub(crate) before: Vec<u64>,
    pub(crate) keys: Arc<Keys>,
    pub(crate) record: lockspan_protocol::Record,
    pub(crate) trouble: Retry,
    pub(crate) alarm: Option<Alarm>,
    /// Then its lease is over, and there is nothing left to say.
    pub(crate) until: Instant,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claim() -> Claim {
        let record = lockspan_protocol::Record::parse(b"invoice:42").unwrap();
        Claim::new(1, Seq(7), Mode::Read, Arc::new(Keys::of(&record, false)))
    }

    #[test]
    fn a_doubt_ends_with_the_answer_to_what_was_sent_after_it() {
        let mut claim = claim();
        let before = Instant::now();
        claim.is_doubtful();
        claim.is_alive(before - Duration::from_millis(1));
        assert!(claim.doubt.is_some());
        claim.is_alive(Instant::now());
        assert!(claim.doubt.is_none());
    }

    #[test]
    fn a_conversion_keeps_the_numbers_that_redis_may_have() {
        let mut claim = claim();
        claim.is_number_sent = true;
        claim.convert(Op::Upgrade, 2);
        // Redis never heard of that one.
        claim.convert(Op::Downgrade, 3);
        assert_eq!((claim.count, &claim.before[..]), (3, &[1][..]));
        assert!(claim.has(1) && !claim.has(2) && claim.has(3));
        claim.is_certain(Instant::now());
        assert!(claim.before.is_empty());
    }
}
