//! The command line.

use std::path::PathBuf;
use std::time::Duration;

/// The first word of a process that is a part of a measurement: see `child`.
pub(crate) const CHILD: &str = "--child";

/// What the command line asks for.
pub(crate) enum Job {
    Help,
    /// The words after [`CHILD`].
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
    /// A file of this name with the date before it, beside the other results.
    pub(crate) record: Option<String>,
    rounds: Option<usize>,
    seconds: Option<f64>,
}

impl Job {
    pub(crate) fn parse(words: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut args = Args::default();
        let mut words = words.peekable();
        if words.next_if(|word| word == CHILD).is_some() {
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
                "--record" => args.record = Some(value()?),
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
    /// Where the tables are written, if they are; results are kept in a folder of this name.
    pub(crate) fn file(&self, results: &str) -> Option<PathBuf> {
        let named = self.record.as_ref().map(|name| {
            let date = std::process::Command::new("date").args(["-u", "+%F"]).output();
            let date = date.map(|date| String::from_utf8_lossy(&date.stdout).trim().to_owned());
            let file = format!("{}-{name}.md", date.unwrap_or_default());
            std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(results).join(file)
        });
        self.out.clone().or(named)
    }

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
