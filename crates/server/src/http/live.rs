//! Server-sent events: what a page looks at, again whenever it has changed.
//!
//! There are [`STREAMS`] streams at most, and [`STREAMS_OF_ONE`] of one user. Somebody who has
//! logged in is not kept out by those who have not: if all are taken, the oldest without a login is
//! ended.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use hyper::{Response, StatusCode};
use serde_json::Value;
use tokio::sync::{Notify, mpsc};
use tokio::time::{Instant, MissedTickBehavior};

use super::content::{Content, response};
use super::guard::Refused;
use super::login::Login;
use super::query::Query;
use super::{Site, api, samples};

/// Streams at a time.
const STREAMS: usize = 64;

/// Streams of one user at a time.
const STREAMS_OF_ONE: usize = STREAMS / 4;

/// Parts that wait for a browser that does not read; then it is asked for nothing until it does.
const AHEAD: usize = 2;

/// A page may use a tenth of the time for looking, pauses included: what takes long is looked at
/// less often.
const PART: u32 = 10;
const LONGEST: Duration = Duration::from_secs(30);

/// The streams that there are, oldest first.
#[derive(Debug, Default)]
pub(super) struct Streams(Mutex<Vec<Stream>>);

#[derive(Clone, Debug)]
struct Stream {
    /// Who has logged in for it, if anybody has.
    user: Option<String>,
    /// Told when it is to end.
    end: Arc<Notify>,
}

impl Streams {
    /// One more, or why not.
    fn enter(self: &Arc<Self>, user: Option<&str>) -> Result<Entered, String> {
        let mut all = crate::lock(&self.0);
        let of_user = all.iter().filter(|it| it.user.is_some() && it.user.as_deref() == user);
        if of_user.count() >= STREAMS_OF_ONE {
            return Err(format!(
                "too many live pages of one user: the maximum is {STREAMS_OF_ONE}; close one"
            ));
        }
        if all.len() >= STREAMS {
            let oldest = all.iter().position(|it| it.user.is_none()).filter(|_| user.is_some());
            let oldest = oldest.ok_or_else(|| {
                let who = if user.is_some() { "close one" } else { "close one, or log in" };
                format!("too many live pages: the maximum is {STREAMS}; {who}")
            })?;
            all.remove(oldest).end.notify_one();
        }
        let stream = Stream { user: user.map(str::to_owned), end: Arc::default() };
        all.push(stream.clone());
        Ok(Entered { among: Arc::clone(self), end: stream.end })
    }
}

/// A stream is one of them as long as this is kept.
#[derive(Debug)]
struct Entered {
    among: Arc<Streams>,
    end: Arc<Notify>,
}

impl Drop for Entered {
    fn drop(&mut self) {
        crate::lock(&self.among.0).retain(|it| !Arc::ptr_eq(&it.end, &self.end));
    }
}

/// The stream for what `query` looks at, as long as the login stands where one is needed.
pub(super) async fn stream(
    site: &Arc<Site>,
    query: Query,
    login: Option<Login>,
) -> Result<Response<Content>, Refused> {
    let entered = site.streams.enter(login.as_ref().map(|login| &*login.user));
    let entered = entered.map_err(|why| (StatusCode::SERVICE_UNAVAILABLE, why))?;
    let is_login = login.is_some();
    let login = login.filter(|_| site.operators.look_needs_login());
    // What is wrong with the question is said before there is a stream.
    let began = Instant::now();
    let mut shown = api::view(site, &query, is_login).await?;
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
                () = entered.end.notified() => break,
            }
            if login.as_ref().is_some_and(|login| !site.stands(login)) {
                break;
            }
            let began = Instant::now();
            if began >= next_look {
                let Ok(now) = api::view(&site, &query, is_login).await else { break };
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
            let sent = tokio::select! {
                sent = sender.send(Bytes::from(text)) => sent.is_ok(),
                () = entered.end.notified() => false,
            };
            if !sent || site.shared.service.is_halted() {
                break;
            }
        }
    });
    Ok(response(StatusCode::OK, "text/event-stream", Content::parts(parts)))
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
    fn service_f101_who_has_logged_in_is_not_kept_out_by_who_has_not() {
        let streams = Arc::<Streams>::default();
        let mut all: Vec<_> = (0..STREAMS).map(|_| streams.enter(None).expect("room")).collect();
        let why = streams.enter(None).expect_err("all are taken");
        assert_eq!(why, "too many live pages: the maximum is 64; close one, or log in");
        let mut operators = Vec::new();
        for user in ["ann", "bob", "cleo", "dan"] {
            let of_one = (0..STREAMS_OF_ONE).map(|_| streams.enter(Some(user)).expect("a place"));
            operators.extend(of_one);
            let why = streams.enter(Some(user)).expect_err("too many");
            assert_eq!(why, "too many live pages of one user: the maximum is 16; close one");
        }
        let why = streams.enter(Some("eve")).expect_err("all are of users");
        assert_eq!(why, "too many live pages: the maximum is 64; close one");
        let is_told = |it: &Entered| {
            let mut context = std::task::Context::from_waker(std::task::Waker::noop());
            std::pin::pin!(it.end.notified()).poll(&mut context).is_ready()
        };
        assert!(all.iter().all(is_told), "those without a login have ended");
        assert!(!operators.iter().any(is_told));
        all.clear();
        assert_eq!(crate::lock(&streams.0).len(), STREAMS);
        operators.clear();
        assert!(crate::lock(&streams.0).is_empty(), "nothing is kept of them");
    }

    #[test]
    fn what_takes_long_is_looked_at_less_often() {
        let after = |took| {
            let began = Instant::now() - took;
            next(began) - began
        };
        assert!(after(Duration::ZERO) < samples::EVERY);
        assert!(after(Duration::from_secs(1)) > 9 * samples::EVERY);
        assert!(after(Duration::from_secs(60)) <= LONGEST);
    }
}
