//! What is known and what was pressed: all that the screen shows follows from it. `draw` shows it.

use std::cmp::Reverse;
use std::time::Duration;

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::widgets::TableState;

use super::look::{Counts, News, Seen, Session, Want};
use crate::exit::Failure;
use crate::locks::{Claim, Locked};

/// What is listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tab {
    Records,
    Sessions,
    Waits,
}

/// By what records are in order.
pub(super) const ORDERS: [&str; 5] = ["waiters", "holders", "age", "name", "state"];

/// And sessions.
pub(super) const SESSION_ORDERS: [&str; 4] = ["id", "left", "records", "connections"];

/// The state of the screen.
#[derive(Debug)]
pub(crate) struct Screen {
    pub(super) url: String,
    pub(super) seen: Seen,
    /// Of one second, each.
    pub(super) rates: Rates,
    pub(super) tab: Tab,
    pub(super) order: usize,
    pub(super) reversed: bool,
    /// Of records.
    pattern: String,
    /// Of sessions.
    session_part: String,
    /// What is written while a filter is.
    pub(super) writing: Option<String>,
    pub(super) helps: bool,
    pub(super) paused: bool,
    /// What is chosen has the whole screen, so that nothing of it is cut.
    pub(super) whole: bool,
    over: bool,
    failure: Option<String>,
    pub(super) place: TableState,
    /// Rows that fit.
    pub(super) page: usize,
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Rates {
    pub(super) grants: f64,
    pub(super) revokes: f64,
    pub(super) releases: f64,
}

impl Screen {
    pub(super) fn new(url: String, pattern: Option<String>) -> Self {
        Self {
            url,
            seen: Seen::default(),
            rates: Rates::default(),
            tab: Tab::Records,
            order: 0,
            reversed: false,
            pattern: pattern.unwrap_or_default(),
            session_part: String::new(),
            writing: None,
            helps: false,
            paused: false,
            whole: false,
            over: false,
            failure: None,
            place: TableState::new().with_selected(Some(0)),
            page: 1,
        }
    }

    /// What the service is to be asked for. What has neither `*` nor `?` is a part of a name.
    pub(super) fn want(&self) -> Want {
        let text = &self.pattern;
        let pattern = match text.as_str() {
            "" => None,
            _ if text.contains(['*', '?']) => Some(text.clone()),
            _ => Some(format!("*{text}*")),
        };
        Want { pattern, chosen: self.chosen().map(|record| record.key.clone()) }
    }

    /// The record that is chosen.
    pub(super) fn chosen(&self) -> Option<&Locked> {
        let at = self.place.selected().filter(|_| self.tab == Tab::Records)?;
        self.seen.records.get(at)
    }

    /// The sessions that are shown.
    pub(super) fn sessions(&self) -> Vec<&Session> {
        let part = &self.session_part;
        let is_liked = |it: &&Session| it.id.contains(part) || it.user.contains(part);
        self.seen.sessions.iter().filter(is_liked).collect()
    }

    /// The filter of what is listed.
    pub(super) fn filter(&self) -> &str {
        match self.tab {
            Tab::Records => &self.pattern,
            Tab::Sessions => &self.session_part,
            Tab::Waits => "",
        }
    }

    pub(super) fn is_over(&self) -> bool {
        self.over
    }

    pub(super) fn failed(&mut self) -> Option<String> {
        self.failure.take()
    }

    /// Something new was seen, or nothing can be.
    pub(super) fn take(&mut self, news: Result<News, Failure>) {
        match news {
            Err(failure) => {
                self.failure = Some(failure.text);
                self.over = true;
            }
            // It is asked for by a key.
            Ok(News::History(history)) => self.seen.history = history,
            Ok(_) if self.paused => {}
            Ok(News::All(seen)) => {
                if let (Some(before), Some(now)) = (self.seen.at, seen.at) {
                    self.rates = rates(&self.seen.counts, &seen.counts, now - before);
                }
                self.seen = *seen;
                self.sort();
            }
        }
    }

