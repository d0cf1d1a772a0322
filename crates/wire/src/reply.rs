//! What each command answers, in one place: the server decides, these functions say it.
//!
//! | command | reply |
//! |---|---|
//! | `LS.OPEN` | [`opened`] |
//! | `LS.KEEP` | [`kept`] |
//! | `LS.ACQUIRE`, `LS.CONVERT` | [`granted`], [`queued`], [`Value::Null`] when the wait is over |
//! | the same, for a record that the session has | [`already`] |
//! | `LS.RELEASE`, `LS.CANCEL`, `LS.UNLOCK` | [`ended`] |
//! | `LS.LOCK` | [`locked`], [`Value::Null`] when the wait is over |
//! | `LS.RENEW` | [`kept`] |
//! | `LS.END` | [`ends`] |
//! | `LS.CLOSE`, `LS.EVENTS`, `LS.REASSERT`, `LS.REASSERTED` | [`Value::OK`] |
//! | `LS.INSPECT` | [`record`] |
//! | `LS.LOCKS` | [`locks`] |
//! | `LS.HISTORY`, `LS.WAITS` | [`history`], [`waits`] |
//! | `LS.SESSIONS` | [`sessions`] |
//! | `LS.SLOTS`, `CLUSTER SLOTS` | [`slots`], [`cluster_slots`] |
//! | `HELLO`, `COMMAND` | [`hello`], [`command_info`] |
//! | `SUBSCRIBE`, `UNSUBSCRIBE` | [`subscribed`], [`unsubscribed`] |
//! | anything refused | [`CommandError`] from the refusal, as a [`Value`] |

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use lockspan_protocol::server::table::{ClaimView, RecordState, RecordView};
use lockspan_protocol::{
    Annotation, Epoch, Group, GroupSet, Handoff, Mode, Record, SLOTS, Seq, SessionId, Term, Tick,
    Ticket, Token,
};

use crate::error::{CommandError, ErrorCode};
use crate::handle::LockHandle;
use crate::limits::Protocol;
use crate::public::PublicId;
use crate::value::Value;
use crate::words::{handoff_word, mode_word};

pub use crate::command::catalog::command_info;
pub use crate::seen::{Deadlock, history, waits};

const SLOTS_PER_GROUP: i64 = SLOTS as i64 / lockspan_protocol::GROUPS as i64;

/// The name of the channel on which a session's events come as messages.
#[must_use]
pub fn channel(session: SessionId) -> String {
    format!("lockspan:{}", session.0)
}

/// The session whose events come on this channel, if it is one of ours.
#[must_use]
pub fn channel_session(channel: &[u8]) -> Option<SessionId> {
    let digits = std::str::from_utf8(channel.strip_prefix(b"lockspan:")?).ok()?;
    let number = digits.parse().ok()?;
    (self::channel(SessionId(number)).as_bytes() == channel).then_some(SessionId(number))
}

/// What others than its owner see of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Who {
    /// Its public id.
    pub id: PublicId,
    /// What it calls itself, if it does.
    pub label: Option<Annotation>,
}

/// The label with the public id behind it, or the id alone.
impl fmt::Display for Who {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.label {
            Some(label) => write!(f, "{label} ({})", self.id),
            None => self.id.fmt(f),
        }
    }
}

/// How a server names its sessions to others than their owners.
pub type Public<'a> = &'a dyn Fn(SessionId) -> Who;

/// The fields `session` and, if it is known, `label`.
pub(crate) fn who(who: Who) -> impl Iterator<Item = (&'static str, Value)> {
    let label = who.label.map(|label| ("label", text(&label)));
    [("session", shown(who.id))].into_iter().chain(label)
}

/// A label or a note as a reply has it.
fn text(text: &Annotation) -> Value {
    Value::bulk(text.as_str().to_owned())
}

/// A public id as a reply has it.
pub(crate) fn shown(id: PublicId) -> Value {
    Value::bulk(id.to_string())
}

/// The session is open: its secret number, as text because not every language has whole numbers
/// above 2^53, and its public id. `epoch` is the greatest of those that `terms` lists.
#[must_use]
pub fn opened(
    (session, id): (SessionId, PublicId),
    lease: Duration,
    handoff: Handoff,
    terms: &[Term],
) -> Value {
    let epoch = terms.iter().map(|term| term.epoch.number()).max().unwrap_or(0);
    Value::map([
        ("session", Value::bulk(session.0.to_string())),
        ("id", shown(id)),
        ("lease-ms", millis(lease)),
        ("handoff", handoff_word(handoff).into()),
        ("epoch", i64::from(epoch).into()),
        ("terms", Value::Array(merged(terms).iter().map(term).collect())),
    ])
}

