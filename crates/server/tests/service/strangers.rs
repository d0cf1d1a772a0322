//! Who has yet to log in stays for a moment, costs little, and keeps nobody else out.

use std::time::Duration;

use lockspan_server::{Address, Config, Server};
use lockspan_tls::testing::Certificates;
use lockspan_wire::Value;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_rustls::rustls::ClientConnection;
use tokio_rustls::rustls::pki_types::ServerName;

use crate::client::{fresh, start, until, within};
use crate::tls::{connect, files, trusting};
use crate::users::{as_user, users};

async fn with_login_within(time: Duration) -> (Server, tempfile::TempDir) {
    let dir = tempfile::tempdir().expect("a directory");
    let users = Some(users(dir.path()));
    (start(Config { users, login_within: time, ..fresh() }).await, dir)
}

async fn socket(server: &Server) -> TcpStream {
    let Address::Tcp(at) = server.addresses()[0].clone() else { panic!("a port") };
    within(TcpStream::connect(at)).await.expect("connected")
}

/// Neither talking without end nor `RESET` gives a stranger more time.
#[tokio::test(flavor = "multi_thread")]
async fn a_stranger_who_talks_without_end_is_closed() {
    let (server, _dir) = with_login_within(Duration::from_millis(300)).await;
    let mut stranger = socket(&server).await;
    let (words, mut heard) = (b"PING\r\nRESET\r\n".repeat(20), vec![0; 64 << 10]);
    within(async {
        while stranger.write_all(&words).await.is_ok()
            && matches!(stranger.read(&mut heard).await, Ok(1..))
        {}
    })
    .await;
    until("the stranger is gone", || server.stats().connections == 0).await;
    assert_eq!(server.stats().slow_readers, 0, "it has read all of it");
    server.stop().await;
}

/// Little is kept for it, and when its socket is full it is not waited for.
#[tokio::test(flavor = "multi_thread")]
async fn a_stranger_who_does_not_read_is_closed() {
    let (server, _dir) = with_login_within(Duration::from_secs(2)).await;
    let (_reading, mut writing) = socket(&server).await.into_split();
    let talk =
        tokio::spawn(
            async move { while writing.write_all(&b"PING\r\n".repeat(100)).await.is_ok() {} },
        );
    until("it was let in", || server.stats().connections_total == 1).await;
    until("the stranger is gone", || server.stats().connections == 0).await;
    within(talk).await.expect("it ends");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn after_a_reset_there_is_time_for_another_login() {
    let time = Duration::from_secs(2);
    let (server, _dir) = with_login_within(time).await;
    let mut client = as_user(&server, "ann").await;
    tokio::time::sleep(time).await;
    assert_eq!(client.ask(&["RESET"]).await, Value::status("RESET"));
    assert_eq!(client.ask(&["AUTH", "ann", "nna"]).await, Value::OK);
    server.stop().await;
}

/// More than there may be handshakes, all from here: some are silent, some begin, and some wait
/// with their next word when the server has answered.
#[tokio::test(flavor = "multi_thread")]
async fn handshakes_that_never_end_keep_nobody_out() {
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit }).expect("allowed");
    let dir = tempfile::tempdir().expect("a directory");
    let made = Certificates::make(dir.path());
    let server = start(Config { tls: Some(files(&made, false)), ..fresh() }).await;
    let config = trusting(&made, None).load().expect("good files");
    let name = ServerName::try_from("localhost").expect("a name");
    let mut hello = Vec::new();
    let mut asking = ClientConnection::new(config, name).expect("a client");
    asking.write_tls(&mut hello).expect("written");
    let mut silent = Vec::new();
    for number in 0..600 {
        let mut one = socket(&server).await;
        match number % 3 {
            0 => within(one.write_all(b"\x16")).await.expect("sent"),
            1 => within(one.write_all(&hello)).await.expect("sent"),
            _ => {}
        }
        silent.push(one);
    }
    let mut client = connect(&server, &trusting(&made, None)).await.expect("a handshake");
    assert_eq!(client.ask(&["PING"]).await, Value::status("PONG"));
    drop(silent);
    server.stop().await;
}

/// As many silent connections as one place may have, and as there may be in all but one: whoever
/// comes after them, and logs in, is let in as soon as the oldest has had its second.
#[tokio::test(flavor = "multi_thread")]
async fn service_f116_silent_connections_keep_nobody_out() {
    let dir = tempfile::tempdir().expect("a directory");
    let users = Some(users(dir.path()));
    for (connections, count) in [(64, 16), (16, 15)] {
        let server = start(Config { users: users.clone(), connections, ..fresh() }).await;
        let mut silent = Vec::new();
        for _ in 0..count {
            silent.push(socket(&server).await);
        }
        until("they are let in", || server.stats().connections_total == count).await;
        tokio::time::sleep(Duration::from_millis(1_100)).await;
        let mut operator = as_user(&server, "root").await;
        assert_eq!(operator.ask(&["PING"]).await, Value::status("PONG"));
        // The first one was closed for it and hears why; the others were not.
        let mut heard = String::new();
        within(silent[0].read_to_string(&mut heard)).await.expect("closed");
        assert!(heard.starts_with("-LIMIT the connection did not log in"), "{heard:?}");
        until("it is gone", || server.stats().connections as u64 == count).await;
        server.stop().await;
    }
}
