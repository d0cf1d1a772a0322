//! Replies: in the version of their command, before a connection ends, and never more than is true.

use lockspan_wire::{ErrorCode, Value};

use crate::client::{Client, fresh, number, start, until, word};

#[tokio::test(flavor = "multi_thread")]
async fn a_reply_that_waits_is_in_the_version_of_its_command() {
    let server = start(fresh()).await;
    let (mut one, mut two) = (Client::new(&server).await, Client::new(&server).await);
    let (a, b) = (one.open(&[]).await, two.open(&[]).await);
    one.ask(&["LS.ACQUIRE", &a, "a:1", "W", "SEQ", "1"]).await;
    let mut old = Client::raw(&server.addresses()[0]).await;
    old.send(&["LS.ACQUIRE", &b, "a:1", "W", "WAIT", "forever"]).await;
    old.send(&["HELLO", "3"]).await;
    old.send(&["LS.ACQUIRE", &b, "a:2", "W", "WAIT", "forever"]).await;
    until("both are there", || server.stats().claims == 3).await;
    one.ask(&["LS.RELEASE", &a, "a:1", "1"]).await;
    let Value::Array(flat) = old.reply().await else { panic!("RESP2 has no maps") };
    assert_eq!(flat[..2], [Value::bulk("status"), Value::bulk("granted")]);
    assert_eq!(number(&old.reply().await, "proto"), 3, "HELLO itself is in the new version");
    assert_eq!(word(&old.reply().await, "status"), "granted");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_goodbye_lets_the_replies_before_it_out() {
    let server = start(fresh()).await;
    let (mut one, mut two) = (Client::new(&server).await, Client::new(&server).await);
    let (a, b) = (one.open(&[]).await, two.open(&[]).await);
    one.ask(&["LS.ACQUIRE", &a, "a:1", "W"]).await;
    for last in [&b"QUIT\r\n"[..], b"*1\r\n:5\r\n"] {
        let mut client = Client::new(&server).await;
        client.send(&["LS.ACQUIRE", &b, "a:1", "W", "WAIT", "50"]).await;
        client.send(&["ECHO", "after"]).await;
        client.send_bytes(last).await;
        assert_eq!(client.reply().await, Value::Null, "the wait is over");
        assert_eq!(client.reply().await, Value::bulk("after"));
        match client.reply().await {
            Value::Error { text, .. } => assert!(text.starts_with("Protocol error"), "{text}"),
            other => assert_eq!(other, Value::OK),
        }
        client.closed().await;
    }
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_goodbye_does_not_wait_for_ever() {
    let server = start(fresh()).await;
    let (mut one, mut two) = (Client::new(&server).await, Client::new(&server).await);
    let (a, b) = (one.open(&[]).await, two.open(&[]).await);
    one.ask(&["LS.ACQUIRE", &a, "a:1", "W", "SEQ", "1"]).await;
    two.send(&["LS.ACQUIRE", &b, "a:1", "W", "WAIT", "forever"]).await;
    two.send(&["QUIT"]).await;
    let Value::Error { code, text } = two.reply().await else { panic!("nobody released it") };
    assert!(code == ErrorCode::Err && text.contains("withdrawn"), "{text}");
    assert_eq!(two.reply().await, Value::OK);
    two.closed().await;
    assert_eq!(server.stats().claims, 1, "it waits no more");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_last_word_is_read_although_more_was_sent_than_is_looked_at() {
    let server = start(fresh()).await;
    let mut client = Client::raw(&server.addresses()[0]).await;
    // More than the sockets keep: who is still sending must not be cut off before it can read.
    let mut bytes = b"*1\r\n:5\r\n".to_vec();
    bytes.resize(32 << 20, b'x');
    client.send_bytes(&bytes).await;
    let Value::Error { text, .. } = client.reply().await else { panic!("not an error") };
    assert!(text.starts_with("Protocol error"), "{text}");
    client.closed().await;
    server.stop().await;
}
