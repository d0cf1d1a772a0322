//! `local:` is one service for one user, whatever the environment says, and `lockspan serve` meets
//! it.

#![forbid(unsafe_code)]

mod common;

use std::fs;
use std::io::{Read as _, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;

use common::{Home, Process, lockspan, wait_until};
use rustix::process::Signal;

/// Holds a record until the file `over` is there; its first line is the token.
fn holder(home: &Home, command: &mut Command, record: &str, over: &Path) -> (Process, i64) {
    let script =
        format!("echo $LOCKSPAN_TOKEN; until [ -e {} ]; do sleep 0.02; done", over.display());
    command.args(["run", record, "--", "sh", "-c", &script]).stdin(Stdio::null());
    let mut holder = Process::start(command);
    let token = holder.line().parse().unwrap();
    assert!(home.service().is_some());
    (holder, token)
}

fn token(home: &Home, record: &str) -> i64 {
    let mut run = Process::start(&mut home.run(&["--wait", "25s", record], "echo $LOCKSPAN_TOKEN"));
    let token = run.line().parse().unwrap();
    assert_eq!(run.code(), 0);
    token
}

fn code_of(command: &mut Command) -> (i32, String) {
    let output = command.stdin(Stdio::null()).output().unwrap();
    (output.status.code().unwrap(), String::from_utf8(output.stderr).unwrap())
}

/// A cron job has hardly any variables, a login shell has many: they are one user.
#[test]
fn local_l1_every_environment_of_a_user_meets_one_service() {
    let home = Home::new();
    let elsewhere = tempfile::tempdir().unwrap();
    fs::set_permissions(elsewhere.path(), fs::Permissions::from_mode(0o700)).unwrap();
    let over = home.dir().join("over");
    let mut cron = home.lockspan();
    cron.env_remove("HOME").env_remove("TMPDIR");
    let (mut holder, _) = holder(&home, &mut cron, "cron:1", &over);
    for name in ["XDG_RUNTIME_DIR", "XDG_STATE_HOME", "XDG_DATA_HOME", "HOME", "TMPDIR"] {
        let mut login = home.run(&["--wait", "0", "cron:1"], "true");
        let (code, text) = code_of(login.env(name, elsewhere.path()));
        assert_eq!(code, 75, "{name}: {text}");
        assert!(text.contains("cron:1 is held by sh@"), "the holder is named: {text}");
        assert!(text.contains(", at local: ("), "the service is named: {text}");
    }
    fs::write(&over, "").unwrap();
    assert_eq!(holder.code(), 0);
}

/// Versions before this one had a place that hung on a variable.
#[test]
fn local_l2_a_living_service_at_an_older_place_is_refused() {
    let home = Home::new();
    let runtime = home.dir().join("runtime");
    let old = runtime.join("lockspan");
    fs::create_dir_all(&old).unwrap();
    let mut serve = lockspan();
    serve.args(["serve", "--data-dir", "none", "--fresh", "--listen"]);
    serve.arg(format!("unix:{}", old.join("lock.sock").display()));
    let mut older = Process::start_with_log(&mut serve);
    older.line_with("listening on");
    let run = || code_of(home.run(&["old:1"], "true").env("XDG_RUNTIME_DIR", &runtime));
    let (code, text) = run();
    assert_eq!(code, 69, "{text}");
    let process = older.pid().as_raw_pid();
    assert!(
        text.contains(&format!(
            "an older version of lockspan is still running as this user's service: process \
             {process}"
        )),
        "{text}"
    );
    older.signal(Signal::TERM);
    older.end();
    let (code, text) = run();
    assert_eq!(code, 0, "{text}");
}

/// The folder is deleted while a run holds: the service goes on and is found again, and tokens
/// rise, also in the next service.
#[test]
fn local_l3_a_deleted_folder_makes_no_second_service_and_no_lower_token() {
    let home = Home::new();
    // The first epoch of an empty folder would be this one's too.
    let before = token(&home, "gone:1");
    home.end(Signal::TERM);
    let over = home.dir().join("over");
    let (mut holder, held) = holder(&home, &mut home.lockspan(), "gone:1", &over);
    assert!(held > before);
    let service = home.service();
    fs::remove_dir_all(home.dir().join("home/.local")).unwrap();
    let (code, text) = code_of(&mut home.run(&["--wait", "0", "gone:1"], "true"));
    assert_eq!(code, 75, "{text}");
    assert_eq!(home.service(), service, "it is the same service");
    fs::write(&over, "").unwrap();
    assert_eq!(holder.code(), 0);
    let next = token(&home, "gone:1");
    assert!(next > held, "{next} after {held}");
    wait_until("it has noted what was lost", || home.folder().join("lost").exists());
    home.end(Signal::TERM);
    let last = token(&home, "gone:1");
    assert!(last > next, "{last} after {next}");
}

/// The same, and then the service is killed while the record is held: the next one knows that it
/// does not know, and grants nothing.
#[test]
fn local_l4_after_a_deleted_folder_and_a_kill_nothing_is_granted() {
    let home = Home::new();
    let over = home.dir().join("over");
    let (_holder, _) = holder(&home, &mut home.lockspan(), "gone:2", &over);
    fs::remove_dir_all(home.folder()).unwrap();
    wait_until("it has noted what was lost", || home.folder().join("lost").exists());
    wait_until("it listens again", || home.service().is_some());
    home.end(Signal::KILL);
    let (code, text) = code_of(&mut home.run(&["--wait", "1s", "gone:2"], "true"));
    assert_eq!(code, 75, "{text}");
}

/// Somebody deletes the folder again, and the note of the first time with it.
#[test]
fn local_l18_a_folder_that_is_deleted_twice_makes_no_lower_token() {
    let home = Home::new();
    let before = token(&home, "twice:1");
    home.end(Signal::TERM);
    let held = token(&home, "twice:1");
    assert!(held > before);
    for _ in 0..2 {
        fs::remove_dir_all(home.folder()).unwrap();
        wait_until("it has noted what was lost", || home.folder().join("lost").exists());
        wait_until("it listens again", || home.service().is_some());
    }
    let more = token(&home, "twice:1");
    assert!(more > held, "{more} after {held}");
    home.end(Signal::TERM);
    let last = token(&home, "twice:1");
    assert!(last > more, "{last} after {more}");
}

/// Only files in the data directory are deleted; the last time the service ends before it looks.
#[test]
fn local_l18_deleted_data_files_make_no_lower_token() {
    let home = Home::new();
    let mut last = token(&home, "files:1");
    let files: [&[&str]; 4] = [
        &["lockspan.data"],
        &["lockspan.lock"],
        &["lockspan.data", "lockspan.lock"],
        &["lockspan.lock", "lockspan.data"],
    ];
    for (round, files) in files.iter().enumerate() {
        let note = home.folder().join("lost");
        let _ = fs::remove_file(&note);
        let service = home.service().unwrap();
        for file in *files {
            fs::remove_file(home.folder().join("data").join(file)).unwrap();
        }
        if round < 3 {
            wait_until("it has noted what was lost", || note.exists());
        }
        rustix::process::kill_process(service, Signal::TERM).unwrap();
        wait_until("it has ended", || !common::runs(service.as_raw_pid()));
        let next = token(&home, "files:1");
        assert!(next > last, "{files:?}: {next} after {last}");
        last = next;
    }
}

/// Nobody knows what a damaged note said: above which epoch to go on, and whether to wait.
#[test]
fn local_l19_a_damaged_note_of_lost_data_is_an_error() {
    let home = Home::new();
    token(&home, "note:1");
    home.end(Signal::TERM);
    fs::write(home.folder().join("lost"), "").unwrap();
    let (code, text) = code_of(&mut home.run(&["note:1"], "true"));
    assert_eq!(code, 69, "{text}");
    assert!(text.contains("lost can't be used"), "{text}");
}

/// Sockets with all names of the claim, from which nobody accepts, and whose lines are full.
fn squatters(home: &Home) -> Vec<std::os::fd::OwnedFd> {
    use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
    let path = home.dir().join("passwd");
    let hash =
        path.as_os_str().as_encoded_bytes().iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
            (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
        });
    let user = rustix::process::geteuid().as_raw();
    let socket = || {
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None).unwrap()
    };
    let mut all = Vec::new();
    for number in 0..8 {
        let name = format!("lockspan-local-{user}-{number}-test-{hash:x}");
        let name = SocketAddrUnix::new_abstract_name(name.as_bytes()).unwrap();
        let listener = socket();
        rustix::net::bind(&listener, &name).unwrap();
        rustix::net::listen(&listener, 0).unwrap();
        all.push(listener);
        loop {
            let stream = socket();
            if rustix::net::connect(&stream, &name).is_err() {
                break;
            }
            all.push(stream);
        }
    }
    all
}

