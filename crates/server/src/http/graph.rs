//! Who waits for whom: records that are held and wanted, owners as far as they are named, and the
//! circles that were refused.

use lockspan_protocol::Annotation;
use serde_json::{Value, json};

use super::Site;
use super::shown::{self, millis};

/// What a drawing can show.
const RECORDS: usize = 40;
const CLAIMS: usize = 12;
const OWNERS: usize = 200;

pub(super) fn shown(site: &Site) -> Value {
    let service = &site.shared.service;
    let records = service.wanted(RECORDS, CLAIMS, |_| true);
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
    let circles = service.circles();
    let circles = circles.iter().map(|it| {
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
        "records": records.iter().map(|it| shown::record(service, it)).collect::<Vec<_>>(),
        "owners": owners.collect::<Vec<_>>(),
        "circles": circles.collect::<Vec<_>>(),
    })
}
