//! TLS, users and secrets, as the binary has them; and every command of `docs/security.md`.

#![forbid(unsafe_code)]

mod common;

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Command, Stdio};

use common::{Process, lockspan};
use lockspan_tls::testing::Certificates;
use rustix::process::Signal;

/// The address in the line that says where a server listens.
fn port_of(line: &str) -> String {
    let after =
        line.split("listening on 127.0.0.1:").nth(1).and_then(|rest| rest.split(';').next());
    after.unwrap_or_else(|| panic!("no port in {line:?}")).to_owned()
}

fn passwd(password: &str) -> String {
    let mut command = lockspan();
    command.arg("passwd").stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(password.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap().trim_end().to_owned()
}

/// A block of the page: how it is fenced, and its text.
fn blocks(page: &str) -> Vec<(String, String)> {
    let mut blocks = Vec::new();
    let mut open: Option<(String, String)> = None;
    for line in page.lines() {
        match (&mut open, line.strip_prefix("```")) {
            (None, Some(kind)) => open = Some((kind.to_owned(), String::new())),
            (Some(_), Some(_)) => blocks.extend(open.take()),
            (Some((_, text)), None) => {
                text.push_str(line);
                text.push('\n');
            }
            (None, None) => {}
        }
    }
    blocks
}

/// Runs a script in `dir`, with the variables and functions that the one before has left.
fn run_script(dir: &Path, script: &str) -> String {
    let script = format!(
        "exec 2>&1; [ -e .env ] && . ./.env; set -eu -o pipefail\n{script}\nset +eu; \
         {{ declare -p key; export -p; declare -f; }} > .env 2>/dev/null || true"
    );
    let binary = Path::new(env!("CARGO_BIN_EXE_lockspan")).parent().unwrap();
    let path = format!("{}:{}", binary.display(), std::env::var("PATH").unwrap());
    let mut command = Command::new("bash");
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("LOCKSPAN_") {
            command.env_remove(name);
        }
    }
    command.arg("-c").arg(&script).current_dir(dir).env("PATH", path).stdin(Stdio::null());
    let output = command.output().expect("bash runs");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{script}\n{said}");
    said
}

#[test]
fn the_page_about_security_does_what_it_says() {
    let page = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/security.md"));
    let dir = tempfile::tempdir().unwrap();
    let mut server: Option<Process> = None;
    let mut port = "7420".to_owned();
    let mut said = None;
    let mut ran = 0;
    for (kind, text) in blocks(&page.unwrap()) {
        let text = text.replace("0.0.0.0:7420", "127.0.0.1:0").replace("7420", &port);
        match kind.as_str() {
            "sh" => said = Some(run_script(dir.path(), &text)),
            "text" => assert_eq!(said.take().as_deref(), Some(&text[..])),
            "sh server" => {
                if let Some(mut before) = server.take() {
                    before.signal(Signal::TERM);
                    before.end();
                }
                let text = text.replace("\\\n", " ");
                let mut words = text.split_whitespace();
                assert_eq!(words.next(), Some("lockspan"));
                let mut process =
                    Process::start_with_log(lockspan().args(words).current_dir(dir.path()));
                let before = port;
                port = port_of(&process.line_with("listening on"));
                // What was exported before names the port of the last server.
                if let Ok(known) = fs::read_to_string(dir.path().join(".env")) {
                    let known = known.replace(&format!(":{before}"), &format!(":{port}"));
                    fs::write(dir.path().join(".env"), known).unwrap();
                }
                server = Some(process);
            }
            other => panic!("nobody knows what to do with a block of {other:?}"),
        }
        ran += 1;
    }
    assert!(ran > 9, "the page has {ran} blocks");
}

#[test]
fn listening_beyond_this_machine_needs_both_or_the_word() {
    let dir = tempfile::tempdir().unwrap();
    let made = Certificates::make(dir.path());
    let users = dir.path().join("users.toml");
    fs::write(&users, format!("[users.a]\npassword = \"{}\"\n", passwd("a"))).unwrap();
    let text = |path: std::path::PathBuf| path.to_str().unwrap().to_owned();
    let tls = ["--tls-cert", &text(made.pem("server")), "--tls-key", &text(made.key("server"))];
    let users = ["--users", &text(users)];
    let serve = |more: &[&str]| {
        let mut command = lockspan();
        command.args(["serve", "--listen", "0.0.0.0:0", "--data-dir", "none", "--fresh"]);
        command.args(more);
        command
    };
    for (more, part) in [
        (vec![], "there is neither TLS nor any user: set tls-cert, tls-key and users"),
        (tls.to_vec(), "there are no users"),
        (users.to_vec(), "there is no TLS"),
        (tls[..2].to_vec(), "tls-cert needs tls-key"),
        (tls[2..].to_vec(), "tls-key needs tls-cert"),
        (vec!["--tls-client-ca", "x"], "tls-client-ca needs tls-cert and tls-key"),
        (vec!["--users", "/gone.toml"], "users: /gone.toml: can't read"),
        (vec!["--tls-cert", "/gone", "--tls-key", "/gone"], "tls: /gone: can't read it"),
    ] {
        let refused = serve(&more).output().unwrap();
        let said = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert_eq!(refused.status.code(), Some(78), "{more:?}: {said}");
        assert!(said.contains(part), "{more:?}: {said}");
    }
    let mut insecure = Process::start_with_log(&mut serve(&["--insecure"]));
    insecure
        .line_with("INSECURE: 0.0.0.0:0 can be reached from other machines; anyone who reaches");
    insecure.line_with("listening on");
    let both = [&tls[..], &users[..]].concat();
    let mut secure = Process::start_with_log(&mut serve(&both));
    secure
        .line_with("server.pem: a certificate in it expires within 2 days; then clients refuse it");
    secure.line_with("listening on");
}

