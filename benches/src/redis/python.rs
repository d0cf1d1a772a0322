//! redis-py's Lock, in a Python of its own.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use crate::process::Process;
use crate::say;

fn python() -> PathBuf {
    let named = std::env::var_os("LOCKSPAN_PYTHON").map(PathBuf::from);
    named.unwrap_or_else(|| {
        let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../target/tools/python/bin/python");
        PathBuf::from(root)
    })
}

fn read(command: &mut Command) -> Result<String, String> {
    let output = command.output().map_err(|why| format!("{}: {why}", python().display()))?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).trim().to_owned());
    }
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// Which redis-py there is, or that there is none.
pub(crate) fn version() -> String {
    let version =
        read(Command::new(python()).args(["-c", "import redis; print(redis.__version__)"]));
    version.unwrap_or_else(|_| "is not installed".to_owned())
}

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
