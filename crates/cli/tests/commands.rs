//! `lockspan serve`, `locks`, `bench` and the pages, as a person runs them.

#![forbid(unsafe_code)]

mod common;

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::Stdio;

use common::{Home, Process, Service, lockspan, wait_until};
use rustix::process::Signal;

#[test]
fn the_first_line_says_where_it_is_and_how_to_try_it() {
    let home = tempfile::tempdir().unwrap();
    let data = home.path().join("data");
    let mut command = lockspan();
    command.args(["serve", "--listen", "127.0.0.1:0", "--data-dir"]).arg(&data);
    let mut server = Process::start_with_log(&mut command);
    let line = server.line_with("listening on");
    let address = line.split("listening on ").nth(1).and_then(|rest| rest.split(';').next());
    let address = address.unwrap_or_else(|| panic!("{line}"));
    assert!(line.contains(&format!("data in {}", data.display())), "{line}");
    assert!(line.contains(&format!("lockspan run --url lockspan://{address} demo:1")), "{line}");
    assert!(line.contains("redis-cli -h 127.0.0.1 -p "), "{line}");
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(b"PING\r\n").unwrap();
    let mut answer = String::new();
    BufReader::new(&stream).read_line(&mut answer).unwrap();
    assert_eq!(answer, "+PONG\r\n");
    drop(stream);
    server.signal(Signal::TERM);
    server.line_with("SIGTERM: stopping");
    server.line_with("stopped");
    assert_eq!(server.code(), 0);
}

#[test]
fn the_log_may_be_json() {
    let mut command = lockspan();
    command.args(["serve", "--listen", "127.0.0.1:0", "--data-dir", "none", "--fresh"]);
    let mut server = Process::start_with_log(command.env("LOCKSPAN_LOG", "json"));
    let line: serde_json::Value = serde_json::from_str(&server.line_with("listening")).unwrap();
    assert_eq!(line["level"], "INFO");
    assert!(line["message"].as_str().unwrap().starts_with("listening on 127.0.0.1:"), "{line}");
    server.signal(Signal::INT);
    assert_eq!(server.code(), 0);
}

#[test]
fn a_bad_option_ends_with_its_place_and_a_code() {
    let output = lockspan().arg("serve").env("LOCKSPAN_SHARDS", "many").output().unwrap();
    assert_eq!(output.status.code(), Some(78));
    let text = String::from_utf8(output.stderr).unwrap();
    let expected = "lockspan: LOCKSPAN_SHARDS: \"many\" is not a whole number from 1 to 256\n";
    assert_eq!(text, expected);
}

#[test]
fn the_users_own_service_is_private_and_ends_when_idle() {
    let home = Home::new();
    let mut command = home.lockspan();
    command.args(["serve", "--local", "--idle-exit", "300ms"]);
    let mut server = Process::start_with_log(&mut command);
    let line = server.line_with("listening on");
    let socket = home.folder().join("lock.sock");
    assert!(line.contains(&format!("unix:{}", socket.display())), "{line}");
    let data = home.folder().join("data");
    assert!(line.contains(&format!("data in {}", data.display())), "{line}");
    server.line_with("stopped: idle");
    assert_eq!(server.code(), 0);
    wait_until("the socket is gone", || !socket.exists());
}

