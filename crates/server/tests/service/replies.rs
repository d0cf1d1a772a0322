//! Replies: in the version of their command, before a connection ends, and never more than is true.

use std::time::Duration;

use lockspan_protocol::{Handoff, Mode, Seq, SessionId, ToNode, ToServer};
use lockspan_wire::{ErrorCode, Event, Value};

use crate::client::{Client, acquire, fresh, number, record, release, start, until, word};

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

#[tokio::test(flavor = "multi_thread")]
async fn a_session_that_is_opened_again_is_told_what_is_left_of_its_lease() {
    let server = start(fresh()).await;
    let mut client = Client::new(&server).await;
    let open = ["LS.OPEN", "LEASE", "30000", "SESSION", "7"];
    assert_eq!(number(&client.ask(&open).await, "lease-ms"), 30_000);
    let left = |sessions: Value| match sessions {
        Value::Array(all) => number(&all[0], "left-ms"),
        other => panic!("no list: {other:?}"),
    };
    let mut before = 30_000;
    while before > 29_990 {
        before = left(client.ask(&["LS.SESSIONS"]).await);
    }
    let told = number(&client.ask(&open).await, "lease-ms");
    let after = left(client.ask(&["LS.SESSIONS"]).await);
    assert!((after..=before).contains(&told), "{told} is not between {after} and {before}");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_listens_hears_that_a_session_is_open_although_a_command_asked() {
    let server = start(fresh()).await;
    let (mut node, mut client) = (Client::new(&server).await, Client::new(&server).await);
    let (session, ttl) = (SessionId(7), Duration::from_secs(30));
    let open = ToServer::Open { ttl, handoff: Handoff::Direct };
    node.tell(session, &open).await;
    assert!(matches!(node.heard().await, ToNode::Opened { .. }));
    let again = ["LS.OPEN", "LEASE", "30000", "SESSION", "7", "EVENTS", "push"];
    assert_eq!(word(&client.ask(&again).await, "session"), "7");
    assert!(matches!(node.heard().await, ToNode::Opened { .. }));
    let (replies, events) = client.settle().await;
    assert_eq!((replies, events), (vec![], vec![]), "the reply has said it");
    node.tell(session, &open).await;
    let opened = |event| matches!(event, Event::Node(ToNode::Opened { .. }));
    assert!(opened(client.event().await.1), "here it is an event");
    server.stop().await;
}

/// Whoever listens for a session hears what other connections do to it; who does it has the reply.
#[tokio::test(flavor = "multi_thread")]
async fn whoever_listens_hears_what_another_connection_ends() {
    let server = start(fresh()).await;
    let (mut node, mut client) = (Client::new(&server).await, Client::new(&server).await);
    let mut listener = Client::new(&server).await;
    let session = node.open_native_for(7, Duration::from_secs(30)).await;
    node.tell(session, &acquire("a:1", Mode::Write, 1, 1)).await;
    assert!(matches!(node.heard().await, ToNode::Granted { .. }));
    listener.ask(&["LS.EVENTS", "7", "push"]).await;
    let told = |name: &str, seq| (record(name), Seq(seq));
    let released = |(record, seq)| Event::Released { record, seq };
    let lost = |(record, seq)| ToNode::Lost { record, seq };

    // A write that becomes a read is not what it was; a number that is over ends nothing.
    let read = client.ask(&["LS.CONVERT", "7", "a:1", "1", "R"]).await;
    assert_eq!(node.heard().await, lost(told("a:1", 1)));
    assert_eq!(listener.event().await.1, released(told("a:1", 1)));
    assert_eq!(client.ask(&["LS.RELEASE", "7", "a:1", "1"]).await, Value::Int(0));
    let seq = number(&read, "seq");
    client.ask(&["LS.RELEASE", "7", "a:1", &seq.to_string()]).await;
    let seq = u64::try_from(seq).expect("a seq");
    assert_eq!(node.heard().await, lost(told("a:1", seq)));
    assert_eq!(listener.event().await.1, released(told("a:1", seq)));

    // The node's own release is told to the listener alone.
    node.tell(session, &acquire("a:2", Mode::Write, 50, 1)).await;
    assert!(matches!(node.heard().await, ToNode::Granted { .. }));
    assert!(matches!(listener.event().await.1, Event::Node(ToNode::Granted { .. })));
    node.tell(session, &release("a:2", 50)).await;
    assert_eq!(listener.event().await.1, released(told("a:2", 50)));
    assert_eq!(node.settle().await, (vec![], vec![]));

    // A close is told to all but who closes, once.
    client.ask(&["LS.EVENTS", "7", "push"]).await;
    assert_eq!(client.ask(&["LS.CLOSE", "7"]).await, Value::OK);
    assert_eq!(node.heard().await, ToNode::NoSession);
    assert_eq!(listener.event().await.1, Event::Node(ToNode::NoSession));
    until("it is over", || server.stats().sessions == 0).await;
    for client in [&mut node, &mut listener, &mut client] {
        assert_eq!(client.settle().await, (vec![], vec![]));
    }
    server.stop().await;
}

/// The replies are more than the sockets hold, so the server has not read the last command when it
/// learns that nobody hears the replies.
#[tokio::test(flavor = "multi_thread")]
async fn service_f122_what_a_client_said_before_it_closed_is_carried_out() {
    let server = start(fresh()).await;
    let mut other = Client::new(&server).await;
    let waiting = other.open(&["LEASE", "60000"]).await;
    for last in ["LS.RELEASE", "LS.CLOSE"] {
        let mut client = Client::new(&server).await;
        let session = client.open(&["LEASE", "60000"]).await;
        let granted = client.ask(&["LS.ACQUIRE", &session, "a:1", "W"]).await;
        let seq = number(&granted, "seq").to_string();
        let info = b"INFO\r\n".repeat(8_000);
        client.send_bytes(&info).await;
        match last {
            "LS.RELEASE" => client.send(&[last, &session, "a:1", &seq]).await,
            _ => client.send(&[last, &session]).await,
        }
        drop(client);
        let granted = other.ask(&["LS.ACQUIRE", &waiting, "a:1", "W", "WAIT", "forever"]).await;
        let seq = number(&granted, "seq").to_string();
        other.ask(&["LS.RELEASE", &waiting, "a:1", &seq]).await;
    }
    server.stop().await;
}
