//! `cargo xtask tour`: every command block of the front pages, run as a reader runs it.
//!
//! `page.rs` says how a page names its terminals and keys. A block is run as it stands, with these
//! differences, all in [`Changes`]:
//!
//! - other ports than 7420 and 7421, so that a server that runs here is left alone;
//! - no `--release`, and `target/debug` for `target/release`: what it does is the same, and the
//!   tests need no second build of everything;
//! - a home and a data directory of the page alone;
//! - a `cargo` that starts what the tests have built (`cargo.rs`);
//! - a `python3` with the packages of the tests and ours.
//!
//! What is printed must be what the page says. A block that prints something else, fails, or goes
//! on where it should end fails the tour; so does a block that nobody knows how to run.

mod cargo;
mod page;
mod prints;
mod terminal;

use std::collections::BTreeMap;
use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;
use std::process::ExitCode;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};

use crate::args::Args;
use crate::built;
use crate::package;
use crate::workspace::Workspace;
use page::{Block, Press, Step, What};
use terminal::{Desk, Terminal};

/// The pages, and how many blocks of commands each has at least: a page that loses them all to
/// another spelling is noticed.
const PAGES: [(&str, usize); 3] =
    [("README.md", 9), ("docs/choosing.md", 1), ("docs/operating.md", 4)];

/// For what changes by itself: how long it is looked at.
const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) fn main(workspace: &Workspace, args: Args) -> Result<ExitCode> {
    let only = args.at_most_one()?;
    println!("{}", check(workspace, only.as_deref())?);
    Ok(ExitCode::SUCCESS)
}

/// Runs the pages whose names contain `only`; says what was run.
pub(crate) fn check(workspace: &Workspace, only: Option<&str>) -> Result<String> {
    built::build(workspace)?;
    package::python_for_tests(workspace)?;
    let mut done = Vec::new();
    for (path, least) in PAGES {
        if only.is_none_or(|only| path.contains(only)) {
            let blocks = tour(workspace, path)?;
            ensure!(blocks >= least, "{path} has {blocks} blocks of commands, not {least}");
            done.push(format!("{path} {blocks}"));
        }
    }
    ensure!(!done.is_empty(), "no page is called so");
    Ok(format!("blocks of commands that were run: {}", done.join(", ")))
}

/// What is different from the page while it is run, and back again in what is printed.
struct Changes(Vec<(String, String)>);

impl Changes {
    fn new(workspace: &Workspace, [service, http]: [String; 2]) -> Self {
        let debug = workspace.target.join("debug").display().to_string();
        Self(vec![
            ("7420".to_owned(), service),
            ("7421".to_owned(), http),
            ("$PWD/target/release".to_owned(), debug),
            ("cargo run --release".to_owned(), "cargo run".to_owned()),
        ])
    }

    fn to_run(&self, text: &str) -> String {
        self.0.iter().fold(text.to_owned(), |text, (page, here)| text.replace(page, here))
    }

    fn as_printed(&self, text: &str) -> String {
        self.0[..2].iter().fold(text.to_owned(), |text, (page, here)| text.replace(here, page))
    }
}

/// Two ports that nobody listens on, below those that the system gives to whoever asks for any.
fn free_ports() -> Result<[String; 2]> {
    let first = 20_000 + std::process::id() % 6_000 * 2;
    let is_free = |port: u32| {
        u16::try_from(port).is_ok_and(|port| TcpListener::bind(("127.0.0.1", port)).is_ok())
    };
    let pairs = (first..32_000).step_by(2);
    let mut pairs = pairs.filter(|&port| is_free(port) && is_free(port + 1));
    let port = pairs.next().context("there is no free port")?;
    Ok([port.to_string(), (port + 1).to_string()])
}

