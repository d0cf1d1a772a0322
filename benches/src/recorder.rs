//! Writes a folder of results: how they were made, on what machine, every row, the summary and the
//! plots. Every comparison has the same files.
//!
//! Figures of a busy machine mislead, so `--record` refuses one: before the run, and after it if
//! other processes took too much of the CPU time meanwhile.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::args::Args;
use crate::comparison::View;
use crate::load::{LIMIT, Load};
use crate::machine;
use crate::plot::{self, Plot};
use crate::report::Report;
use crate::results::Results;

/// How long the machine is watched before a run that is recorded.
const WATCH: Duration = Duration::from_secs(3);

/// Where a run is written, and what other processes do during it.
pub(crate) struct Recorder {
    comparison: &'static str,
    folder: Option<PathBuf>,
    /// Where results go that are not good enough to be recorded.
    spare: PathBuf,
    /// Whether a busy machine is refused.
    refuses: bool,
    is_forced: bool,
    /// The others' share of the CPU time before the run, if it was watched.
    before: Option<f64>,
    during: Load,
}

impl Recorder {
    /// Fails if the run is to be recorded and the machine is busy, or the folder exists.
    pub(crate) fn begin(comparison: &'static str, args: &Args) -> Result<Self, String> {
        let mut before = None;
        if let Some(name) = &args.record {
            if cfg!(debug_assertions) {
                return Err(
                    "this build is not optimised: record with `cargo xtask bench`".to_owned()
                );
            }
            let folder = recorded(comparison, name);
            if folder.exists() {
                return Err(format!("{} exists: choose another name", folder.display()));
            }
            let share = Load::watch(WATCH);
            eprintln!("other processes take {} of the CPU time", percent(share));
            if is_busy(share) && !args.force {
                return Err(busy("take", share));
            }
            before = Some(share);
        }
        Ok(Self {
            comparison,
            spare: crate::target_folder()?.join("bench").join(comparison),
            folder: args
                .record
                .as_ref()
                .map(|name| recorded(comparison, name))
                .or_else(|| args.out.clone()),
            refuses: args.record.is_some() && !args.force,
            is_forced: args.force,
            before,
            during: Load::start(),
        })
    }

    /// Writes the folder, if there is to be one.
    pub(crate) fn finish(
        self,
        report: &Report,
        packages: &[&str],
        view: View,
    ) -> Result<(), String> {
        let share = self.during.others();
        self.write(share, report, packages, view)
    }

    /// Writes the folder; others had this share of the CPU time during the run.
    fn write(
        &self,
        share: f64,
        report: &Report,
        packages: &[&str],
        view: View,
    ) -> Result<(), String> {
        let Some(folder) = &self.folder else { return Ok(()) };
        let is_refused = self.refuses && is_busy(share);
        let folder = if is_refused { &self.spare } else { folder };
        let summary = (view.summary)(report);
        let plots = plots(&summary, report.results(), view);
        fs::create_dir_all(folder).map_err(|why| format!("{}: {why}", folder.display()))?;
        write(folder, "README.md", &readme(self.comparison, packages, &plots))?;
        write(folder, "machine.txt", &machine::describe(&self.busy(share)))?;
        write(folder, "raw.csv", &report.results().csv())?;
        write(folder, "summary.md", &summary)?;
        draw(folder, &plots)?;
        if is_refused {
            let why = busy("took", share);
            return Err(format!("not recorded, but written to {}: {why}", folder.display()));
        }
        println!("written to {}", folder.display());
        Ok(())
    }

    /// The lines of `machine.txt` about other processes.
    fn busy(&self, during: f64) -> String {
        let before = match self.before {
            Some(share) => format!("{} over {} s", percent(share), WATCH.as_secs()),
            None => "not watched".to_owned(),
        };
        let forced = if self.is_forced { "; recorded with --force" } else { "" };
        format!(
            "CPU time of other processes before the run: {before}\n\
             CPU time of other processes during the run: {} over {:.0} s (limit {}{forced})\n",
            percent(during),
            self.during.elapsed().as_secs_f64(),
            percent(LIMIT),
        )
    }
}

/// Draws the plots of a folder of results again, from its summary and its rows.
pub(crate) fn redraw(folder: &Path, view: View) -> Result<(), String> {
    let read = |name: &str| {
        let path = folder.join(name);
        fs::read_to_string(&path).map_err(|why| format!("{}: {why}", path.display()))
    };
    let results = match folder.join("raw.csv").is_file() {
        true => Results::from_csv(&read("raw.csv")?)?,
        // Old results have tables alone.
        false => Results::default(),
    };
    let plots = plots(&read("summary.md")?, &results, view);
    draw(folder, &plots)?;
    plots.iter().for_each(|plot| println!("{}", folder.join(&plot.file).display()));
    Ok(())
}

fn plots(summary: &str, results: &Results, view: View) -> Vec<Plot> {
    let mut plots = (view.plots)(results);
    plots.extend(plot::ratios::plots(summary));
    plots
}

