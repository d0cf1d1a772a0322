//! redis-py's Lock, in a Python of its own.

use std::process::Command;
use std::time::Duration;

use crate::interpreter::{python, read};
use crate::process::Process;
use crate::say;

/// What redis-py's Lock came to: as many numbers as the job prints.
pub(crate) fn measure<const N: usize>(
    redis: &Process,
    job: &str,
    time: Duration,
    more: &[String],
) -> Result<[f64; N], String> {
    let (port, time) = (redis.address.port().to_string(), time.as_secs_f64().to_string());
    let mut command = Command::new(python());
    command.args(["-c", include_str!("peers.py"), job, &port, &time]).args(more);
    let said = read(&mut command)?;
    let numbers: Result<Vec<f64>, _> = said.split_whitespace().map(str::parse).collect();
    let numbers = numbers.map_err(say)?;
    numbers.try_into().map_err(|_| format!("redis-py's program said {said}"))
}
