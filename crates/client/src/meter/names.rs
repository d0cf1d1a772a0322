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
    (CACHED, Unit::Count, "Acquires of records cached in this process, without a message."),
    (SENT, Unit::Count, "Acquires sent to the server, including repeated ones."),
    (GRANTS, Unit::Count, "Grants received from the server, including repeated ones."),
    (HANDOVERS, Unit::Count, "Grants after a wait that the server had announced."),
    (
        REVOKES,
        Unit::Count,
        "Revoke messages that asked for a record back, including repeated ones.",
    ),
    (RETRIES, Unit::Count, "Retry messages that told this process to acquire again."),
    (LOST, Unit::Count, "Grants lost, because their lease expired or for another reason."),
    (LOST_LEASES, Unit::Count, "Leases that expired before their session was closed."),
    (RECONNECTS, Unit::Count, "Reconnections to the server."),
    (MESSAGES_SENT, Unit::Count, "Messages sent to the server."),
    (MESSAGES_RECEIVED, Unit::Count, "Messages received from the server."),
    (BYTES_SENT, Unit::Bytes, "Bytes sent to the server, before encryption."),
    (BYTES_RECEIVED, Unit::Bytes, "Bytes received from the server, after decryption."),
];

const GAUGES: [(&str, &str); 2] =
    [(RECORDS, "Records cached, in use or requested now."), (WAITING, "Acquires waiting now.")];

const HISTOGRAMS: [(&str, &str); 2] = [
    (WAIT, "Wait time of acquires whose record was not free in this process."),
    (HOLD, "Time from a grant until this process released or lost the record, cached or in use."),
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
