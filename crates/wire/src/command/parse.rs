//! The arguments of the commands `LS.*`.

use std::time::Duration;

use bytes::Bytes;
use lockspan_protocol::{Annotation, Claim, GroupSet, Handoff, Owner, Record};

use super::{Command, Events, Wait};
use crate::handle::{LockHandle, LockId};
use crate::read::{self, Bad, MILLIS, Reader};
use crate::tell;

type Read = Result<Command, Bad>;

/// How much `LS.LOCKS` and `LS.HISTORY` show if they are not told.
const LOCKS_SHOWN: usize = 100;

/// How many records or sessions are shown at most.
const SHOWN_MAX: usize = 1000;

/// How many records `LS.LOCKALL` locks at most.
const LOCKED_AT_ONCE: usize = 100;

/// What the ID of `LS.LOCK` may be.
const LOCK_ID: &str = "a random UUID (32 hexadecimal digits), a new one for every lock";

pub(super) fn tell(from: &mut Reader<'_>) -> Read {
    let (session, message) = tell::read_tell(from)?;
    Ok(Command::Tell { session, message })
}

pub(super) fn open(from: &mut Reader<'_>) -> Read {
    let (mut session, mut ttl, mut handoff, mut events) = (None, None, None, None);
    let mut label = None;
    while let Some(option) = from.next() {
        match upper(option).as_str() {
            "LEASE" => from.once("LEASE", &mut ttl, |from| from.duration("lease"))?,
            "HANDOFF" => from.once("HANDOFF", &mut handoff, |from| from.handoff("hand-off"))?,
            "EVENTS" => from.once("EVENTS", &mut events, events_word)?,
            "SESSION" => from.once("SESSION", &mut session, |from| from.session("session"))?,
            "LABEL" => from.once("LABEL", &mut label, |from| from.annotation("label"))?,
            _ => {
                let allowed = "one of LEASE, HANDOFF, EVENTS, SESSION, LABEL";
                return Err(from.not("option", option, allowed));
            }
        }
    }
    let handoff = handoff.unwrap_or(Handoff::Direct);
    Ok(Command::Open { session, ttl, handoff, events: events.unwrap_or_default(), label })
}

pub(super) fn label(from: &mut Reader<'_>) -> Read {
    Ok(Command::Label { session: from.session("session")?, label: from.annotation("label")? })
}

pub(super) fn take_back(from: &mut Reader<'_>) -> Read {
    let record = from.record_word()?;
    let mut wait = None;
    while let Some(option) = from.next() {
        match upper(option).as_str() {
            "WAIT" => from.once("WAIT", &mut wait, |from| from.duration("wait"))?,
            _ => return Err(from.not("option", option, "WAIT")),
        }
    }
    Ok(Command::TakeBack { record, wait })
}

pub(super) fn keep(from: &mut Reader<'_>) -> Read {
    Ok(Command::Keep { session: from.session("session")? })
}

pub(super) fn close(from: &mut Reader<'_>) -> Read {
    Ok(Command::Close { session: from.session("session")? })
}

pub(super) fn end(from: &mut Reader<'_>) -> Read {
    Ok(Command::End { id: from.public("id")? })
}

pub(super) fn events(from: &mut Reader<'_>) -> Read {
    Ok(Command::Attach { session: from.session("session")?, events: events_word(from)? })
}

pub(super) fn acquire(from: &mut Reader<'_>) -> Read {
    let session = from.session("session")?;
    let record = from.record_word()?;
    let mode = from.mode("mode")?;
    let (mut wait, mut seq, mut upgrade, mut owners) = (None, None, None, Vec::new());
    let mut note = None;
    while let Some(option) = from.next() {
        match upper(option).as_str() {
            "WAIT" => from.once("WAIT", &mut wait, wait_word)?,
            "SEQ" => from.once("SEQ", &mut seq, |from| from.seq("seq"))?,
            "UPGRADE" => from.once("UPGRADE", &mut upgrade, |_| Ok(()))?,
            "OWNER" => owners.push(Owner(from.number("owner")?)),
            "NOTE" => from.once("NOTE", &mut note, |from| from.annotation("note"))?,
            _ => return Err(from.not("option", option, "one of WAIT, SEQ, UPGRADE, NOTE, OWNER")),
        }
    }
    let (wait, upgrade) = (wait.unwrap_or_default(), upgrade.is_some());
    Ok(Command::Acquire { session, record, mode, wait, seq, upgrade, owners, note })
}

pub(super) fn release(from: &mut Reader<'_>) -> Read {
    let session = from.session("session")?;
    let record = from.record_word()?;
    let seq = from.seq("seq")?;
    let mut keep = None;
    while let Some(option) = from.next() {
        match upper(option).as_str() {
            "KEEP" => from.once("KEEP", &mut keep, |from| from.seq("seq to keep"))?,
            _ => return Err(from.not("option", option, "KEEP")),
        }
    }
    Ok(Command::Release { session, record, seq, keep })
}

