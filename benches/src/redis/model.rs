//! The data model's own scripts, as a program would write them that knows nothing else: take the
//! write lock if no client has the record, and release it if it is ours.

use ::redis::aio::MultiplexedConnection;
use ::redis::{Client, Script};

use crate::process::Process;
use crate::say;

const ACQUIRE: &str = "if redis.call('EXISTS', KEYS[1], KEYS[2]) > 0 then return 0 end \
                       redis.call('SET', KEYS[2], ARGV[1]) return 1";
const RELEASE: &str = "if redis.call('GET', KEYS[2]) ~= ARGV[1] then return 0 end \
                       return redis.call('DEL', KEYS[2])";

/// A connection.
#[derive(Clone)]
pub(crate) struct Model {
    connection: MultiplexedConnection,
    acquire: Script,
    release: Script,
}

impl Model {
    pub(crate) async fn connect(redis: &Process) -> Result<Self, String> {
        let client = Client::open(super::url(redis)).map_err(say)?;
        let connection = client.get_multiplexed_async_connection().await.map_err(say)?;
        Ok(Self { connection, acquire: Script::new(ACQUIRE), release: Script::new(RELEASE) })
    }

    /// Whether it has the lock now.
    pub(crate) async fn try_lock(&mut self, name: &str, value: &str) -> Result<bool, String> {
        Self::call(&self.acquire, &mut self.connection, name, value).await
    }

    pub(crate) async fn unlock(&mut self, name: &str, value: &str) -> Result<(), String> {
        match Self::call(&self.release, &mut self.connection, name, value).await? {
            true => Ok(()),
            false => Err("the lock was not ours any more".to_owned()),
        }
    }

    async fn call(
        script: &Script,
        connection: &mut MultiplexedConnection,
        name: &str,
        value: &str,
    ) -> Result<bool, String> {
        let (read, write) = (format!("readlock:{name}"), format!("writelock:{name}"));
        let mut call = script.prepare_invoke();
        call.key(read).key(write).arg(value);
        call.invoke_async(connection).await.map_err(say)
    }
}
