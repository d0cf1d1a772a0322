//! What Redis answers, and what other nodes have published for us.

use std::sync::Arc;
use std::time::Duration;

use lockspan_client::{Trouble, TroubleKind};
use lockspan_protocol::{AcquireRefusal, Mode, Record, Seq, Ticket, ToNode, Token};
use redis::{RedisError, Value};
use tokio::time::Instant;

use crate::alarms::{Due, jittered};
use crate::claim::Retry;
use crate::desk::{Desk, queued};
use crate::keys::Keys;
use crate::link::{Link, Word};
use crate::peer::Done;
use crate::script::Op;
use crate::trouble::{is_about_the_record, is_broken, trouble};

impl Desk {
    /// A call was answered, or was not.
    pub(crate) fn done(&mut self, done: Done) {
        let (op, link) = (done.op, done.link);
        self.settle(done);
        if op == Op::Renew {
            self.renewal_done(link);
        }
    }

    fn settle(&mut self, mut done: Done) {
        let value = match done.result.take() {
            Some(Ok(value)) => {
                if done.link == self.number && self.link.is_some() {
                    self.mouth.connected(true);
                }
                if has_written(done.op, &value, self.settings.plain) {
                    self.pause = Duration::ZERO;
                }
                value
            }
            Some(Err(why)) => {
                if is_broken(&why) {
                    self.broken(&done, &why);
                }
                return self.failed(&done, trouble(&why));
            }
            None => {
                let why = self.last_trouble.clone().unwrap_or_else(|| {
                    Trouble::new(TroubleKind::Unreachable, "the connection to Redis is lost")
                });
                return self.failed(&done, why);
            }
        };
        match done.op {
            Op::AcquireRead | Op::AcquireWrite | Op::Upgrade => self.acquired(&done, &value),
            Op::Downgrade => self.downgraded(&done, &value),
            Op::Renew => self.looked(&done, &value),
            Op::Who => self.holders(&done, &value),
            Op::ReleaseRead | Op::ReleaseWrite | Op::Cancel => self.left(&done, &value),
        }
    }

    fn broken(&mut self, done: &Done, why: &RedisError) {
        if let Some(claim) = self.claims.get_mut(&done.record).filter(|c| c.has(done.count)) {
            claim.is_doubtful();
        }
        let (link, heals) = (done.link, self.link.as_ref().is_some_and(Link::heals));
        if heals {
            // Until something is answered again: a cluster's connections come back by themselves.
            self.mouth.connected(false);
        }
        if self.number == link && !heals {
            tracing::debug!(%why, "the connection to Redis is broken; connecting again");
            self.last_trouble = Some(trouble(why));
            self.unlink(link);
        }
    }

    /// Something did not work: it is tried again, as long as that makes sense.
    fn failed(&mut self, done: &Done, why: Trouble) {
        let now = Instant::now();
        match done.op {
            Op::Who => {}
            Op::Renew => self.not_renewed(done, why.kind),
            Op::ReleaseRead | Op::ReleaseWrite | Op::Cancel => {
                if let Some(leaving) = self.leaving.get_mut(&done.count) {
                    let (pause, _) = leaving.trouble.failed(now);
                    self.alarms.unset(leaving.alarm.take());
                    let due = Due::Leaving(done.count);
                    leaving.alarm = Some(self.alarms.set(now + jittered(pause), due));
                }
            }
            Op::AcquireRead | Op::AcquireWrite | Op::Upgrade | Op::Downgrade => {
                let Some(claim) = self.claims.get_mut(&done.record) else { return };
                if claim.count != done.count || claim.pending != Some(done.op) {
                    return;
                }
                let (pause, since) = claim.trouble.failed(now);
                let is_over = !why.kind.may_pass() || since >= self.settings.patience;
                self.alarms.unset(claim.alarm.take());
                let due = Due::Claim(done.record.clone(), done.count);
                claim.alarm = Some(self.alarms.set(now + jittered(pause), due));
                if is_over && done.op != Op::Downgrade {
                    claim.trouble = Retry::default();
                    self.refuse(&done.record, why);
                }
            }
        }
    }