pub(super) fn convert(from: &mut Reader<'_>) -> Read {
    let session = from.session("session")?;
    let record = from.record_word()?;
    let seq = from.seq("seq")?;
    let mode = from.mode("mode")?;
    let mut wait = None;
    while let Some(option) = from.next() {
        match upper(option).as_str() {
            "WAIT" => from.once("WAIT", &mut wait, wait_word)?,
            _ => return Err(from.not("option", option, "WAIT")),
        }
    }
    Ok(Command::Convert { session, record, seq, mode, wait: wait.unwrap_or_default() })
}

pub(super) fn cancel(from: &mut Reader<'_>) -> Read {
    let session = from.session("session")?;
    Ok(Command::Cancel { session, record: from.record_word()?, seq: from.seq("seq")? })
}

pub(super) fn lock(from: &mut Reader<'_>) -> Read {
    let record = from.record_word()?;
    let mode = from.mode("mode")?;
    let LockOptions { wait, ttl, id, label, note } = lock_options(from)?;
    Ok(Command::Lock { record, mode, wait, ttl, id, label, note })
}

pub(super) fn lock_all(from: &mut Reader<'_>) -> Read {
    let allowed = "the number of records, from 1 to 100";
    let count = from.parsed("numrecords", allowed, |word| {
        let count = std::str::from_utf8(word).ok()?.parse().ok()?;
        (1..=LOCKED_AT_ONCE).contains(&count).then_some(count)
    })?;
    let mut records = Vec::with_capacity(count);
    for _ in 0..count {
        records.push((from.record_word()?, from.mode("mode")?));
    }
    records.sort_by(|(one, _), (other, _)| one.lock_order().cmp(&other.lock_order()));
    records.dedup_by(|(later, stronger), (kept, mode)| {
        let is_same = later == kept;
        if is_same {
            *mode = (*mode).max(*stronger);
        }
        is_same
    });
    let LockOptions { wait, ttl, id, label, note } = lock_options(from)?;
    Ok(Command::LockAll { records, wait, ttl, id, label, note })
}

/// What `LS.LOCK` and `LS.LOCKALL` may say behind their records.
struct LockOptions {
    wait: Wait,
    ttl: Option<Duration>,
    id: Option<LockId>,
    label: Option<Annotation>,
    note: Option<Annotation>,
}

fn lock_options(from: &mut Reader<'_>) -> Result<LockOptions, Bad> {
    let (mut wait, mut ttl, mut id, mut label, mut note) = (None, None, None, None, None);
    while let Some(option) = from.next() {
        match upper(option).as_str() {
            "WAIT" => from.once("WAIT", &mut wait, wait_word)?,
            "LEASE" => from.once("LEASE", &mut ttl, |from| from.duration("lease"))?,
            "ID" => from.once("ID", &mut id, |from| from.parsed("id", LOCK_ID, LockId::parse))?,
            "LABEL" => from.once("LABEL", &mut label, |from| from.annotation("label"))?,
            "NOTE" => from.once("NOTE", &mut note, |from| from.annotation("note"))?,
            _ => return Err(from.not("option", option, "one of WAIT, LEASE, ID, LABEL, NOTE")),
        }
    }
    Ok(LockOptions { wait: wait.unwrap_or(Wait::Forever), ttl, id, label, note })
}

pub(super) fn renew(from: &mut Reader<'_>) -> Read {
    let record = from.record_word()?;
    let allowed = "a handle from the reply to LS.LOCK";
    let (id, grant) = from.parsed("handle", allowed, |word| {
        let handle = LockHandle::parse(word)?;
        handle.grant.map(|grant| (handle.id, grant))
    })?;
    Ok(Command::Renew { record, id, grant })
}

pub(super) fn unlock(from: &mut Reader<'_>) -> Read {
    let record = from.record_word()?;
    let allowed = "a handle from the reply to LS.LOCK, nor the ID that was given to it";
    Ok(Command::Unlock { record, handle: from.parsed("handle", allowed, LockHandle::parse)? })
}

pub(super) fn reassert(from: &mut Reader<'_>) -> Read {
    let session = from.session("session")?;
    let record = from.record_word()?;
    let epoch = from.epoch("epoch")?;
    let seq = from.seq("seq")?;
    let mode = from.mode("mode")?;
    let claim = from.word("claim")?;
    let token = match upper(claim).as_str() {
        "HELD" => Some(from.token("token")?),
        "WAITING" => None,
        _ => return Err(from.not("claim", claim, "one of HELD, WAITING")),
    };
    let (mut former, mut ticket, mut upgrade, mut owners) = (None, None, None, Vec::new());
    let waiting = token.is_none();
    while let Some(option) = from.next() {
        match upper(option).as_str() {
            "FORMER" => from.once("FORMER", &mut former, |from| from.session("session"))?,
            "TICKET" if waiting => {
                from.once("TICKET", &mut ticket, |from| from.ticket("ticket"))?
            }
            "UPGRADE" if waiting => from.once("UPGRADE", &mut upgrade, |_| Ok(()))?,
            "OWNER" if waiting => owners.push(Owner(from.number("owner")?)),
            _ if waiting => {
                return Err(from.not("option", option, "one of TICKET, UPGRADE, OWNER, FORMER"));
            }
            _ => return Err(from.not("option", option, "FORMER")),
        }
    }
    let claim = match token {
        Some(token) => Claim::Held { token },
        None => Claim::Waiting { ticket, upgrade: upgrade.is_some(), owners },
    };
    Ok(Command::Reassert { session, record, epoch, former, seq, mode, claim })
}

