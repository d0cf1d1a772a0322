//! Several users of one machine. These need root, who becomes them: `cargo xtask test users`.

#![forbid(unsafe_code)]

mod common;

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use common::{Home, Process, lockspan, wait_until};
use rustix::process::{Pid, Signal, geteuid};

const ANN: &str = "61001";
const BOB: &str = "61002";
const TEAM: &str = "61003";

/// A free port.
const LISTEN: [&str; 2] = ["--listen", "127.0.0.1:0"];

/// A directory that everybody can read, with a copy of the binary: the build's may be hidden.
fn public() -> tempfile::TempDir {
    assert!(geteuid().is_root(), "this needs root: cargo xtask test users");
    let dir = tempfile::tempdir().unwrap();
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let copy = dir.path().join("lockspan");
    // By another process: a file that this one has open for writing is open in every child that
    // another thread forks meanwhile, and can't be executed.
    let binary = env!("CARGO_BIN_EXE_lockspan");
    let made = Command::new("install").args(["-m755", binary]).arg(copy).status();
    assert!(made.unwrap().success());
    dir
}

/// The binary as another user, perhaps of a group.
fn of(user: &str, group: Option<&str>, binary: &Path) -> Command {
    let mut rights = vec!["--reuid", user, "--regid", user];
    match group {
        Some(group) => rights.extend(["--groups", group]),
        None => rights.push("--clear-groups"),
    }
    by_setpriv(&rights, binary)
}

/// A program with other rights, by the options of `setpriv`.
fn by_setpriv(rights: &[&str], program: &Path) -> Command {
    let mut command = lockspan();
    let mut other = Command::new("setpriv");
    other.args(rights).arg(program).stdin(Stdio::null()).current_dir("/");
    for (name, value) in command.env_clear().get_envs() {
        if let Some(value) = value {
            other.env(name, value);
        }
    }
    other.env("LOCKSPAN_HTTP", "none").env_remove("LOCKSPAN_URL").env_remove("HOME");
    other
}

/// A directory below `above` that belongs to a user.
fn dir_of(user: &str, above: &Path, name: &str, mode: u32) -> PathBuf {
    let dir = above.join(name);
    fs::create_dir(&dir).unwrap();
    give(user, &dir, mode);
    dir
}

/// Gives a file to a user.
fn give(user: &str, path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    let user = user.parse().unwrap();
    chown(path, Some(user), Some(user)).unwrap();
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().mode() & 0o7777
}

/// How a command ended, and what it said on stderr. One that does not end has failed.
fn output(command: &mut Command) -> (Option<i32>, String) {
    let mut process = Process::start_with_log(command);
    let code = process.end().code();
    (code, process.rest().join("\n"))
}

/// A file of users with one, `ann`, whose password is `apple`.
fn users(dir: &Path) -> PathBuf {
    let mut passwd = lockspan();
    let mut passwd = passwd.arg("passwd").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
    let passwd = passwd.as_mut().unwrap();
    passwd.stdin.take().unwrap().write_all(b"apple").unwrap();
    let hash = std::io::read_to_string(passwd.stdout.take().unwrap()).unwrap();
    assert!(passwd.wait().unwrap().success());
    let path = dir.join("users.toml");
    let text = format!("[users.ann]\npassword = \"{}\"\nwrite = [\"*\"]\n", hash.trim());
    fs::write(&path, text).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
    path
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
    const NOTHING: &str = "lockspan: nothing is locked\n";
    let said = |child: Child| String::from_utf8(child.wait_with_output().unwrap().stderr).unwrap();
    for _ in 0..4 {
        assert!(said(log_in(ANN, "guess")).contains("wrong user or password"));
    }
    let fifth = log_in(ANN, "guess");
    assert!(said(log_in(BOB, "guess")).contains("wrong user or password"), "he hears it at once");
    assert_eq!(said(log_in(BOB, "right")), NOTHING);
    assert!(said(fifth).contains("LIMIT"), "she has used up what is free");
    assert_eq!(said(log_in(ANN, "right")), NOTHING, "and gets in all the same");
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
        assert!(text.contains("local: has no directory, because"), "{text}");
        assert!(text.contains("as root, create one (install -d"), "{text}");
    }
}

