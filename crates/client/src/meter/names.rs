//! What the metrics are called, in which units they are, and what they mean.

use metrics::{SharedString, Unit};

use super::publish::with_recorder;

pub(super) const WAIT: &str = "lockspan_client_wait_seconds";
pub(super) const HOLD: &str = "lockspan_client_hold_seconds";
pub(super) const WAITING: &str = "lockspan_client_waiting_acquires";
pub(super) const RECORDS: &str = "lockspan_client_cached_records";
pub(super) const CACHED: &str = "lockspan_client_cached_acquires_total";
pub(super) const SENT: &str = "lockspan_client_sent_acquires_total";
pub(super) const GRANTS: &str = "lockspan_client_grants_total";
pub(super) const HANDOVERS: &str = "lockspan_client_handovers_total";
pub(super) const REVOKES: &str = "lockspan_client_revokes_total";
pub(super) const RETRIES: &str = "lockspan_client_retries_total";
pub(super) const LOST: &str = "lockspan_client_lost_grants_total";
pub(super) const LOST_LEASES: &str = "lockspan_client_lost_leases_total";
pub(super) const RECONNECTS: &str = "lockspan_client_reconnects_total";
pub(super) const MESSAGES_SENT: &str = "lockspan_client_sent_messages_total";
pub(super) const MESSAGES_RECEIVED: &str = "lockspan_client_received_messages_total";
pub(super) const BYTES_SENT: &str = "lockspan_client_sent_bytes_total";
pub(super) const BYTES_RECEIVED: &str = "lockspan_client_received_bytes_total";

const COUNTERS: [(&str, Unit, &str); 13] = [
    (CACHED, Unit::Count, "Acquires of records that were cached here, without a message."),
    (SENT, Unit::Count, "Acquires that were sent to the server, repeated ones too."),
    (GRANTS, Unit::Count, "Grants that came from the server, repeated ones too."),
    (HANDOVERS, Unit::Count, "Grants that ended a wait of which the server had told."),
    (REVOKES, Unit::Count, "Times that the server wanted a record back, repeated ones too."),
    (RETRIES, Unit::Count, "Times that the server said to acquire again."),
    (LOST, Unit::Count, "Grants that were lost, with their lease or without."),
    (LOST_LEASES, Unit::Count, "Leases that ended before their session was closed."),
    (RECONNECTS, Unit::Count, "Times that a connection was made anew."),
    (MESSAGES_SENT, Unit::Count, "Messages to the server."),
    (MESSAGES_RECEIVED, Unit::Count, "Messages from the server."),
    (BYTES_SENT, Unit::Bytes, "Bytes to the server, before encryption."),
    (BYTES_RECEIVED, Unit::Bytes, "Bytes from the server, after decryption."),
];

const GAUGES: [(&str, &str); 2] = [
    (RECORDS, "Records that are cached, in use or asked for."),
    (WAITING, "Acquires that wait now."),
];

const HISTOGRAMS: [(&str, &str); 2] = [
    (WAIT, "How long acquires waited that did not find their record free here."),
    (
        HOLD,
        "How long this process had a record, cached or in use, until it gave it back or lost it.",
    ),
];

/// Tells the recorder what there is.
pub(super) fn describe() {
    let text = SharedString::const_str;
    with_recorder(|recorder| {
        for (name, unit, help) in COUNTERS {
            recorder.describe_counter(name.into(), Some(unit), text(help));
        }
        for (name, help) in GAUGES {
            recorder.describe_gauge(name.into(), Some(Unit::Count), text(help));
        }
        for (name, help) in HISTOGRAMS {
            recorder.describe_histogram(name.into(), Some(Unit::Seconds), text(help));
        }
    });
}
