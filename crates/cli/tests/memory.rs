//! What is left of passwords in the memory of a server.

#![forbid(unsafe_code)]

mod common;

use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::process::Stdio;
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
            found += String::from_utf8_lossy(&part[..read]).matches(text).count();
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
    say_and_stay(at, parts).0
}

fn say_and_stay(at: &str, parts: &[&str]) -> (String, TcpStream) {
    let mut stream = TcpStream::connect(at).unwrap();
    stream.set_read_timeout(Some(common::PATIENCE)).unwrap();
    stream.set_nodelay(true).unwrap();
    for part in parts {
        stream.write_all(part.as_bytes()).unwrap();
        thread::sleep(Duration::from_millis(30));
    }
    let mut heard = [0; 256];
    let len = stream.read(&mut heard).unwrap();
    (String::from_utf8_lossy(&heard[..len]).into_owned(), stream)
}

/// Logs in on the page, with a request that comes in so many parts.
fn post_login(at: &str, user: &str, password: &str, parts: usize) -> String {
    let body = format!("{{\"user\":\"{user}\",\"password\":\"{password}\"}}");
    let len = body.len();
    // As a browser does, which keeps its connection.
    let head = format!(
        "POST /api/login HTTP/1.1\r\nHost: {at}\r\nOrigin: http://{at}\r\n\
         Content-Type: application/json\r\nContent-Length: {len}\r\n\r\n"
    );
    let mut stream = TcpStream::connect(at).unwrap();
    stream.set_read_timeout(Some(common::PATIENCE)).unwrap();
    let text = format!("{head}{body}");
    // The password is at the end, and not divided.
    let cuts = (1..parts).map(|part| head.len() - 20 + 25 * (part - 1));
    let cuts: Vec<_> = [0].into_iter().chain(cuts).chain([text.len()]).collect();
    for cut in cuts.windows(2) {
        stream.write_all(&text.as_bytes()[cut[0]..cut[1]]).unwrap();
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
    assert!(post_login(&page, "operator", wrong, 1).starts_with("HTTP/1.1 403"));
    for parts in [1, 2, 3, 1] {
        assert!(post_login(&page, "operator", operator, parts).starts_with("HTTP/1.1 200"));
    }
    // What this connection was read into is still there.
    let (ok, kept) = say_and_stay(&at, &[&frame]);
    assert_eq!(ok, "+OK\r\n");
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
    drop(kept);
}
