//! A second acquire of a record by one session: threads that share a session do not share a lock.

use lockspan_protocol::{Mode, ToNode};
use lockspan_server::Server;
use lockspan_wire::{ErrorCode, Value};

use crate::client::{Client, acquire, fresh, number, start, until, word};

/// The protocols that a client may speak.
const PROTOCOLS: [&str; 2] = ["2", "3"];

/// What the session has at the record when the second acquire comes.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Has {
    Held,
    /// In line, and told so.
    Queued,
    /// In line, with a command of another connection that waits for its reply.
    Blocked,
}

/// A client that speaks this version of RESP, and the entry that its replies have under a name.
struct Speaker {
    client: Client,
}

impl Speaker {
    async fn new(server: &Server, protocol: &str) -> Self {
        let mut client = Client::raw(&server.addresses()[0]).await;
        client.ask(&["HELLO", protocol]).await;
        Self { client }
    }

    async fn ask(&mut self, words: &[&str]) -> Value {
        as_map(self.client.ask(words).await)
    }
}

/// In RESP2 a map is a flat list.
fn as_map(value: Value) -> Value {
    let Value::Array(flat) = value else { return value };
    let pairs = flat.chunks_exact(2).map(|pair| (pair[0].clone(), pair[1].clone()));
    Value::Map(pairs.collect())
}