#[test]
fn a_service_of_one_machine_that_is_killed_comes_back_with_its_sessions() {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("lock.sock");
    let serve = || {
        let mut command = lockspan();
        command.arg("serve").arg("--data-dir").arg(dir.path().join("data"));
        command.arg("--listen").arg(format!("unix:{}", socket.display()));
        let mut process = Process::start_with_log(&mut command);
        process.line_with("listening on");
        process
    };
    let run = |wait: &str, script: &str| {
        let mut command = lockspan();
        command.args(["run", "--url", &format!("unix://{}", socket.display()), "--wait", wait]);
        command.args(["--lease", "30s", "kept:1", "--", "sh", "-c", script]);
        command.stdin(Stdio::null());
        command
    };
    let mut server = serve();
    let over = dir.path().join("over");
    let script = format!("echo held; until [ -e {} ]; do sleep 0.02; done", over.display());
    let mut holder = Process::start(&mut run("20s", &script));
    holder.line_with("held");
    server.signal(Signal::KILL);
    server.end();
    let data = std::fs::read_to_string(dir.path().join("data/lockspan.data")).unwrap();
    assert!(data.contains(" open ") && !data.contains(" end "), "{}", data.replace('\0', ""));

    let _server = serve();
    // Whether it is still in its grace or not: the record is the holder's.
    assert_eq!(run("0", "true").status().unwrap().code(), Some(75));
    std::fs::write(&over, "").unwrap();
    assert_eq!(holder.code(), 0, "it never lost its lock");
    assert_eq!(run("20s", "true").status().unwrap().code(), Some(0));
}

#[test]
fn service_f44_a_service_that_recovers_says_so_in_its_log_and_to_those_who_ask_or_wait() {
    let dir = tempfile::tempdir().unwrap();
    let serve = |listen: &str| {
        let mut command = lockspan();
        command.args(["serve", "--listen", listen, "--data-dir"]).arg(dir.path());
        Process::start_with_log(&mut command)
    };
    let mut server = serve("127.0.0.1:0");
    let line = server.line_with("listening on");
    let address = line.split("listening on ").nth(1).and_then(|rest| rest.split(';').next());
    let address = address.unwrap_or_else(|| panic!("{line}")).to_owned();
    let ask = |line: &str, lines: usize| {
        let mut stream = TcpStream::connect(&address).unwrap();
        stream.set_read_timeout(Some(common::PATIENCE)).unwrap();
        stream.write_all(format!("{line}\r\n").as_bytes()).unwrap();
        let read = BufReader::new(&stream).lines().take(lines);
        read.collect::<Result<Vec<_>, _>>().unwrap()
    };
    // Two sessions: one comes back, the other does not.
    let opened = [4, 15].map(|lease| ask(&format!("LS.OPEN LEASE {lease}000"), 9));
    let [(_, gone), (back, _)] = opened.map(|opened| (opened[4].clone(), opened[8].clone()));
    assert!(gone.starts_with('s') && gone.len() == 13, "{gone}");
    server.signal(Signal::KILL);
    server.end();

    let mut server = serve(&address);
    let line = server.line_with("recovering: waiting for 2 sessions (");
    assert!(line.contains(&gone) && line.contains("at most 16.5s"), "{line}");
    let url = format!("lockspan://{address}");
    let locks = lockspan().args(["locks", "--url", &url]).output().unwrap();
    let said = String::from_utf8(locks.stderr).unwrap();
    let expected = "lockspan: recovering: waiting for 2 sessions, at most ";
    assert!(locks.status.success() && said.starts_with(expected), "{said}");
    assert!(!format!("{line}{said}").contains(&back), "a number is a secret");
    let run = lockspan().args(["run", "--url", &url, "--wait", "0", "x:1", "--", "true"]).output();
    let (code, said) = run.map(|run| (run.status.code(), run.stderr)).unwrap();
    let said = String::from_utf8(said).unwrap();
    assert_eq!(code, Some(75), "{said}");
    let expected = format!("x:1 is locked at {url}; the service is recovering: waiting for 2");
    assert!(said.contains(&expected), "{said}");
    assert_eq!(ask(&format!("LS.REASSERTED {back} 2 0 0"), 1), ["+OK"]);
    let line = server.line_with("recovered after ");
    let expected = format!(
        "1 of 2 sessions came back; the leases of the others expired, and their locks are free: \
         {gone}"
    );
    assert!(line.contains(&expected), "{line}");
    let locks = lockspan().args(["locks", "--url", &url]).output().unwrap();
    assert_eq!(String::from_utf8(locks.stderr).unwrap(), "lockspan: nothing is locked\n");
}

