//! What a server tells a session outside of replies.

use std::time::Duration;

use bytes::{Buf, BytesMut};
use lockspan_protocol::{
    AcquireRefusal, Group, GroupSet, NotServed, Record, Seq, SessionId, SessionRefusal, Term,
    ToNode,
};

use crate::error::WireError;
use crate::gate::{self, Few, Found};
use crate::hot;
use crate::limits::{Protocol, WireLimits};
use crate::read::{Bad, Reader};
use crate::reply::{channel, channel_session};
use crate::value::{self, Value, put_bulk, put_head};
use crate::words::{Bulks, Text, Words, millis_word, newer};

/// The first word of a push that is an event.
const SPEAKER: &str = "lockspan";

/// The reason of a `no-session` that an operator has caused.
const OPERATOR: &[u8] = b"operator";

/// What a server tells a session outside of replies.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Event {
    /// A message of the protocol.
    Node(ToNode),
    /// The session that `LS.TELL ... open` asked for is refused.
    NotOpened(SessionRefusal),
    /// Another connection has released a grant of the session, or turned a write into a read. To a
    /// node that is [`ToNode::Lost`].
    Released {
        /// What.
        record: Record,
        /// Which grant.
        seq: Seq,
    },
    /// An operator has ended the session. To a node that is [`ToNode::NoSession`].
    EndedByOperator,
    /// The server is about to stop: connect again. Leases go on.
    Stopping,
}

/// How an event is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventStyle {
    /// `>N lockspan <session> <kind> ...`: RESP3 only.
    Push,
    /// The same for a node of protocol 1: without the fields that it does not know.
    OldPush,
    /// `message lockspan:<session> <text>`, as a subscription's message: a push of RESP3, or the
    /// array of RESP2.
    Message(Protocol),
}

/// What a server sends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FromServer {
    /// An event of a session, in either style.
    Event {
        /// Of which session.
        session: SessionId,
        /// What.
        event: Event,
    },
    /// A reply, or a push that is not ours.
    Value(Value),
}

/// Writes an event to the end of `out`.
pub fn put_event(session: SessionId, event: &Event, style: EventStyle, out: &mut BytesMut) {
    if let (Event::Node(message), EventStyle::Push) = (event, style)
        && hot::put_granted(session, message, out)
    {
        return;
    }
    put_long_event(session, event, style, out);
}

/// The same, the long way.
pub(crate) fn put_long_event(
    session: SessionId,
    event: &Event,
    style: EventStyle,
    out: &mut BytesMut,
) {
    match style {
        EventStyle::OldPush if matches!(event, Event::Node(ToNode::Moved { .. })) => {}
        EventStyle::OldPush => {
            let mut to = Bulks::new(b'>', SPEAKER, session, out);
            match event {
                Event::Node(ToNode::Alive { number, .. }) => {
                    to.begin("alive", 1);
                    to.number(*number);
                }
                Event::Node(ToNode::Recovered { term, .. }) => {
                    to.begin("recovered", 2);
                    put_term(term, &mut to);
                }
                event => put_words(event, &mut to),
            }
            to.finish();
        }
        EventStyle::Push => {
            let mut to = Bulks::new(b'>', SPEAKER, session, out);
            put_words(event, &mut to);
            to.finish();
        }
        EventStyle::Message(protocol) => {
            let mut text = Text::default();
            put_words(event, &mut text);
            put_head(if protocol == Protocol::Resp3 { b'>' } else { b'*' }, 3, out);
            put_bulk(b"message", out);
            put_bulk(channel(session).as_bytes(), out);
            put_bulk(&text.0, out);
        }
    }
}

fn put_words(event: &Event, to: &mut impl Words) {
    match event {
        Event::Node(message) => put_node(message, to),
        Event::NotOpened(why) => {
            to.begin("not-opened", 2);
            put_session_refusal(why, to);
        }
        Event::Released { record, seq } => {
            to.begin("released", 2);
            to.number(seq.0);
            to.record(record);
        }
        Event::EndedByOperator => {
            to.begin("no-session", 1);
            to.word(OPERATOR);
        }
        Event::Stopping => to.begin("stopping", 0),
    }
}

