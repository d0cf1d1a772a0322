//! `lockspan locks`: what is locked, as a table or as JSON.

use std::process::ExitCode;

use lockspan_wire::Value;

use crate::args::LocksArgs;
use crate::exit::{Failure, INTERNAL, say};
use crate::login;
use crate::output;
use crate::recovery::Recovery;
use crate::replies::{Claim, Locked, part_of};
use crate::resp::Connection;
use crate::service;
use crate::table::{Cut, table, terminal_width};
use crate::values::age;

/// Records of one answer; a greater one would hold up others.
const PART: &[u8] = b"256";

/// Shows them.
pub(crate) fn main(args: &LocksArgs) -> Result<ExitCode, Failure> {
    let mut records = match service::open(&args.service, "locks")? {
        Some(mut connection) => {
            let (records, recovery) = all(&mut connection, args.pattern.as_deref())?;
            match recovery {
                // More may be held than is known yet.
                Some(recovery) => say(recovery),
                None if records.is_empty() => say(why_empty(&mut connection, args)?),
                None => {}
            }
            records
        }
        None => {
            say("no service runs for local:, so nothing is locked");
            Vec::new()
        }
    };
    // A scan may show a record twice if the table changes under it.
    records.sort_by(|one, other| one.name.cmp(&other.name));
    records.dedup_by(|one, other| one.name == other.name);
    if args.json {
        return output::lines(records.iter().map(Locked::to_json));
    }
    output::print(shown(&records, terminal_width()).as_bytes())
}

/// Why nothing is shown: nothing is locked, nothing matches, or the user may not see it.
fn why_empty(connection: &mut Connection, args: &LocksArgs) -> Result<String, Failure> {
    let pattern = args.pattern.as_deref();
    // Without a login there are no rights: a server with users answers nobody else, and each user
    // has a password, the one named `default` too.
    let has_users = login::is_given(&args.service.url);
    let before = if has_users { records(connection)? } else { 0 };
    let shown = match pattern {
        Some(_) => all(connection, None)?.0.len() as u64,
        None => 0,
    };
    let after = if has_users { records(connection)? } else { 0 };
    // What was locked or released meanwhile is not hidden.
    Ok(empty(pattern, shown, before.min(after).saturating_sub(shown)))
}

/// The same in words: `shown` records would be shown without the pattern, and `hidden` ones are
/// locked that the user may not inspect.
fn empty(pattern: Option<&str>, shown: u64, hidden: u64) -> String {
    let are = |count: u64| if count == 1 { "record is" } else { "records are" };
    let pattern = pattern.unwrap_or_default();
    let is_plain = !pattern.contains(['*', '?', '[']);
    let hint = match is_plain && shown > 0 {
        true => format!(". A pattern must match the whole name: try '{pattern}*'"),
        false => String::new(),
    };
    match (shown, hidden) {
        (0, 0) => "nothing is locked".to_owned(),
        (0, hidden) => format!(
            "{hidden} {} locked, but this user may see none of them: the inspect right is missing \
             in the server's users file",
            are(hidden)
        ),
        (shown, 0) => format!("nothing matches {pattern:?}; {shown} {} locked{hint}", are(shown)),
        (shown, hidden) => format!(
            "{pattern:?} matches nothing that this user may see: {shown} of {} locked records. The \
             inspect right for the others is missing in the server's users file{hint}",
            shown + hidden
        ),
    }
}

/// How many records the service has.
fn records(connection: &mut Connection) -> Result<u64, Failure> {
    let reply = connection.ask(&[b"INFO", b"lockspan"])?;
    let odd = || Failure::new(INTERNAL, format!("unexpected reply to INFO: {reply:?}"));
    let Value::Bulk(text) = &reply else { return Err(odd()) };
    let text = std::str::from_utf8(text).map_err(|_| odd())?;
    let line = text.lines().find_map(|line| line.strip_prefix("records:"));
    line.and_then(|count| count.trim().parse().ok()).ok_or_else(odd)
}

