//! `lockspan run` of several records.

#![forbid(unsafe_code)]

mod common;

use std::process::Output;

use common::{Process, Service, lockspan};
use rustix::process::Signal;

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// The words before the command, and the command.
fn run(service: &Service, words: &[&str], command: &[&str]) -> Output {
    let url = service.url();
    lockspan().args(["run", "--url", &url]).args(words).args(command).output().unwrap()
}

#[test]
fn the_command_gets_the_tokens_of_all_records_in_order() {
    let service = Service::start();
    let script = "echo \"$LOCKSPAN_TOKENS\"; echo \"[$LOCKSPAN_TOKEN] [$LOCKSPAN_RECORD]\"";
    let shell = ["--", "sh", "-c", script];
    let output = run(&service, &["b:2", "a:1 x", "a!:1", "b:2"], &shell);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    let text = String::from_utf8(output.stdout).unwrap();
    let lines: Vec<_> = text.lines().collect();
    let names: Vec<_> = lines[..3].iter().map(|line| line.split_once(' ').unwrap().1).collect();
    assert_eq!((names, lines[3]), (vec!["a:1%20x", "a!:1", "b:2"], "[] []"));
    assert!(lines[..3].iter().all(|line| line.split(' ').next().unwrap().parse::<i64>().is_ok()));
    // Of one record it is as before, and the variable for several has it too.
    let inner = format!("{} run a:1 -- sh -c '{script}'", env!("CARGO_BIN_EXE_lockspan"));
    let output = run(&service, &["c:1", "c:2"], &["--", "sh", "-c", &inner]);
    let text = String::from_utf8(output.stdout).unwrap();
    let (first, second) = text.trim().split_once('\n').unwrap();
    let token = first.strip_suffix(" a:1").unwrap();
    assert_eq!(second, format!("[{token}] [a:1]"));
}

#[test]
fn all_are_locked_or_none_and_the_one_that_is_held_is_named() {
    let service = Service::start();
    let words = ["--and-read", "r:1", "a:1", "b:1"];
    let mut holder = Process::start(&mut service.run(&words, "echo held; sleep 1000"));
    holder.line_with("held");
    for (words, code, record) in [
        (&["--wait", "0", "a:0", "b:1", "c:1"][..], 75, "b:1 is held by sh@"),
        (&["--wait", "200ms", "r:1", "z:1"], 75, "r:1 is held by sh@"),
        (&["--wait", "0", "-r", "r:1", "z:1"], 0, ""),
        (&["--wait", "0", "-w", "a:0", "c:1"], 0, ""),
    ] {
        let output = run(&service, words, &["--", "true"]);
        assert_eq!(output.status.code(), Some(code), "{words:?}: {}", said(&output));
        assert!(said(&output).contains(record), "{words:?}: {}", said(&output));
    }
    // The notice names the record that is waited for.
    let mut waiting = service.run(&["-v", "a:0", "b:1", "c:1"], "true");
    waiting.stderr(std::process::Stdio::piped());
    let mut waiting = Process::start_with_log(&mut waiting);
    let notice = waiting.line_with("waiting for");
    assert!(notice.contains("waiting for b:1 at"), "{notice}");
    holder.signal(Signal::TERM);
    let granted = waiting.line_with("granted");
    assert!(granted.contains("a:0, b:1, c:1 were granted after"), "{granted}");
    assert_eq!(waiting.code(), 0);
    assert_eq!(holder.code(), 143);
}

#[test]
fn several_records_need_the_dashes_and_a_command() {
    let service = Service::start();
    let output = run(&service, &["a:1", "b:2"], &["true"]);
    assert_eq!(output.status.code(), Some(127));
    let hint = "put -- before the command: lockspan run a:1 b:2 -- COMMAND";
    assert!(said(&output).contains(hint), "{}", said(&output));
    let output = run(&service, &["a:1", "b:2"], &["--"]);
    assert_eq!(output.status.code(), Some(64));
    assert!(said(&output).contains("no command after --"), "{}", said(&output));
    // One record needs none, and what the command gets is its own.
    let output = run(&service, &["a:1"], &["echo", "b:2", "--", "c:3"]);
    assert_eq!(String::from_utf8(output.stdout).unwrap(), "b:2 -- c:3\n");
}

#[test]
fn a_nested_run_of_one_of_the_records_is_refused() {
    let service = Service::start();
    let nested = |outer: &[&str], inner: &str| {
        let inner = format!("{} run {inner} -- true", env!("CARGO_BIN_EXE_lockspan"));
        run(&service, outer, &["--", "sh", "-c", &inner])
    };
    let output = nested(&["a:1", "b:1"], "a:0 b:1");
    assert_eq!(output.status.code(), Some(79), "{}", said(&output));
    assert!(said(&output).contains("under a lock on b:1 for writing"), "{}", said(&output));
    assert_eq!(nested(&["a:1", "b:1"], "a:0 c:1").status.code(), Some(0));
    assert_eq!(nested(&["-r", "a:1", "b:1"], "--and-read b:1 c:1").status.code(), Some(0));
    assert_eq!(nested(&["-r", "a:1", "b:1"], "b:1 c:1").status.code(), Some(79));
}

#[test]
fn runs_of_the_same_records_in_any_order_all_end() {
    let service = Service::start();
    let orders = [["a:1", "b:1", "c:1"], ["c:1", "b:1", "a:1"], ["b:1", "c:1", "a:1"]];
    let start = |at: usize| Process::start(&mut service.run(&orders[at % 3], "true"));
    let mut all: Vec<_> = (0..9).map(start).collect();
    for run in &mut all {
        assert_eq!(run.code(), 0);
    }
}
