//! Lockspan's house-keeping commands: `cargo xtask help` lists them.
#![forbid(unsafe_code)]

mod args;
mod bench;
mod built;
mod command;
mod cpu;
mod deny;
mod faults;
mod fuzz;
mod models;
mod package;
mod search;
mod semver;
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
      --quick          format, tidy, clippy, unit and integration tests only
      --list           name the steps and say what each one does
  tidy                 what the compiler does not check: edges, unsafe, sizes, front papers
  tour [PAGE]          run every command block of README.md and of the pages beside it
  weaken [FILTER]      weaken each memory ordering in turn and demand that a loom model fails;
                       the outcomes are kept in target/weaken/results
      --resume         try only mutants without an outcome for the sources as they are
      --part K/N       try only the K-th of N parts; the closing table shows all parts
      --limit SECONDS  CPU time of one model of a mutant (defaults to 300)
  search [A..B]        long searches in the lock protocol: worlds A..B (default 0..1000000), the
                       whole small models, many seeds of the fuzzer, the table of bugs, two models
                       of the fair lock and a billion stores; the closing table says what ran
  faults               kill, stop and cut off real servers and nodes, and judge what they did
      --minutes M      for so long (default 3)
      --nodes K        so many nodes (default 4)
      --seed S         with these choices
  fuzz                 send nonsense to the decoder and to a server that runs
      --seeds N        so many streams (default 20000)
      --first S        beginning with this seed
      --coverage [TARGET]  instead: libFuzzer on the targets of fuzz/, guided by coverage
      --seconds N      with --coverage: each target for so long (default 60)
  bench                list the comparisons with other locks
  bench COMPARISON     measure one, on a quiet machine; `--help` after it has its options
  bench all            measure all of them, one after the other, with the same options
      --record NAME    keep the results in benches/results/COMPARISON/<date>-NAME
      --readme         copy the newest recorded table of `threads` into README.md
  package [PART...]    make what others install, try it, and leave it in target/package:
      crates           each crate as for a registry, compiled from its package
      deb              a Debian package
      static           an archive with a binary that needs no library
                       (deb and static with a bill of materials beside them, as CycloneDX JSON)
  semver [CRATE...]    compare public interfaces with an earlier revision; needs cargo-semver-checks
      --base REV       that revision (default: the newest tag v*; needed while there is none)
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
        "fuzz" => fuzz::main(&Workspace::find()?, args),
        "package" => package::main(&Workspace::find()?, args),
        "semver" => semver::main(&Workspace::find()?, args),
        "bench" => bench::main(&Workspace::find()?, args),
        "help" | "--help" | "-h" => {
            print!("{HELP}");
            Ok(ExitCode::SUCCESS)
        }
        _ => anyhow::bail!("there is no such command; `cargo xtask help` lists them"),
    }
}
