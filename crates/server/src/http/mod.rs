//! What people and Prometheus see of a server, over HTTP on an address of this machine.
//!
//! | path | what |
//! |---|---|
//! | `/`, `/app.js`, ... | the page: files in `page/`, part of the binary |
//! | `/metrics` | counters and histograms as Prometheus reads them |
//! | `/healthz`, `/readyz` | whether it runs; whether it grants |
//! | `/api/...` | what the page asks for: parts of the records and sessions, never all |
//! | `/api/live` | the same as server-sent events |
//! | `/api/login`, `/api/end-session`, ... | what an operator does, after a login |
//!
//! Nothing here keeps a table locked for longer than it takes to look at a thousand names.

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
mod prometheus;
mod query;
mod samples;
mod shown;
mod wiped;

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use hyper::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::AsyncWriteExt as _;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use crate::config::{Address, Http};
use crate::error::StartError;
use crate::net::Shared;
use crate::seldom::Seldom;
use crate::users::Ends;
use login::Logins;
use operators::Operators;
use patient::Patient;
use samples::Samples;

/// Connections at a time. A page has up to six.
const CONNECTIONS: usize = 256;

/// Pages at a time that are kept up to date.
const LIVE: usize = 64;

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
    live: Arc<Semaphore>,
    /// For who searches all names: one after the other.
    searches: Semaphore,
}

/// An open door.
#[derive(Debug)]
pub(crate) struct Door {
    listener: TcpListener,
    pub(crate) at: SocketAddr,
}

/// Listens, if that is wanted and can be done.
pub(crate) async fn bind(wanted: Option<Http>) -> Result<Option<Door>, StartError> {
    let Some(Http { at, required }) = wanted else { return Ok(None) };
    if !at.ip().is_loopback() {
        return Err(StartError::HttpNotLoopback(at));
    }
    let bound = TcpListener::bind(at).await;
    match bound.and_then(|listener| Ok(Door { at: listener.local_addr()?, listener })) {
        Ok(door) => Ok(Some(door)),
        Err(why) => {
            let why = StartError::Http { at, why };
            if required {
                return Err(why);
            }
            tracing::warn!("{why}. It starts without them");
            Ok(None)
        }
    }
}

impl Door {
    /// Lets browsers in, for ever. Who is in goes when this is dropped.
    pub(crate) async fn run(self, shared: Arc<Shared>, operators: Operators) {
        let site = Arc::new(Site {
            shared,
            at: self.at,
            samples: Samples::default(),
            operators,
            logins: Logins::default(),
            live: Arc::new(Semaphore::new(LIVE)),
            searches: Semaphore::new(1),
        });
        let room = Arc::new(Semaphore::new(CONNECTIONS));
        let mut inside = JoinSet::new();
        let failures = Seldom::default();
        inside.spawn(samples::keep(Arc::clone(&site)));
        loop {
            // Those who come meanwhile wait in the system's line.
            let Ok(place) = Arc::clone(&room).acquire_owned().await else { return };
            match self.listener.accept().await {
                Ok((stream, _)) => {
                    let site = Arc::clone(&site);
                    inside.spawn(async move {
                        serve(site, stream).await;
                        drop(place);
                    });
                }
                Err(why) => {
                    if let Some(more) = failures.may_log(Instant::now()) {
                        tracing::error!("can't accept a connection on {}: {why}{more}", self.at);
                    }
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
            }
            while inside.try_join_next().is_some() {}
        }
    }
}

async fn serve(site: Arc<Site>, stream: TcpStream) {
    let ends = Ends::of(&stream);
    let service = service_fn(move |mut request: Request<Incoming>| {
        let site = Arc::clone(&site);
        ends.map(|ends| request.extensions_mut().insert(ends));
        async move { Ok::<_, Infallible>(answer::answer(&site, request).await) }
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
            Err("the server stops")
        } else if !self.shared.service.is_ready() {
            Err("nothing is granted yet: the data directory can't be written, see the log")
        } else if self.shared.stats().recovering {
            Err("nothing is granted yet: clients re-assert what they held before the restart")
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
