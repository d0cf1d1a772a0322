//! `lockspan run` while its supervisor or its guardian is stopped or killed: the command runs only
//! under a lease that stands, and what a killed run held is free as soon as its command is gone.

#![forbid(unsafe_code)]

mod common;

use std::fs;
use std::process::Command;

use common::{Process, Service, Stray, child_of, guardian_of, runs, wait_until};
use rustix::process::{Pid, Signal, kill_process};

/// Whether a process is stopped.
fn is_stopped(pid: Pid) -> bool {
    let stat = fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_pid())).unwrap_or_default();
    let state = stat.rsplit(')').next().and_then(|rest| rest.split_whitespace().next());
    matches!(state, Some("T" | "t"))
}

/// A run whose supervisor stops itself at this place.
fn run_that_stops(service: &Service, place: &str, words: &[&str], script: &str) -> Command {
    let mut command = service.run(words, script);
    command.env("LOCKSPAN_TEST_STOP", place);
    command
}

/// The supervisor is stopped between grant and start until another run holds the record. When it
/// goes on, its command must not begin, whatever the supervisor does or does not look at: it is
/// stopped once more when it has said what it has to say.
#[test]
fn run_l12_a_command_never_begins_after_its_lease() {
    for place in ["before-go,after-go", "before-until,after-go"] {
        let service = Service::start();
        let (wrote, over) = (service.dir().join("wrote"), service.dir().join("over"));
        let script = format!("echo late >> {}", wrote.display());
        let words = ["--lease", "1s", "late:1"];
        let mut late = Process::start(&mut run_that_stops(&service, place, &words, &script));
        wait_until("the supervisor has stopped", || is_stopped(late.pid()));
        let script = format!("echo in; until [ -e {} ]; do sleep 0.02; done", over.display());
        let mut next = Process::start(&mut service.run(&["late:1"], &script));
        next.line_with("in");
        let gate = child_of(late.pid(), "__gate");
        late.signal(Signal::CONT);
        wait_until("it is decided", || gate.is_none_or(|gate| !runs(gate.as_raw_pid())));
        assert!(!wrote.exists(), "{place}: the command ran inside of another's turn");
        let code = late.code_by(|late| {
            if is_stopped(late.pid()) {
                late.signal(Signal::CONT);
            }
        });
        assert_eq!(code, 76, "{place}");
        assert!(!wrote.exists(), "{place}: the command ran inside of another's turn");
        fs::write(&over, "").unwrap();
        assert_eq!(next.code(), 0);
    }
}

/// A guardian that was stopped past the lease, with its supervisor, kills as soon as it goes on.
#[test]
fn run_l13_a_guardian_that_was_stopped_kills_when_it_goes_on() {
    let service = Service::start();
    let words = ["--lease", "1s", "both:1"];
    let mut run = Process::start(&mut service.run(&words, "echo $$; sleep 1000"));
    let child = Stray(run.number());
    let guardian = guardian_of(run.pid());
    run.signal(Signal::STOP);
    kill_process(guardian, Signal::STOP).unwrap();
    let mut next = Process::start(&mut service.run(&["both:1"], "echo in; sleep 1000"));
    next.line_with("in");
    assert!(runs(child.0), "nobody could kill it");
    kill_process(guardian, Signal::CONT).unwrap();
    wait_until("the guardian has killed the command", || !runs(child.0));
    run.signal(Signal::CONT);
    assert_eq!(run.code(), 76);
}

/// A guardian that was stopped while the supervisor renewed the lease kills nobody.
#[test]
fn run_l13_a_guardian_that_was_stopped_hears_of_renewals_first() {
    let service = Service::start();
    let over = service.dir().join("over");
    let script = format!("echo $$; until [ -e {} ]; do sleep 0.02; done", over.display());
    let mut run = Process::start(&mut service.run(&["--lease", "1s", "renewed:1"], &script));
    let child = Stray(run.number());
    let guardian = guardian_of(run.pid());
    kill_process(guardian, Signal::STOP).unwrap();
    // Longer than the lease: the end that the guardian knows of is over.
    std::thread::sleep(std::time::Duration::from_millis(1500));
    kill_process(guardian, Signal::CONT).unwrap();
    std::thread::sleep(std::time::Duration::from_millis(200));
    assert!(runs(child.0), "its lease was renewed");
    fs::write(&over, "").unwrap();
    assert_eq!(run.code(), 0);
}

