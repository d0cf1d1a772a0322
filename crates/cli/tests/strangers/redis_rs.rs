//! redis-rs: one connection with commands and pushes, and what a session says after a crash.

use std::collections::HashMap;

use redis::aio::MultiplexedConnection;
use redis::{
    AsyncConnectionConfig, Client, FromRedisValue, PushInfo, PushKind, RedisError, Value, cmd,
    from_redis_value,
};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::time::timeout;

use crate::common::PATIENCE;
use crate::server::Server;

type Fields = HashMap<String, Value>;

struct Stranger {
    connection: MultiplexedConnection,
    pushes: UnboundedReceiver<PushInfo>,
}

impl Stranger {
    async fn connect(server: &Server) -> Self {
        let url = format!("redis://127.0.0.1:{}/?protocol=resp3", server.port());
        let (send, pushes) = unbounded_channel();
        // It would give up a reply after half a second, also one that `WAIT` holds back.
        let config = AsyncConnectionConfig::new()
            .set_push_sender(send)
            .set_connection_timeout(Some(PATIENCE))
            .set_response_timeout(Some(PATIENCE));
        let client = Client::open(url).expect("a url");
        let connection = client.get_multiplexed_async_connection_with_config(&config).await;
        Self { connection: connection.expect("connected"), pushes }
    }

    async fn try_ask<T: FromRedisValue>(&self, line: &str) -> Result<T, RedisError> {
        let mut words = line.split(' ');
        let mut command = cmd(words.next().expect("a command"));
        for word in words {
            command.arg(word);
        }
        command.query_async(&mut self.connection.clone()).await
    }

    /// A command, its words with one space between them.
    async fn ask<T: FromRedisValue>(&self, line: &str) -> T {
        self.try_ask(line).await.unwrap_or_else(|why| panic!("{line}: {why}"))
    }

    /// The word for programs of a command that is refused.
    async fn refused(&self, line: &str) -> String {
        let why = self.try_ask::<Value>(line).await.expect_err(line);
        why.code().unwrap_or_else(|| panic!("{line}: {why}")).to_owned()
    }

    /// The words of the next push, which is one of ours.
    async fn event(&mut self) -> Vec<String> {
        let push = timeout(PATIENCE, self.pushes.recv()).await.expect("an event comes");
        let push = push.expect("the connection is open");
        assert_eq!(push.kind, PushKind::Other("lockspan".to_owned()), "{push:?}");
        push.data.into_iter().map(|word| from_redis_value(word).expect("a word")).collect()
    }

    /// The next event that is no wish: those are sent again until they are answered.
    async fn event_after_wishes(&mut self) -> Vec<String> {
        loop {
            let event = self.event().await;
            if event[1] != "revoke" && event[1] != "keep" {
                return event;
            }
        }
    }

    /// The next event but for when it was said, the fifth word.
    async fn wish(&mut self) -> Vec<String> {
        let mut event = self.event().await;
        event.remove(4);
        event
    }
}

fn get<T: FromRedisValue>(fields: &Fields, name: &str) -> T {
    let value = fields.get(name).unwrap_or_else(|| panic!("no {name} in {fields:?}"));
    from_redis_value(value.clone()).unwrap_or_else(|why| panic!("{name}: {why}"))
}

fn words(line: &str) -> Vec<String> {
    line.split(' ').map(str::to_owned).collect()
}

#[tokio::test]
async fn redis_rs_hears_our_pushes() {
    let dir = tempfile::tempdir().expect("a directory");
    let server = Server::start(dir.path());
    let (mut one, mut two) = (Stranger::connect(&server).await, Stranger::connect(&server).await);
    let a: u64 = get(&one.ask("LS.OPEN LEASE 30000 EVENTS push").await, "session");
    let b: u64 = get(&two.ask("LS.OPEN LEASE 30000 EVENTS push").await, "session");

    let held: Fields = one.ask(&format!("LS.ACQUIRE {a} rs:1 W")).await;
    assert_eq!(get::<String>(&held, "status"), "granted");
    let (seq, token): (u64, u64) = (get(&held, "seq"), get(&held, "token"));
    let queued: Fields = two.ask(&format!("LS.ACQUIRE {b} rs:1 R")).await;
    assert_eq!(get::<String>(&queued, "status"), "queued");
    assert_eq!(one.wish().await, words(&format!("{a} revoke {seq} R rs:1")));
    assert_eq!(one.ask::<i64>(&format!("LS.RELEASE {a} rs:1 {seq}")).await, 1);
    let next: u64 = get(&queued, "seq");
    let granted = words(&format!("{b} granted {next} R {token} - rs:1"));
    assert_eq!(two.event().await, granted);

    // One connection carries many commands, and a slow one among them holds back those behind it.
    let wait = format!("LS.ACQUIRE {a} rs:1 W WAIT 50");
    let keep = format!("LS.KEEP {a}");
    let (waited, kept) = tokio::join!(one.ask::<Option<Fields>>(&wait), one.ask::<u64>(&keep));
    assert!(waited.is_none() && (1..=30_000).contains(&kept), "{waited:?} {kept}");
    assert_eq!(two.wish().await, words(&format!("{b} revoke {next} W rs:1")));

    assert_eq!(one.refused("LS.KEEP 1").await, "NOSESSION");
    assert_eq!(one.refused(&format!("LS.ACQUIRE {a} rs W")).await, "ERR");
    assert_eq!(two.ask::<String>(&format!("LS.CLOSE {b}")).await, "OK");
    let free: Fields = one.ask("LS.INSPECT rs:1").await;
    assert_eq!(get::<String>(&free, "state"), "free");
}

#[tokio::test]
async fn what_was_held_is_told_after_a_crash() {
    let dir = tempfile::tempdir().expect("a directory");
    let server = Server::start(dir.path());
    let before = Stranger::connect(&server).await;
    let opened: Fields = before.ask("LS.OPEN LEASE 30000").await;
    let session: u64 = get(&opened, "session");
    let held: Fields = before.ask(&format!("LS.ACQUIRE {session} rs:2 W")).await;
    let (seq, token): (u64, u64) = (get(&held, "seq"), get(&held, "token"));
    server.crash();

    let server = Server::start(dir.path());
    let mut after = Stranger::connect(&server).await;
    assert_eq!(after.refused(&format!("LS.KEEP {session}")).await, "LOADING");
    let slots: Vec<Fields> = after.ask("LS.SLOTS").await;
    let epoch: u64 = get(&slots[0], "epoch");
    assert!(epoch > get(&opened, "epoch"), "{slots:?} after {opened:?}");
    let told = format!("LS.REASSERT {session} rs:2 {epoch} {seq} W HELD {token}");
    assert_eq!(after.ask::<String>(&told).await, "OK");
    assert_eq!(
        after.ask::<String>(&format!("LS.REASSERTED {session} {epoch} 1 {seq}")).await,
        "OK"
    );

    // It is held as before, and whoever wants it waits.
    let other: Fields = after.ask("LS.OPEN LEASE 30000 EVENTS push").await;
    let other: u64 = get(&other, "session");
    let queued: Fields = after.ask(&format!("LS.ACQUIRE {other} rs:2 W")).await;
    assert_eq!(get::<String>(&queued, "status"), "queued");
    assert_eq!(after.ask::<i64>(&format!("LS.RELEASE {session} rs:2 {seq}")).await, 1);
    let event = after.event_after_wishes().await;
    assert_eq!((event[0].clone(), event[1].as_str()), (other.to_string(), "granted"));
    assert!(event[4].parse::<u64>().expect("a token") > token, "{event:?}");
}
