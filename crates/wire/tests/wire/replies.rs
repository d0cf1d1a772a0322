//! What the commands answer.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use lockspan_protocol::server::OwnersView;
use lockspan_protocol::server::table::{ClaimView, RecordState, RecordView};
use lockspan_protocol::server::watch::{Happening, What};
use lockspan_protocol::{
    AcquireRefusal, Epoch, Group, GroupSet, Handoff, Mode, Owner, Record, Refusal, Seq, SessionId,
    SessionRefusal, Term, Tick, Ticket, Token,
};
use lockspan_wire::reply::{self, Deadlock, Recovery, SessionView, Who};
use lockspan_wire::{CommandError, Protocol, PublicId, Value, put_value};

/// The reply's bytes, line ends as spaces.
fn shown(value: &Value) -> String {
    let mut out = BytesMut::new();
    put_value(value, Protocol::Resp3, &mut out);
    String::from_utf8(out.to_vec()).unwrap().replace("\r\n", " ")
}

fn term(groups: GroupSet) -> Term {
    Term { groups, epoch: Epoch::new(3).unwrap() }
}

/// Public ids that a reader can follow. The session 7 calls itself `cron`.
fn public(session: SessionId) -> Who {
    let label = (session.0 == 7).then(|| "cron".parse().unwrap());
    Who { id: PublicId::of_hash(session.0 << 16), label }
}

#[test]
fn of_sessions() {
    let lease = Duration::from_secs(10);
    // A server that has divided its groups.
    let odd: GroupSet = GroupSet::ALL.iter().filter(|group| group.0 % 2 == 1).collect();
    let halves = [term(odd), term(GroupSet::ALL.without(odd))];
    assert_eq!(
        shown(&reply::opened(
            (SessionId(7), public(SessionId(1)).id),
            lease,
            Handoff::Direct,
            &halves
        )),
        "%6 $7 session $1 7 $2 id $13 s000000000001 $8 lease-ms :10000 $7 handoff $6 direct \
         $5 epoch :3 $5 terms *1 %2 $6 groups $5 0-255 $5 epoch :3 "
    );
    assert_eq!(shown(&reply::kept(lease)), ":10000 ");
    let view = SessionView {
        session: public(SessionId(7)),
        lease,
        left: None,
        handoff: Handoff::Retry,
        connections: 2,
        records: 3,
        recovers: true,
        ends: true,
        user: None,
    };
    assert_eq!(
        shown(&reply::sessions(&[view])),
        "*1 %9 $7 session $13 s000000000007 $5 label $4 cron $8 lease-ms :10000 \
         $7 left-ms _ $7 handoff $5 retry $11 connections :2 $7 records :3 $8 recovers :1 \
         $4 ends :1 "
    );
}

#[test]
fn of_acquires() {
    let token = Token::from_number(12).unwrap();
    assert_eq!(
        shown(&reply::granted(Seq(5), Mode::Write, token, None)),
        "%4 $6 status $7 granted $3 seq :5 $4 mode $1 W $5 token :12 "
    );
    assert_eq!(
        shown(&reply::granted(Seq(5), Mode::Write, token, Some(Mode::Read))),
        "%5 $6 status $7 granted $3 seq :5 $4 mode $1 W $5 token :12 $9 give-back $1 R "
    );
    assert_eq!(
        shown(&reply::queued(Seq(5), Mode::Read, Ticket::from_number(9).unwrap(), 2)),
        "%5 $6 status $6 queued $3 seq :5 $4 mode $1 R $6 ticket :9 $5 ahead :2 "
    );
    assert_eq!((reply::ended(true), reply::ended(false)), (Value::Int(1), Value::Int(0)));
}

