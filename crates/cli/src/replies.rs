//! What a service tells of its records and sessions: read from replies, and written as JSON.
//!
//! Texts of others (names of records, labels, notes) are kept as [`readable`] writes them, so that
//! every command can print them on a terminal. Ids and tokens are text in JSON: some readers of
//! JSON lose digits above 2^53.

use std::fmt;

use lockspan_server::readable;
use lockspan_wire::Value;
use serde_json::{Map, Value as Json, json};

use crate::turns::waits_for;

/// A session as others see it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Who {
    /// Its public id.
    pub(crate) id: String,
    /// What it calls itself.
    pub(crate) label: Option<String>,
}

impl Who {
    fn read(map: &Value) -> Option<Self> {
        Some(Self { id: field(map, "session")?, label: field(map, "label") })
    }

    /// The label, or the id of a session that has none.
    pub(crate) fn name(&self) -> &str {
        self.label.as_ref().unwrap_or(&self.id)
    }

    /// The label for a column of its own, beside the one with the id.
    pub(crate) fn label(&self) -> &str {
        self.label.as_deref().unwrap_or("-")
    }
}

/// The label with the public id behind it, or the id alone.
impl fmt::Display for Who {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.label {
            Some(label) => write!(f, "{label} ({})", self.id),
            None => f.write_str(&self.id),
        }
    }
}

/// A record as the service tells of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Locked {
    pub(crate) name: String,
    /// The name as it is, for the service.
    pub(crate) key: Vec<u8>,
    pub(crate) state: String,
    pub(crate) holders: Vec<Claim>,
    /// In the order in which their turns come.
    pub(crate) waiters: Vec<Claim>,
    /// How many more there are than the service shows.
    pub(crate) more_holders: usize,
    pub(crate) more_waiters: usize,
}

/// A session that holds a record or waits for it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Claim {
    pub(crate) who: Who,
    /// Which acquire of the session it is.
    pub(crate) seq: String,
    pub(crate) mode: String,
    pub(crate) token: Option<String>,
    pub(crate) revoked: Option<String>,
    /// What the session wants the record for.
    pub(crate) note: Option<String>,
    /// How long it has been so, in milliseconds.
    pub(crate) age_ms: u64,
}

/// A session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Session {
    pub(crate) who: Who,
    pub(crate) user: String,
    pub(crate) lease_ms: u64,
    /// What is left of the lease; none while the service recovers.
    pub(crate) left_ms: Option<u64>,
    pub(crate) connections: u64,
    /// Records that it holds or waits for.
    pub(crate) records: u64,
    /// The service was restarted and waits for it to come back.
    pub(crate) recovers: bool,
    /// It is not renewed any more.
    pub(crate) ends: bool,
}

/// What happened to a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Happened {
    pub(crate) age_ms: u64,
    pub(crate) who: Who,
    pub(crate) what: String,
    pub(crate) mode: Option<String>,
    pub(crate) token: Option<String>,
    pub(crate) waited_ms: Option<u64>,
    pub(crate) held_ms: Option<u64>,
}

/// Who waits for whom.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Waits {
    /// Records that are held and wanted.
    pub(crate) records: Vec<Locked>,
    /// What is known of owners, for the detection of deadlocks.
    pub(crate) owners: Vec<Owned>,
    pub(crate) deadlocks: Vec<Deadlock>,
}

/// The owners for which a session holds a record or waits for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Owned {
    pub(crate) who: Who,
    pub(crate) record: Name,
    pub(crate) waits: bool,
    pub(crate) owners: Vec<String>,
}

/// A wait that was refused because it would have closed a deadlock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Deadlock {
    pub(crate) age_ms: u64,
    pub(crate) who: Who,
    pub(crate) record: Name,
    pub(crate) owners: Vec<String>,
}

/// The name of a record: its bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Name(pub(crate) Vec<u8>);

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&readable(&self.0))
    }
}

