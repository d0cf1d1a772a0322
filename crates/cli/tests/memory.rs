//! What is left of passwords in the memory of a server, and who can read it there.

#![forbid(unsafe_code)]

mod common;

use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use common::{Process, lockspan};

/// How often `text` is in the memory of a process; an error if this is not allowed.
fn copies(pid: i32, text: &str) -> io::Result<usize> {
    let maps = fs::read_to_string(format!("/proc/{pid}/maps"))?;
    let memory = File::open(format!("/proc/{pid}/mem"))?;
    let mut found = 0;
    for line in maps.lines() {
        let mut words = line.split(' ');
        let (range, rights) = (words.next().unwrap_or(""), words.next().unwrap_or(""));
        let Some((start, end)) = range.split_once('-') else { continue };
        let at = |text| u64::from_str_radix(text, 16).expect("a hexadecimal number");
        let (start, end) = (at(start), at(end));
        if !rights.starts_with("rw") {
            continue;
        }
        // Parts overlap, so that nothing is divided between two of them.
        let step = 1 << 20;
        for from in (start..end).step_by(step) {
            let len = (step + text.len()).min((end - from) as usize);
            let mut part = vec![0; len];
            // A map may be gone again.
            let Ok(read) = memory.read_at(&mut part, from) else { continue };
            let starts = part[..read].windows(text.len()).take(step);
            found += starts.filter(|some| *some == text.as_bytes()).count();
        }
    }
    Ok(found)
}

fn hash(password: &str) -> String {
    let mut command = lockspan();
    command.arg("passwd").stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(password.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    String::from_utf8(output.stdout).unwrap().trim_end().to_owned()
}

/// A server with the users `ann` and `operator`, its port and that of its page.
fn server(dir: &Path, passwords: [&str; 2], more: &[&str]) -> (Process, String, String) {
    let users = dir.join("users.toml");
    let [ann, operator] = passwords.map(hash);
    let text = format!(
        "[users.ann]\npassword = \"{ann}\"\nwrite = [\"*\"]\n\
         [users.operator]\npassword = \"{operator}\"\ninspect = [\"*\"]\nadmin = [\"*\"]\n"
    );
    fs::write(&users, text).unwrap();
    let mut command = lockspan();
    command.args(["serve", "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0"]);
    command.arg("--data-dir").arg(dir.join("data")).arg("--users").arg(&users).args(more);
    let mut server = Process::start_with_log(&mut command);
    let line = server.line_with("listening on");
    let at = line.split("listening on ").nth(1).and_then(|rest| rest.split(';').next());
    let at = at.expect("an address").to_owned();
    let line = server.line_with("page and metrics on http://");
    let page = line.split("http://").nth(1).unwrap().trim_end_matches('/').to_owned();
    (server, at, page)
}

/// Sends these parts one after the other, and hears one line.
fn say(at: &str, parts: &[&str]) -> String {
    let mut stream = TcpStream::connect(at).unwrap();
    stream.set_read_timeout(Some(common::PATIENCE)).unwrap();
    stream.set_nodelay(true).unwrap();
    for part in parts {
        stream.write_all(part.as_bytes()).unwrap();
        thread::sleep(Duration::from_millis(30));
    }
    let mut heard = [0; 256];
    let len = stream.read(&mut heard).unwrap();
    String::from_utf8_lossy(&heard[..len]).into_owned()
}

fn post_login(at: &str, user: &str, password: &str) -> String {
    let body = format!("{{\"user\":\"{user}\",\"password\":\"{password}\"}}");
    let len = body.len();
    // As a browser does, which keeps its connection.
    let head = format!(
        "POST /api/login HTTP/1.1\r\nHost: {at}\r\nOrigin: http://{at}\r\n\
         Content-Type: application/json\r\nContent-Length: {len}\r\n\r\n"
    );
    let mut stream = TcpStream::connect(at).unwrap();
    stream.set_read_timeout(Some(common::PATIENCE)).unwrap();
    for part in [&head[..], &body[..10], &body[10..]] {
        stream.write_all(part.as_bytes()).unwrap();
        thread::sleep(Duration::from_millis(30));
    }
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn service_f95_no_password_is_left_in_the_memory_of_a_server() {
    let dir = tempfile::tempdir().unwrap();
    let (ann, operator) = ("correct-horse-battery-1", "incorrect-zebra-staple-2");
    let (wrong, typed, half) = ("wrong-giraffe-battery-3", "mistyped-okapi-4", "half-of-a-tapir-5");
    let (server, at, page) = server(dir.path(), [ann, operator], &[]);
    let frame = format!("*3\r\n$4\r\nAUTH\r\n$3\r\nann\r\n${}\r\n{ann}\r\n", ann.len());
    assert_eq!(say(&at, &[&frame]), "+OK\r\n");
    let (first, second) = frame.split_at(frame.len() - 12);
    assert_eq!(say(&at, &[first, second]), "+OK\r\n");
    assert_eq!(say(&at, &[&format!("AUTH ann {ann}\r\n")]), "+OK\r\n");
    assert!(say(&at, &[&format!("HELLO 3 AUTH ann {ann}\r\n")]).starts_with('%'));
    assert!(say(&at, &[&format!("AUTH ann {wrong}\r\n")]).starts_with("-WRONGPASS"));
    assert!(say(&at, &[&format!("AUTH nobody \"{wrong}\"\r\n")]).starts_with("-WRONGPASS"));
    assert!(say(&at, &[&format!("AUHT ann {typed}\r\n")]).starts_with("-"));
    let mut cut = TcpStream::connect(&at).unwrap();
    cut.write_all(format!("AUTH ann {half}").as_bytes()).unwrap();
    thread::sleep(Duration::from_millis(100));
    drop(cut);
    assert!(post_login(&page, "operator", wrong).starts_with("HTTP/1.1 403"));
    assert!(post_login(&page, "operator", operator).starts_with("HTTP/1.1 200"));
    // It is used again: nothing of what the server keeps may depend on it.
    assert!(post_login(&page, "operator", operator).starts_with("HTTP/1.1 200"));
    thread::sleep(Duration::from_secs(1));
    let pid = server.pid().as_raw_nonzero().get();
    // Those of the same user may not look; root may.
    match copies(pid, "lockspan") {
        Err(why) => assert_eq!(why.kind(), io::ErrorKind::PermissionDenied, "{why}"),
        Ok(count) => {
            assert!(count > 0, "what is there is found");
            let left = [ann, operator, wrong, typed, half].map(|text| copies(pid, text).unwrap());
            assert_eq!(left, [0; 5], "of {:?}", [ann, operator, wrong, typed, half]);
        }
    }
}

#[test]
fn service_f95_with_users_the_memory_of_a_server_is_its_own() {
    let dir = tempfile::tempdir().unwrap();
    let (server, _, _) = server(dir.path(), ["ann's", "operator's"], &[]);
    let pid = server.pid().as_raw_nonzero().get();
    // Linux gives the files of such a process to root.
    let owner = fs::metadata(format!("/proc/{pid}/mem")).unwrap().uid();
    assert_eq!(owner, 0);
    let us = rustix::process::getuid().as_raw();
    if us == 0 {
        // Somebody who runs as the same user, and is root nowhere.
        let read = Command::new("setpriv")
            .args(["--bounding-set=-all", "--inh-caps=-all", "cat"])
            .arg(format!("/proc/{pid}/environ"))
            .output()
            .expect("setpriv");
        assert!(!read.status.success(), "{read:?}");
    }
}