#[test]
fn locks_are_shown_with_holders_and_waiters() {
    let service = Service::start();
    assert_eq!(service.tell(&["locks"]).lines().count(), 1, "a head and nothing else");
    let mut holder = Process::start(&mut service.run(&["show:1"], "echo held; sleep 1000"));
    holder.line_with("held");
    let mut reader = Process::start(&mut service.run(&["-r", "show:2"], "echo held; sleep 1000"));
    reader.line_with("held");
    let _waiter = Process::start(&mut service.run(&["show:1"], "true"));
    let find = |name: &str| -> serde_json::Value {
        let text = service.tell(&["locks", "--json", name]);
        let line = text.lines().next().unwrap_or("null");
        serde_json::from_str(line).unwrap()
    };
    wait_until("the waiter is in line", || find("show:1")["waiters"][0]["mode"] == "W");
    assert_eq!(find("show:1")["holders"][0]["mode"], "W");
    assert_eq!(find("show:2")["holders"][0]["mode"], "R");
    assert_eq!(find("nothing:*"), serde_json::Value::Null);
    let table = service.tell(&["locks", "show:*"]);
    let rows: Vec<&str> = table.lines().collect();
    assert!(rows[0].starts_with("RECORD  STATE"), "{table}");
    let names: Vec<_> = rows[1..].iter().filter_map(|row| row.split("  ").next()).collect();
    assert_eq!(names, ["show:1", "show:1", "show:2"], "a holder and a waiter, a reader: {table}");
}

#[test]
fn a_service_that_is_not_there_is_told() {
    let command = |url: &str| lockspan().args(["locks", "--url", url]).output().unwrap();
    let output = command("unix:///nowhere/lock.sock");
    assert_eq!(output.status.code(), Some(69));
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(
        text.starts_with(
            "lockspan: can't connect to unix:///nowhere/lock.sock: no Lockspan server answers at \
             /nowhere/lock.sock: "
        ),
        "{text}"
    );
    let output = command("http://x");
    assert_eq!(output.status.code(), Some(64));
}

#[test]
fn a_bench_ends_with_a_table() {
    let service = Service::start();
    for words in [
        &["bench", "--clients", "2", "--records", "10", "--seconds", "1"][..],
        &["bench", "--clients", "2", "--records", "10", "--seconds", "1", "--uncached"],
    ] {
        let text = service.tell(words);
        assert!(text.contains("p99.9"), "{text}");
        let all = text.lines().find(|line| line.starts_with("all")).expect("a row for all");
        let locks: u64 = all.split_whitespace().nth(1).unwrap().parse().unwrap();
        assert!(locks > 0, "{text}");
    }
}

#[test]
fn completions_and_manual_pages_are_made() {
    for shell in ["bash", "zsh", "fish"] {
        let output = lockspan().args(["completions", shell]).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        for word in ["max-lease", "sessions", "history", "waits", "take-back", "note"] {
            assert!(text.contains(word), "{shell}: {word}");
        }
        // In bash, the line below a case for an option says what is offered as its value.
        let url = text.split("--url)").nth(1).unwrap_or_default();
        assert!(!url.lines().nth(1).unwrap_or_default().contains("compgen -f"), "{shell}: files");
    }
    let page = lockspan().arg("man").output().unwrap();
    assert!(String::from_utf8(page.stdout).unwrap().contains(".TH lockspan"));
    let dir = tempfile::tempdir().unwrap();
    let done = lockspan().arg("man").arg(dir.path()).status().unwrap();
    assert!(done.success());
    let pages = ["run", "serve", "sessions", "history", "waits", "end", "take-back"];
    let pages = pages.iter().map(|page| format!("lockspan-{page}.1"));
    for page in std::iter::once("lockspan.1".to_owned()).chain(pages) {
        assert!(Path::exists(&dir.path().join(&page)), "{page}");
    }
}

#[test]
fn help_tells_of_every_way_to_set_an_option() {
    let output = lockspan().args(["serve", "--help"]).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success());
    for part in ["--max-lease <TIME>", "LOCKSPAN_MAX_LEASE", "max-lease = \"30s\""] {
        assert!(text.contains(part), "{part}:\n{text}");
    }
}
