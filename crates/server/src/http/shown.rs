//! Records and sessions as the page gets them. Ids and tokens are text, since a browser's numbers
//! lose digits above 2^53. Times are milliseconds on the server's clock, so that what has not
//! changed looks the same a second later.

use lockspan_protocol::server::table::{ClaimView, RecordState, RecordView};
use lockspan_protocol::server::watch::{Happening, What};
use lockspan_protocol::{Mode, Record, Tick};
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
    json!({
        "session": service.public(claim.session).to_string(),
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
        "waiters": in_turn(view).into_iter().map(claim).collect::<Vec<_>>(),
        "more_holders": view.more_holders,
        "more_waiters": view.more_waiters,
    })
}

/// Those who wait, in the order in which they will be served as things are: after a writer all
/// readers, after readers one writer. Of a line that is not shown whole that is not known.
fn in_turn(view: &RecordView) -> Vec<&ClaimView> {
    let is_reader = |it: &&ClaimView| it.mode == Mode::Read;
    let (readers, mut writers): (Vec<_>, Vec<_>) = view.waiters.iter().partition(is_reader);
    let has_readers = view.holders.first().is_some_and(|it| it.mode == Mode::Read);
    if view.more_waiters > 0 {
        return view.waiters.iter().collect();
    }
    let later = writers.split_off(writers.len().min(usize::from(has_readers)));
    writers.into_iter().chain(readers).chain(later).collect()
}

pub(super) fn happening(service: &Service, it: &Happening) -> Value {
    let (what, data) = match it.what {
        What::Waits(wanted) => ("waits", json!({ "mode": mode(wanted) })),
        What::Granted(held, token) => {
            ("granted", json!({ "mode": mode(held), "token": token.number().to_string() }))
        }
        What::HandedOver(held, token, waited) => (
            "handed over",
            json!({
                "mode": mode(held),
                "token": token.number().to_string(),
                "waited": waited.as_secs_f64(),
            }),
        ),
        What::Revoked(wanted) => ("revoked", json!({ "mode": mode(wanted) })),
        What::Kept => ("wanted no more", json!({})),
        What::Retry => ("told to retry", json!({})),
        What::Released(held) => ("released", json!({ "held": held.as_secs_f64() })),
        What::Left => ("left the line", json!({})),
        What::Ended(held) => ("ended with its session", json!({ "held": held.as_secs_f64() })),
        What::Deadlock => ("refused: deadlock", json!({})),
    };
    json!({
        "at": it.at.0,
        "session": service.public(it.session).to_string(),
        "what": what,
        "data": data,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use lockspan_protocol::{Seq, SessionId};

    fn claim(session: u64, mode: Mode) -> ClaimView {
        let (session, seq, since) = (SessionId(session), Seq(1), Tick::ZERO);
        ClaimView { session, mode, seq, token: None, ticket: None, revoked: None, since }
    }

    #[test]
    fn who_waits_is_in_the_order_of_turns() {
        let (read, write) = (Mode::Read, Mode::Write);
        let line = |held: Mode| {
            let view = RecordView {
                record: Record::new("a", "1").unwrap(),
                state: RecordState::SharedWanted,
                holders: vec![claim(9, held)],
                waiters: vec![claim(1, write), claim(2, write), claim(3, read), claim(4, read)],
                more_holders: 0,
                more_waiters: 0,
            };
            in_turn(&view).iter().map(|it| it.session.0).collect::<Vec<_>>()
        };
        assert_eq!(line(write), [3, 4, 1, 2]);
        assert_eq!(line(read), [1, 3, 4, 2]);
    }
}
