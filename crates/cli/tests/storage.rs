//! The data directory of `lockspan serve`: damaged files, missing files, a full disk.

#![forbid(unsafe_code)]

mod common;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use common::{PATIENCE, Process, lockspan, wait_until};
use redis::{Connection, Value};
use rustix::process::{Resource, Rlimit, Signal, prlimit};

/// Where a server listens: by TCP its sessions are synced, by a socket file they are not.
#[derive(Clone, Copy, Debug)]
enum At {
    Port,
    Socket,
}

fn serve(dir: &Path, at: At) -> Command {
    let mut command = lockspan();
    command.args(["serve", "--data-dir"]).arg(dir.join("data")).arg("--listen");
    match at {
        At::Port => command.arg("127.0.0.1:0"),
        At::Socket => command.arg(format!("unix:{}", dir.join("lock.sock").display())),
    };
    command
}

fn data(dir: &Path) -> PathBuf {
    dir.join("data/lockspan.data")
}

/// A server that runs.
#[derive(Debug)]
struct Server {
    process: Process,
    url: String,
}

impl Server {
    fn start(dir: &Path, at: At) -> Self {
        Self::with(&mut serve(dir, at))
    }

    fn with(command: &mut Command) -> Self {
        let mut process = Process::start_with_log(command);
        let line = process.line_with("listening on ");
        let (_, at) = line.split_once("listening on ").unwrap();
        let at = at.split(';').next().unwrap();
        let url = match at.strip_prefix("unix:") {
            Some(path) => format!("unix://{path}"),
            None => format!("redis://{at}"),
        };
        Self { process, url }
    }

    fn connect(&self) -> Connection {
        let client = redis::Client::open(&*self.url).unwrap();
        let connection = client.get_connection().expect("it answers");
        connection.set_read_timeout(Some(PATIENCE)).unwrap();
        connection
    }

    fn kill(mut self) {
        self.process.signal(Signal::KILL);
        self.process.end();
    }
}

fn ask(to: &mut Connection, words: &[&str]) -> Result<String, String> {
    let (name, args) = words.split_first().unwrap();
    let answer = redis::cmd(name).arg(args).query::<Value>(to);
    answer.map(|value| format!("{value:?}")).map_err(|why| why.to_string())
}

/// Opens a session.
fn open(to: &mut Connection) -> Result<String, String> {
    let answer = redis::cmd("LS.OPEN").arg("LEASE").arg(60_000).query::<Vec<Value>>(to);
    let answer = answer.map_err(|why| why.to_string())?;
    Ok(redis::from_redis_value::<u64>(answer[1].clone()).expect("its number").to_string())
}

fn acquire(to: &mut Connection, session: &str) -> String {
    ask(to, &["LS.ACQUIRE", session, "a:1", "W"]).unwrap_or_else(|why| why)
}

/// One server, a session that holds `a:1`, and kill -9.
fn held_and_killed(dir: &Path, at: At) -> (String, Vec<u8>) {
    let server = Server::start(dir, at);
    let mut client = server.connect();
    let session = open(&mut client).unwrap();
    let held = acquire(&mut client, &session);
    assert!(held.contains("granted"), "{held}");
    server.kill();
    (session, fs::read(data(dir)).expect("there is a data file"))
}

/// Starts a server on what is there; it may not grant what the session of the run before holds.
/// Whether it knows the session.
fn knows(dir: &Path, at: At, session: &str, about: &str) -> bool {
    let server = Server::start(dir, at);
    let mut client = server.connect();
    let kept = ask(&mut client, &["LS.KEEP", session]).expect_err("it has to re-assert");
    let other = open(&mut client).unwrap();
    let asked = acquire(&mut client, &other);
    assert!(!asked.contains("granted"), "{about}: granted at once: {asked}; the other: {kept}");
    server.kill();
    kept.contains("re-asserted")
}

#[test]
fn service_f46_after_kill_9_a_flipped_bit_forgets_no_session() {
    for at in [At::Port, At::Socket] {
        let dir = tempfile::tempdir().unwrap();
        let (session, whole) = held_and_killed(dir.path(), at);
        let half = whole.len() / 2;
        let used = whole.iter().position(|byte| *byte == 0).unwrap();
        for (count, offset) in (0..used).step_by(used / 12).enumerate() {
            let mut bytes = whole.clone();
            let copy = (count % 2) * half;
            bytes[copy + offset] ^= 1 << (count % 8);
            fs::write(data(dir.path()), bytes).unwrap();
            let about = format!("{at:?}, byte {}", copy + offset);
            assert!(knows(dir.path(), at, &session, &about), "{about}");
        }
        // In both copies the last line: what was acknowledged is lost, and that is noticed.
        for cut in [used - 2, used - 40] {
            let mut bytes = whole.clone();
            bytes[cut] ^= 1;
            bytes[half + cut] ^= 1;
            fs::write(data(dir.path()), bytes).unwrap();
            assert!(!knows(dir.path(), at, &session, &format!("{at:?}, byte {cut} twice")));
        }
        for len in [half - 1, used, used - 40] {
            fs::write(data(dir.path()), &whole[..len]).unwrap();
            knows(dir.path(), at, &session, &format!("{at:?}, cut to {len} bytes"));
        }
    }
}

