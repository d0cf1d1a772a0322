//! Wrong words on the command line, and what a service says that can't start.

#![forbid(unsafe_code)]

mod common;

use std::fs;
use std::net::TcpListener;
use std::process::Output;

use common::resp::Resp;
use common::{Home, Process, Service, lockspan};

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn a_command_needs_no_dashes_and_keeps_its_own_options() {
    let service = Service::start();
    let run = |words: &[&str]| {
        let output =
            lockspan().args(["run", "--url", &service.url()]).args(words).output().unwrap();
        (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned(), said(&output))
    };
    for words in [
        &["a:b", "echo", "--wait", "-r", "--", "x"][..],
        &["a:b", "--", "echo", "--wait", "-r", "--", "x"],
        &["a:b", "-r", "echo", "--wait", "-r", "--", "x"],
        &["--wait", "5", "--lease", "1m0.5s", "a:b", "echo", "--wait", "-r", "--", "x"],
    ] {
        let (code, out, err) = run(words);
        // A lease above the server's is refused; all else was read.
        if words.contains(&"1m0.5s") {
            assert_eq!(code, Some(64), "{err}");
            assert!(err.contains("accepts leases from 1s to 1m"), "{err}");
            continue;
        }
        assert_eq!((code, out.as_str()), (Some(0), "--wait -r -- x\n"), "{words:?}: {err}");
    }
    let (code, _, err) = run(&["a:b", "--waitt", "true"]);
    assert_eq!(code, Some(64), "{err}");
    let (code, _, err) = run(&["a:1", "b:2", "true"]);
    assert_eq!(code, Some(127));
    assert!(err.contains("lockspan run a:1 b:2 -- COMMAND"), "{err}");
}

#[test]
fn times_that_can_not_be_are_told() {
    let service = Service::start();
    let run = |words: &[&str]| {
        let mut command = lockspan();
        command.args(["run", "--url", &service.url()]).args(words).args(["a:b", "true"]);
        let output = command.output().unwrap();
        assert_eq!(output.status.code(), Some(64), "{words:?}");
        said(&output)
    };
    for flag in ["--wait", "--lease"] {
        let text = run(&[flag, "-5s"]);
        assert!(text.contains(&format!("invalid value '-5s' for '{flag} <TIME>'")), "{text}");
        assert!(text.contains("is negative") && !text.contains("-- -5"));
    }
    let text = run(&["--lease", "0s"]);
    let expected = format!("the service {} accepts leases from 1s to 1m", service.url());
    assert!(text.contains("--lease 0 is not allowed: ") && text.contains(&expected), "{text}");
    let output = lockspan().args(["serve", "--max-lease", "-5s"]).output().unwrap();
    assert_eq!(output.status.code(), Some(78));
    assert!(said(&output).contains("--max-lease: \"-5s\" is negative"), "{}", said(&output));
    let output = lockspan().args(["bench", "--seconds", "-1"]).output().unwrap();
    assert!(said(&output).contains("is negative"), "{}", said(&output));
}

#[test]
fn each_reason_not_to_listen_has_its_own_advice() {
    let home = Home::new();
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("file");
    fs::write(&file, "kept").unwrap();
    let serve = |words: &[&str]| {
        let mut command = home.lockspan();
        let output = command.arg("serve").args(words).output().unwrap();
        assert_eq!(output.status.code(), Some(78), "{words:?}: {}", said(&output));
        said(&output)
    };
    let data = ["--data-dir", "none", "--fresh", "--listen"];
    let at = |address: &str| serve(&[&data[..], &[address]].concat());
    let text = at("unix:/none/x.sock");
    assert!(text.contains("the directory /none does not exist. Create it"), "{text}");
    let text = at(&format!("unix:{}", file.display()));
    assert!(text.contains("is not a socket. Move it away"), "{text}");
    let text = at(&format!("unix:{}/x", file.display()));
    assert!(text.contains("file is not a directory"), "{text}");
    let names = || fs::read_dir(dir.path()).unwrap().count();
    assert_eq!((names(), fs::read_to_string(&file).unwrap().as_str()), (1, "kept"));
    let text = serve(&["--listen", "127.0.0.1:0", "--data-dir", file.to_str().unwrap()]);
    assert!(text.contains(&format!("data-dir: {} is not a directory", file.display())), "{text}");

    let stranger = TcpListener::bind("127.0.0.1:0").unwrap();
    let text = at(&stranger.local_addr().unwrap().to_string());
    assert!(text.contains("another process listens there. Stop it"), "{text}");
    assert!(!text.contains("Lockspan server"), "{text}");
    let mut command = home.lockspan();
    command.args(["serve", "--listen", "127.0.0.1:0", "--data-dir", "none", "--fresh"]);
    let mut server = Process::start_with_log(&mut command);
    let line = server.line_with("listening on");
    let address = line.split("listening on ").nth(1).and_then(|rest| rest.split(';').next());
    let text = at(address.unwrap());
    let process = server.pid().as_raw_pid();
    let expected = format!(". A Lockspan server answers there (process {process})");
    assert!(text.contains(&expected), "{text}");
}

#[test]
fn a_variable_with_a_typing_error_is_told() {
    let service = Service::start();
    let warning = "the environment variable LOCKSPAN_MAXLEASE is unknown and ignored; did you mean \
                   LOCKSPAN_MAX_LEASE?";
    let with = |words: &[&str]| {
        let mut command = lockspan();
        command.args(words).env("LOCKSPAN_URL", service.url()).env("LOCKSPAN_MAXLEASE", "30s");
        command
    };
    for words in [&["run", "a:b", "true"][..], &["locks"], &["bench", "--seconds", "1"]] {
        let output = with(words).output().unwrap();
        assert!(output.status.success());
        assert!(said(&output).contains(warning), "{words:?}: {}", said(&output));
    }
    let quiet = with(&["run", "-q", "a:b", "true"]).output().unwrap();
    assert_eq!(said(&quiet), "");
    // What run gives to its command is known to a run inside of it.
    let inner = format!("{} run a:c true", env!("CARGO_BIN_EXE_lockspan"));
    let nested = service.run(&["a:b"], &inner).output().unwrap();
    assert_eq!((nested.status.code(), said(&nested).as_str()), (Some(0), ""));
    let mut serve = with(&["serve", "--listen", "127.0.0.1:0", "--data-dir", "none", "--fresh"]);
    Process::start_with_log(&mut serve).line_with(warning);
}

#[test]
fn a_session_that_an_operator_ends_is_told_so() {
    let service = Service::start();
    let run = ["--lease", "30s", "a:b"];
    let mut holder = Process::start_with_log(&mut service.run(&run, "echo held >&2; sleep 1000"));
    holder.line_with("held");
    let text = service.tell(&["locks", "--json"]);
    let listed: serde_json::Value = serde_json::from_str(&text).unwrap();
    let session = listed["holders"][0]["session"].as_str().unwrap().to_owned();
    let mut operator = Resp::on_socket(&service.socket()).unwrap();
    operator.ask(&["LS.END", &session]);
    holder.line_with("lockspan: an operator ended this session; killing the command");
    assert_eq!(holder.code(), 76);
}

#[test]
fn a_name_with_odd_letters_comes_back_from_json() {
    let service = Service::start();
    let name = "a:\"x\ny\"\u{e9}\\n";
    let mut holder = Process::start(&mut service.run(&[name], "echo held; sleep 1000"));
    holder.line_with("held");
    let text = service.tell(&["locks", "--json"]);
    assert_eq!(text.lines().count(), 1, "{text}");
    let listed: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(listed["record"], name);
}
