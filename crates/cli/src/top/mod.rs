//! `lockspan top`: what is locked, live, in a terminal.
//!
//! One thread asks the service, [`look`]; this one reads keys and draws. [`screen`] and [`draw`]
//! are all that is seen, as a function of what is known and was pressed: it can be tried without
//! a terminal.

mod draw;
mod look;
mod screen;
#[cfg(test)]
mod tests;

use std::io::IsTerminal as _;
use std::process::ExitCode;
use std::time::Duration;

use ratatui::crossterm::event::{self, Event, KeyEventKind};

use crate::args::TopArgs;
use crate::exit::{Failure, SYSTEM, UNAVAILABLE, USAGE};
use crate::explain;
use crate::resp::Connection;
use crate::service;
use look::Looker;
use screen::Screen;

/// How long a key is waited for before the screen is drawn again.
const GLANCE: Duration = Duration::from_millis(100);

/// Shows it until somebody has seen enough.
pub(crate) fn main(args: &TopArgs) -> Result<ExitCode, Failure> {
    if !std::io::stdout().is_terminal() {
        let text = "top needs a terminal; to write to a file or a pipe, use: lockspan locks";
        return Err(Failure::new(USAGE, text));
    }
    if explain::is_redis(&args.service.url) {
        return Err(explain::not_on_redis("top", &args.service.url));
    }
    let connection = Connection::open(&args.service.url)?.ok_or_else(|| {
        Failure::new(UNAVAILABLE, "no service runs for local:, so nothing is locked")
    })?;
    let mut screen = Screen::new(service::name(&args.service.url), args.pattern.clone());
    let looker = Looker::start(connection, &args.service.url, args.every, screen.want());
    let mut terminal = ratatui::try_init()
        .map_err(|bad| Failure::new(SYSTEM, format!("can't use the terminal: {bad}")))?;
    let done = run(&mut terminal, &mut screen, &looker);
    ratatui::restore();
    done.map_err(|bad| Failure::new(SYSTEM, format!("can't use the terminal: {bad}")))?;
    match screen.failed() {
        Some(failure) => Err(failure),
        None => Ok(ExitCode::SUCCESS),
    }
}

fn run(
    terminal: &mut ratatui::DefaultTerminal,
    screen: &mut Screen,
    looker: &Looker,
) -> std::io::Result<()> {
    while !screen.is_over() {
        while let Some(news) = looker.seen() {
            screen.take(news);
            looker.want(screen.want());
        }
        terminal.draw(|frame| screen.draw(frame))?;
        if event::poll(GLANCE)?
            && let Event::Key(key) = event::read()?
            && key.kind == KeyEventKind::Press
        {
            screen.press(key);
            looker.want(screen.want());
        }
    }
    Ok(())
}
