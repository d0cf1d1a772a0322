//! TLS and a user by URL.

use std::path::Path;
use std::process::Command;

use lockspan_redis::Options;

use crate::server::{Redis, free_port};
use crate::world::{cli, record, soon};

/// Tells the process that it is to be the node, and where.
const URL: &str = "LOCKSPAN_TEST_TLS_URL";

fn openssl(folder: &Path, arguments: &str) {
    let made = Command::new("openssl").args(arguments.split(' ')).current_dir(folder).output();
    let made = made.expect("these tests need openssl");
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
}

/// An authority, a certificate of it for loopback, and another authority.
fn make_certificates(folder: &Path) {
    std::fs::write(folder.join("san"), "subjectAltName=IP:127.0.0.1").unwrap();
    let key = "-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes";
    for name in ["ca", "other"] {
        let files = format!("-keyout {name}.key -out {name}.pem");
        openssl(folder, &format!("req -x509 {key} {files} -subj /CN={name} -days 2"));
    }
    openssl(folder, &format!("req {key} -keyout own.key -out own.csr -subj /CN=redis"));
    let sign = "x509 -req -in own.csr -CA ca.pem -CAkey ca.key -CAcreateserial";
    openssl(folder, &format!("{sign} -out own.pem -extfile san -days 2"));
}

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
    make_certificates(folder.path());
    let file = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (port, key, own, ca) = (free_port(), file("own.key"), file("own.pem"), file("ca.pem"));
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
    let (is_good, said) = as_node(&url, &file("other.pem"));
    assert!(!is_good && said.contains("UnknownIssuer"), "{said}");
    let (is_good, said) = as_node(&url.replace("secret", "wrong"), &ca);
    assert!(!is_good && said.contains("does not know this user and password"), "{said}");
}
