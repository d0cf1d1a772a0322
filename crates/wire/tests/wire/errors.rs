//! Commands as people type them: what they mean, and the exact words when they are wrong.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use lockspan_protocol::{
    Claim, Epoch, GroupSet, Handoff, Mode, Owner, Record, Seq, SessionId, Ticket, Token,
};
use lockspan_wire::{
    ClientCommand, Command, CommandError, Events, LockGrant, LockHandle, LockId, Protocol,
    PublicId, Secret, Wait, WireLimits, put_command, take_command,
};

fn typed(line: &str) -> Result<Command, CommandError> {
    let mut buf = BytesMut::from(format!("{line}\r\n").as_bytes());
    take_command(&mut buf, &WireLimits::default()).unwrap().unwrap()
}

fn doc() -> Record {
    Record::parse(b"doc:1").unwrap()
}

const ONE: SessionId = SessionId(1);

const ID: LockId = LockId::new(0x6f96_19ff_8b86_d011_b42d_00c0_4fc9_64ff);

#[test]
fn every_command_is_understood() {
    let hello = |protocol, auth, name| Command::Hello { protocol, auth, name, speaks: None };
    let acquire = |wait, seq, upgrade, owners| Command::Acquire {
        session: ONE,
        record: doc(),
        mode: Mode::Write,
        wait,
        seq,
        upgrade,
        owners,
        note: None,
    };
    let reassert = |former, claim| Command::Reassert {
        session: ONE,
        record: doc(),
        epoch: Epoch::new(3).unwrap(),
        former,
        seq: Seq(4),
        mode: Mode::Read,
        claim,
    };
    let reasserted = |groups, former| Command::Reasserted {
        session: ONE,
        groups,
        epoch: Epoch::new(3).unwrap(),
        former,
        count: 2,
        sum: 9,
    };
    let b = Bytes::from_static;
    let token = Token::from_number(1_099_511_627_777).unwrap();
    let table = [
        ("HELLO", hello(None, None, None)),
        ("hello 2", hello(Some(Protocol::Resp2), None, None)),
        (
            "HELLO 3 SETNAME n AUTH u p",
            hello(Some(Protocol::Resp3), Some((b(b"u"), Secret::copy(b"p"))), Some(b(b"n"))),
        ),
        ("AUTH p", Command::Auth { user: None, password: Secret::copy(b"p") }),
        ("AUTH u p", Command::Auth { user: Some(b(b"u")), password: Secret::copy(b"p") }),
        ("PING", Command::Ping(None)),
        ("ping \"a b\"", Command::Ping(Some(b(b"a b")))),
        ("ECHO ''", Command::Echo(b(b""))),
        ("QUIT", Command::Quit),
        ("RESET", Command::Reset),
        ("SELECT 0", Command::Select(0)),
        ("SELECT -1", Command::Select(-1)),
        ("COMMAND DOCS ping", Command::CommandInfo(vec![b(b"DOCS"), b(b"ping")])),
        ("INFO", Command::Info(vec![])),
        ("CLIENT ID", Command::Client(ClientCommand::Id)),
        ("CLIENT GETNAME", Command::Client(ClientCommand::GetName)),
        ("CLIENT SETNAME n", Command::Client(ClientCommand::SetName(b(b"n")))),
        (
            "CLIENT SETINFO LIB-NAME redis-py",
            Command::Client(ClientCommand::SetInfo {
                attribute: b(b"LIB-NAME"),
                value: b(b"redis-py"),
            }),
        ),
        ("CLIENT INFO", Command::Client(ClientCommand::Info)),
        ("CLIENT LIST", Command::Client(ClientCommand::List { after: 0 })),
        ("client list after 7", Command::Client(ClientCommand::List { after: 7 })),
        ("CLIENT NO-EVICT on", Command::Client(ClientCommand::NoEvict)),
        ("CLIENT NO-TOUCH off", Command::Client(ClientCommand::NoTouch)),
        ("CLIENT TRACKING OFF", Command::Client(ClientCommand::TrackingOff)),
        ("CLIENT REPLY ON", Command::Client(ClientCommand::ReplyOn)),
        ("SUBSCRIBE lockspan:1 x", Command::Subscribe(vec![b(b"lockspan:1"), b(b"x")])),
        ("UNSUBSCRIBE", Command::Unsubscribe(vec![])),
        (
            "LS.OPEN",
            Command::Open {
                session: None,
                ttl: None,
                handoff: Handoff::Direct,
                events: Events::None,
                label: None,
            },
        ),
        (
            "ls.open events push handoff retry lease 1500.5 session 1 label \"cron job\"",
            Command::Open {
                session: Some(ONE),
                ttl: Some(Duration::from_micros(1_500_500)),
                handoff: Handoff::Retry,
                events: Events::Push,
                label: Some("cron job".parse().unwrap()),
            },
        ),
        ("LS.KEEP 1", Command::Keep { session: ONE }),
        ("LS.CLOSE 1", Command::Close { session: ONE }),
        ("LS.END s00000000000F", Command::End { id: PublicId::of_hash(15 << 16) }),
        ("LS.LABEL 1 cron", Command::Label { session: ONE, label: "cron".parse().unwrap() }),
        ("LS.TAKEBACK doc:1", Command::TakeBack { record: doc(), wait: None }),
        (
            "ls.takeback doc:1 wait 1500",
            Command::TakeBack { record: doc(), wait: Some(Duration::from_millis(1500)) },
        ),
        ("LS.EVENTS 1 message", Command::Attach { session: ONE, events: Events::Message }),
        ("LS.EVENTS 1 NONE", Command::Attach { session: ONE, events: Events::None }),
        ("LS.ACQUIRE 1 doc:1 W", acquire(Wait::No, None, false, vec![])),
        (
            "LS.ACQUIRE 1 doc:1 w OWNER 8 WAIT forever OWNER 9 UPGRADE SEQ 5",
            acquire(Wait::Forever, Some(Seq(5)), true, vec![Owner(8), Owner(9)]),
        ),
        (
            "LS.LOCKALL 3 doc:2 W doc:1 R doc:1 W wait 0",
            Command::LockAll {
                records: vec![
                    (doc(), Mode::Write),
                    (Record::new("doc", "2").unwrap(), Mode::Write),
                ],
                wait: Wait::Ms(Duration::ZERO),
                ttl: None,
                id: None,
                label: None,
                note: None,
            },
        ),
        (
            "LS.LOCK doc:1 w",
            Command::Lock {
                record: doc(),
                mode: Mode::Write,
                wait: Wait::Forever,
                ttl: None,
                id: None,
                label: None,
                note: None,
            },
        ),
        (
            "ls.lock doc:1 R id 6F9619FF-8B86-D011-B42D-00C04FC964FF lease 1500 wait 0 \
             label cron note import",
            Command::Lock {
                record: doc(),
                mode: Mode::Read,
                wait: Wait::Ms(Duration::ZERO),
                ttl: Some(Duration::from_millis(1500)),
                id: Some(ID),
                label: Some("cron".parse().unwrap()),
                note: Some("import".parse().unwrap()),
            },
        ),
        (
            "LS.RENEW doc:1 6f9619ff8b86d011b42d00c04fc964ff.W.1099511627777.\
             0000000000000000000000000000002a",
            Command::Renew {
                record: doc(),
                id: ID,
                grant: LockGrant { mode: Mode::Write, token, seal: 42 },
            },
        ),
        (
            "LS.UNLOCK doc:1 6f9619ff8b86d011b42d00c04fc964ff.R.1099511627777.\
             0000000000000000000000000000002a",
            Command::Unlock {
                record: doc(),
                handle: LockHandle {
                    id: ID,
                    grant: Some(LockGrant { mode: Mode::Read, token, seal: 42 }),
                },
            },
        ),
        (
            "LS.UNLOCK doc:1 6f9619ff8b86d011b42d00c04fc964ff",
            Command::Unlock { record: doc(), handle: LockHandle { id: ID, grant: None } },
        ),
        ("LS.ACQUIRE 1 doc:1 W WAIT 0", acquire(Wait::Ms(Duration::ZERO), None, false, vec![])),
        (
            "LS.RELEASE 1 doc:1 4",
            Command::Release { session: ONE, record: doc(), seq: Seq(4), keep: None },
        ),
        (
            "LS.RELEASE 1 doc:1 4 KEEP 5",
            Command::Release { session: ONE, record: doc(), seq: Seq(4), keep: Some(Seq(5)) },
        ),
        (
            "LS.CONVERT 1 doc:1 4 R WAIT 10",
            Command::Convert {
                session: ONE,
                record: doc(),
                seq: Seq(4),
                mode: Mode::Read,
                wait: Wait::Ms(Duration::from_millis(10)),
            },
        ),
        ("LS.CANCEL 1 doc:1 4", Command::Cancel { session: ONE, record: doc(), seq: Seq(4) }),
        (
            "LS.REASSERT 1 doc:1 3 4 R HELD 77 FORMER 9",
            reassert(Some(SessionId(9)), Claim::Held { token: Token::from_number(77).unwrap() }),
        ),
        (
            "LS.REASSERT 1 doc:1 3 4 R WAITING",
            reassert(None, Claim::Waiting { ticket: None, upgrade: false, owners: vec![] }),
        ),
        (
            "LS.REASSERT 1 doc:1 3 4 R WAITING OWNER 6 TICKET 8 UPGRADE",
            reassert(
                None,
                Claim::Waiting {
                    ticket: Ticket::from_number(8),
                    upgrade: true,
                    owners: vec![Owner(6)],
                },
            ),
        ),
        ("LS.REASSERTED 1 3 2 9", reasserted(GroupSet::ALL, None)),
        (
            "LS.REASSERTED 1 3 2 9 GROUPS 0-2,7 FORMER 9",
            reasserted(
                [0, 1, 2, 7].map(lockspan_protocol::Group).into_iter().collect(),
                Some(SessionId(9)),
            ),
        ),
        ("LS.INSPECT doc:1", Command::Inspect { record: doc() }),
        ("LS.HISTORY doc:1", Command::History { record: doc(), count: 100 }),
        ("LS.HISTORY doc:1 COUNT 7", Command::History { record: doc(), count: 7 }),
        ("LS.WAITS", Command::Waits),
        ("LS.LOCKS", Command::Locks { cursor: 0, count: 100, pattern: None }),
        (
            "LS.LOCKS 12 MATCH doc:* COUNT 5",
            Command::Locks { cursor: 12, count: 5, pattern: Some(b(b"doc:*")) },
        ),
        ("LS.SESSIONS", Command::Sessions { after: None, count: 1000 }),
        (
            "LS.SESSIONS AFTER sffffffffffff COUNT 7",
            Command::Sessions { after: Some(PublicId::of_hash(u64::MAX)), count: 7 },
        ),
        ("LS.SLOTS", Command::Slots),
        ("CLUSTER slots", Command::ClusterSlots),
    ];
    for (line, command) in table {
        assert_eq!(typed(line), Ok(command), "{line}");
    }
}