fn put_node(message: &ToNode, to: &mut impl Words) {
    match message {
        ToNode::Granted { record, seq, mode, token, give_back } => {
            to.begin("granted", 5);
            to.number(seq.0);
            to.mode(Some(*mode));
            to.packed(token.number());
            to.mode(*give_back);
            to.record(record);
        }
        ToNode::Queued { record, seq, ticket, ahead } => {
            to.begin("queued", 4);
            to.number(seq.0);
            to.packed(ticket.number());
            to.number((*ahead).into());
            to.record(record);
        }
        ToNode::HeldBy { record, seq, ahead, holders } => {
            to.begin("held-by", 4);
            to.number(seq.0);
            to.number((*ahead).into());
            to.holders(holders);
            to.record(record);
        }
        ToNode::Retry { record, seq } => {
            to.begin("retry", 2);
            to.number(seq.0);
            to.record(record);
        }
        ToNode::Revoke { record, seq, wanted, at } => {
            to.begin("revoke", 4);
            to.number(seq.0);
            to.mode(Some(*wanted));
            to.packed(at.number());
            to.record(record);
        }
        ToNode::Keep { record, seq, at } => {
            to.begin("keep", 3);
            to.number(seq.0);
            to.packed(at.number());
            to.record(record);
        }
        ToNode::Refused { record, seq, why } => {
            to.begin("refused", 4);
            to.number(seq.0);
            put_acquire_refusal(why, to);
            to.record(record);
        }
        ToNode::Lost { record, seq } => {
            to.begin("lost", 2);
            to.number(seq.0);
            to.record(record);
        }
        ToNode::Opened { terms } => {
            to.begin("opened", 1);
            to.terms(terms);
        }
        ToNode::Alive { number, groups } if *groups == GroupSet::ALL => {
            to.begin("alive", 1);
            to.number(*number);
        }
        ToNode::Alive { number, groups } => {
            to.begin("alive", 2);
            to.number(*number);
            to.groups(*groups);
        }
        ToNode::Moved { groups } => {
            to.begin("moved", 1);
            to.groups(*groups);
        }
        ToNode::NoSession => to.begin("no-session", 0),
        ToNode::Serving(term) => {
            to.begin("serving", 2);
            put_term(term, to);
        }
        ToNode::Heard { term, former, first, whole } => {
            to.begin("heard", 5);
            put_term(term, to);
            to.number(former.0);
            to.number(first.0);
            to.flag(*whole);
        }
        ToNode::Recovered { term, former } => {
            to.begin("recovered", 3);
            put_term(term, to);
            to.number(former.0);
        }
        ToNode::Unlisted { term, former } => {
            to.begin("unlisted", 3);
            put_term(term, to);
            to.number(former.0);
        }
        _ => newer(message),
    }
}

fn put_term(term: &Term, to: &mut impl Words) {
    to.groups(term.groups);
    to.epoch(term.epoch);
}

/// Two words: why, and what there is to tell about it.
fn put_acquire_refusal(why: &AcquireRefusal, to: &mut impl Words) {
    let mut max = |word: &str, max: &usize| {
        to.word(word.as_bytes());
        to.number(*max as u64);
    };
    match why {
        AcquireRefusal::TooManyWaiters { max: most } => max("too-many-waiters", most),
        AcquireRefusal::TooManyClaims { max: most } => max("too-many-claims", most),
        AcquireRefusal::TooManyRecords { max: most } => max("too-many-records", most),
        AcquireRefusal::TooManyAllClaims { max: most } => max("too-many-all-claims", most),
        AcquireRefusal::TooManyUserWaiters { max: most } => max("too-many-user-waiters", most),
        AcquireRefusal::TooManyUserRecords { max: most } => max("too-many-user-records", most),
        AcquireRefusal::TooManyUserClaims { max: most } => max("too-many-user-claims", most),
        AcquireRefusal::TooManyOwners { max: most } => max("too-many-owners", most),
        AcquireRefusal::NotServed(NotServed { group }) => max("not-served", &group.0.into()),
        AcquireRefusal::Deadlock { cycle } => {
            to.word(b"deadlock");
            to.owners(cycle);
        }
        AcquireRefusal::Denied { mode } => {
            to.word(b"denied");
            to.mode(Some(*mode));
        }
        AcquireRefusal::StaleSeq => bare("stale-seq", to),
        AcquireRefusal::UpgradeConflict => bare("upgrade-conflict", to),
        AcquireRefusal::NotHeld => bare("not-held", to),
        _ => newer(why),
    }
}

