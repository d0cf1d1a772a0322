//! The log of the service when nobody reads it, and when strangers want to fill it.

#![forbid(unsafe_code)]

mod common;

use std::collections::BTreeSet;
use std::io::{PipeReader, Read as _, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Instant;

use common::resp::{Resp, field};
use common::{Process, lockspan, wait_until};
use lockspan_tls::testing::Certificates;
use lockspan_wire::{ErrorCode, Value};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::process::Signal;

/// A service whose stderr is a pipe that is full from the start, and that nobody reads.
fn serve_unread(socket: &Path, options: &[&str]) -> (Process, PipeReader) {
    let (reader, mut writer) = std::io::pipe().expect("a pipe");
    let flags = fcntl_getfl(&writer).expect("it has some");
    fcntl_setfl(&writer, flags | OFlags::NONBLOCK).expect("set");
    for size in [4096, 1] {
        while writer.write(&vec![b'.'; size]).is_ok() {}
    }
    fcntl_setfl(&writer, flags).expect("set");
    let mut command = lockspan();
    command.args(["serve", "--data-dir", "none", "--fresh", "--listen"]);
    command.arg(format!("unix:{}", socket.display())).args(options).stderr(Stdio::from(writer));
    let process = Process::start_on(&mut command);
    // Our end for writing goes with the command, or the pipe would never end.
    drop(command);
    (process, reader)
}

fn connect(socket: &Path) -> Resp {
    let mut client = None;
    wait_until("somebody listens", || {
        client = Resp::on_socket(socket);
        client.is_some()
    });
    let mut client = client.expect("it listens");
    client.send(&["HELLO", "3"]);
    client
}

fn connected(socket: &Path) -> Resp {
    let mut client = connect(socket);
    assert!(matches!(client.reply(), Some(Value::Map(_))));
    client
}

/// Everything that is in the pipe until the process has ended.
fn read_all(mut reader: PipeReader, mut process: Process) -> String {
    let read = thread::spawn(move || {
        let mut text = Vec::new();
        reader.read_to_end(&mut text).expect("a pipe can be read");
        String::from_utf8_lossy(&text).into_owned()
    });
    process.signal(Signal::TERM);
    assert_eq!(process.code(), 0);
    read.join().expect("it reads to the end")
}

#[test]
fn service_f83_a_log_that_nobody_reads_holds_up_nobody() {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("lock.sock");
    let (process, reader) = serve_unread(&socket, &["--max-connections", "20"]);
    let mut innocent = connected(&socket);
    let others: Vec<_> = (0..19).map(|_| connected(&socket)).collect();
    for _ in 0..3000 {
        let mut refused = Resp::on_socket(&socket).expect("it listens");
        let Some(Value::Error { code, text }) = refused.reply() else { panic!("not refused") };
        assert_eq!(code, ErrorCode::Limit, "{text}");
    }
    let locked = innocent.ask(&["LS.LOCK", "a:1", "W"]);
    assert_eq!(field(&locked, "mode"), "W");
    drop(others);
    let log = read_all(reader, process);
    assert!(log.contains("listening on"), "what was logged meanwhile is there: {log}");
    let refused = log.lines().filter(|line| line.contains("is refused")).count();
    assert!((1..100).contains(&refused), "{refused} lines about 3000 connections");
}

#[test]
fn service_f84_what_operators_did_is_in_the_log_or_was_not_done() {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("lock.sock");
    let (process, reader) = serve_unread(&socket, &[]);
    let mut operator = connected(&socket);
    let mut ended = BTreeSet::new();
    let why = loop {
        let (_, id) = operator.open();
        match operator.ask(&["LS.END", &id]) {
            Value::Int(_) => assert!(ended.insert(id), "each session once"),
            Value::Error { code: ErrorCode::Limit, text } => break text,
            other => panic!("{other:?}"),
        }
        assert!(ended.len() < 20_000, "the lines are bounded");
    };
    assert!(why.starts_with("nothing was done: actions of operators must be logged"), "{why}");
    assert!(ended.len() > 1000, "only after {}", ended.len());
    // All else goes on.
    let locked = operator.ask(&["LS.LOCK", "a:1", "W"]);
    assert_eq!(field(&locked, "mode"), "W");
    let log = read_all(reader, process);
    let audit = log.lines().filter(|line| line.contains("audit: session ended by operator"));
    let written: Vec<_> = audit
        .map(|line| {
            let (_, rest) = line.split_once("session=").expect("whose");
            rest.split_whitespace().next().expect("its id").to_owned()
        })
        .collect();
    assert_eq!(written.len(), ended.len(), "every one of them, once");
    assert_eq!(written.into_iter().collect::<BTreeSet<_>>(), ended);
}

#[test]
fn a_service_that_can_not_start_ends_although_nobody_reads_why() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("file"), "").unwrap();
    let (mut process, _reader) = serve_unread(&dir.path().join("file"), &[]);
    assert_eq!(process.code(), 78);
}

