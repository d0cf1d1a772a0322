//! What a person reads who has the wrong URL, password, certificate or service; and locks on Redis.

#![forbid(unsafe_code)]

mod common;

use std::fs;
use std::io::Write as _;
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use common::{Process, Service, lockspan, wait_until};
use lockspan_tls::testing::Certificates;

/// A Redis on a port of its own, which ends with the test.
struct Redis {
    port: u16,
    _process: Process,
    _dir: tempfile::TempDir,
}

impl Redis {
    fn start(more: &[&str]) -> Self {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let dir = tempfile::tempdir().unwrap();
        let mut command = Command::new("redis-server");
        command.args(["--port", &port.to_string(), "--save", "", "--bind", "127.0.0.1"]);
        command.args(more).current_dir(dir.path()).stdout(Stdio::null());
        let process = Process::start_on(&mut command);
        wait_until("Redis listens", || TcpStream::connect(("127.0.0.1", port)).is_ok());
        Self { port, _process: process, _dir: dir }
    }

    fn url(&self, scheme: &str) -> String {
        format!("{scheme}://127.0.0.1:{}", self.port)
    }
}

/// The commands that connect, with the least that they need.
const COMMANDS: [&[&str]; 3] = [&["run", "a:b", "true"], &["locks"], &["bench", "--seconds", "1"]];

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Every command that connects to this URL says the same, and ends with this code.
fn all_say(url: &str, env: &[(&str, PathBuf)], code: i32, parts: &[&str]) {
    for words in COMMANDS {
        let mut command = lockspan();
        command.args(words).env("LOCKSPAN_URL", url);
        let output = command.envs(env.iter().cloned()).output().unwrap();
        let said = said(&output);
        assert_eq!(output.status.code(), Some(code), "{words:?} {url}: {said}");
        assert!(said.starts_with("lockspan: can't connect"), "{words:?}: {said}");
        for part in parts {
            assert!(said.contains(part), "{words:?} {url}: {part:?} is not in {said:?}");
        }
        assert!(!said.contains("no lock server for us"), "{said}");
    }
}

/// A server on a port; its options, and its address.
fn serve(more: &[&str]) -> (Process, String) {
    let mut command = lockspan();
    command.args(["serve", "--listen", "127.0.0.1:0", "--data-dir", "none", "--fresh"]);
    let mut server = Process::start_with_log(command.args(more));
    let line = server.line_with("listening on");
    let address = line.split("listening on ").nth(1).and_then(|rest| rest.split(';').next());
    let address = address.unwrap_or_else(|| panic!("{line}")).to_owned();
    (server, address)
}

fn users(dir: &tempfile::TempDir, rights: &str) -> String {
    one_user(dir, "ann", rights)
}