/// All records that match, and whether the service recovers.
fn all(
    connection: &mut Connection,
    pattern: Option<&str>,
) -> Result<(Vec<Locked>, Option<Recovery>), Failure> {
    let (mut records, mut cursor) = (Vec::new(), b"0".to_vec());
    loop {
        let mut command: Vec<&[u8]> = vec![b"LS.LOCKS", &cursor, b"COUNT", PART];
        if let Some(pattern) = pattern {
            command.extend([b"MATCH", pattern.as_bytes()]);
        }
        let reply = connection.ask(&command)?;
        let (next, part) = part_of(&reply).ok_or_else(|| {
            Failure::new(INTERNAL, format!("unexpected reply to LS.LOCKS: {reply:?}"))
        })?;
        records.extend(part);
        if next == b"0" {
            return Ok((records, Recovery::in_locks(&reply)));
        }
        cursor = next;
    }
}

/// A row for each holder of a record, then one for each waiter in the order of their turns. Each
/// has the name of the record, so that `grep` finds all of them.
fn shown(records: &[Locked], room: Option<usize>) -> String {
    let head = [
        ("RECORD", Cut::Middle),
        ("STATE", Cut::Never),
        ("MODE", Cut::Never),
        ("AGE", Cut::Never),
        ("LABEL", Cut::Middle),
        ("SESSION", Cut::Never),
        ("TOKEN", Cut::Whole),
        ("NOTE", Cut::End),
    ];
    let rows: Vec<_> = records.iter().flat_map(rows).collect();
    table(head, &rows, room)
}

fn rows(record: &Locked) -> Vec<[String; 8]> {
    let Locked { name, state, holders, waiters, more_holders, more_waiters, .. } = record;
    let row = |claim: &Claim, state: String| {
        let or_none = |text: &Option<String>| text.clone().unwrap_or_else(|| "-".to_owned());
        [
            name.clone(),
            state,
            claim.mode.clone(),
            age(claim.age_ms),
            claim.who.label().to_owned(),
            claim.who.id.clone(),
            or_none(&claim.token),
            or_none(&claim.note),
        ]
    };
    let other = |state: String, label: String| {
        let none = || "-".to_owned();
        [name.clone(), state, none(), none(), label, none(), none(), none()]
    };
    let more = |count: usize, what: &str| {
        (count > 0).then(|| other("-".to_owned(), format!("and {count} more {what}")))
    };
    let mut rows: Vec<_> = holders.iter().map(|claim| row(claim, state.clone())).collect();
    rows.extend(more(*more_holders, "holders"));
    // Such as one that is kept for sessions that may come back.
    if rows.is_empty() {
        rows.push(other(state.clone(), "-".to_owned()));
    }
    let waiting = waiters.iter().zip(1..);
    rows.extend(waiting.map(|(claim, place)| row(claim, format!("waits {place}"))));
    rows.extend(more(*more_waiters, "waiters"));
    rows
}

#[cfg(test)]
mod tests {
    use serde_json::{Value as Json, json};

    use super::*;

    fn claim(session: u64, mode: &'static str, token: Option<i64>) -> Value {
        let of_holder = token.map(|token| {
            let label = ("label", "billing@host9[412]".into());
            [label, ("token", token.into()), ("note", "nightly import".into())]
        });
        let fields = [
            ("session", session.into()),
            ("seq", 1i64.into()),
            ("mode", mode.into()),
            ("age-ms", 192_000i64.into()),
        ];
        Value::map(fields.into_iter().chain(of_holder.into_iter().flatten()))
    }

    fn answer() -> Value {
        let record = Value::map([
            ("record", "invoice:42".into()),
            ("slot", 1i64.into()),
            ("state", "alone-wanted".into()),
            ("holders", Value::Array(vec![claim(u64::MAX, "W", Some(7))])),
            ("waiters", Value::Array((1..3).map(|id| claim(id, "R", None)).collect())),
        ]);
        Value::Array(vec![Value::bulk("0"), Value::Array(vec![record])])
    }

    #[test]
    fn the_table_shows_who_holds_and_who_waits_in_turn_order() {
        let (next, records) = part_of(&answer()).unwrap();
        assert_eq!(next, b"0");
        let rows: Vec<Vec<String>> = shown(&records, None)
            .lines()
            .map(|line| line.split("  ").map(|cell| cell.trim().to_owned()).collect())
            .map(|cells: Vec<String>| cells.into_iter().filter(|cell| !cell.is_empty()).collect())
            .collect();
        let last = u64::MAX.to_string();
        let held = ["alone-wanted", "W", "3m12s", "billing@host9[412]", &last, "7"];
        assert_eq!(
            rows,
            [
                &["RECORD", "STATE", "MODE", "AGE", "LABEL", "SESSION", "TOKEN", "NOTE"][..],
                &[&["invoice:42"], &held[..], &["nightly import"]].concat(),
                &["invoice:42", "waits 1", "R", "3m12s", "-", "1", "-", "-"],
                &["invoice:42", "waits 2", "R", "3m12s", "-", "2", "-", "-"],
            ]
        );
        for line in shown(&records, Some(80)).lines() {
            assert!(crate::table::width(line) <= 80, "{line}");
        }
    }

