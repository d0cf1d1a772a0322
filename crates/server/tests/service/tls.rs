//! TLS, and what is not listened on without it.

use std::sync::Arc;

use bytes::BytesMut;
use lockspan_server::{Address, Config, Server, ServerFiles, StartError};
use lockspan_tls::ClientFiles;
use lockspan_tls::testing::Certificates;
use lockspan_wire::{Protocol, Value, put_command, put_value};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::pki_types::ServerName;

use crate::client::{Client, fresh, start, until, within};
use crate::users::users;

pub(crate) fn files(made: &Certificates, client_ca: bool) -> ServerFiles {
    ServerFiles {
        cert: made.pem("server"),
        key: made.key("server"),
        client_ca: client_ca.then(|| made.pem("ca")),
    }
}

pub(crate) fn trusting(made: &Certificates, own: Option<&str>) -> ClientFiles {
    ClientFiles {
        ca: Some(made.pem("ca")),
        cert: own.map(|name| made.pem(name)),
        key: own.map(|name| made.key(name)),
    }
}

pub(crate) async fn connect(server: &Server, files: &ClientFiles) -> std::io::Result<Client> {
    Ok(Client::on(Box::new(handshake(server, files).await?)))
}

async fn handshake(server: &Server, files: &ClientFiles) -> std::io::Result<TlsStream<TcpStream>> {
    let Address::Tcp(at) = server.addresses()[0].clone() else { panic!("a port") };
    let stream = within(TcpStream::connect(at)).await?;
    let connector = TlsConnector::from(files.load().expect("good files"));
    let name = ServerName::try_from("localhost").expect("a name");
    within(connector.connect(name, stream)).await
}