#[test]
fn no_secret_is_in_the_log_and_none_is_inherited() {
    let dir = tempfile::tempdir().unwrap();
    let made = Certificates::make(dir.path());
    let (right, wrong, typed) = ("correct-horse-1", "wrong-battery-2", "typed-as-a-name-3");
    let hash = passwd(right);
    let users = dir.path().join("users.toml");
    let text = format!("[users.ann]\npassword = \"{hash}\"\nwrite = [\"*\"]\ninspect = [\"*\"]\n");
    fs::write(&users, text).unwrap();
    let mut command = lockspan();
    command.args(["serve", "--listen", "127.0.0.1:0", "--data-dir", "none", "--fresh"]);
    command.args(["--log-level", "trace", "--users"]).arg(&users);
    command.arg("--tls-cert").arg(made.pem("server")).arg("--tls-key").arg(made.key("server"));
    let mut server = Process::start_with_log(&mut command);
    let port = port_of(&server.line_with("listening on"));
    let url = format!("lockspans://localhost:{port}");
    let client = |words: &[&str], user: &str, password: &str| {
        let mut command = lockspan();
        command.args(words).env("LOCKSPAN_URL", &url).env("LOCKSPAN_CA", made.pem("ca"));
        command.env("LOCKSPAN_USER", user).env("LOCKSPAN_PASSWORD", password);
        command.output().unwrap()
    };
    let script = "echo \"$LOCKSPAN_TOKEN [${LOCKSPAN_PASSWORD-}]\"";
    let held = client(&["run", "doc:1", "--", "sh", "-c", script], "ann", right);
    let shown = String::from_utf8_lossy(&held.stdout).into_owned();
    assert!(held.status.success(), "{held:?}");
    let token = shown.strip_suffix(" []\n").unwrap_or_else(|| panic!("inherited: {shown:?}"));
    let load = ["bench", "--clients", "3", "--records", "5", "--read", "50", "--seconds", "1"];
    let load = client(&load, "ann", right);
    assert!(load.status.success(), "{load:?}");
    // A password in the URL is no more told, or inherited, than one in a variable.
    let url = format!("lockspans://ann:{right}@localhost:{port}");
    let with_url = |words: &[&str], ca: &str| {
        let mut command = lockspan();
        command.args(words).env("LOCKSPAN_URL", &url).env("LOCKSPAN_CA", made.pem(ca));
        command.output().unwrap()
    };
    let script = "echo \"$LOCKSPAN_URL\"";
    let held = with_url(&["run", "doc:1", "--", "sh", "-c", script], "ca");
    let inherited = format!("lockspans://ann@localhost:{port}\n");
    assert_eq!(String::from_utf8_lossy(&held.stdout), inherited, "{held:?}");
    for words in [&["bench", "--seconds", "1"][..], &["locks"], &["run", "doc:1", "--", "true"]] {
        let done = with_url(words, "other");
        let said = String::from_utf8_lossy(&done.stderr).into_owned();
        assert!(!done.status.success() && !said.contains(right), "{said}");
    }
    for (user, password) in [("ann", wrong), (typed, wrong), ("ann", right), (typed, right)] {
        let done = client(&["locks"], user, password);
        let said = String::from_utf8_lossy(&done.stderr).into_owned();
        assert_eq!(done.status.success(), user == "ann" && password == right, "{said}");
        for secret in [right, wrong] {
            assert!(!said.contains(secret), "{said}");
        }
    }
    // By hand, and wrong in every way.
    for words in [
        &["AUTH", "ann", right, "more"][..],
        &["AUTH", typed],
        &["HELLO", "3", "AUTH", "ann", wrong, "MORE"],
        &["HELLO", right],
    ] {
        let mut cli = Command::new("redis-cli");
        cli.args(["-h", "localhost", "-p", &port, "--tls", "--cacert"]).arg(made.pem("ca"));
        let done = cli.args(words).stdin(Stdio::null()).output().expect("redis-cli");
        assert!(!done.stdout.is_empty(), "{done:?}");
    }
    server.signal(Signal::TERM);
    let log = server.rest();
    assert!(log.iter().any(|line| line.contains("a login failed: user ann")), "{log:?}");
    assert!(log.iter().any(|line| line.contains("a login failed: user (unknown)")), "{log:?}");
    let salt = hash.rsplit('$').next().unwrap();
    for (number, line) in log.iter().enumerate() {
        for secret in [right, wrong, typed, salt, token] {
            assert!(!line.contains(secret), "line {number} of the log has {secret}: {line}");
        }
    }
}

