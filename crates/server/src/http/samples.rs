//! The last minutes, second by second, for plots: kept by the server, so that a page that is opened
//! shows them at once.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use lockspan_protocol::server::watch::{Tally, Times};
use lockspan_wire::reply::Recovery;
use serde_json::{Value, json};
use tokio::time::MissedTickBehavior;

use super::shown::millis;
use super::{Site, api};
use crate::clock;

/// How many are kept, and how often one is taken.
const KEPT: usize = 300;
pub(super) const EVERY: Duration = Duration::from_secs(1);

/// What there was in one second.
#[derive(Clone, Debug)]
struct Sample {
    number: u64,
    shown: Value,
}

/// The last ones.
#[derive(Debug, Default)]
pub(super) struct Samples {
    last: Mutex<VecDeque<Sample>>,
}

impl Samples {
    /// Those after this number, and the number of the last.
    pub(super) fn after(&self, number: u64) -> (u64, Vec<Value>) {
        let last = crate::lock(&self.last);
        let newest = last.back().map_or(0, |sample| sample.number);
        // A page that has seen an earlier run begins anew.
        let number = if number > newest { 0 } else { number };
        let new = last.iter().filter(|sample| sample.number > number);
        (newest, new.map(|sample| sample.shown.clone()).collect())
    }
}

/// Takes one every second, forever.
pub(super) async fn keep(site: Arc<Site>) {
    let mut tick = tokio::time::interval(EVERY);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut before: Option<(Tally, crate::Stats, f64)> = None;
    let mut number = 0;
    loop {
        tick.tick().await;
        let stats = site.shared.stats();
        let mut tally = Tally::default();
        site.shared.service.counted().iter().for_each(|it| tally.add(&it.tally));
        let now = clock::now();
        let at = now.0 as f64 / 1e6;
        if let Some((last, last_stats, last_at)) = &before {
            number += 1;
            let span = (at - last_at).max(0.001);
            let rate = |now: u64, last: u64| (now.saturating_sub(last) as f64 / span).round();
            let grants = |tally: &Tally| tally.reads + tally.writes;
            let shown = json!({
                "number": number,
                "now": millis(now),
                "grants": rate(grants(&tally), grants(last)),
                "handovers": rate(tally.handovers, last.handovers),
                "revokes": rate(tally.revokes, last.revokes),
                "retries": rate(tally.retries, last.retries),
                "wait_half": share(&tally.waits, &last.waits, 0.5),
                "wait_most": share(&tally.waits, &last.waits, 0.99),
                "waiting": tally.waiting,
                "held": tally.held,
                "records": stats.records,
                "sessions": stats.sessions,
                "connections": stats.connections,
                "deadlocks": stats.deadlocks,
                "expirations": stats.expirations,
                "lost": stats.lost_grants,
                "bytes_in": rate(stats.bytes_in, last_stats.bytes_in),
                "bytes_out": rate(stats.bytes_out, last_stats.bytes_out),
                "recovering": stats.recovering,
                "recovery": site.shared.service.recovery().map(|it| recovery(&site, &it)),
            });
            let mut last = crate::lock(&site.samples.last);
            if last.len() >= KEPT {
                last.pop_front();
            }
            last.push_back(Sample { number, shown });
        }
        before = Some((tally, stats, at));
    }
}

/// Whom the server waits for after a restart: some sessions, each with its user and with where its
/// connections come from, as far as that is known.
fn recovery(site: &Site, recovery: &Recovery) -> Value {
    let service = &site.shared.service;
    let some = recovery.some.iter().map(|who| {
        let session = service.session_of(who.id).ok();
        let seen = session.and_then(|session| service.session_seen(session, 0));
        let names = seen.iter().flat_map(|(seen, _)| {
            let user = seen.user.as_ref().map(|user| format!("user {user}"));
            user.into_iter().chain(api::clients(site, seen))
        });
        let label = who.label.as_ref().map(|label| label.as_str());
        let names: Vec<_> = names.collect();
        json!({ "session": who.id.to_string(), "label": label, "names": names })
    });
    json!({
        "sessions": recovery.sessions,
        "some": some.collect::<Vec<_>>(),
        "unknown": recovery.unknown,
        "left": u64::try_from(recovery.left.as_millis()).unwrap_or(u64::MAX),
    })
}

/// The time that so many of the new ones took at most, in seconds; none if there are none. Within
/// a class times are taken to be spread evenly.
fn share(now: &Times, last: &Times, share: f64) -> Option<f64> {
    let new: Vec<f64> =
        now.counts.iter().zip(last.counts).map(|(now, last)| (now - last) as f64).collect();
    let all: f64 = new.iter().sum();
    if all == 0.0 {
        return None;
    }
    let bound = |class: usize| Times::bound(class).map(|bound| bound.as_secs_f64());
    let mut below = 0.0;
    for (class, count) in new.iter().enumerate() {
        if *count > 0.0 && below + count >= all * share {
            let low = class.checked_sub(1).and_then(bound).unwrap_or(0.0);
            let high = bound(class).unwrap_or(low);
            return Some(low + (high - low) * (all * share - below) / count);
        }
        below += count;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_of_the_new_times_is_found_in_its_class() {
        let (mut last, mut now) = (Times::default(), Times::default());
        last.counts[15] = 9;
        now.counts[15] = 9;
        assert_eq!(share(&now, &last, 0.5), None);
        now.counts[0] = 90;
        now.counts[2] = 10;
        let half = share(&now, &last, 0.5).unwrap();
        assert!(half > 0.0 && half <= 4e-6, "{half}");
        let most = share(&now, &last, 0.99).unwrap();
        assert!(most > 16e-6 && most <= 64e-6, "{most}");
    }
}
