//! A page that is asked nonsense on many connections answers whoever makes sense.
//!
//! Whatever was sent, each answer is whole: a status that we know, and the headers that keep a
//! browser safe.

use std::sync::Arc;
use std::time::Duration;

use lockspan_server::{Config, Data, Http, Server};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::live::users;
use crate::panics::Panics;
use crate::requests::requests;
use crate::rng::Rng;
use crate::seeds;

const DEADLINE: Duration = Duration::from_secs(30);

/// Connections at a time.
const CROWD: usize = 8;

async fn connect(server: &Server) -> TcpStream {
    let at = server.http_address().expect("it has a page");
    let stream = tokio::time::timeout(DEADLINE, TcpStream::connect(at)).await;
    stream.expect("in time").expect("connected")
}

/// Sends some requests in pieces; the answers.
async fn bother(server: Arc<Server>, seed: u64) -> Vec<u8> {
    let mut rng = Rng::new(seed);
    let host = server.http_address().expect("it has a page").to_string();
    let sent = requests(&host, &mut rng);
    let (mut read, mut write) = connect(&server).await.into_split();
    let sending = tokio::spawn(async move {
        let mut rest = &sent[..];
        while !rest.is_empty() {
            let (part, after) = rest.split_at(1 + rng.below(rest.len().min(2000)));
            rest = after;
            // It may have been closed for what it said.
            if write.write_all(part).await.is_err() {
                break;
            }
        }
        write
    });
    let write = sending.await.expect("it ends");
    let mut heard = Vec::new();
    // Events go on forever, and a body that does not come is waited for: so a little is enough.
    let some = tokio::time::timeout(Duration::from_millis(30), read.read_to_end(&mut heard)).await;
    drop((some, write));
    heard
}

/// What is in an answer that should not be, or is not that should.
fn check_answers(heard: &[u8], seed: u64) -> usize {
    let text = String::from_utf8_lossy(heard);
    let mut count = 0;
    for (at, _) in text.match_indices("HTTP/1.") {
        // Not the text of a page.
        let is_first = at == 0 || text[..at].ends_with(['\n', '}']);
        let Some((head, _)) = text[at..].split_once("\r\n\r\n") else { continue };
        let status = head.get(9..12).unwrap_or_default();
        if !is_first || !head.starts_with("HTTP/1.1 ") && !head.starts_with("HTTP/1.0 ") {
            continue;
        }
        count += 1;
        let known = [
            "100", "200", "400", "401", "403", "404", "405", "408", "409", "413", "414", "415",
            "421", "429", "431", "503", "505",
        ];
        assert!(known.contains(&status), "seed {seed}: {head}");
        // Those that hyper gives by itself have no body.
        let is_bare = head.to_ascii_lowercase().contains("content-length: 0") || status == "100";
        if !is_bare {
            for header in ["content-security-policy: default-src 'none'", "nosniff", "no-store"] {
                assert!(head.contains(header), "seed {seed}: {header} is missing: {head}");
            }
        }
        assert!(!head.contains("set-cookie") || status == "200", "seed {seed}: {head}");
        assert!(!head.to_ascii_lowercase().contains("access-control"), "seed {seed}: {head}");
    }
    count
}

async fn check(server: &Server, seed: u64) {
    let mut good = connect(server).await;
    let host = server.http_address().expect("it has a page");
    let ask = format!("GET /healthz HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
    good.write_all(ask.as_bytes()).await.expect("sent");
    let mut heard = Vec::new();
    let read = tokio::time::timeout(DEADLINE, good.read_to_end(&mut heard)).await;
    read.unwrap_or_else(|_| panic!("seed {seed}: no answer")).expect("read");
    assert!(heard.starts_with(b"HTTP/1.1 200"), "seed {seed}: {}", heard.escape_ascii());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_survives_anything() {
    let panics = Panics::count();
    let dir = tempfile::tempdir().expect("a directory");
    let all = seeds(160);
    for (name, users) in [("everybody", None), ("users", Some(users(dir.path())))] {
        let at = ([127, 0, 0, 1], 0).into();
        let server = Server::start(Config {
            listen: vec!["127.0.0.1:0".parse().expect("an address")],
            data: Data::None { fresh: true },
            http: Some(Http { at, required: true }),
            users,
            ..Config::default()
        });
        let server = Arc::new(server.await.expect("it starts"));
        let (mut bytes, mut answers) = (0, 0);
        for first in all.clone().step_by(CROWD) {
            let crowd = (first..all.end).take(CROWD);
            let crowd: Vec<_> =
                crowd.map(|seed| (seed, tokio::spawn(bother(Arc::clone(&server), seed)))).collect();
            for (seed, one) in crowd {
                let heard = one.await.expect("it ends");
                bytes += heard.len();
                answers += check_answers(&heard, seed);
            }
            check(&server, first).await;
        }
        println!("http, {name}: seeds {all:?}, {answers} answers, {bytes} bytes");
        assert!(answers > 0, "somebody was answered");
        server.stop().await;
    }
    assert_eq!(panics.so_far(), 0, "something panicked");
}
