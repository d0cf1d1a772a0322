//! The options that every comparison has.

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Duration;

/// The most threads of a cell in a smoke run.
const SMOKE_THREADS: usize = 12;

/// How to measure, and where the results go.
#[derive(clap::Args, Clone, Debug, Default)]
pub(crate) struct Args {
    /// Measure only the cells whose path has a part that begins with one of these (`contended`,
    /// `64t`, `contended/8t/50%`)
    #[arg(long, alias = "filter", value_name = "A,B", value_delimiter = ',')]
    pub(crate) cells: Vec<String>,
    /// Rounds of every cell, instead of the number that suits each
    #[arg(long, value_name = "N")]
    rounds: Option<NonZeroUsize>,
    /// Length of one sample in seconds, instead of the one that suits each cell
    #[arg(long, value_name = "S", value_parser = seconds)]
    seconds: Option<f64>,
    /// Run every cell once, very short and with few threads: the numbers mean nothing
    #[arg(long)]
    pub(crate) smoke: bool,
    /// Keep the results in `benches/results/<comparison>/<date>-NAME`; NAME says which machine it
    /// was. A busy machine is refused
    #[arg(long, value_name = "NAME", conflicts_with_all = ["smoke", "out"])]
    pub(crate) record: Option<String>,
    /// Write the results to the folder DIR
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// Record although other processes use the machine
    #[arg(long, requires = "record")]
    pub(crate) force: bool,
}

impl Args {
    /// Rounds of a cell that has `default` of them.
    pub(crate) fn rounds(&self, default: usize) -> usize {
        self.rounds.map_or(if self.smoke { 1 } else { default }, NonZeroUsize::get)
    }

    /// Length of a sample that lasts `default` milliseconds, or `smoke` in a smoke run.
    pub(crate) fn millis(&self, default: u64, smoke: u64) -> Duration {
        let default = Duration::from_millis(if self.smoke { smoke } else { default });
        self.seconds.map_or(default, Duration::from_secs_f64)
    }

    /// Length of a sample that lasts `default` milliseconds, 20 at most in a smoke run.
    pub(crate) fn time(&self, default: u64) -> Duration {
        self.millis(default, default.min(20))
    }

    /// Threads of a cell that has `default` of them: few in a smoke run, since each needs its turn
    /// on a processor before a sample begins.
    pub(crate) fn threads(&self, default: usize) -> usize {
        if self.smoke { default.min(SMOKE_THREADS) } else { default }
    }

    /// How many there are of something, or few in a smoke run.
    pub(crate) fn count(&self, default: usize, smoke: usize) -> usize {
        if self.smoke { smoke } else { default }
    }
}

fn seconds(value: &str) -> Result<f64, String> {
    match value.parse() {
        Ok(seconds) if seconds > 0.0 && seconds < 1e4 => Ok(seconds),
        _ => Err("must be a number of seconds above 0".to_owned()),
    }
}