/// Another user can take all names of the claim and never accept from them.
#[test]
fn local_l20_names_that_are_taken_and_never_answered_stop_nobody() {
    let home = Home::new();
    let _squatters = squatters(&home);
    let mut run = Process::start(&mut home.run(&["squat:1"], "true"));
    assert_eq!(run.code(), 0);
}

/// The service that a run starts outlives it: what it has inherited would stay open.
#[test]
fn local_l21_the_service_keeps_nothing_that_the_run_had_open() {
    let home = Home::new();
    let file = home.dir().join("open");
    let script = format!(
        "exec 7>&1 8>{}; exec {} run -q open:1 -- echo hi",
        file.display(),
        env!("CARGO_BIN_EXE_lockspan")
    );
    let mut shell = Command::new("sh");
    shell.env("LOCKSPAN_TEST_PASSWD", home.dir().join("passwd")).env_remove("XDG_RUNTIME_DIR");
    shell.env("LOCKSPAN_BIN", env!("CARGO_BIN_EXE_lockspan")).env_remove("LOCKSPAN_URL");
    let mut run = Process::start(shell.args(["-c", &script]).stdin(Stdio::null()));
    assert_eq!(run.code(), 0);
    let service = home.service().unwrap().as_raw_pid();
    wait_until("the service has let go of what it inherited", || {
        let open = fs::read_dir(format!("/proc/{service}/fd")).unwrap().filter_map(Result::ok);
        !open.filter_map(|entry| fs::read_link(entry.path()).ok()).any(|path| path == file)
    });
    // This returns when nobody has the pipe any more.
    assert_eq!(run.rest(), ["hi"]);
    let name = fs::read_to_string(format!("/proc/{service}/comm")).unwrap();
    assert_eq!(name.trim(), "lockspan");
}

