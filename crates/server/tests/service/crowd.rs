//! The page under many connections and many requests: it takes nothing from those who lock, and
//! whoever comes is answered.

use std::collections::BTreeSet;
use std::io::{ErrorKind, Read as _, Write as _};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use lockspan_server::Server;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::actions::{Operator, with_secret};
use crate::client::{Client, DEADLINE, fresh, number, start, within};
use crate::http::{get, with_page};

/// Connections that a page has at most.
const PLACES: usize = 256;

fn at(server: &Server) -> SocketAddr {
    server.http_address().expect("it has a page")
}

/// The tests of this file have many files open.
fn many_files() {
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit }).expect("allowed");
}

fn request(server: &Server, path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: {}\r\n\r\n", at(server))
}

/// A connection on which this was said.
async fn saying(server: &Server, text: &str) -> TcpStream {
    let mut stream = within(TcpStream::connect(at(server))).await.expect("connected");
    within(stream.write_all(text.as_bytes())).await.expect("sent");
    stream
}

/// The head and the body of the next answer; what follows it stays in `rest`.
async fn answer(stream: &mut (impl AsyncRead + Unpin), rest: &mut Vec<u8>) -> (String, Vec<u8>) {
    loop {
        if let Some(end) = rest.windows(4).position(|it| it == b"\r\n\r\n") {
            let head = String::from_utf8_lossy(&rest[..end]).to_ascii_lowercase();
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
            let length: usize = length.expect("a length").parse().expect("a number");
            if rest.len() >= end + 4 + length {
                let body = rest.drain(..end + 4 + length).skip(end + 4).collect();
                return (head, body);
            }
        }
        assert!(within(stream.read_buf(rest)).await.expect("read") > 0, "closed: {rest:?}");
    }
}

/// Whether the other side has closed the connection.
fn is_closed(stream: &TcpStream) -> bool {
    let mut some = [0; 1024];
    loop {
        match stream.try_read(&mut some) {
            Ok(0) => return true,
            Ok(_) => {}
            Err(why) => return why.kind() != ErrorKind::WouldBlock,
        }
    }
}

/// The runtime that a server lives in is its user's. If it stands still, no lock is granted; but
/// the page answers, since none of its work is done there.
#[test]
fn service_f98_the_page_runs_on_a_thread_of_its_own() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.expect("a runtime");
    let begin = || runtime.block_on(start(with_page(fresh())));
    let ask = |server: &Server, path: &str| {
        let mut stream = std::net::TcpStream::connect(at(server)).expect("connected");
        stream.set_read_timeout(Some(DEADLINE)).expect("set");
        let ask = format!("GET {path} HTTP/1.0\r\nHost: {}\r\n\r\n", at(server));
        stream.write_all(ask.as_bytes()).expect("sent");
        let mut heard = Vec::new();
        stream.read_to_end(&mut heard).unwrap_or_else(|why| panic!("{path}: {why}"));
        assert!(heard.starts_with(b"HTTP/1.0 200"), "{path}: {}", heard.escape_ascii());
    };
    let is_gone = |at| std::net::TcpStream::connect(at).is_err();
    let server = begin();
    for path in ["/healthz", "/readyz", "/metrics", "/", "/api/who", "/api/samples"] {
        ask(&server, path);
    }
    for view in ["records", "records&match=x", "records&only=waiting", "sessions", "graph"] {
        ask(&server, &format!("/api/view?view={view}"));
    }
    runtime.block_on(server.stop());
    assert!(is_gone(at(&server)), "it stopped, and its page did not");
    // Its thread is gone too when a server is dropped, inside a runtime and outside.
    let server = begin();
    let was = at(&server);
    drop(server);
    assert!(is_gone(was));
    let server = begin();
    let was = at(&server);
    runtime.block_on(async { drop(server) });
    assert!(is_gone(was));
}

/// Requests that are sent ahead by the thousand, while somebody locks.
#[tokio::test(flavor = "multi_thread")]
async fn service_f99_metrics_are_computed_at_most_once_a_second() {
    const REQUESTS: usize = 1000;
    let server = start(with_page(fresh())).await;
    let mut client = Client::new(&server).await;
    let session = client.open(&["LEASE", "60000"]).await;
    let began = Instant::now();
    let (asked, stream) =
        (request(&server, "/metrics").repeat(REQUESTS), saying(&server, "").await);
    let (mut read, mut write) = stream.into_split();
    let sending =
        tokio::spawn(async move { write.write_all(asked.as_bytes()).await.map(|()| write) });
    let reading = tokio::spawn(async move {
        let (mut rest, mut texts) = (Vec::new(), BTreeSet::new());
        for _ in 0..REQUESTS {
            texts.insert(answer(&mut read, &mut rest).await.1);
        }
        texts.len()
    });
    let mut locked = 0;
    while !reading.is_finished() {
        let granted = client.ask(&["LS.ACQUIRE", &session, "doc:1", "W"]).await;
        let seq = number(&granted, "seq").to_string();
        client.ask(&["LS.RELEASE", &session, "doc:1", &seq]).await;
        locked += 1;
    }
    within(sending).await.expect("it ends").expect("sent");
    let texts = reading.await.expect("all were answered");
    // Each lock changes the text, so it tells how often it was computed.
    let most = began.elapsed().as_secs() as usize + 2;
    assert!(texts <= most, "{texts} texts, at most {most} are due; {locked} locks");
    server.stop().await;
}