impl Name {
    /// JSON has no bytes: what is not UTF-8 is lossy in `record`, and whole in `record_hex`.
    fn put(&self, shown: &mut Json) {
        shown["record"] = json!(String::from_utf8_lossy(&self.0));
        if std::str::from_utf8(&self.0).is_err() {
            let hex = self.0.iter().map(|byte| format!("{byte:02x}"));
            shown["record_hex"] = json!(hex.collect::<String>());
        }
    }
}

/// A part of the reply of `LS.LOCKS`: where to go on, and records.
pub(crate) fn part_of(reply: &Value) -> Option<(Vec<u8>, Vec<Locked>)> {
    let Value::Array(pair) = reply else { return None };
    // While the service recovers there is one element more.
    let [Value::Bulk(next), Value::Array(records), ..] = &pair[..] else { return None };
    Some((next.to_vec(), records.iter().map(Locked::read).collect::<Option<_>>()?))
}

/// The reply of `LS.SESSIONS`.
pub(crate) fn sessions(reply: &Value) -> Option<Vec<Session>> {
    let Value::Array(all) = reply else { return None };
    let one = |map| {
        Some(Session {
            who: Who::read(map)?,
            user: field(map, "user").unwrap_or_default(),
            lease_ms: number(map, "lease-ms")?,
            left_ms: number(map, "left-ms"),
            connections: number(map, "connections")?,
            records: number(map, "records")?,
            recovers: number(map, "recovers").is_some(),
            ends: number(map, "ends").is_some(),
        })
    };
    all.iter().map(one).collect()
}

/// The reply of `LS.HISTORY`, the latest first.
pub(crate) fn happenings(reply: &Value) -> Option<Vec<Happened>> {
    let Value::Array(all) = reply else { return None };
    let one = |map| {
        Some(Happened {
            age_ms: number(map, "age-ms")?,
            who: Who::read(map)?,
            what: field(map, "what")?,
            mode: field(map, "mode"),
            token: field(map, "token"),
            waited_ms: number(map, "waited-ms"),
            held_ms: number(map, "held-ms"),
        })
    };
    all.iter().map(one).collect()
}

/// The reply of `LS.WAITS`.
pub(crate) fn waits(reply: &Value) -> Option<Waits> {
    let list = |name| match find(reply, name)? {
        Value::Array(list) => Some(list),
        _ => None,
    };
    let name = |map| Some(Name(bytes(map, "record")?.to_vec()));
    let owned = |map| {
        Some(Owned {
            who: Who::read(map)?,
            record: name(map)?,
            waits: number(map, "waits")? != 0,
            owners: owners(map)?,
        })
    };
    let deadlock = |map| {
        Some(Deadlock {
            age_ms: number(map, "age-ms")?,
            who: Who::read(map)?,
            record: name(map)?,
            owners: owners(map)?,
        })
    };
    Some(Waits {
        records: list("records")?.iter().map(Locked::read).collect::<Option<_>>()?,
        owners: list("owners")?.iter().map(owned).collect::<Option<_>>()?,
        deadlocks: list("deadlocks")?.iter().map(deadlock).collect::<Option<_>>()?,
    })
}

fn owners(map: &Value) -> Option<Vec<String>> {
    let Value::Array(owners) = find(map, "owners")? else { return None };
    let owner = |value: &Value| match value {
        Value::Int(number) => Some(number.to_string()),
        Value::Bulk(digits) => Some(readable(digits)),
        _ => None,
    };
    owners.iter().map(owner).collect()
}

/// A field of a map, as text.
pub(crate) fn field(map: &Value, name: &str) -> Option<String> {
    match find(map, name)? {
        Value::Int(number) => Some(number.to_string()),
        Value::Bulk(bytes) | Value::Status(bytes) => Some(readable(bytes)),
        _ => None,
    }
}

fn number(map: &Value, name: &str) -> Option<u64> {
    field(map, name)?.parse().ok()
}

