//! Any message, with any contents.

use std::time::Duration;

use bytes::Bytes;
use lockspan_protocol::{
    AcquireRefusal, Annotation, Claim, Epoch, Group, GroupSet, Handoff, Holder, LocalWait, Mode,
    NotServed, Owner, Record, Seq, SessionId, SessionRefusal, Term, Ticket, ToNode, ToServer,
    Token,
};
use lockspan_wire::{ErrorCode, Event, EventStyle, Protocol, Value};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

pub(crate) fn session() -> impl Strategy<Value = SessionId> {
    prop_oneof![any::<u64>(), 0..100_u64, Just(u64::MAX)].prop_map(SessionId)
}

fn seq() -> impl Strategy<Value = Seq> {
    prop_oneof![any::<u64>(), 0..100_u64, Just(u64::MAX)].prop_map(Seq)
}

fn owner() -> impl Strategy<Value = Owner> {
    any::<u64>().prop_map(Owner)
}

fn owners() -> impl Strategy<Value = Vec<Owner>> {
    vec(owner(), 0..5)
}

fn mode() -> impl Strategy<Value = Mode> {
    prop_oneof![Just(Mode::Read), Just(Mode::Write)]
}

fn epoch() -> impl Strategy<Value = Epoch> {
    (0..=Epoch::MAX.number()).prop_map(|number| Epoch::new(number).unwrap())
}

fn token() -> impl Strategy<Value = Token> {
    (0..=i64::MAX).prop_map(|number| Token::from_number(number).unwrap())
}

fn ticket() -> impl Strategy<Value = Ticket> {
    (0..=i64::MAX).prop_map(|number| Ticket::from_number(number).unwrap())
}

fn groups() -> impl Strategy<Value = GroupSet> {
    prop_oneof![
        Just(GroupSet::ALL),
        Just(GroupSet::EMPTY),
        vec(any::<u8>(), 0..40).prop_map(|set| set.into_iter().map(Group).collect()),
    ]
}

fn term() -> impl Strategy<Value = Term> {
    (groups(), epoch()).prop_map(|(groups, epoch)| Term { groups, epoch })
}

fn duration() -> impl Strategy<Value = Duration> {
    prop_oneof![
        (any::<u64>(), 0..1_000_000_000_u32).prop_map(|(secs, nanos)| Duration::new(secs, nanos)),
        (0..100_000_u64).prop_map(Duration::from_millis),
    ]
}

fn max() -> impl Strategy<Value = usize> {
    any::<usize>()
}

/// Names with spaces, quotes, line ends, any bytes.
pub(crate) fn record() -> impl Strategy<Value = Record> {
    let datatype = vec(any::<u8>().prop_filter("a colon ends it", |&byte| byte != b':'), 1..20);
    let byte = || prop_oneof![any::<u8>(), prop::sample::select(b" \r\n:\"'$*>".to_vec())];
    (datatype, prop_oneof![vec(byte(), 1..20), vec(byte(), 1..490)])
        .prop_map(|(datatype, id)| Record::new(datatype, id).unwrap())
}

fn claim() -> impl Strategy<Value = Claim> {
    prop_oneof![
        token().prop_map(|token| Claim::Held { token }),
        (option::of(ticket()), any::<bool>(), owners())
            .prop_map(|(ticket, upgrade, owners)| Claim::Waiting { ticket, upgrade, owners }),
    ]
}

fn wait() -> impl Strategy<Value = LocalWait> {
    (owner(), owner()).prop_map(|(waiter, holder)| LocalWait { waiter, holder })
}

/// Labels and notes with all that they may have: spaces, commas, percent signs, other scripts.
fn annotation() -> impl Strategy<Value = Annotation> {
    let some = "[ -~é日,;%\"-]{1,60}".prop_filter_map("hidden", |text| Annotation::new(text).ok());
    prop_oneof![some, Just("-".parse().unwrap()), "x{256}".prop_map(|text| text.parse().unwrap())]
}

