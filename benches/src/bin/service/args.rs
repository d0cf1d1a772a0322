//! The command line.

use std::path::PathBuf;
use std::time::Duration;

/// What `--help` prints.
pub(crate) const HELP: &str = "\
Measures the lock service beside its peers.

Usage: cargo run --release -p lockspan-benches --bin service -- [OPTIONS]

Options:
  --cells A,B      only these: cached, uncached, load, handover, shared, many, connections, command
  --rounds N       rounds of every comparison
  --seconds S      length of one sample
  --lockspan PATH  the binary whose `lockspan run` is measured; without it, that cell is not
  --out FILE       write the tables there as well
  --smoke          everything once and very short; its numbers mean nothing
  --help           print this
";

/// What the command line asks for.
pub(crate) enum Job {
    Help,
    /// This process is a part of a measurement: see `child`.
    Child(Vec<String>),
    Measure(Args),
}

/// How to measure.
#[derive(Default)]
pub(crate) struct Args {
    pub(crate) smoke: bool,
    pub(crate) cells: Vec<String>,
    pub(crate) lockspan: Option<PathBuf>,
    pub(crate) out: Option<PathBuf>,
    rounds: Option<usize>,
    seconds: Option<f64>,
}

impl Job {
    pub(crate) fn parse(words: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut args = Args::default();
        let mut words = words.peekable();
        if words.next_if(|word| word == crate::child::FLAG).is_some() {
            return Ok(Self::Child(words.collect()));
        }
        while let Some(word) = words.next() {
            let mut value = || words.next().ok_or_else(|| format!("{word} needs a value"));
            match word.as_str() {
                "--smoke" => args.smoke = true,
                "--help" | "-h" => return Ok(Self::Help),
                "--cells" => args.cells = value()?.split(',').map(str::to_owned).collect(),
                "--lockspan" => args.lockspan = Some(value()?.into()),
                "--out" => args.out = Some(value()?.into()),
                "--rounds" => args.rounds = Some(number(&word, &value()?)?),
                "--seconds" => args.seconds = Some(number(&word, &value()?)?),
                _ => return Err(format!("unknown option '{word}'; try --help")),
            }
        }
        if args.rounds == Some(0) || args.seconds.is_some_and(|s| !(s > 0.0 && s < 1e4)) {
            return Err("--rounds and --seconds must be more than 0".to_owned());
        }
        Ok(Self::Measure(args))
    }
}

impl Args {
    /// Rounds of a comparison that has `default` of them.
    pub(crate) fn rounds(&self, default: usize) -> usize {
        self.rounds.unwrap_or(if self.smoke { 1 } else { default })
    }

    /// Length of a sample that lasts `default` milliseconds, or very short in a smoke run.
    pub(crate) fn time(&self, default: u64) -> Duration {
        let default = Duration::from_millis(if self.smoke { default.min(20) } else { default });
        self.seconds.map_or(default, Duration::from_secs_f64)
    }

    /// How many there are of something, or few in a smoke run.
    pub(crate) fn count(&self, default: usize, smoke: usize) -> usize {
        if self.smoke { smoke } else { default }
    }
}

fn number<T: std::str::FromStr>(option: &str, value: &str) -> Result<T, String> {
    value.parse().map_err(|_| format!("{option}: '{value}' is no such number"))
}