/// After `kill -9` of a run the next one need not wait for the lease: the guardian ends the session
/// when the command's whole group is gone.
#[test]
fn run_l10_what_a_killed_run_held_is_free_when_its_command_is_gone() {
    let service = Service::start();
    // Longer than a test waits for anything.
    let words = ["--lease", "60s", "killed:1"];
    let script = "sleep 1000 & echo $!; echo $$; wait";
    let mut run = Process::start(&mut service.run(&words, script));
    let (grandchild, child) = (Stray(run.number()), Stray(run.number()));
    let mut next = Process::start(&mut service.run(&["killed:1"], "echo in"));
    run.signal(Signal::KILL);
    next.line_with("in");
    assert!(!runs(child.0) && !runs(grandchild.0), "the whole group was gone before");
    assert_eq!(next.code(), 0);
}

/// The same for a run that is killed while it waits in line: it is not in the way when its turn
/// comes.
#[test]
fn run_l10_a_run_that_is_killed_while_it_waits_leaves_the_line() {
    let service = Service::start();
    let mut holder = Process::start(&mut service.run(&["line:1"], "echo held; sleep 1000"));
    holder.line_with("held");
    let words = ["--lease", "60s", "line:1"];
    let waiter = Process::start(&mut service.run(&words, "true"));
    let waits = || service.tell(&["locks", "--json"]).contains("\"waiters\":[{");
    wait_until("it waits", waits);
    waiter.signal(Signal::KILL);
    wait_until("it has left the line", || !waits());
}

/// As long as a process of the group is left, the session goes on. The guardian is stopped before
/// it kills.
#[test]
fn run_l11_the_session_is_not_ended_before_the_group_is_gone() {
    let service = Service::start();
    let words = ["--lease", "60s", "stays:1"];
    let place = "guardian-before-kill";
    let mut run =
        Process::start(&mut run_that_stops(&service, place, &words, "echo $$; sleep 999"));
    let child = Stray(run.number());
    let guardian = guardian_of(run.pid());
    run.signal(Signal::KILL);
    run.end();
    wait_until("the guardian has stopped", || is_stopped(guardian));
    let mut next = Process::start(&mut service.run(&["--wait", "500ms", "stays:1"], "true"));
    assert_eq!(next.code(), 75, "the command lives, so nobody else has the record");
    assert!(runs(child.0));
    kill_process(guardian, Signal::CONT).unwrap();
    let mut next = Process::start(&mut service.run(&["stays:1"], "echo in"));
    next.line_with("in");
    assert!(!runs(child.0));
}

/// A guardian that is stopped when its supervisor dies gets SIGHUP of the system, and goes on.
#[test]
fn run_l11_a_stopped_guardian_outlives_its_supervisor() {
    let service = Service::start();
    let words = ["--lease", "60s", "hangup:1"];
    let mut run = Process::start(&mut service.run(&words, "echo $$; sleep 999"));
    let child = Stray(run.number());
    let guardian = guardian_of(run.pid());
    for signal in [Signal::TERM, Signal::INT, Signal::STOP] {
        kill_process(guardian, signal).unwrap();
    }
    wait_until("the guardian has stopped", || is_stopped(guardian));
    run.signal(Signal::KILL);
    run.end();
    let mut next = Process::start(&mut service.run(&["hangup:1"], "echo in"));
    next.line_with("in");
    assert!(!runs(child.0));
}

/// A command that waits to begin while the guardian dies is not started by anybody.
#[test]
fn run_l14_without_a_guardian_the_command_does_not_begin() {
    let service = Service::start();
    let wrote = service.dir().join("wrote");
    let script = format!("echo begun >> {}", wrote.display());
    let words = ["--lease", "60s", "alone:1"];
    let mut run = Process::start(&mut run_that_stops(&service, "before-go", &words, &script));
    wait_until("the supervisor has stopped", || is_stopped(run.pid()));
    kill_process(guardian_of(run.pid()), Signal::KILL).unwrap();
    run.signal(Signal::CONT);
    assert_eq!(run.code(), 71);
    assert!(!wrote.exists());
    let mut next = Process::start(&mut service.run(&["--wait", "20s", "alone:1"], "true"));
    assert_eq!(next.code(), 0, "the lock was given back");
}

/// The processes of a run can be told from each other in a list of processes.
#[test]
fn run_l15_the_guardian_has_a_name() {
    let service = Service::start();
    let mut run = Process::start(&mut service.run(&["name:1"], "echo up; sleep 1000"));
    run.line_with("up");
    let guardian = guardian_of(run.pid()).as_raw_pid();
    let name = fs::read_to_string(format!("/proc/{guardian}/comm")).unwrap();
    assert_eq!(name.trim(), "lockspan-guard");
    run.signal(Signal::TERM);
    run.end();
}