/// One term an epoch: how a server divides its groups is nobody's business.
fn merged(terms: &[Term]) -> Vec<Term> {
    let mut groups: BTreeMap<Epoch, GroupSet> = BTreeMap::new();
    for term in terms {
        let known = groups.entry(term.epoch).or_default();
        *known = known.or(term.groups);
    }
    groups.into_iter().map(|(epoch, groups)| Term { groups, epoch }).collect()
}

fn term(term: &Term) -> Value {
    Value::map([
        ("groups", Value::bulk(term.groups.to_string())),
        ("epoch", i64::from(term.epoch.number()).into()),
    ])
}

/// The lease was extended: how long it lasts from now, in milliseconds.
#[must_use]
pub fn kept(lease: Duration) -> Value {
    millis(lease)
}

/// The session ends: how long its last lease lasts, in milliseconds.
#[must_use]
pub fn ends(left: Duration) -> Value {
    millis(left)
}

/// The record is the session's.
#[must_use]
pub fn granted(seq: Seq, mode: Mode, token: Token, give_back: Option<Mode>) -> Value {
    let give_back = give_back.map(|wanted| ("give-back", mode_word(wanted).into()));
    Value::map(
        [
            ("status", "granted".into()),
            ("seq", seq.0.into()),
            ("mode", mode_word(mode).into()),
            ("token", token.number().into()),
        ]
        .into_iter()
        .chain(give_back),
    )
}

/// The acquire is in line.
#[must_use]
pub fn queued(seq: Seq, mode: Mode, ticket: Ticket, ahead: u32) -> Value {
    Value::map([
        ("status", "queued".into()),
        ("seq", seq.0.into()),
        ("mode", mode_word(mode).into()),
        ("ticket", ticket.number().into()),
        ("ahead", u64::from(ahead).into()),
    ])
}

/// An acquire of a record that the session has already: what it has, and what to do about it.
#[must_use]
pub fn already(record: &Record, claim: &ClaimView) -> CommandError {
    let record = record.as_bytes().escape_ascii();
    let (Seq(seq), mode) = (claim.seq, mode_word(claim.mode));
    let text = match (claim.token, claim.ticket) {
        (Some(token), _) => format!(
            "the session already holds {record}: seq {seq}, mode {mode}, token {}; release it or \
             convert it, or use a session for each thread, as LS.LOCK does",
            token.number()
        ),
        (None, Some(ticket)) => format!(
            "the session already waits for {record}: seq {seq}, mode {mode}, ticket {}; repeat the \
             command with SEQ {seq}, or LS.CANCEL it",
            ticket.number()
        ),
        (None, None) => format!(
            "{record} is already reserved for the session: seq {seq}, mode {mode}; acquire it with \
             SEQ {seq}"
        ),
    };
    CommandError::new(ErrorCode::Already, text)
}

/// A lock of `LS.LOCK` is held: its handle, and how long it lasts from now unless it is renewed.
#[must_use]
pub fn locked(handle: &LockHandle, mode: Mode, token: Token, lease: Duration) -> Value {
    Value::map([
        ("handle", Value::bulk(handle.reveal())),
        ("mode", mode_word(mode).into()),
        ("token", token.number().into()),
        ("lease-ms", millis(lease)),
    ])
}

/// One of the locks of `LS.LOCKALL`: as [`locked`], with its record.
#[must_use]
pub fn locked_of(
    record: &Record,
    handle: &LockHandle,
    mode: Mode,
    token: Token,
    lease: Duration,
) -> Value {
    Value::map([
        ("record", Value::bulk(record.as_bytes().to_vec())),
        ("handle", Value::bulk(handle.reveal())),
        ("mode", mode_word(mode).into()),
        ("token", token.number().into()),
        ("lease-ms", millis(lease)),
    ])
}

/// A release or a cancel: whether there was something to end.
#[must_use]
pub fn ended(something: bool) -> Value {
    Value::Int(something.into())
}

