//! `lockspan run` with real processes.

#![forbid(unsafe_code)]

mod common;

use std::fs;
use std::process::{Command, Stdio};

use common::{Process, Service, Stray, guardian_of, lockspan, runs, wait_until};
use rustix::process::{Signal, kill_process};

#[test]
fn the_exit_code_is_the_commands() {
    let service = Service::start();
    for (script, code) in [("exit 0", 0), ("exit 3", 3), ("kill -9 $$", 137), ("kill $$", 143)] {
        let mut run = Process::start(&mut service.run(&["code:1"], script));
        assert_eq!(run.code(), code, "{script}");
    }
}

#[test]
fn what_is_no_exit_of_the_command_has_a_code_of_its_own() {
    let service = Service::start();
    let code = |words: &[&str]| {
        let output = lockspan().arg("run").args(words).output().unwrap();
        (output.status.code().unwrap(), String::from_utf8(output.stderr).unwrap())
    };
    let url = service.url();
    let (found, text) = code(&["--url", &url, "code:2", "--", "no-such-command"]);
    assert_eq!(found, 127, "{text}");
    assert!(text.starts_with("lockspan: can't run no-such-command: "), "{text}");
    assert_eq!(code(&["--url", &url, "code:2", "--", "/"]).0, 126);
    assert_eq!(code(&["--url", &url, "no-colon", "--", "true"]).0, 64);
    assert_eq!(code(&["--url", &url, "code:2"]).0, 64);
    let nobody = format!("unix://{}/nobody.sock", service.dir().display());
    let (found, text) = code(&["--url", &nobody, "--wait", "100ms", "code:2", "--", "true"]);
    assert!([69, 75].contains(&found), "{found} {text}");
}

#[test]
fn the_command_knows_its_record_and_a_rising_token() {
    let service = Service::start();
    let mut last = 0;
    for _ in 0..3 {
        let script = "echo $LOCKSPAN_TOKEN; echo $LOCKSPAN_RECORD";
        let mut run = Process::start(&mut service.run(&["straße:7"], script));
        let token: i64 = run.line().parse().unwrap();
        assert!(token > last, "{token} after {last}");
        last = token;
        assert_eq!(run.line(), "straße:7");
        assert_eq!(run.code(), 0);
    }
}

/// The command has its three streams and what `run` itself was given: no socket, no pipe of the
/// guardian. The other number is that of the folder which `ls` reads.
#[test]
fn the_command_inherits_no_descriptor_of_ours() {
    let service = Service::start();
    let script = "exec ls /proc/self/fd";
    let alone = Process::start(Command::new("sh").args(["-c", script])).rest();
    assert!(alone.len() > 3, "{alone:?}");
    let under_lock = Process::start(&mut service.run(&["streams:1"], script)).rest();
    assert_eq!(under_lock, alone);
}

#[test]
fn one_writer_at_a_time() {
    let service = Service::start();
    let file = service.dir().join("count");
    fs::write(&file, "0").unwrap();
    let script = format!("n=$(cat {0}); sleep 0.02; echo $((n + 1)) > {0}", file.display());
    let start = |_| Process::start(&mut service.run(&["count:1"], &script));
    let mut all: Vec<Process> = (0..8).map(start).collect();
    for run in &mut all {
        assert_eq!(run.code(), 0);
    }
    assert_eq!(fs::read_to_string(&file).unwrap().trim(), "8");
}

#[test]
fn who_does_not_wait_is_told_that_it_is_locked() {
    let service = Service::start();
    let mut holder = Process::start(&mut service.run(&["busy:1"], "echo held; sleep 1000"));
    holder.line_with("held");
    for (words, code) in [
        (&["--wait", "0", "busy:1"][..], 75),
        (&["--wait", "50ms", "busy:1"], 75),
        (&["--wait", "0", "-E", "9", "busy:1"], 9),
        (&["-r", "--wait", "0", "busy:1"], 75),
        (&["--wait", "0", "busy:2"], 0),
    ] {
        let mut run = Process::start(&mut service.run(words, "true"));
        assert_eq!(run.code(), code, "{words:?}");
    }
    holder.signal(Signal::TERM);
    assert_eq!(holder.code(), 143);
    let mut run = Process::start(&mut service.run(&["--wait", "0", "busy:1"], "true"));
    assert_eq!(run.code(), 0, "the lock is free as soon as its holder has ended");
}

