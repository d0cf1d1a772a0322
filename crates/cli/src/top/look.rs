//! Asks the service, again and again, in a thread of its own: one that does not answer holds up no
//! key.

use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};

use lockspan_wire::Value;

use crate::exit::{Failure, INTERNAL};
use crate::locks::{Locked, field, find, part_of};
use crate::recovery::Recovery;
use crate::resp::Connection;

/// Records and sessions that are asked for; a screen shows fewer.
const RECORDS: usize = 2000;
const SESSIONS: &[u8] = b"1000";

/// Things that happened to a record.
const HISTORY: &[u8] = b"50";

/// What is looked at.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Want {
    /// Names of records.
    pub(super) pattern: Option<String>,
    /// The record that is chosen.
    pub(super) chosen: Option<Vec<u8>>,
}

/// Something that was seen.
#[derive(Debug)]
pub(crate) enum News {
    /// All of it.
    All(Box<Seen>),
    /// What happened to the record that is chosen.
    History(Vec<Happened>),
}

/// What there was at one time.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    pub(super) at: Option<Instant>,
    pub(super) records: Vec<Locked>,
    /// There are more records than were asked for.
    pub(super) more: bool,
    pub(super) sessions: Vec<Session>,
    pub(super) counts: Counts,
    /// Records that are held and wanted.
    pub(super) wanted: Vec<Locked>,
    pub(super) deadlocks: Vec<Deadlock>,
    pub(super) history: Vec<Happened>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Session {
    pub(super) id: String,
    pub(super) user: String,
    pub(super) lease_ms: u64,
    pub(super) left_ms: u64,
    pub(super) connections: u64,
    /// Records that it holds or waits for.
    pub(super) records: u64,
    /// It is not renewed any more.
    pub(super) ends: bool,
}

/// A wait that was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Deadlock {
    pub(super) age_ms: u64,
    pub(super) session: String,
    pub(super) record: String,
    pub(super) owners: Vec<String>,
}

/// What happened to a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Happened {
    pub(super) age_ms: u64,
    pub(super) session: String,
    pub(super) what: String,
    /// Mode, token, times.
    pub(super) more: Vec<String>,
}

/// What `INFO` tells.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(super) grants: u64,
    pub(super) revokes: u64,
    pub(super) releases: u64,
    pub(super) deadlocks: u64,
    pub(super) records: u64,
    pub(super) sessions: u64,
    pub(super) connections: u64,
    pub(super) recovering: bool,
    pub(super) recovery: Option<Recovery>,
}

/// The thread.
#[derive(Debug)]
pub(crate) struct Looker {
    wants: Sender<Want>,
    seen: Receiver<Result<News, Failure>>,
}

impl Looker {
    pub(super) fn start(mut connection: Connection, every: Duration, mut want: Want) -> Self {
        let (wants, wanted) = mpsc::channel::<Want>();
        let (say, seen) = mpsc::channel();
        std::thread::spawn(move || {
            // What was asked for since is all that matters of it.
            let latest = |mut want: Want| {
                while let Ok(later) = wanted.try_recv() {
                    want = later;
                }
                want
            };
            loop {
                let seen = look(&mut connection, &want).map(|seen| News::All(Box::new(seen)));
                let failed = seen.is_err();
                if say.send(seen).is_err() || failed {
                    return;
                }
                let next = Instant::now() + every;
                loop {
                    let left = next.saturating_duration_since(Instant::now());
                    let other = match wanted.recv_timeout(left) {
                        Ok(other) => latest(other),
                        Err(RecvTimeoutError::Timeout) => break,
                        Err(RecvTimeoutError::Disconnected) => return,
                    };
                    let before = std::mem::replace(&mut want, other);
                    if before.pattern != want.pattern {
                        break;
                    }
                    if before.chosen != want.chosen {
                        let news = history(&mut connection, &want).map(News::History);
                        let failed = news.is_err();
                        if say.send(news).is_err() || failed {
                            return;
                        }
                    }
                }
            }
        });
        Self { wants, seen }
    }

    /// This is wanted.
    pub(super) fn want(&self, want: Want) {
        // If it has ended, it has said why.
        let _ = self.wants.send(want);
    }

    /// What was seen since, if anything.
    pub(super) fn seen(&self) -> Option<Result<News, Failure>> {
        self.seen.try_recv().ok()
    }
}

