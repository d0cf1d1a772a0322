//! The page, line by line: what it shows is what `redis-cli` shows.

use std::time::{Duration, Instant};

use crate::common::PATIENCE;
use crate::names::{Names, first_name};
use crate::page::{self, Block, PROMPT};
use crate::redis_cli::RedisCli;
use crate::server::Server;

/// What was replayed.
#[derive(Debug, Default)]
struct Done {
    consoles: usize,
    commands: usize,
    events: usize,
}

struct Replay {
    cli: RedisCli,
    names: Names,
    /// Pushes that no block has asked for yet.
    pushes: Vec<Vec<String>>,
    /// Pushes that a block has shown. A revoke is sent again until it is answered.
    shown: Vec<Vec<String>>,
    patience: Duration,
    done: Done,
}

/// Replays a page against a fresh server; an error says where it is not true.
fn replay(page: &str, patience: Duration) -> Result<Done, String> {
    let dir = tempfile::tempdir().expect("a directory");
    let server = Server::start(dir.path());
    let cli = RedisCli::connect(server.port());
    let (names, pushes, shown, done) = (Names::default(), Vec::new(), Vec::new(), Done::default());
    let mut replay = Replay { cli, names, pushes, shown, patience, done };
    for block in page::blocks(page) {
        match block.kind.as_str() {
            "console" => replay.console(&block)?,
            "events" => replay.events(&block)?,
            // Other tests have these.
            "js" | "text" => {}
            other => return Err(format!("docs/wire.md:{}: what is {other:?}?", block.line)),
        }
    }
    replay.finish()
}

impl Replay {
    fn console(&mut self, block: &Block) -> Result<(), String> {
        for exchange in block.exchanges() {
            let line = exchange.line;
            let command = self.names.fill(&exchange.command);
            if let Some((_, name, _)) = first_name(&command) {
                return Err(format!("docs/wire.md:{line}: <{name}> was not shown before"));
            }
            let reply = self.ask(&command);
            if !self.names.are(&exchange.reply, &reply) {
                let shown = self.names.fill(&exchange.reply.join("\n"));
                let seen = reply.join("\n");
                return Err(format!(
                    "docs/wire.md:{line}: {command} shows\n{seen}\nand not\n{shown}"
                ));
            }
            self.done.commands += 1;
        }
        self.done.consoles += 1;
        Ok(())
    }

    fn events(&mut self, block: &Block) -> Result<(), String> {
        let end = Instant::now() + self.patience;
        loop {
            let names = &mut self.names;
            if let Some(at) = self.pushes.iter().position(|push| names.are(&block.lines, push)) {
                self.shown.push(self.pushes.remove(at));
                self.done.events += 1;
                return Ok(());
            }
            if Instant::now() > end {
                let expected = self.names.fill(&block.lines.join("\n"));
                let (line, pushes) = (block.line, &self.pushes);
                return Err(format!(
                    "docs/wire.md:{line}: it did not come:\n{expected}\nbut {pushes:?}"
                ));
            }
            // A push is shown with the next reply.
            self.ask("PING");
        }
    }

    fn ask(&mut self, command: &str) -> Vec<String> {
        let reply = self.cli.ask(command);
        self.pushes.extend(self.cli.take_pushes());
        reply
    }

    fn finish(self) -> Result<Done, String> {
        let is_shown = |push: &[String]| self.shown.iter().any(|shown| again(shown) == again(push));
        match self.pushes.iter().find(|push| !is_shown(push)) {
            Some(push) => {
                Err(format!("the page does not tell of this event:\n{}", push.join("\n")))
            }
            None => Ok(self.done),
        }
    }
}

/// A push without the word that says when it was said: a revoke that is sent again has another.
fn again(push: &[String]) -> Vec<&String> {
    let at = match push.get(2) {
        Some(kind) if kind.ends_with("\"revoke\"") => Some(5),
        Some(kind) if kind.ends_with("\"keep\"") => Some(4),
        _ => None,
    };
    push.iter().enumerate().filter(|(line, _)| Some(*line) != at).map(|(_, line)| line).collect()
}

#[test]
fn the_page_is_true_for_redis_cli() {
    let page = page::text();
    let done = replay(&page, PATIENCE).unwrap_or_else(|why| panic!("{why}"));
    let count = |is: &dyn Fn(&str) -> bool| page.lines().filter(|line| is(line)).count();
    assert_eq!(done.consoles, count(&|line| line == "```console"), "every console was replayed");
    assert_eq!(done.events, count(&|line| line == "```events"), "every event has come");
    assert_eq!(done.commands, count(&|line| line.contains(PROMPT)), "no command is elsewhere");
    assert!(done.consoles > 0 && done.events > 0, "{done:?}");
}

#[test]
fn a_page_that_is_not_true_is_found() {
    let page = page::text();
    for (shown, wrong) in [
        // Another reply, one line less, another mode in an event, another session in one.
        ("\nPONG\n", "\nPING\n"),
        ("4# \"handoff\" => \"direct\"\n", ""),
        ("5) \"R\"\n6) \"<t1>\"", "5) \"W\"\n6) \"<t1>\""),
        ("2) \"<bob>\"\n3) \"granted\"", "2) \"<alice>\"\n3) \"granted\""),
        // A name that stands for something else, and one that stands for nothing.
        ("(integer) 30000\n```", "(integer) <alice>\n```"),
        ("LS.KEEP <alice>", "LS.KEEP <nobody>"),
        ("```console", "```consol"),
    ] {
        assert!(page.contains(shown), "the page has changed: {shown:?} is not in it");
        let line = page[..page.find(shown).expect("it is there")].lines().count();
        let changed = page.replacen(shown, wrong, 1);
        // The change is before every other event, so that nothing true is waited for in vain.
        let why = replay(&changed, Duration::from_millis(200)).expect_err(wrong);
        let found = why.strip_prefix("docs/wire.md:").and_then(|at| at.split(':').next());
        let found: usize = found.and_then(|at| at.parse().ok()).unwrap_or_else(|| panic!("{why}"));
        assert!(found.abs_diff(line) < 8, "{wrong:?} at line {line}: {why}");
    }
}