    #[test]
    fn a_record_that_nobody_holds_is_shown_too() {
        let (_, mut records) = part_of(&answer()).unwrap();
        records[0].holders.clear();
        records[0].waiters.clear();
        "recovering".clone_into(&mut records[0].state);
        assert!(shown(&records, None).contains("\ninvoice:42  recovering  -     -    -"));
    }

    #[test]
    fn json_keeps_every_digit() {
        let (_, records) = part_of(&answer()).unwrap();
        let json = records[0].to_json();
        assert_eq!(json["record"], "invoice:42");
        assert_eq!(json["holders"][0]["session"], "18446744073709551615");
        assert_eq!(json["holders"][0]["token"], "7");
        let holder = &json["holders"][0];
        assert_eq!((&holder["age_ms"], &holder["place"]), (&json!(192_000), &Json::Null));
        assert_eq!(holder["label"], "billing@host9[412]");
        assert_eq!(holder["note"], "nightly import");
        let waiters = json["waiters"].as_array().unwrap();
        let places: Vec<_> = waiters.iter().map(|waiter| &waiter["place"]).collect();
        assert_eq!(places, [1, 2]);
    }

    #[test]
    fn what_the_service_leaves_out_is_counted() {
        let Value::Array(mut pair) = answer() else { panic!("a list") };
        let Value::Array(records) = &mut pair[1] else { panic!("a list") };
        let Value::Map(fields) = &mut records[0] else { panic!("a map") };
        fields.push((Value::bulk("more-waiters"), Value::Int(1000)));
        let (_, records) = part_of(&Value::Array(pair)).unwrap();
        assert!(shown(&records, None).contains("and 1000 more waiters"));
        let json = records[0].to_json();
        assert_eq!((&json["more_waiters"], &json["more_holders"]), (&json!(1000), &Json::Null));
    }

    #[test]
    fn a_name_with_any_bytes_comes_back_from_json() {
        let json = |name: &'static [u8]| {
            let Value::Array(mut pair) = answer() else { panic!("a list") };
            let Value::Array(records) = &mut pair[1] else { panic!("a list") };
            let Value::Map(fields) = &mut records[0] else { panic!("a map") };
            fields[0].1 = Value::bulk(name);
            let (_, records) = part_of(&Value::Array(pair)).unwrap();
            let line = records[0].to_json().to_string();
            assert!(!line.contains('\n'), "an object is one line: {line}");
            serde_json::from_str::<Json>(&line).unwrap()
        };
        let odd = "a:\"\\n\n\t\u{1}é";
        let shown = json(odd.as_bytes());
        assert_eq!((&shown["record"], &shown["record_hex"]), (&json!(odd), &Json::Null));
        assert_eq!(json(b"a:\xff\n")["record_hex"], "613aff0a");
    }

    #[test]
    fn an_empty_table_says_why() {
        assert_eq!(empty(None, 0, 0), "nothing is locked");
        assert_eq!(empty(Some("x:*"), 0, 0), "nothing is locked");
        assert!(empty(None, 0, 8).starts_with("8 records are locked, but this user may see none"));
        assert_eq!(empty(Some("x:*"), 1, 0), "nothing matches \"x:*\"; 1 record is locked");
        assert_eq!(
            empty(Some("x:*"), 2, 3),
            "\"x:*\" matches nothing that this user may see: 2 of 5 locked records. The inspect \
             right for the others is missing in the server's users file"
        );
        let plain = empty(Some("order"), 8, 1);
        assert!(plain.ends_with("users file. A pattern must match the whole name: try 'order*'"));
        let plain = empty(Some("order"), 8, 0);
        assert!(
            plain.ends_with(
                "8 records are locked. A pattern must match the whole name: try 'order*'"
            ),
            "{plain}"
        );
    }

    #[test]
    fn an_answer_that_makes_no_sense_is_no_answer() {
        for odd in [Value::Null, Value::Array(vec![]), Value::Array(vec![Value::Null; 2])] {
            assert_eq!(part_of(&odd), None);
        }
    }
}
