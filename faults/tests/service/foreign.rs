//! F39 to F43, F59: other connections that name a session: with its public id, which every list
//! shows, and with its secret number, which only its owner knows; and what a server shows that
//! recovers.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::BytesMut;
use lockspan::{Locks, Options};
use lockspan_faults::proxy::{Fate, Message, Proxy};
use lockspan_faults::stage::{Stage, soon, until};
use lockspan_protocol::{Limits, SessionId, ToNode};
use lockspan_server::Config;
use lockspan_wire::{
    ErrorCode, Event, FromServer, Value, WireLimits, put_command, take_from_server,
};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::{waits, write};

/// A third of it, after which a client would notice by itself, is far beyond every deadline here.
const LEASE: Duration = Duration::from_secs(600);

async fn stage() -> Stage {
    Stage::with(Limits { ttl_max: LEASE, ..Config::default().protocol }).await
}

/// A node, and the numbers of its sessions in the order in which it opened them.
async fn node(stage: &Stage) -> (Locks, Proxy, Arc<Mutex<Vec<SessionId>>>) {
    let proxy = stage.network(1).await;
    let seen: Arc<Mutex<Vec<SessionId>>> = Arc::default();
    let sessions = Arc::clone(&seen);
    proxy.set_rule(move |message| {
        if let Message::Up(session, _) = message {
            let mut seen = sessions.lock().unwrap();
            if !seen.contains(&session) {
                seen.push(session);
            }
        }
        Fate::Pass
    });
    let options = Options::new().lease(LEASE);
    let locks = soon("connected", options.connect(&proxy.url())).await.expect("connected");
    (locks, proxy, seen)
}

/// Another connection, which speaks RESP3.
struct Other {
    stream: TcpStream,
    buf: BytesMut,
}

impl Other {
    async fn connect(stage: &Stage) -> Self {
        let url = stage.url();
        let stream = TcpStream::connect(url.trim_start_matches("lockspan://")).await.unwrap();
        let mut other = Self { stream, buf: BytesMut::new() };
        other.ask("HELLO 3").await;
        other
    }

    /// A command and its reply; events in between are not looked at.
    async fn ask(&mut self, line: &str) -> Value {
        let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
        let mut bytes = BytesMut::new();
        put_command(&words, &mut bytes);
        self.stream.write_all(&bytes).await.unwrap();
        let reply = async {
            loop {
                match take_from_server(&mut self.buf, &WireLimits::default()).unwrap() {
                    Some(FromServer::Value(value)) => return value,
                    Some(FromServer::Event { .. }) => {}
                    None => assert!(self.stream.read_buf(&mut self.buf).await.unwrap() > 0),
                }
            }
        };
        soon(line, reply).await
    }
}

fn field<'a>(map: &'a Value, name: &str) -> &'a Value {
    let Value::Map(pairs) = map else { panic!("not a map: {map:?}") };
    let found = pairs.iter().find(|(key, _)| *key == Value::bulk(name.to_owned()));
    &found.unwrap_or_else(|| panic!("no {name} in {map:?}")).1
}

fn first(list: &Value) -> &Value {
    let Value::Array(list) = list else { panic!("not a list: {list:?}") };
    list.first().expect("it is not empty")
}

#[tokio::test(flavor = "multi_thread")]
async fn service_f40_a_close_by_another_connection_is_told_to_the_holder_at_once() {
    let stage = stage().await;
    let (holder, _proxy, sessions) = node(&stage).await;
    let next = stage.node(Options::new().lease(LEASE)).await;
    let guard = write(&holder, "x:1").await;
    let waiting = waits(&next, "x:1");
    until("it is in line", || stage.stats().queued == 1).await;
    let SessionId(secret) = sessions.lock().unwrap()[0];
    let mut other = Other::connect(&stage).await;
    assert_eq!(other.ask(&format!("LS.CLOSE {secret}")).await, Value::OK);
    soon("the holder hears of it", guard.lost()).await;
    assert!(!guard.is_valid());
    let next = soon("the next one has it", waiting).await.unwrap();
    assert!(next.token() > guard.token());
}