/// Whatever keeps the places: a health check is answered at once, and the connections that have
/// waited longest are closed for it.
#[tokio::test(flavor = "multi_thread")]
async fn service_f100_a_health_check_is_answered_whoever_has_the_places() {
    many_files();
    let server = start(with_page(fresh())).await;
    let host = at(&server);
    let post = format!(
        "POST /api/login HTTP/1.1\r\nHost: {host}\r\nOrigin: http://{host}\r\n\
         Content-Type: application/json\r\nContent-Length: 9\r\n\r\n{{"
    );
    let asked = request(&server, "/healthz");
    let (crowd, checks) = (300, 2);
    for (kind, said, is_kept) in [
        ("silent", "", true),
        ("begins to ask", "GET /healthz HTTP/1.1\r\nHo", true),
        ("does not send its body", &*post, true),
        // These are answered, and then closed because there are many.
        ("has asked", &*asked, false),
        ("sends requests ahead", &*asked.repeat(100), false),
    ] {
        let mut all = Vec::new();
        for _ in 0..crowd {
            all.push(saying(&server, said).await);
        }
        for path in ["/healthz", "/readyz"] {
            assert_eq!(get(&server, path).await.status, 200, "{path}, {kind}");
        }
        let is_open = |stream: &&TcpStream| !is_closed(stream);
        let open = all[crowd + checks - PLACES..].iter().filter(is_open).count();
        assert!(
            !is_kept || open == PLACES - checks,
            "{kind}: it had to wait until {open} are left"
        );
        let wait = async {
            while is_kept && all[..crowd - PLACES].iter().any(|stream| !is_closed(stream)) {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        within(wait).await;
    }
    server.stop().await;
}

/// Silent connections without end, each in the place of another.
#[tokio::test(flavor = "multi_thread")]
async fn service_f100_health_checks_are_answered_while_silent_connections_come() {
    many_files();
    let server = start(with_page(fresh())).await;
    let page = at(&server);
    let flood = std::thread::spawn(move || {
        let mut last = std::collections::VecDeque::new();
        for _ in 0..8000 {
            last.extend(std::net::TcpStream::connect_timeout(&page, DEADLINE));
            if last.len() > 2 * PLACES {
                last.pop_front();
            }
        }
    });
    let mut checks = 0;
    while !flood.is_finished() || checks < 20 {
        assert_eq!(get(&server, "/healthz").await.status, 200, "check {checks}");
        checks += 1;
    }
    flood.join().expect("it ends");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn service_f100_from_half_of_the_places_on_connections_are_not_kept() {
    let server = start(with_page(fresh())).await;
    let (mut stream, mut rest) = (saying(&server, "").await, Vec::new());
    let asked = request(&server, "/healthz");
    let mut ask = async |expected: bool| {
        within(stream.write_all(asked.as_bytes())).await.expect("sent");
        let (head, body) = answer(&mut stream, &mut rest).await;
        assert_eq!(
            (&*body, head.contains("connection: close")),
            (&b"ok\n"[..], expected),
            "{head}"
        );
    };
    ask(false).await;
    let mut crowd = Vec::new();
    for _ in 0..=PLACES / 2 {
        crowd.push(saying(&server, "").await);
    }
    // The last of them is let in before this is, which comes after it.
    get(&server, "/healthz").await;
    ask(true).await;
    assert_eq!(within(stream.read(&mut [0])).await.expect("closed"), 0);
    server.stop().await;
}

/// Streams of anybody, as many as there may be; then an operator comes, and others come after.
#[tokio::test(flavor = "multi_thread")]
async fn service_f101_an_operator_gets_a_live_page_and_keeps_it() {
    many_files();
    let dir = tempfile::tempdir().expect("a directory");
    let (server, secret) = with_secret(&dir).await;
    let live = "/api/live?view=records";
    let opened = async |text: &str| {
        let (mut stream, mut heard) = (saying(&server, text).await, Vec::new());
        while !heard.windows(4).any(|it| it == b"\r\n\r\n") {
            assert!(within(stream.read_buf(&mut heard)).await.expect("read") > 0, "closed");
        }
        let status = String::from_utf8_lossy(&heard[9..12]).into_owned();
        (stream, status)
    };
    let mut streams = Vec::new();
    for _ in 0..64 {
        let (stream, status) = opened(&request(&server, live)).await;
        assert_eq!(status, "200");
        streams.push(stream);
    }
    assert_eq!(opened(&request(&server, live)).await.1, "503", "nobody in particular");
    let operator = Operator::log_in(&server, &secret).await;
    let ask = format!(
        "GET {live}&token={} HTTP/1.1\r\nHost: {}\r\nCookie: {}\r\n\r\n",
        operator.csrf,
        at(&server),
        operator.cookie
    );
    let (mut own, status) = opened(&ask).await;
    assert_eq!(status, "200", "the operator");
    let mut heard = Vec::new();
    while !heard.ends_with(b"\r\n0\r\n\r\n") {
        assert!(
            within(streams[0].read_buf(&mut heard)).await.expect("read") > 0,
            "the oldest ends"
        );
    }
    // Nor is it closed for those who come later, however many.
    let mut crowd = Vec::new();
    for _ in 0..2 * PLACES {
        crowd.push(saying(&server, &request(&server, live)).await);
    }
    assert_eq!(get(&server, "/healthz").await.status, 200);
    let mut heard = Vec::new();
    for _ in 0..2 {
        assert!(within(own.read_buf(&mut heard)).await.expect("read") > 0, "it was closed");
    }
    server.stop().await;
}