#[test]
fn of_records() {
    let doc = Record::parse(b"doc:1").unwrap();
    let holder = ClaimView {
        session: SessionId(7),
        mode: Mode::Write,
        seq: Seq(5),
        token: Token::from_number(12),
        ticket: None,
        revoked: Some(Mode::Read),
        since: Tick::ZERO,
        note: Some("import".parse().unwrap()),
    };
    let waiter = ClaimView {
        session: SessionId(8),
        mode: Mode::Read,
        seq: Seq(1),
        token: None,
        ticket: Ticket::from_number(9),
        revoked: None,
        since: Tick(3000),
        note: None,
    };
    let view = RecordView {
        record: doc.clone(),
        state: RecordState::AloneWanted,
        holders: vec![holder],
        waiters: vec![waiter],
        more_holders: 0,
        more_waiters: 0,
    };
    let now = Tick(6999);
    let (slot, group) = (doc.slot().number(), doc.group().0);
    let begin = format!("%6 $6 record $5 doc:1 $4 slot :{slot} $5 group :{group} $5 state ");
    let record = format!(
        "{begin}$12 alone-wanted $7 holders *1 %8 $7 session $13 s000000000007 $5 label $4 cron \
         $3 seq :5 $4 mode $1 W $5 token :12 $7 revoked $1 R $4 note $6 import \
         $6 age-ms :6 $7 waiters *1 %5 \
         $7 session $13 s000000000008 $3 seq :1 $4 mode $1 R $6 ticket :9 $6 age-ms :3 "
    );
    assert_eq!(shown(&reply::record(&view, &public, now)), record);
    assert_eq!(
        shown(&reply::locks(17, vec![reply::record(&view, &public, now)])),
        format!("*2 $2 17 *1 {record}")
    );
    let cut = RecordView { more_holders: 3, more_waiters: 4, ..view };
    let more = "$12 more-holders :3 $12 more-waiters :4 ";
    assert_eq!(shown(&reply::record(&cut, &public, now)), record.replacen("%6 ", "%8 ", 1) + more);
    assert_eq!(
        shown(&reply::unknown_record(&doc, false)),
        format!("{begin}$4 free $7 holders *0 $7 waiters *0 ")
    );
}

#[test]
fn of_a_recovery() {
    let doc = Record::parse(b"doc:1").unwrap();
    let left = Duration::from_millis(1500);
    let some = vec![public(SessionId(7))];
    let recovery = Recovery { sessions: 1, some, unknown: false, left };
    let told =
        "%4 $8 sessions :1 $9 waits-for *1 $13 s000000000007 $7 unknown :0 $7 left-ms :1500 ";
    let record = shown(&reply::recovering(reply::unknown_record(&doc, true), &recovery));
    assert!(record.contains("$5 state $10 recovering "), "{record}");
    assert!(record.ends_with(&format!("$8 recovery {told}")), "{record}");
    let locks = reply::locks(0, Vec::new());
    assert_eq!(shown(&reply::recovering(locks, &recovery)), format!("*3 $1 0 *0 {told}"));
}

#[test]
fn of_what_happened() {
    let doc = Record::parse(b"doc:1").unwrap();
    let token = Token::from_number(12).unwrap();
    let time = Duration::from_millis(7);
    let shown_of = |what| {
        let it = Happening { at: Tick(1000), record: doc.clone(), session: SessionId(7), what };
        let text = shown(&reply::history(&[it], &public, Tick(5000)));
        text.split_once("$4 what ").unwrap().1.to_owned()
    };
    for (what, expected) in [
        (What::Waits(Mode::Read), "$5 waits $4 mode $1 R "),
        (What::Granted(Mode::Write, token), "$7 granted $4 mode $1 W $5 token :12 "),
        (
            What::HandedOver(Mode::Read, token, time),
            "$11 handed-over $4 mode $1 R $5 token :12 $9 waited-ms :7 ",
        ),
        (What::Revoked(Mode::Write), "$7 revoked $4 mode $1 W "),
        (What::Kept, "$4 kept "),
        (What::Retry, "$5 retry "),
        (What::Released(time), "$8 released $7 held-ms :7 "),
        (What::Left, "$4 left "),
        (What::Ended(time), "$5 ended $7 held-ms :7 "),
        (What::Deadlock, "$8 deadlock "),
    ] {
        assert_eq!(shown_of(what), expected, "{what:?}");
    }
    let owners = vec![Owner(1), Owner(2)];
    let deadlock = Deadlock {
        at: Tick(1000),
        session: SessionId(7),
        record: doc.clone(),
        owners: owners.clone(),
    };
    let known = OwnersView { session: SessionId(8), record: doc, waits: true, owners };
    assert_eq!(
        shown(&reply::waits(Vec::new(), &[known], &[deadlock], &public, Tick(5000))),
        "%3 $7 records *0 $6 owners *1 %4 $7 session $13 s000000000008 $6 record $5 doc:1 \
         $5 waits :1 $6 owners *2 :1 :2 $9 deadlocks *1 %5 $6 age-ms :4 $7 session \
         $13 s000000000007 $5 label $4 cron $6 record $5 doc:1 $6 owners *2 :1 :2 "
    );
}

