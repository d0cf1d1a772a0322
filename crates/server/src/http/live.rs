//! Server-sent events: what a page looks at, again whenever it has changed.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use hyper::{Response, StatusCode};
use serde_json::Value;
use tokio::sync::mpsc;
use tokio::time::{Instant, MissedTickBehavior};

use super::content::{Content, response};
use super::guard::Refused;
use super::login::Login;
use super::query::Query;
use super::{Site, api, samples};

/// Parts that wait for a browser that does not read; then it is asked for nothing until it does.
const AHEAD: usize = 2;

/// A page may use so small a part of the time for looking: what takes long is looked at less often.
const PART: u32 = 50;
const LONGEST: Duration = Duration::from_secs(30);

/// The stream for what `query` looks at, as long as the login stands where one is needed.
pub(super) async fn stream(
    site: &Arc<Site>,
    query: Query,
    login: Option<Login>,
) -> Result<Response<Content>, Refused> {
    let login = login.filter(|_| site.operators.look_needs_login());
    let Ok(place) = Arc::clone(&site.live).try_acquire_owned() else {
        let why = "there are as many live pages as may be; close one".to_owned();
        return Err((StatusCode::SERVICE_UNAVAILABLE, why));
    };
    // What is wrong with the question is said before there is a stream.
    let began = Instant::now();
    let mut shown = api::view(site, &query).await?;
    let mut next_look = next(began);
    let since = query.number("since")?.unwrap_or(0);
    let (sender, parts) = mpsc::channel(AHEAD);
    let site = Arc::clone(site);
    tokio::spawn(async move {
        let mut tick = tokio::time::interval(samples::EVERY);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let (mut seen, mut last) = (since, Value::Null);
        loop {
            tokio::select! {
                _ = tick.tick() => {}
                () = sender.closed() => break,
            }
            if login.as_ref().is_some_and(|login| !site.stands(login)) {
                break;
            }
            let began = Instant::now();
            if began >= next_look {
                let Ok(now) = api::view(&site, &query).await else { break };
                shown = now;
                next_look = next(began);
            }
            let (number, new) = site.samples.after(seen);
            seen = number;
            let mut text = String::new();
            if !new.is_empty() {
                put(&mut text, "samples", &Value::Array(new));
            }
            if shown != last {
                put(&mut text, "view", &shown);
                last.clone_from(&shown);
            }
            if text.is_empty() {
                text.push_str(": nothing new\n\n");
            }
            if sender.send(Bytes::from(text)).await.is_err() || site.shared.service.is_halted() {
                break;
            }
        }
        drop(place);
    });
    Ok(response(StatusCode::OK, "text/event-stream", Content::Parts(parts)))
}

/// When to look again, after a look that has begun then.
fn next(began: Instant) -> Instant {
    let took = began.elapsed();
    // Half a tick less, so that the next one is not missed by a moment.
    began + (took * PART).max(samples::EVERY).min(LONGEST) - samples::EVERY / 2
}

fn put(text: &mut String, name: &str, value: &Value) {
    // JSON has no line breaks of its own.
    text.push_str(&format!("event: {name}\ndata: {value}\n\n"));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_takes_long_is_looked_at_less_often() {
        let after = |took| {
            let began = Instant::now() - took;
            next(began) - began
        };
        assert!(after(Duration::ZERO) < samples::EVERY);
        assert!(after(Duration::from_millis(200)) > 9 * samples::EVERY);
        assert!(after(Duration::from_secs(60)) <= LONGEST);
    }
}