fn put_session_refusal(why: &SessionRefusal, to: &mut impl Words) {
    match why {
        SessionRefusal::Lease { min, max } => {
            to.word(b"lease");
            to.word(format!("{}-{}", millis_word(*min), millis_word(*max)).as_bytes());
        }
        SessionRefusal::TooMany { max } => {
            to.word(b"too-many");
            to.number(*max as u64);
        }
        SessionRefusal::TooManyOfUser { max } => {
            to.word(b"too-many-of-user");
            to.number(*max as u64);
        }
        SessionRefusal::Unknown => bare("unknown", to),
        SessionRefusal::Differs => bare("differs", to),
        SessionRefusal::Resting => bare("resting", to),
        _ => newer(why),
    }
}

fn bare(word: &str, to: &mut impl Words) {
    to.word(word.as_bytes());
    to.word(b"-");
}

/// Takes the next event or reply from `buf`, RESP3. `None`: it is not all there yet, and nothing
/// was taken.
pub fn take_from_server(
    buf: &mut BytesMut,
    limits: &WireLimits,
) -> Result<Option<FromServer>, WireError> {
    if let Some((len, session, message)) = hot::granted(buf, limits) {
        buf.advance(len);
        return Ok(Some(FromServer::Event { session, event: Event::Node(message) }));
    }
    take_long_from_server(buf, limits)
}

/// The same, the long way.
pub(crate) fn take_long_from_server(
    buf: &mut BytesMut,
    limits: &WireLimits,
) -> Result<Option<FromServer>, WireError> {
    if buf.first() == Some(&b'>') {
        let mut few: Few<'_> = Default::default();
        let Some(found) = gate::bulks(buf, limits, &mut few)? else { return Ok(None) };
        if let Found::Bulks { len, count } = found
            && let Some(words) = few.get(..count)
            && let Some(event) = event(words)?
        {
            buf.advance(len);
            return Ok(Some(event));
        }
    }
    let Some(len) = gate::from_server(buf, limits)? else { return Ok(None) };
    value::read(&buf.split_to(len).freeze()).map(|value| Some(FromServer::Value(value)))
}

/// The event that these words of a push are, if it is one.
fn event(words: &[&[u8]]) -> Result<Option<FromServer>, WireError> {
    let (session, event) = match words {
        [speaker, words @ ..] if *speaker == SPEAKER.as_bytes() => {
            let mut from = Reader::list("field", words);
            (from.session("session").map_err(wrong)?, read_event(&mut from))
        }
        [b"message", channel, text] => match channel_session(channel) {
            Some(session) => (session, read_event(&mut Reader::text("field", text))),
            None => return Ok(None),
        },
        _ => return Ok(None),
    };
    Ok(Some(FromServer::Event { session, event: event.map_err(wrong)? }))
}

fn wrong(bad: Bad) -> WireError {
    WireError::new(format!("an event: {}", bad.text))
}

fn read_event(from: &mut Reader<'_>) -> Result<Event, Bad> {
    let kind = from.word("kind")?;
    let event = match kind {
        b"granted" => ToNode::Granted {
            seq: from.seq("seq")?,
            mode: from.mode("mode")?,
            token: from.token("token")?,
            give_back: from.optional_mode("give-back")?,
            record: from.record()?,
        },
        b"queued" => ToNode::Queued {
            seq: from.seq("seq")?,
            ticket: from.ticket("ticket")?,
            ahead: from.count("ahead")?,
            record: from.record()?,
        },
        b"held-by" => ToNode::HeldBy {
            seq: from.seq("seq")?,
            ahead: from.count("ahead")?,
            holders: from.holders("holders")?,
            record: from.record()?,
        },
        b"retry" => ToNode::Retry { seq: from.seq("seq")?, record: from.record()? },
        b"revoke" => ToNode::Revoke {
            seq: from.seq("seq")?,
            wanted: from.mode("wanted mode")?,
            at: from.ticket("at")?,
            record: from.record()?,
        },
        b"keep" => {
            ToNode::Keep { seq: from.seq("seq")?, at: from.ticket("at")?, record: from.record()? }
        }
        b"refused" => ToNode::Refused {
            seq: from.seq("seq")?,
            why: read_acquire_refusal(from)?,
            record: from.record()?,
        },
        b"lost" => ToNode::Lost { seq: from.seq("seq")?, record: from.record()? },
        b"opened" => ToNode::Opened { terms: from.terms("terms")? },
        b"alive" => ToNode::Alive {
            number: from.number("number")?,
            groups: if from.is_empty() { GroupSet::ALL } else { from.groups("groups")? },
        },
        b"moved" => ToNode::Moved { groups: from.groups("groups")? },
        b"no-session" => match from.next() {
            None => ToNode::NoSession,
            Some(OPERATOR) => {
                return Ok(Event::EndedByOperator);
            }
            Some(reason) => return Err(from.not("reason", reason, "operator")),
        },
        b"serving" => ToNode::Serving(read_term(from)?),
        b"heard" => ToNode::Heard {
            term: read_term(from)?,
            former: from.session("former session")?,
            first: from.seq("first seq")?,
            whole: from.flag("whole")?,
        },
        b"recovered" => {
            ToNode::Recovered { term: read_term(from)?, former: from.session("former session")? }
        }
        b"unlisted" => {
            ToNode::Unlisted { term: read_term(from)?, former: from.session("former session")? }
        }
        b"not-opened" => {
            let why = read_session_refusal(from)?;
            return Ok(Event::NotOpened(why));
        }
        b"released" => {
            let (seq, record) = (from.seq("seq")?, from.record()?);
            return Ok(Event::Released { record, seq });
        }
        b"stopping" => return Ok(Event::Stopping),
        _ => return Err(from.not("kind", kind, "known to this version")),
    };
    // A later version may have added fields.
    Ok(Event::Node(event))
}

