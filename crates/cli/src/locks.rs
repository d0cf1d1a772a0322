//! `lockspan locks`: what is locked, as a table or as JSON.

use std::fmt::Write as _;
use std::io::{self, Write};
use std::process::ExitCode;

use lockspan_client::local;
use lockspan_server::readable;
use lockspan_wire::Value;
use serde_json::{Map, Value as Json, json};

use crate::args::LocksArgs;
use crate::exit::{Failure, INTERNAL, SYSTEM, say};
use crate::explain;
use crate::login;
use crate::recovery::Recovery;
use crate::resp::Connection;
use crate::service;

/// Records of one answer; a greater one would hold up others.
const PART: &[u8] = b"256";

/// Shows them.
pub(crate) fn main(args: &LocksArgs) -> Result<ExitCode, Failure> {
    if explain::is_redis(&args.service.url) {
        return Err(explain::not_on_redis("locks", &args.service.url));
    }
    let mut records = match Connection::open(&args.service.url)? {
        Some(mut connection) => {
            // Nobody has said which service it should be.
            if args.service.url == local::URL {
                say(format!("at {}", service::name(&args.service.url)));
            }
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
            say("no service runs behind local:, so nothing is locked there");
            Vec::new()
        }
    };
    // A scan may show a record twice if the table changes under it.
    records.sort_by(|one, other| one.name.cmp(&other.name));
    records.dedup_by(|one, other| one.name == other.name);
    let text = if args.json {
        records.iter().map(|record| format!("{}\n", record.to_json())).collect()
    } else {
        table(&records)
    };
    match io::stdout().write_all(text.as_bytes()) {
        Err(bad) if bad.kind() != io::ErrorKind::BrokenPipe => {
            Err(Failure::new(SYSTEM, format!("can't write to stdout: {bad}")))
        }
        _ => Ok(ExitCode::SUCCESS),
    }
}

/// Why nothing is shown: nothing is locked, nothing matches, or the user may not see it.
fn why_empty(connection: &mut Connection, args: &LocksArgs) -> Result<String, Failure> {
    let pattern = args.pattern.as_deref();
    let shown = match pattern {
        Some(_) => all(connection, None)?.0.len(),
        None => 0,
    };
    let has_users = login::is_given(&args.service.url);
    let locked = if shown == 0 && has_users { records(connection)? } else { 0 };
    Ok(empty(pattern, shown, locked))
}

/// The same in words: `shown` records would be shown without the pattern; the service says that
/// `locked` are locked, seen or not.
fn empty(pattern: Option<&str>, shown: usize, locked: u64) -> String {
    let are = |count: u64| if count == 1 { "record is" } else { "records are" };
    match (pattern, shown as u64, locked) {
        (_, 0, 0) => "nothing is locked".to_owned(),
        (_, 0, locked) => format!(
            "{locked} {} locked, and this user may see none of them: the right to inspect is \
             missing in the server's file of users",
            are(locked)
        ),
        (pattern, shown, _) => {
            let pattern = pattern.unwrap_or_default();
            let is_plain = !pattern.contains(['*', '?', '[']);
            let hint = match is_plain {
                true => format!(". A pattern is for the whole name: try '{pattern}*'"),
                false => String::new(),
            };
            format!("nothing matches {pattern:?}; {shown} {} locked{hint}", are(shown))
        }
    }
}

/// How many records the service has.
fn records(connection: &mut Connection) -> Result<u64, Failure> {
    let reply = connection.ask(&[b"INFO", b"lockspan"])?;
    let odd = || Failure::new(INTERNAL, format!("INFO has an unknown answer: {reply:?}"));
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
            Failure::new(INTERNAL, format!("LS.LOCKS has an unknown answer: {reply:?}"))
        })?;
        records.extend(part);
        if next == b"0" {
            return Ok((records, Recovery::in_locks(&reply)));
        }
        cursor = next;
    }
}

