//! What one user may have: past it they are refused, with the limit's name, and nobody else is.

use std::time::Duration;

use lockspan_protocol::{AcquireRefusal, Limits, Mode, ToNode};
use lockspan_server::{AuditGate, Config, Data, Server};
use lockspan_wire::{ErrorCode, Value};

use crate::client::{Client, acquire, field, fresh, start, until, word};
use crate::users::{as_user, users};

/// Logs in; the connection, or why not.
async fn try_user(server: &Server, user: &str, password: &str) -> Result<Client, String> {
    let mut client = Client::raw(&server.addresses()[0]).await;
    match client.ask(&["HELLO", "3", "AUTH", user, password]).await {
        Value::Error { code: ErrorCode::Limit, text } => {
            client.closed().await;
            Err(text)
        }
        hello => {
            assert_eq!(field(&hello, "proto"), &Value::Int(3), "{hello:?}");
            Ok(client)
        }
    }
}

/// As many connections of a user as there may be, and why there are no more.
async fn fill(server: &Server, user: &str, password: &str) -> (Vec<Client>, String) {
    let mut inside = Vec::new();
    loop {
        match try_user(server, user, password).await {
            Ok(client) => inside.push(client),
            Err(why) => return (inside, why),
        }
        assert!(inside.len() < 1000, "no limit");
    }
}

fn limited((code, text): (ErrorCode, String)) -> String {
    assert_eq!(code, ErrorCode::Limit, "{text}");
    text
}