/// Runs one page; how many blocks of commands it has.
fn tour(workspace: &Workspace, path: &str) -> Result<usize> {
    let text = fs::read_to_string(workspace.root.join(path)).with_context(|| path.to_owned())?;
    let steps = page::read(&text).with_context(|| path.to_owned())?;
    let scratch = workspace.target.join("tour").join(path.replace('/', "-"));
    let _ = fs::remove_dir_all(&scratch);
    for folder in ["bin", "home", "tmp", "state", "run"] {
        fs::create_dir_all(scratch.join(folder)).context("the directory of the tour")?;
    }
    let python = format!("#!/bin/sh\nexec '{}' \"$@\"\n", workspace.python().display());
    for (name, script) in [("cargo", cargo::stand_in(workspace)?), ("python3", python)] {
        let stand_in = scratch.join("bin").join(name);
        fs::write(&stand_in, script)?;
        fs::set_permissions(&stand_in, fs::Permissions::from_mode(0o755))?;
    }
    let ports = free_ports()?;
    let mut tour = Tour {
        changes: Changes::new(workspace, ports.clone()),
        desk: Desk { root: workspace.root.clone(), scratch, ports },
        terminals: BTreeMap::new(),
        printed: None,
    };
    let mut blocks = 0;
    for (at, step) in steps.iter().enumerate() {
        let told = match steps.get(at + 1) {
            Some(Step { what: What::Prints(text), .. }) => Some(text.as_str()),
            _ => None,
        };
        blocks += usize::from(matches!(step.what, What::Run(_)));
        tour.step(&step.what, told).with_context(|| format!("{path}:{}", step.line))?;
    }
    Ok(blocks)
}

struct Tour {
    desk: Desk,
    changes: Changes,
    terminals: BTreeMap<u8, Terminal>,
    /// What came after the last key, until it is compared.
    printed: Option<String>,
}

impl Tour {
    /// Does one thing of the page; `told` is what the page says that it prints.
    fn step(&mut self, what: &What, told: Option<&str>) -> Result<()> {
        match what {
            What::Run(block) => {
                self.printed = None;
                self.run(block, told)
            }
            What::Press(press) => self.press(press),
            What::Prints(text) => match self.printed.take() {
                Some(printed) => {
                    let printed = self.changes.as_printed(&printed);
                    ensure!(prints::whole(text, &printed), "this was printed:\n{printed}");
                    Ok(())
                }
                // Compared when it was run.
                None => Ok(()),
            },
        }
    }

    fn run(&mut self, block: &Block, told: Option<&str>) -> Result<()> {
        let script = self.changes.to_run(&block.script);
        for &number in &block.terminals {
            println!("  {number}> {}", block.script.trim_end().replace('\n', "\n  > "));
            let end = Instant::now() + PATIENCE;
            loop {
                let terminal =
                    self.terminals.entry(number).or_insert_with(|| Terminal::new(number));
                terminal.start(&self.desk, &script, block.tty)?;
                if block.stays {
                    let changes = &self.changes;
                    let has_said = |text: &str| {
                        told.is_none_or(|told| prints::among(told, &changes.as_printed(text)))
                    };
                    terminal.until(has_said)?;
                    break;
                }
                let (status, printed) = terminal.end()?;
                let printed = self.changes.as_printed(&printed);
                let as_told = prints::whole(told.unwrap_or_default(), &printed);
                if as_told && status.success() {
                    break;
                }
                if !block.look || Instant::now() > end {
                    bail!(
                        "{status}; this was printed, which is not what the page says:\n{printed}"
                    );
                }
                thread::sleep(Duration::from_millis(20));
            }
        }
        Ok(())
    }

    fn press(&mut self, press: &Press) -> Result<()> {
        println!("  {}> ({:?})", press.terminal, press.key);
        let terminal = self.terminals.get_mut(&press.terminal).filter(|there| there.is_busy());
        let terminal = terminal.context("nothing runs in that terminal")?;
        if let Some(once) = &press.once {
            terminal.until(|text| text.contains(once.as_str()))?;
        }
        terminal.press(press.key)?;
        let (status, printed) = terminal.end()?;
        ensure!(status.success(), "{status}; it printed\n{printed}");
        self.printed = Some(printed);
        Ok(())
    }
}
