//! Records and sessions as the page gets them. Ids and tokens are text, since a browser's numbers
//! lose digits above 2^53. Times are milliseconds on the server's clock, so that what has not
//! changed looks the same a second later.

use lockspan_protocol::server::table::{ClaimView, RecordState, RecordView};
use lockspan_protocol::server::watch::{Happening, What};
use lockspan_protocol::{Annotation, Mode, Record, Tick};
use percent_encoding::{NON_ALPHANUMERIC, percent_encode};
use serde_json::{Value, json};

pub(super) use crate::readable::readable;
use crate::service::Service;

/// A record's name as it stands in an address.
pub(super) fn key(record: &Record) -> String {
    percent_encode(record.as_bytes(), NON_ALPHANUMERIC).to_string()
}

pub(super) fn millis(at: Tick) -> u64 {
    at.0 / 1000
}

pub(super) fn mode(mode: Mode) -> &'static str {
    if mode == Mode::Write { "write" } else { "read" }
}

fn state(state: RecordState) -> &'static str {
    match state {
        RecordState::Free => "free",
        RecordState::Shared => "shared",
        RecordState::SharedWanted => "shared, wanted",
        RecordState::Alone => "alone",
        RecordState::AloneWanted => "alone, wanted",
        RecordState::Reserved => "reserved",
        RecordState::Recovering => "recovering",
    }
}

pub(super) fn claim(service: &Service, claim: &ClaimView) -> Value {
    let who = service.who(claim.session);
    json!({
        "session": who.id.to_string(),
        "label": who.label.as_ref().map(Annotation::as_str),
        "note": claim.note.as_ref().map(Annotation::as_str),
        "mode": mode(claim.mode),
        "token": claim.token.map(|token| token.number().to_string()),
        "revoked": claim.revoked.map(mode),
        "since": millis(claim.since),
        "holds": claim.ticket.is_none(),
    })
}

pub(super) fn record(service: &Service, view: &RecordView) -> Value {
    let claim = |it: &ClaimView| claim(service, it);
    let claims = |claims: &[ClaimView]| claims.iter().map(claim).collect::<Vec<_>>();
    json!({
        "record": readable(view.record.as_bytes()),
        "key": key(&view.record),
        "state": state(view.state),
        "holders": claims(&view.holders),
        "waiters": claims(&view.waiters),
        "more_holders": view.more_holders,
        "more_waiters": view.more_waiters,
    })
}

pub(super) fn happening(service: &Service, it: &Happening) -> Value {
    let (what, data) = match it.what {
        What::Waits(wanted) => ("waits", json!({ "mode": mode(wanted) })),
        What::Granted(held, token) => {
            ("granted", json!({ "mode": mode(held), "token": token.number().to_string() }))
        }
        What::HandedOver(held, token, waited) => (
            "granted after a wait",
            json!({
                "mode": mode(held),
                "token": token.number().to_string(),
                "waited": waited.as_secs_f64(),
            }),
        ),
        What::Revoked(wanted) => ("asked to release", json!({ "mode": mode(wanted) })),
        What::Kept => ("no longer wanted", json!({})),
        What::Retry => ("told to retry", json!({})),
        What::Released(held) => ("released", json!({ "held": held.as_secs_f64() })),
        What::Left => ("stopped waiting", json!({})),
        What::Ended(held) => ("ended with its session", json!({ "held": held.as_secs_f64() })),
        What::Deadlock => ("refused: deadlock", json!({})),
    };
    let who = service.who(it.session);
    json!({
        "at": it.at.0,
        "session": who.id.to_string(),
        "label": who.label.as_ref().map(Annotation::as_str),
        "what": what,
        "data": data,
    })
}