/// A log that is full is replaced by a new file, in a folder that is not there any more.
#[test]
fn local_l22_after_a_deleted_folder_the_log_can_still_be_replaced() {
    let home = Home::new();
    let before = token(&home, "full:1");
    fs::remove_dir_all(home.folder()).unwrap();
    wait_until("it listens again", || home.service().is_some());
    let socket = home.folder().join("lock.sock");
    let mut stream = std::os::unix::net::UnixStream::connect(socket).unwrap();
    stream.set_read_timeout(Some(common::PATIENCE)).unwrap();
    let mut writer = stream.try_clone().unwrap();
    let sender = thread::spawn(move || {
        let open = "*3\r\n$7\r\nLS.OPEN\r\n$5\r\nLEASE\r\n$4\r\n1000\r\n";
        for _ in 0..120 {
            writer.write_all(open.repeat(100).as_bytes()).unwrap();
        }
        writer.write_all(b"*1\r\n$4\r\nPING\r\n").unwrap();
    });
    let (mut heard, mut part) = (Vec::new(), [0; 1 << 16]);
    while !heard.ends_with(b"+PONG\r\n") {
        let count = stream.read(&mut part).expect("sessions are opened");
        assert_ne!(count, 0, "it hung up");
        heard.extend_from_slice(&part[..count]);
    }
    sender.join().unwrap();
    assert!(
        !heard.windows(2).any(|two| two == b"\n-"),
        "{}",
        String::from_utf8_lossy(&heard[..200])
    );
    assert!(home.folder().join("data/lockspan.data").exists(), "the log was replaced");
    let next = token(&home, "full:1");
    assert!(next > before, "{next} after {before}");
}

