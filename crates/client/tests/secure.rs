//! `lockspans://`, logins, and what a node may not do.

#![forbid(unsafe_code)]

use std::path::Path;
use std::time::Duration;

use lockspan_client::{ConnectError, LockError, Options, Plain};
use lockspan_protocol::{AcquireRefusal, Mode};
use lockspan_server::users::hash_password;
use lockspan_server::{Address, Config, Data, Server, ServerFiles};
use lockspan_tls::testing::Certificates;

const PATIENCE: Duration = Duration::from_secs(20);

async fn within<T>(what: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, what).await.expect("it happens in time")
}

/// A server with TLS and one user, ann, who may write `doc` and read all; and its port.
async fn server(dir: &Path, client_ca: bool) -> (Server, Certificates, u16) {
    let made = Certificates::make(dir);
    let hash = hash_password(b"p@ss:word").expect("a hash");
    let users = dir.join("users.toml");
    let text = format!("[users.ann]\npassword = \"{hash}\"\nread = [\"*\"]\nwrite = [\"doc\"]\n");
    std::fs::write(&users, text).expect("written");
    let config = Config {
        listen: vec!["127.0.0.1:0".parse().expect("an address")],
        data: Data::None { fresh: true },
        tls: Some(ServerFiles {
            cert: made.pem("server"),
            key: made.key("server"),
            client_ca: client_ca.then(|| made.pem("ca")),
        }),
        users: Some(users),
        ..Config::default()
    };
    let server = within(Server::start(config)).await.expect("it starts");
    let Address::Tcp(at) = server.addresses()[0].clone() else { panic!("a port") };
    (server, made, at.port())
}

#[tokio::test(flavor = "multi_thread")]
async fn nodes_take_turns_over_tls() {
    let dir = tempfile::tempdir().expect("a directory");
    let (server, made, port) = server(dir.path(), false).await;
    let url =
        format!("lockspans://ann:p%40ss%3Aword@localhost:{port}?ca={}", made.pem("ca").display());
    let mut nodes = Vec::new();
    for _ in 0..3 {
        nodes.push(within(lockspan_client::connect(&url)).await.expect("connected"));
    }
    let counter = std::sync::Arc::new(std::sync::Mutex::new(0));
    let workers = nodes.iter().map(|locks| {
        let (locks, counter) = (locks.clone(), std::sync::Arc::clone(&counter));
        tokio::spawn(async move {
            let record = locks.record("doc", "1").expect("a name");
            for _ in 0..100 {
                let held = record.write().await.expect("granted");
                // Nobody else is here: no value is lost between.
                let seen = *counter.lock().expect("whole");
                tokio::task::yield_now().await;
                *counter.lock().expect("whole") = seen + 1;
                assert!(held.is_valid());
            }
        })
    });
    let workers: Vec<_> = workers.collect();
    for worker in workers {
        within(worker).await.expect("all turns were had");
    }
    assert_eq!(*counter.lock().expect("whole"), 300);
    within(server.stop()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_is_told_what_it_may_not() {
    let dir = tempfile::tempdir().expect("a directory");
    let (server, made, port) = server(dir.path(), false).await;
    let password = dir.path().join("password");
    std::fs::write(&password, "p@ss:word\n").expect("written");
    let options = Options::new().user("ann").password_file(&password).ca(made.pem("ca"));
    let url = format!("lockspans://127.0.0.1:{port}");
    let locks = within(options.connect(&url)).await.expect("connected");
    let secret = locks.record("secret", "1").expect("a name");
    let reads = within(secret.read()).await.expect("reading is allowed");
    drop(reads);
    let why = within(secret.write()).await.expect_err("writing is not");
    assert_eq!(
        why.to_string(),
        "the server refused: this user lacks the right to write records of this datatype"
    );
    let denied = AcquireRefusal::Denied { mode: Mode::Write };
    assert_eq!(why, LockError::Refused(Box::new(denied)));
    // Those who may are served although somebody beside them may not.
    let (wrote, read) = within(async { tokio::join!(secret.write(), secret.read()) }).await;
    drop(wrote.expect_err("writing is not allowed"));
    drop(read.expect("reading is"));
    within(locks.close()).await.expect("closed");
    within(server.stop()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_wrong_with_a_connection_is_told_without_secrets() {
    let dir = tempfile::tempdir().expect("a directory");
    let (server, made, port) = server(dir.path(), true).await;
    let (ca, other) = (made.pem("ca"), made.pem("other"));
    let url = |query: &str| format!("lockspans://ann:hunter2@127.0.0.1:{port}?{query}");
    let own = |name: &str| {
        let (cert, key) = (made.pem(name), made.key(name));
        format!("ca={}&cert={}&key={}", ca.display(), cert.display(), key.display())
    };
    let wrong = format!("wrong user or password at 127.0.0.1:{port}");
    for (url, part) in [
        (url(&own("client")), &wrong[..]),
        (
            url(&own("client")).replace("ann:hunter2@", ""),
            "requires a user and a password, and none was given",
        ),
        (url(&own("client")).replace(":hunter2", ""), "the password of user \"ann\" is missing"),
        (url(&own("stranger")), "refused the certificate of this client: received fatal alert: "),
        (url(&format!("ca={}", ca.display())), "requires a client certificate"),
        (url(&format!("ca={}", other.display())), "is not signed by a trusted authority"),
        (url("ca=/gone.pem"), "certificates: /gone.pem: can't read it"),
        (url(&own("client")).replace("lockspans:", "lockspan:"), "are only for lockspans://"),
        (format!("lockspan://ann:hunter2@127.0.0.1:{port}"), "this port requires TLS"),
    ] {
        let why = within(lockspan_client::connect(&url)).await.expect_err(part);
        let said = format!("{why} {why:?}");
        assert!(said.contains(part) && !said.contains("hunter2"), "{said} instead of {part}");
        let plain = tokio::task::spawn_blocking(move || {
            Plain::open(&Options::new(), &url, PATIENCE).err().map(|why| why.to_string())
        });
        let said = plain.await.expect("it ends").unwrap_or_default();
        assert!(said.contains(part) && !said.contains("hunter2"), "{said} instead of {part}");
    }
    let to = format!("lockspans://127.0.0.1:{port}?ca={}", ca.display());
    for (alone, part) in [
        (Options::new().cert(made.pem("client")), "the private key of this certificate is missing"),
        (Options::new().key(made.key("client")), "the certificate of this key is missing"),
    ] {
        let said = within(alone.connect(&to)).await.expect_err(part).to_string();
        assert!(said.contains(part), "{said}");
    }
    // Nothing is sent, not even a question for its address.
    let away = Options::new().user("ann").password("hunter2").connect("lockspan://db1");
    let why = within(away).await.expect_err("unencrypted");
    assert!(matches!(why, ConnectError::BadOption { .. }), "{why}");
    assert!(why.to_string().contains("db1:7420 unencrypted"), "{why}");
    let missing = Options::new().user("ann").password_file("/gone");
    let refused = within(missing.connect(&format!("lockspan://127.0.0.1:{port}"))).await;
    let why = refused.expect_err("no password");
    assert!(matches!(why, ConnectError::BadOption { .. }), "{why}");
    let shown = format!("{:?}", Options::new().password("hunter2"));
    assert!(!shown.contains("hunter2"), "{shown}");
    within(server.stop()).await;
}
