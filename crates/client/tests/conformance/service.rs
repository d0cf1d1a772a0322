//! A service of each kind, for one test.

use lockspan_server::{Address, Config, Data, Server};

/// A service that no other test uses. It ends with this.
pub(crate) struct Service {
    pub(crate) url: String,
    _running: Option<(Server, tempfile::TempDir)>,
}

impl Service {
    /// Inside this process.
    pub(crate) fn memory(name: &str) -> Self {
        Self { url: format!("memory:{name}"), _running: None }
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
        Self { url, _running: Some((server, folder)) }
    }
}
