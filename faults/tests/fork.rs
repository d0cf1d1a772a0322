//! What a fork does to a connection: F22 to F27 of `docs/failures.md`, with processes that fork.
//! `src/bin/forker` has the stories; here they are told for every kind of service.

#![forbid(unsafe_code)]

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use lockspan_server::{Address, Config, Data, Server};
use tokio::process::Command;
use tokio::time::timeout;

#[path = "../../crates/redis/tests/redis/server.rs"]
#[expect(dead_code, reason = "the tests of Redis alone need more of it")]
mod redis_server;

use redis_server::Redis;

/// Longer than a story takes on a busy machine, and than its children may live.
const PATIENCE: Duration = Duration::from_secs(240);

/// A service of each kind that processes share. It ends with this.
struct Services {
    urls: Vec<String>,
    _server: Server,
    _redis: Redis,
    _folder: tempfile::TempDir,
}

impl Services {
    async fn start() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let config = Config {
            listen: vec![
                "127.0.0.1:0".parse().expect("an address"),
                Address::Unix(folder.path().join("lock.sock")),
            ],
            data: Data::Dir(folder.path().join("data")),
            ..Config::default()
        };
        let server = Server::start(config).await.expect("it starts");
        let redis = Redis::start(&[]).await;
        let mut urls = vec![format!("{}?caching", redis.url()), redis.url()];
        urls.extend(server.addresses().iter().map(|address| match address {
            Address::Tcp(address) => format!("lockspan://{address}"),
            Address::Unix(path) => format!("unix://{}", path.display()),
        }));
        Self { urls, _server: server, _redis: redis, _folder: folder }
    }

    /// Tells a story for each of them, one after the other: they use the same records.
    async fn tell(&self, story: &str, ways: &[&str]) {
        for url in &self.urls {
            for way in ways {
                tell(story, url, way).await;
            }
        }
    }
}

/// Has a process tell a story. What it printed is returned when all processes of it have ended.
async fn tell(story: &str, url: &str, way: &str) -> String {
    told_by(&mut Command::new(env!("CARGO_BIN_EXE_forker")), story, url, way).await
}

async fn told_by(command: &mut Command, story: &str, url: &str, way: &str) -> String {
    command.args([story, url, way, &std::process::id().to_string()]);
    command.stdin(Stdio::null()).kill_on_drop(true);
    let told = timeout(PATIENCE, command.output()).await;
    let told = told.unwrap_or_else(|_| panic!("{story} {url} {way}: it does not end"));
    let told = told.expect("it is started");
    let why = String::from_utf8_lossy(&told.stderr);
    assert!(told.status.success(), "{story} {url} {way}: {}: {why}", told.status);
    String::from_utf8_lossy(&told.stdout).into_owned()
}

/// A user database with a home for the user who runs the test, so that `local:` is not theirs. The
/// service that is started there ends with this.
struct Local {
    home: tempfile::TempDir,
}

impl Local {
    fn new() -> Self {
        let home = tempfile::tempdir().expect("a folder");
        let user = rustix::process::geteuid().as_raw();
        let entry = format!("me:x:{user}:{user}::{}:/bin/sh\n", home.path().display());
        std::fs::write(home.path().join("passwd"), entry).expect("a user database");
        Self { home }
    }

    async fn tell(&self, story: &str, way: &str) -> String {
        let forker = Path::new(env!("CARGO_BIN_EXE_forker"));
        let binary = forker.with_file_name("lockspan");
        assert!(binary.exists(), "the service is a program: `cargo build -p lockspan-cli` first");
        let mut command = Command::new(forker);
        command.env("LOCKSPAN_TEST_PASSWD", self.home.path().join("passwd"));
        command.env("LOCKSPAN_BIN", binary).env("LOCKSPAN_HTTP", "none");
        command.env_remove("XDG_RUNTIME_DIR").env_remove("XDG_STATE_HOME");
        told_by(&mut command, story, "local:", way).await
    }

