//! What Redis itself counts.

use ::redis::aio::MultiplexedConnection;
use ::redis::{Client, cmd};

use crate::process::Process;
use crate::say;

/// Calls of scripts so far, and the microseconds that they took inside Redis.
#[derive(Clone, Copy, Default)]
pub(crate) struct Scripts {
    pub(crate) calls: f64,
    pub(crate) micros: f64,
}

/// A connection to look through.
pub(crate) async fn connect(redis: &Process) -> Result<MultiplexedConnection, String> {
    let client = Client::open(super::url(redis)).map_err(say)?;
    client.get_multiplexed_async_connection().await.map_err(say)
}

/// `cmdstat_evalsha:calls=12,usec=345,usec_per_call=28.75,…`
pub(crate) async fn scripts(connection: &mut MultiplexedConnection) -> Result<Scripts, String> {
    let info = cmd("INFO").arg("commandstats").to_owned();
    let text: String = info.query_async(connection).await.map_err(say)?;
    let mut scripts = Scripts::default();
    for line in text.lines().filter(|line| line.starts_with("cmdstat_eval")) {
        let number = |name: &str| {
            let fields = line.split([':', ',']);
            let field = fields.filter_map(|field| field.strip_prefix(name)).next();
            field.and_then(|number| number.parse::<f64>().ok()).unwrap_or(0.0)
        };
        scripts.calls += number("calls=");
        scripts.micros += number("usec=");
    }
    Ok(scripts)
}
