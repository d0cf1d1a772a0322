//! Between nodes and their server: connections that break at any byte.

use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{UnixListener, UnixStream};
use tokio::task::JoinHandle;
use tokio::time::sleep;

use crate::rng::Rng;

/// It ends with this.
pub(crate) struct Proxy {
    path: PathBuf,
    accepting: JoinHandle<()>,
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

impl Proxy {
    pub(crate) fn start(server: &Path, path: PathBuf, mut rng: Rng) -> Self {
        let listener = UnixListener::bind(&path).unwrap();
        let server = server.to_owned();
        let accepting = tokio::spawn(async move {
            loop {
                let (node, _) = listener.accept().await.unwrap();
                let Ok(there) = UnixStream::connect(&server).await else { return };
                tokio::spawn(relay(node, there, rng.split()));
            }
        });
        Self { path, accepting }
    }

    pub(crate) fn url(&self) -> String {
        format!("unix://{}", self.path.display())
    }
}

/// Passes bytes on for a while, and then cuts the connection, perhaps in the middle of a message.
async fn relay(mut node: UnixStream, mut server: UnixStream, mut rng: Rng) {
    // Now and then after the first few messages.
    let time = Duration::from_millis(5 + rng.below(400));
    let mut left = 1000 + rng.below(200_000) as usize;
    let passing = async {
        let (mut said, mut heard) = ([0; 4096], [0; 4096]);
        loop {
            let (count, from_node) = tokio::select! {
                count = node.read(&mut said) => (count, true),
                count = server.read(&mut heard) => (count, false),
            };
            let Ok(count @ 1..) = count else { return };
            let passed = count.min(left);
            left -= passed;
            let written = if from_node {
                server.write_all(&said[..passed]).await
            } else {
                node.write_all(&heard[..passed]).await
            };
            if written.is_err() || left == 0 {
                return;
            }
        }
    };
    tokio::select! {
        () = passing => {}
        () = sleep(time) => {}
    }
}
