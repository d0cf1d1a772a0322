//! What blocks what: the records with the most waiters, the owners that were named, and the
//! deadlocks that were refused.

use lockspan_protocol::Annotation;
use serde_json::{Value, json};

use super::Site;
use super::records::sorted;
use super::shown::{self, millis};
use crate::service::{Order, Ranking};

/// Records that a drawing can show, holders and waiters of each, and owners.
const RECORDS: usize = 40;
const CLAIMS: usize = 12;
const OWNERS: usize = 200;

pub(super) async fn shown(site: &Site, is_login: bool) -> Value {
    let service = &site.shared.service;
    let wanted = sorted(site, Ranking::new(Order::Waiters, None, true), is_login).await;
    let names = wanted.records.iter().take(RECORDS);
    // A waiter may have got the record since.
    let views = names.filter_map(|record| service.look(record, 2 * CLAIMS));
    let views = views.filter(|view| !view.waiters.is_empty());
    let records: Vec<_> = views.map(|view| shown::record(service, &view.cut(CLAIMS))).collect();
    let owners = service.owners(OWNERS, |_| true);
    let owners = owners.iter().map(|it| {
        let ids: Vec<_> = it.owners.iter().map(|owner| owner.0.to_string()).collect();
        let who = service.who(it.session);
        json!({
            "session": who.id.to_string(),
            "label": who.label.as_ref().map(Annotation::as_str),
            "record": shown::readable(it.record.as_bytes()),
            "waits": it.waits,
            "owners": ids,
        })
    });
    let deadlocks = service.deadlocks();
    let deadlocks = deadlocks.iter().map(|it| {
        let ids: Vec<_> = it.owners.iter().map(|owner| owner.0.to_string()).collect();
        let who = service.who(it.session);
        json!({
            "at": millis(it.at),
            "session": who.id.to_string(),
            "label": who.label.as_ref().map(Annotation::as_str),
            "record": shown::readable(it.record.as_bytes()),
            "key": shown::key(&it.record),
            "owners": ids,
        })
    });
    json!({
        "records": records,
        "found": wanted.found,
        "owners": owners.collect::<Vec<_>>(),
        "deadlocks": deadlocks.collect::<Vec<_>>(),
    })
}