/// A socket of somebody else in the place of ours is not trusted.
#[test]
fn local_l9_a_service_of_another_user_is_not_ours() {
    let dir = public();
    let binary = dir.path().join("lockspan");
    let theirs = dir.path().join("theirs");
    fs::create_dir(&theirs).unwrap();
    fs::set_permissions(&theirs, fs::Permissions::from_mode(0o1777)).unwrap();
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

/// The directory is one of an earlier version: everybody can read the lock file, and so lock it.
#[test]
fn service_f106_a_lock_of_another_user_is_told_with_its_process() {
    let dir = public();
    let binary = dir.path().join("lockspan");
    let data = dir_of(ANN, dir.path(), "data", 0o755);
    let lock = data.join("lockspan.lock");
    let serve = || {
        let mut serve = of(ANN, None, &binary);
        serve.args(["serve", "--listen", "127.0.0.1:0", "--data-dir"]).arg(&data);
        serve
    };
    let start = || {
        let mut server = Process::start_with_log(&mut serve());
        server.line_with("listening on");
        server.signal(Signal::TERM);
        assert_eq!(server.code(), 0);
    };
    start();
    let open_to_all = || {
        fs::set_permissions(&data, fs::Permissions::from_mode(0o755)).unwrap();
        fs::set_permissions(&lock, fs::Permissions::from_mode(0o644)).unwrap();
    };
    let as_bob = |script: &str| {
        let rights = ["--reuid", BOB, "--regid", BOB, "--clear-groups"];
        let mut bob = by_setpriv(&rights, Path::new("sh"));
        bob.args(["-c", &script.replace("LOCK", lock.to_str().unwrap())]);
        bob
    };
    open_to_all();
    let locking = "exec flock --shared --no-fork LOCK sh -c 'echo locked; exec sleep 1000'";
    let mut bob = Process::start(&mut as_bob(locking));
    bob.line_with("locked");
    let (code, text) = output(&mut serve());
    assert_eq!(code, Some(78), "{text}");
    let pid = bob.pid().as_raw_pid();
    let said = format!("process {pid} of user {BOB} has locked {}", lock.display());
    assert!(text.contains(&said) && text.contains("Stop that process"), "{text}");
    assert!(!text.contains("choose another directory"), "{text}");
    assert_eq!((mode(&data), mode(&lock)), (0o700, 0o600));
    drop(bob);
    assert_ne!(output(&mut as_bob("exec flock --shared LOCK true")).0, Some(0), "not again");
    start();

    // What took the lock has ended, and a process that it started has it, which we can't look at.
    open_to_all();
    let locking = "exec 9<LOCK; flock --shared 9; echo locked; exec sleep 1000";
    let mut bob = Process::start(&mut as_bob(locking));
    bob.line_with("locked");
    let (code, text) = output(&mut serve());
    assert_eq!(code, Some(78), "{text}");
    assert!(text.contains("(now ended) has locked"), "{text}");
    assert!(text.contains("fuser -v") && !text.contains("choose another directory"), "{text}");
    // Root can look at it.
    let (code, text) = output(lockspan().args(["serve", "--data-dir"]).arg(&data).args(LISTEN));
    assert_eq!(code, Some(78), "{text}");
    let pid = bob.pid().as_raw_pid();
    assert!(text.contains(&format!("process {pid} of user {BOB} has locked")), "{text}");
    drop(bob);
    start();
}

/// Others may put files beside a socket in /tmp, and files of theirs where ours should be.
#[test]
fn service_f107_a_lock_file_of_another_user_is_refused() {
    let dir = public();
    let shared = dir_of("0", dir.path(), "shared", 0o1777);
    let lock = shared.join("s.lock");
    fs::write(&lock, "").unwrap();
    give(BOB, &lock, 0o666);
    let mut serve = lockspan();
    serve.args(["serve", "--data-dir", "none", "--fresh", "--listen"]);
    serve.arg(format!("unix:{}", shared.join("s").display()));
    let (code, text) = output(&mut serve);
    assert_eq!(code, Some(78), "{text}");
    assert!(text.contains("s.lock: ") && text.contains("delete that file"), "{text}");
    fs::remove_file(&lock).unwrap();
    Process::start_with_log(&mut serve).line_with("listening on");
}

#[test]
fn service_f108_a_secret_of_another_user_is_drawn_anew() {
    let dir = public();
    let data = dir_of("0", dir.path(), "data", 0o700);
    let secret = data.join("operator.secret");
    let start = || {
        let mut serve = lockspan();
        serve.args(["serve", "--http", "127.0.0.1:0", "--data-dir"]).arg(&data).args(LISTEN);
        let mut server = Process::start_with_log(&mut serve);
        server.line_with("listening on");
        server.signal(Signal::TERM);
        let log = server.rest().join("\n");
        (fs::read_to_string(&secret).unwrap(), log)
    };
    let (before, _) = start();
    give(BOB, &secret, 0o600);
    let (after, _) = start();
    assert_ne!(before, after, "Bob may know it");
    assert_eq!(fs::metadata(&secret).unwrap().uid(), 0);
    assert_eq!(start().0, after);
}

#[test]
fn service_f109_a_file_of_users_of_another_user_is_refused() {
    let dir = public();
    let users = users(dir.path());
    let mut serve = lockspan();
    serve.args(["serve", "--data-dir", "none", "--fresh", "--users"]).arg(&users).args(LISTEN);
    give(BOB, &users, 0o600);
    let (code, text) = output(&mut serve);
    assert_eq!(code, Some(78), "{text}");
    assert!(text.contains(&format!("users.toml: it belongs to user {BOB}")), "{text}");
    give("0", &users, 0o644);
    let mut server = Process::start_with_log(&mut serve);
    server.line_with("every user of this machine may read");
    server.line_with("listening on");
    drop(server);
    // One of root will do for everybody.
    let mut serve = of(ANN, None, &dir.path().join("lockspan"));
    serve.args(["serve", "--data-dir", "none", "--fresh", "--users"]).arg(&users).args(LISTEN);
    Process::start_with_log(&mut serve).line_with("listening on");
}

/// `localhost` is what the resolver says, here another address than this machine's own.
#[test]
fn service_f110_a_password_is_not_sent_where_localhost_is_elsewhere() {
    let dir = public();
    let users = users(dir.path());
    fs::write(dir.path().join("hosts"), "10.99.0.1 localhost\n").unwrap();
    // A network of its own, with this address on its loopback device.
    let script = r#"
        set -e
        mount --bind hosts /etc/hosts
        ip link set lo up && ip addr add 10.99.0.1/32 dev lo
        ./lockspan serve --insecure --listen 10.99.0.1:7420 --data-dir none --fresh \
            --users "$0" 2> log & server=$!
        trap 'kill $server' EXIT
        until grep -q 'listening on' log; do kill -0 $server; sleep 0.05; done
        export LOCKSPAN_PASSWORD=apple
        for url in lockspan://ann@localhost 'lockspan://ann@localhost?insecure=yes'; do
            ./lockspan run --url "$url" doc:1 -- echo granted 2>&1 || echo "code $?"
            ./lockspan locks --url "$url" > /dev/null 2> said || { echo "code $?"; cat said; }
        done"#;
    let mut unshare = Command::new("unshare");
    unshare.args(["--mount", "--net", "sh", "-c", script]).arg(&users).current_dir(dir.path());
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("LOCKSPAN_") {
            unshare.env_remove(name);
        }
    }
    unshare.env("LOCKSPAN_HTTP", "none");
    let output = unshare.output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let why = String::from_utf8(output.stderr).unwrap();
    let refused = "the password is not sent to localhost:7420: its address is 10.99.0.1";
    assert_eq!(text.matches(refused).count(), 2, "run and locks, without the word: {text}{why}");
    assert_eq!(text.matches("granted").count(), 1, "{text}{why}");
}

