//! The arguments of the commands that Redis has too, as far as its clients need them here.

use bytes::Bytes;

use super::parse::upper;
use super::{ClientCommand, Command};
use crate::error::ErrorCode;
use crate::limits::Protocol;
use crate::read::{Bad, Reader};
use crate::secret::Secret;

type Read = Result<Command, Bad>;

pub(super) fn hello(from: &mut Reader<'_>) -> Read {
    let protocol = match from.next() {
        None => None,
        Some(b"2") => Some(Protocol::Resp2),
        Some(b"3") => Some(Protocol::Resp3),
        Some(word) => {
            let text = from.not("version", word, "one of 2, 3").text;
            return Err(Bad { code: ErrorCode::NoProto, text });
        }
    };
    let (mut auth, mut name, mut speaks) = (None, None, None);
    while let Some(option) = from.next() {
        match upper(option).as_str() {
            "AUTH" => from.once("AUTH", &mut auth, |from| {
                Ok((bytes(from, "user")?, Secret::copy(from.word("password")?)))
            })?,
            "SETNAME" => from.once("SETNAME", &mut name, |from| bytes(from, "name"))?,
            "LOCKSPAN" => from.once("LOCKSPAN", &mut speaks, |from| {
                from.parsed("protocol of nodes", "a whole number from 1", |word| {
                    crate::read::number(word)?.try_into().ok().filter(|&version: &u32| version > 0)
                })
            })?,
            _ => return Err(from.not("option", option, "one of AUTH, SETNAME, LOCKSPAN")),
        }
    }
    Ok(Command::Hello { protocol, auth, name, speaks })
}

pub(super) fn auth(from: &mut Reader<'_>) -> Read {
    let first = from.word("password")?;
    Ok(match from.next() {
        Some(password) => {
            let user = Some(Bytes::copy_from_slice(first));
            Command::Auth { user, password: Secret::copy(password) }
        }
        None => Command::Auth { user: None, password: Secret::copy(first) },
    })
}

pub(super) fn ping(from: &mut Reader<'_>) -> Read {
    Ok(Command::Ping(from.next().map(Bytes::copy_from_slice)))
}

pub(super) fn echo(from: &mut Reader<'_>) -> Read {
    bytes(from, "text").map(Command::Echo)
}

pub(super) fn quit(_: &mut Reader<'_>) -> Read {
    Ok(Command::Quit)
}

pub(super) fn reset(_: &mut Reader<'_>) -> Read {
    Ok(Command::Reset)
}

pub(super) fn select(from: &mut Reader<'_>) -> Read {
    from.parsed("database", "a whole number", |word| {
        std::str::from_utf8(word).ok()?.parse().ok().map(Command::Select)
    })
}

pub(super) fn command(from: &mut Reader<'_>) -> Read {
    Ok(Command::CommandInfo(rest(from)))
}

pub(super) fn info(from: &mut Reader<'_>) -> Read {
    Ok(Command::Info(rest(from)))
}

pub(super) fn subscribe(from: &mut Reader<'_>) -> Read {
    Ok(Command::Subscribe(rest(from)))
}

pub(super) fn unsubscribe(from: &mut Reader<'_>) -> Read {
    Ok(Command::Unsubscribe(rest(from)))
}

pub(super) fn cluster(from: &mut Reader<'_>) -> Read {
    let what = from.word("subcommand")?;
    if upper(what) != "SLOTS" {
        return Err(from.not("subcommand", what, "SLOTS"));
    }
    from.end()?;
    Ok(Command::ClusterSlots)
}

const CLIENT: &str = "one of ID, GETNAME, SETNAME, SETINFO, INFO, LIST, NO-EVICT, NO-TOUCH, \
                      TRACKING, REPLY";

pub(super) fn client(from: &mut Reader<'_>) -> Read {
    let what = from.word("subcommand")?;
    let command = match upper(what).as_str() {
        "ID" => ClientCommand::Id,
        "GETNAME" => ClientCommand::GetName,
        "SETNAME" => ClientCommand::SetName(bytes(from, "name")?),
        "SETINFO" => ClientCommand::SetInfo {
            attribute: bytes(from, "attribute")?,
            value: bytes(from, "value")?,
        },
        "INFO" => ClientCommand::Info,
        "LIST" => ClientCommand::List { after: after(from)? },
        "NO-EVICT" => only(from, &["ON", "OFF"], "one of on, off", ClientCommand::NoEvict)?,
        "NO-TOUCH" => only(from, &["ON", "OFF"], "one of on, off", ClientCommand::NoTouch)?,
        "TRACKING" => only(from, &["OFF"], "off", ClientCommand::TrackingOff)?,
        "REPLY" => only(from, &["ON"], "on", ClientCommand::ReplyOn)?,
        _ => return Err(from.not("subcommand", what, CLIENT)),
    };
    from.end()?;
    Ok(Command::Client(command))
}

/// The number of `AFTER`, if it is there.
fn after(from: &mut Reader<'_>) -> Result<u64, Bad> {
    match from.next() {
        None => Ok(0),
        Some(option) if option.eq_ignore_ascii_case(b"AFTER") => from.number("id"),
        Some(option) => Err(from.not("option", option, "AFTER")),
    }
}

/// The next word must be one of these.
fn only(
    from: &mut Reader<'_>,
    words: &[&str],
    allowed: &str,
    then: ClientCommand,
) -> Result<ClientCommand, Bad> {
    from.parsed("switch", allowed, |word| words.contains(&upper(word).as_str()).then_some(then))
}

fn bytes(from: &mut Reader<'_>, what: &str) -> Result<Bytes, Bad> {
    from.word(what).map(Bytes::copy_from_slice)
}

fn rest(from: &mut Reader<'_>) -> Vec<Bytes> {
    std::iter::from_fn(|| from.next()).map(Bytes::copy_from_slice).collect()
}
