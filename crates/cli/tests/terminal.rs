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

use common::{PATIENCE, Process, Service};
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
        let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
        grantpt(&ours).unwrap();
        unlockpt(&ours).unwrap();
        let name = ptsname(&ours, Vec::new()).unwrap().into_string().unwrap();
        let theirs = OpenOptions::new().read(true).write(true).open(name).unwrap();
        let run = format!("{} run --url {}", env!("CARGO_BIN_EXE_lockspan"), service.url());
        let mut command = Command::new("setsid");
        command.args(["--ctty", "--wait", "bash", "-c", script]).env("L", run);
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

    fn press(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).unwrap();
    }
}

fn pieces(mut from: File) -> Receiver<String> {
    let (send, shown) = channel();
    thread::spawn(move || {
        let mut some = [0; 1024];
        while let Ok(len @ 1..) = from.read(&mut some) {
            if send.send(String::from_utf8_lossy(&some[..len]).into_owned()).is_err() {
                return;
            }
        }
    });
    shown
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
         $L seen:1 -- sleep 1000 & holder=$!
         until {lockspan} locks --url {url} | grep -q seen:1; do sleep 0.05; done
         $L seen:1 -- true & waiter=$!
         until {lockspan} locks --url {url} | grep -q wanted; do sleep 0.05; done
         {lockspan} top --url {url}; echo code-$?; kill $waiter $holder; wait"
    );
    let mut screen = Screen::start(&service, &script);
    screen.see("seen:1");
    screen.see("alone-wanted");
    screen.see("Waiting (1)");
    screen.see("Lately");
    screen.press("2");
    screen.see("Sessions: 2 of all");
    screen.press("3");
    screen.see("└─ seen:1: session");
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