/// Whoever listens on a socket in /tmp while the server is down is not told a password.
#[test]
fn service_f111_a_password_goes_to_no_server_that_anybody_could_have_started() {
    let dir = public();
    let binary = dir.path().join("lockspan");
    let users = users(dir.path());
    for (name, mode, code) in [("own", 0o755, 0), ("shared", 0o1777, 64)] {
        let place = dir_of(ANN, dir.path(), name, mode);
        let mut serve = of(ANN, None, &binary);
        serve.args(["serve", "--data-dir", "none", "--fresh", "--socket-mode", "0666"]);
        serve.arg("--users").arg(&users).arg("--listen");
        let socket = place.join("s");
        let mut server = Process::start_with_log(serve.arg(format!("unix:{}", socket.display())));
        server.line_with("listening on");
        let url = format!("unix://{}", socket.display());
        let client = |words: &[&str]| {
            let mut client = of(BOB, None, &binary);
            client.env("LOCKSPAN_USER", "ann").env("LOCKSPAN_PASSWORD", "apple");
            client.args(words).env("LOCKSPAN_URL", &url);
            output(&mut client)
        };
        let (came, text) = client(&["run", "doc:1", "--", "true"]);
        assert_eq!(came, Some(code), "{name}: {text}");
        let refused = "the password is not sent to";
        assert_eq!(text.contains(refused), code != 0, "{name}: {text}");
        let (_, text) = client(&["locks"]);
        assert_eq!(text.contains(refused), code != 0, "{name}: {text}");
    }
}

