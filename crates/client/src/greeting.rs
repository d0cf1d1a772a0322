//! The first exchange of a connection: what the other side answers to `HELLO`, and what the answer
//! says about it. Whoever connects, a node or a tool, hears the same explanation.

use std::io;

use bytes::BytesMut;
use lockspan_tls::TlsTrouble;
use lockspan_wire::{ErrorCode, FromServer, NODE_PROTOCOL, Value, WireLimits, take_from_server};

use crate::error::ConnectError;
use crate::url::{Address, DEFAULT_PORT};

/// Bytes of a strange answer that are shown.
const SHOWN: usize = 60;

/// How a TLS record begins that is an alert: the answer to what is not TLS.
const TLS_ALERT: [u8; 2] = [21, 3];

/// What Redis calls itself, and servers that speak its protocol.
const REDIS: [&[u8]; 4] = [b"redis", b"valkey", b"keydb", b"dragonfly"];

/// Takes the answer to `HELLO` out of what was heard; `None` if it is not all there yet.
pub(crate) fn take(address: &Address, heard: &mut BytesMut) -> Result<Option<Value>, ConnectError> {
    let begin = heard.clone();
    match take_from_server(heard, &WireLimits::default()) {
        Ok(Some(FromServer::Value(value))) => Ok(Some(value)),
        Ok(Some(FromServer::Event { .. }) | None) => Ok(None),
        Err(_) => Err(stranger(address, &begin)),
    }
}

/// Somebody who does not speak RESP.
fn stranger(address: &Address, begin: &[u8]) -> ConnectError {
    let found = if begin.starts_with(b"HTTP/") {
        format!(
            "it speaks HTTP, so it may be the web page of a Lockspan server. Clients connect to \
             the address after \"listening on\" in the server's log, by default port {DEFAULT_PORT}"
        )
    } else if begin.starts_with(&TLS_ALERT) {
        format!("it requires TLS; use lockspans://{address}")
    } else {
        let line = begin.split(|byte| *byte == b'\r' || *byte == b'\n').next().unwrap_or_default();
        let shown = line[..line.len().min(SHOWN)].escape_ascii();
        format!("it answers \"{shown}\". The default port of a Lockspan server is {DEFAULT_PORT}")
    };
    ConnectError::NotLockspan { address: address.to_string(), found }
}

/// Whether this is the answer of a Lockspan server that lets us in.
pub(crate) fn check(address: &Address, has_login: bool, answer: Value) -> Result<(), ConnectError> {
    let at = address.to_string();
    match answer {
        Value::Map(pairs) => match server_in(&pairs) {
            Some(b"lockspan") if speaks(&pairs) >= NODE_PROTOCOL => Ok(()),
            Some(b"lockspan") => Err(older(at)),
            Some(name) if REDIS.contains(&name) => Err(redis(address)),
            Some(name) => {
                let found = format!("it calls itself \"{}\"", name.escape_ascii());
                Err(ConnectError::NotLockspan { address: at, found })
            }
            None => Err(nameless(at)),
        },
        Value::Error { code, text } if is_of_redis(&code, &text) => Err(redis(address)),
        // It knows no such option.
        Value::Error { code: ErrorCode::Err, text } if text.contains("\"LOCKSPAN\"") => {
            Err(older(at))
        }
        Value::Error { code: ErrorCode::NoAuth, text } => {
            Err(ConnectError::Login { address: at, given: has_login, said: text })
        }
        Value::Error { code: ErrorCode::WrongPass, text } => {
            Err(ConnectError::Login { address: at, given: true, said: text })
        }
        Value::Error { code: ErrorCode::Err, text } => {
            Err(ConnectError::Refused { address: at, said: text })
        }
        Value::Error { code, text } => {
            Err(ConnectError::Refused { address: at, said: format!("{} {text}", code.as_str()) })
        }
        _ => Err(nameless(at)),
    }
}

/// A server of ours that does not know the protocol of this client.
fn older(address: String) -> ConnectError {
    let said = "it is an older version of Lockspan than this client: upgrade the server".to_owned();
    ConnectError::Refused { address, said }
}

/// The protocol of nodes that the server has agreed to; 1 if it has not named any.
fn speaks(pairs: &[(Value, Value)]) -> u32 {
    let named = pairs.iter().find_map(|(key, value)| match (key, value) {
        (Value::Bulk(key), Value::Int(version)) if &key[..] == b"lockspan" => Some(*version),
        _ => None,
    });
    named.and_then(|version| version.try_into().ok()).unwrap_or(1)
}

fn nameless(address: String) -> ConnectError {
    let found = "it does not say what it is".to_owned();
    ConnectError::NotLockspan { address, found }
}

fn redis(address: &Address) -> ConnectError {
    let url = match address {
        Address::Tcp(at) => format!("redis://{at}"),
        Address::Tls(at) => format!("rediss://{at}"),
        Address::Unix(_) => "redis://HOST:PORT".to_owned(),
    };
    let found = format!("it is a Redis; use {url}");
    ConnectError::NotLockspan { address: address.to_string(), found }
}

/// What the server calls itself.
fn server_in(pairs: &[(Value, Value)]) -> Option<&[u8]> {
    pairs.iter().find_map(|(key, value)| match (key, value) {
        (Value::Bulk(key), Value::Bulk(value)) if &key[..] == b"server" => Some(&value[..]),
        _ => None,
    })
}

