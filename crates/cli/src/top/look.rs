//! Asks the service, again and again, in a thread of its own: one that does not answer holds up no
//! key.

use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};

use lockspan_wire::Value;

use crate::exit::{Failure, UNAVAILABLE};
use crate::recovery::Recovery;
use crate::replies::{Happened, Locked, Session, Waits, happenings, part_of, sessions, waits};
use crate::resp::{Connection, odd};

/// Records and sessions that are asked for; a screen shows fewer.
const RECORDS: usize = 2000;
const SESSIONS: &[u8] = b"1000";

/// Things that happened to a record.
const HISTORY: &[u8] = b"50";

/// How soon a service that is away is called again, at most and at least.
const SOONEST: Duration = Duration::from_millis(500);
const LATEST: Duration = Duration::from_secs(2);

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
    /// The service is away, and why; it is called again.
    Away(String),
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
    pub(super) waits: Waits,
    pub(super) history: Vec<Happened>,
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
    pub(super) fn start(connection: Connection, url: &str, every: Duration, want: Want) -> Self {
        let (wants, wanted) = mpsc::channel::<Want>();
        let (say, seen) = mpsc::channel();
        let mut connection = Some(connection);
        let url = url.to_owned();
        std::thread::spawn(move || {
            let mut watch = Watch { wanted, want, say, every };
            loop {
                let done = match watch.look(&mut connection, &url) {
                    Err(Stop::Away(why)) => {
                        connection = None;
                        watch.pause(why)
                    }
                    done => done,
                };
                if done.is_err() {
                    return;
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

/// Why looking has ended.
enum Stop {
    /// The connection is gone. It is made again.
    Away(String),
    /// Nobody listens any more.
    Over,
}

/// The part of the thread that is not the connection.
struct Watch {
    wanted: Receiver<Want>,
    want: Want,
    say: Sender<Result<News, Failure>>,
    every: Duration,
}

impl Watch {
    /// Looks once, connecting again if need be, and then at what else is wanted until it is time
    /// to look again.
    fn look(&mut self, connection: &mut Option<Connection>, url: &str) -> Result<(), Stop> {
        let open = match connection {
            Some(open) => open,
            None => match Connection::open(url) {
                Ok(Some(open)) => connection.insert(open),
                Ok(None) => return Err(Stop::Away("no service runs behind local:".to_owned())),
                Err(failure) => return Err(Stop::Away(failure.text)),
            },
        };
        let seen = look(open, &self.want).map(|seen| News::All(Box::new(seen)));
        self.send(seen)?;
        let next = Instant::now() + self.every;
        while let Some(before) = self.wait_until(next)? {
            if before.pattern != self.want.pattern {
                break;
            }
            if before.chosen != self.want.chosen {
                let news = history(open, &self.want).map(News::History);
                self.send(news)?;
            }
        }
        Ok(())
    }

    /// The service is away: that is told, and a while later it is called again.
    fn pause(&mut self, why: String) -> Result<(), Stop> {
        self.send(Ok(News::Away(why)))?;
        let next = Instant::now() + self.every.clamp(SOONEST, LATEST);
        while self.wait_until(next)?.is_some() {}
        Ok(())
    }

    /// Tells the news. If the service has gone, that is not the end; if it refuses, it is.
    fn send(&self, news: Result<News, Failure>) -> Result<(), Stop> {
        match news {
            Err(failure) if failure.code == UNAVAILABLE => Err(Stop::Away(failure.text)),
            Err(failure) => {
                // If nobody hears it, it is over as well.
                let _ = self.say.send(Err(failure));
                Err(Stop::Over)
            }
            news => self.say.send(news).map_err(|_| Stop::Over),
        }
    }

    /// What was wanted before, if something else is wanted before that time.
    fn wait_until(&mut self, next: Instant) -> Result<Option<Want>, Stop> {
        let left = next.saturating_duration_since(Instant::now());
        let mut other = match self.wanted.recv_timeout(left) {
            Ok(other) => other,
            Err(RecvTimeoutError::Timeout) => return Ok(None),
            Err(RecvTimeoutError::Disconnected) => return Err(Stop::Over),
        };
        // What was asked for since is all that matters of it.
        while let Ok(later) = self.wanted.try_recv() {
            other = later;
        }
        Ok(Some(std::mem::replace(&mut self.want, other)))
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
    let waits = waits(&reply).ok_or_else(|| odd("LS.WAITS", &reply))?;
    let history = history(connection, want)?;
    let at = Some(Instant::now());
    Ok(Seen { at, records, more, sessions, counts, waits, history })
}

fn history(connection: &mut Connection, want: &Want) -> Result<Vec<Happened>, Failure> {
    let Some(chosen) = &want.chosen else { return Ok(Vec::new()) };
    let reply = connection.ask(&[b"LS.HISTORY", chosen, b"COUNT", HISTORY])?;
    happenings(&reply).ok_or_else(|| odd("LS.HISTORY", &reply))
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