/// The service ends when it is idle, at the very moment when runs begin.
#[test]
fn local_l5_the_idle_exit_fails_no_run() {
    let home = Home::new();
    let binary = home.dir().join("brief");
    let script = "#!/bin/sh\nexec BIN \"$@\" --idle-exit 1ms\n";
    fs::write(&binary, script.replace("BIN", env!("CARGO_BIN_EXE_lockspan"))).unwrap();
    fs::set_permissions(&binary, fs::Permissions::from_mode(0o700)).unwrap();
    let failed: Vec<_> = thread::scope(|scope| {
        let worker = |number: usize| {
            let (home, binary) = (&home, &binary);
            scope.spawn(move || {
                let record = format!("brief:{number}");
                let run =
                    |_| code_of(home.run(&["-q", &record], "true").env("LOCKSPAN_BIN", binary));
                (0..75).map(run).filter(|(code, _)| *code != 0).collect::<Vec<_>>()
            })
        };
        let workers: Vec<_> = (0..4).map(worker).collect();
        workers.into_iter().flat_map(|worker| worker.join().unwrap()).collect()
    });
    assert!(failed.is_empty(), "{} of 300: {failed:?}", failed.len());
}

/// What keeps the service from starting is said.
#[test]
fn local_l6_a_service_that_cannot_start_says_why() {
    let home = Home::new();
    let state = home.dir().join("home/.local/state");
    fs::create_dir_all(&state).unwrap();
    let elsewhere = home.dir().join("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    std::os::unix::fs::symlink(&elsewhere, state.join("lockspan")).unwrap();
    let (code, text) = code_of(&mut home.run(&["link:1"], "true"));
    assert_eq!(code, 69, "{text}");
    assert!(text.contains("must be a directory (not a symbolic link)"), "{text}");
    fs::remove_file(state.join("lockspan")).unwrap();
    assert_eq!(token(&home, "link:1").signum(), 1);
    home.end(Signal::TERM);
    fs::remove_dir_all(home.folder().join("data")).unwrap();
    fs::write(home.folder().join("data"), "not a directory").unwrap();
    let (code, text) = code_of(&mut home.run(&["file:1"], "true"));
    assert_eq!(code, 69, "{text}");
    assert!(text.contains("failed to start") && text.contains("service.log"), "{text}");
}

/// `lockspan serve` is what commands without a URL find, and they say so.
#[test]
fn local_l7_serve_and_run_meet() {
    let home = Home::new();
    let mut serve = home.lockspan();
    serve.args(["serve", "--local", "--listen", "127.0.0.1:0", "--idle-exit", "never"]);
    let mut server = Process::start_with_log(&mut serve);
    let line = server.line_with("listening on");
    let port = line.split("listening on ").nth(1).and_then(|rest| rest.split(',').next()).unwrap();
    let over = home.dir().join("over");
    let (mut holder, _) = holder(&home, &mut home.lockspan(), "meet:1", &over);
    let url = format!("lockspan://{port}");
    let (code, text) = code_of(&mut home.run(&["--url", &url, "--wait", "0", "meet:1"], "true"));
    assert_eq!(code, 75, "by its port it is the same service: {text}");
    let (code, text) = code_of(&mut home.run(&["-v", "meet:2"], "true"));
    let process = server.pid().as_raw_pid();
    assert_eq!(code, 0);
    assert!(text.contains("the service is local: ("), "{text}");
    assert!(text.contains(&format!("process {process})")), "{text}");
    let shown = home.lockspan().arg("locks").output().unwrap();
    assert!(String::from_utf8(shown.stdout).unwrap().contains("meet:1"));
    let said = String::from_utf8(shown.stderr).unwrap();
    assert!(said.contains(&format!("process {process})")), "{said}");
    // A second one can't be it.
    let (code, text) = code_of(home.lockspan().args(["serve", "--local"]));
    assert_eq!(code, 75, "{text}");
    fs::write(&over, "").unwrap();
    assert_eq!(holder.code(), 0);
}

/// A service that a client has started makes room for `lockspan serve`, with its locks.
#[test]
fn local_l8_serve_takes_over_from_a_service_that_a_client_started() {
    let home = Home::new();
    let over = home.dir().join("over");
    let (mut holder, held) = holder(&home, &mut home.lockspan(), "over:1", &over);
    let first = home.service().unwrap();
    // Not `--local` alone: this is what a person starts.
    let mut serve = home.lockspan();
    serve.args(["serve", "--local", "--idle-exit", "never", "--listen", "127.0.0.1:0"]);
    let mut server = Process::start_with_log(&mut serve);
    server.line_with(&format!("taking over from process {}", first.as_raw_pid()));
    server.line_with("listening on");
    assert_eq!(home.service(), Some(server.pid()));
    let (code, text) = code_of(&mut home.run(&["--wait", "0", "over:1"], "true"));
    assert_eq!(code, 75, "the lock was kept: {text}");
    fs::write(&over, "").unwrap();
    assert_eq!(holder.code(), 0, "it never lost its lock");
    let next = token(&home, "over:1");
    assert!(next > held, "{next} after {held}");
}

/// A run of a record that the command runs under already would wait for itself.
#[test]
fn run_l16_a_nested_run_of_the_same_record_is_refused_at_once() {
    let home = Home::new();
    let inner =
        |words: &str| format!("{} run -q {words}; echo code $?", env!("CARGO_BIN_EXE_lockspan"));
    let outer = |words: &[&str], script: &str| {
        let output = home.run(words, script).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        (text.trim().to_owned(), String::from_utf8(output.stderr).unwrap())
    };
    let (text, why) = outer(&["nest:1"], &inner("nest:1 -- echo never"));
    assert_eq!(text, "code 79", "{why}");
    assert!(why.contains("already runs under a lock on nest:1 for writing"), "{why}");
    // Through another record, and by the other name of the service.
    let socket = home.folder().join("lock.sock");
    let deep = inner(&format!("--url unix:{} nest:1 -- echo never", socket.display()));
    let (text, why) = outer(&["nest:1"], &inner(&format!("nest:2 -- sh -c '{deep}'")));
    assert_eq!(text, "code 79\ncode 0", "{why}");
    for (outer_words, words, code) in [
        (&["-r", "nest:3"][..], "-r nest:3 -- true", 0),
        (&["-r", "nest:3"], "nest:3 -- true", 79),
        (&["nest:3"], "-r nest:3 -- true", 79),
        (&["nest:3"], "nest:4 -- true", 0),
    ] {
        let (text, why) = outer(outer_words, &inner(words));
        assert_eq!(text, format!("code {code}"), "{outer_words:?} {words}: {why}");
    }
}

/// What a run leaves behind has its variables, and may lock the record when the run is over.
#[test]
fn run_l17_what_a_run_left_behind_may_lock_its_record() {
    let home = Home::new();
    let late = home.dir().join("late");
    let script = format!(
        "(setsid sh -c 'sleep 0.3; {} run -q behind:1 -- touch {}' > /dev/null 2>&1 &)",
        env!("CARGO_BIN_EXE_lockspan"),
        late.display()
    );
    let mut run = Process::start(&mut home.run(&["behind:1"], &script));
    assert_eq!(run.code(), 0);
    wait_until("it had the lock", || late.exists());
}
