//! Whatever a peer sends, nothing panics, and what is not allowed is refused before it is kept.

use bytes::BytesMut;
use lockspan_wire::{
    Protocol, WireLimits, put_event, put_tell, put_value, take_command, take_from_server,
};
use proptest::collection::vec;
use proptest::prelude::*;

use crate::any_message::{event, session, style, to_server, value};

/// Takes all there is, as both sides.
fn take_all(bytes: &[u8]) {
    for limits in [WireLimits::default(), WireLimits { frame: 100, args: 5 }] {
        let mut buf = BytesMut::from(bytes);
        while let Ok(Some(_)) = take_command(&mut buf, &limits) {}
        let mut buf = BytesMut::from(bytes);
        while let Ok(Some(_)) = take_from_server(&mut buf, &limits) {}
    }
}

/// Bytes that a parser of RESP takes seriously.
fn almost_resp() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        prop::sample::select(vec![
            "*",
            "$",
            ">",
            "%",
            "~",
            "+",
            "-",
            ":",
            "_",
            "#",
            ",",
            "(",
            "=",
            "!",
            "|",
            ";",
            ".",
            "\r\n",
            "\r",
            "\n",
            "0",
            "1",
            "2",
            "3",
            "9",
            "-1",
            "?",
            "t",
            "f",
            "lockspan",
            "message",
            "LS.TELL",
            "granted",
            "txt:",
            "inf",
            "nan",
            "HELLO 3",
            "99999999999999999999",
            " ",
        ])
        .prop_map(|piece| piece.as_bytes().to_vec()),
        vec(any::<u8>(), 0..4),
    ];
    vec(piece, 0..40).prop_map(|pieces| pieces.concat())
}

fn valid() -> impl Strategy<Value = BytesMut> {
    let tell = (session(), to_server()).prop_map(|(session, message)| {
        let mut out = BytesMut::new();
        put_tell(session, &message, &mut out);
        out
    });
    let event = (session(), event(), style()).prop_map(|(session, event, style)| {
        let mut out = BytesMut::new();
        put_event(session, &event, style, &mut out);
        out
    });
    let reply = value().prop_map(|value| {
        let mut out = BytesMut::new();
        put_value(&value, Protocol::Resp3, &mut out);
        out
    });
    prop_oneof![tell, event, reply]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3000))]

    #[test]
    fn random_bytes_do_no_harm(bytes in vec(any::<u8>(), 0..300)) {
        take_all(&bytes);
    }

    #[test]
    fn nor_does_what_looks_like_a_frame(bytes in almost_resp()) {
        take_all(&bytes);
    }

    #[test]
    fn nor_does_a_frame_that_was_changed(
        frame in valid(),
        changes in vec((any::<prop::sample::Index>(), any::<u8>(), 0..3_u8), 1..4),
    ) {
        let mut bytes = frame.to_vec();
        for (at, byte, how) in changes {
            let at = at.index(bytes.len() + 1);
            match how {
                0 => bytes.insert(at, byte),
                1 if at < bytes.len() => drop(bytes.remove(at)),
                _ if at < bytes.len() => bytes[at] = byte,
                _ => {}
            }
        }
        take_all(&bytes);
    }
}

fn command_error(bytes: &str) -> String {
    take_command(&mut BytesMut::from(bytes), &WireLimits::default()).unwrap_err().to_string()
}

fn server_error(bytes: &str) -> String {
    take_from_server(&mut BytesMut::from(bytes), &WireLimits::default()).unwrap_err().to_string()
}

/// None of these has the bytes that it announces: they are refused for what they say.
#[test]
fn a_command_that_is_not_allowed_ends_the_connection() {
    for (bytes, text) in [
        ("*1025\r\n", "a list has 1025 elements, and the maximum is 1024"),
        ("*-1\r\n", "the length of a list is negative"),
        ("*2\r\n$-1\r\n", "the length of a string is negative"),
        ("*x\r\n", "the length of a list must be digits, but has 'x'"),
        ("*\r\n", "the length of a list must be digits, but has '\\r'"),
        ("*1\rx", "the length of a list must end with CR LF"),
        (
            "*99999999999\r\n",
            "the length of a list is above the maximum of 1048576 bytes per frame",
        ),
        (
            "*1\r\n$1048577",
            "the length of a string is above the maximum of 1048576 bytes per frame",
        ),
        ("*1\r\n$1048570\r\n", "a frame has 1048586 bytes or more, and the maximum is 1048576"),
        ("*00000000000000000000001\r\n", "the length of a list has more than 20 digits"),
        ("*1\r\n$1\r\nab\r\n", "a string is longer than its length 1 says"),
        (
            "*2\r\n$4\r\nPING\r\n*1\r\n",
            "element 2 of a command begins with '*', but all must be bulk strings ('$')",
        ),
        (
            "*1\r\n:1\r\n",
            "element 1 of a command begins with ':', but all must be bulk strings ('$')",
        ),
        (
            "$4\r\nPING\r\n",
            "a command must begin with '*' or be a line of text, but this begins with '$'",
        ),
        (
            "\u{16}\u{3}\u{1}",
            "a command must begin with '*' or be a line of text, but this begins with '\\x16' \
             (this port does not use TLS)",
        ),
        ("POST / HTTP/1.1\r\n", "this is HTTP, but this port speaks RESP"),
        ("host: localhost\r\n", "this is HTTP, but this port speaks RESP"),
    ] {
        assert_eq!(command_error(bytes), text, "{bytes:?}");
    }
    let line = "x".repeat(65536);
    assert_eq!(command_error(&line), "a line of text is longer than the maximum of 65536 bytes");
    let words = "x ".repeat(1025) + "\n";
    assert_eq!(command_error(&words), "a command has 1025 arguments, and the maximum is 1024");
}

#[test]
fn a_reply_that_is_not_allowed_ends_the_connection() {
    for (bytes, text) in [
        ("*400000\r\n", "a frame has 1200009 bytes or more, and the maximum is 1048576"),
        ("%200000\r\n", "a frame has 1200009 bytes or more, and the maximum is 1048576"),
        ("$-1\r\n", "the length of a string is negative"),
        ("$?\r\n", "the length of a string must be digits, but has '?'"),
        ("*1\r\n>1\r\n", "a push inside a list"),
        ("|1\r\n", "a reply begins with '|', which is not a RESP3 type"),
        ("HELLO 3\r\n", "a reply begins with 'H', which is not a RESP3 type"),
        (">2\r\n$8\r\nlockspan\r\n$1\r\nx\r\n", SESSION),
        (
            ">3\r\n$8\r\nlockspan\r\n$1\r\n7\r\n$1\r\nx\r\n",
            "an event: kind \"x\" at field 2 is not known to this version",
        ),
        (">1\r\n$8\r\nlockspan\r\n", "an event: session is missing at field 1"),
        (
            ">3\r\n$7\r\nmessage\r\n$10\r\nlockspan:7\r\n$6\r\nlost 1\r\n",
            "an event: record is missing at field 3",
        ),
    ] {
        assert_eq!(server_error(bytes), text, "{bytes:?}");
    }
    let deep = "*1\r\n".repeat(9) + ":1\r\n";
    assert_eq!(server_error(&deep), "lists nested more than 8 deep");
    let line = "+".repeat(65536);
    assert_eq!(server_error(&line), "a line is longer than the maximum of 65536 bytes");
}

const SESSION: &str = "an event: session \"x\" at field 1 is not a whole number from 0 to \
                       18446744073709551615";