/// Ann's program, started by Bob: he chooses its variables, and may not choose what it runs.
#[test]
fn service_f112_a_setuid_program_believes_no_variable() {
    let dir = public();
    let binary = dir.path().join("lockspan");
    let home = dir_of(ANN, dir.path(), "home", 0o755);
    let tools = dir_of(BOB, dir.path(), "tools", 0o755);
    let proof = dir_of("0", dir.path(), "proof", 0o1777).join("proof");
    for name in ["lockspan", "getent", "other"] {
        let path = tools.join(name);
        fs::write(&path, format!("#!/bin/sh\nid -u >> {}\n", proof.display())).unwrap();
        give(BOB, &path, 0o755);
    }
    let passwd = dir.path().join("passwd");
    let entry = format!("ann:x:{ANN}:{ANN}::{}:/bin/sh\n", home.display());
    fs::write(&passwd, &entry).unwrap();
    // As the kernel starts a setuid program: Bob is its real user, Ann its effective one.
    let rights = ["--ruid", BOB, "--euid", ANN, "--regid", BOB, "--clear-groups"];
    let path = format!("{}:{}", tools.display(), std::env::var("PATH").unwrap());
    let bobs = |command: &mut Command| {
        command.env("LOCKSPAN_BIN", tools.join("other")).env("PATH", &path);
        command.env("XDG_RUNTIME_DIR", &tools).env("SSL_CERT_FILE", tools.join("other"));
    };
    // Without an entry in the user database the system is asked, by a program.
    let mut run = by_setpriv(&rights, &binary);
    bobs(run.env("LOCKSPAN_TEST_PASSWD", &passwd).args(["run", "a:1", "--", "true"]));
    let (code, text) = output(&mut run);
    assert_eq!(code, Some(69), "{text}");
    assert!(text.contains(&format!("user {ANN} is not in the user database")), "{text}");
    let with_entry = |words: &[&str]| {
        let mut unshare = Command::new("unshare");
        let script = "mount --bind \"$0\" /etc/passwd && exec setpriv \"$@\"";
        unshare.args(["--mount", "sh", "-c", script]).arg(&passwd);
        unshare.args(rights).arg(&binary).args(words).current_dir("/").stdin(Stdio::null());
        bobs(unshare.env_remove("LOCKSPAN_URL"));
        output(&mut unshare)
    };
    let (code, text) = with_entry(&["run", "a:1", "--", "true"]);
    assert_eq!(code, Some(69), "{text}");
    assert!(text.contains("this program does not start it: the program is setuid"), "{text}");
    let url = "lockspans://localhost:1";
    let (code, text) = with_entry(&["run", "--url", url, "a:1", "--", "true"]);
    assert_ne!(code, Some(0), "{text}");
    assert!(text.contains("does not trust SSL_CERT_FILE"), "{text}");
    assert!(!proof.exists(), "run as user {}", fs::read_to_string(&proof).unwrap_or_default());
    // Bob can use his own variables for himself.
    let mut run = of(BOB, None, &binary);
    let homes = dir_of(BOB, dir.path(), "bobs", 0o755);
    fs::write(&passwd, format!("bob:x:{BOB}:{BOB}::{}:\n", homes.display())).unwrap();
    bobs(run.env("LOCKSPAN_TEST_PASSWD", &passwd).args(["run", "a:1", "--", "true"]));
    output(&mut run);
    assert_eq!(fs::read_to_string(&proof).unwrap().lines().next(), Some(BOB));
}

