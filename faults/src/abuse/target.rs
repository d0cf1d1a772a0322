//! The server that is misused: Lockspan with users and a page, or a Redis to compare with.

use std::net::SocketAddr;
use std::path::Path;
use std::process::Stdio;

use anyhow::{Context as _, Result, ensure};
use tokio::io::{AsyncBufRead, AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, Command};
use tokio::time::timeout;

use super::Who;
use super::raw::Raw;
use crate::process::PATIENCE;

/// A running server. It is killed when this is dropped.
#[derive(Debug)]
pub struct Target {
    child: Child,
    pub(super) kind: Server,
    pub(super) address: SocketAddr,
    /// Where the page is.
    pub(super) http: Option<SocketAddr>,
    _folder: tempfile::TempDir,
}

/// Which program it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Server {
    /// `lockspan serve`.
    Lockspan,
    /// `redis-server`.
    Redis,
}

impl Server {
    /// Its name in a table.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Lockspan => "lockspan",
            Self::Redis => "redis",
        }
    }
}

impl Target {
    /// Starts the binary `lockspan`.
    pub(super) async fn lockspan(binary: &Path) -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let users = folder.path().join("users.toml");
        write_private(&users, &users_file()?)?;
        let mut command = Command::new(binary);
        command.args(["serve", "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0", "--data-dir"]);
        command.arg(folder.path().join("data")).arg("--users").arg(&users);
        command.stdin(Stdio::null()).stderr(Stdio::piped()).kill_on_drop(true);
        let mut child = command.spawn().with_context(|| binary.display().to_string())?;
        let mut log = BufReader::new(child.stderr.take().context("its log is missing")?);
        let address = find(&mut log, "listening on ").await?;
        let http = find(&mut log, "page and metrics on http://").await?;
        // A log that nobody reads is a misuse of its own.
        tokio::spawn(async move { tokio::io::copy(&mut log, &mut tokio::io::sink()).await });
        Ok(Self { child, kind: Server::Lockspan, address, http: Some(http), _folder: folder })
    }

    /// Starts `redis-server`.
    pub(super) async fn redis() -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let port = std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let mut command = Command::new("redis-server");
        command.args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", "", "--dir"]);
        command.arg(folder.path()).stdin(Stdio::null()).stdout(Stdio::null()).kill_on_drop(true);
        let child = command.spawn().context("this comparison needs redis-server")?;
        let address = SocketAddr::from(([127, 0, 0, 1], port));
        let answers = async {
            while Raw::connect(address).await.is_err() {
                tokio::time::sleep(std::time::Duration::from_millis(10)).await;
            }
        };
        timeout(PATIENCE, answers).await.context("redis-server does not answer")?;
        Ok(Self { child, kind: Server::Redis, address, http: None, _folder: folder })
    }

    /// Fails if it has ended.
    pub(super) fn lives(&mut self) -> Result<()> {
        let status = self.child.try_wait()?;
        ensure!(status.is_none(), "the server has ended: {status:?}");
        Ok(())
    }

    /// Bytes of memory that it has in use.
    pub(super) fn memory(&self) -> Result<u64> {
        let id = self.child.id().context("the server has ended")?;
        let status = std::fs::read_to_string(format!("/proc/{id}/status"))?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let line = line.context("the kernel does not tell its memory")?;
        let kilobytes: u64 = line.trim().trim_end_matches("kB").trim().parse()?;
        Ok(kilobytes << 10)
    }

    /// A connection, of a user where there are users.
    pub(super) async fn connect(&self, who: Who) -> Result<Raw> {
        match self.kind {
            Server::Lockspan => Raw::login(self.address, who).await,
            Server::Redis => Raw::connect(self.address).await,
        }
    }
}

/// The address behind `words` in a line of the log.
async fn find(log: &mut (impl AsyncBufRead + Unpin), words: &str) -> Result<SocketAddr> {
    let mut seen = String::new();
    let find = async {
        loop {
            let mut line = String::new();
            ensure!(log.read_line(&mut line).await? > 0, "it ended; its log was:\n{seen}");
            if let Some((_, rest)) = line.split_once(words) {
                let end = rest.find(|c: char| !(c.is_ascii_digit() || c == '.' || c == ':'));
                let address = rest[..end.unwrap_or(rest.len())].trim_end_matches([':', '.']);
                return Ok(address.parse()?);
            }
            seen += &line;
        }
    };
    timeout(PATIENCE, find).await.with_context(|| format!("its log does not say {words:?}"))?
}

fn users_file() -> Result<String> {
    let mut text = String::new();
    for who in Who::ALL {
        let hash = lockspan_server::users::hash_password(who.password().as_bytes());
        let hash = hash.map_err(anyhow::Error::msg)?;
        text += &format!("[users.{}]\npassword = \"{hash}\"\n{}\n", who.name(), who.rights());
    }
    Ok(text)
}

fn write_private(path: &Path, text: &str) -> Result<()> {
    use std::io::Write as _;
    use std::os::unix::fs::OpenOptionsExt as _;
    let mut file = std::fs::File::options().create_new(true).write(true).mode(0o600).open(path)?;
    Ok(file.write_all(text.as_bytes())?)
}