/// A record with those who hold it and wait for it, and since when; if there are more, how many.
#[must_use]
pub fn record(view: &RecordView, public: Public<'_>, now: Tick) -> Value {
    let claim = |it: &ClaimView| claim(it, public, now);
    let slot = view.record.slot();
    let more = |name, count: usize| (count > 0).then(|| (name, Value::from(count as u64)));
    let more = [more("more-holders", view.more_holders), more("more-waiters", view.more_waiters)];
    Value::map(
        [
            ("record", Value::bulk(view.record.as_bytes().to_vec())),
            ("slot", i64::from(slot.number()).into()),
            ("group", i64::from(slot.group().0).into()),
            ("state", state_word(view.state).into()),
            ("holders", Value::Array(view.holders.iter().map(claim).collect())),
            ("waiters", Value::Array(view.waiters.iter().map(claim).collect())),
        ]
        .into_iter()
        .chain(more.into_iter().flatten()),
    )
}

/// A record that nobody is known to hold or to wait for: `free`, or `recovering` as long as
/// sessions may still tell that they held it.
#[must_use]
pub fn unknown_record(name: &Record, recovers: bool) -> Value {
    let view = RecordView {
        record: name.clone(),
        state: if recovers { RecordState::Recovering } else { RecordState::Free },
        holders: Vec::new(),
        waiters: Vec::new(),
        more_holders: 0,
        more_waiters: 0,
    };
    record(&view, &|_| Who { id: PublicId::of_hash(0), label: None }, Tick::ZERO)
}

fn claim(claim: &ClaimView, public: Public<'_>, now: Tick) -> Value {
    let age = ("age-ms", millis(now.since(claim.since)));
    let rest = [
        claim.token.map(|token| ("token", token.number().into())),
        claim.ticket.map(|ticket| ("ticket", ticket.number().into())),
        claim.revoked.map(|wanted| ("revoked", mode_word(wanted).into())),
        claim.note.as_ref().map(|note| ("note", text(note))),
    ];
    Value::map(
        who(public(claim.session))
            .chain([("seq", claim.seq.0.into()), ("mode", mode_word(claim.mode).into())])
            .chain(rest.into_iter().flatten())
            .chain([age]),
    )
}

/// A part of the records, each as [`record`] shows it, and the cursor of the next part; 0 if this
/// is the last.
#[must_use]
pub fn locks(next: u64, records: Vec<Value>) -> Value {
    Value::Array(vec![Value::bulk(next.to_string()), Value::Array(records)])
}

/// What a server waits for that has been restarted: until then it grants nothing that a session of
/// the run before may hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recovery {
    /// How many sessions have yet to re-assert what they had.
    pub sessions: usize,
    /// Some of them.
    pub some: Vec<Who>,
    /// There may have been sessions of which nothing is known, so the longest lease is waited for.
    pub unknown: bool,
    /// How long it takes at most: until then they have come back, or their leases are over.
    pub left: Duration,
}

/// Adds to the reply of `LS.INSPECT`, `LS.WAITS` or `LS.LOCKS` that the server recovers. A map gets
/// a field `recovery`, a list one element more.
#[must_use]
pub fn recovering(mut reply: Value, recovery: &Recovery) -> Value {
    let map = Value::map([
        ("sessions", (recovery.sessions as u64).into()),
        ("waits-for", Value::Array(recovery.some.iter().map(|it| shown(it.id)).collect())),
        ("unknown", Value::Int(recovery.unknown.into())),
        ("left-ms", millis(recovery.left)),
    ]);
    match &mut reply {
        Value::Map(pairs) => pairs.push(("recovery".into(), map)),
        Value::Array(list) => list.push(map),
        _ => {}
    }
    reply
}

/// A session, as `LS.SESSIONS` shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionView {
    /// Its public id and label.
    pub session: Who,
    /// Its lease.
    pub lease: Duration,
    /// How much of the lease is left, if that is known.
    pub left: Option<Duration>,
    /// How its waits end.
    pub handoff: Handoff,
    /// Connections that hear of its events.
    pub connections: usize,
    /// Records that it holds or waits for.
    pub records: usize,
    /// It has yet to re-assert what it had before the server was restarted.
    pub recovers: bool,
    /// Its lease is not extended any more.
    pub ends: bool,
    /// Whose it is, where there are users.
    pub user: Option<Arc<str>>,
}

