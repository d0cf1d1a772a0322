//! Lockspan's house-keeping commands: `cargo xtask help` lists them.
#![forbid(unsafe_code)]

mod args;
mod bench;
mod command;
mod faults;
mod fuzz;
mod models;
mod package;
mod preload;
mod search;
mod table;
mod test;
mod tidy;
mod tour;
mod weaken;
mod workspace;

use std::process::ExitCode;

use args::Args;
use workspace::Workspace;

const HELP: &str = "\
cargo xtask <command>

  test [STEP...]       the whole test suite, or only the steps named; all of CI
      --list           name the steps and say what each one does
  tidy                 what the compiler does not check: edges, unsafe, sizes, front papers
  tour [PAGE]          run every command block of README.md and of the pages beside it
  weaken [FILTER]      weaken each memory ordering in turn and demand that a loom model fails
      --limit SECONDS  time for one mutant (default 300)
  search [A..B]        long searches in the lock protocol: worlds A..B (default 0..20000), the
                       whole small models, many seeds of the fuzzer, the table of bugs
  faults               kill, stop and cut off real servers and nodes, and judge what they did
      --minutes M      for so long (default 3)
      --nodes K        so many nodes (default 4)
      --seed S         with these choices
  abuse                misuse a real server, and say what an innocent client notices; on Redis too
      --seconds N      each misuse for so long (default 5)
      --only KIND      one of them
  fuzz                 send nonsense to the decoder and to a server that runs
      --seeds N        so many streams (default 20000)
      --first S        beginning with this seed
  bench [FILTER]       compare with other locks; on a quiet machine
  bench progressive    compare the progressive locks instead
  bench revocable      measure the revocable locks and the data of each processor instead
  bench preload        compare the preload library with glibc's locks instead
      --record NAME    keep the results in benches/results/<date>-NAME
                       (results-progressive/<date>-NAME.md, results-revocable/<date>-NAME.md)
      --readme         copy the newest recorded table into README.md
  package [PART...]    make what others install, try it, and leave it in target/package:
      crates           each crate as for a registry, compiled from its package
      deb              a Debian package
      static           an archive with a binary that needs no library
  help                 this text

FILTER is a part of a name. Every command prints what it runs before it runs it.
";

fn main() -> ExitCode {
    let mut words = std::env::args().skip(1);
    let command = words.next().unwrap_or_else(|| "help".to_owned());
    match run(&command, Args::new(words)) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("xtask {command}: {error:#}");
            ExitCode::from(2)
        }
    }
}

fn run(command: &str, args: Args) -> anyhow::Result<ExitCode> {
    match command {
        "test" => test::main(&Workspace::find()?, args),
        "tidy" => tidy::main(&Workspace::find()?, args),
        "tour" => tour::main(&Workspace::find()?, args),
        "weaken" => weaken::main(&Workspace::find()?, args),
        "search" => search::main(&Workspace::find()?, args),
        "faults" => faults::main(&Workspace::find()?, args),
        "abuse" => faults::abuse(&Workspace::find()?, args),
        "fuzz" => fuzz::main(&Workspace::find()?, args),
        "package" => package::main(&Workspace::find()?, args),
        "bench" => bench::main(&Workspace::find()?, args),
        "help" | "--help" | "-h" => {
            print!("{HELP}");
            Ok(ExitCode::SUCCESS)
        }
        _ => anyhow::bail!("there is no such command; `cargo xtask help` lists them"),
    }
}
