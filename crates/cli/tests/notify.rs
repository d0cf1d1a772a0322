//! What `lockspan serve` tells the service manager that started it.

#![forbid(unsafe_code)]

mod common;

use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram, UnixStream};
use std::path::Path;

use common::{Home, PATIENCE, Process, lockspan};
use rustix::process::Signal;

/// A service below `dir` for a manager that listens at `notify`.
fn start(dir: &Path, notify: &str) -> Process {
    let mut command = lockspan();
    command.args(["serve", "--data-dir", "none", "--fresh", "--listen"]);
    command.arg(format!("unix:{}", dir.join("lock.sock").display()));
    Process::start_with_log(command.env("NOTIFY_SOCKET", notify))
}

fn word(manager: &UnixDatagram) -> String {
    manager.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut bytes = [0; 256];
    let length = manager.recv(&mut bytes).expect("the service says something");
    String::from_utf8(bytes[..length].to_vec()).unwrap()
}

/// Ready is not said before a client can connect, and the end is told before it comes.
fn tells_its_life(manager: &UnixDatagram, dir: &Path, notify: &str) {
    let mut server = start(dir, notify);
    assert_eq!(word(manager), "READY=1");
    UnixStream::connect(dir.join("lock.sock")).expect("it was said to be ready");
    server.signal(Signal::TERM);
    assert_eq!(word(manager), "STOPPING=1");
    assert_eq!(server.code(), 0);
}

#[test]
fn a_manager_hears_when_the_service_is_ready_and_when_it_stops() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("notify.sock");
    let manager = UnixDatagram::bind(&path).unwrap();
    tells_its_life(&manager, dir.path(), path.to_str().unwrap());
}

#[test]
fn a_manager_may_have_an_abstract_name() {
    let dir = tempfile::tempdir().unwrap();
    // As unique as the directory is.
    let name = format!("lockspan{}", dir.path().display());
    let address = SocketAddr::from_abstract_name(&name).unwrap();
    let manager = UnixDatagram::bind_addr(&address).unwrap();
    tells_its_life(&manager, dir.path(), &format!("@{name}"));
}

#[test]
fn a_manager_that_is_not_there_is_a_warning() {
    let dir = tempfile::tempdir().unwrap();
    let absent = dir.path().join("absent.sock");
    let mut server = start(dir.path(), absent.to_str().unwrap());
    server.line_with("can't send READY=1 to the service manager");
    server.signal(Signal::TERM);
    assert_eq!(server.code(), 0);
}

#[test]
fn a_name_that_makes_no_sense_is_a_warning() {
    let dir = tempfile::tempdir().unwrap();
    let mut server = start(dir.path(), "notify.sock");
    server.line_with("NOTIFY_SOCKET=notify.sock: is neither an absolute path");
    server.line_with("listening on");
    server.signal(Signal::TERM);
    assert_eq!(server.code(), 0);
}

#[test]
fn a_service_of_the_users_own_tells_no_manager() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("notify.sock");
    let manager = UnixDatagram::bind(&path).unwrap();
    let home = Home::new();
    let mut command = home.lockspan();
    command.args(["serve", "--local"]).env("NOTIFY_SOCKET", &path);
    let mut server = Process::start_with_log(&mut command);
    server.line_with("listening on");
    server.signal(Signal::TERM);
    assert_eq!(server.code(), 0);
    // It has ended: what it said would be there.
    manager.set_nonblocking(true).unwrap();
    assert!(manager.recv(&mut [0; 256]).is_err(), "it said something");
}
