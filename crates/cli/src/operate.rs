//! `lockspan end` and `lockspan take-back`: what an operator may do to a session and to a record.
//! The page does the same, with the same commands of the service and the same rights.

use std::process::ExitCode;
use std::thread::sleep;
use std::time::{Duration, Instant};

use lockspan_client::Span;
use lockspan_wire::{ErrorCode, PublicId, Value};
use serde_json::json;

use crate::args::{EndArgs, TakeBackArgs};
use crate::exit::{Failure, NO_PERMISSION, NOT_GRANTED, UNAVAILABLE, USAGE};
use crate::output;
use crate::replies::{Claim, Locked, Who};
use crate::resp::{Connection, odd, refused};
use crate::service;
use crate::sessions;

/// The fewest letters of an id that stand for the whole: a slip of the finger should not end the
/// only session that there is.
const PREFIX: usize = 4;

/// How often it is looked whether a record was given back.
const GLANCE: Duration = Duration::from_millis(50);

/// Ends a session.
pub(crate) fn end(args: &EndArgs) -> Result<ExitCode, Failure> {
    let mut connection = open(&args.service, "end")?;
    let who = session(&mut connection, &args.session)?;
    let reply = match connection.reply(&[b"LS.END", who.id.as_bytes()])? {
        Value::Error { code: ErrorCode::NoSession, text } => {
            return Err(Failure::new(USAGE, format!("{text}. Nothing was changed")));
        }
        Value::Error { code, text } => return Err(denied(code, &text)),
        reply => reply,
    };
    let left = millis(&reply).ok_or_else(|| odd("LS.END", &reply))?;
    if args.json {
        let mut shown = json!({ "session": who.id, "left_ms": left.as_millis() as u64 });
        if let Some(label) = who.label {
            shown["label"] = json!(label);
        }
        return output::lines(std::iter::once(shown));
    }
    let text = format!(
        "{who} is ended: its lease is no longer renewed, and its records are free within {}\n",
        Span(left)
    );
    output::print(text.as_bytes())
}

/// Asks the holders of a record to give it back, and waits until they have.
pub(crate) fn take_back(args: &TakeBackArgs) -> Result<ExitCode, Failure> {
    let mut connection = open(&args.service, "take-back")?;
    let name = args.record.as_bytes();
    // Not everybody who may take back may look as well.
    let before = holders(&mut connection, name)?;
    let wait = args.wait.map(|wait| wait.as_millis().to_string());
    let mut command: Vec<&[u8]> = vec![b"LS.TAKEBACK", name];
    if let Some(wait) = &wait {
        command.extend([b"WAIT", wait.as_bytes()]);
    }
    let asked = Instant::now();
    let reply = match connection.reply(&command)? {
        Value::Error { code: ErrorCode::Refused, text } => {
            let text = format!("{} was not taken back: {text}", args.record);
            return Err(Failure::new(UNAVAILABLE, text));
        }
        Value::Error { code, text } => return Err(denied(code, &text)),
        reply => reply,
    };
    let most = millis(&reply).ok_or_else(|| odd("LS.TAKEBACK", &reply))?;
    let mut left = before.clone();
    while let Some(holders) = &mut left
        && !holders.is_empty()
        && asked.elapsed() < most
    {
        sleep(GLANCE.min(most));
        let now = self::holders(&mut connection, name)?.unwrap_or_default();
        // A session that has taken it again since has given it back before.
        let is_same =
            |one: &Claim, other: &Claim| (&one.who.id, &one.seq) == (&other.who.id, &other.seq);
        holders.retain(|holder| now.iter().any(|other| is_same(holder, other)));
    }
    let done = left.as_ref().map(Vec::is_empty);
    if args.json {
        let name = String::from_utf8_lossy(name);
        let shown = json!({
            "record": name, "asked_ms": most.as_millis() as u64, "given_back": done,
            "holders": before.iter().flatten().map(|it| it.to_json(None)).collect::<Vec<_>>(),
        });
        output::lines(std::iter::once(shown))?;
    }
    let text = match (done, left.as_ref().and_then(|left| left.first())) {
        (Some(false), Some(Claim { who, .. })) => {
            let text = format!(
                "{} was not given back within {}: {who} still holds it. To end its session: \
                 lockspan end {}",
                args.record,
                Span(most),
                who.id
            );
            return Err(Failure::new(NOT_GRANTED, text));
        }
        (Some(_), _) => {
            let names: Vec<_> = before.iter().flatten().map(|it| it.who.to_string()).collect();
            format!("{} was given back by {}\n", args.record, names.join(", "))
        }
        (None, _) => format!(
            "asked the holders of {} to give it back within {}. Whether they did is not shown: \
             this user may not inspect the record\n",
            args.record,
            Span(most)
        ),
    };
    if args.json { Ok(ExitCode::SUCCESS) } else { output::print(text.as_bytes()) }
}

fn open(service: &crate::args::Service, command: &str) -> Result<Connection, Failure> {
    service::open(service, command)?.ok_or_else(|| {
        let text = "no service runs for local:, so there is nothing to do. For another service, \
                    give --url or set LOCKSPAN_URL";
        Failure::new(UNAVAILABLE, text)
    })
}