#[test]
fn a_wrong_command_is_told_what_and_where() {
    const NUMBER: &str = "a whole number from 0 to 18446744073709551615";
    const UUID: &str = "a random UUID (32 hexadecimal digits), a new one for every lock";
    let no_keys = |name: &str| {
        format!(
            "ERR unknown command \"{name}\": this is a Lockspan server, which stores no keys. A \
             lock library for Redis can't lock anything here: give it the URL of a Redis, or use \
             the package lockspan (Python, Rust), or LS.LOCK and LS.UNLOCK with any Redis client"
        )
    };
    let wrong = |name: &str, args: usize, usage: &str| {
        format!("ERR {name}: wrong number of arguments ({args}); usage: {usage}")
    };
    let table = [
        ("FOO 1 2", "ERR unknown command \"FOO\"; COMMAND LIST shows all commands".to_owned()),
        ("SET a b NX PX 10000", no_keys("SET")),
        ("get a", no_keys("get")),
        ("EVALSHA 0000 1 a b", no_keys("EVALSHA")),
        ("Script LOAD x", no_keys("Script")),
        ("LS.KEEP", wrong("LS.KEEP", 0, "LS.KEEP session")),
        (
            "LS.LOCK doc:1",
            wrong(
                "LS.LOCK",
                1,
                "LS.LOCK record R|W [WAIT ms|forever] [LEASE ms] [ID uuid] [LABEL text] \
                 [NOTE text]",
            ),
        ),
        ("LS.LOCK doc:1 W ID x", format!("ERR LS.LOCK: id \"x\" at argument 4 is not {UUID}")),
        (
            "LS.LOCK doc:1 W ID 00000000-0000-0000-0000-000000000000",
            format!(
                "ERR LS.LOCK: id \"00000000-0000-0000-0000-000000000000\" at argument 4 is not \
                 {UUID}"
            ),
        ),
        (
            "LS.LOCK doc:1 W WAIT 1 WAIT 2",
            "ERR LS.LOCK: WAIT at argument 5 was already given".into(),
        ),
        (
            "LS.RENEW doc:1 6f9619ff8b86d011b42d00c04fc964ff",
            "ERR LS.RENEW: handle \"6f9619ff8b86d011b42d00c04fc964ff\" at argument 2 is not a \
             handle from the reply to LS.LOCK"
                .into(),
        ),
        (
            "LS.UNLOCK doc:1 17",
            "ERR LS.UNLOCK: handle \"17\" at argument 2 is not a handle from the reply to LS.LOCK, \
             nor the ID that was given to it"
                .into(),
        ),
        ("LS.CLOSE 1 2", wrong("LS.CLOSE", 2, "LS.CLOSE session")),
        ("LS.SLOTS x", "ERR LS.SLOTS: wrong number of arguments (1); usage: LS.SLOTS".into()),
        (
            "LS.ACQUIRE 1 doc:1",
            "ERR LS.ACQUIRE: wrong number of arguments (2); usage: LS.ACQUIRE session record R|W \
             [WAIT ms|forever] [SEQ n] [UPGRADE] [NOTE text] [OWNER n ...]"
                .into(),
        ),
        ("LS.KEEP x", format!("ERR LS.KEEP: session \"x\" at argument 1 is not {NUMBER}")),
        (
            "LS.KEEP s4f2a9c01b7e3",
            "ERR LS.KEEP: session \"s4f2a9c01b7e3\" at argument 1 is a public id, as lists show \
             it, but the secret number that LS.OPEN returned is needed here"
                .to_owned(),
        ),
        (
            "LS.END 7",
            "ERR LS.END: id \"7\" at argument 1 is not a public id such as s4f2a9c01b7e3, as \
             LS.SESSIONS shows it"
                .to_owned(),
        ),
        ("LS.KEEP -1", format!("ERR LS.KEEP: session \"-1\" at argument 1 is not {NUMBER}")),
        ("LS.KEEP +1", format!("ERR LS.KEEP: session \"+1\" at argument 1 is not {NUMBER}")),
        (
            "LS.KEEP 18446744073709551616",
            format!("ERR LS.KEEP: session \"18446744073709551616\" at argument 1 is not {NUMBER}"),
        ),
        (
            "LS.ACQUIRE 1 doc:1 x",
            "ERR LS.ACQUIRE: mode \"x\" at argument 3 is not one of R, W".into(),
        ),
        (
            "LS.ACQUIRE 1 doc W",
            "ERR LS.ACQUIRE: record \"doc\" at argument 2 is not a name: a record is named \
             <datatype>:<id>, but there is no colon"
                .into(),
        ),
        (
            "LS.ACQUIRE 1 \"\\xff:\" W",
            "ERR LS.ACQUIRE: record \"\\xff:\" at argument 2 is not a name: the id, after the \
             colon, is empty"
                .into(),
        ),
        (
            "LS.ACQUIRE 1 doc:1 W NOW",
            "ERR LS.ACQUIRE: option \"NOW\" at argument 4 is not one of WAIT, SEQ, UPGRADE, NOTE, \
             OWNER"
                .into(),
        ),
        (
            "LS.ACQUIRE 1 doc:1 W WAIT",
            "ERR LS.ACQUIRE: wait is missing at argument 5".into(),
        ),
        (
            "LS.ACQUIRE 1 doc:1 W WAIT soon",
            "ERR LS.ACQUIRE: wait \"soon\" at argument 5 is not a number of milliseconds such as \
             1500 or 0.5, or forever"
                .into(),
        ),
        (
            "LS.ACQUIRE 1 doc:1 W SEQ 1 SEQ 2",
            "ERR LS.ACQUIRE: SEQ at argument 6 was already given".into(),
        ),
        (
            "LS.ACQUIRE 1 doc:1 W OWNER me",
            format!("ERR LS.ACQUIRE: owner \"me\" at argument 5 is not {NUMBER}"),
        ),
        (
            "LS.RELEASE 1 doc:1 4 KEPT 5",
            "ERR LS.RELEASE: option \"KEPT\" at argument 4 is not KEEP".into(),
        ),
        (
            "LS.OPEN LEASE -5",
            "ERR LS.OPEN: lease \"-5\" at argument 2 is not a number of milliseconds such as 1500 \
             or 0.5"
                .into(),
        ),
        (
            "LS.OPEN HANDOFF both",
            "ERR LS.OPEN: hand-off \"both\" at argument 2 is not one of direct, retry".into(),
        ),
        (
            "LS.OPEN EVENTS all",
            "ERR LS.OPEN: events \"all\" at argument 2 is not one of push, message, none".into(),
        ),
        (
            "LS.OPEN TTL 5",
            "ERR LS.OPEN: option \"TTL\" at argument 1 is not one of LEASE, HANDOFF, EVENTS, \
             SESSION, LABEL"
                .into(),
        ),
        (
            "LS.REASSERT 1 doc:1 8388608 4 R HELD 7",
            "ERR LS.REASSERT: epoch \"8388608\" at argument 3 is not a whole number from 0 to \
             8388607"
                .into(),
        ),
        (
            "LS.REASSERT 1 doc:1 3 4 R HAD 7",
            "ERR LS.REASSERT: claim \"HAD\" at argument 6 is not one of HELD, WAITING".into(),
        ),
        (
            "LS.REASSERT 1 doc:1 3 4 R HELD 9223372036854775808",
            "ERR LS.REASSERT: token \"9223372036854775808\" at argument 7 is not a whole number \
             from 0 to 9223372036854775807"
                .into(),
        ),
        (
            "LS.REASSERT 1 doc:1 3 4 R HELD 7 OWNER 8",
            "ERR LS.REASSERT: option \"OWNER\" at argument 8 is not FORMER".into(),
        ),
        (
            "LS.REASSERTED 1 3 2 9 GROUPS 5-2",
            "ERR LS.REASSERTED: groups \"5-2\" at argument 6 is not a list of groups from 0 to 255 \
             such as 0-127,200 (or - for none)"
                .into(),
        ),
        (
            "LS.LOCKS COUNT 0",
            "ERR LS.LOCKS: count \"0\" at argument 2 is not a whole number from 1 to 1000".into(),
        ),
        (
            "LS.LOCKS x",
            "ERR LS.LOCKS: cursor \"x\" at argument 1 is not a number, nor MATCH or COUNT".into(),
        ),
        (
            "LS.TELL 1 shout",
            "ERR LS.TELL: verb \"shout\" at argument 2 is not one of open, keep-alive, close, \
             label, acquire, note, who-holds, release, cancel, report, reassert, page, nothing, \
             reasserted"
                .into(),
        ),
        ("LS.TELL 1 release 4 -", "ERR LS.TELL: record is missing at argument 5".into()),
        (
            "LS.TELL 1 acquire W 1 2 yes - doc:1",
            "ERR LS.TELL: upgrade \"yes\" at argument 6 is not 0 or 1".into(),
        ),
        (
            "LS.TELL 1 report 4 1 8, - doc:1",
            "ERR LS.TELL: holders \"8,\" at argument 5 is not a list of numbers such as 7,8 (or - \
             for none)"
                .into(),
        ),
        ("HELLO 4", "NOPROTO HELLO: version \"4\" at argument 1 is not one of 2, 3".into()),
        ("HELLO 3 AUTH u", "ERR HELLO: password is missing at argument 4".into()),
        ("SELECT x", "ERR SELECT: database \"x\" at argument 1 is not a whole number".into()),
        (
            "CLIENT KILL x",
            "ERR CLIENT: subcommand \"KILL\" at argument 1 is not one of ID, GETNAME, SETNAME, \
             SETINFO, INFO, LIST, NO-EVICT, NO-TOUCH, TRACKING, REPLY"
                .into(),
        ),
        (
            "CLIENT LIST TYPE normal",
            "ERR CLIENT: option \"TYPE\" at argument 2 is not AFTER".into(),
        ),
        (
            "CLIENT TRACKING on",
            "ERR CLIENT: switch \"on\" at argument 2 is not off".into(),
        ),
        ("CLUSTER NODES", "ERR CLUSTER: subcommand \"NODES\" at argument 1 is not SLOTS".into()),
        (
            "ECHO \"a",
            "ERR unbalanced quotes: a quoted word must be closed, and a space must follow it"
                .to_owned(),
        ),
    ];
    for (line, text) in table {
        assert_eq!(typed(line).unwrap_err().to_string(), text, "{line}");
    }
}

#[test]
fn a_long_word_is_not_shown_in_full() {
    let mut buf = BytesMut::new();
    put_command(&[b"LS.KEEP", &[b'7'; 1000]], &mut buf);
    let error = take_command(&mut buf, &WireLimits::default()).unwrap().unwrap().unwrap_err();
    let shown = "7".repeat(64);
    assert_eq!(
        error.to_string(),
        format!(
            "ERR LS.KEEP: session \"{shown}...\" (1000 bytes) at argument 1 is not a whole number \
             from 0 to 18446744073709551615"
        )
    );
}

#[test]
fn after_a_wrong_command_the_next_is_taken() {
    let mut buf = BytesMut::from("LS.KEEP x\r\n*0\r\n\r\nPING\n");
    let mut take = || take_command(&mut buf, &WireLimits::default()).unwrap();
    assert!(take().unwrap().is_err());
    assert_eq!(take(), Some(Ok(Command::Ping(None))));
    assert_eq!(take(), None);
}
