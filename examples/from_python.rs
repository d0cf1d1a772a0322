//! Starts a server and runs `from_python.py` against it, which uses redis-py and nothing else.
//!
//! Run: `pip install redis`, then `cargo run -p lockspan-examples --bin from_python`
//!
//! Set `LOCKSPAN_PYTHON` to use another interpreter than `python3`, such as that of a virtual
//! environment.
#![forbid(unsafe_code)]

use std::error::Error;
use std::path::Path;

use lockspan_server::{Address, Config, Data, Server};
use tokio::process::Command;

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() -> Result<(), Box<dyn Error>> {
    let config = Config {
        listen: vec!["127.0.0.1:0".parse()?],
        data: Data::None { fresh: true },
        ..Config::default()
    };
    let server = Server::start(config).await?;
    let Address::Tcp(address) = &server.addresses()[0] else { return Err("not TCP".into()) };
    let python = std::env::var_os("LOCKSPAN_PYTHON").unwrap_or_else(|| "python3".into());
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("from_python.py");
    let ended = Command::new(python).arg(script).arg(address.port().to_string()).status().await?;
    if ended.success() { Ok(()) } else { Err(format!("the script ended with {ended}").into()) }
}
