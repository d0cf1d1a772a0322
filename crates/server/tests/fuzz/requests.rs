//! Requests of browsers that no browser sends.

use crate::rng::Rng;

const METHODS: &[&str] =
    &["GET", "HEAD", "POST", "OPTIONS", "PUT", "DELETE", "TRACE", "CONNECT", "get", "PRI", ""];

const PATHS: &[&str] = &[
    "/",
    "*",
    "/app.js",
    "/metrics",
    "/healthz",
    "/readyz",
    "/api/who",
    "/api/samples",
    "/api/live?view=records",
    "/api/live?view=graph&since=99999999999999999999",
    "/api/view?view=records&match=d%2a%3a&count=200&page=50&sort=age",
    "/api/view?view=records&only=waiting&match=%ff%00&sort=name",
    "/api/view?view=record&name=doc%3A1",
    "/api/view?view=record&name=%3a%zz%",
    "/api/view?view=sessions&after=1&match=*a*a*a*a*b",
    "/api/view?view=session&id=18446744073709551615",
    "/api/view?view=graph&token=x",
    "/api/login",
    "/api/logout",
    "/api/end-session",
    "/api/take-back",
    "/../../etc/passwd",
    "//evil.example/",
    "http://evil.example/",
    "/%2e%2e%2f",
];

const BODIES: &[&str] = &[
    "",
    "{}",
    "{\"user\":\"ann\",\"password\":\"nna\"}",
    "{\"user\":\"ann\",\"password\":\"\\u0000\"}",
    "{\"user\":{},\"password\":[]}",
    "{\"session\":\"1\"}",
    "{\"key\":\"doc%3A1\"}",
    "{\"key\":\"%ff%fe\"}",
    "[[[[[[[[[[[[[[[[",
    "\"\\ud800\"",
    "1e999",
];

const HEADERS: &[&str] = &[
    "Host: evil.example",
    "Host:",
    "Origin: null",
    "Origin: http://evil.example",
    "Sec-Fetch-Site: cross-site",
    "Content-Type: text/plain",
    "Cookie: ;;;=;a;lockspan-",
    "Cookie: \u{ff}=\u{ff}",
    "X-Lockspan-Csrf: 0",
    "Transfer-Encoding: chunked",
    "Transfer-Encoding: gzip, chunked",
    "Content-Length: 0",
    "Content-Length: -1",
    "Content-Length: 18446744073709551615",
    "Expect: 100-continue",
    "Upgrade: h2c",
    "Connection: upgrade, keep-alive",
    " folded: line",
    "a:b\u{0}",
];

const ODD: &[&[u8]] =
    &[b"\r\n", b"\n", b"\r", b"\0", b" ", b"%", b"\xff", b"HTTP/9.9", b"\r\n\r\n", b"\t", b":"];

/// Some requests one after the other, as to this host.
pub(crate) fn requests(host: &str, rng: &mut Rng) -> Vec<u8> {
    let mut bytes = Vec::new();
    for _ in 0..=rng.below(6) {
        request(host, rng, &mut bytes);
    }
    if rng.one_in(20) {
        let len = rng.below(300);
        bytes.extend((0..len).map(|_| rng.next() as u8));
    }
    if rng.one_in(6) {
        bytes.truncate(rng.below(bytes.len() + 1));
    }
    bytes
}

fn request(host: &str, rng: &mut Rng, out: &mut Vec<u8>) {
    let (path, body) = (rng.pick(PATHS), rng.pick(BODIES));
    let method = if path.starts_with("/api/") && !path.contains('?') && !rng.one_in(3) {
        "POST"
    } else if rng.one_in(5) {
        rng.pick(METHODS)
    } else {
        "GET"
    };
    let version = if rng.one_in(20) { rng.pick(&["HTTP/1.0", "HTTP/2.0", ""]) } else { "HTTP/1.1" };
    let mut text = format!("{method} {path} {version}\r\n");
    if !rng.one_in(12) {
        text.push_str(&format!("Host: {host}\r\n"));
    }
    if method == "POST" && !rng.one_in(8) {
        text.push_str(&format!("Origin: http://{host}\r\nContent-Type: application/json\r\n"));
    }
    while rng.one_in(3) {
        text.push_str(&format!("{}\r\n", rng.pick(HEADERS)));
    }
    if rng.one_in(30) {
        text.push_str(&format!("X-Long: {}\r\n", "x".repeat(rng.below(40_000))));
    }
    if rng.one_in(30) {
        text.push_str(&"X-Many: 1\r\n".repeat(rng.below(300)));
    }
    if !body.is_empty() && !rng.one_in(10) {
        text.push_str(&format!("Content-Length: {}\r\n", body.len()));
    }
    text.push_str(&format!("\r\n{body}"));
    let mut bytes = text.into_bytes();
    if rng.one_in(4) {
        for _ in 0..=rng.below(4) {
            let at = rng.below(bytes.len() + 1);
            match rng.below(3) {
                0 => drop(bytes.splice(at..at, rng.pick(ODD).iter().copied())),
                1 if at < bytes.len() => drop(bytes.remove(at)),
                _ if at < bytes.len() => bytes[at] ^= 1 << rng.below(8),
                _ => {}
            }
        }
    }
    out.extend(bytes);
}
