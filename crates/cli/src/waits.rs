//! `lockspan waits`: who waits for whom, and the deadlocks that were refused.

use std::process::ExitCode;

use crate::args::WaitsArgs;
use crate::exit::{Failure, say};
use crate::output;
use crate::recovery::Recovery;
use crate::replies::{Deadlock, Waits, waits};
use crate::resp::odd;
use crate::service;
use crate::table::{terminal_width, without_end};
use crate::tree;
use crate::values::age;

/// Shows it.
pub(crate) fn main(args: &WaitsArgs) -> Result<ExitCode, Failure> {
    let waits = match service::open(&args.service, "waits")? {
        Some(mut connection) => {
            let reply = connection.ask(&[b"LS.WAITS"])?;
            if let Some(recovery) = Recovery::in_waits(&reply) {
                say(recovery);
            }
            waits(&reply).ok_or_else(|| odd("LS.WAITS", &reply))?
        }
        None => {
            say("no service runs for local:, so no session waits");
            Waits::default()
        }
    };
    if args.json {
        return output::lines(std::iter::once(waits.to_json()));
    }
    if waits.records.is_empty() {
        say("no session waits for another");
    }
    let fitted = |line: &String| match terminal_width() {
        Some(room) => without_end(line, room),
        None => line.clone(),
    };
    let text: String = lines(&waits).iter().map(|line| fitted(line) + "\n").collect();
    output::print(text.as_bytes())
}

/// A tree of sessions that wait for each other, and a line for each deadlock.
fn lines(waits: &Waits) -> Vec<String> {
    let mut lines = tree::lines(&waits.records, terminal_width());
    lines.extend(waits.deadlocks.iter().map(|it| format!("deadlock, {}", deadlock(it))));
    lines
}

/// A deadlock that was refused, in words.
pub(crate) fn deadlock(it: &Deadlock) -> String {
    let Deadlock { age_ms, who, record, owners } = it;
    let cycle: Vec<_> = owners.iter().chain(owners.first()).map(String::as_str).collect();
    let (ago, cycle) = (age(*age_ms), cycle.join(" → "));
    format!("{ago} ago: {record} was refused to {who}; owners {cycle}")
}
