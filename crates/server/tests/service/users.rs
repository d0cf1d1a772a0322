//! Who may do what, and every refusal.

use std::path::{Path, PathBuf};

use argon2::{Algorithm, Argon2, Params, PasswordHasher as _, Version};
use lockspan_protocol::{
    AcquireRefusal, Claim, Epoch, GroupSet, Handoff, Mode, Seq, SessionId, SessionRefusal, ToNode,
    ToServer, Token,
};
use lockspan_server::{Config, Data, Server};
use lockspan_wire::{ErrorCode, Event, Value, reply};

use crate::client::{Client, acquire, field, fresh, record, start, word};

/// A hash that costs `passes`; with one, next to nothing.
pub(crate) fn hash(password: &str, memory: u32, passes: u32) -> String {
    let params = Params::new(memory, passes, 1, None).expect("allowed");
    let argon = Argon2::new(Algorithm::Argon2id, Version::V0x13, params);
    argon.hash_password_with_salt(password.as_bytes(), b"lockspan").expect("hashed").to_string()
}

/// A file with three users, whose passwords are their names backwards.
pub(crate) fn users(dir: &Path) -> PathBuf {
    let section = |name: &str, password: &str, rules: &str| {
        format!("[users.{name}]\npassword = \"{}\"\n{rules}\n", hash(password, 8, 1))
    };
    let text = [
        section("ann", "nna", "read = [\"*\"]\nwrite = [\"doc\", \"draft-*\"]"),
        section("bob", "bob!", "read = [\"doc\"]\ninspect = [\"doc\"]"),
        section("root", "toor", "write = [\"*\"]\ninspect = [\"*\"]\nadmin = [\"*\"]"),
    ];
    let path = dir.join("users.toml");
    std::fs::write(&path, text.concat()).expect("written");
    path
}

pub(crate) async fn with_users() -> (Server, tempfile::TempDir) {
    let dir = tempfile::tempdir().expect("a directory");
    let server = start(Config { users: Some(users(dir.path())), ..fresh() }).await;
    (server, dir)
}

/// A connection of this user.
pub(crate) async fn as_user(server: &Server, user: &str) -> Client {
    let mut client = Client::raw(&server.addresses()[0]).await;
    let password = match user {
        "ann" => "nna",
        "bob" => "bob!",
        _ => "toor",
    };
    let words = ["HELLO", "3", "AUTH", user, password, "LOCKSPAN", "2"];
    let hello = client.ask(&words).await;
    assert_eq!(field(&hello, "proto"), &Value::Int(3), "{hello:?}");
    client
}

/// Each command that there is, with arguments that make sense.
const COMMANDS: &[&str] = &[
    "LS.OPEN",
    "LS.KEEP 1",
    "LS.CLOSE 1",
    "LS.END s000000000001",
    "LS.EVENTS 1 none",
    "LS.LABEL 1 ann",
    "LS.TAKEBACK doc:1",
    "LS.ACQUIRE 1 doc:1 R",
    "LS.RELEASE 1 doc:1 1",
    "LS.CONVERT 1 doc:1 1 W",
    "LS.CANCEL 1 doc:1 1",
    "LS.LOCK doc:1 R",
    "LS.LOCKALL 2 doc:1 R doc:2 W",
    "LS.RENEW doc:1 6f9619ff8b86d011b42d00c04fc964ff.R.1099511627777.\
     0000000000000000000000000000002a",
    "LS.UNLOCK doc:1 6f9619ff8b86d011b42d00c04fc964ff",
    "LS.REASSERT 1 doc:1 1 1 R HELD 1",
    "LS.REASSERTED 1 1 0 0",
    "LS.TELL 1 keep-alive 1",
    "LS.INSPECT doc:1",
    "LS.HISTORY doc:1",
    "LS.WAITS",
    "LS.LOCKS",
    "LS.SESSIONS",
    "LS.SLOTS",
    "HELLO 2",
    "PING",
    "ECHO a",
    "SELECT 0",
    "INFO",
    "CLIENT LIST",
    "COMMAND COUNT",
    "SUBSCRIBE lockspan:1",
    "UNSUBSCRIBE",
    "CLUSTER SLOTS",
];

/// What needs no login.
const FREE: &[&str] = &["AUTH", "QUIT", "RESET"];

