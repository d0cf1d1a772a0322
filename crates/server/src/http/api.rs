//! What the page may look at: one function for a question and for its live stream.

use hyper::StatusCode;
use lockspan_protocol::Record;
use lockspan_protocol::server::table::RecordView;
use serde_json::{Value, json};

use super::guard::Refused;
use super::query::Query;
use super::shown::{self, millis};
use super::{Site, graph};
use crate::net::glob;
use crate::service::SessionSeen;

/// Records or sessions of a page, usually and at most.
const USUAL: usize = 50;
const MOST: usize = 200;

/// Holders and waiters of a record in a list; alone it shows more.
const CLAIMS_IN_LIST: usize = 6;
const CLAIMS: usize = 200;

/// Things that happened to a record.
const HISTORY: usize = 100;

/// Places that a search looks at, before it says where to go on.
const PLACES: usize = 2_000_000;

/// What `view` of the query names.
pub(super) async fn view(site: &Site, query: &Query) -> Result<Value, Refused> {
    match query.bytes("view") {
        Some(b"records") => records(site, query).await,
        Some(b"record") => record(site, query),
        Some(b"sessions") => sessions(site, query),
        Some(b"session") => session(site, query),
        Some(b"graph") => Ok(graph::shown(site)),
        _ => {
            let why = "view: say records, record, sessions, session or graph".to_owned();
            Err((StatusCode::BAD_REQUEST, why))
        }
    }
}

async fn records(site: &Site, query: &Query) -> Result<Value, Refused> {
    let service = &site.shared.service;
    let count = query.count(USUAL, MOST)?;
    let pattern = query.bytes("match").map(pattern);
    let liked =
        |record: &Record| pattern.as_ref().is_none_or(|it| glob::fits(it, record.as_bytes()));
    let total = service.stats().records;
    if query.bytes("only") == Some(b"waiting") {
        let mut views = service.wanted(4 * MOST, CLAIMS_IN_LIST);
        views.retain(|view| liked(&view.record));
        views.sort_by_key(|view| std::cmp::Reverse(view.waiters.len() + view.more_waiters));
        views.truncate(count);
        return Ok(list(&views, None, total));
    }
    let mut cursor = Some(query.number("from")?.unwrap_or(0));
    let (mut views, mut looked) = (Vec::new(), 0);
    while let Some(from) = cursor
        && views.len() < count
        && looked < PLACES
    {
        let left = count - views.len();
        let part = service.search(from, left, CLAIMS_IN_LIST, liked);
        looked += part.looked;
        cursor = part.next;
        views.extend(part.views);
        // Others have their turn, the tables' clients first of all.
        tokio::task::yield_now().await;
    }
    Ok(list(&views, cursor, total))
}

fn list(views: &[RecordView], next: Option<u64>, total: u64) -> Value {
    json!({
        "records": views.iter().map(shown::record).collect::<Vec<_>>(),
        "next": next.map(|next| next.to_string()),
        "total": total,
    })
}

/// What a person writes into a search field: a pattern if it has a star or a question mark,
/// otherwise a part of a name.
fn pattern(text: &[u8]) -> Vec<u8> {
    if text.iter().any(|byte| b"*?".contains(byte)) {
        return text.to_vec();
    }
    [b"*", text, b"*"].concat()
}

fn record(site: &Site, query: &Query) -> Result<Value, Refused> {
    let record = query.record()?;
    let service = &site.shared.service;
    let view = service.look(&record, CLAIMS);
    let history = service.history(&record, HISTORY);
    let mut value = view.as_ref().map_or_else(
        || {
            json!({
                "record": shown::readable(record.as_bytes()),
                "key": shown::key(&record),
                "state": "free",
                "holders": [],
                "waiters": [],
                "more_holders": 0,
                "more_waiters": 0,
            })
        },
        shown::record,
    );
    value["slot"] = json!(record.slot().number());
    value["history"] = history.iter().map(shown::happening).collect();
    // How long the present holders can keep it at most, if they are not heard of any more.
    let holders = view.iter().flat_map(|view| &view.holders);
    let ends = holders.filter_map(|claim| service.session_seen(claim.session, 0));
    let ends = ends.take(CLAIMS_IN_LIST * 4);
    value["leases"] = ends
        .map(|(seen, _)| {
            json!({
                "session": seen.view.session.0.to_string(),
                "until": millis(seen.view.until),
                "last": seen.view.last,
                "clients": clients(site, &seen),
            })
        })
        .collect();
    Ok(value)
}

fn sessions(site: &Site, query: &Query) -> Result<Value, Refused> {
    let count = query.count(USUAL, MOST)?;
    let after = query.number("after")?.map(lockspan_protocol::SessionId);
    let service = &site.shared.service;
    let mut seen = service.sessions_seen(after, count + 1);
    let next = (seen.len() > count).then(|| {
        seen.truncate(count);
        seen.last().map(|it| it.view.session.0.to_string())
    });
    Ok(json!({
        "sessions": seen.iter().map(|seen| one_session(site, seen)).collect::<Vec<_>>(),
        "next": next.flatten(),
        "total": service.session_count(),
    }))
}

/// Where a session's connections come from, and what they call themselves: some of them.
fn clients(site: &Site, seen: &SessionSeen) -> Vec<String> {
    let some = seen.connections.iter().take(4);
    some.filter_map(|&id| site.shared.peers.title(id)).collect()
}

fn one_session(site: &Site, seen: &SessionSeen) -> Value {
    json!({
        "session": seen.view.session.0.to_string(),
        "lease": u64::try_from(seen.view.ttl.as_millis()).unwrap_or(u64::MAX),
        "until": millis(seen.view.until),
        "recovers": seen.view.recovers,
        "last": seen.view.last,
        "clients": clients(site, seen),
        "claims": seen.claims,
    })
}

fn session(site: &Site, query: &Query) -> Result<Value, Refused> {
    let id = query.session()?;
    let service = &site.shared.service;
    let Some((seen, claims)) = service.session_seen(id, CLAIMS) else {
        return Ok(json!({ "session": id.0.to_string(), "over": true, "records": [] }));
    };
    let mut value = one_session(site, &seen);
    value["records"] = claims
        .iter()
        .map(|(record, claim)| {
            let mut value = shown::claim(claim);
            value["record"] = json!(shown::readable(record.as_bytes()));
            value["key"] = json!(shown::key(record));
            value
        })
        .collect();
    Ok(value)
}

#[cfg(test)]
mod tests {
    use super::pattern;

    #[test]
    fn a_part_of_a_name_is_enough() {
        assert_eq!(pattern(b"oic"), b"*oic*");
        assert_eq!(pattern(b"inv*"), b"inv*");
        assert_eq!(pattern(b"a?c"), b"a?c");
    }
}
