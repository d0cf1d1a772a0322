//! The list of records: sorted, searched, one page of it at a time.

use hyper::StatusCode;
use lockspan_protocol::Record;
use serde_json::{Value, json};

use super::guard::Refused;
use super::query::Query;
use super::{Site, api, shown};
use crate::net::glob::Pattern;
use crate::service::{DEEPEST, Order, Ranking};

/// Holders and waiters of each record in the list.
const CLAIMS: usize = 6;

/// Looks at the tables for one list: up to a thousand names each, fewer if the pattern is long.
const LOOKS: usize = 5000;

/// The first records of an order.
#[derive(Debug)]
pub(super) struct Sorted {
    pub(super) records: Vec<Record>,
    /// How many match, shown or not.
    pub(super) found: usize,
    /// Not all records could be looked at.
    pub(super) is_part: bool,
}

/// The records that match, in their order.
pub(super) async fn sorted(site: &Site, mut ranking: Ranking, is_login: bool) -> Sorted {
    let _turn = api::turn(site, is_login).await;
    let mut looks = 1;
    while site.shared.service.rank(&mut ranking) {
        if looks == LOOKS {
            let (records, found) = ranking.seen();
            return Sorted { records, found, is_part: true };
        }
        looks += 1;
        tokio::time::sleep(api::PAUSE).await;
    }
    let (records, found) = ranking.seen();
    Sorted { records, found, is_part: false }
}

/// One page of the list.
pub(super) async fn shown(site: &Site, query: &Query, is_login: bool) -> Result<Value, Refused> {
    let service = &site.shared.service;
    let count = query.count(api::USUAL, api::MOST)?;
    let before = (page(query, count)? - 1) * count;
    let pattern = api::pattern(query)?.map(|it| Pattern::new(&it));
    let only_wanted = match query.bytes("only") {
        None => false,
        Some(b"waiting") => true,
        Some(other) => return Err(unknown("only", other, "waiting")),
    };
    let ranking = Ranking::new(order(query)?, pattern, only_wanted);
    let all = sorted(site, ranking, is_login).await;
    let names = all.records.iter().skip(before).take(count);
    // A record may have been released since.
    let views = names.filter_map(|record| service.look(record, 2 * CLAIMS));
    let records: Vec<_> = views.map(|it| shown::record(service, &it.cut(CLAIMS))).collect();
    Ok(json!({
        "records": records,
        "found": all.found,
        "part": all.is_part,
        "pages": all.records.len().div_ceil(count).max(1),
        "total": service.stats().records,
    }))
}

fn order(query: &Query) -> Result<Order, Refused> {
    match query.bytes("sort") {
        None | Some(b"waiters") => Ok(Order::Waiters),
        Some(b"age") => Ok(Order::Age),
        Some(b"name") => Ok(Order::Name),
        Some(other) => Err(unknown("sort", other, "waiters, age or name")),
    }
}

/// The number of the page that is asked for, from 1 on.
fn page(query: &Query, count: usize) -> Result<usize, Refused> {
    let page = query.number("page")?.unwrap_or(1);
    let last = DEEPEST / count;
    usize::try_from(page).ok().filter(|page| (1..=last).contains(page)).ok_or_else(|| {
        let why = format!(
            "page: {page} is not between 1 and {last}; search for a part of the name instead"
        );
        (StatusCode::BAD_REQUEST, why)
    })
}

fn unknown(name: &str, said: &[u8], known: &str) -> Refused {
    let why = format!("{name}: {:?} must be {known}", String::from_utf8_lossy(said));
    (StatusCode::BAD_REQUEST, why)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_or_page_that_does_not_exist_is_refused() {
        let said = |bad: Refused| {
            assert_eq!(bad.0, StatusCode::BAD_REQUEST);
            bad.1
        };
        let of = |text: &str| Query::read(Some(text));
        assert_eq!(order(&of("")), Ok(Order::Waiters));
        assert_eq!(order(&of("sort=age")), Ok(Order::Age));
        let why = said(order(&of("sort=size")).expect_err("unknown"));
        assert_eq!(why, "sort: \"size\" must be waiters, age or name");
        assert_eq!(page(&of("page=200"), 50), Ok(200));
        for bad in ["0", "201", "18446744073709551615"] {
            let why = said(page(&of(&format!("page={bad}")), 50).expect_err("no such page"));
            assert!(why.starts_with(&format!("page: {bad} is not between 1 and 200")), "{why}");
        }
        assert!(said(page(&of("page=x"), 50).expect_err("no number")).contains("not a number"));
    }
}
