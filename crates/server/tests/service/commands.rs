//! What client libraries say when they connect.

use lockspan_wire::{ErrorCode, Event, Value};

use crate::client::{Client, field, fresh, number, start, word};

#[tokio::test(flavor = "multi_thread")]
async fn client_libraries_connect_without_complaint() {
    let server = start(fresh()).await;
    let mut client = Client::raw(&server.addresses()[0]).await;
    // Before HELLO it is RESP2, inline commands too.
    client.send_bytes(b"PING\r\n").await;
    assert_eq!(client.bytes_until("\r\n").await, "+PONG\r\n");
    client.send_bytes(b"*3\r\n$5\r\nHELLO\r\n$1\r\n2\r\n$0\r\n\r\n").await;
    assert!(client.bytes_until("\r\n").await.starts_with("-ERR"), "too many words");
    client.send_bytes(b"*2\r\n$5\r\nHELLO\r\n$1\r\n9\r\n").await;
    assert!(client.bytes_until("\r\n").await.starts_with("-NOPROTO"));
    client.send_bytes(b"CLIENT GETNAME\r\n").await;
    assert_eq!(client.bytes_until("\r\n").await, "$-1\r\n");

    let hello = client.ask(&["HELLO", "3", "SETNAME", "tester"]).await;
    assert_eq!((word(&hello, "server"), number(&hello, "proto")), ("lockspan".to_owned(), 3));
    assert_eq!(client.ask(&["CLIENT", "GETNAME"]).await, Value::bulk("tester"));
    for (words, reply) in [
        (&["PING"][..], Value::status("PONG")),
        (&["PING", "text"], Value::bulk("text")),
        (&["ECHO", "text"], Value::bulk("text")),
        (&["SELECT", "0"], Value::OK),
        (&["CLIENT", "SETINFO", "LIB-NAME", "tests"], Value::OK),
        (&["CLIENT", "SETINFO", "LIB-VER", "1"], Value::OK),
        (&["CLIENT", "NO-EVICT", "ON"], Value::OK),
        (&["CLIENT", "TRACKING", "OFF"], Value::OK),
    ] {
        assert_eq!(client.ask(words).await, reply, "{words:?}");
    }
    assert!(matches!(client.ask(&["CLIENT", "ID"]).await, Value::Int(1..)));
    let Value::Bulk(list) = client.ask(&["CLIENT", "LIST"]).await else { panic!("no list") };
    let list = String::from_utf8_lossy(&list).into_owned();
    assert!(list.contains("name=tester") && list.contains("lib-name=tests"), "{list}");
    assert!(matches!(client.ask(&["COMMAND"]).await, Value::Array(all) if !all.is_empty()));
    client.ask(&["COMMAND", "DOCS"]).await;

    for (words, part) in [
        (&["SELECT", "1"][..], "only database 0"),
        (&["AUTH", "secret"], "no users"),
        (&["HELLO", "3", "AUTH", "default", "secret"], "no users"),
        (&["GET", "x"], "GET"),
        (&["LS.ACQUIRE", "1", "nocolon", "R"], "nocolon"),
    ] {
        let (code, text) = client.refused(words).await;
        assert!(code == ErrorCode::Err && text.contains(part), "{words:?}: {text}");
    }
    assert_eq!(client.ask(&["RESET"]).await, Value::status("RESET"));
    assert_eq!(client.ask(&["QUIT"]).await, Value::OK);
    client.closed().await;
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_client_calls_itself_is_short() {
    let server = start(fresh()).await;
    let mut client = Client::new(&server).await;
    let (longest, long) = ("n".repeat(256), "n".repeat(257));
    for words in [
        &["HELLO", "3", "SETNAME"][..],
        &["CLIENT", "SETNAME"],
        &["CLIENT", "SETINFO", "LIB-NAME"],
        &["CLIENT", "SETINFO", "LIB-VER"],
    ] {
        let with = |name| [words, &[name]].concat();
        let reply = client.ask(&with(&longest)).await;
        assert!(!matches!(reply, Value::Error { .. }), "{words:?}: {reply:?}");
        let (code, text) = client.refused(&with(&long)).await;
        assert_eq!(code, ErrorCode::Err);
        assert!(text.contains("the name has 257 bytes; the maximum is 256"), "{words:?}: {text}");
    }
    // What was refused has changed nothing.
    assert_eq!(client.ask(&["CLIENT", "GETNAME"]).await, Value::bulk(longest));
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn info_has_sections() {
    let server = start(fresh()).await;
    let mut client = Client::new(&server).await;
    client.open(&[]).await;
    let text = |value| match value {
        Value::Bulk(text) => String::from_utf8_lossy(&text).into_owned(),
        other => panic!("{other:?}"),
    };
    let all = text(client.ask(&["INFO"]).await);
    for part in ["# Server\r\n", "# Clients", "# Stats", "# Lockspan", "\r\nsessions:1\r\n"] {
        assert!(all.contains(part), "{part} in {all}");
    }
    let one = text(client.ask(&["INFO", "clients"]).await);
    assert!(one.starts_with("# Clients\r\nconnected_clients:1\r\n"), "{one}");
    assert!(!one.contains("# Server"), "{one}");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn bytes_that_are_no_command_end_the_connection_and_no_other() {
    let server = start(fresh()).await;
    let mut other = Client::new(&server).await;
    for bytes in [&b"*1\r\n:5\r\n"[..], b"*-5\r\n", b"*99999999\r\n", b"*1\r\n$99999999\r\n"] {
        let mut client = Client::raw(&server.addresses()[0]).await;
        client.send_bytes(bytes).await;
        let Value::Error { text, .. } = client.reply().await else { panic!("{bytes:?}") };
        assert!(text.starts_with("Protocol error"), "{text}");
        client.closed().await;
    }
    assert_eq!(other.ask(&["PING"]).await, Value::status("PONG"));
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_subscription_brings_events_as_messages() {
    let server = start(fresh()).await;
    let (mut one, mut two) = (Client::new(&server).await, Client::new(&server).await);
    let mut listener = Client::new(&server).await;
    let (a, b) = (one.open(&["EVENTS", "none"]).await, two.open(&[]).await);
    let channel = format!("lockspan:{a}");
    let confirmed = listener.ask(&["SUBSCRIBE", &channel]).await;
    let expected =
        Value::Push(vec!["subscribe".into(), Value::bulk(channel.clone()), Value::Int(1)]);
    assert_eq!(confirmed, expected);
    let granted = one.ask(&["LS.ACQUIRE", &a, "a:1", "W"]).await;
    assert_eq!(word(&granted, "status"), "granted");
    let queued = two.ask(&["LS.ACQUIRE", &b, "a:1", "W"]).await;
    assert_eq!(word(&queued, "status"), "queued");
    let (session, event) = listener.event().await;
    assert_eq!(session.0.to_string(), a);
    let text = format!("{event:?}");
    assert!(matches!(event, Event::Node(_)) && text.contains("Revoke"), "{text}");
    listener.ask(&["UNSUBSCRIBE"]).await;
    one.ask(&["LS.RELEASE", &a, "a:1", "1"]).await;
    let (replies, events) = listener.settle().await;
    assert_eq!((replies, events), (vec![], vec![]));
    for channel in ["news", "lockspan:", "lockspan:x"] {
        let (code, text) = listener.refused(&["SUBSCRIBE", channel]).await;
        assert!(code == ErrorCode::Err && text.contains("lockspan:<session>"), "{text}");
    }
    let (code, _) = listener.refused(&["SUBSCRIBE", "lockspan:1"]).await;
    assert_eq!(code, ErrorCode::NoSession);

    // RESP2 has no pushes: the same as an array.
    let mut old = Client::raw(&server.addresses()[0]).await;
    old.send_bytes(format!("SUBSCRIBE {channel}\r\n").as_bytes()).await;
    let confirmed = old.bytes_until(":1\r\n").await;
    assert!(confirmed.starts_with("*3\r\n$9\r\nsubscribe\r\n"), "{confirmed}");
    // Nor can a subscriber tell a reply that is no list from a broken message.
    old.send_bytes(b"PING\r\n").await;
    assert_eq!(old.bytes_until("$0\r\n\r\n").await, "*2\r\n$4\r\npong\r\n$0\r\n\r\n");
    old.send_bytes(b"PING hello\r\n").await;
    assert_eq!(old.bytes_until("hello\r\n").await, "*2\r\n$4\r\npong\r\n$5\r\nhello\r\n");
    old.send_bytes(b"UNSUBSCRIBE\r\n").await;
    old.bytes_until(":0\r\n").await;
    old.send_bytes(b"PING\r\n").await;
    assert_eq!(old.bytes_until("PONG\r\n").await, "+PONG\r\n");
    one.ask(&["LS.CLOSE", &a]).await;
    let (code, text) = one.refused(&["LS.EVENTS", &a, "push"]).await;
    assert_eq!(code, ErrorCode::NoSession, "{text}");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn slots_are_told() {
    let server = start(fresh()).await;
    let mut client = Client::new(&server).await;
    let Value::Array(slots) = client.ask(&["LS.SLOTS"]).await else { panic!("no list") };
    let covered: i64 =
        slots.iter().map(|range| number(range, "last") - number(range, "first") + 1).sum();
    assert_eq!(covered, 16384);
    assert_eq!(field(&slots[0], "epoch"), &Value::Int(1));
    let Value::Array(ranges) = client.ask(&["CLUSTER", "SLOTS"]).await else { panic!("no list") };
    assert_eq!(ranges.len(), 1, "one server has all: {ranges:?}");
    server.stop().await;
}
