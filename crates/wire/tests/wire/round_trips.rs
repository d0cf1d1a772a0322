//! What is written is read back, whatever is in it.

use bytes::BytesMut;
use lockspan_protocol::{
    Epoch, Group, GroupSet, Mode, Record, Seq, SessionId, Term, ToNode, ToServer, Token,
};
use lockspan_wire::{
    Command, Event, EventStyle, FromServer, Protocol, Value, WireLimits, put_event, put_tell,
    put_value, take_command, take_from_server,
};
use proptest::collection::vec;
use proptest::prelude::*;

use crate::any_message::{event, session, style, to_server, value};

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn of_a_tell(session in session(), message in to_server()) {
        let mut buf = BytesMut::new();
        put_tell(session, &message, &mut buf);
        let command = take_command(&mut buf, &WireLimits::default()).unwrap().unwrap();
        prop_assert_eq!(command, Ok(Command::Tell { session, message }));
        prop_assert!(buf.is_empty());
    }

    #[test]
    fn of_an_event(session in session(), event in event(), style in style()) {
        let mut buf = BytesMut::new();
        put_event(session, &event, style, &mut buf);
        let taken = take_from_server(&mut buf, &WireLimits::default()).unwrap().unwrap();
        prop_assert_eq!(taken, FromServer::Event { session, event });
        prop_assert!(buf.is_empty());
    }

    #[test]
    fn fields_that_a_later_version_may_add_to_a_tell_are_passed_over(
        session in session(), message in to_server(), fields in later(),
    ) {
        let mut buf = BytesMut::new();
        put_tell(session, &message, &mut buf);
        let mut buf = with_fields(&buf, &fields);
        let command = take_command(&mut buf, &WireLimits::default()).unwrap().unwrap();
        prop_assert_eq!(command, Ok(Command::Tell { session, message }));
        prop_assert!(buf.is_empty());
    }

    #[test]
    fn fields_that_a_later_version_may_add_to_an_event_are_passed_over(
        session in session(), event in event(), fields in later(),
    ) {
        let mut buf = BytesMut::new();
        put_event(session, &event, EventStyle::Push, &mut buf);
        // What may be left out is written where something follows.
        let whole = match &event {
            Event::Node(ToNode::Alive { groups, .. }) if *groups == GroupSet::ALL => {
                vec![b"0-255".to_vec()]
            }
            Event::Node(ToNode::NoSession) => return Ok(()),
            _ => Vec::new(),
        };
        let mut buf = with_fields(&buf, &[whole, fields].concat());
        let taken = take_from_server(&mut buf, &WireLimits::default()).unwrap().unwrap();
        prop_assert_eq!(taken, FromServer::Event { session, event });
        prop_assert!(buf.is_empty());
    }

    #[test]
    fn of_a_reply(value in value()) {
        let mut buf = BytesMut::new();
        put_value(&value, Protocol::Resp3, &mut buf);
        let taken = take_from_server(&mut buf, &WireLimits::default()).unwrap().unwrap();
        prop_assert_eq!(taken, FromServer::Value(value));
        prop_assert!(buf.is_empty());
    }

    #[test]
    fn what_resp2_gets_is_resp2(value in value()) {
        let mut buf = BytesMut::new();
        put_value(&value, Protocol::Resp2, &mut buf);
        let (_, len) = redis_protocol::resp2::decode::decode(&buf).unwrap().unwrap();
        prop_assert_eq!(len, buf.len());
        prop_assert!(!buf.iter().any(|byte| b"%_#>".contains(byte)) || has_text(&value));
    }
}

/// Fields that no version knows yet.
fn later() -> impl Strategy<Value = Vec<Vec<u8>>> {
    let field = prop_oneof![
        Just(b"later".to_vec()),
        Just(b"7".to_vec()),
        Just(Vec::new()),
        vec(any::<u8>(), 0..40),
    ];
    vec(field, 1..4)
}

/// The message with fields more at its end.
fn with_fields(message: &[u8], fields: &[Vec<u8>]) -> BytesMut {
    let end = message.iter().position(|&byte| byte == b'\r').unwrap();
    let count: usize = std::str::from_utf8(&message[1..end]).unwrap().parse().unwrap();
    let mut out = BytesMut::from(&message[..1]);
    out.extend_from_slice((count + fields.len()).to_string().as_bytes());
    out.extend_from_slice(&message[end..]);
    for field in fields {
        out.extend_from_slice(format!("${}\r\n", field.len()).as_bytes());
        out.extend_from_slice(field);
        out.extend_from_slice(b"\r\n");
    }
    out
}

