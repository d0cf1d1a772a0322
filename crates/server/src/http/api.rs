//! What the page may look at: one function for a question and for its live stream.

use std::time::Duration;

use hyper::StatusCode;
use lockspan_protocol::{Annotation, Record};
use serde_json::{Value, json};
use tokio::sync::SemaphorePermit;

use super::guard::Refused;
use super::query::Query;
use super::shown::{self, millis};
use super::{Site, graph, records};
use crate::net::glob::Pattern;
use crate::service::SessionSeen;

/// Records or sessions of a page: the default and the maximum.
pub(super) const USUAL: usize = 50;
pub(super) const MOST: usize = 200;

/// Sessions that are looked at while the registry is locked.
const SESSIONS: usize = 250;

/// Holders and waiters of one record.
const CLAIMS: usize = 200;

/// Holders of one record whose leases are shown.
const LEASES: usize = 24;

/// Things that happened to a record.
const HISTORY: usize = 100;

/// The pause between two looks at a table. A table's lock goes to the thread that takes it first,
/// and a thread that waits for it takes some time to wake up: without a pause the page would take
/// the lock again, many times over.
pub(super) const PAUSE: Duration = Duration::from_millis(1);

/// What `view` of the query names, for somebody who has logged in or has not.
pub(super) async fn view(site: &Site, query: &Query, is_login: bool) -> Result<Value, Refused> {
    match query.bytes("view") {
        Some(b"records") => records::shown(site, query, is_login).await,
        Some(b"record") => record(site, query).await,
        Some(b"sessions") => sessions(site, query, is_login).await,
        Some(b"session") => session(site, query),
        Some(b"graph") => Ok(graph::shown(site, is_login).await),
        _ => {
            let why = "view: must be records, record, sessions, session or graph".to_owned();
            Err((StatusCode::BAD_REQUEST, why))
        }
    }
}

/// A turn for a look at all records or sessions. There is one at a time for requests with a login
/// and one for those without, so that operators do not wait for anybody else.
pub(super) async fn turn(site: &Site, is_login: bool) -> Option<SemaphorePermit<'_>> {
    let turns = if is_login { &site.operator_searches } else { &site.searches };
    turns.acquire().await.ok()
}

/// What a person writes into a search field: a pattern if it has a star, a question mark or a
/// bracket, otherwise a part of a name.
pub(super) fn pattern(query: &Query) -> Result<Option<Vec<u8>>, Refused> {
    let Some(text) = query.bytes("match") else { return Ok(None) };
    if text.len() > Record::LEN_MAX {
        let (said, most) = (text.len(), Record::LEN_MAX);
        let why = format!("match: it has {said} bytes, and the maximum is {most}");
        return Err((StatusCode::BAD_REQUEST, why));
    }
    if text.iter().any(|byte| b"*?[".contains(byte)) {
        return Ok(Some(text.to_vec()));
    }
    let part = text.iter().flat_map(|&byte| match byte {
        b'\\' => vec![b'\\', byte],
        _ => vec![byte],
    });
    Ok(Some([b'*'].into_iter().chain(part).chain([b'*']).collect()))
}

async fn record(site: &Site, query: &Query) -> Result<Value, Refused> {
    let record = query.record()?;
    let service = &site.shared.service;
    let view = service.look(&record, CLAIMS);
    let (mut history, mut before) = (Vec::new(), Some(u64::MAX));
    while let Some(from) = before {
        before = service.history_part(&record, from, HISTORY, &mut history);
        if before.is_some() {
            tokio::time::sleep(PAUSE).await;
        }
    }
    let mut value = view.as_ref().map_or_else(
        || {
            json!({
                "record": shown::readable(record.as_bytes()),
                "key": shown::key(&record),
                "state": if service.recovers(&record) { "recovering" } else { "free" },
                "holders": [],
                "waiters": [],
                "more_holders": 0,
                "more_waiters": 0,
            })
        },
        |view| shown::record(service, view),
    );
    value["slot"] = json!(record.slot().number());
    value["history"] = history.iter().map(|it| shown::happening(service, it)).collect();
    // How long the present holders can keep it at most, if they are not heard of any more.
    let holders = view.iter().flat_map(|view| &view.holders);
    let ends = holders.filter_map(|claim| service.session_seen(claim.session, 0));
    let ends = ends.take(LEASES);
    value["leases"] = ends
        .map(|(seen, _)| {
            json!({
                "session": seen.id.to_string(),
                "label": seen.label.as_ref().map(Annotation::as_str),
                "until": millis(seen.view.until),
                "last": seen.view.last,
                "clients": clients(site, &seen),
            })
        })
        .collect();
    Ok(value)
}

