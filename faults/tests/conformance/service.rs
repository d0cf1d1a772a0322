//! A service of each kind, for one test.

use lockspan_server::{Address, Config, Data, Server};

use crate::redis_server::Redis;

/// A service that no other test uses. It ends with this.
pub(crate) struct Service {
    pub(crate) url: String,
    /// What is not used stays on the node until somebody wants it.
    pub(crate) caches: bool,
    /// Owners that wait for each other over several nodes are told so.
    pub(crate) finds_deadlocks: bool,
    _running: Running,
}

#[expect(dead_code, reason = "it is kept for as long as the test needs it")]
enum Running {
    Nothing,
    Server(Server, tempfile::TempDir),
    Redis(Redis),
}

impl Service {
    /// Inside this process.
    pub(crate) fn memory(name: &str) -> Self {
        Self::ours(format!("memory:{name}"), Running::Nothing)
    }

    /// On a free port.
    pub(crate) async fn tcp() -> Self {
        let folder = tempfile::tempdir().unwrap();
        Self::start("127.0.0.1:0".parse().unwrap(), folder).await
    }

    /// On a socket in a folder of its own.
    pub(crate) async fn unix() -> Self {
        let folder = tempfile::tempdir().unwrap();
        Self::start(Address::Unix(folder.path().join("lock.sock")), folder).await
    }

    async fn start(address: Address, folder: tempfile::TempDir) -> Self {
        let config = Config {
            listen: vec![address],
            data: Data::Dir(folder.path().join("data")),
            ..Config::default()
        };
        let server = Server::start(config).await.unwrap();
        let url = match &server.addresses()[0] {
            Address::Tcp(address) => format!("lockspan://{address}"),
            Address::Unix(path) => format!("unix://{}", path.display()),
        };
        Self::ours(url, Running::Server(server, folder))
    }

    fn ours(url: String, running: Running) -> Self {
        Self { url, caches: true, finds_deadlocks: true, _running: running }
    }

    /// A Redis on a free port.
    pub(crate) async fn redis() -> Self {
        let redis = Redis::start(&[]).await;
        let (url, _running) = (redis.url(), Running::Redis(redis));
        Self { url, caches: false, finds_deadlocks: false, _running }
    }

    /// The same, and nodes keep what they have until another wants it.
    pub(crate) async fn redis_cached() -> Self {
        let redis = Self::redis().await;
        Self { url: format!("{}?caching", redis.url), caches: true, ..redis }
    }
}
