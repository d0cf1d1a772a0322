//! `lockspan run` on a terminal: who is in its foreground, and what its keys do. And `lockspan
//! passwd`, which hides what is typed, and `lockspan top`.
//!
//! The terminal is a pseudo-terminal; `setsid --ctty` of util-linux makes it the controlling one.

#![forbid(unsafe_code)]

mod common;

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Instant;

use common::{PATIENCE, Process, Service};
use lockspan_tls::testing::Certificates;
use rustix::process::Signal;
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

/// Our end of a terminal, and everything that was shown on it.
struct Screen {
    keys: File,
    shown: Receiver<String>,
    text: String,
    process: Process,
}

impl Screen {
    /// Runs a script of bash on a new terminal; in it `$L` is a `lockspan run` of the service.
    fn start(service: &Service, script: &str) -> Self {
        let run = format!("{} run --url {}", env!("CARGO_BIN_EXE_lockspan"), service.url());
        let mut command = Command::new("setsid");
        command.env("L", run);
        Self::run(command, script)
    }

    /// Runs a script of bash on a new terminal; the command is `setsid`.
    fn run(mut command: Command, script: &str) -> Self {
        let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
        grantpt(&ours).unwrap();
        unlockpt(&ours).unwrap();
        let name = ptsname(&ours, Vec::new()).unwrap().into_string().unwrap();
        let theirs = OpenOptions::new().read(true).write(true).open(name).unwrap();
        command.args(["--ctty", "--wait", "bash", "-c", script]);
        command.stdin(theirs.try_clone().unwrap()).stderr(theirs.try_clone().unwrap());
        let keys = File::from(ours);
        let shown = pieces(keys.try_clone().unwrap());
        let process = Process::start_on(command.stdout(Stdio::from(theirs)));
        Self { keys, shown, text: String::new(), process }
    }

    /// Waits until `text` is shown, and forgets all up to it.
    fn see(&mut self, text: &str) {
        while !self.text.contains(text) {
            match self.shown.recv_timeout(PATIENCE) {
                Ok(piece) => self.text.push_str(&piece),
                Err(why) => panic!("{text:?} was not shown ({why}), but {:?}", self.text),
            }
        }
        let end = self.text.find(text).unwrap() + text.len();
        self.text.drain(..end);
    }

    /// Waits until `text` is to be seen on a screen that is drawn again and again.
    fn watch(&mut self, text: &str) {
        let deadline = Instant::now() + PATIENCE;
        while !drawn(&self.text).contains(text) {
            let left = deadline.saturating_duration_since(Instant::now());
            match self.shown.recv_timeout(left) {
                Ok(piece) => self.text.push_str(&piece),
                Err(why) => panic!("{text:?} is not seen ({why}) in\n{}", drawn(&self.text)),
            }
        }
    }

    fn press(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).unwrap();
    }
}

fn pieces(mut from: File) -> Receiver<String> {
    let (send, shown) = channel();
    thread::spawn(move || {
        let mut some = [0; 1024];
        let mut read = Vec::new();
        while let Ok(len @ 1..) = from.read(&mut some) {
            read.extend_from_slice(&some[..len]);
            // The rest of a letter may come with the next piece.
            let whole = match std::str::from_utf8(&read) {
                Err(bad) if bad.error_len().is_none() => bad.valid_up_to(),
                _ => read.len(),
            };
            let piece: Vec<u8> = read.drain(..whole).collect();
            if send.send(String::from_utf8_lossy(&piece).into_owned()).is_err() {
                return;
            }
        }
    });
    shown
}

/// What a screen shows that was sent this: letters, places and clearing are understood, colours
/// and all else are passed over.
fn drawn(text: &str) -> String {
    let (mut rows, mut at) = (vec![vec![' '; 150]; 40], (0, 0));
    let mut rest = text.chars();
    while let Some(letter) = rest.next() {
        match letter {
            '\x1b' if rest.as_str().starts_with('[') => {
                let sequence: String =
                    rest.as_str()[1..].chars().take_while(|c| *c < '@').collect();
                let end = rest.nth(1 + sequence.len());
                let mut numbers =
                    sequence.split(';').map(|number| number.parse::<usize>().unwrap_or(1));
                match end {
                    Some('H') => {
                        let row = numbers.next().unwrap_or(1);
                        at = (row - 1, numbers.next().unwrap_or(1) - 1);
                    }
                    Some('J') => rows.iter_mut().for_each(|row| row.fill(' ')),
                    _ => {}
                }
            }
            '\r' => at.1 = 0,
            '\n' => at.0 += 1,
            letter => {
                if let Some(cell) = rows.get_mut(at.0).and_then(|row| row.get_mut(at.1)) {
                    *cell = letter;
                }
                at.1 += 1;
            }
        }
    }
    rows.into_iter().map(|row| row.into_iter().collect::<String>() + "\n").collect()
}