    fn sort(&mut self) {
        match self.tab {
            Tab::Records => {
                let count = |shown: &[Claim], more| Reverse(shown.len() + more);
                let oldest = |it: &Locked| it.holders.iter().map(|claim| claim.age_ms).max();
                let records = &mut self.seen.records;
                records.sort_by(|one, other| one.name.cmp(&other.name));
                match ORDERS[self.order % ORDERS.len()] {
                    "waiters" => records.sort_by_key(|it| count(&it.waiters, it.more_waiters)),
                    "holders" => records.sort_by_key(|it| count(&it.holders, it.more_holders)),
                    "age" => records.sort_by_key(|it| Reverse(oldest(it))),
                    "state" => records.sort_by(|one, other| one.state.cmp(&other.state)),
                    _ => {}
                }
                if self.reversed {
                    records.reverse();
                }
            }
            Tab::Sessions => {
                let sessions = &mut self.seen.sessions;
                sessions.sort_by_key(|it| it.id.parse::<u64>().unwrap_or(u64::MAX));
                match SESSION_ORDERS[self.order % SESSION_ORDERS.len()] {
                    "left" => sessions.sort_by_key(|it| it.left_ms),
                    "records" => sessions.sort_by_key(|it| Reverse(it.records)),
                    "connections" => sessions.sort_by_key(|it| Reverse(it.connections)),
                    _ => {}
                }
                if self.reversed {
                    sessions.reverse();
                }
            }
            Tab::Waits => {}
        }
        let last = self.rows().saturating_sub(1);
        let at = self.place.selected().unwrap_or(0).min(last);
        self.place.select(Some(at));
    }

    pub(super) fn rows(&self) -> usize {
        match self.tab {
            Tab::Records => self.seen.records.len(),
            Tab::Sessions => self.sessions().len(),
            Tab::Waits => self.waits().len(),
        }
    }

    pub(super) fn press(&mut self, key: KeyEvent) {
        if key.modifiers.contains(KeyModifiers::CONTROL) && key.code == KeyCode::Char('c') {
            self.over = true;
            return;
        }
        if self.writing.is_some() {
            self.write(key.code);
            return;
        }
        if self.helps {
            self.helps = false;
            return;
        }
        match key.code {
            KeyCode::Esc if self.whole => self.whole = false,
            KeyCode::Char('q') | KeyCode::Esc => self.over = true,
            KeyCode::Enter if self.tab != Tab::Waits => self.whole = !self.whole,
            KeyCode::Char('?') => self.helps = true,
            KeyCode::Char('p') => self.paused = !self.paused,
            KeyCode::Char('/') if self.tab != Tab::Waits => {
                self.writing = Some(self.filter().to_owned());
            }
            KeyCode::Char('s') => self.order += 1,
            KeyCode::Char('r') => self.reversed = !self.reversed,
            KeyCode::Tab => self.show(match self.tab {
                Tab::Records => Tab::Sessions,
                Tab::Sessions => Tab::Waits,
                Tab::Waits => Tab::Records,
            }),
            KeyCode::Char('1') => self.show(Tab::Records),
            KeyCode::Char('2') => self.show(Tab::Sessions),
            KeyCode::Char('3') => self.show(Tab::Waits),
            KeyCode::Down | KeyCode::Char('j') => self.step(1),
            KeyCode::Up | KeyCode::Char('k') => self.step(-1),
            KeyCode::PageDown => self.step(self.page.cast_signed()),
            KeyCode::PageUp => self.step(-self.page.cast_signed()),
            KeyCode::Home => self.place.select(Some(0)),
            KeyCode::End => self.place.select(Some(self.rows())),
            _ => return,
        }
        self.sort();
    }

    fn write(&mut self, key: KeyCode) {
        let Some(text) = &mut self.writing else { return };
        match key {
            KeyCode::Enter => {
                let text = self.writing.take().unwrap_or_default();
                match self.tab {
                    Tab::Sessions => self.session_part = text,
                    Tab::Records | Tab::Waits => self.pattern = text,
                }
                self.sort();
            }
            KeyCode::Esc => self.writing = None,
            KeyCode::Backspace => {
                text.pop();
            }
            KeyCode::Char(letter) => text.push(letter),
            _ => {}
        }
    }

    fn show(&mut self, tab: Tab) {
        self.tab = tab;
        self.whole = false;
        self.order = 0;
        self.place.select(Some(0));
    }

    fn step(&mut self, rows: isize) {
        let at = self.place.selected().unwrap_or(0);
        self.place.select(Some(at.saturating_add_signed(rows)));
    }
}

fn rates(before: &Counts, now: &Counts, span: Duration) -> Rates {
    let seconds = span.as_secs_f64().max(0.001);
    let rate = |before: u64, now: u64| now.saturating_sub(before) as f64 / seconds;
    Rates {
        grants: rate(before.grants, now.grants),
        revokes: rate(before.revokes, now.revokes),
        releases: rate(before.releases, now.releases),
    }
}
