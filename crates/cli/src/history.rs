//! `lockspan history`: what happened to a record lately.

use std::process::ExitCode;

use crate::args::HistoryArgs;
use crate::exit::{Failure, say};
use crate::output;
use crate::replies::{Happened, happenings};
use crate::resp::odd;
use crate::service;
use crate::table::{Cut, table, terminal_width};
use crate::values::age;

/// Shows it, the latest first.
pub(crate) fn main(args: &HistoryArgs) -> Result<ExitCode, Failure> {
    let happened = match service::open(&args.service, "history")? {
        Some(mut connection) => {
            let count = args.count.to_string();
            let command: [&[u8]; 4] =
                [b"LS.HISTORY", args.record.as_bytes(), b"COUNT", count.as_bytes()];
            let reply = connection.ask(&command)?;
            let happened = happenings(&reply).ok_or_else(|| odd("LS.HISTORY", &reply))?;
            if happened.is_empty() {
                say(format!(
                    "the service has no history of {}. A server without a page (--http none) \
                     keeps none, and a restart begins a new one",
                    args.record
                ));
            }
            happened
        }
        None => {
            say("no service runs for local:, so there is no history");
            Vec::new()
        }
    };
    if args.json {
        return output::lines(happened.iter().map(Happened::to_json));
    }
    output::print(shown(&happened, terminal_width()).as_bytes())
}

fn shown(happened: &[Happened], room: Option<usize>) -> String {
    let head = [
        ("AGO", Cut::Never),
        ("WHAT", Cut::Never),
        ("MODE", Cut::Never),
        ("LABEL", Cut::Middle),
        ("SESSION", Cut::Never),
        ("TOKEN", Cut::Whole),
        ("WAITED", Cut::Never),
        ("HELD", Cut::Never),
    ];
    let none = || "-".to_owned();
    let row = |it: &Happened| {
        [
            age(it.age_ms),
            it.what.clone(),
            it.mode.clone().unwrap_or_else(none),
            it.who.label().to_owned(),
            it.who.id.clone(),
            it.token.clone().unwrap_or_else(none),
            it.waited_ms.map_or_else(none, age),
            it.held_ms.map_or_else(none, age),
        ]
    };
    table(head, &happened.iter().map(row).collect::<Vec<_>>(), room)
}