/// The session with this public id, the only one whose id begins with this, or with this label.
fn session(connection: &mut Connection, text: &str) -> Result<Who, Failure> {
    let all = sessions::all(connection)?;
    let all: Vec<Who> = all.into_iter().map(|session| session.who).collect();
    // One that this user may not see can be ended all the same.
    let unseen = |failure| match PublicId::read(text.as_bytes()) {
        Some(id) => Ok(Who { id: id.to_string(), label: None }),
        None => Err(failure),
    };
    meant(&all, text).or_else(unseen)
}

fn meant(all: &[Who], text: &str) -> Result<Who, Failure> {
    let wrong = |text: String| Failure::new(USAGE, format!("{text}. Nothing was changed"));
    let lower = text.to_ascii_lowercase();
    if let Some(who) = all.iter().find(|who| who.id == lower) {
        return Ok(who.clone());
    }
    let digits = lower.strip_prefix('s').unwrap_or_default();
    let is_prefix = lower.len() >= PREFIX && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    let is_meant = |who: &&Who| {
        who.label.as_deref() == Some(text) || (is_prefix && who.id.starts_with(&lower))
    };
    let found: Vec<&Who> = all.iter().filter(is_meant).collect();
    match &found[..] {
        [one] => Ok((*one).clone()),
        [] => {
            let short = lower.len() < PREFIX
                && lower.starts_with('s')
                && all.iter().any(|who| who.id.starts_with(&lower));
            let hint = match short {
                true => format!("give at least {PREFIX} characters of an id"),
                false => "lockspan sessions shows those that this user may see".to_owned(),
            };
            Err(wrong(format!("{text:?} is neither the id nor the label of a session: {hint}")))
        }
        several => {
            let names: Vec<_> = several.iter().take(5).map(ToString::to_string).collect();
            let more = several.len() - names.len();
            let more = if more > 0 { format!(" and {more} more") } else { String::new() };
            let names = names.join(", ");
            Err(wrong(format!(
                "{text:?} matches several sessions: {names}{more}. Give the id of one"
            )))
        }
    }
}

/// Who holds the record; `None` if the user may not know.
fn holders(connection: &mut Connection, name: &[u8]) -> Result<Option<Vec<Claim>>, Failure> {
    match connection.reply(&[b"LS.INSPECT", name])? {
        Value::Error { code: ErrorCode::NoPerm, .. } => Ok(None),
        Value::Error { code, text } => Err(refused(code, &text)),
        reply => match Locked::read(&reply) {
            Some(record) => Ok(Some(record.holders)),
            None => Err(odd("LS.INSPECT", &reply)),
        },
    }
}

/// The service does not do it; if a right is missing, which one.
fn denied(code: ErrorCode, text: &str) -> Failure {
    let mut failure = refused(code, text);
    if failure.code == NO_PERMISSION {
        failure.text.push_str(
            ". It needs a user with admin = [\"*\"] in the server's file of users. Nothing was \
             changed",
        );
    }
    failure
}

fn millis(reply: &Value) -> Option<Duration> {
    match reply {
        Value::Int(millis) => Some(Duration::from_millis(u64::try_from(*millis).ok()?)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all() -> Vec<Who> {
        let who = |id: &str, label: Option<&str>| Who {
            id: id.to_owned(),
            label: label.map(str::to_owned),
        };
        vec![
            who("s0123456789ab", Some("billing@host9[412]")),
            who("s0124aaaaaaaa", Some("same")),
            who("s0125aaaaaaaa", Some("same")),
            who("sfff000000000", None),
            // A label may look like an id.
            who("s777000000000", Some("sfff")),
        ]
    }

    #[test]
    fn a_session_is_named_by_id_prefix_or_label() {
        for (text, id) in [
            ("s0123456789ab", "s0123456789ab"),
            ("S0123456789AB", "s0123456789ab"),
            ("s0123", "s0123456789ab"),
            ("billing@host9[412]", "s0123456789ab"),
            ("s777", "s777000000000"),
        ] {
            assert_eq!(meant(&all(), text).unwrap().id, id, "{text}");
        }
    }

    #[test]
    fn what_is_unknown_or_ambiguous_is_refused_with_its_reason() {
        for (text, why) in [
            ("s9999", "\"s9999\" is neither the id nor the label"),
            ("billing", "lockspan sessions shows those"),
            ("", "is neither"),
            ("s", "at least 4 characters of an id"),
            ("s01", "at least 4 characters of an id"),
            ("s012", "matches several sessions: billing@host9[412] (s0123456789ab), same (s0124"),
            (
                "same",
                "matches several sessions: same (s0124aaaaaaaa), same (s0125aaaaaaaa). Give the id",
            ),
            ("sfff", "matches several sessions: sfff000000000, sfff (s777000000000)"),
        ] {
            let failure = meant(&all(), text).unwrap_err();
            assert!(failure.text.contains(why), "{text}: {}", failure.text);
            assert!(failure.text.ends_with("Nothing was changed"), "{}", failure.text);
            assert_eq!(failure.code, USAGE);
        }
    }
}
