//! No connection keeps the others waiting, and replies are made only as fast as they are read.
//!
//! Tests with one thread decide by order, not by time: with turns of no length a connection gives
//! way wherever it may.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use lockspan_server::{Address, Config, Server, Stats};
use lockspan_tls::testing::Certificates;
use lockspan_wire::{ErrorCode, Value, WireLimits};

use crate::client::{Client, fresh, number, start, until, word};
use crate::tls::{connect, files, trusting};
use crate::users::users;

/// What one read of the server takes at most.
const READ: usize = 16 << 10;

/// A connection gives way wherever it may.
fn short_turns() -> Config {
    Config { turn: Duration::ZERO, ..fresh() }
}

/// A connection gives way only when something else than time makes it.
fn endless_turns() -> Config {
    Config { turn: Duration::from_secs(3600), ..fresh() }
}

/// As many of this command as one read takes.
fn flood(command: &str) -> (Vec<u8>, usize) {
    let line = format!("{command}\r\n");
    let count = READ / line.len();
    (line.repeat(count).into_bytes(), count)
}

#[tokio::test]
async fn service_f60_a_flood_in_one_write_lets_others_in() {
    a_flood_lets_others_in().await;
}

/// The same on the runtime of `lockspan serve`, if it has one thread: all is on that one.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn service_f60_so_it_does_on_a_runtime_with_one_worker() {
    tokio::spawn(a_flood_lets_others_in()).await.expect("it ends");
}

async fn a_flood_lets_others_in() {
    let server = start(short_turns()).await;
    let mut other = Client::new(&server).await;
    for command in ["PING", "INFO", "COMMAND DOCS", "CLIENT LIST", "LS.SESSIONS", "LS.KEEP 1"] {
        let (bytes, count) = flood(command);
        let mut client = Client::new(&server).await;
        let before = server.stats().commands;
        // Both are in their sockets before the server looks, and the flood came first.
        client.send_bytes(&bytes).await;
        other.send(&["ECHO", command]).await;
        assert_eq!(other.reply().await, Value::bulk(command.to_owned()));
        let done = server.stats().commands - before;
        assert!(done < 100, "{command}: {done} of {count} before another client's turn");
        for _ in 0..count {
            client.reply().await;
        }
        assert_eq!(client.settle().await, (vec![], vec![]), "{command}: one reply each");
    }
    server.stop().await;
}

#[tokio::test]
async fn service_f60_a_short_command_is_not_behind_many_floods() {
    const FLOODS: u64 = 40;
    let server = start(short_turns()).await;
    let mut other = Client::new(&server).await;
    let (bytes, count) = flood("PING");
    let mut clients = Vec::new();
    for _ in 0..FLOODS {
        clients.push(Client::new(&server).await);
    }
    let start = server.stats().commands;
    for client in &mut clients {
        client.send_bytes(&bytes).await;
    }
    // Each has had its first turn, and waits for the next.
    until("all floods have begun", || server.stats().commands >= start + 16 * FLOODS).await;
    for _ in 0..10 {
        let before = server.stats().commands;
        other.ask(&["PING"]).await;
        let done = server.stats().commands - before;
        assert!(done < 16 * FLOODS / 4, "{done} commands of floods before one of another client");
    }
    for mut client in clients {
        for _ in 0..count {
            client.reply().await;
        }
    }
    server.stop().await;
}

/// Sends what takes long, and then a short command on another connection; which is answered first.
async fn first_answered(server: &Server, client: &mut Client, long: &str) -> &'static str {
    let answered = Arc::new(Mutex::new(Vec::new()));
    let mut other = Client::new(server).await;
    client.send_bytes(format!("{long}\r\n").as_bytes()).await;
    other.send(&["PING"]).await;
    let note = |who: &'static str| answered.lock().expect("no panic").push(who);
    tokio::join!(
        async {
            note(if matches!(client.reply().await, Value::Error { .. }) { "error" } else { "long" })
        },
        async {
            other.reply().await;
            note("short");
        }
    );
    answered.lock().expect("no panic")[0]
}