#[test]
fn readers_share_and_keep_writers_out() {
    let service = Service::start();
    let mut reader = Process::start(&mut service.run(&["-r", "shared:1"], "echo held; sleep 1000"));
    reader.line_with("held");
    let code = |words: &[&str]| Process::start(&mut service.run(words, "true")).code();
    assert_eq!(code(&["-r", "--wait", "0", "shared:1"]), 0);
    assert_eq!(code(&["-w", "--wait", "0", "shared:1"]), 75);
}

#[test]
fn the_group_is_killed_when_the_supervisor_is() {
    let service = Service::start();
    let script = "sleep 1000 & echo $!; echo $$; wait";
    let mut run = Process::start(&mut service.run(&["killed:1"], script));
    let grandchild = Stray(run.number());
    let child = Stray(run.number());
    assert!(runs(child.0) && runs(grandchild.0));
    run.signal(Signal::KILL);
    wait_until("the command is gone", || !runs(child.0));
    wait_until("what it started is gone", || !runs(grandchild.0));
}

#[test]
fn the_group_is_killed_when_the_supervisor_is_stopped_past_its_lease() {
    let service = Service::start();
    let mut run =
        Process::start(&mut service.run(&["--lease", "1s", "stopped:1"], "echo $$; sleep 1000"));
    let child = Stray(run.number());
    run.signal(Signal::STOP);
    wait_until("the guardian has killed the command", || !runs(child.0));
    run.signal(Signal::CONT);
    assert_eq!(run.code(), 76);
}

#[test]
fn signals_are_passed_on() {
    let service = Service::start();
    let script = "trap 'echo usr1' USR1; trap 'echo hup' HUP; trap 'echo term; exit 5' TERM
                  echo ready; while :; do sleep 0.01; done";
    let mut run = Process::start(&mut service.run(&["signals:1"], script));
    run.line_with("ready");
    run.signal(Signal::USR1);
    run.line_with("usr1");
    run.signal(Signal::HUP);
    run.line_with("hup");
    run.signal(Signal::TERM);
    run.line_with("term");
    assert_eq!(run.code(), 5);
}

#[test]
fn a_signal_that_is_ignored_stays_ignored() {
    let service = Service::start();
    let inner = "kill -HUP $$; echo alive";
    let mut outer = service.run(&["nohup:1"], inner);
    let words: Vec<_> = outer.get_args().map(std::ffi::OsStr::to_owned).collect();
    let binary = outer.get_program().to_owned();
    let mut nohup = std::process::Command::new("sh");
    nohup.args(["-c", "trap '' HUP; exec \"$0\" \"$@\""]).arg(binary).args(words);
    let mut run = Process::start(nohup.stdin(Stdio::null()));
    run.line_with("alive");
    assert_eq!(run.code(), 0);
    outer.stdin(Stdio::null());
}

#[test]
fn a_lost_lease_ends_the_command_gently_and_then_surely() {
    let service = Service::start();
    // It has a tenth of the lease for a word: a shell that waits says it at once.
    let script = "trap 'echo term' TERM; echo $$; while :; do sleep 100 & wait; done";
    let mut run = Process::start(&mut service.run(&["--lease", "5s", "lost:1"], script));
    let child = Stray(run.number());
    service.process.signal(Signal::STOP);
    run.line_with("term");
    wait_until("the command is gone", || !runs(child.0));
    assert_eq!(run.code(), 76);
    service.process.signal(Signal::CONT);
}

