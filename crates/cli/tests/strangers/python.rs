//! redis-py: every command in RESP2 and RESP3, events on a subscription, and the locks of the
//! example.

use std::process::Command;
use std::time::Duration;

use lockspan_server::users::hash_password;
use lockspan_tls::testing::Certificates;

use crate::common::{Process, lockspan};
use crate::server::Server;
use crate::tool;

#[test]
fn redis_py_takes_locks() {
    let python = tool::named_by("LOCKSPAN_PYTHON", "a Python with redis-py");
    tool::require(Command::new(&python).args(["-c", "import redis"]), "Python with redis-py");
    let dir = tempfile::tempdir().expect("a directory");
    let server = Server::start(dir.path());
    let mut command = Command::new(python);
    tool::passes(command.arg("-").arg(server.port().to_string()), include_str!("redis_py.py"));
}

#[test]
fn service_f38_locks_from_python_are_right_with_threads_restarts_and_time_outs() {
    let python = tool::named_by("LOCKSPAN_PYTHON", "a Python with redis-py");
    let dir = tempfile::tempdir().expect("a directory");
    let examples = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples");
    let mut command = Command::new(python);
    command.arg("-").arg(lockspan().get_program()).arg(dir.path()).arg(examples);
    // It waits for longer than a lease, and for longer than redis-py does.
    tool::passes_within(Duration::from_secs(180), &mut command, include_str!("redis_py_locks.py"));
}

#[test]
fn redis_py_logs_in_over_tls() {
    let python = tool::named_by("LOCKSPAN_PYTHON", "a Python with redis-py");
    let dir = tempfile::tempdir().expect("a directory");
    let made = Certificates::make(dir.path());
    let users = dir.path().join("users.toml");
    let hash = hash_password(b"secret").expect("a hash");
    let text = format!("[users.ann]\npassword = \"{hash}\"\nwrite = [\"doc\"]\n");
    std::fs::write(&users, text).expect("written");
    let mut command = lockspan();
    command.args(["serve", "--listen", "127.0.0.1:0", "--data-dir", "none", "--fresh"]);
    command.arg("--tls-cert").arg(made.pem("server")).arg("--tls-key").arg(made.key("server"));
    let mut server = Process::start_with_log(command.arg("--users").arg(&users));
    let line = server.line_with("listening on 127.0.0.1:");
    let port = line.split("127.0.0.1:").nth(1).and_then(|rest| rest.split(';').next());
    let mut command = Command::new(python);
    command.arg("-").arg(port.expect("a port")).arg(made.pem("ca"));
    tool::passes(&mut command, include_str!("redis_py_tls.py"));
}