    /// The keep-alive is not answered, and the node will send it again. But where one part of a
    /// cluster can't be reached, or one record can't be looked at, what is there must not take all
    /// else with it: what is held there is lost alone, and what waits there is not counted.
    fn not_renewed(&mut self, done: &Done, why: TroubleKind) {
        let Some(round) = done.round else { return };
        let is_part = self.link.as_ref().is_some_and(Link::heals);
        let (half, is_sure) = (self.lease / 2, is_about_the_record(why));
        let claim = self.claims.get_mut(&done.record).filter(|claim| claim.has(done.count));
        match claim {
            Some(claim) if !claim.is_held() && (is_part || is_sure) => claim.is_doubtful(),
            Some(claim) if is_sure || is_part && claim.renewed.elapsed() > half => {
                self.lost(&done.record);
            }
            Some(_) => {
                self.renewals.remove(&round);
                return;
            }
            // It is over, and nothing rests on it.
            None => {}
        }
        self.renewed(round, 1);
    }

    fn acquired(&mut self, done: &Done, value: &Value) {
        let claim = self.claims.get_mut(&done.record).filter(|claim| claim.has(done.count));
        let Some(claim) = claim else { return self.ghost(done) };
        if claim.count != done.count || claim.pending != Some(done.op) {
            return;
        }
        let Some((what, number, wish)) = three(value) else {
            return self.failed(done, strange(value));
        };
        let ahead = ahead(value);
        claim.is_certain(done.sent);
        let seq = claim.upgrade.unwrap_or(claim.seq);
        let record = done.record.clone();
        match what {
            1 => self.granted(record, number, wish),
            0 => {
                claim.trouble = Retry::default();
                let was_ahead = std::mem::replace(&mut claim.ahead, ahead);
                let was_queued = std::mem::replace(&mut claim.is_queued, true);
                let mut pause = jittered(self.settings.recheck);
                if let Ok(end) = u64::try_from(number) {
                    // A moment after the first identifier ends.
                    let end = Duration::from_micros(end) + Duration::from_millis(1);
                    pause = pause.min(jittered(end.max(Duration::from_millis(5))));
                }
                self.alarms.unset(claim.alarm.take());
                let due = Due::Claim(record.clone(), done.count);
                claim.alarm = Some(self.alarms.set(Instant::now() + pause, due));
                if !was_queued || was_ahead != ahead {
                    self.say(queued(record, seq, ahead));
                }
            }
            -1 => self.lost(&record),
            _ => {
                claim.upgrade = None;
                claim.pending = None;
                claim.is_queued = false;
                self.alarms.unset(claim.alarm.take());
                self.say(ToNode::Refused { record, seq, why: AcquireRefusal::UpgradeConflict });
            }
        }
    }

    /// An acquire was done after its end was: it is ended once more.
    fn ghost(&mut self, done: &Done) {
        if !self.leaving.contains_key(&done.count) {
            let keys = Arc::new(Keys::of(&done.record, self.settings.hash_tag));
            self.end(&done.record, (done.count, Vec::new()), keys, Op::Cancel);
        }
    }

    /// What was asked for at a record is ours.
    fn granted(&mut self, record: Record, number: i64, wish: Option<Mode>) {
        let Some(claim) = self.claims.get_mut(&record) else { return };
        let mode = match claim.pending {
            Some(Op::AcquireRead) => Mode::Read,
            Some(Op::AcquireWrite | Op::Upgrade) => Mode::Write,
            _ => return,
        };
        let seq = claim.upgrade.take().unwrap_or(claim.seq);
        let token = Token::from_number(number).unwrap_or_default();
        (claim.seq, claim.mode, claim.token) = (seq, mode, token);
        (claim.pending, claim.is_queued, claim.trouble) = (None, false, Retry::default());
        let wish = claim.wish.take().unwrap_or(wish);
        (claim.wanted, claim.turns) = (wish, 0);
        claim.before.clear();
        claim.changed = Instant::now();
        self.alarms.unset(claim.alarm.take());
        if let Some(wanted) = wish.filter(|_| self.settings.caching) {
            // A node that keeps what it has may have its turns, as it does when it is asked later.
            let granted = record.clone();
            self.say(ToNode::Granted { record: granted, seq, mode, token, give_back: None });
            return self.wished(record, seq, Some(wanted));
        }
        self.say(ToNode::Granted { record, seq, mode, token, give_back: wish });
    }