/// A line of `sh` that says whether its process group is the terminal's foreground.
const FRONT: &str =
    "set -- $(cut -d' ' -f5,8 /proc/self/stat); [ $1 = $2 ] && echo front-$1-yes || echo no";

#[test]
fn the_command_has_the_terminal_and_we_get_it_back() {
    let service = Service::start();
    let script = format!(
        "$L tty:1 -- sh -c 'read line; echo got-$line; {}'; echo code-$?; {FRONT}",
        FRONT.replace('\'', "\"")
    );
    let mut screen = Screen::start(&service, &script);
    screen.press("hello\n");
    screen.see("got-hello");
    screen.see("-yes");
    screen.see("code-0");
    screen.see("-yes");
    assert_eq!(screen.process.code(), 0);
}

/// Whatever ends `lockspan passwd`, the terminal shows again what is typed.
#[test]
fn a_password_that_is_not_given_leaves_the_terminal_as_it_was() {
    let service = Service::start();
    let lockspan = env!("CARGO_BIN_EXE_lockspan");
    let script = format!(
        "trap : INT; {lockspan} passwd; echo code-$?; stty -a
         {lockspan} passwd; echo code-$?; stty -a"
    );
    let mut screen = Screen::start(&service, &script);
    screen.see("Password: ");
    screen.press("half\x03");
    screen.see("code-130");
    screen.see(" echo ");
    screen.see("Password: ");
    screen.press("all of it\n");
    screen.see("Again: ");
    screen.press("all of it\n");
    screen.see("$argon2id$");
    screen.see("code-0");
    screen.see(" echo ");
    assert!(!screen.text.contains("half") && !screen.text.contains("all of"), "{}", screen.text);
}

