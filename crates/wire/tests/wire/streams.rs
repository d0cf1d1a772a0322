//! A stream may be cut anywhere, and a large frame may trickle.

use bytes::{BufMut, BytesMut};
use lockspan_wire::{
    Command, FromServer, Protocol, WireLimits, put_command, put_event, put_tell, put_value,
    take_command, take_from_server,
};
use proptest::collection::vec;
use proptest::prelude::*;

use crate::any_message::{event, session, style, to_server, value};

/// What a server sends, one after the other.
fn from_server() -> impl Strategy<Value = (Vec<FromServer>, BytesMut)> {
    let one = prop_oneof![
        (session(), event(), style()).prop_map(|(session, event, style)| {
            let mut bytes = BytesMut::new();
            put_event(session, &event, style, &mut bytes);
            (FromServer::Event { session, event }, bytes)
        }),
        value().prop_map(|value| {
            let mut bytes = BytesMut::new();
            put_value(&value, Protocol::Resp3, &mut bytes);
            (FromServer::Value(value), bytes)
        }),
    ];
    vec(one, 1..6).prop_map(joined)
}

fn commands() -> impl Strategy<Value = (Vec<Command>, BytesMut)> {
    let one = prop_oneof![
        (session(), to_server()).prop_map(|(session, message)| {
            let mut bytes = BytesMut::new();
            put_tell(session, &message, &mut bytes);
            (Command::Tell { session, message }, bytes)
        }),
        vec("[a-z]{1,9}", 1..30).prop_map(|names| {
            let args: Vec<&[u8]> = names.iter().map(String::as_bytes).collect();
            let mut bytes = BytesMut::new();
            put_command(&[&[b"subscribe".as_slice()], &args[..]].concat(), &mut bytes);
            let names = names.iter().map(|name| name.clone().into()).collect();
            (Command::Subscribe(names), bytes)
        }),
        "[a-z]{1,9}".prop_map(|text| {
            let line = format!("\r\n echo \"{text}\" \n");
            (Command::Echo(text.into()), BytesMut::from(line.as_bytes()))
        }),
    ];
    vec(one, 1..6).prop_map(joined)
}

fn joined<T>(all: Vec<(T, BytesMut)>) -> (Vec<T>, BytesMut) {
    let (things, bytes): (Vec<T>, Vec<BytesMut>) = all.into_iter().unzip();
    (things, bytes.concat().as_slice().into())
}

/// Feeds the stream in pieces, and takes what there is after each.
fn fed<T>(
    stream: &[u8],
    cuts: &[prop::sample::Index],
    mut take: impl FnMut(&mut BytesMut) -> Option<T>,
) -> Vec<T> {
    let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(stream.len() + 1)).collect();
    cuts.push(stream.len());
    cuts.sort_unstable();
    let (mut buf, mut taken, mut from) = (BytesMut::new(), Vec::new(), 0);
    for cut in cuts {
        buf.put_slice(&stream[from..cut]);
        from = cut;
        taken.extend(std::iter::from_fn(|| take(&mut buf)));
    }
    assert!(buf.is_empty(), "something is left: {buf:?}");
    taken
}

proptest! {
    #[test]
    fn what_a_server_sends_may_be_cut_anywhere(
        (sent, stream) in from_server(),
        cuts in vec(any::<prop::sample::Index>(), 0..40),
    ) {
        let taken = fed(&stream, &cuts, |buf| {
            take_from_server(buf, &WireLimits::default()).unwrap()
        });
        prop_assert_eq!(taken, sent);
    }

    #[test]
    fn commands_may_be_cut_anywhere(
        (sent, stream) in commands(),
        cuts in vec(any::<prop::sample::Index>(), 0..40),
    ) {
        let taken = fed(&stream, &cuts, |buf| {
            take_command(buf, &WireLimits::default()).unwrap().map(Result::unwrap)
        });
        prop_assert_eq!(taken, sent);
    }

    #[test]
    fn half_a_frame_is_left_alone((_, stream) in commands(), cut in any::<prop::sample::Index>()) {
        let mut buf = BytesMut::from(&stream[..cut.index(stream.len())]);
        while take_command(&mut buf, &WireLimits::default()).unwrap().is_some() {}
        let left = buf.clone();
        prop_assert_eq!(take_command(&mut buf, &WireLimits::default()), Ok(None));
        // Empty lines ask for nothing, and are taken.
        prop_assert!(left.ends_with(&buf));
    }
}

/// Were the frame read from its start again for each byte, this would take hours.
#[test]
fn a_large_frame_may_come_byte_by_byte() {
    let limits = WireLimits::default();
    let text = vec![b'\n'; limits.frame - 100];
    let mut stream = BytesMut::new();
    put_command(&[b"ECHO", &text], &mut stream);
    let mut buf = BytesMut::with_capacity(stream.len());
    for (at, &byte) in stream.iter().enumerate() {
        buf.put_u8(byte);
        let taken = take_command(&mut buf, &limits).unwrap();
        assert_eq!(taken.is_some(), at + 1 == stream.len());
    }
    let mut reply = BytesMut::new();
    put_value(&lockspan_wire::Value::bulk(text), Protocol::Resp3, &mut reply);
    for (at, &byte) in reply.iter().enumerate() {
        buf.put_u8(byte);
        let taken = take_from_server(&mut buf, &limits).unwrap();
        assert_eq!(taken.is_some(), at + 1 == reply.len());
    }
}