/// The server ends with this code, and says something with each of these texts.
fn refuses(command: &mut Command, texts: &[&str]) {
    let output = command.output().expect("the binary runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(78), "{said}");
    for text in texts {
        assert!(said.contains(text), "{text:?} is not in {said}");
    }
    assert!(!said.contains("panicked") && !said.contains("backtrace"), "{said}");
}

#[test]
fn service_f45_what_can_not_be_read_is_told_and_ends_with_78() {
    for at in [At::Port, At::Socket] {
        let dir = tempfile::tempdir().unwrap();
        let (_, whole) = held_and_killed(dir.path(), at);
        let mut no_heads = whole.clone();
        no_heads[17] ^= 1;
        no_heads[whole.len() / 2 + 17] ^= 1;
        let mut garbage = whole.clone();
        garbage.iter_mut().for_each(|byte| *byte ^= 0x5a);
        for bytes in [&[][..], b"something else", &whole[..40], &[0; 100_000], &no_heads, &garbage]
        {
            fs::write(data(dir.path()), bytes).unwrap();
            let texts =
                ["lockspan.data: it is", "Wait until every lease has expired", "Don't restore"];
            refuses(&mut serve(dir.path(), at), &texts);
            assert_eq!(fs::read(data(dir.path())).unwrap(), bytes, "it is left as it is");
        }
        fs::remove_file(data(dir.path())).unwrap();
        refuses(&mut serve(dir.path(), at), &["lockspan.data: it is missing", "tokens"]);
        fs::create_dir(data(dir.path())).unwrap();
        refuses(&mut serve(dir.path(), at), &["can't use", "lockspan.data"]);
        fs::remove_dir(data(dir.path())).unwrap();
        fs::write(data(dir.path()), &whole).unwrap();
        let old = dir.path().join("data/lockspan.redb");
        fs::write(&old, "something").unwrap();
        refuses(&mut serve(dir.path(), at), &["lockspan.redb was written by an earlier", "tokens"]);
        fs::remove_file(old).unwrap();
    }
    let mut nowhere = lockspan();
    nowhere.args(["serve", "--listen", "127.0.0.1:0", "--data-dir", "/proc/self/lockspan"]);
    refuses(&mut nowhere, &["can't use /proc/self/lockspan"]);
}

/// A server that may not write to any file; what it is told to write fails.
fn without_room(dir: &Path, at: At) -> Server {
    let script = "trap '' XFSZ; ulimit -S -f 0; exec \"$0\" \"$@\"";
    let told = serve(dir, at);
    let mut command = Command::new("sh");
    command.args(["-c", script]).arg(told.get_program()).args(told.get_args());
    for (name, value) in told.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    Server::with(&mut command)
}

fn make_room(server: &Server) {
    let endless = Rlimit { current: None, maximum: None };
    prlimit(Some(server.process.pid()), Resource::Fsize, endless).expect("it is ours");
}

#[test]
fn service_f48_a_server_started_on_a_full_disk_says_so_and_goes_on_when_there_is_room() {
    for at in [At::Port, At::Socket] {
        let dir = tempfile::tempdir().unwrap();
        // In a new directory, and in one with a session that holds something.
        for session in [None, Some(())] {
            let session = session.map(|()| held_and_killed(dir.path(), at).0);
            let server = without_room(dir.path(), at);
            let mut client = server.connect();
            assert!(ask(&mut client, &["HELLO"]).unwrap().contains("lockspan"));
            assert_eq!(ask(&mut client, &["PING"]).unwrap(), "simple-string(\"PONG\")");
            let info = ask(&mut client, &["INFO"]).unwrap();
            assert!(info.contains("recovering:1"), "{info}");
            for words in [&["LS.OPEN"][..], &["LS.KEEP", "1"], &["LS.LOCKS", "0"]] {
                let why = ask(&mut client, words).expect_err("nothing is stored");
                assert!(why.contains("BusyLoading") && why.contains("data directory"), "{why}");
                assert!(why.contains("too large"), "{why}");
            }
            let url = server.url.replace("redis://", "lockspan://");
            let mut run = lockspan();
            run.args(["run", "--url", &url, "b:1", "--", "true"]);
            let run = Process::start_on(&mut run);
            make_room(&server);
            wait_until("there is room", || open(&mut client).is_ok());
            if let Some(session) = session {
                let kept = ask(&mut client, &["LS.KEEP", &session]).expect_err("it re-asserts");
                assert!(kept.contains("re-asserted"), "{kept}");
                drop(run);
            } else {
                let mut run = run;
                assert_eq!(run.code(), 0, "a client that waited goes on by itself");
            }
            server.kill();
            fs::remove_dir_all(dir.path().join("data")).unwrap();
        }
        // Nothing is left behind that the next start takes for a lost data file.
        let mut server = without_room(dir.path(), at);
        server.process.signal(Signal::TERM);
        assert_eq!(server.process.code(), 0, "it can be stopped meanwhile");
        Server::start(dir.path(), at).kill();
    }
}
