//! A server that is sent nonsense on many connections answers whoever makes sense.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use argon2::{Algorithm, Argon2, Params, PasswordHasher as _, Version};
use lockspan_server::{Address, Config, Data, Server, ServerFiles};
use lockspan_tls::testing::Certificates;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::bytes_of::stream;
use crate::panics::Panics;
use crate::rng::Rng;
use crate::seeds;

const DEADLINE: Duration = Duration::from_secs(30);

/// Connections at a time.
const CROWD: usize = 8;

pub(crate) fn users(dir: &Path) -> std::path::PathBuf {
    let params = Params::new(8, 1, 1, None).expect("allowed");
    let argon = Argon2::new(Algorithm::Argon2id, Version::V0x13, params);
    let hash = argon.hash_password_with_salt(b"nna", b"lockspan").expect("hashed").to_string();
    let path = dir.join("users.toml");
    let user = |name: &str| {
        let rights = "write = [\"doc\"]\ninspect = [\"*\"]";
        format!("[users.{name}]\npassword = \"{hash}\"\n{rights}\n")
    };
    let text = user("ann") + &user("judge");
    std::fs::write(&path, text).expect("written");
    path
}

async fn connect(server: &Server) -> TcpStream {
    let Address::Tcp(at) = server.addresses()[0].clone() else { panic!("a port") };
    let stream = tokio::time::timeout(DEADLINE, TcpStream::connect(at)).await;
    stream.expect("in time").expect("connected")
}

/// Sends a stream in pieces, reads whatever comes, and goes; how much was read.
async fn bother(server: Arc<Server>, seed: u64) -> usize {
    let mut rng = Rng::new(seed);
    let (mut read, mut write) = connect(&server).await.into_split();
    let sent = stream(seed, &mut rng);
    let is_patient = !rng.one_in(4);
    let sending = tokio::spawn(async move {
        let mut rest = &sent[..];
        while !rest.is_empty() {
            let (part, after) = rest.split_at(1 + rng.below(rest.len().min(400)));
            rest = after;
            // It may have been cut off for what it said.
            if write.write_all(part).await.is_err() {
                return;
            }
        }
        let _ = write.shutdown().await;
    });
    let mut heard = Vec::new();
    if is_patient {
        let reading = tokio::time::timeout(DEADLINE, read.read_to_end(&mut heard)).await;
        // A reset is an end too; silence is not.
        let _ = reading.unwrap_or_else(|_| panic!("seed {seed}: the server does not close"));
    }
    drop(read);
    sending.await.expect("it ends");
    heard.len()
}

/// Whether the server still makes sense to somebody, and has forgotten all others.
async fn check(server: &Server, hello: &[u8], seed: u64) {
    let mut good = connect(server).await;
    good.write_all(hello).await.expect("sent");
    good.write_all(b"ECHO still-here\r\n").await.expect("sent");
    let mut heard = Vec::new();
    while !heard.windows(12).any(|part| part == b"still-here\r\n") {
        let mut some = [0; 4096];
        let read = tokio::time::timeout(DEADLINE, good.read(&mut some)).await;
        let read = read.unwrap_or_else(|_| panic!("seed {seed}: no answer")).expect("read");
        assert!(read > 0, "seed {seed}: closed after {}", heard.escape_ascii());
        heard.extend_from_slice(&some[..read]);
    }
    are_left(server, 1, seed).await;
}

/// All others are forgotten.
async fn are_left(server: &Server, count: u64, seed: u64) {
    let gone = async {
        while server.stats().connections > count {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    let gone = tokio::time::timeout(DEADLINE, gone).await;
    assert!(gone.is_ok(), "seed {seed}: connections are left behind");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_survives_anything() {
    let panics = Panics::count();
    let dir = tempfile::tempdir().expect("a directory");
    let made = Certificates::make(dir.path());
    let tls = ServerFiles { cert: made.pem("server"), key: made.key("server"), client_ca: None };
    let all = seeds(120);
    for (name, users, tls) in [
        ("everybody", None, None),
        ("users", Some(users(dir.path())), None),
        ("tls", None, Some(tls)),
    ] {
        let hello: &[u8] = if users.is_some() { b"AUTH judge nna\r\n" } else { b"" };
        let has_tls = tls.is_some();
        let server = Server::start(Config {
            listen: vec!["127.0.0.1:0".parse().expect("an address")],
            data: Data::None { fresh: true },
            users,
            tls,
            ..Config::default()
        });
        let server = Arc::new(server.await.expect("it starts"));
        if !has_tls {
            // Who has logged in once is not kept out by those who guess.
            check(&server, hello, all.start).await;
        }
        let mut heard = 0;
        for first in all.clone().step_by(CROWD) {
            let crowd = (first..all.end).take(CROWD);
            let crowd: Vec<_> =
                crowd.map(|seed| tokio::spawn(bother(Arc::clone(&server), seed))).collect();
            for one in crowd {
                heard += one.await.expect("it ends");
            }
            // With TLS nobody gets so far.
            if !has_tls {
                check(&server, hello, first).await;
            }
        }
        println!("live, {name}: seeds {all:?}, {heard} bytes of answers, {:?}", server.stats());
        server.stop().await;
        are_left(&server, 0, all.end).await;
    }
    assert_eq!(panics.so_far(), 0, "something panicked");
}
