//! A small browser for tests, and what the server answers to whom.

use std::net::SocketAddr;

use lockspan_server::{Config, Http, Server};
use serde_json::Value as Json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::client::{fresh, start, within};

/// A server with a page on a free port.
pub(crate) fn with_page(config: Config) -> Config {
    let at = SocketAddr::from(([127, 0, 0, 1], 0));
    Config { http: Some(Http { at, required: true }), ..config }
}

/// What came back.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Answer {
    pub(crate) fn json(&self) -> Json {
        serde_json::from_str(&self.body).unwrap_or_else(|why| panic!("{why}: {self:?}"))
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let lines = self.head.lines().filter_map(|line| line.split_once(": "));
        let mut found = lines.filter(|(known, _)| known.eq_ignore_ascii_case(name));
        found.next().map(|(_, value)| value)
    }
}

/// Sends a request with these headers and no others.
pub(crate) async fn send(
    server: &Server,
    request: &str,
    headers: &[(&str, &str)],
    body: &str,
) -> Answer {
    let at = server.http_address().expect("it has a page");
    let mut stream = within(TcpStream::connect(at)).await.expect("connected");
    let mut text = format!("{request} HTTP/1.1\r\nConnection: close\r\n");
    for (name, value) in headers {
        text.push_str(&format!("{name}: {value}\r\n"));
    }
    if !body.is_empty() {
        text.push_str(&format!("Content-Length: {}\r\n", body.len()));
    }
    text.push_str(&format!("\r\n{body}"));
    within(stream.write_all(text.as_bytes())).await.expect("sent");
    let mut answer = Vec::new();
    within(stream.read_to_end(&mut answer)).await.expect("read");
    let answer = String::from_utf8(answer).expect("text");
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head and a body");
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
    Answer { status: status.expect("a status"), head: head.to_owned(), body: body.to_owned() }
}

/// What a browser that was sent here by its user gets.
pub(crate) async fn get(server: &Server, path: &str) -> Answer {
    let host = server.http_address().expect("it has a page").to_string();
    send(server, &format!("GET {path}"), &[("Host", &host)], "").await
}