/// The text of an answer that says that the session has the record already.
fn already(value: Value) -> String {
    match value {
        Value::Error { code: ErrorCode::Already, text } => text,
        other => panic!("not refused as ALREADY: {other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn service_f34_a_session_that_has_a_record_is_not_granted_it_again() {
    let server = start(fresh()).await;
    let mut case = 0;
    for protocol in PROTOCOLS {
        for has in [Has::Held, Has::Queued, Has::Blocked] {
            for (first, second) in [("R", "R"), ("R", "W"), ("W", "R"), ("W", "W")] {
                for more in [&[][..], &["WAIT", "0"], &["WAIT", "forever"], &["OWNER", "7"]] {
                    case += 1;
                    let record = format!("again:{case}");
                    second_acquire(&server, protocol, has, (&record, first, second), more).await;
                }
            }
        }
    }
    server.stop().await;
}

async fn second_acquire(
    server: &Server,
    protocol: &str,
    has: Has,
    (record, first, second): (&str, &str, &str),
    more: &[&str],
) {
    let case = format!("RESP{protocol}, {has:?} {first}, then {second} {more:?}");
    // One session, three connections.
    let mut one = Speaker::new(server, protocol).await;
    let mut two = Speaker::new(server, protocol).await;
    let mut three = Speaker::new(server, protocol).await;
    let opened = one.ask(&["LS.OPEN", "LEASE", "60000"]).await;
    let session = word(&opened, "session");
    let other = word(&two.ask(&["LS.OPEN", "LEASE", "60000"]).await, "session");
    let in_way = (has != Has::Held).then_some("W");
    if let Some(mode) = in_way {
        two.ask(&["LS.ACQUIRE", &other, record, mode]).await;
    }
    let claims = server.stats().claims;
    let acquire = ["LS.ACQUIRE", &session, record, first, "SEQ", "9"];
    let had = match has {
        Has::Held | Has::Queued => {
            let had = one.ask(&acquire).await;
            let status = if has == Has::Held { "granted" } else { "queued" };
            assert_eq!(word(&had, "status"), status, "{case}");
            Some(had)
        }
        Has::Blocked => {
            let blocked = [&acquire[..], &["WAIT", "forever"]].concat();
            three.client.send(&blocked).await;
            until("it waits", || server.stats().claims == claims + 1).await;
            None
        }
    };
    let again = [&["LS.ACQUIRE", &session, record, second][..], more].concat();
    for speaker in [&mut one, &mut two] {
        let text = already(speaker.ask(&again).await);
        let seq = text.contains("seq 9") && text.contains(record);
        assert!(seq && text.contains(&format!("mode {first}")), "{case}: {text}");
        if let Some(had) = &had {
            let name = if has == Has::Held { "token" } else { "ticket" };
            let number = number(had, name);
            assert!(text.contains(&format!("{name} {number}")), "{case}: {text}");
        }
    }
    // The same number in another mode is no repeat.
    if first != second {
        let text = already(two.ask(&["LS.ACQUIRE", &session, record, second, "SEQ", "9"]).await);
        assert!(text.contains("seq 9"), "{case}: {text}");
    }
    assert_eq!(server.stats().claims, claims + 1, "{case}: nothing has changed");
    // A repeat gets the answer of the first, and a higher number does not.
    if let Some(had) = &had {
        let repeated = two.ask(&acquire).await;
        assert_eq!(&repeated, had, "{case}: a repeat");
        let higher = ["LS.ACQUIRE", &session, record, second, "SEQ", "10"];
        already(two.ask(&higher).await);
        let lower = ["LS.ACQUIRE", &session, record, second, "SEQ", "8"];
        let lower = two.ask(&lower).await;
        let is_stale = matches!(&lower, Value::Error { code: ErrorCode::Stale, .. });
        assert!(is_stale, "{case}: an earlier number is over: {lower:?}");
    }
    if in_way.is_some() {
        two.ask(&["LS.CLOSE", &other]).await;
    }
    if has == Has::Blocked {
        assert_eq!(word(&as_map(three.client.reply().await), "status"), "granted", "{case}");
    }
    // What was waited for is held by now; after its release the record is anybody's.
    already(two.ask(&again).await);
    assert_eq!(one.ask(&["LS.RELEASE", &session, record, "9"]).await, Value::Int(1), "{case}");
    let after = one.ask(&again).await;
    assert_eq!(word(&after, "status"), "granted", "{case}");
    one.ask(&["LS.CLOSE", &session]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn service_f34_after_a_wait_that_timed_out_the_session_may_acquire_again() {
    let server = start(fresh()).await;
    let (mut one, mut two) = (Client::new(&server).await, Client::new(&server).await);
    let (a, b) = (one.open(&[]).await, two.open(&[]).await);
    one.ask(&["LS.ACQUIRE", &a, "a:1", "W"]).await;
    for mode in ["R", "W", "R"] {
        assert_eq!(two.ask(&["LS.ACQUIRE", &b, "a:1", mode, "WAIT", "5"]).await, Value::Null);
    }
    // Two commands of one acquire: the line is left when both have given up.
    let same = ["LS.ACQUIRE", &b, "a:1", "W", "SEQ", "50", "WAIT"];
    one.send(&[&same[..], &["forever"]].concat()).await;
    until("it waits", || server.stats().claims == 2).await;
    assert_eq!(two.ask(&[&same[..], &["5"]].concat()).await, Value::Null);
    already(two.ask(&["LS.ACQUIRE", &b, "a:1", "W"]).await);
    two.ask(&["LS.CANCEL", &b, "a:1", "50"]).await;
    let Value::Error { code: ErrorCode::Stale, .. } = one.reply().await else { panic!("stale") };
    let queued = two.ask(&["LS.ACQUIRE", &b, "a:1", "W"]).await;
    assert_eq!(word(&queued, "status"), "queued");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn service_f34_conversions_are_no_second_acquire_and_are_not_doubled() {
    let server = start(fresh()).await;
    let (mut one, mut two) = (Client::new(&server).await, Client::new(&server).await);
    let (a, b) = (one.open(&[]).await, two.open(&[]).await);
    let seq = |value: &Value| number(value, "seq").to_string();
    let mine = seq(&one.ask(&["LS.ACQUIRE", &a, "a:1", "R"]).await);
    let theirs = seq(&two.ask(&["LS.ACQUIRE", &b, "a:1", "R"]).await);
    // In line to write, and reading meanwhile.
    let upgrade = ["LS.ACQUIRE", &a, "a:1", "W", "UPGRADE", "SEQ", "70"];
    let queued = one.ask(&upgrade).await;
    assert_eq!(word(&queued, "status"), "queued");
    assert_eq!(two.ask(&upgrade).await, queued, "a repeat");
    for again in [
        &["LS.CONVERT", &a, "a:1", &mine, "W"][..],
        &["LS.CONVERT", &a, "a:1", &mine, "W", "WAIT", "0"],
        &["LS.ACQUIRE", &a, "a:1", "W", "UPGRADE"],
        &["LS.ACQUIRE", &a, "a:1", "W"],
        &["LS.ACQUIRE", &a, "a:1", "R"],
    ] {
        let text = already(two.ask(again).await);
        assert!(text.contains("seq 70"), "{again:?}: {text}");
    }
    two.ask(&["LS.RELEASE", &b, "a:1", &theirs]).await;
    let write = one.ask(&upgrade).await;
    assert_eq!((word(&write, "status"), word(&write, "mode")), ("granted".into(), "W".into()));
    // What is held for writing is not upgraded: that would let a second thread in.
    for again in [&["LS.ACQUIRE", &a, "a:1", "W", "UPGRADE"][..], &["LS.ACQUIRE", &a, "a:1", "W"]] {
        let text = already(two.ask(again).await);
        assert!(text.contains("seq 70") && text.contains("token"), "{again:?}: {text}");
    }
    let read = one.ask(&["LS.CONVERT", &a, "a:1", "70", "R"]).await;
    assert_eq!(word(&read, "mode"), "R");
    already(two.ask(&["LS.ACQUIRE", &a, "a:1", "R"]).await);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn service_f34_a_node_replaces_what_it_had_as_before() {
    let server = start(fresh()).await;
    let mut node = Client::new(&server).await;
    let session = node.open_native(11).await;
    for (seq, mode) in [(1, Mode::Write), (2, Mode::Read), (3, Mode::Write)] {
        node.tell(session, &acquire("a:1", mode, seq, 1)).await;
        let granted = node.heard().await;
        assert!(matches!(granted, ToNode::Granted { .. }), "{granted:?}");
        assert_eq!(server.stats().claims, 1);
    }
    server.stop().await;
}
