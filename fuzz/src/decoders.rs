//! Decoders: the first two bytes choose limits and pieces, the rest is what a peer sends.

use std::fmt::Debug;

use bytes::BytesMut;
use lockspan_wire::{
    Command, EventStyle, FromServer, Protocol, WireError, WireLimits, put_event, put_tell,
    take_command, take_from_server,
};

/// What a decoder takes from the front of a buffer.
type Take<T> = fn(&mut BytesMut, &WireLimits) -> Result<Option<T>, WireError>;

pub(crate) fn commands(bytes: &[u8]) {
    for command in both_ways(bytes, take_command).into_iter().flatten() {
        let Command::Tell { session, message } = command else { continue };
        let mut told = BytesMut::new();
        put_tell(session, &message, &mut told);
        let again = take_command(&mut told, &WireLimits::default());
        assert_eq!(again, Ok(Some(Ok(Command::Tell { session, message }))));
    }
}

pub(crate) fn replies(bytes: &[u8]) {
    for heard in both_ways(bytes, take_from_server) {
        let FromServer::Event { session, event } = heard else { continue };
        // A message of RESP2 is an array, and to be told from a reply only by who subscribed.
        for style in [EventStyle::Push, EventStyle::Message(Protocol::Resp3)] {
            let mut told = BytesMut::new();
            put_event(session, &event, style, &mut told);
            let again = take_from_server(&mut told, &WireLimits::default());
            assert_eq!(again, Ok(Some(FromServer::Event { session, event: event.clone() })));
        }
    }
}

/// Decodes all at once and in pieces, which must be the same; returns what was decoded.
fn both_ways<T: Debug + PartialEq>(bytes: &[u8], take: Take<T>) -> Vec<T> {
    let [limits, piece, sent @ ..] = bytes else { return Vec::new() };
    let limits = match limits {
        0..128 => WireLimits::default(),
        small => WireLimits { frame: 32 + usize::from(*small), args: 1 + usize::from(small % 8) },
    };
    let mut whole = Vec::new();
    let end = take_all(&mut BytesMut::from(sent), &limits, take, &mut whole);
    let (mut parts, mut buf) = (Vec::new(), BytesMut::new());
    let mut end_of_parts = Ok(());
    for part in sent.chunks(1 + usize::from(*piece)) {
        buf.extend_from_slice(part);
        end_of_parts = take_all(&mut buf, &limits, take, &mut parts);
        if end_of_parts.is_err() {
            break;
        }
    }
    assert_eq!((&parts, end_of_parts), (&whole, end));
    whole
}

/// Until no whole frame is left.
fn take_all<T>(
    buf: &mut BytesMut,
    limits: &WireLimits,
    take: Take<T>,
    all: &mut Vec<T>,
) -> Result<(), WireError> {
    while let Some(one) = take(buf, limits)? {
        all.push(one);
    }
    Ok(())
}
