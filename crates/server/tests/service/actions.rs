//! What an operator does, without a browser: how it is refused, and what comes of it.

use std::time::Duration;

use lockspan_protocol::{Mode, ToNode};
use lockspan_server::{AuditGate, Config, Data, Server};
use lockspan_wire::Event;
use serde_json::{Value as Json, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::client::{Client, acquire, fresh, release, start, until, within};
use crate::http::{Answer, get, send, with_page};
use crate::users::users;

/// Somebody at a page.
pub(crate) struct Operator<'a> {
    server: &'a Server,
    pub(crate) cookie: String,
    pub(crate) csrf: String,
}

impl<'a> Operator<'a> {
    fn stranger(server: &'a Server) -> Self {
        Self { server, cookie: String::new(), csrf: String::new() }
    }

    async fn post(&self, path: &str, said: &Json) -> Answer {
        let host = self.server.http_address().expect("it has a page").to_string();
        let origin = format!("http://{host}");
        let mut headers = vec![
            ("Host", &*host),
            ("Origin", &origin),
            ("Content-Type", "application/json"),
            ("X-Lockspan-Csrf", &self.csrf),
        ];
        if !self.cookie.is_empty() {
            headers.push(("Cookie", &self.cookie));
        }
        send(self.server, &format!("POST {path}"), &headers, &said.to_string()).await
    }

    pub(crate) async fn log_in(server: &'a Server, password: &str) -> Self {
        Self::log_in_as(server, "operator", password).await
    }

    async fn log_in_as(server: &'a Server, user: &str, password: &str) -> Self {
        let said = json!({ "user": user, "password": password });
        let answer = Self::stranger(server).post("/api/login", &said).await;
        assert_eq!(answer.status, 200, "{answer:?}");
        let cookie = answer.header("set-cookie").expect("a cookie");
        for word in ["HttpOnly", "SameSite=Strict"] {
            assert!(cookie.contains(word), "{cookie}");
        }
        let cookie = cookie.split(';').next().expect("a value").to_owned();
        let csrf = answer.json()["csrf"].as_str().expect("a token").to_owned();
        Self { server, cookie, csrf }
    }
}

fn why(answer: &Answer) -> String {
    answer.json()["error"].as_str().expect("a reason").to_owned()
}

pub(crate) async fn with_secret(dir: &tempfile::TempDir) -> (Server, String) {
    let data = Data::Dir(dir.path().to_owned());
    let mut config = with_page(Config { data, ..fresh() });
    config.protocol.ttl_min = Duration::from_millis(100);
    let server = start(config).await;
    let secret = std::fs::read_to_string(dir.path().join("operator.secret")).expect("it is there");
    (server, secret.trim().to_owned())
}