    /// Tells the node what others want of what it has.
    fn wished(&self, record: Record, seq: Seq, wish: Option<Mode>) {
        // Whatever Redis says comes in order: of two with the same ticket the later counts.
        let at = Ticket::default();
        self.say(match wish {
            Some(wanted) => ToNode::Revoke { record, seq, wanted, at },
            None => ToNode::Keep { record, seq, at },
        });
    }

    fn downgraded(&mut self, done: &Done, value: &Value) {
        let Some(claim) = self.claims.get_mut(&done.record) else { return };
        if claim.count != done.count || claim.pending != Some(Op::Downgrade) {
            return;
        }
        claim.is_certain(done.sent);
        (claim.pending, claim.changed) = (None, Instant::now());
        let seq = claim.seq;
        self.alarms.unset(claim.alarm.take());
        match value {
            Value::Int(0) => self.lost(&done.record),
            Value::Int(2) => self.wished(done.record.clone(), seq, Some(Mode::Write)),
            _ => {}
        }
    }

    /// What an identifier is in Redis.
    fn looked(&mut self, done: &Done, value: &Value) {
        let Value::BulkString(is) = value else { return self.failed(done, strange(value)) };
        if let Some(claim) = self.claims.get_mut(&done.record).filter(|c| c.count == done.count) {
            claim.renewed = claim.renewed.max(done.sent);
            let is_enough = match (claim.pending, claim.mode) {
                (None, Mode::Write) => is == b"w",
                (None, Mode::Read) => is == b"r",
                _ => is == b"w" || is == b"r",
            };
            if !is.is_empty() {
                claim.is_alive(done.sent);
            }
            if claim.is_held() {
                // What was true before it was granted says nothing.
                if !is_enough && done.sent >= claim.changed {
                    self.lost(&done.record);
                }
            } else if claim.is_queued && is != b"q" {
                // It has been granted without our hearing it, or its place is gone.
                self.ask(&done.record);
            }
        }
        if let Some(round) = done.round {
            self.renewed(round, 1);
        }
    }

    fn left(&mut self, done: &Done, value: &Value) {
        self.leaving.remove(&done.count);
        if *value == Value::Int(0) && done.op != Op::Cancel {
            let record = &done.record;
            tracing::warn!(%record, "not held: the lock that is released is no longer in Redis");
        }
    }

    /// Redis does not have our identifier any more, although it should.
    fn lost(&mut self, record: &Record) {
        let Some(claim) = self.claims.get(record) else { return };
        let seq = claim.seq;
        tracing::warn!(%record, "lost: our identifier is no longer in Redis");
        // Whatever may be left of it.
        self.leave(record);
        self.say(ToNode::Lost { record: record.clone(), seq });
    }

    /// Somebody has published something for us.
    pub(crate) fn word(&mut self, number: u64, word: Word) {
        if number != self.number {
            return;
        }
        match (word, &self.link) {
            (Word::Said(said), Some(_)) => self.said(&said),
            (Word::Said(_), None) => {}
            (Word::Gone, Some(link)) if link.heals() => self.look_again(),
            (Word::Gone | Word::Deaf, Some(_)) => self.unlink(number),
            // Before we have heard that there is one.
            (Word::Gone | Word::Deaf, None) => self.is_stillborn = true,
        }
    }