/// A record as the service tells of it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Locked {
    pub(crate) name: String,
    /// The name as it is, for the service.
    pub(crate) key: Vec<u8>,
    pub(crate) state: String,
    pub(crate) holders: Vec<Claim>,
    pub(crate) waiters: Vec<Claim>,
    /// How many more there are than the service shows.
    pub(crate) more_holders: usize,
    pub(crate) more_waiters: usize,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Claim {
    pub(crate) session: String,
    pub(crate) mode: String,
    pub(crate) token: Option<String>,
    pub(crate) revoked: Option<String>,
    /// How long it has been so, in milliseconds.
    pub(crate) age_ms: u64,
}

pub(crate) fn part_of(reply: &Value) -> Option<(Vec<u8>, Vec<Locked>)> {
    let Value::Array(pair) = reply else { return None };
    // While the service recovers there is one element more.
    let [Value::Bulk(next), Value::Array(records), ..] = &pair[..] else { return None };
    Some((next.to_vec(), records.iter().map(Locked::read).collect::<Option<_>>()?))
}

/// A field of a map, as text.
pub(crate) fn field(map: &Value, name: &str) -> Option<String> {
    match find(map, name)? {
        Value::Int(number) => Some(number.to_string()),
        Value::Bulk(bytes) | Value::Status(bytes) => Some(readable(bytes)),
        _ => None,
    }
}

/// A field that may have any bytes.
pub(crate) fn bytes<'a>(map: &'a Value, name: &str) -> Option<&'a [u8]> {
    match find(map, name)? {
        Value::Bulk(bytes) => Some(bytes),
        _ => None,
    }
}

pub(crate) fn find<'a>(map: &'a Value, name: &str) -> Option<&'a Value> {
    let Value::Map(pairs) = map else { return None };
    let is_it = |key: &Value| matches!(key, Value::Bulk(key) if key == name);
    pairs.iter().find(|(key, _)| is_it(key)).map(|(_, value)| value)
}

impl Locked {
    pub(crate) fn read(value: &Value) -> Option<Self> {
        let claims = |name| match find(value, name)? {
            Value::Array(claims) => claims.iter().map(Claim::read).collect(),
            _ => None,
        };
        let more = |name| field(value, name).map_or(Some(0), |count| count.parse().ok());
        Some(Self {
            name: field(value, "record")?,
            key: bytes(value, "record")?.to_vec(),
            state: field(value, "state")?,
            holders: claims("holders")?,
            waiters: claims("waiters")?,
            more_holders: more("more-holders")?,
            more_waiters: more("more-waiters")?,
        })
    }

    /// Ids and tokens are text: some readers of JSON lose digits above 2^53.
    fn to_json(&self) -> Json {
        let claims = |claims: &[Claim]| claims.iter().map(Claim::to_json).collect::<Vec<_>>();
        let mut shown = json!({
            "record": String::from_utf8_lossy(&self.key),
            "state": self.state,
            "holders": claims(&self.holders),
            "waiters": claims(&self.waiters),
        });
        // JSON has no bytes, and what is not UTF-8 is lossy above.
        if std::str::from_utf8(&self.key).is_err() {
            let hex = self.key.iter().map(|byte| format!("{byte:02x}"));
            shown["record_hex"] = json!(hex.collect::<String>());
        }
        let more = [("more_holders", self.more_holders), ("more_waiters", self.more_waiters)];
        for (name, count) in more.into_iter().filter(|&(_, count)| count > 0) {
            shown[name] = json!(count);
        }
        shown
    }
}

impl Claim {
    fn read(value: &Value) -> Option<Self> {
        Some(Self {
            session: field(value, "session")?,
            mode: field(value, "mode")?,
            token: field(value, "token"),
            revoked: field(value, "revoked"),
            age_ms: field(value, "age-ms").and_then(|age| age.parse().ok()).unwrap_or(0),
        })
    }

    fn to_json(&self) -> Json {
        let mut fields = Map::new();
        let all = [
            ("session", Some(&self.session)),
            ("mode", Some(&self.mode)),
            ("token", self.token.as_ref()),
            ("revoked", self.revoked.as_ref()),
        ];
        for (name, value) in all {
            if let Some(value) = value {
                fields.insert(name.to_owned(), json!(value));
            }
        }
        Json::Object(fields)
    }
}

