//! The metrics: which there are, what they are called, and where their numbers come from.
//!
//! Their text is computed at most once a second, however often it is asked for: it takes the locks
//! of all tables, one after the other.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use bytes::Bytes;
use lockspan_protocol::server::watch::Tally;

use super::Site;
use super::prometheus::Kind::{Counter, Gauge, Histogram};
use super::prometheus::Text;
use super::shown;
use crate::service::Counted;

/// How old a text may be that is given again.
const FRESH: Duration = Duration::from_secs(1);

/// The text that was computed last, and when.
#[derive(Debug, Default)]
pub(super) struct Cached(Mutex<Option<(Instant, Bytes)>>);

impl Cached {
    /// The last text if it is fresh, otherwise a new one.
    fn text(&self, now: Instant, compute: impl FnOnce() -> String) -> Bytes {
        let mut last = crate::lock(&self.0);
        if let Some((at, text)) = &*last
            && now.saturating_duration_since(*at) < FRESH
        {
            return text.clone();
        }
        let text = Bytes::from(compute());
        *last = Some((now, text.clone()));
        text
    }
}

impl Site {
    /// The text of all metrics, at most a second old.
    pub(super) fn metrics(&self, now: Instant) -> Bytes {
        self.metrics.text(now, || text(self))
    }
}

fn text(site: &Site) -> String {
    let shared = &site.shared;
    let mut text = Text::default();
    let version = env!("CARGO_PKG_VERSION");
    text.family(
        "lockspan_build_info",
        Gauge,
        "Version of the server, as a label; the value is always 1.",
    )
    .sample(&[("version", version)], 1);
    let uptime = shared.started.elapsed().as_secs();
    text.one("lockspan_uptime_seconds", Gauge, "Time since the server started.", uptime);
    let ready = u64::from(site.readiness().is_ok());
    text.one(
        "lockspan_ready",
        Gauge,
        "1 if records are granted, 0 if not (recovering, stopping, or storage can't be written).",
        ready,
    );
    of_records(&mut text, &shared.service.counted());
    of_server(&mut text, &shared.stats());
    text.finish()
}

fn of_records(text: &mut Text, counted: &[Counted]) {
    let counted = by_name(counted);
    text.family("lockspan_grants_total", Counter, "Granted records, at once or after a wait.");
    for (datatype, tally) in &counted {
        for (mode, count) in [("read", tally.reads), ("write", tally.writes)] {
            text.sample(&[("datatype", datatype), ("mode", mode)], count);
        }
    }
    type Of = fn(&Tally) -> u64;
    let counts: [(_, _, _, Of); 6] = [
        ("lockspan_handovers_total", Counter, "Grants to a session that had waited.", |it| {
            it.handovers
        }),
        (
            "lockspan_revokes_total",
            Counter,
            "Revoke messages that asked a holder to release a record, each counted once.",
            |it| it.revokes,
        ),
        (
            "lockspan_revoke_repeats_total",
            Counter,
            "Revoke messages that were sent again because the record was not released yet.",
            |it| it.revoke_repeats,
        ),
        (
            "lockspan_retries_total",
            Counter,
            "Retry messages that told a waiter to acquire again.",
            |it| it.retries,
        ),
        ("lockspan_held_grants", Gauge, "Grants that sessions hold now.", |it| it.held),
        ("lockspan_queue_length", Gauge, "Acquires waiting now.", |it| it.waiting),
    ];
    for (family, kind, help, of) in counts {
        text.family(family, kind, help);
        for (datatype, tally) in &counted {
            text.sample(&[("datatype", datatype)], of(tally));
        }
    }
    let help = "Wait time of acquires that were not granted at once.";
    text.family("lockspan_wait_seconds", Histogram, help);
    for (datatype, tally) in &counted {
        text.times(&[("datatype", datatype)], &tally.waits);
    }
    let help = "Time from a grant until the record was released or lost, cached or in use.";
    text.family("lockspan_hold_seconds", Histogram, help);
    for (datatype, tally) in &counted {
        text.times(&[("datatype", datatype)], &tally.holds);
    }
}

/// The longest name of a datatype that is shown whole.
const NAME: usize = 100;

/// Each name once, whatever datatypes are called: two samples of one name would spoil all.
fn by_name(counted: &[Counted]) -> Vec<(String, Tally)> {
    let mut all: Vec<(String, Tally)> = Vec::new();
    for Counted { datatype, tally } in counted {
        let name = datatype.as_deref().map_or_else(|| "other".to_owned(), shown::readable);
        let name: String = name.chars().take(NAME).collect();
        match all.iter_mut().find(|(known, _)| *known == name) {
            Some((_, known)) => known.add(tally),
            None => all.push((name, tally.clone())),
        }
    }
    all
}

fn of_server(text: &mut Text, stats: &crate::Stats) {
    let all = [
        ("lockspan_acquires_total", Counter, "Acquires received.", stats.acquires),
        ("lockspan_releases_total", Counter, "Releases and cancels received.", stats.releases),
        ("lockspan_refusals_total", Counter, "Refused messages and acquires.", stats.refusals),
        (
            "lockspan_deadlocks_total",
            Counter,
            "Waits refused because of a deadlock.",
            stats.deadlocks,
        ),
        ("lockspan_sessions", Gauge, "Sessions now, in any state.", stats.sessions),
        (
            "lockspan_session_expirations_total",
            Counter,
            "Sessions whose lease expired before they were closed.",
            stats.expirations,
        ),
        (
            "lockspan_lost_grants_total",
            Counter,
            "Grants lost because the lease of their session expired.",
            stats.lost_grants,
        ),
        ("lockspan_records", Gauge, "Records that are held or waited for now.", stats.records),
        (
            "lockspan_recovering",
            Gauge,
            "1 while clients re-assert their locks after a restart, else 0.",
            u64::from(stats.recovering),
        ),
        ("lockspan_commands_total", Counter, "Commands received from clients.", stats.commands),
        (
            "lockspan_messages_received_total",
            Counter,
            "Messages about records received from sessions.",
            stats.messages_in,
        ),
        (
            "lockspan_messages_sent_total",
            Counter,
            "Messages about records sent to sessions.",
            stats.messages_out,
        ),
        ("lockspan_received_bytes_total", Counter, "Bytes received from clients.", stats.bytes_in),
        ("lockspan_sent_bytes_total", Counter, "Bytes sent to clients.", stats.bytes_out),
        ("lockspan_connections", Gauge, "Open client connections now.", stats.connections),
        (
            "lockspan_connections_accepted_total",
            Counter,
            "Accepted client connections.",
            stats.connections_total,
        ),
        (
            "lockspan_slow_readers_total",
            Counter,
            "Connections closed because the client did not read fast enough.",
            stats.slow_readers,
        ),
    ];
    for (name, kind, help, value) in all {
        text.one(name, kind, help, value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn service_f99_the_text_is_computed_once_a_second() {
        let (cached, start) = (Cached::default(), Instant::now());
        let mut computed = 0;
        let mut at = |millis| {
            cached.text(start + Duration::from_millis(millis), || {
                computed += 1;
                computed.to_string()
            })
        };
        for millis in 0..1000 {
            assert_eq!(at(millis), "1");
        }
        assert_eq!(at(1000), "2");
        assert_eq!(at(1999), "2");
        assert_eq!(at(60_000), "3");
    }
}