/// Asks the page for something; the whole answer.
fn post(at: &str, path: &str, headers: &str, body: &str) -> String {
    let mut stream = TcpStream::connect(at).unwrap();
    stream.set_read_timeout(Some(common::PATIENCE)).unwrap();
    let len = body.len();
    let text = format!(
        "POST {path} HTTP/1.1\r\nHost: {at}\r\nOrigin: http://{at}\r\nConnection: close\r\n\
         Content-Type: application/json\r\nContent-Length: {len}\r\n{headers}\r\n{body}"
    );
    stream.write_all(text.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn what_operators_do_is_in_the_log_and_their_secrets_are_not() {
    let dir = tempfile::tempdir().unwrap();
    let mut command = lockspan();
    command.args(["serve", "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0"]);
    command.args(["--log-level", "trace", "--data-dir"]).arg(dir.path());
    let mut server = Process::start_with_log(&mut command);
    let port = port_of(&server.line_with("listening on"));
    let line = server.line_with("page and metrics on http://");
    let at = line.split("http://").nth(1).unwrap().trim_end_matches('/').to_owned();
    let url = format!("lockspan://127.0.0.1:{port}");
    let mut held = lockspan();
    held.args(["run", "--url", &url, "doc:1", "--", "sh", "-c", "echo held; exec sleep 1000"]);
    let mut held = Process::start(&mut held);
    held.line_with("held");
    let listed = lockspan().args(["locks", "--json", "--url", &url]).output().unwrap();
    let listed: serde_json::Value = serde_json::from_slice(&listed.stdout).unwrap();
    let session = listed["holders"][0]["session"].as_str().unwrap().to_owned();

    let secret = fs::read_to_string(dir.path().join("operator.secret")).unwrap();
    let secret = secret.trim();
    let said = |password: &str| format!("{{\"user\":\"operator\",\"password\":\"{password}\"}}");
    let wrong = "wrong-battery-2";
    assert!(post(&at, "/api/login", "", &said(wrong)).starts_with("HTTP/1.1 403"));
    let answer = post(&at, "/api/login", "", &said(secret));
    let part = |from: &str, to: char| {
        let rest = answer.split(from).nth(1).unwrap_or_else(|| panic!("{from}: {answer}"));
        rest.split(to).next().unwrap().to_owned()
    };
    let (cookie, csrf) = (part("set-cookie: ", ';'), part("\"csrf\":\"", '"'));
    let headers = format!("Cookie: {cookie}\r\nX-Lockspan-Csrf: {csrf}\r\n");
    let end = format!("{{\"session\":\"{session}\"}}");
    let ended = post(&at, "/api/end-session", &headers, &end);
    assert!(ended.starts_with("HTTP/1.1 200"), "{ended}");
    post(&at, "/api/logout", &headers, "{}");
    server.signal(Signal::TERM);
    let log = server.rest();
    for words in [
        &["audit: a login on the page was refused"][..],
        &["audit: logged in on the page", "user=operator"],
        &["audit: session ended by operator", "user=operator", &format!("session={session}")],
        &["audit: logged out of the page", "user=operator"],
    ] {
        let is_it = |line: &String| words.iter().all(|word| line.contains(word));
        assert!(log.iter().any(is_it), "{words:?} is not in {log:#?}");
    }
    let id = cookie.split('=').nth(1).unwrap();
    for (number, line) in log.iter().enumerate() {
        for secret in [secret, wrong, id, &csrf] {
            assert!(!line.contains(secret), "line {number} of the log has a secret: {line}");
        }
    }
}

#[test]
fn passwd_says_what_it_can_not_take() {
    let mut command = lockspan();
    let empty = command.arg("passwd").stdin(Stdio::null()).output().unwrap();
    assert_eq!(empty.status.code(), Some(64));
    assert!(
        String::from_utf8_lossy(&empty.stderr).contains("must have 1 to 1024 bytes"),
        "{empty:?}"
    );
    let mut command = lockspan();
    command.args(["passwd", "a b"]).stdin(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(b"secret\n").unwrap();
    let refused = child.wait_with_output().unwrap();
    assert_eq!(refused.status.code(), Some(64));
    assert!(
        String::from_utf8_lossy(&refused.stderr).contains("not a valid user name"),
        "{refused:?}"
    );
}
