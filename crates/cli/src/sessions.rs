//! `lockspan sessions`: who is connected, and for how long their leases last.

use std::process::ExitCode;

use crate::args::SessionsArgs;
use crate::exit::{Failure, say};
use crate::filter::Filter;
use crate::output;
use crate::replies::{Session, sessions};
use crate::resp::{Connection, odd};
use crate::service;
use crate::table::{Cut, table, terminal_width};
use crate::values::age;

/// Sessions of one answer, as many as a service gives.
const PART: usize = 1000;

/// Shows them, in the order of their labels.
pub(crate) fn main(args: &SessionsArgs) -> Result<ExitCode, Failure> {
    let mut found = match service::open(&args.service, "sessions")? {
        Some(mut connection) => {
            let mut found = all(&mut connection)?;
            let all = found.len();
            let filter = Filter::new(args.pattern.as_deref().unwrap_or_default());
            found.retain(|session| is_liked(session, &filter));
            match (&args.pattern, all) {
                (_, 0) => say("there is no session that this user may see"),
                (Some(pattern), all) if found.is_empty() => {
                    say(format!("no session matches {pattern:?}, of {all}"));
                }
                _ => {}
            }
            found
        }
        None => {
            say("no service runs for local:, so there is no session");
            Vec::new()
        }
    };
    found.sort_by(|one, other| {
        (one.who.name(), &one.who.id).cmp(&(other.who.name(), &other.who.id))
    });
    if args.json {
        return output::lines(found.iter().map(Session::to_json));
    }
    output::print(shown(&found, terminal_width()).as_bytes())
}

/// All sessions that the user may see.
pub(crate) fn all(connection: &mut Connection) -> Result<Vec<Session>, Failure> {
    let mut found: Vec<Session> = Vec::new();
    loop {
        let count = PART.to_string();
        let mut command: Vec<&[u8]> = vec![b"LS.SESSIONS"];
        if let Some(last) = found.last() {
            command.extend([b"AFTER", last.who.id.as_bytes()]);
        }
        command.extend([b"COUNT", count.as_bytes()]);
        let reply = connection.ask(&command)?;
        let part = sessions(&reply).ok_or_else(|| odd("LS.SESSIONS", &reply))?;
        if part.is_empty() {
            return Ok(found);
        }
        found.extend(part);
    }
}

/// Whether its label, its id or its user fits.
pub(crate) fn is_liked(session: &Session, filter: &Filter) -> bool {
    let Session { who, user, .. } = session;
    filter.fits([who.name(), &who.id, user].map(str::as_bytes))
}

fn shown(sessions: &[Session], room: Option<usize>) -> String {
    let head = [
        ("SESSION", Cut::Never),
        ("LABEL", Cut::Middle),
        ("USER", Cut::End),
        ("RECORDS", Cut::Never),
        ("CONNECTIONS", Cut::Whole),
        ("LEASE", Cut::Never),
        ("LEFT", Cut::Never),
        ("STATE", Cut::Never),
    ];
    let none = || "-".to_owned();
    let row = |it: &Session| {
        [
            it.who.id.clone(),
            it.who.label().to_owned(),
            if it.user.is_empty() { none() } else { it.user.clone() },
            it.records.to_string(),
            it.connections.to_string(),
            age(it.lease_ms),
            it.left_ms.map_or_else(none, age),
            it.state().to_owned(),
        ]
    };
    table(head, &sessions.iter().map(row).collect::<Vec<_>>(), room)
}
