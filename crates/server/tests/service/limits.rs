//! Limits: each has its answer, and nothing else suffers.

use std::os::unix::fs::PermissionsExt as _;
use std::time::Duration;

use lockspan_protocol::{GroupSet, Limits, Mode, SessionId, ToNode, ToServer};
use lockspan_server::{Address, Config, Server, StartError};
use lockspan_wire::{ErrorCode, Value, WireLimits};

use crate::client::{Client, acquire, fresh, start, until, within};

#[tokio::test(flavor = "multi_thread")]
async fn a_slow_reader_is_cut_off_and_keeps_its_grants() {
    let server = start(Config { outbox: 64 << 10, ..fresh() }).await;
    let (mut slow, mut quick) = (Client::new(&server).await, Client::new(&server).await);
    let lazy = slow.open_native_for(1, Duration::from_secs(60)).await;
    slow.tell(lazy, &acquire("a:1", Mode::Write, 1, 1)).await;
    assert!(matches!(slow.heard().await, ToNode::Granted { .. }));
    // Events for its session are made by somebody else, and it reads none of them.
    let mut seq = 0;
    let flood = async {
        while server.stats().slow_readers == 0 {
            seq += 1;
            let long = format!("flood:{}", "x".repeat(400));
            let mut other = Vec::new();
            for _ in 0..200 {
                seq += 1;
                other.push(acquire(&long, Mode::Read, seq, 1));
            }
            for message in &other {
                quick.tell(lazy, message).await;
            }
            let (_, events) = quick.settle().await;
            assert!(!events.is_empty());
        }
    };
    within(flood).await;
    slow.closed().await;
    assert_eq!(quick.ask(&["PING"]).await, Value::status("PONG"), "others go on");
    let seen = quick.ask(&["LS.INSPECT", "a:1"]).await;
    assert_eq!(crate::client::word(&seen, "state"), "alone", "its grant lives");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn each_limit_has_its_error() {
    let protocol = Limits {
        sessions: 2,
        waiters_per_record: 1,
        claims_per_session: 3,
        owners: 2,
        ttl_max: Duration::from_secs(60),
        ..Limits::default()
    };
    let wire = WireLimits { frame: 4096, args: 16 };
    let server = start(Config { protocol, wire, shards: 1, connections: 3, ..fresh() }).await;
    let (mut one, mut two) = (Client::new(&server).await, Client::new(&server).await);
    let (a, b) = (one.open(&[]).await, two.open(&[]).await);
    let limited = |(code, text): (ErrorCode, String)| {
        assert_eq!(code, ErrorCode::Limit, "{text}");
        text
    };
    assert!(limited(one.refused(&["LS.OPEN"]).await).contains("the maximum is 2 "));
    assert!(limited(one.refused(&["LS.OPEN", "LEASE", "1"]).await).contains("1s"));
    for name in ["a:1", "a:2", "a:3"] {
        one.ask(&["LS.ACQUIRE", &a, name, "W"]).await;
    }
    limited(one.refused(&["LS.ACQUIRE", &a, "a:4", "W"]).await);
    two.ask(&["LS.ACQUIRE", &b, "a:1", "W"]).await;
    let owners = ["LS.ACQUIRE", &b, "a:9", "W", "OWNER", "1", "OWNER", "2", "OWNER", "3"];
    limited(two.refused(&owners).await);
    let long = format!("a:{}", "x".repeat(600));
    let (_, text) = two.refused(&["LS.ACQUIRE", &b, &long, "W"]).await;
    assert!(text.contains("512"), "{text}");

    let mut third = Client::new(&server).await;
    let mut fourth = Client::raw(&server.addresses()[0]).await;
    let Value::Error { code, text } = fourth.reply().await else { panic!("not an error") };
    assert!(code == ErrorCode::Limit && text.contains("the maximum is 3 "), "{text}");
    fourth.closed().await;
    third.send_bytes(format!("*2\r\n$4\r\nECHO\r\n${}\r\n", 5000).as_bytes()).await;
    let Value::Error { text, .. } = third.reply().await else { panic!("not an error") };
    assert!(text.contains("4096"), "{text}");
    third.closed().await;
    until("there is room again", || server.stats().connections == 2).await;
    Client::new(&server).await;
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn options_that_make_no_sense_are_named() {
    let shards = Config { shards: 0, ..fresh() };
    let listen = Config { listen: vec![], ..fresh() };
    let connections = Config { connections: 0, ..fresh() };
    for (option, config) in [("shards", shards), ("listen", listen), ("connections", connections)] {
        let why = within(Server::start(config)).await.expect_err(option).to_string();
        assert!(why.starts_with(option), "{why}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_socket_file_is_private_and_a_dead_servers_is_replaced() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("lockspan.sock");
    let on =
        |path: &std::path::Path| Config { listen: vec![Address::Unix(path.to_owned())], ..fresh() };
    // A listener that is gone leaves its file.
    drop(std::os::unix::net::UnixListener::bind(&path).expect("bound"));
    let server = start(on(&path)).await;
    let made = std::fs::read_dir(dir.path()).expect("a directory").map(|one| {
        let one = one.expect("a file");
        let mode = one.metadata().expect("it is there").permissions().mode() & 0o777;
        (one.file_name().into_string().expect("text"), mode)
    });
    let mut made: Vec<_> = made.collect();
    made.sort();
    let expected = [("lockspan.sock", 0o600), ("lockspan.sock.lock", 0o600)];
    assert_eq!(made, expected.map(|(name, mode)| (name.to_owned(), mode)));
    let mut client = Client::new(&server).await;
    let session = client.open_native(1).await;
    client.tell(session, &acquire("a:1", Mode::Write, 1, 1)).await;
    assert!(matches!(client.heard().await, ToNode::Granted { .. }));

    let why = within(Server::start(on(&path))).await.expect_err("it is in use");
    assert!(matches!(why, StartError::SocketInUse { .. }), "{why}");
    assert_eq!(client.ask(&["PING"]).await, Value::status("PONG"));
    server.stop().await;
    assert!(!path.exists(), "it is deleted");
    // A living listener that is no server of ours is not replaced either.
    let other = dir.path().join("other.sock");
    let _other = std::os::unix::net::UnixListener::bind(&other).expect("bound");
    let why = within(Server::start(on(&other))).await.expect_err("it is in use");
    assert!(matches!(why, StartError::SocketInUse { .. }), "{why}");
    let file = dir.path().join("file");
    std::fs::write(&file, "precious").expect("written");
    let why = within(Server::start(on(&file))).await.expect_err("it is a file");
    assert!(matches!(why, StartError::NotASocket(_)), "{why}");
    assert_eq!(std::fs::read(&file).expect("it is there"), b"precious");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_port_that_is_taken_is_named() {
    let server = start(fresh()).await;
    let listen = server.addresses().to_vec();
    let why = within(Server::start(Config { listen: listen.clone(), ..fresh() })).await;
    let why = why.expect_err("it is taken").to_string();
    assert!(why.contains(&listen[0].to_string()), "{why}");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_forgets_the_channels_of_sessions_that_are_over() {
    let server = start(fresh()).await;
    let mut client = Client::new(&server).await;
    let stays = client.open(&[]).await;
    client.ask(&["SUBSCRIBE", &format!("lockspan:{stays}")]).await;
    let mut most = 0;
    for _ in 0..300 {
        let session = client.open(&[]).await;
        let told = client.ask(&["SUBSCRIBE", &format!("lockspan:{session}")]).await;
        let Value::Push(told) = told else { panic!("{told:?}") };
        let Some(Value::Int(count)) = told.last() else { panic!("{told:?}") };
        most = most.max(*count);
        client.ask(&["LS.CLOSE", &session]).await;
    }
    assert!(most < 100, "{most} channels of sessions that are over");
    let all = client.ask(&["UNSUBSCRIBE", &format!("lockspan:{stays}")]).await;
    assert!(matches!(all, Value::Push(_)), "the one that lives is still there: {all:?}");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn replies_that_wait_are_bounded_for_commands_that_open_too() {
    let server = start(fresh()).await;
    let (mut one, mut two) = (Client::new(&server).await, Client::new(&server).await);
    let (a, b) = (one.open(&[]).await, one.open(&[]).await);
    // Each acquire may have 64 commands that wait for it.
    let records = 10_000_usize.div_ceil(64);
    let mut sent = String::new();
    for id in 0..records {
        one.send(&["LS.ACQUIRE", &a, &format!("a:{id}"), "W"]).await;
        let wait = format!("LS.ACQUIRE {b} a:{id} W SEQ {} WAIT forever\r\n", id + 1);
        sent.extend(std::iter::repeat_n(wait, 64));
    }
    for _ in 0..records {
        one.reply().await;
    }
    two.send_bytes(sent.as_bytes()).await;
    two.send(&["LS.OPEN"]).await;
    until("all are read", || server.stats().commands > (records * 65) as u64 + 4).await;
    one.ask(&["LS.CLOSE", &b]).await;
    let mut last = Value::Null;
    for _ in 0..=records * 64 {
        last = two.reply().await;
    }
    let Value::Error { code, text } = last else { panic!("{last:?}") };
    assert!(code == ErrorCode::Limit && text.contains("10000 commands"), "{text}");
    server.stop().await;
}

/// What is said to a session goes to every connection that listens for it: so many may.
#[tokio::test(flavor = "multi_thread")]
async fn service_f76_a_session_has_a_bounded_number_of_listeners() {
    let server = start(fresh()).await;
    let mut first = Client::new(&server).await;
    let session = first.open(&["LEASE", "30000", "EVENTS", "push"]).await;
    let mut others = Vec::new();
    for _ in 1..128 {
        let mut other = Client::new(&server).await;
        assert_eq!(other.ask(&["LS.EVENTS", &session, "push"]).await, Value::OK);
        others.push(other);
    }
    let mut late = Client::new(&server).await;
    for words in [
        &["LS.EVENTS", &session, "push"][..],
        &["LS.OPEN", "LEASE", "30000", "SESSION", &session, "EVENTS", "push"],
        &["SUBSCRIBE", &format!("lockspan:{session}")],
    ] {
        let (code, text) = late.refused(words).await;
        assert_eq!((code, text.contains("128")), (ErrorCode::Limit, true), "{text}");
    }
    assert!(matches!(late.ask(&["LS.KEEP", &session]).await, Value::Int(_)), "else it may be used");
    // One that listens may change how, and one that stops makes room.
    assert_eq!(others[0].ask(&["LS.EVENTS", &session, "message"]).await, Value::OK);
    assert_eq!(others[1].ask(&["LS.EVENTS", &session, "none"]).await, Value::OK);
    assert_eq!(late.ask(&["LS.EVENTS", &session, "push"]).await, Value::OK);
    // A node has to hear its answers: the first one that came does not hear any more.
    let mut node = Client::new(&server).await;
    let id = SessionId(session.parse().expect("a number"));
    node.tell(id, &ToServer::KeepAlive { number: 5 }).await;
    assert_eq!(node.heard().await, ToNode::Alive { number: 5, groups: GroupSet::ALL });
    assert_eq!(first.settle().await.1, []);
    assert_eq!(late.settle().await.1.len(), 1);
    server.stop().await;
}