fn look(connection: &mut Connection, want: &Want) -> Result<Seen, Failure> {
    let (mut records, mut cursor) = (Vec::new(), b"0".to_vec());
    let mut more = false;
    loop {
        let mut command: Vec<&[u8]> = vec![b"LS.LOCKS", &cursor, b"COUNT", b"500"];
        if let Some(pattern) = &want.pattern {
            command.extend([b"MATCH", pattern.as_bytes()]);
        }
        let reply = connection.ask(&command)?;
        let (next, part) = part_of(&reply).ok_or_else(|| odd("LS.LOCKS", &reply))?;
        records.extend(part);
        if next == b"0" {
            break;
        }
        if records.len() >= RECORDS {
            more = true;
            break;
        }
        cursor = next;
    }
    let reply = connection.ask(&[b"LS.SESSIONS", b"COUNT", SESSIONS])?;
    let sessions = sessions(&reply).ok_or_else(|| odd("LS.SESSIONS", &reply))?;
    let reply = connection.ask(&[b"INFO"])?;
    let counts = counts(&reply).ok_or_else(|| odd("INFO", &reply))?;
    let reply = connection.ask(&[b"LS.WAITS"])?;
    let (wanted, deadlocks) = waits(&reply).ok_or_else(|| odd("LS.WAITS", &reply))?;
    let history = history(connection, want)?;
    let at = Some(Instant::now());
    Ok(Seen { at, records, more, sessions, counts, wanted, deadlocks, history })
}

fn history(connection: &mut Connection, want: &Want) -> Result<Vec<Happened>, Failure> {
    let Some(chosen) = &want.chosen else { return Ok(Vec::new()) };
    let reply = connection.ask(&[b"LS.HISTORY", chosen, b"COUNT", HISTORY])?;
    happenings(&reply).ok_or_else(|| odd("LS.HISTORY", &reply))
}

fn odd(command: &str, reply: &Value) -> Failure {
    Failure::new(INTERNAL, format!("{command} has an unknown answer: {reply:?}"))
}

fn number(map: &Value, name: &str) -> Option<u64> {
    field(map, name)?.parse().ok()
}

fn sessions(reply: &Value) -> Option<Vec<Session>> {
    let Value::Array(all) = reply else { return None };
    let one = |map| {
        Some(Session {
            id: field(map, "session")?,
            user: field(map, "user").unwrap_or_default(),
            lease_ms: number(map, "lease-ms")?,
            left_ms: number(map, "left-ms").unwrap_or(0),
            connections: number(map, "connections")?,
            records: number(map, "records")?,
            ends: number(map, "ends").is_some(),
        })
    };
    all.iter().map(one).collect()
}

pub(super) fn waits(reply: &Value) -> Option<(Vec<Locked>, Vec<Deadlock>)> {
    let list = |name| match find(reply, name)? {
        Value::Array(list) => Some(list),
        _ => None,
    };
    let deadlock = |map| {
        let Value::Array(owners) = find(map, "owners")? else { return None };
        let owner = |value: &Value| match value {
            Value::Int(number) => Some(number.to_string()),
            Value::Bulk(digits) => Some(lockspan_server::readable(digits)),
            _ => None,
        };
        Some(Deadlock {
            age_ms: number(map, "age-ms")?,
            session: field(map, "session")?,
            record: field(map, "record")?,
            owners: owners.iter().map(owner).collect::<Option<_>>()?,
        })
    };
    let records = list("records")?.iter().map(Locked::read).collect::<Option<_>>()?;
    Some((records, list("deadlocks")?.iter().map(deadlock).collect::<Option<_>>()?))
}

pub(super) fn happenings(reply: &Value) -> Option<Vec<Happened>> {
    let Value::Array(all) = reply else { return None };
    let one = |map| {
        let span = |name| number(map, name).map(super::draw::age);
        let more = [
            field(map, "mode"),
            field(map, "token").map(|token| format!("token {token}")),
            span("waited-ms").map(|span| format!("waited {span}")),
            span("held-ms").map(|span| format!("held {span}")),
        ];
        Some(Happened {
            age_ms: number(map, "age-ms")?,
            session: field(map, "session")?,
            what: field(map, "what")?,
            more: more.into_iter().flatten().collect(),
        })
    };
    all.iter().map(one).collect()
}

pub(super) fn counts(reply: &Value) -> Option<Counts> {
    let Value::Bulk(text) = reply else { return None };
    let text = std::str::from_utf8(text).ok()?;
    let number = |name: &str| {
        let mut pairs = text.lines().filter_map(|line| line.split_once(':'));
        pairs.find(|(known, _)| *known == name)?.1.trim().parse::<u64>().ok()
    };
    Some(Counts {
        grants: number("grants")?,
        revokes: number("revokes")?,
        releases: number("releases")?,
        deadlocks: number("deadlocks")?,
        records: number("records")?,
        sessions: number("sessions")?,
        connections: number("connected_clients")?,
        recovering: number("recovering")? != 0,
        recovery: Recovery::in_info(text),
    })
}
