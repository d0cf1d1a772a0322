//! The result folder: how it was made, on what, every row, the summary and the plots.

use std::fs;
use std::path::{Path, PathBuf};

use crate::args::Args;
use crate::machine;
use crate::report::results::Results;
use crate::report::{charts, summary};

/// Packages whose versions a reader needs to repeat the run.
const PEERS: [&str; 5] = ["libc", "lock_api", "parking_lot", "parking_lot_core", "tokio"];

/// Where to write, if the command line wants it.
pub(crate) fn path(args: &Args) -> Option<PathBuf> {
    let named = args.record.as_ref().map(|name| {
        let date = machine::output("date", &["-u", "+%F"]);
        Path::new(env!("CARGO_MANIFEST_DIR")).join("results").join(format!("{date}-{name}"))
    });
    args.out.clone().or(named)
}

/// Writes all files of the folder, over older ones if there are any.
pub(crate) fn write(path: &Path, results: &Results, load_before: &str) -> Result<(), String> {
    let put = |name: &str, text: String| {
        let file = path.join(name);
        fs::write(&file, text).map_err(|error| format!("{}: {error}", file.display()))
    };
    fs::create_dir_all(path).map_err(|error| format!("{}: {error}", path.display()))?;
    put("README.md", readme())?;
    put("machine.txt", machine::describe(load_before))?;
    put("raw.csv", results.csv())?;
    put("summary.md", summary::summary(results))?;
    draw(path, results)?;
    println!("written to {}", path.display());
    Ok(())
}

/// Writes the plots.
pub(super) fn draw(path: &Path, results: &Results) -> Result<(), String> {
    for (name, svg) in charts::charts(results) {
        let file = path.join(name);
        fs::write(&file, svg).map_err(|error| format!("{}: {error}", file.display()))?;
    }
    Ok(())
}

fn readme() -> String {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let commit = machine::output("git", &["rev-parse", "--verify", "--short=12", "HEAD"]);
    let changes = match machine::output("git", &["status", "--porcelain"]).is_empty() {
        true => "",
        false => ", with uncommitted changes",
    };
    format!(
        "# A run of the benchmarks\n\n\
         - command: `cargo run --release -p lockspan-benches -- {}`\n\
         - commit: {commit}{changes}\n\
         - compiler: {}\n\
         - ended: {}\n\
         - peers: {}, C library {}\n\n\
         [summary.md](summary.md) has the targets, the rows we lose and all tables; \
         [raw.csv](raw.csv) a row for each lock, cell and round; [machine.txt](machine.txt) the \
         machine.\nTimes are nanoseconds, `foreign` is the share of CPU time that other \
         processes took during the sample.\n",
        words.join(" "),
        machine::output("rustc", &["--version"]),
        machine::output("date", &["-u", "+%F %H:%M UTC"]),
        machine::versions(&PEERS).join(", "),
        machine::output("getconf", &["GNU_LIBC_VERSION"]),
    )
}
