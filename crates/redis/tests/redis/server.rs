//! A real Redis for one test: on a free port, stopped by its process id when the test ends.

use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep};

/// How long a server may take to come up.
const PATIENCE: Duration = Duration::from_secs(20);

/// A running `redis-server`.
pub(crate) struct Redis {
    child: Child,
    pub(crate) port: u16,
    folder: Option<tempfile::TempDir>,
}

/// A port that nobody uses.
pub(crate) fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

impl Redis {
    /// Starts one with these further arguments.
    pub(crate) async fn start(arguments: &[&str]) -> Self {
        Self::start_at(None, arguments).await
    }

    /// The same, at a given port if there is one.
    pub(crate) async fn start_at(port: Option<u16>, arguments: &[&str]) -> Self {
        let late = Instant::now() + PATIENCE;
        loop {
            let folder = tempfile::tempdir().unwrap();
            let chosen = port.unwrap_or_else(free_port);
            let command = command(&folder, chosen, arguments);
            // Somebody else may take the port first; then it ends, and another is tried.
            if let Some(redis) = Self::run(command, chosen, folder, late).await {
                return redis;
            }
        }
    }

    /// Starts one with the data of another that was stopped.
    pub(crate) async fn start_in(folder: tempfile::TempDir, port: u16, arguments: &[&str]) -> Self {
        let (command, late) = (command(&folder, port, arguments), Instant::now() + PATIENCE);
        Self::run(command, port, folder, late).await.expect("nobody has taken the port meanwhile")
    }

    /// Takes away the folder that it writes to.
    pub(crate) fn lose_folder(&self) {
        std::fs::remove_dir_all(self.folder.as_ref().unwrap().path()).unwrap();
    }

    /// Kills it, and keeps its data.
    pub(crate) fn stop(mut self) -> tempfile::TempDir {
        self.folder.take().unwrap()
    }

    /// Runs one; nothing if it ends at once.
    pub(crate) async fn run(
        mut command: Command,
        port: u16,
        folder: tempfile::TempDir,
        late: Instant,
    ) -> Option<Self> {
        let child = command.stdout(Stdio::null()).spawn().expect("these tests need redis-server");
        let mut redis = Self { child, port, folder: Some(folder) };
        loop {
            if let Some(status) = redis.child.try_wait().unwrap() {
                assert!(Instant::now() < late, "redis-server ended: {status}");
                return None;
            }
            if answers(port, redis.child.id()).await {
                return Some(redis);
            }
            assert!(Instant::now() < late, "redis-server does not answer at port {port}");
            sleep(Duration::from_millis(5)).await;
        }
    }

    pub(crate) fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }
}

fn command(folder: &tempfile::TempDir, port: u16, arguments: &[&str]) -> Command {
    let mut command = Command::new("redis-server");
    command.args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", "", "--dir"]);
    command.arg(folder.path()).args(arguments);
    command
}

impl Drop for Redis {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Whether the server of this process answers, be it that it asks for a password or time. Another
/// test may have taken the port first: its server would answer too, and end with that test.
async fn answers(port: u16, process: u32) -> bool {
    let Ok(mut stream) = TcpStream::connect(("127.0.0.1", port)).await else { return false };
    let mut answer = [0; 5];
    let is_asked = stream.write_all(b"PING\r\n").await.is_ok();
    if !is_asked || stream.read_exact(&mut answer).await.is_err() {
        return false;
    }
    if answer != *b"+PONG" {
        return [b"-NOAU", b"-LOAD", b"-MAST"].contains(&&answer);
    }
    // The end of the input makes it close when all is said.
    let mut said = Vec::new();
    stream.write_all(b"INFO server\r\n").await.is_ok()
        && stream.shutdown().await.is_ok()
        && stream.read_to_end(&mut said).await.is_ok()
        && String::from_utf8_lossy(&said).contains(&format!("process_id:{process}\r\n"))
}