/// Whether any byte may stand in it.
fn has_text(value: &Value) -> bool {
    match value {
        Value::Status(_) | Value::Bulk(_) | Value::Error { .. } => true,
        Value::Array(values) | Value::Push(values) => values.iter().any(has_text),
        Value::Map(pairs) => pairs.iter().any(|(key, value)| has_text(key) || has_text(value)),
        _ => false,
    }
}

fn frame(put: impl FnOnce(&mut BytesMut)) -> String {
    let mut out = BytesMut::new();
    put(&mut out);
    String::from_utf8(out.to_vec()).unwrap().replace("\r\n", " ")
}

fn invoice() -> Record {
    Record::parse(b"invoice:4 2").unwrap()
}

#[test]
fn the_bytes_are_those_of_the_page() {
    let epoch = Epoch::new(3).unwrap();
    let acquire = ToServer::Acquire {
        record: invoice(),
        mode: Mode::Write,
        seq: Seq(5),
        epoch,
        upgrade: false,
        owners: Vec::new(),
    };
    assert_eq!(
        frame(|out| put_tell(SessionId(7), &acquire, out)),
        "*9 $7 LS.TELL $1 7 $7 acquire $1 W $1 5 $1 3 $1 0 $1 - $11 invoice:4 2 "
    );
    let granted = Event::Node(ToNode::Granted {
        record: invoice(),
        seq: Seq(5),
        mode: Mode::Write,
        token: Token::new(epoch, 12).unwrap(),
        give_back: Some(Mode::Read),
    });
    let put = |style| frame(|out| put_event(SessionId(7), &granted, style, out));
    assert_eq!(
        put(EventStyle::Push),
        ">8 $8 lockspan $1 7 $7 granted $1 5 $1 W $13 3298534883340 $1 R $11 invoice:4 2 "
    );
    let text = "$7 message $10 lockspan:7 $39 granted 5 W 3298534883340 R invoice:4 2 ";
    assert_eq!(put(EventStyle::Message(Protocol::Resp3)), format!(">3 {text}"));
    assert_eq!(put(EventStyle::Message(Protocol::Resp2)), format!("*3 {text}"));
}

/// The crate computes the room for a number with a logarithm of floating point.
#[test]
fn numbers_beside_powers_of_ten_leave_nothing_behind() {
    let tens = (0..19).map(|exponent| 10_i64.pow(exponent));
    let near = tens.flat_map(|ten| [ten - 1, ten, ten + 1]);
    for number in near.flat_map(|number| [number, -number]).chain([i64::MAX, i64::MIN]) {
        for protocol in [Protocol::Resp2, Protocol::Resp3] {
            assert_eq!(
                frame(|out| put_value(&Value::Int(number), protocol, out)),
                format!(":{number} ")
            );
        }
    }
}

#[test]
fn resp2_has_no_maps_and_no_booleans() {
    let value = Value::map([("a", Value::Bool(true)), ("b", Value::Null)]);
    let put = |protocol| frame(|out| put_value(&value, protocol, out));
    assert_eq!(put(Protocol::Resp3), "%2 $1 a #t $1 b _ ");
    assert_eq!(put(Protocol::Resp2), "*4 $1 a :1 $1 b $-1 ");
    let push = Value::Push(vec![Value::OK]);
    assert_eq!(frame(|out| put_value(&push, Protocol::Resp2, out)), "*1 +OK ");
}

#[test]
fn an_error_stays_in_its_line() {
    let value = Value::error(lockspan_wire::ErrorCode::Err, "a\r\n+OK\r\n");
    assert_eq!(frame(|out| put_value(&value, Protocol::Resp3, out)), "-ERR a  +OK   ");
}

#[test]
fn what_a_node_of_version_1_is_told_lacks_what_version_2_has_to_know() {
    let term = Term { groups: GroupSet::ALL, epoch: Epoch::new(3).unwrap() };
    let said = |message| {
        let mut out = BytesMut::new();
        put_event(SessionId(7), &Event::Node(message), EventStyle::OldPush, &mut out);
        out
    };
    let mut recovered = said(ToNode::Recovered { term, former: SessionId(5) });
    let why = take_from_server(&mut recovered, &WireLimits::default()).unwrap_err().to_string();
    assert!(why.contains("former session"), "{why}");
    assert!(said(ToNode::Moved { groups: GroupSet::ALL }).is_empty(), "it knows no such word");
    let some = GroupSet::from_iter([Group(1)]);
    let mut alive = said(ToNode::Alive { number: 9, groups: some });
    let taken = take_from_server(&mut alive, &WireLimits::default()).unwrap();
    let all = Event::Node(ToNode::Alive { number: 9, groups: GroupSet::ALL });
    assert_eq!(taken, Some(FromServer::Event { session: SessionId(7), event: all }));
}
