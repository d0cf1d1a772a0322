//! How a server ends.

use std::time::Duration;

use lockspan_protocol::{Mode, ToNode};
use lockspan_server::{Address, Config, Data};
use lockspan_wire::{ErrorCode, Event, Value};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::client::{Client, acquire, fresh, start, until, within};

#[tokio::test(flavor = "multi_thread")]
async fn a_stop_is_announced_and_sessions_stay() {
    let dir = tempfile::tempdir().expect("a directory");
    let on = || Config { data: Data::Dir(dir.path().to_owned()), ..fresh() };
    let server = start(on()).await;
    let (mut node, mut client) = (Client::new(&server).await, Client::new(&server).await);
    let session = node.open_native(1).await;
    node.tell(session, &acquire("a:1", Mode::Write, 1, 1)).await;
    assert!(matches!(node.heard().await, ToNode::Granted { .. }));
    let waiting = client.open(&[]).await;
    client.send(&["LS.ACQUIRE", &waiting, "a:1", "W", "WAIT", "forever"]).await;
    until("it waits", || server.stats().claims == 2).await;
    within(server.stop()).await;
    within(server.wait()).await;
    within(server.stop()).await;
    loop {
        match node.event().await {
            (_, Event::Node(ToNode::Revoke { .. })) => {}
            (about, event) => {
                assert_eq!((about, event), (session, Event::Stopping));
                break;
            }
        }
    }
    node.closed().await;
    let Value::Error { code, .. } = client.reply().await else { panic!("not an error") };
    assert_eq!(code, ErrorCode::Loading);
    client.closed().await;

    let server = start(on()).await;
    let mut node = Client::new(&server).await;
    node.tell(session, &lockspan_protocol::ToServer::KeepAlive { number: 1 }).await;
    assert!(matches!(node.heard().await, ToNode::Serving(_)), "it is listed");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_does_not_read_does_not_hold_up_a_stop() {
    let server = start(Config { stop_grace: Duration::from_millis(50), ..fresh() }).await;
    let mut client = Client::new(&server).await;
    let mut sent = 0;
    let text = "x".repeat(100_000);
    // Until the socket takes no more: nobody reads the echoes.
    while tokio::time::timeout(Duration::from_millis(200), client.send(&["ECHO", &text]))
        .await
        .is_ok()
    {
        sent += 1;
        assert!(sent < 10_000, "the server reads from a client that does not read");
    }
    within(server.stop()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_nobody_uses_ends() {
    let server = start(Config { idle_exit: Some(Duration::from_millis(50)), ..fresh() }).await;
    let mut client = Client::new(&server).await;
    let session = client.open(&[]).await;
    drop(client);
    until("the connection is gone", || server.stats().connections == 0).await;
    // The session still lives, so the server does too.
    let mut client = Client::new(&server).await;
    client.ask(&["LS.CLOSE", &session]).await;
    drop(client);
    within(server.wait()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dropped_server_closes_its_connections() {
    let server = start(fresh()).await;
    let mut client = Client::new(&server).await;
    drop(server);
    client.closed().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_sends_without_end_after_quit_is_answered_and_then_cut_off() {
    let server = start(fresh()).await;
    let Address::Tcp(at) = &server.addresses()[0] else { panic!("not a port") };
    let (mut read, mut write) =
        within(TcpStream::connect(at)).await.expect("connected").into_split();
    let flood = tokio::spawn(async move {
        write.write_all(b"QUIT\r\n").await.expect("sent");
        let more = vec![b'x'; 64 << 10];
        while write.write_all(&more).await.is_ok() {}
    });
    let mut said = Vec::new();
    within(read.read_to_end(&mut said)).await.expect("it says that it is done");
    assert_eq!(said, b"+OK\r\n");
    // It goes on sending; all the same its time is over some day.
    within(flood).await.expect("it was cut off");
    until("the connection is gone", || server.stats().connections == 0).await;
    server.stop().await;
}