fn holder() -> impl Strategy<Value = Holder> {
    (annotation(), option::of(annotation()), mode(), duration())
        .prop_map(|(label, note, mode, held)| Holder { label, note, mode, held })
}

pub(crate) fn to_server() -> impl Strategy<Value = ToServer> {
    let handoff = prop_oneof![Just(Handoff::Direct), Just(Handoff::Retry)];
    prop_oneof![
        (duration(), handoff).prop_map(|(ttl, handoff)| ToServer::Open { ttl, handoff }),
        any::<u64>().prop_map(|number| ToServer::KeepAlive { number }),
        Just(ToServer::Close),
        annotation().prop_map(|label| ToServer::Label { label }),
        (record(), seq(), annotation()).prop_map(|(record, seq, note)| ToServer::Note {
            record,
            seq,
            note
        }),
        (record(), seq()).prop_map(|(record, seq)| ToServer::WhoHolds { record, seq }),
        (record(), mode(), seq(), epoch(), any::<bool>(), owners()).prop_map(
            |(record, mode, seq, epoch, upgrade, owners)| {
                ToServer::Acquire { record, mode, seq, epoch, upgrade, owners }
            }
        ),
        (record(), seq(), option::of(seq())).prop_map(|(record, seq, keep)| ToServer::Release {
            record,
            seq,
            keep
        }),
        (record(), seq(), option::of(seq())).prop_map(|(record, seq, keep)| ToServer::Cancel {
            record,
            seq,
            keep
        }),
        (record(), seq(), any::<u64>(), owners(), vec(wait(), 0..5)).prop_map(
            |(record, seq, number, holders, waits)| {
                ToServer::Report { record, seq, number, holders, waits }
            }
        ),
        (record(), epoch(), session(), seq(), mode(), claim()).prop_map(
            |(record, epoch, former, seq, mode, claim)| {
                ToServer::Reassert { record, epoch, former, seq, mode, claim }
            }
        ),
        (groups(), epoch(), session(), seq(), seq(), any::<u32>(), any::<u64>()).prop_map(
            |(groups, epoch, former, first, last, count, sum)| {
                ToServer::Page { groups, epoch, former, first, last, count, sum }
            }
        ),
        (groups(), epoch()).prop_map(|(groups, epoch)| ToServer::Nothing { groups, epoch }),
        (groups(), epoch(), session(), any::<u32>(), any::<u64>()).prop_map(
            |(groups, epoch, former, count, sum)| {
                ToServer::Reasserted { groups, epoch, former, count, sum }
            }
        ),
    ]
}

fn acquire_refusal() -> impl Strategy<Value = AcquireRefusal> {
    prop_oneof![
        any::<u8>().prop_map(|group| AcquireRefusal::NotServed(NotServed { group: Group(group) })),
        Just(AcquireRefusal::StaleSeq),
        Just(AcquireRefusal::UpgradeConflict),
        Just(AcquireRefusal::NotHeld),
        mode().prop_map(|mode| AcquireRefusal::Denied { mode }),
        owners().prop_map(|cycle| AcquireRefusal::Deadlock { cycle }),
        max().prop_map(|max| AcquireRefusal::TooManyWaiters { max }),
        max().prop_map(|max| AcquireRefusal::TooManyClaims { max }),
        max().prop_map(|max| AcquireRefusal::TooManyRecords { max }),
        max().prop_map(|max| AcquireRefusal::TooManyAllClaims { max }),
        max().prop_map(|max| AcquireRefusal::TooManyUserWaiters { max }),
        max().prop_map(|max| AcquireRefusal::TooManyUserRecords { max }),
        max().prop_map(|max| AcquireRefusal::TooManyUserClaims { max }),
        max().prop_map(|max| AcquireRefusal::TooManyOwners { max }),
    ]
}

