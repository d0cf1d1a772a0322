//! A server in this process and a bad network before each of its nodes, for tests.

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use lockspan::{Locks, Options};
use lockspan_protocol::Limits;
use lockspan_server::{Address, Config, Data, Server, StartError, Stats};
use tokio::time::{sleep, timeout};

use crate::process::PATIENCE;
use crate::proxy::{Proxy, Weather};

/// What happens before the deadline; what does not has failed.
///
/// # Panics
///
/// Past the deadline.
pub async fn soon<T>(what: &str, future: impl Future<Output = T>) -> T {
    match timeout(PATIENCE, future).await {
        Ok(done) => done,
        Err(_) => panic!("not within {PATIENCE:?}: {what}"),
    }
}

/// Waits until it is so.
///
/// # Panics
///
/// If it takes too long.
pub async fn until(what: &str, is_so: impl Fn() -> bool) {
    let wait = async {
        while !is_so() {
            sleep(Duration::from_millis(2)).await;
        }
    };
    soon(what, wait).await;
}

/// A server on a free port, with a data directory, that can be killed and started again.
#[derive(Debug)]
pub struct Stage {
    server: Option<Server>,
    address: SocketAddr,
    config: Config,
    _folder: tempfile::TempDir,
}

impl Stage {
    /// With the usual limits, but revokes are repeated soon.
    pub async fn new() -> Self {
        let resend = Duration::from_millis(100);
        Self::with(Limits { resend, ..Config::default().protocol }).await
    }

    /// With these limits.
    pub async fn with(protocol: Limits) -> Self {
        Self::with_config(Config { protocol, ..Config::default() }).await
    }

    /// As told, but on a free port and with a data directory of its own.
    ///
    /// # Panics
    ///
    /// If it can't be started: there is nothing to test then.
    pub async fn with_config(config: Config) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let listen = vec!["127.0.0.1:0".parse().expect("an address")];
        let data = Data::Dir(PathBuf::from(folder.path()).join("data"));
        let mut config = Config { listen, data, ..config };
        let server = Server::start(config.clone()).await.expect("the server starts");
        let Address::Tcp(address) = server.addresses()[0].clone() else { panic!("no TCP") };
        config.listen = vec![Address::Tcp(address)];
        Self { server: Some(server), address, config, _folder: folder }
    }

    /// Kills the server: no word to anybody, and nothing is written any more.
    pub fn kill(&mut self) {
        drop(self.server.take());
    }

    /// Starts it again, on the same port and folder.
    ///
    /// # Panics
    ///
    /// If it can't be started.
    pub async fn restart(&mut self) {
        self.kill();
        let again = async {
            loop {
                match Server::start(self.config.clone()).await {
                    // The port is free when the runtime has ended the tasks of the old one.
                    Err(StartError::Listen { why, .. }) if why.kind() == ErrorKind::AddrInUse => {
                        sleep(Duration::from_millis(1)).await;
                    }
                    started => return started.expect("the server starts again"),
                }
            }
        };
        self.server = Some(soon("the port is free", again).await);
    }

    /// What the server has done and has.
    ///
    /// # Panics
    ///
    /// If it was killed.
    #[must_use]
    pub fn stats(&self) -> Stats {
        self.server.as_ref().expect("it runs").stats()
    }

    /// How to reach it without a proxy.
    #[must_use]
    pub fn url(&self) -> String {
        format!("lockspan://{}", self.address)
    }

    /// A node that is connected directly.
    ///
    /// # Panics
    ///
    /// If it can't be connected.
    pub async fn node(&self, options: Options) -> Locks {
        soon("connected", options.connect(&self.url())).await.expect("connected")
    }

    /// A bad network before the server.
    ///
    /// # Panics
    ///
    /// If there is no free port.
    pub async fn network(&self, seed: u64) -> Proxy {
        Proxy::start(self.address, seed).await.expect("a free port")
    }

    /// A node behind a network of its own, in this weather.
    ///
    /// # Panics
    ///
    /// If it can't be connected.
    pub async fn node_behind(
        &self,
        options: Options,
        weather: Weather,
        seed: u64,
    ) -> (Locks, Proxy) {
        let proxy = self.network(seed).await;
        proxy.set_weather(weather);
        let locks = soon("connected", options.connect(&proxy.url())).await.expect("connected");
        (locks, proxy)
    }
}