#[test]
fn a_lost_lease_ends_the_command_gently_also_if_nobody_hears_of_it() {
    let service = Service::start();
    let (heard, said) = std::io::pipe().unwrap();
    drop(heard);
    let script = "trap 'echo term' TERM; echo $$; while :; do sleep 100 & wait; done 2>/dev/null";
    let mut command = service.run(&["--lease", "5s", "unheard:1"], script);
    let mut run = Process::start(command.stderr(said));
    let child = Stray(run.number());
    service.process.signal(Signal::STOP);
    run.line_with("term");
    wait_until("the command is gone", || !runs(child.0));
    assert_eq!(run.code(), 76);
    service.process.signal(Signal::CONT);
}

#[test]
fn a_lost_lease_ends_the_command_without_a_guardian_too() {
    let service = Service::start();
    let script = "trap '' TERM; echo $$; while :; do sleep 0.01; done";
    let mut run = Process::start(&mut service.run(&["--lease", "1s", "alone:1"], script));
    let child = Stray(run.number());
    let guardian = guardian_of(run.pid());
    kill_process(guardian, Signal::KILL).unwrap();
    service.process.signal(Signal::STOP);
    wait_until("the command is gone", || !runs(child.0));
    assert_eq!(run.code(), 76);
    service.process.signal(Signal::CONT);
}

#[test]
fn who_of_the_group_does_not_heed_a_lost_lease_is_killed() {
    let service = Service::start();
    let script = "sh -c 'trap \"\" TERM; echo $$; while :; do sleep 0.01; done' &
                  trap 'exit 0' TERM; while :; do sleep 0.01; done";
    let mut run = Process::start(&mut service.run(&["--lease", "1s", "heed:1"], script));
    let stubborn = Stray(run.number());
    service.process.signal(Signal::STOP);
    assert_eq!(run.code(), 76);
    wait_until("the stubborn one is gone", || !runs(stubborn.0));
    service.process.signal(Signal::CONT);
}

#[test]
fn a_service_that_dies_for_good_ends_the_command() {
    let mut service = Service::start();
    let script = "sleep 1000 & echo $!; wait";
    let mut run = Process::start(&mut service.run(&["--lease", "1s", "dead:1"], script));
    let grandchild = Stray(run.number());
    service.process.signal(Signal::KILL);
    service.process.end();
    assert_eq!(run.code(), 76);
    wait_until("the whole group is gone", || !runs(grandchild.0));
}

#[test]
fn who_is_ended_while_waiting_leaves_the_line() {
    let service = Service::start();
    let mut holder = Process::start(&mut service.run(&["line:1"], "echo held; sleep 1000"));
    holder.line_with("held");
    let mut waiter = Process::start(&mut service.run(&["line:1"], "echo never"));
    let waiting = || service.tell(&["locks", "--json"]).contains("\"waiters\":[{");
    wait_until("it waits", waiting);
    waiter.signal(Signal::INT);
    assert_eq!(waiter.code(), 130);
    wait_until("it has left the line", || !waiting());
}

#[test]
fn what_the_command_leaves_behind_is_left_alone() {
    let service = Service::start();
    let script = "sleep 1000 > /dev/null 2>&1 & echo $!";
    let mut run = Process::start(&mut service.run(&["behind:1"], script));
    let behind = Stray(run.number());
    assert_eq!(run.code(), 0);
    assert!(runs(behind.0));
}

#[test]
fn no_guardian_is_left_over() {
    let service = Service::start();
    let mut run = Process::start(&mut service.run(&["over:1"], "echo $PPID; sleep 1000"));
    assert_eq!(run.number(), run.pid().as_raw_pid(), "we are the command's parent");
    let guardian = guardian_of(run.pid());
    run.signal(Signal::TERM);
    assert_eq!(run.code(), 143);
    assert!(!runs(guardian.as_raw_pid()));
}