fn session_refusal() -> impl Strategy<Value = SessionRefusal> {
    prop_oneof![
        Just(SessionRefusal::Unknown),
        (duration(), duration()).prop_map(|(min, max)| SessionRefusal::Lease { min, max }),
        max().prop_map(|max| SessionRefusal::TooMany { max }),
        max().prop_map(|max| SessionRefusal::TooManyOfUser { max }),
        Just(SessionRefusal::Differs),
        Just(SessionRefusal::Resting),
    ]
}

fn to_node() -> impl Strategy<Value = ToNode> {
    prop_oneof![
        vec(term(), 0..4).prop_map(|terms| ToNode::Opened { terms }),
        (any::<u64>(), groups()).prop_map(|(number, groups)| ToNode::Alive { number, groups }),
        any::<u64>().prop_map(|number| ToNode::Alive { number, groups: GroupSet::ALL }),
        groups().prop_map(|groups| ToNode::Moved { groups }),
        Just(ToNode::NoSession),
        term().prop_map(ToNode::Serving),
        (term(), session()).prop_map(|(term, former)| ToNode::Recovered { term, former }),
        (term(), session(), seq(), any::<bool>()).prop_map(|(term, former, first, whole)| {
            ToNode::Heard { term, former, first, whole }
        }),
        (term(), session()).prop_map(|(term, former)| ToNode::Unlisted { term, former }),
        (record(), seq(), mode(), token(), option::of(mode())).prop_map(
            |(record, seq, mode, token, give_back)| {
                ToNode::Granted { record, seq, mode, token, give_back }
            }
        ),
        (record(), seq(), ticket(), any::<u32>()).prop_map(|(record, seq, ticket, ahead)| {
            ToNode::Queued { record, seq, ticket, ahead }
        }),
        (record(), seq(), any::<u32>(), vec(holder(), 0..4)).prop_map(
            |(record, seq, ahead, holders)| ToNode::HeldBy { record, seq, ahead, holders }
        ),
        (record(), seq()).prop_map(|(record, seq)| ToNode::Retry { record, seq }),
        (record(), seq(), mode(), ticket()).prop_map(|(record, seq, wanted, at)| ToNode::Revoke {
            record,
            seq,
            wanted,
            at
        }),
        (record(), seq(), ticket()).prop_map(|(record, seq, at)| ToNode::Keep { record, seq, at }),
        (record(), seq(), acquire_refusal()).prop_map(|(record, seq, why)| ToNode::Refused {
            record,
            seq,
            why
        }),
        (record(), seq()).prop_map(|(record, seq)| ToNode::Lost { record, seq }),
    ]
}

pub(crate) fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        8 => to_node().prop_map(Event::Node),
        2 => session_refusal().prop_map(Event::NotOpened),
        1 => (record(), seq()).prop_map(|(record, seq)| Event::Released { record, seq }),
        1 => Just(Event::EndedByOperator),
        1 => Just(Event::Stopping),
    ]
}

/// What can be read back: the array of RESP2 is for the libraries of others.
pub(crate) fn style() -> impl Strategy<Value = EventStyle> {
    prop_oneof![Just(EventStyle::Push), Just(EventStyle::Message(Protocol::Resp3))]
}

fn leaf() -> impl Strategy<Value = Value> {
    let code = prop_oneof![
        Just(ErrorCode::Deadlock),
        Just(ErrorCode::Err),
        Just(ErrorCode::Other("MOVED".into()))
    ];
    prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::Bool),
        any::<i64>().prop_map(Value::Int),
        "[ -~]{0,20}".prop_map(|word| Value::Status(Bytes::from(word))),
        vec(any::<u8>(), 0..40).prop_map(|bytes| Value::Bulk(Bytes::from(bytes))),
        (code, "[ -~é]{0,20}").prop_map(|(code, text)| Value::Error { code, text }),
    ]
}

/// A reply, lists in lists included.
pub(crate) fn value() -> impl Strategy<Value = Value> {
    leaf().prop_recursive(3, 24, 5, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..5).prop_map(Value::Array),
            vec((inner.clone(), inner), 0..5).prop_map(Value::Map),
        ]
    })
}
