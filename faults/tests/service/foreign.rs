//! F39 to F42: other connections that name a session: with its public id, which every list shows,
//! and with its secret number, which only its owner knows.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::BytesMut;
use lockspan::{Locks, Options};
use lockspan_faults::proxy::{Fate, Message, Proxy};
use lockspan_faults::stage::{Stage, soon, until};
use lockspan_protocol::{Limits, SessionId};
use lockspan_server::Config;
use lockspan_wire::{ErrorCode, FromServer, Value, WireLimits, put_command, take_from_server};
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
