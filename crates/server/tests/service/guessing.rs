//! Those who guess passwords, against a real server: whom they keep out, and what they find out.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use lockspan_server::{Address, Config, Data, Server};
use lockspan_wire::{ErrorCode, Value};
use serde_json::json;
use tokio::net::TcpSocket;
use tokio::task::JoinSet;

use crate::client::{Client, fresh, start, until, within};
use crate::http::{send, with_page};
use crate::users::{as_user, users};

/// A connection from this address of loopback.
async fn connect_from(server: &Server, from: [u8; 4]) -> Client {
    let Address::Tcp(at) = server.addresses()[0] else { panic!("no port") };
    let socket = TcpSocket::new_v4().expect("a socket");
    socket.bind(SocketAddr::from((from, 0))).expect("an address of this machine");
    Client::on(Box::new(within(socket.connect(at)).await.expect("connected")))
}

/// Answers that guessers have heard, by their codes.
#[derive(Default)]
struct Heard {
    wrong: AtomicUsize,
    later: AtomicUsize,
}

/// So many connections guess at these names, each again as soon as it is answered, until this is
/// dropped.
async fn guess(server: &Server, count: usize, names: &[&str]) -> (JoinSet<()>, Arc<Heard>) {
    let (mut guessers, heard) = (JoinSet::new(), Arc::new(Heard::default()));
    for number in 0..count {
        let mut client = Client::raw(&server.addresses()[0]).await;
        let (heard, name) = (Arc::clone(&heard), names[number % names.len()].to_owned());
        guessers.spawn(async move {
            loop {
                let guess = format!("guess {number}");
                match client.refused(&["AUTH", &name, &guess]).await.0 {
                    ErrorCode::WrongPass => heard.wrong.fetch_add(1, Ordering::Relaxed),
                    ErrorCode::Limit => heard.later.fetch_add(1, Ordering::Relaxed),
                    other => panic!("{other}"),
                };
            }
        });
    }
    until("the first were told so", || heard.wrong.load(Ordering::Relaxed) >= 4).await;
    (guessers, heard)
}

/// She is let in by her first try: one that was not compared within its time is told so.
#[tokio::test(flavor = "multi_thread")]
async fn service_f88_a_user_gets_in_while_others_guess_at_that_name() {
    let dir = tempfile::tempdir().expect("a directory");
    let server = start(Config { users: Some(users(dir.path())), ..fresh() }).await;
    let (guessers, heard) = guess(&server, 24, &["root"]).await;
    for _ in 0..2 {
        as_user(&server, "root").await;
    }
    as_user(&server, "ann").await;
    assert_eq!(heard.wrong.load(Ordering::Relaxed), 4, "only these were answered at once");
    drop(guessers);
    server.stop().await;
}

/// Nobody has logged in since the start, and the server was there before.
#[tokio::test(flavor = "multi_thread")]
async fn service_f89_users_get_in_after_a_restart_while_others_guess() {
    let dir = tempfile::tempdir().expect("a directory");
    let data = Data::Dir(dir.path().join("data"));
    let config = Config { users: Some(users(dir.path())), data, ..fresh() };
    let server = start(config.clone()).await;
    for user in ["ann", "root"] {
        as_user(&server, user).await;
    }
    let logins = dir.path().join("data/lockspan.logins");
    let len = || std::fs::metadata(&logins).map_or(0, |file| file.len());
    until("both are noted", || len() == 32).await;
    server.stop().await;
    drop(server);
    let server = start(config).await;
    let names: Vec<_> = (0..30).map(|number| format!("nobody-{number}")).collect();
    let mut names: Vec<_> = names.iter().map(String::as_str).collect();
    names.extend(["ann"; 10]);
    let (guessers, _) = guess(&server, 60, &names).await;
    for user in ["root", "ann", "bob"] {
        as_user(&server, user).await;
    }
    until("bob, who is new here, is noted too", || len() == 48).await;
    drop(guessers);
    server.stop().await;
}

/// 127.0.0.0/8 has sixteen million addresses, and all of them are this machine.
#[tokio::test(flavor = "multi_thread")]
async fn service_f90_all_addresses_of_loopback_are_one_place() {
    let dir = tempfile::tempdir().expect("a directory");
    let server = start(Config { users: Some(users(dir.path())), ..fresh() }).await;
    let mut compared = 0;
    let mut late = Vec::new();
    for last in 1..=30 {
        let mut client = connect_from(&server, [127, 1, last, 7]).await;
        client.send(&["AUTH", "root", "guess"]).await;
        if compared < 4 {
            let Value::Error { code, .. } = client.reply().await else { panic!("let in") };
            assert_eq!(code, ErrorCode::WrongPass);
            compared += 1;
        } else {
            late.push(client);
        }
    }
    as_user(&server, "root").await;
    for mut client in late {
        let Value::Error { code, .. } = client.reply().await else { panic!("let in") };
        assert_eq!(code, ErrorCode::Limit, "it is one place");
    }
    server.stop().await;
}

/// Six wrong passwords for each name, while others keep the server busy: all hear the same.
#[tokio::test(flavor = "multi_thread")]
async fn service_f92_names_that_exist_are_answered_like_all_others() {
    let dir = tempfile::tempdir().expect("a directory");
    let server = start(Config { users: Some(users(dir.path())), ..fresh() }).await;
    as_user(&server, "ann").await;
    let (guessers, _) = guess(&server, 150, &["eve", "ann", "mallory"]).await;
    let mut tries = JoinSet::new();
    for name in ["ann", "bob", "root", "carol", "dave", "eve"] {
        for _ in 0..6 {
            let mut client = Client::raw(&server.addresses()[0]).await;
            tries.spawn(async move { (name, client.refused(&["AUTH", name, "x"]).await) });
        }
    }
    let mut heard: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for (name, answer) in tries.join_all().await {
        heard.entry(name).or_default().push(answer);
    }
    let first = &heard["ann"];
    assert!(first.iter().all(|(code, _)| *code == ErrorCode::Limit), "{first:?}");
    assert!(heard.values().all(|answers| answers == first), "{heard:?}");
    drop(guessers);
    server.stop().await;
}

/// The page has the same users, and the same places.
#[tokio::test(flavor = "multi_thread")]
async fn service_f88_an_operator_gets_in_on_the_page_while_others_guess_there() {
    let dir = tempfile::tempdir().expect("a directory");
    let server = start(with_page(Config { users: Some(users(dir.path())), ..fresh() })).await;
    let host = server.http_address().expect("it has a page").to_string();
    let origin = format!("http://{host}");
    let headers = [("Host", &*host), ("Origin", &*origin), ("Content-Type", "application/json")];
    let login = async |password: &str| {
        let said = json!({ "user": "root", "password": password }).to_string();
        send(&server, "POST /api/login", &headers, &said).await.status
    };
    let guesses = futures_util::future::join_all((0..20).map(|_| login("guess")));
    let (guesses, right) = tokio::join!(guesses, async {
        tokio::time::sleep(Duration::from_millis(500)).await;
        login("toor").await
    });
    assert_eq!((right, guesses), (200, vec![403; 20]));
    server.stop().await;
}