/// A field that may have any bytes.
fn bytes<'a>(map: &'a Value, name: &str) -> Option<&'a [u8]> {
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

/// An object of those fields that there are.
fn object<const N: usize>(fields: [(&str, Option<Json>); N]) -> Json {
    let there = fields.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?)));
    Json::Object(there.collect::<Map<_, _>>())
}

fn text(value: Option<&String>) -> Option<Json> {
    value.map(|value| json!(value))
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

    pub(crate) fn to_json(&self) -> Json {
        let holders: Vec<_> = self.holders.iter().map(|claim| claim.to_json(None)).collect();
        let waiter = |(at, claim): (usize, &Claim)| {
            let mut waiter = claim.to_json(Some(at + 1));
            let ids = waits_for(self, at).into_iter().map(|it| json!(it.who.id));
            waiter["waits_for"] = ids.collect();
            waiter
        };
        let waiters: Vec<_> = self.waiters.iter().enumerate().map(waiter).collect();
        let mut shown = json!({});
        Name(self.key.clone()).put(&mut shown);
        shown["state"] = json!(self.state);
        shown["holders"] = json!(holders);
        shown["waiters"] = json!(waiters);
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
            who: Who::read(value)?,
            seq: field(value, "seq").unwrap_or_default(),
            mode: field(value, "mode")?,
            token: field(value, "token"),
            revoked: field(value, "revoked"),
            note: field(value, "note"),
            age_ms: number(value, "age-ms").unwrap_or(0),
        })
    }

    /// A waiter has a place: 1 if its turn comes next.
    pub(crate) fn to_json(&self, place: Option<usize>) -> Json {
        object([
            ("session", Some(json!(self.who.id))),
            ("label", text(self.who.label.as_ref())),
            ("mode", Some(json!(self.mode))),
            ("token", text(self.token.as_ref())),
            ("revoked", text(self.revoked.as_ref())),
            ("note", text(self.note.as_ref())),
            ("age_ms", Some(json!(self.age_ms))),
            ("place", place.map(|place| json!(place))),
        ])
    }
}

impl Session {
    /// Whether the session goes on.
    pub(crate) fn state(&self) -> &'static str {
        match (self.ends, self.recovers) {
            (true, _) => "ending",
            (_, true) => "recovering",
            _ => "open",
        }
    }

    pub(crate) fn to_json(&self) -> Json {
        object([
            ("session", Some(json!(self.who.id))),
            ("label", text(self.who.label.as_ref())),
            ("user", (!self.user.is_empty()).then(|| json!(self.user))),
            ("records", Some(json!(self.records))),
            ("connections", Some(json!(self.connections))),
            ("lease_ms", Some(json!(self.lease_ms))),
            ("left_ms", self.left_ms.map(|left| json!(left))),
            ("state", Some(json!(self.state()))),
        ])
    }
}

impl Happened {
    pub(crate) fn to_json(&self) -> Json {
        object([
            ("age_ms", Some(json!(self.age_ms))),
            ("what", Some(json!(self.what))),
            ("session", Some(json!(self.who.id))),
            ("label", text(self.who.label.as_ref())),
            ("mode", text(self.mode.as_ref())),
            ("token", text(self.token.as_ref())),
            ("waited_ms", self.waited_ms.map(|waited| json!(waited))),
            ("held_ms", self.held_ms.map(|held| json!(held))),
        ])
    }
}

