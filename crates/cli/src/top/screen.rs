//! What is known and what was pressed: all that the screen shows follows from it. `draw` shows it.

use std::cmp::Reverse;
use std::time::{Duration, Instant};

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::widgets::TableState;

use super::look::{Counts, News, Seen, Want};
use crate::exit::Failure;
use crate::filter::{Filter, pattern};
use crate::replies::{Claim, Deadlock, Locked, Session};
use crate::sessions::is_liked;

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
pub(super) const SESSION_ORDERS: [&str; 5] = ["label", "id", "left", "records", "connections"];

/// Bytes of a filter: no name has more.
const FILTER: usize = 512;

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
    /// The filter of each view.
    filters: [String; 3],
    /// While a filter is typed: what it was before.
    typing_from: Option<String>,
    /// The service is away: why, and since when what is shown is old.
    pub(super) away: Option<(String, Option<Instant>)>,
    pub(super) helps: bool,
    pub(super) paused: bool,
    /// What is chosen has the whole screen, so that nothing of it is cut.
    pub(super) whole: bool,
    over: bool,
    failure: Option<Failure>,
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
            filters: [pattern.unwrap_or_default(), String::new(), String::new()],
            typing_from: None,
            away: None,
            helps: false,
            paused: false,
            whole: false,
            over: false,
            failure: None,
            place: TableState::new().with_selected(Some(0)),
            page: 1,
        }
    }

    /// What the service is to be asked for. The filter of the records is for their own view: what a
    /// session has is shown whatever its records are called.
    pub(super) fn want(&self) -> Want {
        let is_shown = self.tab == Tab::Records;
        let pattern = pattern(&self.filters[Tab::Records as usize]).filter(|_| is_shown);
        Want { pattern, chosen: self.chosen().map(|record| record.key.clone()) }
    }

    /// The record that is chosen.
    pub(super) fn chosen(&self) -> Option<&Locked> {
        let at = self.place.selected().filter(|_| self.tab == Tab::Records)?;
        self.records().get(at).copied()
    }

    /// The records that are shown. The service was asked for them by the filter, but perhaps by the
    /// one before the last letter was typed.
    pub(super) fn records(&self) -> Vec<&Locked> {
        let filter = self.filter_of(Tab::Records);
        self.seen.records.iter().filter(|it| filter.fits([&*it.key])).collect()
    }

    /// The sessions that are shown.
    pub(super) fn sessions(&self) -> Vec<&Session> {
        let filter = self.filter_of(Tab::Sessions);
        self.seen.sessions.iter().filter(|it| is_liked(it, &filter)).collect()
    }

    /// The records that are held and wanted, as far as they are shown: the record or one of its
    /// sessions fits.
    pub(super) fn wanted(&self) -> Vec<Locked> {
        let filter = self.filter_of(Tab::Waits);
        let fits = |record: &&Locked| {
            let claims = record.holders.iter().chain(&record.waiters);
            let sessions = claims.flat_map(|it| [it.who.name(), &it.who.id]).map(str::as_bytes);
            filter.fits(sessions.chain([&*record.key]))
        };
        self.seen.waits.records.iter().filter(fits).cloned().collect()
    }

    /// The deadlocks that are shown.
    pub(super) fn deadlocks(&self) -> Vec<&Deadlock> {
        let filter = self.filter_of(Tab::Waits);
        let fits = |it: &&Deadlock| {
            filter.fits([&*it.record.0, it.who.name().as_bytes(), it.who.id.as_bytes()])
        };
        self.seen.waits.deadlocks.iter().filter(fits).collect()
    }

    fn filter_of(&self, tab: Tab) -> Filter {
        Filter::new(&self.filters[tab as usize])
    }

    /// The filter of what is listed.
    pub(super) fn filter(&self) -> &str {
        &self.filters[self.tab as usize]
    }

    /// Whether a filter is being typed.
    pub(super) fn is_typing(&self) -> bool {
        self.typing_from.is_some()
    }

    pub(super) fn is_over(&self) -> bool {
        self.over
    }

    pub(super) fn failed(&mut self) -> Option<Failure> {
        self.failure.take()
    }

    /// Something new was seen, or nothing can be.
    pub(super) fn take(&mut self, news: Result<News, Failure>) {
        match news {
            Err(failure) => {
                self.failure = Some(failure);
                self.over = true;
            }
            // It is asked for by a key.
            Ok(News::History(history)) => self.seen.history = history,
            Ok(News::Away(why)) => {
                self.rates = Rates::default();
                self.away = Some((why, self.seen.at));
            }
            Ok(News::All(_)) if self.paused => self.away = None,
            Ok(News::All(seen)) => {
                // A service that was restarted counts anew.
                let was_away = self.away.take().is_some();
                if let (Some(before), Some(now), false) = (self.seen.at, seen.at, was_away) {
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
                sessions.sort_by(|one, other| {
                    (one.who.name(), &one.who.id).cmp(&(other.who.name(), &other.who.id))
                });
                match SESSION_ORDERS[self.order % SESSION_ORDERS.len()] {
                    "id" => sessions.sort_by(|one, other| one.who.id.cmp(&other.who.id)),
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
            Tab::Records => self.records().len(),
            Tab::Sessions => self.sessions().len(),
            Tab::Waits => self.waits(usize::MAX).len(),
        }
    }

    pub(super) fn press(&mut self, key: KeyEvent) {
        if key.modifiers.contains(KeyModifiers::CONTROL) && key.code == KeyCode::Char('c') {
            self.over = true;
            return;
        }
        if self.is_typing() {
            self.type_filter(key);
            self.sort();
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
            KeyCode::Char('/') => self.typing_from = Some(self.filter().to_owned()),
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

    /// A key while a filter is typed. What is listed follows each letter.
    fn type_filter(&mut self, key: KeyEvent) {
        let filter = &mut self.filters[self.tab as usize];
        let is_plain = !key.modifiers.intersects(KeyModifiers::CONTROL | KeyModifiers::ALT);
        match key.code {
            KeyCode::Enter => self.typing_from = None,
            KeyCode::Esc => *filter = self.typing_from.take().unwrap_or_default(),
            KeyCode::Backspace => {
                filter.pop();
            }
            KeyCode::Char('u') if key.modifiers == KeyModifiers::CONTROL => filter.clear(),
            KeyCode::Char(letter) if is_plain && filter.len() < FILTER => filter.push(letter),
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
