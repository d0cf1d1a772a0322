//! What `INFO` tells.

use std::fmt::Write as _;

use bytes::Bytes;

use super::Shared;

/// The sections that are asked for; all, if none is.
pub(super) fn info(shared: &Shared, wanted: &[Bytes]) -> String {
    let any = wanted.is_empty()
        || wanted.iter().any(|it| {
            [&b"all"[..], b"default", b"everything"].iter().any(|all| it.eq_ignore_ascii_case(all))
        });
    let is_wanted =
        |name: &str| any || wanted.iter().any(|it| it.eq_ignore_ascii_case(name.as_bytes()));
    let stats = shared.service.stats();
    let recovery = shared.service.recovery();
    let mut text = String::new();
    let mut section = |name: &str, lines: &[(&str, String)]| {
        if !is_wanted(name) {
            return;
        }
        let gap = if text.is_empty() { "" } else { "\r\n" };
        let _ = write!(text, "{gap}# {}{}\r\n", name[..1].to_uppercase(), &name[1..]);
        for (key, value) in lines {
            let _ = write!(text, "{key}:{value}\r\n");
        }
    };
    section(
        "server",
        &[
            // Client libraries compare it with versions of Redis.
            ("redis_version", "7.4.0".to_owned()),
            ("redis_mode", "standalone".to_owned()),
            ("lockspan_version", env!("CARGO_PKG_VERSION").to_owned()),
            ("process_id", std::process::id().to_string()),
            ("run_id", shared.run_id.clone()),
            ("uptime_in_seconds", shared.started.elapsed().as_secs().to_string()),
            (
                "listen",
                shared.addresses.iter().map(|it| it.to_string()).collect::<Vec<_>>().join(","),
            ),
        ],
    );
    section(
        "clients",
        &[
            ("connected_clients", shared.peers.len().to_string()),
            ("maxclients", shared.config.connections.to_string()),
            ("waiting_bytes", shared.budget.sum().to_string()),
            ("max_waiting_bytes", shared.config.outboxes.to_string()),
        ],
    );
    section(
        "stats",
        &[
            ("total_connections_received", stats.connections_total.to_string()),
            ("total_commands_processed", stats.commands.to_string()),
            ("slow_readers_closed", stats.slow_readers.to_string()),
        ],
    );
    section(
        "lockspan",
        &[
            ("sessions", stats.sessions.to_string()),
            ("records", stats.records.to_string()),
            ("claims", stats.claims.to_string()),
            ("recovering", u8::from(stats.recovering).to_string()),
            ("recovering_sessions", recovery.as_ref().map_or(0, |it| it.sessions).to_string()),
            ("recovering_left_ms", recovery.map_or(0, |it| it.left.as_millis()).to_string()),
            ("shards", shared.config.shards.to_string()),
            ("acquires", stats.acquires.to_string()),
            ("grants", stats.grants.to_string()),
            ("queued", stats.queued.to_string()),
            ("revokes", stats.revokes.to_string()),
            ("revoke_repeats", stats.revoke_repeats.to_string()),
            ("retries", stats.retries.to_string()),
            ("releases", stats.releases.to_string()),
            ("refusals", stats.refusals.to_string()),
            ("deadlocks", stats.deadlocks.to_string()),
            ("messages_in", stats.messages_in.to_string()),
            ("messages_out", stats.messages_out.to_string()),
        ],
    );
    text
}
