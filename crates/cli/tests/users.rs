//! Several users of one machine. These need root, who becomes them: `cargo xtask test users`.

#![forbid(unsafe_code)]

mod common;

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use common::{Home, Process, lockspan};
use rustix::process::{Pid, geteuid};

const ANN: &str = "61001";
const BOB: &str = "61002";
const TEAM: &str = "61003";

/// A directory that everybody can read, with a copy of the binary: the build's may be hidden.
fn public() -> tempfile::TempDir {
    assert!(geteuid().is_root(), "this needs root: cargo xtask test users");
    let dir = tempfile::tempdir().unwrap();
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let copy = dir.path().join("lockspan");
    fs::copy(env!("CARGO_BIN_EXE_lockspan"), &copy).unwrap();
    fs::set_permissions(&copy, fs::Permissions::from_mode(0o755)).unwrap();
    dir
}

/// The binary as another user, perhaps of a group.
fn of(user: &str, group: Option<&str>, binary: &Path) -> Command {
    let mut command = lockspan();
    let mut other = Command::new("setpriv");
    other.args(["--reuid", user, "--regid", user]);
    match group {
        Some(group) => other.args(["--groups", group]),
        None => other.arg("--clear-groups"),
    };
    other.arg(binary).stdin(Stdio::null()).current_dir("/");
    for (name, value) in command.env_clear().get_envs() {
        if let Some(value) = value {
            other.env(name, value);
        }
    }
    other.env("LOCKSPAN_HTTP", "none").env_remove("LOCKSPAN_URL").env_remove("HOME");
    other
}

#[test]
fn local_l9_two_users_share_a_lock_by_a_socket_with_rights() {
    let dir = public();
    let binary = dir.path().join("lockspan");
    let serve = |name: &str, rights: &[&str]| {
        let socket = dir.path().join(name);
        let mut command = lockspan();
        command.args(["serve", "--data-dir", "none", "--fresh"]).args(rights);
        command.arg("--listen").arg(format!("unix:{}", socket.display()));
        let mut server = Process::start_with_log(&mut command);
        server.line_with("listening on");
        (server, format!("unix://{}", socket.display()))
    };
    let run = |user, group, url: &str, wait: &str, script: &str| {
        let mut command = of(user, group, &binary);
        command.args(["run", "--url", url, "--wait", wait, "shared:1", "--", "sh", "-c", script]);
        command
    };
    let (_all, url) = serve("all.sock", &["--socket-mode", "0666"]);
    let mut ann = Process::start(&mut run(ANN, None, &url, "20s", "id -u; sleep 1000"));
    assert_eq!(ann.line(), ANN);
    let code = |command: &mut Command| Process::start(command).code();
    assert_eq!(code(&mut run(BOB, None, &url, "0", "true")), 75, "Ann has it");
    drop(ann);
    assert_eq!(code(&mut run(BOB, None, &url, "20s", "true")), 0);

    let (_team, url) = serve("team.sock", &["--socket-mode", "0660", "--socket-group", TEAM]);
    assert_eq!(code(&mut run(ANN, Some(TEAM), &url, "20s", "true")), 0);
    assert_eq!(code(&mut run(BOB, None, &url, "20s", "true")), 69, "not of the group");
    let (_own, url) = serve("own.sock", &[]);
    assert_eq!(code(&mut run(ANN, None, &url, "20s", "true")), 69, "root's alone");
}

/// A file of users with one, whose password is `right`.
fn file_of_users(dir: &Path) -> PathBuf {
    let mut passwd = lockspan();
    passwd.arg("passwd").stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut passwd = passwd.spawn().unwrap();
    passwd.stdin.take().unwrap().write_all(b"right").unwrap();
    let hash = String::from_utf8(passwd.wait_with_output().unwrap().stdout).unwrap();
    let path = dir.join("users.toml");
    let text = format!("[users.eve]\npassword = \"{}\"\ninspect = [\"*\"]\n", hash.trim());
    fs::write(&path, text).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
    path
}