    /// `g <mode> <token> <wanted> <count> <record>`: it is ours now.
    /// `w <wanted> <count> <record>`: somebody wants what we have, or nobody does any more. The
    /// count is `*` where all are told.
    /// `a ...` and `h ...`: see [`crate::holders`].
    fn said(&mut self, said: &[u8]) {
        let mut words = said.splitn(2, |&byte| byte == b' ');
        match (words.next(), words.next()) {
            (Some(b"g"), Some(rest)) => {
                let words: Vec<&[u8]> = rest.splitn(5, |&byte| byte == b' ').collect();
                let [_, token, wish, count, name] = words[..] else { return };
                let (Some(token), Some(count)) = (integer(token), integer(count)) else { return };
                let Ok(record) = Record::parse(name) else { return };
                let claim = self.claims.get(&record);
                match claim.filter(|claim| u64::try_from(count) == Ok(claim.count)) {
                    // Its end may have come meanwhile.
                    Some(claim) if claim.doubt.is_some() => self.ask(&record),
                    // This number is asked for once. The answer that it stands in line may come
                    // later than this.
                    Some(_) => self.granted(record, token, mode(wish)),
                    None => {}
                }
            }
            (Some(b"w"), Some(rest)) => {
                let words: Vec<&[u8]> = rest.splitn(3, |&byte| byte == b' ').collect();
                let [wish, count, name] = words[..] else { return };
                let Ok(record) = Record::parse(name) else { return };
                let Some(claim) = self.claims.get_mut(&record) else { return };
                let count = integer(count).map(|count| u64::try_from(count).unwrap_or(u64::MAX));
                let is_asked = claim.upgrade.is_some() || !claim.is_held();
                match count {
                    // It comes before the answer that it is ours: only holders are told.
                    Some(count) if count == claim.count && is_asked => {
                        claim.wish = Some(mode(wish));
                    }
                    Some(count) if !claim.has(count) => {}
                    None if !claim.is_held() => {}
                    _ => {
                        claim.wanted = mode(wish);
                        let (seq, wanted) = (claim.seq, claim.wanted);
                        self.wished(record, seq, wanted);
                    }
                }
            }
            (Some(b"a"), Some(rest)) => self.asked(rest),
            (Some(b"h"), Some(rest)) => self.told_by_holder(rest),
            _ => {}
        }
    }
}

/// Whether Redis has written something for us: a replica answers also, where nothing is changed.
fn has_written(op: Op, value: &Value, plain: bool) -> bool {
    match op {
        Op::ReleaseRead | Op::ReleaseWrite | Op::Cancel => true,
        Op::AcquireRead | Op::AcquireWrite => !plain || three(value).is_some_and(|it| it.0 == 1),
        Op::Upgrade => !plain && three(value).is_some_and(|it| it.0 != -1),
        Op::Renew => !plain && *value != Value::BulkString(Vec::new()),
        Op::Downgrade => !plain,
        Op::Who => false,
    }
}

pub(crate) fn integer(digits: &[u8]) -> Option<i64> {
    std::str::from_utf8(digits).ok()?.parse().ok()
}

pub(crate) fn mode(word: &[u8]) -> Option<Mode> {
    match word {
        b"r" => Some(Mode::Read),
        b"w" => Some(Mode::Write),
        _ => None,
    }
}

/// What a script says: what became of it, a number, and what others want.
fn three(value: &Value) -> Option<(i64, i64, Option<Mode>)> {
    match value {
        Value::Array(values) => match &values[..] {
            [Value::Int(what), Value::Int(number), Value::BulkString(wish), ..] => {
                Some((*what, *number, mode(wish)))
            }
            _ => None,
        },
        _ => None,
    }
}

/// How many are served before one that has to wait, if there is a line.
fn ahead(value: &Value) -> Option<u32> {
    let Value::Array(values) = value else { return None };
    let &[_, _, _, Value::Int(ahead)] = &values[..] else { return None };
    u32::try_from(ahead).ok()
}

fn strange(value: &Value) -> Trouble {
    let said = format!("unexpected reply of Redis to a script: {value:?}");
    Trouble::new(TroubleKind::Other, said)
}