/// A users file with one user, whose password is `right`.
fn one_user(dir: &tempfile::TempDir, name: &str, rights: &str) -> String {
    let mut command = lockspan();
    command.args(["passwd", name]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(b"right").unwrap();
    let output = child.wait_with_output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let path = dir.path().join("users.toml");
    fs::write(&path, format!("{text}{rights}\n")).unwrap();
    path.to_str().unwrap().to_owned()
}

#[test]
fn a_command_runs_under_a_lock_on_redis() {
    let redis = Redis::start(&[]);
    let url = redis.url("redis");
    let run = |words: &[&str], script: &str| {
        let mut command = lockspan();
        command.args(["run", "--url", &url]).args(words).args(["--", "sh", "-c", script]);
        command.stdin(Stdio::null());
        command
    };
    let mut holder = run(&["doc:1"], "echo token $LOCKSPAN_TOKEN; read line");
    let mut holder = Process::start(holder.stdin(Stdio::piped()));
    let token: i64 = holder.line_with("token").split(' ').nth(1).unwrap().parse().unwrap();
    assert!(token > 0);
    let other = run(&["--wait", "0", "doc:1"], "true").output().unwrap();
    assert_eq!(other.status.code(), Some(75), "{}", said(&other));
    let told = said(&other);
    assert!(told.contains("doc:1 is held by sh@") && told.contains(&format!("at {url}")), "{told}");
    drop(holder.stdin());
    assert_eq!(holder.code(), 1, "read has met the end");
    assert_eq!(run(&["--wait", "20s", "doc:1"], "exit 7").output().unwrap().status.code(), Some(7));
    // A run inside of another one is known on Redis too, whoever logs in.
    let binary = env!("CARGO_BIN_EXE_lockspan");
    let inner = format!("{binary} run --url {url}/ doc:1 -- true");
    let nested = run(&["doc:1"], &inner).output().unwrap();
    assert_eq!(nested.status.code(), Some(79), "{}", said(&nested));
    let mut bench = lockspan();
    bench.args(["bench", "--json", "--seconds", "1", "--clients", "2", "--url", &url]);
    let bench = bench.output().unwrap();
    let json: serde_json::Value = serde_json::from_slice(&bench.stdout).unwrap();
    assert!(json["all"]["locks"].as_u64().unwrap() > 0, "{json}");
}

#[test]
fn what_can_not_be_asked_of_a_redis_is_said() {
    let output = lockspan().args(["locks", "--url", "redis://127.0.0.1:1"]).output().unwrap();
    assert_eq!(output.status.code(), Some(64));
    let said = said(&output);
    assert!(said.contains("is a Redis, which keeps no list of its locks"), "{said}");
    assert!(said.contains("GET writelock:TYPE:ID"), "{said}");
    let mut run = lockspan();
    let output = run.args(["run", "--lease", "10ms", "--url", "redis://h", "a:b", "true"]).output();
    let output = output.unwrap();
    let text = self::said(&output);
    assert_eq!(output.status.code(), Some(64), "{text}");
    assert_eq!(text, "lockspan: --lease 10ms is too short: the minimum on Redis is 1s\n");
}

#[test]
fn a_redis_login_comes_from_the_environment() {
    let redis = Redis::start(&["--requirepass", "p@ss"]);
    let run = |env: &[(&str, &str)]| {
        let mut command = lockspan();
        command.args(["run", "--url", &redis.url("redis"), "a:b", "true"]);
        command.envs(env.iter().copied()).output().unwrap()
    };
    assert_eq!(run(&[("LOCKSPAN_PASSWORD", "p@ss")]).status.code(), Some(0));
    let none = run(&[]);
    assert_eq!(none.status.code(), Some(77), "{}", said(&none));
    assert!(said(&none).contains("none was given"), "{}", said(&none));
    assert!(said(&none).contains("LOCKSPAN_USER and LOCKSPAN_PASSWORD_FILE"), "{}", said(&none));
    let wrong = run(&[("LOCKSPAN_PASSWORD", "hunter2")]);
    assert_eq!(wrong.status.code(), Some(77));
    assert!(said(&wrong).contains("wrong user or password"), "{}", said(&wrong));
    assert!(!said(&wrong).contains("hunter2"), "{}", said(&wrong));
}

#[test]
fn a_redis_behind_the_wrong_scheme_is_known() {
    for more in [&[][..], &["--requirepass", "x"]] {
        let redis = Redis::start(more);
        let right = format!("it is a Redis; use {}", redis.url("redis"));
        all_say(&redis.url("lockspan"), &[], 69, &[&right]);
        let with_login = redis.url("lockspan").replace("//", "//a:b@");
        all_say(&with_login, &[], 69, &[&right]);
    }
}

#[test]
fn wrong_urls_are_wrong_usage() {
    all_say("http://x", &[], 64, &["unknown scheme. Use one of: ", "redis://HOST:PORT"]);
    all_say("lockspan://h:0", &[], 64, &["the port must be a number from 1 to 65535"]);
    let output = lockspan().args(["run", "--url", "redis://h:0", "a:b", "true"]).output().unwrap();
    assert_eq!(output.status.code(), Some(64), "{}", said(&output));
    assert!(!said(&output).contains("Use one of"), "{}", said(&output));
    let output = lockspan().args(["run", "--url", "memory:", "a:b", "true"]).output().unwrap();
    assert_eq!(output.status.code(), Some(64));
    assert!(said(&output).contains("the lock would exclude nobody"), "{}", said(&output));
}

#[test]
fn another_protocol_is_told_from_ours() {
    let mut command = lockspan();
    command.args(["serve", "--listen", "127.0.0.1:0", "--data-dir", "none", "--fresh"]);
    let mut server = Process::start_with_log(command.args(["--http", "127.0.0.1:0"]));
    let line = server.line_with("listening on 127.0.0.1:");
    let plain = line.split("listening on ").nth(1).and_then(|rest| rest.split(';').next()).unwrap();
    let line = server.line_with("page and metrics on http://");
    let page = line.split("http://").nth(1).unwrap().trim_end_matches('/');
    let parts = ["is not a Lockspan server: it speaks HTTP", "by default port 7420"];
    all_say(&format!("lockspan://{page}"), &[], 69, &parts);
    let part = format!("{plain} does not use TLS; use lockspan://{plain}");
    all_say(&format!("lockspans://{plain}"), &[], 69, &[&part]);
    let nobody = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    all_say(
        &format!("lockspan://{nobody}"),
        &[],
        69,
        &["no Lockspan server answers", "is it running?"],
    );
}

#[test]
fn what_is_wrong_with_certificates_is_told_with_the_way_out() {
    let dir = tempfile::tempdir().unwrap();
    let made = Certificates::make(dir.path());
    let path = |path: PathBuf| path.to_str().unwrap().to_owned();
    let (cert, key) = (path(made.pem("server")), path(made.key("server")));
    let tls = ["--tls-cert", &cert, "--tls-key", &key];
    let (_server, at) = serve(&tls);
    let url = format!("lockspans://{at}");
    let other = [("LOCKSPAN_CA", made.pem("other"))];
    all_say(
        &url,
        &other,
        69,
        &["is not signed by a trusted authority", "?ca=FILE", "LOCKSPAN_CA=FILE"],
    );
    let ours = [("LOCKSPAN_CA", made.pem("ca"))];
    let plain = format!("lockspan://{at}");
    all_say(&plain, &ours, 69, &["this port requires TLS", "use lockspans://"]);
    let (authority, its_key) = (path(made.pem("ca")), path(made.key("ca")));
    let (_server, at) = serve(&["--tls-cert", &authority, "--tls-key", &its_key]);
    let parts = ["is one of a certificate authority", "basicConstraints=CA:FALSE"];
    all_say(&format!("lockspans://{at}"), &ours, 69, &parts);
    let (_server, at) = serve(&[&tls[..], &["--tls-client-ca", &path(made.pem("ca"))]].concat());
    let url = format!("lockspans://{at}");
    let parts = ["requires a client certificate", "?cert=FILE&key=FILE", "LOCKSPAN_CERT=FILE"];
    all_say(&url, &ours, 69, &parts);
}

#[test]
fn a_login_that_fails_says_so_and_how_to_give_one() {
    let dir = tempfile::tempdir().unwrap();
    let file = users(&dir, "write = [\"a\"]");
    let (_server, at) = serve(&["--users", &file]);
    let parts = ["requires a user and a password", "USER:PASSWORD@", "LOCKSPAN_USER"];
    all_say(&format!("lockspan://{at}"), &[], 77, &parts);
    let wrong = format!("lockspan://ann:hunter2@{at}");
    all_say(&wrong, &[], 77, &["wrong user or password at ", "LOCKSPAN_PASSWORD_FILE"]);
    // A right that is missing is another matter than a service that is.
    let run = |record: &str| {
        let url = format!("lockspan://ann:right@{at}");
        lockspan().args(["run", "--url", &url, record, "true"]).output().unwrap()
    };
    assert_eq!(run("a:1").status.code(), Some(0));
    assert_eq!(run("b:1").status.code(), Some(77), "{}", said(&run("b:1")));
}

#[test]
fn a_socket_with_users_asks_for_variables() {
    let dir = tempfile::tempdir().unwrap();
    let file = users(&dir, "write = [\"*\"]");
    let socket = dir.path().join("s");
    let mut command = lockspan();
    command.args(["serve", "--data-dir", "none", "--fresh", "--users", &file, "--listen"]);
    let mut server = Process::start_with_log(command.arg(format!("unix:{}", socket.display())));
    server.line_with("listening on");
    let url = format!("unix://{}", socket.display());
    let output = lockspan().args(["locks", "--url", &url]).output().unwrap();
    let said = said(&output);
    assert_eq!(output.status.code(), Some(77), "{said}");
    assert!(
        said.contains("none was given: set LOCKSPAN_USER and LOCKSPAN_PASSWORD_FILE"),
        "{said}"
    );
}

#[test]
fn an_empty_list_of_locks_says_why() {
    let service = Service::start();
    let locks = |words: &[&str]| {
        let output = lockspan().args(["locks", "--url", &service.url()]).args(words).output();
        let output = output.unwrap();
        assert!(output.status.success(), "{output:?}");
        said(&output)
    };
    assert_eq!(locks(&[]), "lockspan: nothing is locked\n");
    let mut holder = Process::start(&mut service.run(&["order:1"], "echo held; sleep 1000"));
    holder.line_with("held");
    assert_eq!(locks(&[]), "");
    assert_eq!(locks(&["x:*"]), "lockspan: nothing matches \"x:*\"; 1 record is locked\n");
    let text = locks(&["order", "--json"]);
    assert!(text.contains("A pattern must match the whole name: try 'order*'"), "{text}");
}

#[test]
fn a_user_who_may_inspect_nothing_is_told() {
    let dir = tempfile::tempdir().unwrap();
    let file = users(&dir, "write = [\"*\"]\ninspect = [\"b\"]");
    let (_server, at) = serve(&["--users", &file]);
    let url = format!("lockspan://ann:right@{at}");
    let locks = || said(&lockspan().args(["locks", "--url", &url]).output().unwrap());
    assert_eq!(locks(), "lockspan: nothing is locked\n");
    let mut run = lockspan();
    run.args(["run", "--url", &url, "a:1", "--", "sh", "-c", "echo held; sleep 1000"]);
    let mut holder = Process::start(&mut run);
    holder.line_with("held");
    let text = locks();
    assert!(text.contains("1 record is locked, but this user may see none of them"), "{text}");
    assert!(text.contains("the inspect right is missing"), "{text}");
}

#[test]
fn a_user_who_may_inspect_others_than_asked_for_is_told_that_some_are_hidden() {
    let dir = tempfile::tempdir().unwrap();
    let file = users(&dir, "write = [\"*\"]\ninspect = [\"a\"]");
    let (_server, at) = serve(&["--users", &file]);
    let url = format!("lockspan://ann:right@{at}");
    let locks =
        |pattern| said(&lockspan().args(["locks", "--url", &url, pattern]).output().unwrap());
    let hold = |record| {
        let mut run = lockspan();
        run.args(["run", "--url", &url, record, "--", "sh", "-c", "echo held; sleep 1000"]);
        let mut holder = Process::start(&mut run);
        holder.line_with("held");
        holder
    };
    let _a = hold("a:1");
    assert_eq!(locks("b:*"), "lockspan: nothing matches \"b:*\"; 1 record is locked\n");
    let _b = hold("b:1");
    let text = locks("b:*");
    assert!(
        text.contains("\"b:*\" matches nothing that this user may see: 1 of 2 locked records"),
        "{text}"
    );
    assert!(text.contains("The inspect right for the others is missing"), "{text}");
}

/// A server with users answers only those who log in, so a client that gave no login is never kept
/// from seeing a part: `lockspan locks` relies on it. The user `default` needs a password as well.
#[test]
fn a_server_with_users_has_nobody_whom_it_shows_a_part_without_a_login() {
    let dir = tempfile::tempdir().unwrap();
    let file = one_user(&dir, "default", "write = [\"*\"]");
    let (_server, at) = serve(&["--users", &file]);
    let locks = |url: &str| lockspan().args(["locks", "--url", url]).output().unwrap();
    let nobody = locks(&format!("lockspan://{at}"));
    assert_eq!(nobody.status.code(), Some(77), "{}", said(&nobody));
    let url = format!("lockspan://:right@{at}");
    let mut run = lockspan();
    run.args(["run", "--url", &url, "a:1", "--", "sh", "-c", "echo held; sleep 1000"]);
    let mut holder = Process::start(&mut run);
    holder.line_with("held");
    let text = said(&locks(&url));
    assert!(text.contains("1 record is locked, but this user may see none of them"), "{text}");
    // No password, and no such key: the server does not start with them.
    for bad in ["[users.default]\nwrite = [\"*\"]\n", "[default]\nwrite = [\"*\"]\n"] {
        fs::write(&file, bad).unwrap();
        let mut serve = lockspan();
        serve.args(["serve", "--data-dir", "none", "--listen", "127.0.0.1:0"]);
        let output = serve.args(["--fresh", "--users"]).arg(&file).output().unwrap();
        assert!(!output.status.success(), "{bad}: {}", said(&output));
    }
}