fn read_term(from: &mut Reader<'_>) -> Result<Term, Bad> {
    Ok(Term { groups: from.groups("groups")?, epoch: from.epoch("epoch")? })
}

fn read_acquire_refusal(from: &mut Reader<'_>) -> Result<AcquireRefusal, Bad> {
    let why = from.word("reason")?;
    Ok(match why {
        b"too-many-waiters" => AcquireRefusal::TooManyWaiters { max: read_max(from)? },
        b"too-many-claims" => AcquireRefusal::TooManyClaims { max: read_max(from)? },
        b"too-many-records" => AcquireRefusal::TooManyRecords { max: read_max(from)? },
        b"too-many-all-claims" => AcquireRefusal::TooManyAllClaims { max: read_max(from)? },
        b"too-many-user-waiters" => AcquireRefusal::TooManyUserWaiters { max: read_max(from)? },
        b"too-many-user-records" => AcquireRefusal::TooManyUserRecords { max: read_max(from)? },
        b"too-many-user-claims" => AcquireRefusal::TooManyUserClaims { max: read_max(from)? },
        b"too-many-owners" => AcquireRefusal::TooManyOwners { max: read_max(from)? },
        b"not-served" => {
            let group = from.parsed("group", "a group from 0 to 255", |word| {
                Some(Group(crate::read::number(word)?.try_into().ok()?))
            })?;
            AcquireRefusal::NotServed(NotServed { group })
        }
        b"deadlock" => AcquireRefusal::Deadlock { cycle: from.owners("cycle")? },
        b"denied" => AcquireRefusal::Denied { mode: from.mode("mode")? },
        b"stale-seq" => read_bare(from, AcquireRefusal::StaleSeq)?,
        b"upgrade-conflict" => read_bare(from, AcquireRefusal::UpgradeConflict)?,
        b"not-held" => read_bare(from, AcquireRefusal::NotHeld)?,
        _ => return Err(from.not("reason", why, "known to this version")),
    })
}

fn read_session_refusal(from: &mut Reader<'_>) -> Result<SessionRefusal, Bad> {
    let why = from.word("reason")?;
    Ok(match why {
        b"lease" => {
            let (min, max) = from.parsed("bounds", "a range such as 1000-60000", bounds)?;
            SessionRefusal::Lease { min, max }
        }
        b"too-many" => SessionRefusal::TooMany { max: read_max(from)? },
        b"too-many-of-user" => SessionRefusal::TooManyOfUser { max: read_max(from)? },
        b"unknown" => read_bare(from, SessionRefusal::Unknown)?,
        b"differs" => read_bare(from, SessionRefusal::Differs)?,
        b"resting" => read_bare(from, SessionRefusal::Resting)?,
        _ => return Err(from.not("reason", why, "known to this version")),
    })
}

fn bounds(word: &[u8]) -> Option<(Duration, Duration)> {
    let dash = word.iter().position(|&byte| byte == b'-')?;
    Some((crate::read::duration(&word[..dash])?, crate::read::duration(&word[dash + 1..])?))
}

fn read_max(from: &mut Reader<'_>) -> Result<usize, Bad> {
    from.parsed("limit", "a whole number", |word| crate::read::number(word)?.try_into().ok())
}

fn read_bare<T>(from: &mut Reader<'_>, why: T) -> Result<T, Bad> {
    from.parsed("detail", "-", |word| (word == b"-").then_some(why))
}
