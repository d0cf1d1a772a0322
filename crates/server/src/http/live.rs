//! Server-sent events: what a page looks at, again whenever it has changed.

use std::sync::Arc;

use bytes::Bytes;
use hyper::{Response, StatusCode};
use serde_json::Value;
use tokio::sync::mpsc;
use tokio::time::MissedTickBehavior;

use super::content::{Content, response};
use super::guard::Refused;
use super::query::Query;
use super::{Site, api, samples};

/// Parts that wait for a browser that does not read; then it is asked for nothing until it does.
const AHEAD: usize = 2;

/// The stream for what `query` looks at.
pub(super) async fn stream(site: &Arc<Site>, query: Query) -> Result<Response<Content>, Refused> {
    let Ok(place) = Arc::clone(&site.live).try_acquire_owned() else {
        let why = "there are as many live pages as may be; close one".to_owned();
        return Err((StatusCode::SERVICE_UNAVAILABLE, why));
    };
    // What is wrong with the question is said before there is a stream.
    let mut shown = api::view(site, &query).await?;
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
            let (number, new) = site.samples.after(seen);
            seen = number;
            let mut text = String::new();
            if !new.is_empty() {
                put(&mut text, "samples", &Value::Array(new));
            }
            if shown != last {
                put(&mut text, "view", &shown);
                last = shown;
            }
            if text.is_empty() {
                text.push_str(": nothing new\n\n");
            }
            if sender.send(Bytes::from(text)).await.is_err() || site.shared.service.is_halted() {
                break;
            }
            let Ok(next) = api::view(&site, &query).await else { break };
            shown = next;
        }
        drop(place);
    });
    Ok(response(StatusCode::OK, "text/event-stream", Content::Parts(parts)))
}

fn put(text: &mut String, name: &str, value: &Value) {
    // JSON has no line breaks of its own.
    text.push_str(&format!("event: {name}\ndata: {value}\n\n"));
}