#[tokio::test(flavor = "multi_thread")]
async fn clients_speak_tls() {
    let dir = tempfile::tempdir().expect("a directory");
    let made = Certificates::make(dir.path());
    let server = start(Config { tls: Some(files(&made, false)), ..fresh() }).await;
    // Somebody who never ends the handshake holds nobody up.
    let Address::Tcp(at) = server.addresses()[0].clone() else { panic!("a port") };
    let _silent = within(TcpStream::connect(at)).await.expect("connected");
    let mut client = connect(&server, &trusting(&made, None)).await.expect("a handshake");
    client.ask(&["HELLO", "3"]).await;
    let session = client.open(&["LEASE", "30000"]).await;
    client.ask(&["LS.ACQUIRE", &session, "doc:1", "W"]).await;
    assert_eq!(client.ask(&["QUIT"]).await, Value::OK);
    client.closed().await;
    until("the connection is forgotten", || server.stats().connections == 0).await;
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_handshake_that_is_not_done_ends_with_the_server() {
    let dir = tempfile::tempdir().expect("a directory");
    let made = Certificates::make(dir.path());
    let server = start(Config { tls: Some(files(&made, false)), ..fresh() }).await;
    let Address::Tcp(at) = server.addresses()[0].clone() else { panic!("a port") };
    let silent = within(TcpStream::connect(at)).await.expect("connected");
    // Those who come are let in one after the other: so the first one is in.
    connect(&server, &trusting(&made, None)).await.expect("a handshake");
    server.stop().await;
    let connector = TlsConnector::from(trusting(&made, None).load().expect("good files"));
    let name = ServerName::try_from("localhost").expect("a name");
    let late = within(connector.connect(name, silent)).await;
    assert!(late.is_err(), "there is still somebody who answers");
}

/// More than any socket takes at once, both ways: the server meets a full one, and goes on.
#[tokio::test(flavor = "multi_thread")]
async fn every_byte_arrives() {
    let dir = tempfile::tempdir().expect("a directory");
    let made = Certificates::make(dir.path());
    let outbox = 64 << 20;
    let server = start(Config { tls: Some(files(&made, false)), outbox, ..fresh() }).await;
    let stream = handshake(&server, &trusting(&made, None)).await.expect("a handshake");
    let (mut reading, mut writing) = tokio::io::split(stream);
    let (mut sent, mut expected) = (BytesMut::new(), BytesMut::new());
    for number in 0..200 {
        let text = number.to_string().repeat(40_000);
        put_command(&[b"ECHO", text.as_bytes()], &mut sent);
        put_value(&Value::bulk(text), Protocol::Resp2, &mut expected);
    }
    let writer = tokio::spawn(async move {
        writing.write_all(&sent).await.expect("sent");
        // Bytes that a full socket did not take are in the client's own buffer.
        writing.flush().await.expect("all of it");
        writing
    });
    let mut heard = BytesMut::new();
    while heard.len() < expected.len() {
        assert!(within(reading.read_buf(&mut heard)).await.expect("read") > 0, "closed");
    }
    assert!(heard == expected, "some bytes are others");
    within(writer).await.expect("all was sent");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_does_not_speak_it_is_told_so() {
    let dir = tempfile::tempdir().expect("a directory");
    let made = Certificates::make(dir.path());
    let server = start(Config { tls: Some(files(&made, false)), ..fresh() }).await;
    let mut plain = Client::raw(&server.addresses()[0]).await;
    plain.send(&["PING"]).await;
    let said = plain.bytes_until("\r\n").await;
    assert!(said.starts_with("-ERR this port requires TLS"), "{said}");
    plain.closed().await;
    let other = ClientFiles { ca: Some(made.pem("other")), ..ClientFiles::default() };
    let why = connect(&server, &other).await.err().expect("not trusted").to_string();
    assert!(why.contains("UnknownIssuer"), "{why}");
    server.stop().await;
    let server = start(fresh()).await;
    connect(&server, &trusting(&made, None)).await.err().expect("no TLS is spoken there");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn clients_show_certificates_where_they_have_to() {
    let dir = tempfile::tempdir().expect("a directory");
    let made = Certificates::make(dir.path());
    let server = start(Config { tls: Some(files(&made, true)), ..fresh() }).await;
    let mut good = connect(&server, &trusting(&made, Some("client"))).await.expect("let in");
    assert_eq!(good.ask(&["PING"]).await, Value::status("PONG"));
    for own in [None, Some("stranger")] {
        // The client hears of it with the handshake, or when it reads.
        if let Ok(mut client) = connect(&server, &trusting(&made, own)).await {
            client.closed().await;
        }
    }
    assert_eq!(server.stats().connections, 1);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn other_machines_reach_only_what_has_tls_and_users() {
    let dir = tempfile::tempdir().expect("a directory");
    let made = Certificates::make(dir.path());
    let (tls, users) = (Some(files(&made, false)), Some(users(dir.path())));
    for (has_tls, has_users, insecure, why) in [
        (false, false, false, Some("there is neither TLS nor any user")),
        (true, false, false, Some("there are no users")),
        (false, true, false, Some("there is no TLS")),
        (true, true, false, None),
        (false, false, true, None),
    ] {
        for address in ["0.0.0.0:0", "[::]:0"] {
            let config = Config {
                listen: vec![address.parse().expect("an address")],
                tls: tls.clone().filter(|_| has_tls),
                users: users.clone().filter(|_| has_users),
                insecure,
                ..fresh()
            };
            let started = within(Server::start(config)).await;
            match (started, why) {
                (Ok(server), None) => server.stop().await,
                (Err(said), Some(why)) => {
                    assert!(matches!(said, StartError::NotLoopback { .. }), "{said}");
                    let said = said.to_string();
                    assert!(said.contains(address) && said.contains(why), "{said}");
                }
                (started, _) => panic!("{address}: {started:?} instead of {why:?}"),
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn bad_certificates_stop_the_start() {
    let dir = tempfile::tempdir().expect("a directory");
    let made = Certificates::make(dir.path());
    let good = files(&made, false);
    for (tls, why) in [
        (ServerFiles { key: made.key("client"), ..good.clone() }, "does not work with the key"),
        (ServerFiles { cert: made.key("ca"), ..good.clone() }, "there is no certificate in it"),
        (ServerFiles { key: dir.path().join("gone"), ..good.clone() }, "can't read it"),
        (ServerFiles { client_ca: Some(made.key("ca")), ..good }, "there is no certificate in it"),
    ] {
        let started = within(Server::start(Config { tls: Some(tls), ..fresh() })).await;
        let said = started.expect_err(why).to_string();
        assert!(said.starts_with("tls: ") && said.contains(why), "{said}");
    }
}

/// Many at once, on both sides, while the clients change the version of RESP.
#[tokio::test(flavor = "multi_thread")]
async fn many_connections_share_a_session_over_tls() {
    let dir = tempfile::tempdir().expect("a directory");
    let made = Certificates::make(dir.path());
    let server = Arc::new(start(Config { tls: Some(files(&made, false)), ..fresh() }).await);
    let trusted = trusting(&made, None);
    let mut first = connect(&server, &trusted).await.expect("a handshake");
    first.ask(&["HELLO", "3"]).await;
    let session = first.open(&["LEASE", "30000"]).await;
    let one = |number: u32| {
        let (server, trusted, session) = (Arc::clone(&server), trusted.clone(), session.clone());
        tokio::spawn(async move {
            let mut client = connect(&server, &trusted).await.expect("a handshake");
            client.ask(&["HELLO", "3"]).await;
            let record = format!("doc:{number}");
            for _ in 0..50 {
                let granted = client.ask(&["LS.ACQUIRE", &session, &record, "W"]).await;
                let seq = crate::client::number(&granted, "seq").to_string();
                let released = client.ask(&["LS.RELEASE", &session, &record, &seq]).await;
                assert_eq!(released, Value::Int(1));
            }
        })
    };
    let all: Vec<_> = (0..8).map(one).collect();
    for one in all {
        one.await.expect("all of it was done");
    }
    server.stop().await;
}