/// A part of the sessions.
#[must_use]
pub fn sessions(views: &[SessionView]) -> Value {
    let one = |view: &SessionView| {
        let user = view.user.as_ref().map(|user| ("user", Value::bulk(user.to_string())));
        Value::map(
            who(view.session.clone())
                .chain([
                    ("lease-ms", millis(view.lease)),
                    ("left-ms", view.left.map_or(Value::Null, millis)),
                    ("handoff", handoff_word(view.handoff).into()),
                    ("connections", (view.connections as u64).into()),
                    ("records", (view.records as u64).into()),
                ])
                .chain(view.recovers.then_some(("recovers", Value::Int(1))))
                .chain(view.ends.then_some(("ends", Value::Int(1))))
                .chain(user),
        )
    };
    Value::Array(views.iter().map(one).collect())
}

/// Which slots are served in which epoch: a map for each range of slots.
#[must_use]
pub fn slots(terms: &[Term], address: &str) -> Value {
    let mut shown = Vec::new();
    for term in merged(terms) {
        for (first, last) in ranges(term.groups) {
            shown.push(Value::map([
                ("first", first_slot(first)),
                ("last", last_slot(last)),
                ("epoch", i64::from(term.epoch.number()).into()),
                ("address", Value::bulk(address.to_owned())),
            ]));
        }
    }
    Value::Array(shown)
}

/// The same as Redis Cluster tells it: `[first, last, [host, port, id]]` for each range.
#[must_use]
pub fn cluster_slots(groups: GroupSet, host: &str, port: u16, id: &str) -> Value {
    let node = || {
        Value::Array(vec![
            Value::bulk(host.to_owned()),
            i64::from(port).into(),
            Value::bulk(id.to_owned()),
        ])
    };
    let range = |(first, last)| Value::Array(vec![first_slot(first), last_slot(last), node()]);
    Value::Array(ranges(groups).into_iter().map(range).collect())
}

/// Runs of groups that follow each other.
fn ranges(groups: GroupSet) -> Vec<(Group, Group)> {
    let mut ranges: Vec<(Group, Group)> = Vec::new();
    for group in groups.iter() {
        match ranges.last_mut() {
            Some((_, last)) if last.0.checked_add(1) == Some(group.0) => *last = group,
            _ => ranges.push((group, group)),
        }
    }
    ranges
}

fn first_slot(group: Group) -> Value {
    Value::Int(i64::from(group.0) * SLOTS_PER_GROUP)
}

fn last_slot(group: Group) -> Value {
    Value::Int((i64::from(group.0) + 1) * SLOTS_PER_GROUP - 1)
}

/// What `HELLO` answers. `id` is the number of the connection, `speaks` the protocol of nodes that
/// was agreed.
#[must_use]
pub fn hello(version: &str, protocol: Protocol, id: u64, speaks: u32) -> Value {
    Value::map([
        ("server", "lockspan".into()),
        ("version", Value::bulk(version.to_owned())),
        ("proto", Value::Int(if protocol == Protocol::Resp3 { 3 } else { 2 })),
        ("id", id.into()),
        ("mode", "standalone".into()),
        ("role", "master".into()),
        ("modules", Value::Array(Vec::new())),
        ("lockspan", u64::from(speaks).into()),
    ])
}

/// One channel of a `SUBSCRIBE`, and how many the connection now has.
#[must_use]
pub fn subscribed(channel: Bytes, count: usize) -> Value {
    Value::Push(vec!["subscribe".into(), Value::Bulk(channel), (count as u64).into()])
}

/// One channel of an `UNSUBSCRIBE` (none, if there was none), and how many are left.
#[must_use]
pub fn unsubscribed(channel: Option<Bytes>, count: usize) -> Value {
    let channel = channel.map_or(Value::Null, Value::Bulk);
    Value::Push(vec!["unsubscribe".into(), channel, (count as u64).into()])
}

/// Whole milliseconds.
pub(crate) fn millis(duration: Duration) -> Value {
    Value::Int(i64::try_from(duration.as_millis()).unwrap_or(i64::MAX))
}

fn state_word(state: RecordState) -> &'static str {
    match state {
        RecordState::Free => "free",
        RecordState::Shared => "shared",
        RecordState::SharedWanted => "shared-wanted",
        RecordState::Alone => "alone",
        RecordState::AloneWanted => "alone-wanted",
        RecordState::Reserved => "reserved",
        RecordState::Recovering => "recovering",
    }
}
