//! What is written is read back, whatever is in it.

use bytes::BytesMut;
use lockspan_protocol::{Epoch, Mode, Record, Seq, SessionId, ToNode, ToServer, Token};
use lockspan_wire::{
    Command, Event, EventStyle, FromServer, Protocol, Value, WireLimits, put_event, put_tell,
    put_value, take_command, take_from_server,
};
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
