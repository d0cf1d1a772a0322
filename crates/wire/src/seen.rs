//! What people ask beyond the present: what happened to a record, and who waits for whom.

use std::time::Duration;

use lockspan_protocol::server::OwnersView;
use lockspan_protocol::server::watch::{Happening, What};
use lockspan_protocol::{Owner, Record, SessionId, Tick};

use crate::reply::{Public, millis, who};
use crate::value::Value;
use crate::words::mode_word;

/// What happened to a record, the latest first.
#[must_use]
pub fn history(happenings: &[Happening], public: Public<'_>, now: Tick) -> Value {
    Value::Array(happenings.iter().map(|it| happening(it, public, now)).collect())
}

fn happening(it: &Happening, public: Public<'_>, now: Tick) -> Value {
    let mode = |mode| Some(("mode", mode_word(mode).into()));
    let held = |held: Duration| Some(("held-ms", millis(held)));
    let (what, more) = match it.what {
        What::Waits(wanted) => ("waits", [mode(wanted), None, None]),
        What::Granted(got, token) => {
            ("granted", [mode(got), Some(("token", token.number().into())), None])
        }
        What::HandedOver(got, token, waited) => {
            let token = Some(("token", token.number().into()));
            ("handed-over", [mode(got), token, Some(("waited-ms", millis(waited)))])
        }
        What::Revoked(wanted) => ("revoked", [mode(wanted), None, None]),
        What::Kept => ("kept", [None, None, None]),
        What::Retry => ("retry", [None, None, None]),
        What::Released(time) => ("released", [held(time), None, None]),
        What::Left => ("left", [None, None, None]),
        What::Ended(time) => ("ended", [held(time), None, None]),
        What::Deadlock => ("deadlock", [None, None, None]),
    };
    Value::map(
        [("age-ms", millis(now.since(it.at)))]
            .into_iter()
            .chain(who(public(it.session)))
            .chain([("what", what.into())])
            .chain(more.into_iter().flatten()),
    )
}

/// A wait that was refused because it closed a cycle.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Deadlock {
    /// When.
    pub at: Tick,
    /// To whom.
    pub session: SessionId,
    /// What it wanted.
    pub record: Record,
    /// Each waits for the next, the last for the first.
    pub owners: Vec<Owner>,
}

/// Records that are held and wanted, each as [`record`](crate::reply::record) shows it, the owners
/// that are known, and the deadlocks that were refused last.
#[must_use]
pub fn waits(
    records: Vec<Value>,
    owners: &[OwnersView],
    deadlocks: &[Deadlock],
    public: Public<'_>,
    now: Tick,
) -> Value {
    let name = |record: &Record| Value::bulk(record.as_bytes().to_vec());
    let ids = |owners: &[Owner]| Value::Array(owners.iter().map(|it| it.0.into()).collect());
    let owned = |it: &OwnersView| {
        Value::map(who(public(it.session)).chain([
            ("record", name(&it.record)),
            ("waits", Value::Int(it.waits.into())),
            ("owners", ids(&it.owners)),
        ]))
    };
    let deadlock = |it: &Deadlock| {
        Value::map(
            [("age-ms", millis(now.since(it.at)))]
                .into_iter()
                .chain(who(public(it.session)))
                .chain([("record", name(&it.record)), ("owners", ids(&it.owners))]),
        )
    };
    Value::map([
        ("records", Value::Array(records)),
        ("owners", Value::Array(owners.iter().map(owned).collect())),
        ("deadlocks", Value::Array(deadlocks.iter().map(deadlock).collect())),
    ])
}
