//! TLS and a user by URL.

use std::process::Command;

use lockspan_redis::Options;
use lockspan_tls::testing::Certificates;

use crate::server::{Redis, free_port};
use crate::world::{cli, record, soon};

/// Tells the process that it is to be the node, and where.
const URL: &str = "LOCKSPAN_TEST_TLS_URL";

/// Whether this test succeeds as a node, in a process that trusts what the file says; and what it
/// printed.
fn as_node(url: &str, trusted: &str) -> (bool, String) {
    let mut node = Command::new(std::env::current_exe().unwrap());
    let test = "tls::a_user_takes_locks_over_tls";
    node.args(["--exact", test, "--nocapture"]).env(URL, url);
    node.env("SSL_CERT_FILE", trusted).env_remove("SSL_CERT_DIR");
    let done = node.output().unwrap();
    (done.status.success(), String::from_utf8_lossy(&done.stderr).into_owned())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_user_takes_locks_over_tls() {
    if let Ok(url) = std::env::var(URL) {
        let locks = Options::new().connect(&url).await.unwrap();
        let first = soon(record(&locks).write_owned()).await.unwrap();
        assert!(first.is_valid());
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let made = Certificates::make(folder.path());
    let text = |path: std::path::PathBuf| path.to_str().unwrap().to_owned();
    let (key, own, ca) = (made.key("server"), made.pem("server"), made.pem("ca"));
    let (port, key, own, ca) = (free_port(), text(key), text(own), text(ca));
    let redis = Redis::start(&[
        "--tls-port",
        &port.to_string(),
        "--tls-auth-clients",
        "no",
        "--tls-key-file",
        &key,
        "--tls-cert-file",
        &own,
        "--tls-ca-cert-file",
        &ca,
    ])
    .await;
    let user = ["ACL", "SETUSER", "locks", "on", ">secret", "~*", "&*", "+@all"];
    assert_eq!(cli(&redis, &user), "OK");
    let url = format!("rediss://locks:secret@127.0.0.1:{port}");
    let (is_good, said) = as_node(&url, &ca);
    assert!(is_good, "{said}");
    let (is_good, said) = as_node(&url, &text(made.pem("other")));
    assert!(!is_good && said.contains("UnknownIssuer"), "{said}");
    let (is_good, said) = as_node(&url.replace("secret", "wrong"), &ca);
    assert!(!is_good && said.contains("WRONGPASS"), "{said}");
}
