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
use crate::recovery::Recovery;
use crate::resp::Connection;
use crate::service;

/// Records of one answer; a greater one would hold up others.
const PART: &[u8] = b"256";

/// Shows them.
pub(crate) fn main(args: &LocksArgs) -> Result<ExitCode, Failure> {
    let mut records = match Connection::open(&args.service.url)? {
        Some(mut connection) => {
            // Nobody has said which service it should be.
            if args.service.url == local::URL {
                say(format!("at {}", service::name(&args.service.url)));
            }
            all(&mut connection, args.pattern.as_deref())?
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

fn all(connection: &mut Connection, pattern: Option<&str>) -> Result<Vec<Locked>, Failure> {
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
            // More may be held than is known yet.
            if let Some(recovery) = Recovery::in_locks(&reply) {
                say(recovery);
            }
            return Ok(records);
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
            "record": self.name,
            "state": self.state,
            "holders": claims(&self.holders),
            "waiters": claims(&self.waiters),
        });
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
    fn an_answer_that_makes_no_sense_is_no_answer() {
        for odd in [Value::Null, Value::Array(vec![]), Value::Array(vec![Value::Null; 2])] {
            assert_eq!(part_of(&odd), None);
        }
    }
}