fn port_of(line: &str) -> String {
    let after =
        line.split("listening on 127.0.0.1:").nth(1).and_then(|rest| rest.split(';').next());
    after.unwrap_or_else(|| panic!("no port in {line:?}")).to_owned()
}

fn serve(options: &[&str]) -> Command {
    let mut command = lockspan();
    command.args(["serve", "--data-dir", "none", "--fresh", "--listen", "127.0.0.1:0"]);
    command.args(options);
    command
}

/// Each kind of line is counted: there may be so many a second, and there are a few seconds.
fn check_few(process: &mut Process, since: Instant, text: &str, caused: usize, a_second: usize) {
    process.signal(Signal::TERM);
    let lines = process.rest();
    let logged = lines.iter().filter(|line| line.contains(text)).count();
    let seconds = since.elapsed().as_secs() as usize + 2;
    assert!(logged > 0, "it is said: {lines:?}");
    assert!(logged <= a_second * seconds, "{logged} lines about {caused} in {seconds} s");
}

#[test]
fn service_f85_handshakes_that_fail_do_not_flood_the_log() {
    let dir = tempfile::tempdir().unwrap();
    let made = Certificates::make(dir.path());
    let (cert, key) = (made.pem("server"), made.key("server"));
    let (cert, key) = (cert.to_str().unwrap(), key.to_str().unwrap());
    let mut server = Process::start_with_log(&mut serve(&["--tls-cert", cert, "--tls-key", key]));
    let port = port_of(&server.line_with("listening on"));
    let since = Instant::now();
    for _ in 0..500 {
        let mut stranger = Resp::on_port(&port);
        stranger.send(&["PING"]);
        assert!(matches!(stranger.reply(), Some(Value::Error { .. })), "this port requires TLS");
    }
    check_few(&mut server, since, "TLS handshake with", 500, 1);
}

#[test]
fn service_f85_logins_that_fail_do_not_flood_the_log() {
    let dir = tempfile::tempdir().unwrap();
    let users = dir.path().join("users.toml");
    // Cheap hashes, so that as many as possible are compared.
    let hash = "$argon2id$v=19$m=8,t=1,p=1$bG9ja3NwYW4$BYSvWa4cR5Q3Jp8QWLXxwFmVHNGnHxRTwo6ejLl2Lgk";
    let names: Vec<_> = (0..60).map(|number| format!("user{number}")).collect();
    let text: String =
        names.iter().map(|name| format!("[users.{name}]\npassword = \"{hash}\"\n")).collect();
    std::fs::write(&users, text).unwrap();
    let users = users.to_str().unwrap();
    let mut server = Process::start_with_log(&mut serve(&["--users", users]));
    let port = port_of(&server.line_with("listening on"));
    let since = Instant::now();
    // All at once: all but the first few of a place are answered after ten seconds.
    let guest = |name: &String| {
        let mut guest = Resp::on_port(&port);
        guest.send(&["AUTH", name, "wrong"]);
        guest
    };
    for mut guest in names.iter().map(guest).collect::<Vec<_>>() {
        assert!(matches!(guest.reply(), Some(Value::Error { .. })), "no such password");
    }
    check_few(&mut server, since, "a login failed", names.len(), 8);
}