/// What one local user guesses is not counted against another.
#[test]
fn service_f91_local_users_do_not_share_what_their_guesses_cost() {
    let dir = public();
    let binary = dir.path().join("lockspan");
    let mut command = lockspan();
    command.args(["serve", "--listen", "127.0.0.1:0", "--data-dir", "none", "--fresh", "--users"]);
    let mut server = Process::start_with_log(command.arg(file_of_users(dir.path())));
    let line = server.line_with("listening on");
    let at = line.split("listening on ").nth(1).and_then(|rest| rest.split(';').next());
    let url = format!("lockspan://{}", at.expect("an address"));
    let log_in = |user: &str, password: &str| {
        let mut command = of(user, None, &binary);
        command.args(["locks", "--url", &url]).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.env("LOCKSPAN_USER", "eve").env("LOCKSPAN_PASSWORD", password);
        command.spawn().unwrap()
    };
    let said = |child: Child| String::from_utf8(child.wait_with_output().unwrap().stderr).unwrap();
    for _ in 0..4 {
        assert!(said(log_in(ANN, "guess")).contains("WRONGPASS"));
    }
    let fifth = log_in(ANN, "guess");
    assert!(said(log_in(BOB, "guess")).contains("WRONGPASS"), "he hears it at once");
    assert_eq!(said(log_in(BOB, "right")), "");
    assert!(said(fifth).contains("LIMIT"), "she has used up what is free");
    assert_eq!(said(log_in(ANN, "right")), "", "and gets in all the same");
}

/// Passwords go through the memory of a server with users.
#[test]
fn service_f95_other_processes_of_its_user_do_not_read_the_memory_of_a_server() {
    let dir = public();
    let mut command = of(ANN, None, &dir.path().join("lockspan"));
    command.args(["serve", "--listen", "127.0.0.1:0", "--data-dir", "none", "--fresh", "--users"]);
    let mut server = Process::start_with_log(command.arg(file_of_users(dir.path())));
    server.line_with("listening on");
    let mut other = Command::new("setpriv");
    other.args(["--reuid", ANN, "--regid", ANN, "--clear-groups", "sh", "-c"]);
    let mut other = Process::start(other.arg("echo here; exec sleep 1000"));
    other.line_with("here");
    let can_read = |pid: Pid| {
        let mut reader = Command::new("setpriv");
        reader.args(["--reuid", ANN, "--regid", ANN, "--clear-groups", "head", "-c", "1"]);
        let memory = format!("/proc/{}/maps", pid.as_raw_nonzero());
        reader.arg(memory).stderr(Stdio::null()).output().unwrap().status.success()
    };
    assert!(can_read(other.pid()), "that is what users can do otherwise");
    assert!(!can_read(server.pid()));
}

/// Each user has a `local:` of their own, and without a home of one's own there is none.
#[test]
fn local_l9_without_a_home_of_ones_own_there_is_no_local() {
    let dir = public();
    let binary = dir.path().join("lockspan");
    let passwd = dir.path().join("passwd");
    // As many services have it: a directory of root.
    fs::write(&passwd, format!("ann:x:{ANN}:{ANN}::{}:\n", dir.path().display())).unwrap();
    for user in [ANN, BOB] {
        let mut command = of(user, None, &binary);
        command.env("LOCKSPAN_TEST_PASSWD", &passwd).args(["run", "home:1", "--", "true"]);
        let output = command.output().unwrap();
        let text = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(69), "{text}");
        assert!(text.contains("so local: has no place; let root make a place"), "{text}");
    }
}

/// A socket of somebody else in the place of ours is not trusted.
#[test]
fn local_l9_a_service_of_another_user_is_not_ours() {
    let dir = public();
    let binary = dir.path().join("lockspan");
    let theirs = dir.path().join("theirs");
    fs::create_dir(&theirs).unwrap();
    fs::set_permissions(&theirs, fs::Permissions::from_mode(0o777)).unwrap();
    let mut serve = of(ANN, None, &binary);
    serve.args(["serve", "--data-dir", "none", "--fresh", "--socket-mode", "0666", "--listen"]);
    serve.arg(format!("unix:{}", theirs.join("s").display()));
    let mut server = Process::start_with_log(&mut serve);
    server.line_with("listening on");
    let home = Home::new();
    let code = |command: &mut Command| command.output().unwrap().status.code();
    assert_eq!(code(&mut home.run(&["mine:1"], "true")), Some(0));
    home.end(rustix::process::Signal::TERM);
    fs::rename(theirs.join("s"), home.folder().join("lock.sock")).unwrap();
    let output = home.run(&["mine:1"], "true").output().unwrap();
    let text = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(69), "{text}");
    assert!(text.contains(&format!("it runs as user {ANN}")), "{text}");
}