#[tokio::test(flavor = "multi_thread")]
async fn where_there_are_users_they_look_and_act_as_their_rights_say() {
    let dir = tempfile::tempdir().expect("a directory");
    let data = Data::Dir(dir.path().to_owned());
    let text = std::fs::read_to_string(users(dir.path())).expect("written");
    let clerk = text.replace("[users.root]", "[users.eve]").replace("admin = [\"*\"]", "");
    let (_, clerk) = clerk.split_once("[users.eve]").expect("the last one");
    let path = dir.path().join("users.toml");
    std::fs::write(&path, format!("{text}\n[users.eve]{clerk}")).expect("written");
    let server = start(with_page(Config { users: Some(path), data, ..fresh() })).await;
    assert!(!dir.path().join("operator.secret").exists());
    for path in ["/api/view", "/api/samples", "/api/live"] {
        assert_eq!(get(&server, path).await.status, 401, "{path}");
    }
    assert_eq!(get(&server, "/metrics").await.status, 200);
    let stranger = Operator::stranger(&server);
    for (user, password) in [("root", "wrong"), ("operator", ""), ("bob", "bob!")] {
        let said = json!({ "user": user, "password": password });
        assert_eq!(stranger.post("/api/login", &said).await.status, 403, "{user}");
    }
    let end = json!({ "session": "s000000000001" });
    let eve = Operator::log_in_as(&server, "eve", "toor").await;
    let host = server.http_address().expect("it has a page").to_string();
    let headers = [("Host", &*host), ("Cookie", &*eve.cookie), ("X-Lockspan-Csrf", &*eve.csrf)];
    assert_eq!(send(&server, "GET /api/samples", &headers, "").await.status, 200);
    let in_address = format!("GET /api/samples?token={}", eve.csrf);
    assert_eq!(send(&server, &in_address, &headers[..2], "").await.status, 200);
    // The cookie goes to other ports of the machine too, so it opens nothing alone.
    assert_eq!(send(&server, "GET /api/samples", &headers[..2], "").await.status, 401);
    assert_eq!(send(&server, &in_address, &headers[..1], "").await.status, 401);
    let who = send(&server, "GET /api/who", &headers[..2], "").await.json();
    assert_eq!((&who["user"], &who["csrf"]), (&Json::Null, &Json::Null), "{who}");
    let who = send(&server, "GET /api/who", &headers, "").await.json();
    assert_eq!((&who["user"], &who["csrf"]), (&json!("eve"), &Json::Null), "{who}");
    let refused = eve.post("/api/end-session", &end).await;
    assert_eq!(refused.status, 403);
    assert!(why(&refused).contains("may look, but not end sessions"), "{refused:?}");
    let root = Operator::log_in_as(&server, "root", "toor").await;
    // There is no such session; but the question was allowed.
    assert_eq!(root.post("/api/end-session", &end).await.status, 409);
    // Guesses at one user keep no other out.
    let guess = json!({ "user": "eve", "password": "guess" });
    for _ in 0..2 {
        assert_eq!(stranger.post("/api/login", &guess).await.status, 403);
    }
    let root = Operator::log_in_as(&server, "root", "toor").await;
    ends_with_the_login(&root).await;
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn service_f84_the_page_does_nothing_that_can_not_be_written_down() {
    let dir = tempfile::tempdir().expect("a directory");
    let (data, audit) = (Data::Dir(dir.path().to_owned()), AuditGate::default());
    let server = start(with_page(Config { data, audit: audit.clone(), ..fresh() })).await;
    let secret = std::fs::read_to_string(dir.path().join("operator.secret")).expect("it is there");
    let operator = Operator::log_in(&server, secret.trim()).await;
    let mut client = Client::new(&server).await;
    let session = client.open(&["LEASE", "30000"]).await;
    let end = json!({ "session": client.id_of(&session).await });
    let held = client.ask(&["LS.ACQUIRE", &session, "a:1", "W"]).await;
    assert_eq!(crate::client::word(&held, "status"), "granted");
    audit.close();
    let login = json!({ "user": "operator", "password": secret.trim() });
    for (path, said) in [
        ("/api/end-session", &end),
        ("/api/take-back", &json!({ "key": "a:1" })),
        ("/api/login", &login),
    ] {
        let refused = operator.post(path, said).await;
        assert_eq!(refused.status, 503, "{path}: {refused:?}");
        assert!(why(&refused).contains("actions of operators must be logged"), "{refused:?}");
    }
    assert!(matches!(client.ask(&["LS.KEEP", &session]).await, lockspan_wire::Value::Int(_)));
    audit.open();
    assert_eq!(operator.post("/api/end-session", &end).await.status, 200);
    server.stop().await;
}

/// Who logs out sees no more, in other windows too.
async fn ends_with_the_login(operator: &Operator<'_>) {
    let at = operator.server.http_address().expect("it has a page");
    let mut stream = within(TcpStream::connect(at)).await.expect("connected");
    let (cookie, token) = (&operator.cookie, &operator.csrf);
    let ask = format!(
        "GET /api/live?view=records&token={token} HTTP/1.1\r\nHost: {at}\r\nCookie: {cookie}\r\n\
         Connection: close\r\n\r\n"
    );
    within(stream.write_all(ask.as_bytes())).await.expect("sent");
    let mut heard = Vec::new();
    while !String::from_utf8_lossy(&heard).contains("event: view") {
        assert!(within(stream.read_buf(&mut heard)).await.expect("read") > 0, "it is over");
    }
    assert_eq!(operator.post("/api/logout", &json!({})).await.status, 200);
    within(stream.read_to_end(&mut heard)).await.expect("it ends");
    assert_eq!(
        operator.post("/api/end-session", &json!({ "session": "s000000000001" })).await.status,
        401
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_login_takes_the_place_of_the_one_before() {
    let dir = tempfile::tempdir().expect("a directory");
    let (server, secret) = with_secret(&dir).await;
    let first = Operator::log_in(&server, &secret).await;
    let said = json!({ "user": "operator", "password": secret });
    let again = first.post("/api/login", &said).await;
    assert_eq!(again.status, 200);
    let cookie = again.header("set-cookie").expect("a cookie");
    assert!(!cookie.contains(&first.cookie), "the same cookie");
    let csrf = again.json()["csrf"].as_str().expect("a token").to_owned();
    assert_ne!(csrf, first.csrf);
    let end = json!({ "session": "s000000000001" });
    assert_eq!(first.post("/api/end-session", &end).await.status, 401, "it is over");
    // A token belongs to its login.
    let cookie = cookie.split(';').next().expect("a value").to_owned();
    let second = Operator { server: &server, cookie, csrf };
    assert_eq!(second.post("/api/end-session", &end).await.status, 409);
    let third = Operator::log_in(&server, &secret).await;
    let mixed = Operator { server: &server, cookie: third.cookie, csrf: second.csrf };
    assert_eq!(mixed.post("/api/end-session", &end).await.status, 403);
    // A cookie of somebody's choice is no login.
    let fixed = format!("lockspan-{}=1234", server.http_address().expect("a page").port());
    let victim = Operator { server: &server, cookie: fixed.clone(), csrf: String::new() };
    let answer = victim.post("/api/login", &said).await;
    assert!(!answer.header("set-cookie").expect("a cookie").contains("1234"));
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_acts_without_a_login_and_a_token() {
    let dir = tempfile::tempdir().expect("a directory");
    let (server, secret) = with_secret(&dir).await;
    let end = json!({ "session": "s000000000001" });
    let stranger = Operator::stranger(&server);
    for path in ["/api/end-session", "/api/take-back"] {
        assert_eq!(stranger.post(path, &end).await.status, 401, "{path}");
    }
    let mut operator = Operator::log_in(&server, &secret).await;
    // There is no such session; but the question was allowed.
    assert_eq!(operator.post("/api/end-session", &end).await.status, 409);
    let csrf = std::mem::replace(&mut operator.csrf, "0".repeat(64));
    assert_eq!(operator.post("/api/end-session", &end).await.status, 403);
    operator.csrf.clear();
    assert_eq!(operator.post("/api/end-session", &end).await.status, 403);
    // Whoever has found the cookie alone does not even log the operator out.
    assert_eq!(operator.post("/api/logout", &json!({})).await.status, 403);
    operator.csrf = csrf;
    for (path, said, expected) in [
        ("/api/end-session", json!({}), 400),
        ("/api/end-session", json!({ "session": "x" }), 400),
        ("/api/take-back", json!({ "key": "doc" }), 400),
        ("/api/take-back", json!({ "key": "doc%3A1" }), 409),
        ("/api/nothing", json!({}), 404),
    ] {
        let answer = operator.post(path, &said).await;
        assert_eq!(answer.status, expected, "{path} {said}: {answer:?}");
    }
    assert_eq!(operator.post("/api/logout", &json!({})).await.status, 200);
    assert_eq!(operator.post("/api/end-session", &end).await.status, 401, "it is over");
    assert_eq!(
        operator.post("/api/logout", &json!({})).await.status,
        200,
        "nothing is left to end"
    );
    server.stop().await;
}

/// Others may guess as much as they like: nobody guesses 192 bits.
#[tokio::test(flavor = "multi_thread")]
async fn service_f93_guesses_of_others_keep_no_operator_out() {
    let dir = tempfile::tempdir().expect("a directory");
    let (server, secret) = with_secret(&dir).await;
    let stranger = Operator::stranger(&server);
    let guess = json!({ "user": "operator", "password": "guess" });
    let guesses = (0..40).map(|_| stranger.post("/api/login", &guess));
    for answer in futures_util::future::join_all(guesses).await {
        assert_eq!(answer.status, 403, "{answer:?}");
    }
    let right = json!({ "user": "operator", "password": secret });
    assert_eq!(stranger.post("/api/login", &right).await.status, 200);
    server.stop().await;
}

/// Everybody on the machine may ask how one logs in.
#[tokio::test(flavor = "multi_thread")]
async fn service_f94_nobody_is_told_where_the_secret_is() {
    let dir = tempfile::tempdir().expect("a directory");
    let (server, secret) = with_secret(&dir).await;
    let path = dir.path().display().to_string();
    for (address, expected) in [("/api/who", 200), ("/api/view?view=records", 200), ("/", 200)] {
        let answer = get(&server, address).await;
        assert_eq!(answer.status, expected, "{address}");
        assert!(!answer.body.contains(&path) && !answer.body.contains(&secret), "{answer:?}");
    }
    let how = get(&server, "/api/who").await.json();
    assert!(how["how"].as_str().expect("a text").contains("the file operator.secret"), "{how}");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_users_and_data_nobody_logs_in() {
    let right = json!({ "user": "operator", "password": "secret" });
    let server = start(with_page(fresh())).await;
    let answer = Operator::stranger(&server).post("/api/login", &right).await;
    assert!(answer.status == 403 && why(&answer).contains("neither users nor"), "{answer:?}");
    let who = get(&server, "/api/who").await.json();
    assert_eq!(who["can_log_in"], false);
    server.stop().await;
}

/// A native node, whose session is ended by an operator: it hears so at once, and nobody else gets
/// what it has before its lease is over.
#[tokio::test(flavor = "multi_thread")]
async fn a_session_that_is_ended_keeps_its_records_until_its_lease_is_over() {
    let dir = tempfile::tempdir().expect("a directory");
    let (server, secret) = with_secret(&dir).await;
    let (mut node, mut other) = (Client::new(&server).await, Client::new(&server).await);
    let lease = Duration::from_secs(2);
    let session = node.open_native_for(77, lease).await;
    node.tell(session, &acquire("doc:1", Mode::Write, 1, 1)).await;
    assert!(matches!(node.heard().await, ToNode::Granted { .. }));
    let operator = Operator::log_in(&server, &secret).await;
    let id = node.id_of("77").await;
    let answer = operator.post("/api/end-session", &json!({ "session": id })).await;
    let left = answer.json()["left"].as_u64().expect("a time");
    assert!(left > 0 && left <= 2000, "{left}");
    // It is told at once, and stops before anybody else has the record.
    assert_eq!(node.event().await, (session, Event::EndedByOperator));
    // Its renewal is not answered, and extends nothing.
    let keep = lockspan_protocol::ToServer::KeepAlive { number: 1 };
    node.tell(session, &keep).await;
    let (_, events) = node.settle().await;
    assert!(events.is_empty(), "{events:?}");
    let waiting = other.open(&[]).await;
    other.send(&["LS.ACQUIRE", &waiting, "doc:1", "W", "WAIT", "forever"]).await;
    until("it waits", || server.stats().claims == 2).await;
    let shown = get(&server, &format!("/api/view?view=session&id={id}")).await.json();
    assert_eq!((&shown["last"], &shown["claims"]), (&json!(true), &json!(1)), "{shown}");
    assert_eq!(server.stats().expirations, 0, "the other waits for the lease");
    let granted = other.reply().await;
    assert!(format!("{granted:?}").contains("granted"), "{granted:?}");
    assert_eq!((server.stats().expirations, server.stats().lost_grants), (1, 1));
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_record_is_taken_back_when_its_holder_gives_it_up() {
    let dir = tempfile::tempdir().expect("a directory");
    let (server, secret) = with_secret(&dir).await;
    let mut node = Client::new(&server).await;
    let session = node.open_native_for(77, Duration::from_secs(30)).await;
    node.tell(session, &acquire("doc:1", Mode::Write, 1, 1)).await;
    assert!(matches!(node.heard().await, ToNode::Granted { .. }));
    let operator = Operator::log_in(&server, &secret).await;
    let take = json!({ "key": "doc%3A1" });
    assert_eq!(operator.post("/api/take-back", &take).await.status, 200);
    assert!(matches!(node.heard().await, ToNode::Revoke { wanted: Mode::Write, .. }));
    let again = operator.post("/api/take-back", &take).await;
    assert!(
        again.status == 409 && why(&again).contains("has been asked to release it"),
        "{again:?}"
    );
    node.tell(session, &release("doc:1", 1)).await;
    until("it is free, and nobody but the node is left", || {
        server.stats().records == 0 && server.stats().sessions == 1
    })
    .await;
    server.stop().await;
}

/// A restart finds that the session is not to be extended.
#[tokio::test(flavor = "multi_thread")]
async fn a_restart_does_not_forget_that_a_session_is_to_end() {
    let dir = tempfile::tempdir().expect("a directory");
    let (server, secret) = with_secret(&dir).await;
    let mut client = Client::new(&server).await;
    let session = client.open(&["LEASE", "30000"]).await;
    let id = client.id_of(&session).await;
    let operator = Operator::log_in(&server, &secret).await;
    assert_eq!(operator.post("/api/end-session", &json!({ "session": id })).await.status, 200);
    server.stop().await;
    let (server, _) = with_secret(&dir).await;
    let shown = get(&server, &format!("/api/view?view=session&id={id}")).await.json();
    assert_eq!(shown["last"], true, "{shown}");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hundred_thousand_records_are_shown_in_parts() {
    let server = start(with_page(fresh())).await;
    let mut node = Client::new(&server).await;
    let session = node.open_native_for(77, Duration::from_secs(60)).await;
    for number in 1..=100_000_u64 {
        let name = format!("item:{number}");
        node.tell(session, &acquire(&name, Mode::Read, number, 1)).await;
        if number % 1000 == 0 {
            node.settle().await;
        }
    }
    let page = get(&server, "/api/view?view=records").await;
    assert!(page.body.len() < 32 << 10, "{} bytes", page.body.len());
    let page = page.json();
    assert_eq!(
        (&page["total"], page["records"].as_array().map(Vec::len)),
        (&json!(100_000), Some(50))
    );
    // The first 10,000 of an order can be shown; the others are found by a search.
    for (page, first, last) in [(1, "item:1", "item:10176"), (50, "item:18818", "item:18998")] {
        let ask = format!("/api/view?view=records&count=200&sort=name&page={page}");
        let part = get(&server, &ask).await.json();
        assert_eq!((&part["found"], &part["pages"]), (&json!(100_000), &json!(50)), "{page}");
        let names: Vec<_> = part["records"].as_array().expect("a list").iter().collect();
        let ends = [names.first(), names.last()].map(|it| it.map(|it| it["record"].clone()));
        assert_eq!(ends, [Some(json!(first)), Some(json!(last))], "{page}");
        assert_eq!(names.len(), 200);
    }
    let found = get(&server, "/api/view?view=records&match=item:99999").await.json();
    assert_eq!(found["records"].as_array().map(Vec::len), Some(1), "{found}");
    let id = node.id_of("77").await;
    let shown = get(&server, &format!("/api/view?view=session&id={id}")).await.json();
    assert_eq!(
        (&shown["claims"], shown["records"].as_array().map(Vec::len)),
        (&json!(100_000), Some(200))
    );
    server.stop().await;
}

/// However few are asked for at a time, each record is found once.
#[tokio::test(flavor = "multi_thread")]
async fn a_search_that_finds_much_is_shown_in_parts() {
    let server = start(with_page(fresh())).await;
    let mut client = Client::new(&server).await;
    let session = client.open(&["LEASE", "60000"]).await;
    for number in 0..300 {
        let name = format!("{}:{number}", ["item", "other"][number % 2]);
        client.ask(&["LS.ACQUIRE", &session, &name, "R"]).await;
    }
    let mut seen = std::collections::BTreeSet::new();
    let mut pages = 1..;
    for page in pages.by_ref() {
        let ask = format!("/api/view?view=records&count=7&match=item:*&page={page}");
        let part = get(&server, &ask).await.json();
        let records = part["records"].as_array().expect("a list");
        assert!(records.len() <= 7, "{part}");
        for record in records {
            assert!(seen.insert(record["record"].to_string()), "{record} is shown twice");
        }
        if part["pages"] == json!(page) {
            break;
        }
    }
    assert_eq!((seen.len(), pages.next()), (150, Some(23)));
    server.stop().await;
}