#[tokio::test(flavor = "multi_thread")]
async fn service_f80_one_user_does_not_use_up_all_connections() {
    let dir = tempfile::tempdir().expect("a directory");
    let users = Some(users(dir.path()));
    let config = Config { users, connections: 64, connections_per_user: 16, ..fresh() };
    let server = start(config).await;
    let (mut anns, why) = fill(&server, "ann", "nna").await;
    assert_eq!(anns.len(), 16);
    assert!(why.contains("too many connections of user ann: the maximum is 16"), "{why}");
    assert!(why.contains("max-connections-per-user"), "{why}");
    let mut bob = as_user(&server, "bob").await;
    assert_eq!(bob.ask(&["PING"]).await, Value::status("PONG"));
    // RESET makes no room, and to log in again takes none.
    assert_eq!(anns[0].ask(&["RESET"]).await, Value::status("RESET"));
    try_user(&server, "ann", "nna").await.err().expect("she still has 16");
    assert_eq!(anns[0].ask(&["AUTH", "ann", "nna"]).await, Value::OK);
    anns.pop();
    until("her connection is gone", || server.stats().connections == 16).await;
    as_user(&server, "ann").await;
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn service_f80_an_operator_gets_in_when_users_have_all_connections() {
    let dir = tempfile::tempdir().expect("a directory");
    let users = Some(users(dir.path()));
    let config = Config { users, connections: 64, connections_per_user: 64, ..fresh() };
    let server = start(config).await;
    let (mut anns, why) = fill(&server, "ann", "nna").await;
    assert_eq!(anns.len(), 60, "four are kept");
    assert!(
        why.contains("reserved for users with the admin right") && why.contains("max-conn"),
        "{why}"
    );
    let session = anns[0].open(&[]).await;
    let held = anns[0].ask(&["LS.ACQUIRE", &session, "doc:1", "W"]).await;
    assert_eq!(word(&held, "status"), "granted");
    try_user(&server, "bob", "bob!").await.err().expect("all are taken");
    let mut operator = as_user(&server, "root").await;
    let id = anns[0].id_of(&session).await;
    assert!(matches!(operator.ask(&["LS.END", &id]).await, Value::Int(1..)));
    let (operators, _) = fill(&server, "root", "toor").await;
    assert_eq!(operators.len(), 3, "those, and no more than there may be in all");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn service_f78_one_user_does_not_use_up_all_records_or_a_records_line() {
    let dir = tempfile::tempdir().expect("a directory");
    let protocol = Limits { records: 8, waiters_per_user: 2, ..Config::default().protocol };
    let users = Some(users(dir.path()));
    let server = start(Config { users, protocol, records_per_user: 3, ..fresh() }).await;
    let (mut ann, mut bob) = (as_user(&server, "ann").await, as_user(&server, "bob").await);
    let (first, second) = (bob.open(&[]).await, bob.open(&[]).await);
    for (session, name) in [(&first, "doc:1"), (&second, "doc:2"), (&second, "doc:3")] {
        let held = bob.ask(&["LS.ACQUIRE", session, name, "R"]).await;
        assert_eq!(word(&held, "status"), "granted");
    }
    for session in [&first, &second] {
        let why = limited(bob.refused(&["LS.ACQUIRE", session, "doc:4", "R"]).await);
        assert!(why.contains("the maximum is 3 ") && why.contains("max-records-per-user"), "{why}");
    }
    let why = limited(bob.refused(&["LS.LOCK", "doc:4", "R"]).await);
    assert!(why.contains("max-records-per-user"), "{why}");
    let held = bob.ask(&["LS.ACQUIRE", &first, "doc:2", "R"]).await;
    assert_eq!(word(&held, "status"), "granted", "his sessions share what he has");
    // A node hears it as an event, and its other records stay.
    let node = bob.open_native(77).await;
    bob.tell(node, &acquire("doc:4", Mode::Read, 1, 1)).await;
    let ToNode::Refused { why, .. } = bob.heard().await else { panic!("not refused") };
    assert_eq!(why, AcquireRefusal::TooManyUserRecords { max: 3 });
    let anns = ann.open(&[]).await;
    let held = ann.ask(&["LS.ACQUIRE", &anns, "doc:4", "W"]).await;
    assert_eq!(word(&held, "status"), "granted", "ann has room");

    assert!(matches!(bob.ask(&["LS.RELEASE", &second, "doc:3", "2"]).await, Value::Int(_)));
    for session in [&first, &second] {
        let queued = bob.ask(&["LS.ACQUIRE", session, "doc:4", "R"]).await;
        assert_eq!(word(&queued, "status"), "queued");
    }
    let third = bob.open(&[]).await;
    let why = limited(bob.refused(&["LS.ACQUIRE", &third, "doc:4", "R"]).await);
    assert!(why.contains("too many waiters of this user"), "{why}");
    assert!(why.contains("max-waiters-per-user"), "{why}");
    let anns = ann.open(&[]).await;
    let queued = ann.ask(&["LS.ACQUIRE", &anns, "doc:4", "W"]).await;
    assert_eq!(word(&queued, "status"), "queued", "a writer may wait");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_limit_of_all_records_is_named_and_holds_for_all_tables_together() {
    let protocol = Limits { records: 20, ..Config::default().protocol };
    let server = start(Config { protocol, ..fresh() }).await;
    let mut client = Client::new(&server).await;
    let session = client.open(&[]).await;
    for id in 0..20 {
        let held = client.ask(&["LS.ACQUIRE", &session, &format!("a:{{t}}{id}"), "W"]).await;
        assert_eq!(word(&held, "status"), "granted", "one tag, one table");
    }
    let why = limited(client.refused(&["LS.ACQUIRE", &session, "a:x", "W"]).await);
    assert!(why.contains("the maximum is 20 ") && why.contains("max-records"), "{why}");
    server.stop().await;
}

/// Ann holds four records; a restart with a limit of one lets them all in, and nothing new.
#[tokio::test(flavor = "multi_thread")]
async fn service_f79_lower_limits_cost_nobody_what_they_held() {
    for had_users in [true, false] {
        let dir = tempfile::tempdir().expect("a directory");
        let data = Data::Dir(dir.path().join("data"));
        let path = Some(users(dir.path()));
        let users = path.clone().filter(|_| had_users);
        let config = Config { users, data, ..fresh() };
        let server = start(config.clone()).await;
        let mut ann = match had_users {
            true => as_user(&server, "ann").await,
            false => Client::new(&server).await,
        };
        let session = ann.open(&["LEASE", "30000"]).await;
        let mut tokens = Vec::new();
        for id in 1..=4 {
            let held = ann.ask(&["LS.ACQUIRE", &session, &format!("doc:{id}"), "W"]).await;
            let Value::Int(token) = field(&held, "token") else { panic!("{held:?}") };
            tokens.push(token.to_string());
        }
        server.stop().await;
        drop(server);
        let config = Config { users: path, records_per_user: 1, ..config };
        let server = start(config).await;
        let mut ann = as_user(&server, "ann").await;
        let epoch = server.epoch().to_string();
        for (token, id) in tokens.iter().zip(1..) {
            let (name, seq) = (format!("doc:{id}"), id.to_string());
            let words = ["LS.REASSERT", &session, &name, &epoch, &seq, "W", "HELD", token];
            assert_eq!(ann.ask(&words).await, Value::OK, "{name}");
        }
        let told = ["LS.REASSERTED", &session, &epoch, "4", "10"];
        assert_eq!(ann.ask(&told).await, Value::OK);
        assert!(matches!(ann.ask(&["LS.KEEP", &session]).await, Value::Int(_)));
        assert_eq!(server.stats().records, 4);
        let why = limited(ann.refused(&["LS.ACQUIRE", &session, "doc:5", "W"]).await);
        assert!(why.contains("max-records-per-user"), "{had_users}: {why}");
        server.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn service_f84_what_can_not_be_written_down_is_not_done() {
    let audit = AuditGate::default();
    let server = start(Config { audit: audit.clone(), ..fresh() }).await;
    let mut client = Client::new(&server).await;
    let session = client.open(&["LEASE", "30000"]).await;
    let id = client.id_of(&session).await;
    audit.close();
    let why = limited(client.refused(&["LS.END", &id]).await);
    assert!(why.contains("nothing was done") && why.contains("log"), "{why}");
    assert!(matches!(client.ask(&["LS.KEEP", &session]).await, Value::Int(_)), "it goes on");
    audit.open();
    assert!(matches!(client.ask(&["LS.END", &id]).await, Value::Int(1..)));
    tokio::time::timeout(Duration::from_secs(20), server.stop()).await.expect("it stops");
}