/// Mode and session of the first few, and how many more there are.
fn short(claims: &[Claim], more: usize) -> String {
    const SHOWN: usize = 3;
    let shown = claims.iter().take(SHOWN).map(|claim| format!("{} {}", claim.mode, claim.session));
    let mut text = shown.collect::<Vec<_>>().join(", ");
    match claims.len() + more {
        0 => text.push('-'),
        many if many > SHOWN => {
            let _ = write!(text, ", {} more", many - SHOWN);
        }
        _ => {}
    }
    text
}

fn table(records: &[Locked]) -> String {
    let head = ["RECORD", "STATE", "TOKEN", "HOLDERS", "WAITERS"].map(str::to_owned);
    let rows = records.iter().map(|record| {
        let token = record.holders.iter().filter_map(|holder| holder.token.clone()).max();
        [
            record.name.clone(),
            record.state.clone(),
            token.unwrap_or_else(|| "-".to_owned()),
            short(&record.holders, record.more_holders),
            short(&record.waiters, record.more_waiters),
        ]
    });
    let rows: Vec<[String; 5]> = std::iter::once(head).chain(rows).collect();
    columns(&rows)
}

/// Cells in columns, two blanks between them; nothing trails.
pub(crate) fn columns<const N: usize>(rows: &[[String; N]]) -> String {
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max();
    let widths: Vec<usize> = (0..N).map(|column| width(column).unwrap_or(0)).collect();
    let line = |row: &[String; N]| {
        let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}"));
        format!("{}\n", cells.collect::<Vec<_>>().join("  ").trim_end())
    };
    rows.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claim(session: u64, mode: &'static str, token: Option<i64>) -> Value {
        let token = token.map(|token| ("token", token.into()));
        Value::map(
            [("session", session.into()), ("seq", 1i64.into()), ("mode", mode.into())]
                .into_iter()
                .chain(token),
        )
    }

    fn answer() -> Value {
        let record = Value::map([
            ("record", "invoice:42".into()),
            ("slot", 1i64.into()),
            ("state", "alone-wanted".into()),
            ("holders", Value::Array(vec![claim(u64::MAX, "W", Some(7))])),
            ("waiters", Value::Array((1..6).map(|id| claim(id, "R", None)).collect())),
        ]);
        Value::Array(vec![Value::bulk("0"), Value::Array(vec![record])])
    }

    #[test]
    fn the_table_shows_who_holds_and_who_waits() {
        let (next, records) = part_of(&answer()).unwrap();
        assert_eq!(next, b"0");
        assert_eq!(
            table(&records),
            "RECORD      STATE         TOKEN  HOLDERS                 WAITERS\n\
             invoice:42  alone-wanted  7      W 18446744073709551615  R 1, R 2, R 3, 2 more\n"
        );
    }

    #[test]
    fn json_keeps_every_digit() {
        let (_, records) = part_of(&answer()).unwrap();
        let json = records[0].to_json();
        assert_eq!(json["record"], "invoice:42");
        assert_eq!(json["holders"][0]["session"], "18446744073709551615");
        assert_eq!(json["holders"][0]["token"], "7");
        assert_eq!(json["waiters"].as_array().map(Vec::len), Some(5));
    }

    #[test]
    fn what_the_service_leaves_out_is_counted() {
        let Value::Array(mut pair) = answer() else { panic!("a list") };
        let Value::Array(records) = &mut pair[1] else { panic!("a list") };
        let Value::Map(fields) = &mut records[0] else { panic!("a map") };
        fields.push((Value::bulk("more-waiters"), Value::Int(1000)));
        let (_, records) = part_of(&Value::Array(pair)).unwrap();
        assert!(table(&records).contains("R 1, R 2, R 3, 1002 more"), "{}", table(&records));
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
        assert!(empty(None, 0, 8).starts_with("8 records are locked, and this user may see none"));
        assert_eq!(empty(Some("x:*"), 1, 0), "nothing matches \"x:*\"; 1 record is locked");
        let plain = empty(Some("order"), 8, 0);
        assert!(
            plain.ends_with(
                "8 records are locked. A pattern is for the whole name: try \
                                 'order*'"
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