fn draw(folder: &Path, plots: &[Plot]) -> Result<(), String> {
    plots.iter().try_for_each(|plot| write(folder, &plot.file, &plot.svg))
}

fn write(folder: &Path, name: &str, text: &str) -> Result<(), String> {
    let path = folder.join(name);
    fs::write(&path, text).map_err(|why| format!("{}: {why}", path.display()))
}

/// The folder of recorded results.
fn recorded(comparison: &str, name: &str) -> PathBuf {
    let date = machine::output("date", &["-u", "+%F"]);
    let results = Path::new(env!("CARGO_MANIFEST_DIR")).join("results");
    results.join(comparison).join(format!("{date}-{name}"))
}

/// Unknown is not busy: there is nothing to compare with.
fn is_busy(share: f64) -> bool {
    share > LIMIT
}

fn busy(take: &str, share: f64) -> String {
    format!(
        "the machine is busy: other processes {take} {} of the CPU time, the limit is {}; record \
         on a quiet machine, or anyway with --force",
        percent(share),
        percent(LIMIT)
    )
}

fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

fn readme(comparison: &str, packages: &[&str], plots: &[Plot]) -> String {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let commit = machine::output("git", &["rev-parse", "--verify", "--short=12", "HEAD"]);
    // Results that were recorded a moment ago change nothing.
    let status = ["status", "--porcelain", "--", ":/", ":(exclude,top)benches/results"];
    let changes = match machine::output("git", &status).is_empty() {
        true => "",
        false => ", with uncommitted changes",
    };
    let mut versions = machine::versions(packages);
    versions.push(machine::output("getconf", &["GNU_LIBC_VERSION"]));
    let mut text = format!(
        "# A run of the comparison `{comparison}`\n\n\
         - command: `cargo xtask bench {}`\n\
         - commit: {commit}{changes}\n\
         - compiler: {}\n\
         - ended: {}\n\
         - versions: {}\n\n\
         [summary.md](summary.md) has the tables, [raw.csv](raw.csv) a row for each contestant, \
         cell and round,\n[machine.txt](machine.txt) the machine and how busy it was. \
         [How to read them](../../../README.md).\n",
        words.join(" "),
        machine::output("rustc", &["--version"]),
        machine::output("date", &["-u", "+%F %H:%M UTC"]),
        versions.join(", "),
    );
    for plot in plots {
        text += &format!("\n![{}]({})\n", plot.title, plot.file);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_above_the_limit_is_busy_and_an_unknown_one_is_not() {
        assert!(is_busy(LIMIT + 0.001));
        assert!(!is_busy(LIMIT) && !is_busy(f64::NAN));
    }

    #[test]
    fn a_folder_has_every_file_and_can_be_drawn_again() {
        let folder = tempfile::tempdir().unwrap();
        let mut args = Args::default();
        args.out = Some(folder.path().to_owned());
        let recorder = Recorder::begin("test", &args).unwrap();
        let mut report = Report::default();
        report.cell("One");
        report.put("| a | 1 ns | 2 ns | 0.50 x | at most 1.00 x | met |");
        recorder.finish(&report, &["clap"], View::TABLES).unwrap();
        let drawn = folder.path().join("ratios.svg");
        for file in ["README.md", "machine.txt", "raw.csv", "summary.md", "ratios.svg"] {
            assert!(folder.path().join(file).is_file(), "{file}");
        }
        let before = fs::read(&drawn).unwrap();
        fs::remove_file(&drawn).unwrap();
        redraw(folder.path(), View::TABLES).unwrap();
        assert_eq!(fs::read(&drawn).unwrap(), before);
    }

    #[test]
    fn a_run_on_a_busy_machine_is_not_recorded_unless_forced() {
        let temporary = tempfile::tempdir().unwrap();
        let [folder, spare] = ["folder", "spare"].map(|name| temporary.path().join(name));
        let recorder = |is_forced: bool| Recorder {
            comparison: "test",
            folder: Some(folder.clone()),
            spare: spare.clone(),
            refuses: !is_forced,
            is_forced,
            before: Some(0.0),
            during: Load::start(),
        };
        let write = |is_forced, share| {
            recorder(is_forced).write(share, &Report::default(), &[], View::TABLES)
        };
        let refused = write(false, 0.25).unwrap_err();
        assert!(refused.contains("took 25.0 % of the CPU time"), "{refused}");
        assert!(!folder.exists() && spare.join("raw.csv").is_file());
        write(true, 0.25).unwrap();
        assert!(folder.join("raw.csv").is_file());
        write(false, 0.01).unwrap();
    }

    #[test]
    fn machine_txt_says_how_busy_it_was() {
        let mut args = Args::default();
        args.force = true;
        let recorder = Recorder::begin("test", &args).unwrap();
        let text = recorder.busy(0.123);
        assert!(
            text.contains("during the run: 12.3 % over 0 s (limit 5.0 %; recorded with --force")
        );
    }
}