#[tokio::test(flavor = "multi_thread")]
async fn service_f41_a_release_by_another_connection_is_told_to_the_holder_at_once() {
    let stage = stage().await;
    let (holder, _proxy, sessions) = node(&stage).await;
    let (guard, kept) = (write(&holder, "x:1").await, write(&holder, "y:1").await);
    let SessionId(secret) = sessions.lock().unwrap()[0];
    let mut other = Other::connect(&stage).await;
    let seen = other.ask("LS.INSPECT x:1").await;
    let Value::Int(seq) = field(first(field(&seen, "holders")), "seq") else { panic!("{seen:?}") };
    assert_eq!(other.ask(&format!("LS.RELEASE {secret} x:1 {seq}")).await, Value::Int(1));
    soon("the holder hears of it", guard.lost()).await;
    assert!(!guard.is_valid() && kept.is_valid(), "the other record is still its own");
    let token = guard.token();
    drop(guard);
    assert!(write(&holder, "x:1").await.token() > token, "the session lives");
}

/// The answer to an open is lost, and another connection closes the session meanwhile. The node has
/// nothing to lose yet: whoever waits there goes on waiting, in another session.
#[tokio::test(flavor = "multi_thread")]
async fn service_f59_a_close_before_the_node_heard_that_it_is_open_refuses_nothing() {
    let stage = stage().await;
    let (locks, proxy, _) = node(&stage).await;
    let unheard: Arc<Mutex<Option<SessionId>>> = Arc::default();
    let lost = Arc::clone(&unheard);
    proxy.set_rule(move |message| match message {
        // That the session is closed is lost as well: the node learns it from the next open.
        Message::Down(session, Event::Node(ToNode::Opened { .. } | ToNode::NoSession)) => {
            let is_first = *lost.lock().unwrap().get_or_insert(session) == session;
            if is_first { Fate::Lose } else { Fate::Pass }
        }
        _ => Fate::Pass,
    });
    let waiting = waits(&locks, "x:1");
    until("a session is open", || unheard.lock().unwrap().is_some()).await;
    let SessionId(secret) = unheard.lock().unwrap().expect("it was just there");
    let mut other = Other::connect(&stage).await;
    assert_eq!(other.ask(&format!("LS.CLOSE {secret}")).await, Value::OK);
    let held = soon("it is granted in another session", waiting).await;
    assert!(held.expect("nothing is refused").is_valid());
}

/// Every command that uses a session, with this word for it.
fn uses_of(session: &str) -> Vec<String> {
    [
        "LS.KEEP <s>",
        "LS.CLOSE <s>",
        "LS.EVENTS <s> push",
        "LS.ACQUIRE <s> z:1 W",
        "LS.RELEASE <s> x:1 1",
        "LS.RELEASE <s> x:1 18446744073709551615",
        "LS.CONVERT <s> x:1 1 R",
        "LS.CANCEL <s> x:1 1",
        "LS.REASSERT <s> x:1 1 1 W HELD 1099511627777",
        "LS.REASSERT <s> x:1 2 1 W HELD 1099511627777",
        "LS.REASSERTED <s> 2 0 0",
        "LS.OPEN LEASE 600000 SESSION <s>",
        "LS.TELL <s> close",
        "LS.TELL <s> release 18446744073709551615 - x:1",
        "SUBSCRIBE lockspan:<s>",
    ]
    .map(|line| line.replace("<s>", session))
    .to_vec()
}

