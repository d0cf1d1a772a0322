//! What a service tells while it recovers: it was restarted, and grants nothing that a session of
//! the run before may hold until those sessions have come back or their leases are over.

use std::io::{IsTerminal as _, stderr};
use std::time::Duration;

use lockspan_wire::Value;

use crate::exit::say;
use crate::replies::find;
use crate::resp::Connection;

/// So long a wait lasts before it is looked whether a recovery is why.
const LOOK_AFTER: Duration = Duration::from_secs(1);

/// A recovery that is under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Recovery {
    /// Sessions that have yet to come back; 0 if nothing is known of the run before.
    pub(crate) sessions: u64,
    /// How long it takes at most.
    pub(crate) left_ms: u64,
}

impl std::fmt::Display for Recovery {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("recovering: waiting for ")?;
        match self.sessions {
            0 => f.write_str("sessions of an earlier run")?,
            1 => f.write_str("1 session")?,
            many => write!(f, "{many} sessions")?,
        }
        // Rounded up: "at most 0 s" would be wrong.
        write!(f, ", at most {} s more", self.left_ms.div_ceil(1000))
    }
}

impl Recovery {
    /// What the reply of `LS.LOCKS` says of it: its third element.
    pub(crate) fn in_locks(reply: &Value) -> Option<Self> {
        let Value::Array(parts) = reply else { return None };
        Self::read(parts.get(2)?)
    }

    /// What the reply of `LS.WAITS` says of it.
    pub(crate) fn in_waits(reply: &Value) -> Option<Self> {
        Self::read(find(reply, "recovery")?)
    }

    fn read(map: &Value) -> Option<Self> {
        let number = |name| match find(map, name)? {
            Value::Int(number) => u64::try_from(*number).ok(),
            _ => None,
        };
        Some(Self { sessions: number("sessions")?, left_ms: number("left-ms")? })
    }

    /// What the text of `INFO` says of it.
    pub(crate) fn in_info(text: &str) -> Option<Self> {
        let number = |name: &str| {
            let mut pairs = text.lines().filter_map(|line| line.split_once(':'));
            pairs.find(|(known, _)| *known == name)?.1.trim().parse::<u64>().ok()
        };
        if number("recovering")? == 0 {
            return None;
        }
        let [sessions, left_ms] = ["recovering_sessions", "recovering_left_ms"].map(number);
        Some(Self { sessions: sessions?, left_ms: left_ms? })
    }

    /// Asks the service at `url`. None also if it does not answer, or is not one of ours.
    pub(crate) async fn of(url: &str) -> Option<Self> {
        let url = url.to_owned();
        let asked = tokio::task::spawn_blocking(move || {
            let reply = Connection::open(&url).ok()??.ask(&[b"INFO", b"lockspan"]).ok()?;
            let Value::Bulk(text) = reply else { return None };
            Self::in_info(std::str::from_utf8(&text).ok()?)
        });
        asked.await.ok().flatten()
    }
}

/// Says on a terminal why a wait lasts, if the service recovers; never returns.
pub(crate) async fn say_why_it_lasts(url: &str) -> std::convert::Infallible {
    if stderr().is_terminal() {
        tokio::time::sleep(LOOK_AFTER).await;
        if let Some(recovery) = Recovery::of(url).await {
            say(format!("the service is {recovery}"));
        }
    }
    std::future::pending().await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_service_tells_is_read_and_said() {
        let map = Value::map([("sessions", Value::Int(3)), ("left-ms", Value::Int(4001))]);
        let locks = |more: Vec<Value>| {
            let reply = [Value::bulk("0"), Value::Array(Vec::new())].into_iter().chain(more);
            Recovery::in_locks(&Value::Array(reply.collect()))
        };
        let read = locks(vec![map]);
        assert_eq!(read, Some(Recovery { sessions: 3, left_ms: 4001 }));
        assert_eq!(locks(Vec::new()), None);
        assert_eq!(locks(vec![Value::Null]), None);
        let info = |recovering: u8| {
            format!(
                "# Lockspan\r\nrecovering:{recovering}\r\nrecovering_sessions:1\r\n\
                 recovering_left_ms:999\r\n"
            )
        };
        assert_eq!(Recovery::in_info(&info(0)), None);
        assert_eq!(Recovery::in_info("recovering:1\r\n"), None, "an older service");
        let said = |recovery: Option<Recovery>| recovery.expect("it recovers").to_string();
        assert_eq!(said(read), "recovering: waiting for 3 sessions, at most 5 s more");
        assert_eq!(
            said(Recovery::in_info(&info(1))),
            "recovering: waiting for 1 session, at most 1 s more"
        );
        assert_eq!(
            Recovery { sessions: 0, left_ms: 66_000 }.to_string(),
            "recovering: waiting for sessions of an earlier run, at most 66 s more"
        );
    }
}