async fn sessions(site: &Site, query: &Query, is_login: bool) -> Result<Value, Refused> {
    let count = query.count(USUAL, MOST)?;
    let mut after = query.public("after")?;
    let pattern = pattern(query)?.map(|it| Pattern::new(&it));
    let service = &site.shared.service;
    let mut seen = Vec::new();
    let _turn = match &pattern {
        Some(_) => turn(site, is_login).await,
        None => None,
    };
    loop {
        // One more than are shown tells whether there are more.
        let wanted = if pattern.is_some() { SESSIONS } else { count + 1 };
        let part = service.sessions_seen(after, wanted);
        let is_last = part.len() < wanted;
        after = part.last().map(|it| it.id);
        seen.extend(part.into_iter().filter(|it| is_liked(site, it, pattern.as_ref())));
        if is_last || seen.len() > count {
            break;
        }
        tokio::time::sleep(PAUSE).await;
    }
    let next = (seen.len() > count).then(|| {
        seen.truncate(count);
        seen.last().map(|it| it.id.to_string())
    });
    for one in &mut seen {
        one.claims = service.claims_of(one.view.session, 0).0;
    }
    Ok(json!({
        "sessions": seen.iter().map(|seen| one_session(site, seen)).collect::<Vec<_>>(),
        "next": next.flatten(),
        "total": service.session_count(),
    }))
}

/// Where a session's connections come from, and what they call themselves: some of them.
pub(super) fn clients(site: &Site, seen: &SessionSeen) -> Vec<String> {
    let some = seen.connections.iter().take(4);
    some.filter_map(|&id| site.shared.peers.title(id)).collect()
}

/// Sessions are found by their ids, their labels, their users and their clients.
fn is_liked(site: &Site, seen: &SessionSeen, pattern: Option<&Pattern>) -> bool {
    pattern.is_none_or(|pattern| {
        let fits = |text: &str| pattern.fits(text.as_bytes());
        fits(&seen.id.to_string())
            || seen.label.as_ref().is_some_and(|label| fits(label.as_str()))
            || seen.user.as_deref().is_some_and(fits)
            || clients(site, seen).iter().any(|client| fits(client))
    })
}

fn one_session(site: &Site, seen: &SessionSeen) -> Value {
    json!({
        "session": seen.id.to_string(),
        "label": seen.label.as_ref().map(Annotation::as_str),
        "lease": u64::try_from(seen.view.ttl.as_millis()).unwrap_or(u64::MAX),
        "until": millis(seen.view.until),
        "recovers": seen.view.recovers,
        "last": seen.view.last,
        "clients": clients(site, seen),
        "user": seen.user.as_deref(),
        "claims": seen.claims,
    })
}

fn session(site: &Site, query: &Query) -> Result<Value, Refused> {
    let id = query.session()?;
    let service = &site.shared.service;
    let found = service.session_of(id).ok();
    let Some((seen, claims)) = found.and_then(|it| service.session_seen(it, CLAIMS)) else {
        return Ok(json!({ "session": id.to_string(), "over": true, "records": [] }));
    };
    let mut value = one_session(site, &seen);
    value["records"] = claims
        .iter()
        .map(|(record, claim)| {
            let mut value = shown::claim(service, claim);
            value["record"] = json!(shown::readable(record.as_bytes()));
            value["key"] = json!(shown::key(record));
            value
        })
        .collect();
    Ok(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_of_a_name_is_enough() {
        for (text, expected) in [
            ("match=oic", &b"*oic*"[..]),
            ("match=inv*", b"inv*"),
            ("match=a%3fc", b"a?c"),
            ("match=%ff", b"*\xff*"),
            ("match=%5b0-9%5d", b"[0-9]"),
            ("match=a%5cb", b"*a\\\\b*"),
        ] {
            assert_eq!(pattern(&Query::read(Some(text))).unwrap().unwrap(), expected);
        }
        assert_eq!(pattern(&Query::read(Some("match="))), Ok(None));
        let long = format!("match={}", "x".repeat(513));
        assert!(pattern(&Query::read(Some(&long))).unwrap_err().1.contains("513 bytes"));
    }
}
