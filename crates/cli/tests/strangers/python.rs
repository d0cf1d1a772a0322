//! redis-py: every command in RESP2 and RESP3, and events on a subscription.

use std::process::Command;

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
