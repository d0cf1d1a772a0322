//! Limits that fit the machine: descriptors and memory, as the binary finds them.

#![forbid(unsafe_code)]

mod common;

use std::fs;
use std::process::Command;

use common::resp::{Resp, field};
use common::{Process, lockspan, wait_until};
use lockspan_wire::{ErrorCode, Value};
use rustix::process::{Pid, Resource, Rlimit, Signal, prlimit};

fn port_of(line: &str) -> String {
    let after =
        line.split("listening on 127.0.0.1:").nth(1).and_then(|rest| rest.split(';').next());
    after.unwrap_or_else(|| panic!("no port in {line:?}")).to_owned()
}

/// The service, started by a shell that lowers a limit first.
fn serve_under(limit: &str, options: &[&str]) -> Process {
    let mut command = Command::new("sh");
    command.args(["-c", &format!("{limit}; exec \"$0\" \"$@\"")]);
    let binary = lockspan();
    command.arg(binary.get_program());
    for (name, value) in binary.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    command.args(["serve", "--data-dir", "none", "--fresh", "--listen", "127.0.0.1:0"]);
    Process::start_with_log(command.args(options))
}

fn soft_limit(pid: Pid) -> String {
    let text = fs::read_to_string(format!("/proc/{}/limits", pid.as_raw_pid())).unwrap();
    let line = text.lines().find(|line| line.starts_with("Max open files")).unwrap();
    line.split_whitespace().nth(3).unwrap().to_owned()
}

#[test]
fn service_f81_the_soft_limit_of_descriptors_is_raised() {
    let mut server = serve_under("ulimit -Sn 100; ulimit -Hn 3000", &[]);
    let line = server.line_with("limits: ");
    assert!(line.contains("limits: 2872 connections (descriptors: 3000), "), "{line}");
    assert_eq!(soft_limit(server.pid()), "3000");
}

#[test]
fn service_f81_more_connections_than_descriptors_are_not_let_in() {
    let mut server = serve_under("ulimit -n 200", &["--max-connections", "5000"]);
    let port = port_of(&server.line_with("listening on"));
    let line = server.line_with("limits: ");
    assert!(line.contains("limits: 72 connections (descriptors: 200)"), "{line}");
    let warning = server.line_with("WARN");
    assert!(warning.contains("72 connections are accepted instead of 5000"), "{warning}");
    let mut inside: Vec<_> = (0..72).map(|_| Resp::on_port(&port)).collect();
    for client in &mut inside {
        assert_eq!(client.ask(&["PING"]), Value::status("PONG"));
    }
    let Some(Value::Error { code, text }) = Resp::on_port(&port).reply() else {
        panic!("not refused")
    };
    assert!(code == ErrorCode::Limit && text.contains("the maximum is 72"), "{text}");
}

#[test]
fn service_f82_limits_follow_from_the_memory_unless_they_are_chosen() {
    let mut server = serve_under("ulimit -v 3145728", &[]);
    let line = server.line_with("limits: ");
    assert!(line.contains("1572864 records (ulimit -v: 3 GiB)"), "{line}");
    let chosen = ["--max-records", "5000000", "--max-sessions", "10"];
    let mut server = serve_under("ulimit -v 3145728", &chosen);
    let line = server.line_with("limits: ");
    let parts = ["10 sessions (max-sessions), ", "5000000 records (max-records), "];
    assert!(parts.iter().all(|part| line.contains(part)), "{line}");
    let warning = server.line_with("WARN");
    assert!(warning.contains("max-records 5000000 may need more than"), "{warning}");
}

/// The process loses its descriptors while it runs, as by a leak elsewhere in it.
#[test]
fn service_f81_without_a_descriptor_clients_are_told_and_not_left_waiting() {
    let dir = tempfile::tempdir().unwrap();
    let mut command = lockspan();
    command.args(["serve", "--listen", "127.0.0.1:0", "--data-dir"]).arg(dir.path().join("data"));
    let mut server = Process::start_with_log(&mut command);
    let port = port_of(&server.line_with("listening on"));
    let mut first = Resp::on_port(&port);
    assert!(matches!(first.ask(&["HELLO", "3"]), Value::Map(_)));
    let fds = fs::read_dir(format!("/proc/{}/fd", server.pid().as_raw_pid())).unwrap();
    let numbers = fds.filter_map(|fd| fd.ok()?.file_name().to_str()?.parse::<u64>().ok());
    let numbers: Vec<_> = numbers.collect();
    // Three are left below the limit; some others may be above it.
    let few = (0..).filter(|number| !numbers.contains(number)).nth(3).unwrap();
    let limit = Rlimit { current: Some(few), maximum: Some(few) };
    prlimit(Some(server.pid()), Resource::Nofile, limit).expect("it is ours");
    let mut inside = Vec::new();
    let mut told = 0;
    for _ in 0..300 {
        let mut client = Resp::on_port(&port);
        client.send(&["PING"]);
        match client.reply() {
            Some(Value::Error { code: ErrorCode::Limit, text }) => {
                assert!(text.contains("no file descriptor left"), "{text}");
                told += 1;
            }
            Some(pong) => {
                assert_eq!(pong, Value::status("PONG"));
                inside.push(client);
            }
            None => panic!("closed without a word"),
        }
    }
    assert!(told > 250 && inside.len() < 10, "{told} were told, {} got in", inside.len());
    // Who is in goes on, and the data file is written.
    let (session, _) = first.open();
    let locked = first.ask(&["LS.ACQUIRE", &session, "a:1", "W"]);
    assert_eq!(field(&locked, "status"), "granted");
    drop(inside);
    wait_until("there is room again", || {
        let mut client = Resp::on_port(&port);
        client.send(&["PING"]);
        client.reply() == Some(Value::status("PONG"))
    });
    server.signal(Signal::TERM);
    let lines = server.rest();
    let said = lines.iter().filter(|line| line.contains("can't accept")).count();
    assert!((1..30).contains(&said), "{said} lines about {told}");
}