#[test]
fn of_slots() {
    let groups: GroupSet = [0, 1, 255].map(Group).into_iter().collect();
    assert_eq!(
        shown(&reply::slots(&[term(groups)], "[::1]:7420")),
        "*2 %4 $5 first :0 $4 last :127 $5 epoch :3 $7 address $10 [::1]:7420 \
         %4 $5 first :16320 $4 last :16383 $5 epoch :3 $7 address $10 [::1]:7420 "
    );
    assert_eq!(
        shown(&reply::cluster_slots(GroupSet::ALL, "::1", 7420, "me")),
        "*1 *3 :0 :16383 *3 $3 ::1 :7420 $2 me "
    );
}

#[test]
fn of_subscriptions() {
    let channel = Bytes::from(reply::channel(SessionId(7)));
    assert_eq!(reply::channel_session(&channel), Some(SessionId(7)));
    for other in ["lockspan:", "lockspan:+7", "lockspan:07", "lockspan:x", "other:7"] {
        assert_eq!(reply::channel_session(other.as_bytes()), None, "{other}");
    }
    assert_eq!(shown(&reply::subscribed(channel.clone(), 1)), ">3 $9 subscribe $10 lockspan:7 :1 ");
    assert_eq!(
        shown(&reply::unsubscribed(Some(channel), 0)),
        ">3 $11 unsubscribe $10 lockspan:7 :0 "
    );
    assert_eq!(shown(&reply::unsubscribed(None, 0)), ">3 $11 unsubscribe _ :0 ");
}

#[test]
fn of_commands() {
    let ask = |args: &[&'static str]| {
        let args: Vec<Bytes> = args.iter().map(|arg| Bytes::from_static(arg.as_bytes())).collect();
        reply::command_info(&args)
    };
    let Value::Int(count) = ask(&["count"]) else { panic!("a number") };
    for args in [&[][..], &["LIST"], &["INFO"]] {
        let Value::Array(all) = ask(args) else { panic!("a list") };
        assert_eq!(all.len(), count as usize, "{args:?}");
    }
    assert_eq!(
        shown(&ask(&["INFO", "ls.acquire", "LS.KEEP", "nope"])),
        "*3 *10 $10 ls.acquire :-4 *0 :2 :2 :1 *0 *0 *0 *0 \
         *10 $7 ls.keep :2 *0 :0 :0 :0 *0 *0 *0 *0 _ "
    );
    assert_eq!(
        shown(&ask(&["DOCS", "LS.KEEP", "nope"])),
        "%1 $7 ls.keep %4 $7 summary $25 Extends a session's lease $5 since $5 0.1.0 $5 group \
         $7 generic $5 usage $7 session "
    );
    assert_eq!(
        shown(&ask(&["GETKEYS"])),
        "-ERR COMMAND: subcommand \"GETKEYS\" at argument 1 is not one of COUNT, LIST, INFO, DOCS "
    );
    assert_eq!(
        shown(&reply::hello("0.1.0", Protocol::Resp3, 4, 2)),
        "%8 $6 server $8 lockspan $7 version $5 0.1.0 $5 proto :3 $2 id :4 $4 mode \
         $10 standalone $4 role $6 master $7 modules *0 $8 lockspan :2 "
    );
}

#[test]
fn of_refusals() {
    let told = |why: Refusal| shown(&CommandError::from(&why).into());
    assert_eq!(
        told(Refusal::Session(SessionRefusal::Unknown)),
        "-NOSESSION no such session: it was closed, or its lease expired; open a new one "
    );
    assert_eq!(
        told(Refusal::Acquire(AcquireRefusal::Deadlock { cycle: vec![Owner(1), Owner(2)] })),
        "-DEADLOCK deadlock: owner 1 -> owner 2 -> owner 1 "
    );
    assert_eq!(
        told(Refusal::Acquire(AcquireRefusal::TooManyWaiters { max: 3 })),
        "-LIMIT too many waiters for this record: the maximum is 3 (max-waiters) "
    );
    assert_eq!(
        told(Refusal::Acquire(AcquireRefusal::StaleSeq)),
        "-STALE this seq is no longer valid; acquire again with a new one "
    );
}