/// The errors by which a Redis answers `HELLO` instead of saying its name: it has a password, or
/// none and was sent one, or is older than version 6.
fn is_of_redis(code: &ErrorCode, text: &str) -> bool {
    match code {
        ErrorCode::NoAuth => text.starts_with("HELLO must be called"),
        ErrorCode::WrongPass => text.starts_with("invalid username-password pair"),
        ErrorCode::Err => {
            text.starts_with("unknown command") && text.contains("HELLO")
                || text.starts_with("Syntax error in HELLO option")
                || text.contains("called without any password configured")
        }
        _ => false,
    }
}

/// What is wrong with a connection that failed before there was an answer.
pub(crate) fn failed(address: &Address, why: io::Error) -> ConnectError {
    let at = address.to_string();
    if let Some(trouble) = TlsTrouble::of(&why) {
        return ConnectError::Tls { address: at, trouble, said: why.to_string() };
    }
    match (why.kind(), address) {
        (io::ErrorKind::InvalidData, _) => {
            ConnectError::NotLockspan { address: at, found: why.to_string() }
        }
        (io::ErrorKind::UnexpectedEof, Address::Tls(_)) => {
            let text = "it closed the connection; if it does not use TLS, use lockspan://";
            ConnectError::Unreachable { address: at, source: io::Error::new(why.kind(), text) }
        }
        (io::ErrorKind::UnexpectedEof, _) => {
            let text = "it closed the connection without a reply";
            ConnectError::Unreachable { address: at, source: io::Error::new(why.kind(), text) }
        }
        _ => ConnectError::Unreachable { address: at, source: why },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tcp() -> Address {
        Address::Tcp("h:1".to_owned())
    }

    #[test]
    fn whoever_does_not_speak_resp_is_told_by_the_first_bytes() {
        for (answer, part) in [
            (&b"HTTP/1.1 400 Bad Request\r\n\r\n"[..], "it speaks HTTP, so it may be the web page"),
            (b"SSH-2.0-OpenSSH_9.2\r\n", "it answers \"SSH-2.0-OpenSSH_9.2\""),
            (b"\x15\x03\x01\x00\x02\x02\x46", "it requires TLS; use lockspans://h:1"),
        ] {
            let why = take(&tcp(), &mut BytesMut::from(answer)).unwrap_err().to_string();
            assert!(why.starts_with("h:1 is not a Lockspan server: "), "{why}");
            assert!(why.contains(part), "{why}");
        }
        assert!(matches!(take(&tcp(), &mut BytesMut::from(&b"%1\r\n"[..])), Ok(None)));
    }

    #[test]
    fn a_redis_is_known_by_its_name_and_by_its_errors() {
        let name = |name: &'static str| Value::map([("server", name.into())]);
        let error = |code, text| Value::error(code, text);
        for answer in [
            name("redis"),
            name("valkey"),
            error(ErrorCode::NoAuth, "HELLO must be called with the client already authenticated"),
            error(ErrorCode::WrongPass, "invalid username-password pair or user is disabled."),
            error(ErrorCode::Err, "unknown command `HELLO`, with args beginning with: `3`, "),
            error(ErrorCode::Err, "Syntax error in HELLO option 'LOCKSPAN'"),
        ] {
            let why = check(&tcp(), true, answer).unwrap_err().to_string();
            assert!(why.ends_with("it is a Redis; use redis://h:1"), "{why}");
        }
        let tls = check(&Address::Tls("h:1".to_owned()), false, name("redis")).unwrap_err();
        assert!(tls.to_string().ends_with("use rediss://h:1"), "{tls}");
        let ours =
            |speaks: u64| Value::map([("server", "lockspan".into()), ("lockspan", speaks.into())]);
        assert!(check(&tcp(), false, ours(2)).is_ok());
        for older in [
            ours(1),
            name("lockspan"),
            error(ErrorCode::Err, "HELLO: option \"LOCKSPAN\" at argument 4 is not one of AUTH"),
        ] {
            let why = check(&tcp(), false, older).unwrap_err().to_string();
            assert!(why.ends_with("than this client: upgrade the server"), "{why}");
        }
        let why = check(&tcp(), false, name("memcached")).unwrap_err().to_string();
        assert!(why.ends_with("it calls itself \"memcached\""), "{why}");
    }

    #[test]
    fn a_login_that_fails_is_not_taken_for_another_kind_of_server() {
        let said =
            |code, given| check(&tcp(), given, Value::error(code, "no")).unwrap_err().to_string();
        let wrong = said(ErrorCode::WrongPass, true);
        assert_eq!(wrong, "wrong user or password at h:1 (no)");
        let ours = Value::error(ErrorCode::WrongPass, "wrong user or password");
        let wrong = check(&tcp(), true, ours).unwrap_err().to_string();
        assert_eq!(wrong, "wrong user or password at h:1", "it is said once");
        let none = said(ErrorCode::NoAuth, false);
        assert!(none.contains("none was given: write USER:PASSWORD@"), "{none}");
        let limit = said(ErrorCode::Limit, true);
        assert_eq!(limit, "the service at h:1 refused the connection: LIMIT no");
    }
}