    /// The process that serves, if there is one.
    fn service(&self) -> Option<rustix::process::Pid> {
        let above = self.home.path().join(".local/state/lockspan");
        let places = std::fs::read_dir(above).ok()?.filter_map(Result::ok);
        places.map(|place| place.path().join("lock.sock")).find_map(|socket| {
            let stream = std::os::unix::net::UnixStream::connect(socket).ok()?;
            rustix::net::sockopt::socket_peercred(&stream).ok().map(|peer| peer.pid)
        })
    }
}

impl Drop for Local {
    fn drop(&mut self) {
        if let Some(service) = self.service() {
            // If it has just ended by itself, there is nothing left to end.
            let _ = rustix::process::kill_process(service, rustix::process::Signal::KILL);
        }
    }
}

const WAYS: [&str; 3] = ["threads", "tasks", "current"];

#[tokio::test]
async fn service_f22_a_child_can_not_enter_by_its_copy_of_the_cache() {
    let services = Services::start().await;
    services.tell("cached", &WAYS).await;
    for way in WAYS {
        tell("cached", "memory:", way).await;
    }
}

#[tokio::test]
async fn service_f22_nor_can_a_child_of_a_bare_clone() {
    Services::start().await.tell("cloned", &["threads"]).await;
    tell("cloned", "memory:", "threads").await;
}

#[tokio::test]
async fn service_f23_a_child_that_drops_everything_disturbs_nobody() {
    let services = Services::start().await;
    services.tell("dropped", &["threads", "tasks"]).await;
    for way in WAYS {
        tell("dropped", "memory:", way).await;
    }
}

/// A runtime without threads can be dropped in the child, with the tasks of the connection in it.
/// The tasks of the crate `redis` are not ours: there the parent connects again.
#[tokio::test]
async fn service_f23_even_if_it_drops_the_runtime() {
    let services = Services::start().await;
    for url in services.urls.iter().filter(|url| !url.starts_with("redis:")) {
        tell("dropped", url, "current").await;
    }
}

#[tokio::test]
async fn service_f24_a_child_connects_anew() {
    Services::start().await.tell("connects", &["threads", "tasks"]).await;
    tell("connects", "memory:", "threads").await;
}

#[tokio::test]
async fn service_f24_also_if_other_threads_were_connecting() {
    let services = Services::start().await;
    services.tell("connecting", &["threads"]).await;
    tell("connecting", "memory:", "threads").await;
    // What a process makes with its first connection it makes once: more processes see more of it.
    let socket = services.urls.last().expect("a socket file");
    for _ in 0..20 {
        tell("connecting", socket, "threads").await;
    }
}

#[tokio::test]
async fn service_f25_what_waits_in_the_parent_is_refused_in_the_child() {
    let services = Services::start().await;
    services.tell("futures", &["threads", "tasks"]).await;
    for url in services.urls.iter().filter(|url| !url.starts_with("redis:")) {
        tell("futures", url, "current").await;
    }
    for way in WAYS {
        tell("futures", "memory:", way).await;
    }
}

#[tokio::test]
async fn service_f26_no_child_hangs_however_busy_its_parent_was() {
    Services::start().await.tell("storm", &["threads"]).await;
    tell("storm", "memory:", "threads").await;
}

#[tokio::test]
async fn service_f27_a_daemon_is_told_that_its_locks_went_with_its_parent() {
    let services = Services::start().await;
    for url in &services.urls {
        for way in ["threads", "tasks"] {
            assert_eq!(tell("daemon", url, way).await, "ok\n", "{url} {way}");
        }
    }
}

#[tokio::test]
async fn service_f27_a_command_inherits_no_descriptor() {
    Services::start().await.tell("spawns", &["threads", "tasks"]).await;
    tell("spawns", "memory:", "threads").await;
}

/// The service of `local:` is started on demand, by the parent.
#[tokio::test]
async fn service_f22_to_f27_hold_for_the_local_service_of_a_user() {
    let local = Local::new();
    for story in ["cached", "dropped", "connects", "futures", "spawns"] {
        for way in ["threads", "tasks"] {
            local.tell(story, way).await;
        }
    }
    for story in ["cloned", "connecting", "storm"] {
        local.tell(story, "threads").await;
    }
    assert_eq!(local.tell("daemon", "threads").await, "ok\n");
    assert!(local.service().is_some(), "it was this user's own service");
}