pub(super) fn reasserted(from: &mut Reader<'_>) -> Read {
    let session = from.session("session")?;
    let epoch = from.epoch("epoch")?;
    let count = from.count("count")?;
    let sum = from.number("sum")?;
    let (mut groups, mut former) = (None, None);
    while let Some(option) = from.next() {
        match upper(option).as_str() {
            "GROUPS" => from.once("GROUPS", &mut groups, |from| from.groups("groups"))?,
            "FORMER" => from.once("FORMER", &mut former, |from| from.session("session"))?,
            _ => return Err(from.not("option", option, "one of GROUPS, FORMER")),
        }
    }
    let groups = groups.unwrap_or(GroupSet::ALL);
    Ok(Command::Reasserted { session, groups, epoch, former, count, sum })
}

pub(super) fn inspect(from: &mut Reader<'_>) -> Read {
    Ok(Command::Inspect { record: from.record_word()? })
}

pub(super) fn history(from: &mut Reader<'_>) -> Read {
    let record = from.record_word()?;
    let mut count = None;
    while let Some(option) = from.next() {
        match upper(option).as_str() {
            "COUNT" => from.once("COUNT", &mut count, count_word)?,
            _ => return Err(from.not("option", option, "COUNT")),
        }
    }
    Ok(Command::History { record, count: count.unwrap_or(LOCKS_SHOWN) })
}

pub(super) fn waits(_: &mut Reader<'_>) -> Read {
    Ok(Command::Waits)
}

pub(super) fn locks(from: &mut Reader<'_>) -> Read {
    let (mut cursor, mut count, mut pattern) = (None, None, None);
    let mut first = true;
    while let Some(option) = from.next() {
        match upper(option).as_str() {
            "MATCH" => from.once("MATCH", &mut pattern, |from| {
                from.parsed("pattern", "at most 512 bytes, as names are", |word| {
                    (word.len() <= Record::LEN_MAX).then(|| Bytes::copy_from_slice(word))
                })
            })?,
            "COUNT" => from.once("COUNT", &mut count, count_word)?,
            _ if first => match read::number(option) {
                Some(number) => cursor = Some(number),
                None => return Err(from.not("cursor", option, "a number, nor MATCH or COUNT")),
            },
            _ => return Err(from.not("option", option, "one of MATCH, COUNT")),
        }
        first = false;
    }
    let (cursor, count) = (cursor.unwrap_or(0), count.unwrap_or(LOCKS_SHOWN));
    Ok(Command::Locks { cursor, count, pattern })
}

pub(super) fn sessions(from: &mut Reader<'_>) -> Read {
    let (mut after, mut count) = (None, None);
    while let Some(option) = from.next() {
        match upper(option).as_str() {
            "AFTER" => from.once("AFTER", &mut after, |from| from.public("id"))?,
            "COUNT" => from.once("COUNT", &mut count, count_word)?,
            _ => return Err(from.not("option", option, "one of AFTER, COUNT")),
        }
    }
    Ok(Command::Sessions { after, count: count.unwrap_or(SHOWN_MAX) })
}

fn count_word(from: &mut Reader<'_>) -> Result<usize, Bad> {
    from.parsed("count", "a whole number from 1 to 1000", |word| {
        let count = usize::try_from(read::number(word)?).ok()?;
        (1..=SHOWN_MAX).contains(&count).then_some(count)
    })
}

pub(super) fn slots(_: &mut Reader<'_>) -> Read {
    Ok(Command::Slots)
}

fn events_word(from: &mut Reader<'_>) -> Result<Events, Bad> {
    from.parsed("events", "one of push, message, none", |word| match upper(word).as_str() {
        "PUSH" => Some(Events::Push),
        "MESSAGE" => Some(Events::Message),
        "NONE" => Some(Events::None),
        _ => None,
    })
}

fn wait_word(from: &mut Reader<'_>) -> Result<Wait, Bad> {
    let allowed = format!("{MILLIS}, or forever");
    from.parsed("wait", &allowed, |word| {
        if word.eq_ignore_ascii_case(b"forever") {
            return Some(Wait::Forever);
        }
        read::duration(word).map(Wait::Ms)
    })
}

/// A word in upper case: names of options are taken in any case.
pub(super) fn upper(word: &[u8]) -> String {
    String::from_utf8_lossy(word).to_ascii_uppercase()
}
