//! The command line.

use std::path::PathBuf;
use std::time::Duration;

/// What `--help` prints.
pub(crate) const HELP: &str = "\
Measures Lockspan's locks beside their peers.

Usage: cargo run --release -p lockspan-benches -- [OPTIONS]

Options:
  --filter F,G    only comparisons whose path has a part beginning with F or G; paths are
                  uncontended/read, contended/64t/10%, starvation/reader-among-8-writers,
                  memory/size
                  (so: --filter contended, --filter 64t, --filter contended/8t/50%)
  --locks A,B     only these locks; a name may end in *
  --rounds N      rounds of every comparison (uncontended and contended 5, starvation 10)
  --seconds S     length of one sample (contended 0.3, starvation 1)
  --record NAME   write the result folder results/<date>-NAME beside this program's source
  --out DIR       write the result folder DIR
  --redraw DIR    draw the plots of the result folder DIR anew, from its rows; measure nothing
  --smoke         every comparison once and very short; its numbers mean nothing
  --list          print the names of the locks
  --help          print this
";

/// What the command line asks for.
#[derive(Default)]
pub(crate) struct Args {
    pub(crate) smoke: bool,
    pub(crate) list: bool,
    pub(crate) help: bool,
    pub(crate) locks: Vec<String>,
    pub(crate) out: Option<PathBuf>,
    pub(crate) record: Option<String>,
    pub(crate) redraw: Option<PathBuf>,
    filter: Vec<String>,
    rounds: Option<u32>,
    seconds: Option<f64>,
}

impl Args {
    pub(crate) fn parse(mut words: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut args = Self::default();
        while let Some(word) = words.next() {
            let mut value = || words.next().ok_or_else(|| format!("{word} needs a value"));
            match word.as_str() {
                "--smoke" => args.smoke = true,
                "--list" => args.list = true,
                "--help" | "-h" => args.help = true,
                "--locks" => args.locks = list(&value()?),
                "--filter" => args.filter = list(&value()?),
                "--out" => args.out = Some(value()?.into()),
                "--redraw" => args.redraw = Some(value()?.into()),
                "--record" => args.record = Some(value()?),
                "--rounds" => args.rounds = Some(number(&word, &value()?)?),
                "--seconds" => args.seconds = Some(number(&word, &value()?)?),
                // `cargo bench` says so.
                "--bench" => {}
                _ => return Err(format!("unknown option '{word}'; try --help")),
            }
        }
        if args.rounds == Some(0) || args.seconds.is_some_and(|s| !(s > 0.0 && s < 1e4)) {
            return Err("--rounds and --seconds must be more than 0".to_owned());
        }
        Ok(args)
    }

    /// Whether the comparison `family/cell` is wanted.
    pub(crate) fn wants(&self, family: &str, cell: &str) -> bool {
        let path = format!("/{family}/{cell}");
        self.filter.is_empty() || self.filter.iter().any(|part| path.contains(&format!("/{part}")))
    }

    /// Rounds of a comparison that has `default` of them.
    pub(crate) fn rounds(&self, default: u32) -> u32 {
        self.rounds.unwrap_or(if self.smoke { 1 } else { default })
    }

    /// Length of a sample that lasts `default` seconds, or `smoke` in a smoke run.
    pub(crate) fn seconds(&self, default: f64, smoke: f64) -> Duration {
        let seconds = self.seconds.unwrap_or(if self.smoke { smoke } else { default });
        Duration::from_secs_f64(seconds)
    }
}

fn list(value: &str) -> Vec<String> {
    value.split(',').map(|part| part.trim().to_owned()).filter(|part| !part.is_empty()).collect()
}

fn number<T: std::str::FromStr>(option: &str, value: &str) -> Result<T, String> {
    value.parse().map_err(|_| format!("{option}: '{value}' is no such number"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Args, String> {
        Args::parse(line.split_whitespace().map(str::to_owned))
    }

    #[test]
    fn a_filter_matches_from_the_start_of_a_part() {
        let check = |filter: &str, path: (&str, &str)| {
            parse(&format!("--filter {filter}")).unwrap().wants(path.0, path.1)
        };
        assert!(check("contended", ("contended", "8t/1%")));
        assert!(!check("contended", ("uncontended", "read")));
        assert!(check("8t", ("contended", "8t/1%")));
        assert!(check("64t/10", ("contended", "64t/100%")));
        assert!(!check("64t/1%", ("contended", "64t/10%")));
        assert!(check("memory,starv", ("starvation", "reader-among-8-writers")));
    }

    #[test]
    fn wrong_words_are_refused() {
        for line in ["--rounds x", "--rounds 0", "--seconds -1", "--locks", "--what"] {
            assert!(parse(line).is_err(), "{line}");
        }
    }
}