#[tokio::test(flavor = "multi_thread")]
async fn without_a_login_every_command_is_refused() {
    let Value::Array(all) = reply::command_info(&["LIST".into()]) else { panic!("a list") };
    for name in all {
        let Value::Bulk(name) = name else { panic!("a name") };
        let name = String::from_utf8_lossy(&name).to_uppercase();
        let has = COMMANDS.iter().any(|line| line.split(' ').next() == Some(&name));
        assert!(has || FREE.contains(&&name[..]), "{name} is not in the table of this test");
    }
    let (server, _dir) = with_users().await;
    let mut client = Client::raw(&server.addresses()[0]).await;
    for line in COMMANDS {
        let words: Vec<_> = line.split(' ').collect();
        let (code, text) = client.refused(&words).await;
        assert_eq!(code, ErrorCode::NoAuth, "{line}: {text}");
    }
    let mut greedy = Client::raw(&server.addresses()[0]).await;
    greedy.send_bytes(b"*2\r\n$4\r\nECHO\r\n$100000\r\n").await;
    let said = greedy.bytes_until("\r\n").await;
    assert!(said.starts_with("-ERR Protocol error") && said.contains("8192"), "{said}");
    greedy.closed().await;
    assert_eq!(client.ask(&["AUTH", "ann", "nna"]).await, Value::OK);
    assert_eq!(client.ask(&["ECHO", &"x".repeat(100_000)]).await, Value::bulk("x".repeat(100_000)));
    assert_eq!(client.ask(&["PING"]).await, Value::status("PONG"));
    assert_eq!(client.ask(&["RESET"]).await, Value::status("RESET"));
    let (code, _) = client.refused(&["PING"]).await;
    assert_eq!(code, ErrorCode::NoAuth, "after RESET nobody is logged in");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_user_does_not_use_up_all_sessions() {
    let dir = tempfile::tempdir().expect("a directory");
    let users = Some(users(dir.path()));
    let server = start(Config { users, sessions_per_user: 2, ..fresh() }).await;
    let mut ann = as_user(&server, "ann").await;
    let (first, second) = (ann.open(&[]).await, ann.open(&[]).await);
    let (code, text) = ann.refused(&["LS.OPEN"]).await;
    assert_eq!((code, text.contains('2')), (ErrorCode::Limit, true), "{text}");
    // One that is there may be opened again, and others are not concerned.
    assert_eq!(ann.open(&["SESSION", &second]).await, second);
    as_user(&server, "bob").await.open(&[]).await;
    assert_eq!(ann.ask(&["LS.CLOSE", &first]).await, Value::OK);
    ann.open(&[]).await;
    assert_eq!(ann.refused(&["LS.OPEN"]).await.0, ErrorCode::Limit);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn each_refusal_names_the_user_the_verb_and_the_datatype() {
    let (server, _dir) = with_users().await;
    let mut ann = as_user(&server, "ann").await;
    let mut bob = as_user(&server, "bob").await;
    let mut root = as_user(&server, "root").await;
    let anns = ann.open(&["LEASE", "30000"]).await;
    let bobs = bob.open(&["LEASE", "30000"]).await;
    for (is_ann, line, why) in [
        (
            true,
            format!("LS.ACQUIRE {anns} secret:1 W"),
            "user ann lacks the right to write datatype secret",
        ),
        (
            true,
            format!("LS.ACQUIRE {anns} docs:1 W"),
            "user ann lacks the right to write datatype docs",
        ),
        (
            true,
            format!("LS.CONVERT {anns} secret:1 1 W"),
            "user ann lacks the right to write datatype secret",
        ),
        (true, "LS.INSPECT doc:1".to_owned(), "user ann lacks the right to inspect datatype doc"),
        (
            true,
            format!("LS.REASSERT {anns} secret:1 1 1 W HELD 1"),
            "user ann lacks the right to write datatype secret",
        ),
        (
            false,
            format!("LS.ACQUIRE {bobs} doc:1 W"),
            "user bob lacks the right to write datatype doc",
        ),
        (
            false,
            format!("LS.ACQUIRE {bobs} doc:1 W UPGRADE"),
            "user bob lacks the right to write datatype doc",
        ),
        // An upgrade is a write, whatever mode it names.
        (
            false,
            format!("LS.ACQUIRE {bobs} doc:1 R UPGRADE"),
            "user bob lacks the right to write datatype doc",
        ),
        (
            false,
            format!("LS.REASSERT {bobs} doc:1 1 1 R WAITING UPGRADE"),
            "user bob lacks the right to write datatype doc",
        ),
        (
            false,
            format!("LS.ACQUIRE {bobs} other:1 R"),
            "user bob lacks the right to read datatype other",
        ),
        (
            false,
            "LS.INSPECT other:1".to_owned(),
            "user bob lacks the right to inspect datatype other",
        ),
        (true, "LS.HISTORY doc:1".to_owned(), "user ann lacks the right to inspect datatype doc"),
        (
            false,
            "LS.HISTORY other:1".to_owned(),
            "user bob lacks the right to inspect datatype other",
        ),
    ] {
        let client = if is_ann { &mut ann } else { &mut bob };
        let words: Vec<_> = line.split(' ').collect();
        let (code, text) = client.refused(&words).await;
        assert_eq!((code, &text[..]), (ErrorCode::NoPerm, why), "{line}");
    }
    // A session of another user is as good as none; see also `rights`.
    for line in [
        format!("LS.ACQUIRE {anns} doc:1 R"),
        format!("LS.KEEP {anns}"),
        format!("LS.CLOSE {anns}"),
        format!("SUBSCRIBE lockspan:{anns}"),
        format!("LS.OPEN LEASE 30000 SESSION {anns}"),
        format!("LS.REASSERTED {anns} 1 0 0"),
    ] {
        let words: Vec<_> = line.split(' ').collect();
        let (code, text) = bob.refused(&words).await;
        assert!(code == ErrorCode::NoSession && text.contains("no such session"), "{line}: {text}");
    }
    // What is allowed is done.
    for line in [
        format!("LS.ACQUIRE {anns} doc:1 W"),
        format!("LS.ACQUIRE {anns} draft-7:1 W"),
        format!("LS.ACQUIRE {anns} secret:1 R"),
    ] {
        let words: Vec<_> = line.split(' ').collect();
        assert_eq!(word(&ann.ask(&words).await, "status"), "granted", "{line}");
    }
    // Each sees what they may.
    let names = |locks: Value| {
        let Value::Array(pair) = locks else { panic!("a pair") };
        let Value::Array(records) = &pair[1] else { panic!("records") };
        let mut names: Vec<_> = records.iter().map(|one| word(one, "record")).collect();
        names.sort();
        names
    };
    assert_eq!(names(ann.ask(&["LS.LOCKS"]).await), [""; 0]);
    assert_eq!(names(bob.ask(&["LS.LOCKS"]).await), ["doc:1"]);
    assert_eq!(names(root.ask(&["LS.LOCKS"]).await), ["doc:1", "draft-7:1", "secret:1"]);
    let roots = root.open(&["LEASE", "30000"]).await;
    for record in ["doc:1", "secret:1"] {
        let queued = root.ask(&["LS.ACQUIRE", &roots, record, "W"]).await;
        assert_eq!(word(&queued, "status"), "queued");
    }
    let wanted = |waits: Value| {
        let Value::Array(records) = field(&waits, "records") else { panic!("records") };
        let mut names: Vec<_> = records.iter().map(|one| word(one, "record")).collect();
        names.sort();
        names
    };
    assert_eq!(wanted(ann.ask(&["LS.WAITS"]).await), [""; 0]);
    assert_eq!(wanted(bob.ask(&["LS.WAITS"]).await), ["doc:1"]);
    assert_eq!(wanted(root.ask(&["LS.WAITS"]).await), ["doc:1", "secret:1"]);
    assert_eq!(root.ask(&["LS.CLOSE", &roots]).await, Value::OK);
    let count = |list: Value| {
        let Value::Array(list) = list else { panic!("a list") };
        list.iter().map(|one| word(one, "user")).collect::<Vec<_>>()
    };
    assert_eq!(count(ann.ask(&["LS.SESSIONS"]).await), ["ann"]);
    let mut all = count(root.ask(&["LS.SESSIONS"]).await);
    all.sort();
    assert_eq!(all, ["ann", "bob"]);
    let Value::Bulk(list) = bob.ask(&["CLIENT", "LIST"]).await else { panic!("text") };
    let list = String::from_utf8_lossy(&list).into_owned();
    assert!(list.contains("user=bob") && !list.contains("user=ann"), "{list}");
    // Who may administer everything ends a session of somebody else, by its public id; nobody frees
    // what it holds at once, even with its number.
    assert_eq!(root.refused(&["LS.CLOSE", &anns]).await.0, ErrorCode::NoSession);
    let id = ann.id_of(&anns).await;
    let (code, why) = ann.refused(&["LS.END", &id]).await;
    assert_eq!((code, &*why), (ErrorCode::NoPerm, "user ann lacks the right to admin everything"));
    assert!(matches!(root.ask(&["LS.END", &id]).await, Value::Int(1..=30_000)));
    let (code, why) = ann.refused(&["LS.KEEP", &anns]).await;
    assert!(code == ErrorCode::Loading && why.contains("no longer extended"), "{why}");
    let held = root.ask(&["LS.INSPECT", "doc:1"]).await;
    assert_eq!(word(&held, "state"), "alone", "until its lease is over");
    let (code, why) = root.refused(&["LS.END", "s000000000001"]).await;
    assert_eq!((code, &why[..30]), (ErrorCode::NoSession, "there is no session s000000000"));
    server.stop().await;
}

/// The id of a lock.
const ID: &str = "6f9619ff8b86d011b42d00c04fc964ff";

#[tokio::test(flavor = "multi_thread")]
async fn a_lock_needs_the_right_of_its_mode_and_is_its_users_own() {
    let dir = tempfile::tempdir().expect("a directory");
    let users = Some(users(dir.path()));
    let config = Config { users, data: Data::Dir(dir.path().join("data")), ..fresh() };
    let server = start(config.clone()).await;
    let mut ann = as_user(&server, "ann").await;
    let mut bob = as_user(&server, "bob").await;
    let mut root = as_user(&server, "root").await;
    let locked = ann.ask(&["LS.LOCK", "doc:1", "R", "LEASE", "60000", "ID", ID]).await;
    let handle = word(&locked, "handle");
    let written = handle.replace(".R.", ".W.");
    for (user, words, why) in [
        (0, &["LS.LOCK", "secret:1", "W"][..], "user ann lacks the right to write datatype secret"),
        (
            0,
            &["LS.RENEW", "secret:1", &written],
            "user ann lacks the right to write datatype secret",
        ),
        (1, &["LS.LOCK", "doc:1", "W"], "user bob lacks the right to write datatype doc"),
        (1, &["LS.LOCK", "other:1", "R"], "user bob lacks the right to read datatype other"),
        (1, &["LS.RENEW", "doc:1", &written], "user bob lacks the right to write datatype doc"),
    ] {
        let client = [&mut ann, &mut bob][user].refused(words);
        let (code, text) = client.await;
        assert!(code == ErrorCode::NoPerm && text.contains(why), "{words:?}: {code} {text}");
    }
    // A lock of another user is as good as none.
    for client in [&mut bob, &mut root] {
        let locked = client.refused(&["LS.LOCK", "doc:1", "R", "LEASE", "60000", "ID", ID]).await;
        assert_eq!(locked.0, ErrorCode::Stale);
        assert_eq!(client.refused(&["LS.RENEW", "doc:1", &handle]).await.0, ErrorCode::NoSession);
        for lock in [&handle[..], ID] {
            assert_eq!(client.ask(&["LS.UNLOCK", "doc:1", lock]).await, Value::Int(0));
        }
    }
    assert_eq!(ann.ask(&["LS.RENEW", "doc:1", &handle]).await, Value::Int(60_000));
    drop(server);

    // It is hers after a restart too. A token that the server can't have given is not believed.
    let server = start(config).await;
    let mut ann = as_user(&server, "ann").await;
    let mut bob = as_user(&server, "bob").await;
    assert_eq!(bob.refused(&["LS.RENEW", "doc:1", &handle]).await.0, ErrorCode::NoSession);
    assert_eq!(bob.ask(&["LS.UNLOCK", "doc:1", &handle]).await, Value::Int(0));
    let seal = handle.rsplit('.').next().expect("a seal");
    let forged = |epoch: i64, count: i64| format!("{ID}.R.{}.{seal}", (epoch << 40) + count);
    for epoch in [2, 3, 1000] {
        let (code, text) = ann.refused(&["LS.RENEW", "doc:1", &forged(epoch, 1)]).await;
        assert!(
            code == ErrorCode::NotHeld && text.contains("wrong handle for this record"),
            "{text}"
        );
    }
    assert_eq!(ann.ask(&["LS.RENEW", "doc:1", &handle]).await, Value::Int(60_000));
    for forged in [forged(1000, 1), forged(2, 77)] {
        assert_eq!(ann.refused(&["LS.RENEW", "doc:1", &forged]).await.0, ErrorCode::NotHeld);
    }
    assert_eq!(ann.ask(&["LS.UNLOCK", "doc:1", &handle]).await, Value::Int(1));
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_hears_of_a_refusal_as_an_event() {
    let (server, _dir) = with_users().await;
    let mut ann = as_user(&server, "ann").await;
    let mut bob = as_user(&server, "bob").await;
    let session = ann.open_native(7).await;
    ann.tell(session, &acquire("secret:1", Mode::Write, 1, 1)).await;
    let why = AcquireRefusal::Denied { mode: Mode::Write };
    let refused = ToNode::Refused { record: record("secret:1"), seq: Seq(1), why };
    assert_eq!(ann.heard().await, refused);
    let reassert = |claim| ToServer::Reassert {
        record: record("secret:1"),
        epoch: Epoch::new(1).expect("small"),
        former: session,
        seq: Seq(2),
        mode: Mode::Write,
        claim,
    };
    let token = Token::from_number(1 << 40).expect("a token");
    ann.tell(session, &reassert(Claim::Held { token })).await;
    assert_eq!(ann.heard().await, ToNode::Lost { record: record("secret:1"), seq: Seq(2) });
    ann.tell(session, &acquire("secret:1", Mode::Read, 3, 1)).await;
    assert!(matches!(ann.heard().await, ToNode::Granted { .. }));
    // She may read it, so she may not upgrade it, whatever mode the message names.
    let mut upgrade = acquire("secret:1", Mode::Read, 4, 1);
    if let ToServer::Acquire { upgrade, .. } = &mut upgrade {
        *upgrade = true;
    }
    ann.tell(session, &upgrade).await;
    let why = AcquireRefusal::Denied { mode: Mode::Write };
    let refused = ToNode::Refused { record: record("secret:1"), seq: Seq(4), why };
    assert_eq!(ann.heard().await, refused);
    // A session of somebody else is as good as none.
    let ttl = std::time::Duration::from_secs(5);
    bob.tell(session, &ToServer::Open { ttl, handoff: Handoff::Direct }).await;
    assert_eq!(bob.event().await.1, Event::NotOpened(SessionRefusal::Unknown));
    for message in [
        ToServer::KeepAlive { number: 1 },
        ToServer::Close,
        acquire("doc:1", Mode::Read, 9, 1),
        ToServer::Release { record: record("doc:1"), seq: Seq(3), keep: None },
    ] {
        bob.tell(session, &message).await;
        assert_eq!(bob.heard().await, ToNode::NoSession, "{message:?}");
    }
    ann.tell(session, &ToServer::KeepAlive { number: 5 }).await;
    assert_eq!(
        ann.heard().await,
        ToNode::Alive { number: 5, groups: GroupSet::ALL },
        "it lives on"
    );
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_logs_in_as_another_leaves_the_sessions_behind() {
    let (server, _dir) = with_users().await;
    let mut client = as_user(&server, "ann").await;
    let session = client.open(&["LEASE", "30000", "EVENTS", "push"]).await;
    let granted = client.ask(&["LS.ACQUIRE", &session, "doc:1", "W"]).await;
    assert_eq!(word(&granted, "status"), "granted");
    assert_eq!(client.ask(&["AUTH", "bob", "bob!"]).await, Value::OK);
    assert_eq!(client.refused(&["LS.KEEP", &session]).await.0, ErrorCode::NoSession);
    let (code, _) = client.refused(&["LS.RELEASE", &session, "doc:1", "1"]).await;
    assert_eq!(code, ErrorCode::NoSession);
    let mut root = as_user(&server, "root").await;
    let roots = root.open(&[]).await;
    let queued = root.ask(&["LS.ACQUIRE", &roots, "doc:1", "W"]).await;
    assert_eq!(word(&queued, "status"), "queued");
    let (_, events) = client.settle().await;
    assert_eq!(events, [], "nothing of a session of ann");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restart_does_not_change_whose_a_session_is() {
    for on_socket in [false, true] {
        let dir = tempfile::tempdir().expect("a directory");
        let mut config = Config {
            users: Some(users(dir.path())),
            data: Data::Dir(dir.path().join("data")),
            ..fresh()
        };
        if on_socket {
            config.listen = vec![lockspan_server::Address::Unix(dir.path().join("a.sock"))];
        }
        let server = start(config.clone()).await;
        let mut ann = as_user(&server, "ann").await;
        let session = ann.open(&["LEASE", "30000"]).await;
        server.stop().await;
        drop(server);
        let server = start(config).await;
        let mut bob = as_user(&server, "bob").await;
        let (code, text) = bob.refused(&["LS.REASSERTED", &session, "2", "0", "0"]).await;
        assert_eq!(code, ErrorCode::NoSession, "{text}");
        let id = SessionId(session.parse().expect("a number"));
        bob.tell(id, &ToServer::KeepAlive { number: 1 }).await;
        assert_eq!(bob.heard().await, ToNode::NoSession);
        let mut ann = as_user(&server, "ann").await;
        assert_eq!(ann.ask(&["LS.REASSERTED", &session, "2", "0", "0"]).await, Value::OK);
        assert!(matches!(ann.ask(&["LS.KEEP", &session]).await, Value::Int(_)));
        server.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_passwords_are_slowed_down_and_others_are_not() {
    let (server, _dir) = with_users().await;
    let mut logged_in = as_user(&server, "bob").await;
    let mut client = Client::raw(&server.addresses()[0]).await;
    for (user, password) in [("ann", "x"), ("ann", ""), ("nobody", "nna"), ("", "")] {
        let (code, text) = client.refused(&["AUTH", user, password]).await;
        let expected = "wrong user or password";
        assert_eq!((code, &text[..]), (ErrorCode::WrongPass, expected), "{user}");
    }
    // Only now does it take its time; for names that nobody has as well.
    let mut guessers = Vec::new();
    for words in [&["AUTH", "ann", "z"][..], &["AUTH", "nna"], &["HELLO", "3", "AUTH", "x", "y"]] {
        let mut guesser = Client::raw(&server.addresses()[0]).await;
        guesser.send(words).await;
        guessers.push(guesser);
    }
    let mut ann = as_user(&server, "ann").await;
    assert_eq!(ann.ask(&["PING"]).await, Value::status("PONG"), "the right one is let in");
    as_user(&server, "root").await;
    assert_eq!(logged_in.ask(&["PING"]).await, Value::status("PONG"));
    for mut guesser in guessers {
        let Value::Error { code, text } = guesser.reply().await else { panic!("let in") };
        assert_eq!(code, ErrorCode::Limit);
        assert!(
            text.starts_with("too many logins fail or wait, so this one is wrong or"),
            "{text}"
        );
    }
    server.stop().await;
}

/// Everything but the hash runs on this one thread.
#[tokio::test(flavor = "current_thread")]
async fn a_login_holds_nobody_up() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("users.toml");
    let slow = hash("slow", 128 << 10, 10);
    let quick = hash("quick", 8, 1);
    let text = format!(
        "[users.slow]\npassword = \"{slow}\"\n[users.quick]\npassword = \"{quick}\"\nread = [\"*\"]"
    );
    std::fs::write(&path, text).expect("written");
    let server = start(Config { users: Some(path), ..fresh() }).await;
    let mut quick = Client::raw(&server.addresses()[0]).await;
    quick.ask(&["HELLO", "3", "AUTH", "quick", "quick"]).await;
    let mut slow = Client::raw(&server.addresses()[0]).await;
    // What follows in the same breath waits for the login.
    slow.send_bytes(b"AUTH slow slow\r\nPING\r\n").await;
    let mut pings = 0;
    let answer = {
        let mut answer = std::pin::pin!(slow.reply());
        loop {
            let ping = quick.ask(&["PING"]);
            tokio::select! {
                biased;
                answer = &mut answer => break answer,
                pong = ping => {
                    assert_eq!(pong, Value::status("PONG"));
                    pings += 1;
                }
            }
        }
    };
    assert_eq!(answer, Value::OK);
    assert!(pings > 0, "nobody was served during a login");
    assert_eq!(slow.reply().await, Value::status("PONG"));
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_without_users_says_so() {
    let server = start(fresh()).await;
    let mut client = Client::new(&server).await;
    for words in [&["AUTH", "a", "b"][..], &["HELLO", "3", "AUTH", "a", "b"]] {
        let (code, text) = client.refused(words).await;
        assert_eq!(code, ErrorCode::Err);
        assert!(text.contains("this server has no users"), "{text}");
    }
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bad_file_of_users_stops_the_start() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("users.toml");
    for (text, why) in [
        (None, "users: {}: can't read: "),
        (
            Some("[users.a]\npassword = \"plain\""),
            "users: {}:2: user \"a\": password must be a hash",
        ),
    ] {
        if let Some(text) = text {
            std::fs::write(&path, text).expect("written");
        }
        let config = Config { users: Some(path.clone()), ..fresh() };
        let said = Server::start(config).await.expect_err("bad").to_string();
        let why = why.replace("{}", &path.display().to_string());
        assert!(said.starts_with(&why), "{said}");
    }
}