#[test]
fn top_shows_what_is_held_who_waits_and_what_happened() {
    let service = Service::start();
    let (lockspan, url) = (env!("CARGO_BIN_EXE_lockspan"), service.url());
    let script = format!(
        "export TERM=xterm; stty rows 40 cols 150
         alone() {{ exec setsid $L \"$@\" < /dev/null > /dev/null 2>&1; }}
         alone seen:1 -- sleep 1000 & holder=$!
         until {lockspan} locks --url {url} | grep -q seen:1; do sleep 0.05; done
         alone seen:1 -- true & waiter=$!
         until {lockspan} locks --url {url} | grep -q wanted; do sleep 0.05; done
         {lockspan} top --url {url}; echo code-$?; kill $waiter $holder; wait"
    );
    let mut screen = Screen::start(&service, &script);
    screen.watch("seen:1");
    screen.watch("alone-wanted");
    screen.watch("Waiting (1)");
    screen.watch("1. W ");
    screen.watch("Recent events");
    screen.watch("W sleep@");
    screen.press("2");
    screen.watch("Sessions: 2, sorted");
    screen.press("3");
    screen.watch("└─ seen:1: true@");
    // Letters of a filter are letters, in this view too.
    screen.press("/nothing-q");
    screen.watch("Nothing matches the filter.");
    screen.press("\x15seen");
    screen.watch("Who waits for whom: 1 records matching seen");
    screen.press("\r");
    screen.watch("q quit");
    screen.press("q");
    screen.see("code-0");
}

#[test]
fn top_connects_again_when_the_server_is_restarted() {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("lock.sock");
    let serve = || {
        let mut command = common::lockspan();
        command.args(["serve", "--listen", &format!("unix:{}", socket.display()), "--data-dir"]);
        let mut server = Process::start_with_log(command.arg(dir.path().join("data")));
        server.line_with("listening on");
        server
    };
    let mut server = serve();
    let lockspan = env!("CARGO_BIN_EXE_lockspan");
    let script = format!(
        "export TERM=xterm LOCKSPAN_URL=unix://{}; stty rows 24 cols 80
         exec setsid {lockspan} run kept:1 -- sleep 1000 < /dev/null > /dev/null 2>&1 & run=$!
         until {lockspan} locks | grep -q kept:1; do sleep 0.05; done
         {lockspan} top --every 200ms; echo code-$?; kill $run; wait",
        socket.display()
    );
    let mut screen = Screen::run(Command::new("setsid"), &script);
    screen.watch("per second:");
    screen.watch("kept:1");
    server.signal(Signal::KILL);
    server.end();
    screen.watch("[reconnecting: what is shown is ");
    screen.watch("no Lockspan server answers ");
    screen.watch("kept:1");
    let _server = serve();
    screen.watch("per second:");
    screen.watch("kept:1");
    assert!(!drawn(&screen.text).contains("reconnecting"), "{}", drawn(&screen.text));
    screen.press("q");
    screen.see("code-0");
}

#[test]
fn locks_fit_the_terminal() {
    let service = Service::start();
    let (lockspan, url) = (env!("CARGO_BIN_EXE_lockspan"), service.url());
    let name = format!("long:{}", "x".repeat(200));
    let script = format!(
        "stty rows 24 cols 80
         exec setsid $L --note '{}' {name} -- sleep 1000 < /dev/null > /dev/null 2>&1 & run=$!
         until {lockspan} locks --url {url} | grep -q {name}; do sleep 0.05; done
         {lockspan} locks --url {url}; {lockspan} sessions --url {url}; {lockspan} waits --url {url}
         kill $run; wait; echo all-done",
        "n".repeat(200)
    );
    let mut screen = Screen::start(&service, &script);
    screen.see("RECORD ");
    screen.see("long:");
    screen.see("x…x");
    screen.see("nn…\r\n");
    screen.see("SESSION ");
    screen.see("sleep@");
    let start = screen.text.clone();
    screen.see("all-done");
    assert!(!start.contains(&"x".repeat(70)), "{start}");
}

#[test]
fn a_run_tells_at_a_terminal_whom_it_waits_for() {
    let service = Service::start();
    let held = &mut service.run(&["--note", "nightly import", "a:1"], "echo held; sleep 1000");
    let mut held = Process::start(held);
    held.line_with("held");
    let mut screen = Screen::start(&service, "$L a:1 -- echo never");
    screen.see(&format!("lockspan: waiting for a:1 at {}, held by sh@", service.url()));
    screen.see(&format!("[{}] for ", held.pid().as_raw_pid()));
    screen.see(" (nightly import)\r\n");
    screen.press("\x03");
    screen.see("before a:1 was granted");
    // Not if it is asked to be quiet.
    let mut screen = Screen::start(&service, "$L -q --wait 1300ms a:1 -- echo never");
    screen.see("a:1 is held by sh@");
    screen.see("not granted within 1300ms");
}

#[test]
fn top_logs_in_where_there_are_users_and_tls() {
    let dir = tempfile::tempdir().unwrap();
    let made = Certificates::make(dir.path());
    let (users, password) = (dir.path().join("users.toml"), dir.path().join("password"));
    std::fs::write(&password, "nna\n").unwrap();
    let lockspan = env!("CARGO_BIN_EXE_lockspan");
    let hash = Command::new(lockspan).arg("passwd").stdin(File::open(&password).unwrap()).output();
    let hash = String::from_utf8(hash.unwrap().stdout).unwrap();
    let rights = "write = [\"*\"]\ninspect = [\"seen\"]";
    let text = format!("[users.ann]\npassword = \"{}\"\n{rights}\n", hash.trim());
    std::fs::write(&users, text).unwrap();
    let mut command = common::lockspan();
    command.args(["serve", "--listen", "127.0.0.1:0", "--data-dir", "none", "--fresh", "--users"]);
    command.arg(&users).arg("--tls-cert").arg(made.pem("server"));
    let mut server = Process::start_with_log(command.arg("--tls-key").arg(made.key("server")));
    let line = server.line_with("listening on 127.0.0.1:");
    let port = line.split("127.0.0.1:").nth(1).unwrap().split(';').next().unwrap();
    let script = format!(
        "export TERM=xterm LOCKSPAN_URL=lockspans://ann@localhost:{port} LOCKSPAN_CA={} \
         LOCKSPAN_PASSWORD_FILE={}; stty rows 40 cols 150
         alone() {{ exec setsid {lockspan} run \"$@\" < /dev/null > /dev/null 2>&1; }}
         alone other:1 -- sleep 1000 & one=$!
         alone seen:1 -- sleep 1000 & two=$!
         until [ $({lockspan} locks | grep -c seen:1) = 1 ]; do sleep 0.05; done
         {lockspan} top; echo code-$?; kill $one $two; wait",
        made.pem("ca").display(),
        password.display()
    );
    let mut screen = Screen::run(Command::new("setsid"), &script);
    // Only what the user may see, and their own sessions.
    screen.watch("Records: 1, sorted");
    screen.watch("seen:1");
    screen.press("2");
    screen.watch("Sessions: 2, sorted");
    screen.watch("ann");
    screen.press("q");
    screen.see("code-0");
}

#[test]
fn control_c_reaches_the_command_once() {
    let service = Service::start();
    let script = "$L tty:2 -- bash -c 'n=0; trap \"n=\\$((n+1)); echo int-\\$n\" INT; echo ready
                  while read line; do echo got-$line; [ $line = end ] && exit 7; done'
                  echo code-$?";
    let mut screen = Screen::start(&service, script);
    screen.see("ready");
    screen.press("\x03");
    screen.see("int-1");
    screen.press("end\n");
    screen.see("got-end");
    screen.see("code-7");
    assert!(!screen.text.contains("int-2"), "{}", screen.text);
}

#[test]
fn control_c_ends_a_command_that_does_not_mind() {
    let service = Service::start();
    let mut screen = Screen::start(&service, "trap : INT; $L tty:3 -- cat; echo code-$?");
    screen.press("hello\n");
    // Once as the terminal's echo, once from the command, which therefore runs.
    screen.see("hello\r\nhello\r\n");
    screen.press("\x03");
    screen.see("code-130");
}

#[test]
fn control_z_stops_the_job_and_fg_continues_it() {
    let service = Service::start();
    let script = "set -m; $L tty:4 -- sh -c 'echo ready; read line; echo got-$line'
                  echo stopped-$?; fg; echo code-$?";
    let mut screen = Screen::start(&service, script);
    screen.see("ready");
    screen.press("\x1a");
    screen.see("stopped-147");
    screen.press("hello\n");
    screen.see("got-hello");
    screen.see("code-0");
}

#[test]
fn a_job_that_was_stopped_past_its_lease_does_not_go_on() {
    let service = Service::start();
    let script = "set -m; $L --lease 1s tty:5 -- sh -c 'echo ready; read line; echo got-$line'
                  echo stopped-$?; $L --wait 20s tty:5 -- echo other-has-it
                  fg; echo code-$?";
    let mut screen = Screen::start(&service, script);
    screen.see("ready");
    screen.press("\x1a");
    screen.see("stopped-147");
    screen.see("other-has-it");
    screen.see("code-76");
}

#[test]
fn a_pager_beside_us_keeps_the_terminal() {
    let service = Service::start();
    let script = "$L tty:6 -- sh -c 'echo page; sleep 0.1' | (cat; read line < /dev/tty; \
                  echo pager-$line)";
    let mut screen = Screen::start(&service, script);
    screen.see("page");
    screen.press("q\n");
    screen.see("pager-q");
}

/// A server without data waits for the longest lease of a run that it knows nothing of.
#[test]
fn service_f44_a_run_that_waits_for_a_recovery_says_so_on_a_terminal() {
    let dir = tempfile::tempdir().unwrap();
    let at = dir.path().join("lock.sock");
    let mut serve = common::lockspan();
    serve.args(["serve", "--data-dir", "none", "--listen", &format!("unix:{}", at.display())]);
    let mut server = Process::start_with_log(&mut serve);
    server.line_with("recovering: waiting for unknown sessions of an earlier run");
    server.line_with("listening on");
    let run = format!(
        "{} run --url unix://{} x:1 -- echo never",
        env!("CARGO_BIN_EXE_lockspan"),
        at.display()
    );
    let mut screen = Screen::run(Command::new("setsid"), &run);
    screen.see("lockspan: the service is recovering: waiting for sessions of an earlier run");
    screen.press("\x03");
    screen.see("before x:1 was granted");
}

#[test]
fn top_says_what_is_wrong_as_the_other_commands_do() {
    let binary = env!("CARGO_BIN_EXE_lockspan");
    let script = format!(
        "{binary} top --url redis://127.0.0.1:1; echo code-$?
         {binary} top --url http://x; echo code-$?"
    );
    let mut screen = Screen::run(Command::new("setsid"), &script);
    screen.see("lockspan top needs a Lockspan server");
    screen.see("code-64");
    screen.see("unknown scheme. Use one of: ");
    screen.see("code-64");
}