#[tokio::test]
async fn service_f61_commands_that_look_at_much_let_others_in() {
    let server = start(short_turns()).await;
    let mut client = Client::new(&server).await;
    // More of everything than is looked at in one step.
    let mut peers = Vec::new();
    for _ in 0..200 {
        peers.push(Client::raw(&server.addresses()[0]).await);
    }
    until("all are there", || server.stats().connections == 201).await;
    let mut sessions = Vec::new();
    for _ in 0..600 {
        sessions.push(client.open(&["LEASE", "60000"]).await);
    }
    for id in 0..1200 {
        client.ask(&["LS.ACQUIRE", &sessions[0], &format!("a:{id}"), "W"]).await;
    }
    for session in &sessions {
        client.ask(&["LS.ACQUIRE", session, "b:1", "R"]).await;
    }
    let channels: Vec<_> = sessions.iter().map(|id| format!("lockspan:{id}")).collect();
    let subscribe = format!("SUBSCRIBE {}", channels[..100].join(" "));
    for long in [
        "CLIENT LIST",
        "LS.SESSIONS",
        "LS.LOCKS 0 MATCH none:* COUNT 1",
        "LS.LOCKS 0 COUNT 1000",
        "LS.INSPECT b:1",
        "LS.HISTORY b:1",
        "LS.WAITS",
        "RESET",
    ] {
        assert_eq!(first_answered(&server, &mut client, long).await, "short", "{long}");
    }
    // These have many replies, and the first may come before: the last does not.
    for (long, count) in [(&*subscribe, 100), ("UNSUBSCRIBE", 100)] {
        let mut other = Client::new(&server).await;
        client.send_bytes(format!("{long}\r\n").as_bytes()).await;
        let sent = server.stats().bytes_out;
        other.ask(&["PING"]).await;
        let before = server.stats().bytes_out - sent;
        for _ in 0..count {
            client.reply().await;
        }
        let all = server.stats().bytes_out - sent;
        assert!(before < all / 2, "{before} of {all} bytes of {count} replies came before a PONG");
    }
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn service_f61_a_list_of_connections_is_bounded_and_can_be_gone_on_with() {
    let server = start(fresh()).await;
    let mut peers = Vec::new();
    // A name takes four times its bytes when it is shown.
    for _ in 0..150 {
        let mut peer = Client::new(&server).await;
        let name = "\u{1}".repeat(256);
        for words in
            [["CLIENT", "SETINFO", "LIB-NAME", &name], ["CLIENT", "SETINFO", "LIB-VER", &name]]
        {
            assert_eq!(peer.ask(&words).await, Value::OK);
        }
        peers.push(peer);
    }
    let (mut seen, mut parts, mut after) = (Vec::new(), 0, String::from("0"));
    loop {
        let part = peers[0].ask(&["CLIENT", "LIST", "AFTER", &after]).await;
        let Value::Bulk(part) = part else { panic!("no text: {part:?}") };
        assert!(part.len() < 260 << 10, "{} bytes", part.len());
        let part = String::from_utf8(part.to_vec()).expect("text");
        let ids = part.lines().map(|line| line.split(' ').next().expect("an id").to_owned());
        let ids: Vec<_> = ids.map(|id| id.trim_start_matches("id=").to_owned()).collect();
        let Some(last) = ids.last() else { break };
        after = last.clone();
        seen.extend(ids);
        parts += 1;
    }
    assert!(parts > 1, "all fit into one part");
    let expected: Vec<_> = (1..=150).map(|id| id.to_string()).collect();
    assert_eq!(seen, expected, "each once, in order");
    server.stop().await;
}

/// A server on a socket file, whose buffers are small and of a fixed size.
async fn on_a_socket(config: Config) -> (Server, tempfile::TempDir) {
    let dir = tempfile::tempdir().expect("a directory");
    let listen = vec![Address::Unix(dir.path().join("socket"))];
    (start(Config { listen, ..config }).await, dir)
}

/// However long a turn may be.
#[tokio::test(flavor = "multi_thread")]
async fn service_f62_commands_of_a_client_that_does_not_read_are_not_carried_out() {
    const CLIENTS: usize = 20;
    let (server, _dir) = on_a_socket(endless_turns()).await;
    let (bytes, count) = flood("COMMAND DOCS");
    let mut clients = Vec::new();
    for _ in 0..CLIENTS {
        let mut client = Client::new(&server).await;
        client.send_bytes(&bytes).await;
        clients.push(client);
    }
    let waiting = || usize::try_from(server.stats().bytes_waiting).expect("it fits");
    until("nobody reads", || waiting() > 0).await;
    for _ in 0..100 {
        assert!(waiting() < CLIENTS * (80 << 10), "{} bytes are queued for {CLIENTS}", waiting());
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    let carried_out = server.stats().commands;
    assert!(carried_out < (CLIENTS * count / 2) as u64, "{carried_out} commands");
    // A client that reads at last gets all its replies.
    clients.truncate(1);
    for _ in 0..count {
        assert!(matches!(clients[0].reply().await, Value::Map(_)));
    }
    until("all is read", || waiting() == 0).await;
    assert_eq!(server.stats().slow_readers, 0, "nobody was cut off");
    server.stop().await;
}

/// With TLS a write that did not fit is repeated with the same bytes, whatever became of their
/// buffer meanwhile.
#[tokio::test(flavor = "multi_thread")]
async fn service_f62_a_client_that_reads_late_is_told_all_with_tls_too() {
    let dir = tempfile::tempdir().expect("a directory");
    let made = Certificates::make(dir.path());
    let server = start(Config { tls: Some(files(&made, false)), ..fresh() }).await;
    let mut client = connect(&server, &trusting(&made, None)).await.expect("a handshake");
    let (bytes, count) = flood("COMMAND DOCS");
    client.send_bytes(&bytes).await;
    // Unless its socket takes it all.
    let is_stuck = |now: Stats| now.bytes_waiting > 0 || now.commands >= count as u64;
    until("it does not read", || is_stuck(server.stats())).await;
    let Value::Array(expected) = client.reply().await else { panic!("RESP2 has no maps") };
    for _ in 1..count {
        assert_eq!(client.reply().await, Value::Array(expected.clone()));
    }
    assert_eq!(client.ask(&["PING"]).await, Value::status("PONG"));
    server.stop().await;
}

/// Little may wait for a stranger, and less than one read can ask for: it is served in parts.
#[tokio::test(flavor = "multi_thread")]
async fn service_f62_a_stranger_with_many_commands_is_answered_them_all() {
    let dir = tempfile::tempdir().expect("a directory");
    let server = start(Config { users: Some(users(dir.path())), ..endless_turns() }).await;
    let mut stranger = Client::raw(&server.addresses()[0]).await;
    let (bytes, count) = flood("PING");
    stranger.send_bytes(&bytes).await;
    for _ in 0..count {
        let reply = stranger.reply().await;
        assert!(matches!(reply, Value::Error { code: ErrorCode::NoAuth, .. }), "{reply:?}");
    }
    assert_eq!(server.stats().slow_readers, 0);
    server.stop().await;
}

/// Behind a command that waits, long replies are refused once much is held back, and what ends the
/// wait is carried out all the same.
#[tokio::test(flavor = "multi_thread")]
async fn service_f63_a_release_behind_a_wait_is_carried_out_however_much_is_held_back() {
    const QUESTIONS: usize = 3000;
    let server = start(fresh()).await;
    let mut client = Client::new(&server).await;
    let (a, b) = (client.open(&[]).await, client.open(&[]).await);
    let held = client.ask(&["LS.ACQUIRE", &a, "a:1", "W"]).await;
    let seq = number(&held, "seq").to_string();
    client.send(&["LS.ACQUIRE", &b, "a:1", "W", "WAIT", "forever"]).await;
    client.send_bytes("COMMAND DOCS\r\n".repeat(QUESTIONS).as_bytes()).await;
    until("all are carried out", || server.stats().commands > QUESTIONS as u64).await;
    let waiting = server.stats().bytes_waiting;
    assert!(waiting < 1 << 20, "{waiting} bytes are held back");
    client.send(&["LS.RELEASE", &a, "a:1", &seq]).await;
    assert_eq!(word(&client.reply().await, "status"), "granted");
    let (mut answered, mut refused) = (0, 0);
    for _ in 0..QUESTIONS {
        match client.reply().await {
            Value::Map(_) => answered += 1,
            Value::Error { code: ErrorCode::Limit, text } => {
                assert!(text.contains("queued behind it"), "{text}");
                refused += 1;
            }
            other => panic!("{other:?}"),
        }
    }
    assert!(answered > 0 && refused > QUESTIONS / 2, "{answered} answered, {refused} refused");
    assert_eq!(client.reply().await, Value::Int(1), "the release");
    assert!(matches!(client.ask(&["COMMAND", "DOCS"]).await, Value::Map(_)), "now it is answered");
    server.stop().await;
}

fn small_budget() -> Config {
    let wire = WireLimits { frame: 128 << 10, ..WireLimits::default() };
    Config { outbox: 64 << 10, outboxes: 256 << 10, wire, ..fresh() }
}

/// A connection for which so many bytes wait: a reply that an earlier one holds back.
async fn holding_back(server: &Server, session: &str, bytes: usize) -> Client {
    let mut client = Client::new(server).await;
    let wait = ["LS.ACQUIRE", session, "a:1", "W", "WAIT", "forever", "SEQ", "9"];
    let before = server.stats().commands;
    client.send(&wait).await;
    until("it waits", || server.stats().commands > before).await;
    let before = server.stats().commands;
    client.send(&["ECHO", &"x".repeat(bytes)]).await;
    until("it waits", || server.stats().commands > before).await;
    client
}

#[tokio::test(flavor = "multi_thread")]
async fn service_f64_when_too_much_waits_for_all_the_fullest_is_closed_first() {
    let config = small_budget();
    let server = start(config).await;
    let mut one = Client::new(&server).await;
    let (a, b) = (one.open(&[]).await, one.open(&[]).await);
    one.ask(&["LS.ACQUIRE", &a, "a:1", "W"]).await;
    let mut clients = Vec::new();
    for size in [30, 40, 55, 50, 45] {
        clients.push(holding_back(&server, &b, size << 10).await);
    }
    assert_eq!(server.stats().slow_readers, 0, "{} bytes are queued", server.stats().bytes_waiting);
    // That is too much: the one with 55 KiB has to go, and no other.
    clients.push(holding_back(&server, &b, 48 << 10).await);
    until("one is closed", || server.stats().connections == 6).await;
    let mut fullest = clients.remove(2);
    fullest.closed().await;
    assert_eq!(server.stats().slow_readers, 1);
    assert!(server.stats().bytes_waiting <= 256 << 10);
    one.ask(&["LS.CLOSE", &a]).await;
    for (client, size) in clients.iter_mut().zip([30, 40, 50, 45, 48]) {
        assert_eq!(word(&client.reply().await, "status"), "granted");
        assert_eq!(client.reply().await, Value::bulk("x".repeat(size << 10)), "{size}");
    }
    until("nothing waits", || server.stats().bytes_waiting == 0).await;
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn service_f64_commands_that_do_not_end_count_too() {
    let config = small_budget();
    let server = start(config).await;
    let mut clients = Vec::new();
    for size in [60, 90, 70, 80] {
        let mut client = Client::new(&server).await;
        client.send_bytes(b"*2\r\n$4\r\nECHO\r\n$100000\r\n").await;
        client.send_bytes("x".repeat(size << 10).as_bytes()).await;
        clients.push(client);
    }
    until("one is closed", || server.stats().connections == 3).await;
    until("little is left", || server.stats().bytes_waiting <= 256 << 10).await;
    let mut fullest = clients.remove(1);
    fullest.closed().await;
    assert_eq!(server.stats().slow_readers, 1);
    for (client, size) in clients.iter_mut().zip([60, 70, 80]) {
        client.send_bytes("x".repeat(100_000 - (size << 10)).as_bytes()).await;
        client.send_bytes(b"\r\n").await;
        assert_eq!(client.reply().await, Value::bulk("x".repeat(100_000)));
    }
    server.stop().await;
}

#[tokio::test]
async fn service_f66_a_connection_with_many_waits_leaves_in_steps() {
    const WAITS: usize = 1000;
    let server = start(short_turns()).await;
    let (mut one, mut two) = (Client::new(&server).await, Client::new(&server).await);
    let (a, b) = (one.open(&[]).await, two.open(&[]).await);
    for id in 0..WAITS {
        let record = format!("a:{id}");
        one.ask(&["LS.ACQUIRE", &a, &record, "W"]).await;
        two.send(&["LS.ACQUIRE", &b, &record, "W", "WAIT", "forever"]).await;
    }
    let claims = || usize::try_from(server.stats().claims).expect("it fits");
    until("all wait", || claims() == 2 * WAITS).await;
    let mut middle = false;
    drop(two);
    while claims() > WAITS {
        one.ask(&["PING"]).await;
        middle |= (WAITS + 1..2 * WAITS).contains(&claims());
    }
    assert!(middle, "nobody else had a turn meanwhile");
    server.stop().await;
}
