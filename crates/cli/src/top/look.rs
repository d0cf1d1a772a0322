//! Asks the service, again and again, in a thread of its own: one that does not answer holds up no
//! key.

use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};

use lockspan_wire::Value;

use crate::exit::{Failure, INTERNAL};
use crate::locks::{Locked, field, part_of};
use crate::resp::Connection;

/// Records and sessions that are asked for; a screen shows fewer.
const RECORDS: usize = 2000;
const SESSIONS: &[u8] = b"1000";

/// What there was at one time.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    pub(super) at: Option<Instant>,
    pub(super) records: Vec<Locked>,
    /// There are more records than were asked for.
    pub(super) more: bool,
    pub(super) sessions: Vec<Session>,
    pub(super) counts: Counts,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Session {
    pub(super) id: String,
    pub(super) lease_ms: u64,
    pub(super) left_ms: u64,
    pub(super) connections: u64,
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
}

/// The thread.
#[derive(Debug)]
pub(crate) struct Looker {
    wants: Sender<Option<String>>,
    seen: Receiver<Result<Seen, Failure>>,
}

impl Looker {
    pub(super) fn start(
        mut connection: Connection,
        every: Duration,
        mut pattern: Option<String>,
    ) -> Self {
        let (wants, wanted) = mpsc::channel::<Option<String>>();
        let (say, seen) = mpsc::channel();
        std::thread::spawn(move || {
            loop {
                let seen = look(&mut connection, pattern.as_deref());
                let failed = seen.is_err();
                if say.send(seen).is_err() || failed {
                    return;
                }
                let next = Instant::now() + every;
                loop {
                    let left = next.saturating_duration_since(Instant::now());
                    match wanted.recv_timeout(left) {
                        Ok(other) if other != pattern => {
                            pattern = other;
                            break;
                        }
                        Ok(_) => {}
                        Err(RecvTimeoutError::Timeout) => break,
                        Err(RecvTimeoutError::Disconnected) => return,
                    }
                }
            }
        });
        Self { wants, seen }
    }

    /// Records of this pattern are wanted.
    pub(super) fn want(&self, pattern: Option<String>) {
        // If it has ended, it has said why.
        let _ = self.wants.send(pattern);
    }

    /// What was seen since, if anything.
    pub(super) fn seen(&self) -> Option<Result<Seen, Failure>> {
        self.seen.try_recv().ok()
    }
}

fn look(connection: &mut Connection, pattern: Option<&str>) -> Result<Seen, Failure> {
    let (mut records, mut cursor) = (Vec::new(), b"0".to_vec());
    let mut more = false;
    loop {
        let mut command: Vec<&[u8]> = vec![b"LS.LOCKS", &cursor, b"COUNT", b"500"];
        if let Some(pattern) = pattern {
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
    Ok(Seen { at: Some(Instant::now()), records, more, sessions, counts })
}

fn odd(command: &str, reply: &Value) -> Failure {
    Failure::new(INTERNAL, format!("{command} has an unknown answer: {reply:?}"))
}

fn sessions(reply: &Value) -> Option<Vec<Session>> {
    let Value::Array(all) = reply else { return None };
    let number = |map: &Value, name| field(map, name)?.parse().ok();
    let one = |map| {
        Some(Session {
            id: field(map, "session")?,
            lease_ms: number(map, "lease-ms")?,
            left_ms: number(map, "left-ms").unwrap_or(0),
            connections: number(map, "connections")?,
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
    })
}