/// What is refused, and says so.
async fn refused(other: &mut Other, line: &str) -> String {
    match other.ask(line).await {
        Value::Error { code: ErrorCode::Err | ErrorCode::NoSession, text } => text,
        reply => panic!("{line}: {reply:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn service_f39_a_session_is_not_used_by_its_public_id_before_or_after_a_restart() {
    let mut stage = stage().await;
    let (holder, _proxy, sessions) = node(&stage).await;
    let guard = write(&holder, "x:1").await;
    let mut id = None;
    for restarts in 0..2 {
        let mut other = Other::connect(&stage).await;
        let listed = other.ask("LS.SESSIONS").await;
        let Value::Bulk(shown) = field(first(&listed), "session") else { panic!("{listed:?}") };
        let shown = String::from_utf8(shown.to_vec()).unwrap();
        assert_eq!(*id.get_or_insert_with(|| shown.clone()), shown, "it survives a restart");
        for line in uses_of(&shown) {
            let text = refused(&mut other, &line).await;
            assert!(text.contains("public id") || text.contains("lockspan:<session>"), "{text}");
        }
        // Nor by a number that somebody makes up.
        for line in uses_of("4711").iter().filter(|line| !line.contains("LS.TELL")) {
            if !line.starts_with("LS.OPEN") {
                refused(&mut other, line).await;
            }
        }
        // Nor does a session of one's own speak for it.
        if restarts == 1 {
            let own = text(&other.ask("LS.OPEN LEASE 600000").await, "session");
            let told = format!("LS.REASSERT {own} x:1 2 1 W HELD 1099511627777");
            for former in [String::new(), " FORMER 4711".into(), format!(" FORMER {shown}")] {
                let reply = other.ask(&format!("{told}{former}")).await;
                let Value::Error { code, .. } = &reply else { panic!("{former}: {reply:?}") };
                assert!(matches!(code, ErrorCode::Refused | ErrorCode::Err), "{reply:?}");
            }
            assert_eq!(other.ask(&format!("LS.CLOSE {own}")).await, Value::OK);
        }
        for question in ["LS.SESSIONS", "LS.LOCKS", "LS.INSPECT x:1", "LS.WAITS", "CLIENT LIST"] {
            let SessionId(secret) = sessions.lock().unwrap()[0];
            let answer = format!("{:?}", other.ask(question).await);
            assert!(!answer.contains(&secret.to_string()), "{question}: {answer}");
        }
        assert!(guard.is_valid(), "after {restarts} restarts");
        if restarts == 0 {
            stage.restart().await;
        }
    }
    until("it has come back", || !stage.stats().recovering).await;
    assert!(guard.is_valid());
    assert_eq!(sessions.lock().unwrap().len(), 1, "it is the same session all along");
    assert_eq!((stage.stats().records, stage.stats().expirations), (1, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn service_f40_so_is_a_close_after_a_restart() {
    let mut stage = stage().await;
    let (holder, proxy, sessions) = node(&stage).await;
    let guard = write(&holder, "x:1").await;
    let renewals: Arc<AtomicUsize> = Arc::default();
    let counted = Arc::clone(&renewals);
    proxy.set_rule(move |message| {
        let is_one = matches!(message, Message::Down(_, Event::Node(ToNode::Alive { .. })));
        counted.fetch_add(usize::from(is_one), Ordering::Relaxed);
        Fate::Pass
    });
    stage.restart().await;
    until("it has come back", || stage.stats().records == 1 && !stage.stats().recovering).await;
    // From then on the node says nothing for a third of its lease.
    until("its lease is renewed", || renewals.load(Ordering::Relaxed) > 0).await;
    let SessionId(secret) = sessions.lock().unwrap()[0];
    let mut other = Other::connect(&stage).await;
    assert_eq!(other.ask(&format!("LS.CLOSE {secret}")).await, Value::OK);
    soon("the holder hears of it", guard.lost()).await;
    let next = stage.node(Options::new().lease(LEASE)).await;
    assert!(write(&next, "x:1").await.token() > guard.token());
}

#[tokio::test(flavor = "multi_thread")]
async fn service_f42_an_operator_ends_a_session_and_its_holder_stops_before_its_lease_is_over() {
    let stage = stage().await;
    let (holder, _proxy, sessions) = node(&stage).await;
    let next = stage.node(Options::new().lease(LEASE)).await;
    let guard = write(&holder, "x:1").await;
    let waiting = waits(&next, "x:1");
    until("it is in line", || stage.stats().queued == 1).await;
    let mut other = Other::connect(&stage).await;
    let seen = other.ask("LS.INSPECT x:1").await;
    let id = text(first(field(&seen, "holders")), "session");
    let left = other.ask(&format!("LS.END {id}")).await;
    assert!(matches!(left, Value::Int(1..=600_000)), "{left:?}");
    soon("the holder stops", guard.lost()).await;
    let seen = other.ask("LS.INSPECT x:1").await;
    assert_eq!(text(&seen, "state"), "alone-wanted", "it is free when its lease is over");
    assert!(!waiting.is_finished());
    // Its owner may give it up earlier.
    let SessionId(secret) = sessions.lock().unwrap()[0];
    assert_eq!(other.ask(&format!("LS.CLOSE {secret}")).await, Value::OK);
    let next = soon("the next one has it", waiting).await.unwrap();
    assert!(next.token() > guard.token());
}

/// The text of a field.
fn text(map: &Value, name: &str) -> String {
    match field(map, name) {
        Value::Bulk(text) => String::from_utf8_lossy(text).into_owned(),
        Value::Int(number) => number.to_string(),
        other => panic!("{name}: {other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn service_f43_a_server_that_recovers_says_for_whom_and_how_long() {
    let mut stage = stage().await;
    let mut other = Other::connect(&stage).await;
    let opened = other.ask("LS.OPEN LEASE 600000").await;
    let (secret, id) = (text(&opened, "session"), text(&opened, "id"));
    let held = other.ask(&format!("LS.ACQUIRE {secret} x:1 W")).await;
    let (seq, token) = (text(&held, "seq"), text(&held, "token"));
    assert_eq!(text(&other.ask("LS.INSPECT y:1").await, "state"), "free");

    stage.restart().await;
    let mut other = Other::connect(&stage).await;
    let told = |recovery: &Value| {
        let Value::Array(whom) = field(recovery, "waits-for") else { panic!("{recovery:?}") };
        assert_eq!(whom[..], [Value::bulk(id.clone())]);
        assert_eq!(
            (text(recovery, "sessions"), text(recovery, "unknown")),
            ("1".into(), "0".into())
        );
        let left: u64 = text(recovery, "left-ms").parse().unwrap();
        assert!((1..=660_000).contains(&left), "{left}");
    };
    for record in ["x:1", "y:1"] {
        let seen = other.ask(&format!("LS.INSPECT {record}")).await;
        assert_eq!(text(&seen, "state"), "recovering", "it may be held: {seen:?}");
        told(field(&seen, "recovery"));
    }
    told(field(&other.ask("LS.WAITS").await, "recovery"));
    let Value::Array(locks) = other.ask("LS.LOCKS").await else { panic!("no list") };
    told(&locks[2]);
    let sessions = other.ask("LS.SESSIONS").await;
    assert_eq!(
        (text(first(&sessions), "session"), text(first(&sessions), "recovers")),
        (id, "1".into())
    );

    let line = format!("LS.REASSERT {secret} x:1 2 {seq} W HELD {token}");
    assert_eq!(other.ask(&line).await, Value::OK);
    assert_eq!(other.ask(&format!("LS.REASSERTED {secret} 2 1 {seq}")).await, Value::OK);
    let seen = other.ask("LS.INSPECT x:1").await;
    assert_eq!(
        (text(&seen, "state"), text(first(field(&seen, "holders")), "token")),
        ("alone".into(), token)
    );
    for question in ["LS.INSPECT x:1", "LS.INSPECT y:1", "LS.WAITS", "LS.LOCKS", "LS.SESSIONS"] {
        let answer = format!("{:?}", other.ask(question).await);
        assert!(!answer.contains("recover"), "{question}: {answer}");
    }
}
