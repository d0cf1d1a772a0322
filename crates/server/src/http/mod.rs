//! What people and Prometheus see of a server, over HTTP on an address of this machine.
//!
//! | path | what |
//! |---|---|
//! | `/`, `/app.js`, ... | the page: files in `page/`, part of the binary |
//! | `/metrics` | counters and histograms as Prometheus reads them |
//! | `/healthz`, `/readyz` | whether the server runs; whether it grants |
//! | `/api/...` | what the page asks for: parts of the records and sessions, never all |
//! | `/api/live` | the same as server-sent events |
//! | `/api/login`, `/api/end-session`, ... | what an operator does, after a login |
//!
//! All of it runs on a thread of its own, `lockspan-page`, with a runtime of its own: whatever is
//! asked here, however often, takes no time from the runtime that serves the locks. What both share
//! are the locks of tables and registry. No look keeps one for longer than it takes to look at a
//! thousand names; `/metrics` takes them at most once a second, `/healthz` and `/readyz` never.
//!
//! A connection has one request under way; those that it has sent ahead wait in its buffer, and all
//! other connections have their turn between two answers. `places` says who is let in when there
//! are too many.

mod actions;
mod answer;
mod api;
mod content;
mod graph;
mod guard;
mod live;
mod login;
mod metrics;
pub(crate) mod operators;
mod patient;
mod places;
mod prometheus;
mod pulse;
mod query;
mod records;
mod samples;
mod shown;
mod wiped;

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use hyper::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::AsyncWriteExt as _;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::Semaphore;

use crate::config::{Address, Http};
use crate::error::StartError;
use crate::net::Shared;
use crate::own_runtime::OwnRuntime;
use crate::seldom::Seldom;
use crate::users::Ends;
use live::Streams;
use login::Logins;
use metrics::Cached;
use operators::Operators;
use patient::Patient;
pub(crate) use places::PLACES;
use places::{Place, Places};
use pulse::Pulse;
use samples::Samples;

/// The name of the page's thread.
const THREAD: &str = "lockspan-page";

/// Connections that the system keeps for us until they are let in. When there are more, clients
/// have to try again, a second later and later still.
const BACKLOG: u32 = 1024;

/// Newcomers that are let in at a time, before those who are in have a turn. Far fewer than there
/// are places: a request that came along with a connection is answered before its place is lost.
const AT_A_TIME: usize = 16;

/// How long a request may take to come.
const PATIENCE: Duration = Duration::from_secs(10);

/// How long a browser may take to read a part of an answer.
const STUCK: Duration = Duration::from_secs(20);

/// The longest head of a request.
const HEAD: usize = 16 << 10;

/// What every request may ask for.
#[derive(Debug)]
pub(crate) struct Site {
    shared: Arc<Shared>,
    at: SocketAddr,
    samples: Samples,
    operators: Operators,
    logins: Logins,
    metrics: Cached,
    places: Arc<Places>,
    /// Of the runtime that serves the locks.
    pulse: Arc<Pulse>,
    streams: Arc<Streams>,
    /// A turn for one search at a time.
    searches: Semaphore,
    /// The same, for those who have logged in.
    operator_searches: Semaphore,
}

/// A socket that listens, before anybody is let in.
#[derive(Debug)]
pub(crate) struct Door {
    listener: std::net::TcpListener,
    pub(crate) at: SocketAddr,
}

/// Listens, if that is wanted and can be done.
pub(crate) fn bind(wanted: Option<Http>) -> Result<Option<Door>, StartError> {
    let Some(Http { at, required }) = wanted else { return Ok(None) };
    if !at.ip().is_loopback() {
        return Err(StartError::HttpNotLoopback(at));
    }
    match listen(at).and_then(|listener| Ok(Door { at: listener.local_addr()?, listener })) {
        Ok(door) => Ok(Some(door)),
        Err(why) => {
            let why = StartError::Http { at, why };
            if required {
                return Err(why);
            }
            tracing::warn!("{why}. The server starts without them");
            Ok(None)
        }
    }
}

