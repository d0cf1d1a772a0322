//! The usual lock on Redis: `SET NX PX` takes it, a script that compares and deletes lets it go.

use std::net::SocketAddr;

use ::redis::aio::MultiplexedConnection;
use ::redis::{Client, cmd};

use crate::say;

const LET_GO: &str = "if redis.call('get',KEYS[1])==ARGV[1] \
                      then return redis.call('del',KEYS[1]) else return 0 end";

/// A connection.
#[derive(Clone)]
pub(crate) struct Redis {
    connection: MultiplexedConnection,
    script: String,
}

impl Redis {
    pub(crate) async fn connect(address: SocketAddr) -> Result<Self, String> {
        let client = Client::open(format!("redis://{address}")).map_err(say)?;
        let mut connection = client.get_multiplexed_async_connection().await.map_err(say)?;
        let load = cmd("SCRIPT").arg("LOAD").arg(LET_GO).to_owned();
        let script = load.query_async(&mut connection).await.map_err(say)?;
        Ok(Self { connection, script })
    }

    pub(crate) async fn ping(&mut self) -> Result<(), String> {
        cmd("PING").query_async(&mut self.connection).await.map_err(say)
    }

    /// Whether it has the lock now.
    pub(crate) async fn try_lock(&mut self, name: &str, value: &str) -> Result<bool, String> {
        let mut set = cmd("SET");
        set.arg(name).arg(value).arg("NX").arg("PX").arg(10_000);
        let said: Option<String> = set.query_async(&mut self.connection).await.map_err(say)?;
        Ok(said.is_some())
    }

    pub(crate) async fn unlock(&mut self, name: &str, value: &str) -> Result<(), String> {
        let mut run = cmd("EVALSHA");
        run.arg(&self.script).arg(1).arg(name).arg(value);
        let gone: u32 = run.query_async(&mut self.connection).await.map_err(say)?;
        if gone == 1 { Ok(()) } else { Err("the lock on Redis was not ours any more".to_owned()) }
    }
}