impl Waits {
    pub(crate) fn to_json(&self) -> Json {
        let records: Vec<_> = self.records.iter().map(Locked::to_json).collect();
        let owned = |it: &Owned| {
            let mut shown = object([
                ("session", Some(json!(it.who.id))),
                ("label", text(it.who.label.as_ref())),
                ("waits", Some(json!(it.waits))),
                ("owners", Some(json!(it.owners))),
            ]);
            it.record.put(&mut shown);
            shown
        };
        let deadlock = |it: &Deadlock| {
            let mut shown = object([
                ("age_ms", Some(json!(it.age_ms))),
                ("session", Some(json!(it.who.id))),
                ("label", text(it.who.label.as_ref())),
                ("owners", Some(json!(it.owners))),
            ]);
            it.record.put(&mut shown);
            shown
        };
        let owners: Vec<_> = self.owners.iter().map(owned).collect();
        let deadlocks: Vec<_> = self.deadlocks.iter().map(deadlock).collect();
        json!({ "records": records, "owners": owners, "deadlocks": deadlocks })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_happened_is_read() {
        let happened = Value::map([
            ("age-ms", Value::Int(1500)),
            ("session", "s0123456789ab".into()),
            ("label", Value::bulk("a@b[1]\x1b[2J")),
            ("what", "handed-over".into()),
            ("mode", "W".into()),
            ("token", u64::MAX.into()),
            ("waited-ms", Value::Int(20)),
        ]);
        let read = happenings(&Value::Array(vec![happened])).unwrap();
        assert_eq!(read[0].who.to_string(), r"a@b[1]\x1b[2J (s0123456789ab)");
        let json = read[0].to_json();
        assert_eq!(
            (&json["token"], &json["waited_ms"]),
            (&json!(u64::MAX.to_string()), &json!(20))
        );
        assert_eq!(json.get("held_ms"), None);
        assert_eq!(happenings(&Value::Null), None);
        assert_eq!(happenings(&Value::Array(vec![Value::Null])), None);
    }

    #[test]
    fn who_waits_for_whom_is_read() {
        let owners = Value::Array(vec![Value::Int(1), u64::MAX.into()]);
        let deadlock = Value::map([
            ("age-ms", Value::Int(5)),
            ("session", "s1".into()),
            ("record", "a:1".into()),
            ("owners", owners.clone()),
        ]);
        let owned = Value::map([
            ("session", "s1".into()),
            ("record", Value::bulk(&b"a:\xff"[..])),
            ("waits", Value::Int(1)),
            ("owners", owners),
        ]);
        let reply = Value::map([
            ("records", Value::Array(Vec::new())),
            ("owners", Value::Array(vec![owned])),
            ("deadlocks", Value::Array(vec![deadlock])),
        ]);
        let read = waits(&reply).unwrap();
        assert!(read.records.is_empty() && read.owners[0].waits);
        assert_eq!(read.deadlocks[0].owners, ["1".to_owned(), u64::MAX.to_string()]);
        let json = read.to_json();
        assert_eq!(json["deadlocks"][0]["record"], "a:1");
        assert_eq!(json["owners"][0]["record_hex"], "613aff");
        for odd in [Value::Null, Value::Array(vec![Value::Null])] {
            assert_eq!(waits(&odd), None);
        }
    }

    #[test]
    fn sessions_are_read_with_what_is_known_of_them() {
        let session = |more: Vec<(&'static str, Value)>| {
            let fields = [
                ("session", "s0123456789ab".into()),
                ("lease-ms", Value::Int(10_000)),
                ("left-ms", Value::Null),
                ("connections", Value::Int(1)),
                ("records", Value::Int(2)),
            ];
            Value::map(fields.into_iter().chain(more))
        };
        let reply = Value::Array(vec![
            session(vec![("label", "a@b[1]".into()), ("ends", Value::Int(1))]),
            session(vec![("user", "ann".into()), ("recovers", Value::Int(1))]),
        ]);
        let read = sessions(&reply).unwrap();
        assert_eq!((read[0].who.name(), read[0].state()), ("a@b[1]", "ending"));
        assert_eq!((read[1].who.name(), read[1].state()), ("s0123456789ab", "recovering"));
        let json = read[1].to_json();
        assert_eq!(
            (&json["user"], json.get("label"), json.get("left_ms")),
            (&json!("ann"), None, None)
        );
        assert_eq!(sessions(&Value::Null), None);
    }
}