/// Without a runtime: the socket moves to that of the page.
fn listen(at: SocketAddr) -> io::Result<std::net::TcpListener> {
    let socket = if at.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    socket.set_reuseaddr(true)?;
    socket.bind(at)?;
    socket.listen(BACKLOG)?.into_std()
}

impl Door {
    /// Lets browsers in, on a thread of its own. Everything there ends when the runtime that this
    /// returns is dropped. To be called within the runtime that serves the locks.
    pub(crate) fn open(self, shared: Arc<Shared>, operators: Operators) -> io::Result<OwnRuntime> {
        let page = OwnRuntime::start(THREAD, 1)?;
        let site = Arc::new(Site {
            shared,
            at: self.at,
            samples: Samples::default(),
            operators,
            logins: Logins::default(),
            metrics: Cached::default(),
            places: Arc::default(),
            pulse: Pulse::start(),
            streams: Arc::default(),
            searches: Semaphore::new(1),
            operator_searches: Semaphore::new(1),
        });
        let _inside = page.handle().enter();
        let listener = TcpListener::from_std(self.listener)?;
        tokio::spawn(samples::keep(Arc::clone(&site)));
        tokio::spawn(let_in(site, listener));
        Ok(page)
    }
}

async fn let_in(site: Arc<Site>, listener: TcpListener) {
    let failures = Seldom::default();
    let mut let_in = 0;
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                let place = site.places.enter();
                let task = tokio::spawn(serve(Arc::clone(&site), stream, Arc::clone(&place)));
                place.is_served_by(task.abort_handle());
                let_in += 1;
            }
            Err(why) => {
                if let Some(more) = failures.may_log(Instant::now()) {
                    tracing::error!("can't accept a connection on {}: {why}{more}", site.at);
                }
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
        if let_in >= AT_A_TIME {
            let_in = 0;
            tokio::task::yield_now().await;
        }
    }
}

async fn serve(site: Arc<Site>, stream: TcpStream, place: Arc<Place>) {
    let ends = Ends::of(&stream);
    let service = service_fn(move |mut request: Request<Incoming>| {
        let (site, place) = (Arc::clone(&site), Arc::clone(&place));
        ends.map(|ends| request.extensions_mut().insert(ends));
        async move {
            // Others have a turn between two answers, however many requests were sent ahead.
            tokio::task::yield_now().await;
            Ok::<_, Infallible>(answer::answer(&site, &place, request).await)
        }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(PATIENCE)
        .max_buf_size(HEAD)
        .serve_connection(TokioIo::new(Patient::new(stream, STUCK)), service);
    if let Some(stream) = wiped::serve_and_wipe(connection).await {
        // A browser that has gone needs no goodbye.
        let _ = stream.into_inner().shutdown().await;
    }
}

impl Site {
    /// Whether records are granted now, or why not.
    fn readiness(&self) -> Result<(), &'static str> {
        if self.shared.service.is_halted() {
            Err("the server is stopping")
        } else if !self.shared.service.is_ready() {
            Err("nothing is granted yet: the data directory can't be written; see the log")
        } else if self.shared.service.is_recovering() {
            Err("nothing is granted yet: recovering, clients re-assert the locks that they held \
                 before the restart")
        } else {
            Ok(())
        }
    }

    /// The names by which this machine's browsers know the page.
    fn hosts(&self) -> Vec<String> {
        let port = self.at.port();
        let own = Address::Tcp(self.at).to_string();
        let mut all = vec![own, format!("localhost:{port}"), format!("[::1]:{port}")];
        // Browsers leave out the port that HTTP has anyway.
        if port == 80 {
            let bare = |host: &String| host.trim_end_matches(":80").to_owned();
            all.extend(all.iter().map(bare).collect::<Vec<_>>());
        }
        all
    }
}