/// Bob has taken the place in /tmp where older versions had Ann's service, and listens there.
#[test]
fn service_f113_a_squatted_place_takes_local_from_nobody() {
    let dir = public();
    let binary = dir.path().join("lockspan");
    let home = dir_of(ANN, dir.path(), "home", 0o755);
    let passwd = dir.path().join("passwd");
    fs::write(&passwd, format!("ann:x:{ANN}:{ANN}::{}:/bin/sh\n", home.display())).unwrap();
    let squatted = PathBuf::from(format!("/tmp/lockspan-{ANN}"));
    let _ = fs::remove_dir_all(&squatted);
    let _squatted = Squatted(squatted.clone());
    fs::create_dir(&squatted).unwrap();
    give(BOB, &squatted, 0o755);
    let mut serve = of(BOB, None, &binary);
    serve.args(["serve", "--data-dir", "none", "--fresh", "--socket-mode", "0666", "--listen"]);
    let socket = format!("unix:{}", squatted.join("lock.sock").display());
    let mut bobs = Process::start_with_log(serve.arg(socket));
    bobs.line_with("listening on");
    let rights = ["--reuid", ANN, "--regid", ANN, "--clear-groups"];
    let mut unshare = Command::new("unshare");
    let script = "mount --bind \"$0\" /etc/passwd && exec setpriv \"$@\"";
    unshare.args(["--mount", "sh", "-c", script]).arg(&passwd).args(rights).arg(&binary);
    unshare.args(["run", "a:1", "--", "sh", "-c", "id -u"]).current_dir("/");
    unshare.stdin(Stdio::null()).env_remove("LOCKSPAN_URL").env_remove("XDG_RUNTIME_DIR");
    let mut run = Process::start(unshare.env("LOCKSPAN_BIN", &binary));
    assert_eq!(run.line(), ANN);
    assert_eq!(run.code(), 0);
    end_service_in(&home);
}

/// Deleted with the test.
struct Squatted(PathBuf);

impl Drop for Squatted {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Ends the service of the user with this home.
fn end_service_in(home: &Path) {
    let state = home.join(".local/state/lockspan");
    let folder = fs::read_dir(state).unwrap().next().unwrap().unwrap().path();
    let stream = std::os::unix::net::UnixStream::connect(folder.join("lock.sock")).unwrap();
    let service = rustix::net::sockopt::socket_peercred(&stream).unwrap().pid;
    rustix::process::kill_process(service, Signal::TERM).unwrap();
    wait_until("the service has ended", || !common::runs(service.as_raw_pid()));
}
