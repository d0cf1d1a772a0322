//! What goes to the recorder, and when.

use std::panic::{self, AssertUnwindSafe};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use lockspan_park::fork::ProcessLocal;
use metrics::{Key, Label, Level, Metadata, Recorder};

use super::names;
use super::tally::Tally;
use crate::stats::Stats;

const ABOUT: Metadata<'static> =
    Metadata::new("lockspan_client", Level::INFO, Some("lockspan_client"));

/// What all nodes of this process have counted that belongs to no datatype.
#[derive(Default)]
struct Totals {
    told: AtomicU64,
    heard: AtomicU64,
    sent_bytes: AtomicU64,
    received_bytes: AtomicU64,
    reconnects: AtomicU64,
    lost_leases: AtomicU64,
    records: AtomicI64,
}

/// The recorder has panicked.
static HAS_PANICKED: AtomicBool = AtomicBool::new(false);

/// A child of a fork begins to count anew.
fn totals() -> &'static Totals {
    static TOTALS: ProcessLocal<Totals> = ProcessLocal::new();
    TOTALS.get_or_init(Totals::default)
}

/// Does something with the recorder of this thread or of the process.
pub(super) fn with_recorder<R>(act: impl FnOnce(&dyn Recorder) -> R) -> R {
    metrics::with_recorder(act)
}

/// Whether there is a recorder. The one that the façade has in its place knows nothing, so it takes
/// no room; one that hears anything has something to keep it in.
pub(super) fn is_heard() -> bool {
    with_recorder(|recorder| size_of_val(recorder) > 0)
}

/// How long something took that is over.
pub(super) fn record(key: &Key, time: Duration) {
    guarded(|| {
        let histogram = with_recorder(|recorder| recorder.register_histogram(key, &ABOUT));
        histogram.record(time.as_secs_f64());
    });
}

/// Calls the recorder, which is anybody's code: if it panics, it is told no more. Whoever calls is
/// about to take or to give back a lock, and must get to the end of that.
pub(super) fn guarded(act: impl FnOnce()) {
    if HAS_PANICKED.load(Ordering::Relaxed) {
        return;
    }
    if panic::catch_unwind(AssertUnwindSafe(act)).is_err() {
        HAS_PANICKED.store(true, Ordering::Relaxed);
        tracing::error!("the metrics recorder has panicked; it is no longer used");
    }
}

/// What a node has counted since it was last asked.
pub(super) fn add(now: &Stats, before: &Stats) {
    let totals = totals();
    let more = |total: &AtomicU64, of: fn(&Stats) -> u64| {
        total.fetch_add(of(now).saturating_sub(of(before)), Ordering::Relaxed);
    };
    more(&totals.told, |it| it.told);
    more(&totals.heard, |it| it.heard);
    more(&totals.sent_bytes, |it| it.sent_bytes);
    more(&totals.received_bytes, |it| it.received_bytes);
    more(&totals.reconnects, |it| it.connects.saturating_sub(1));
    more(&totals.lost_leases, |it| it.lost_leases);
    totals.records.fetch_add(now.records as i64 - before.records as i64, Ordering::Relaxed);
}

/// Tells the recorder everything.
pub(super) fn publish() {
    guarded(|| {
        with_recorder(|recorder| {
            of_process(recorder);
            Tally::all().for_each(|tally| of_datatype(recorder, tally));
        });
    });
}

fn counter(recorder: &dyn Recorder, key: &Key, value: u64) {
    recorder.register_counter(key, &ABOUT).absolute(value);
}

fn gauge(recorder: &dyn Recorder, key: &Key, value: i64) {
    recorder.register_gauge(key, &ABOUT).set(value as f64);
}

fn of_process(recorder: &dyn Recorder) {
    let totals = totals();
    for (name, value) in [
        (names::MESSAGES_SENT, &totals.told),
        (names::MESSAGES_RECEIVED, &totals.heard),
        (names::BYTES_SENT, &totals.sent_bytes),
        (names::BYTES_RECEIVED, &totals.received_bytes),
        (names::RECONNECTS, &totals.reconnects),
        (names::LOST_LEASES, &totals.lost_leases),
    ] {
        counter(recorder, &Key::from_static_name(name), value.load(Ordering::Relaxed));
    }
    let records = totals.records.load(Ordering::Relaxed);
    gauge(recorder, &Key::from_static_name(names::RECORDS), records);
}

fn of_datatype(recorder: &dyn Recorder, tally: &Tally) {
    let get = |count: &AtomicU64| count.load(Ordering::Relaxed);
    for (at, mode) in ["read", "write"].into_iter().enumerate() {
        let labels = vec![tally.label.clone(), Label::from_static_parts("mode", mode)];
        let cached = u64::try_from(tally.cached[at].sum()).unwrap_or(0);
        for (name, value) in [
            (names::CACHED, cached),
            (names::SENT, get(&tally.sent[at])),
            (names::GRANTS, get(&tally.grants[at])),
        ] {
            counter(recorder, &Key::from_parts(name, labels.clone()), value);
        }
    }
    let key = |name: &'static str| Key::from_parts(name, vec![tally.label.clone()]);
    for (name, count) in [
        (names::HANDOVERS, &tally.handovers),
        (names::REVOKES, &tally.revokes),
        (names::RETRIES, &tally.retries),
        (names::LOST, &tally.lost),
    ] {
        counter(recorder, &key(name), get(count));
    }
    gauge(recorder, &key(names::WAITING), tally.waiting.load(Ordering::Relaxed));
}