#[tokio::test(flavor = "multi_thread")]
async fn the_page_comes_with_all_it_needs_and_from_nowhere_else() {
    let server = start(with_page(fresh())).await;
    let page = get(&server, "/").await;
    assert_eq!(page.status, 200);
    let policy = page.header("content-security-policy").expect("a policy");
    for part in ["default-src 'none'", "script-src 'self'", "frame-ancestors 'none'"] {
        assert!(policy.contains(part), "{policy}");
    }
    assert_eq!(page.header("x-content-type-options"), Some("nosniff"));
    let addresses = page.body.split(['"', '\'']).filter(|text| text.starts_with('/'));
    for address in addresses.filter(|text| text.contains('.')) {
        assert_eq!(get(&server, address).await.status, 200, "{address}");
    }
    for file in ["/", "/app.js", "/parts.js", "/graph.js", "/style.css", "/draw.js", "/icon.svg"] {
        let text = get(&server, file).await.body;
        let foreign = text.replace("http://www.w3.org/2000/svg", "");
        assert!(!foreign.contains("http://") && !foreign.contains("https://"), "{file}");
    }
    assert!(!page.body.contains("style=") && !page.body.contains("<script>"), "inline code");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn only_its_own_page_is_answered() {
    let server = start(with_page(fresh())).await;
    let at = server.http_address().expect("it has a page");
    let host = at.to_string();
    let (ours, other) = (format!("http://{host}"), "http://evil.example");
    let (port, path) = (at.port(), "GET /api/view?view=records");
    let named = format!("localhost:{port}");
    let status = async |request: &str, headers: &[(&str, &str)]| {
        send(&server, request, headers, "").await.status
    };
    for host in [&host, &named] {
        assert_eq!(status(path, &[("Host", host)]).await, 200);
    }
    // DNS rebinding: the name of another host stands for this machine.
    for host in ["evil.example", &format!("evil.example:{port}"), "127.0.0.1", ""] {
        assert_eq!(status(path, &[("Host", host)]).await, 421, "{host:?}");
        assert_eq!(status("GET /metrics", &[("Host", host)]).await, 421, "{host:?}");
    }
    assert_eq!(status(path, &[("Host", &host), ("Host", &host)]).await, 400);
    assert_eq!(status(path, &[("Host", &host), ("Origin", &ours)]).await, 200);
    assert_eq!(status(path, &[("Host", &host), ("Origin", other)]).await, 403);
    assert_eq!(status(path, &[("Host", &host), ("Origin", "null")]).await, 403);
    for (site, expected) in
        [("same-origin", 200), ("none", 200), ("cross-site", 403), ("same-site", 403)]
    {
        let headers = [("Host", &*host), ("Sec-Fetch-Site", site)];
        assert_eq!(status(path, &headers).await, expected, "{site}");
    }
    // A link to the page is no crime.
    let link = [("Host", &*host), ("Sec-Fetch-Site", "cross-site")];
    assert_eq!(status("GET /", &link).await, 200);
    // An address that names another host is for that one, whatever Host says.
    let whole = |host: &str| format!("GET http://{host}/api/view?view=records");
    assert_eq!(status(&whole(&host), &[("Host", &host)]).await, 200);
    assert_eq!(status(&whole("evil.example"), &[("Host", &host)]).await, 400);
    assert_eq!(status(&whole(&host), &[("Host", "evil.example")]).await, 421);
    assert_eq!(status(path, &[]).await, 421, "no host at all");
    // Who sends something has to say where it comes from.
    let login = "POST /api/login";
    let kind = ("Content-Type", "application/json");
    assert_eq!(send(&server, login, &[("Host", &host), kind], "{}").await.status, 403);
    let from = ("Origin", &*ours);
    assert_eq!(send(&server, login, &[("Host", &host), kind, from], "{}").await.status, 400);
    let form = ("Content-Type", "text/plain");
    assert_eq!(send(&server, login, &[("Host", &host), form, from], "{}").await.status, 415);
    for (request, expected) in [
        ("GET /api/view", 400),
        ("GET /api/view?view=records&count=201", 400),
        ("GET /api/view?view=records&page=x", 400),
        ("GET /api/view?view=record&name=doc", 400),
        ("GET /api/live?view=nothing", 400),
        ("GET /nothing", 404),
        ("GET /../etc/passwd", 404),
        ("GET /%2e%2e/app.js", 404),
        ("GET //app.js", 404),
        ("GET /app.js%00", 404),
        ("GET /api/view?view=record&name=%", 400),
        ("GET /api/view?view=record&name=a%3A%zz%f", 200),
        ("GET /api/view?view=records&view=graph", 200),
        ("GET /api/view?view=session&id=18446744073709551615", 400),
        ("GET /api/view?view=session&id=-1", 400),
        ("DELETE /", 405),
        ("OPTIONS /api/login", 405),
        ("TRACE /", 405),
        ("BREW /", 405),
    ] {
        let answer = send(&server, request, &[("Host", &host), from], "").await;
        assert_eq!(answer.status, expected, "{request}: {answer:?}");
        assert_eq!(answer.header("allow").is_some(), expected == 405, "{request}");
        assert!(answer.header("access-control-allow-origin").is_none());
    }
    let long = format!("GET /api/view?view=records&match={}", "x".repeat(600));
    assert_eq!(status(&long, &[("Host", &host)]).await, 400);
    for path in ["/", "/metrics", "/api/view?view=records", "/api/live?view=records"] {
        let answer = send(&server, &format!("HEAD {path}"), &[("Host", &host)], "").await;
        assert!(answer.status == 200 && answer.body.is_empty(), "{path}: {answer:?}");
    }
    let big = format!("\"{}\"", "x".repeat(20_000));
    assert_eq!(send(&server, login, &[("Host", &host), kind, from], &big).await.status, 413);
    let deep = "[".repeat(10_000);
    assert_eq!(send(&server, login, &[("Host", &host), kind, from], &deep).await.status, 400);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_request_does_no_harm() {
    let server = start(with_page(fresh())).await;
    let at = server.http_address().expect("it has a page");
    let long = format!("GET /{} HTTP/1.1\r\n\r\n", "x".repeat(100_000));
    for bytes in [&b"\0\xff\xfe"[..], b"\r\n\r\n\r\n", b"*1\r\n$4\r\nPING\r\n", long.as_bytes()] {
        let mut stream = within(TcpStream::connect(at)).await.expect("connected");
        // It may close before it has read all of it.
        let _ = within(stream.write_all(bytes)).await;
        let _ = within(stream.shutdown()).await;
        let mut answer = Vec::new();
        let _ = within(stream.read_to_end(&mut answer)).await;
        let text = String::from_utf8_lossy(&answer);
        assert!(text.is_empty() || text.starts_with("HTTP/1.1 4"), "{text}");
    }
    assert_eq!(get(&server, "/healthz").await.body, "ok\n");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_port_that_is_taken_is_an_error_or_a_warning() {
    let first = start(with_page(fresh())).await;
    let at = first.http_address().expect("it has a page");
    let taken = |required| Config { http: Some(Http { at, required }), ..fresh() };
    let why = within(Server::start(taken(true))).await.expect_err("it is taken").to_string();
    assert!(why.contains(&at.to_string()) && why.contains("--http none"), "{why}");
    let second = start(taken(false)).await;
    assert_eq!(second.http_address(), None);
    second.stop().await;
    let at = SocketAddr::from(([0, 0, 0, 0], 0));
    let open = Config { http: Some(Http { at, required: false }), ..fresh() };
    let why = within(Server::start(open)).await.expect_err("not for all").to_string();
    assert!(why.contains("SSH"), "{why}");
    first.stop().await;
}
