//! All that `top` shows: what is known, what was pressed, and how it is drawn.

use std::cmp::Reverse;
use std::time::Duration;

use ratatui::Frame;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Modifier, Style};
use ratatui::text::Line;
use ratatui::widgets::{Block, Clear, Paragraph, Row, Table, TableState};

use super::look::{Counts, Seen};
use crate::exit::Failure;
use crate::locks::{Claim, Locked};

/// What is listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tab {
    Records,
    Sessions,
}

/// By what records are in order.
const ORDERS: [&str; 4] = ["waiters", "holders", "name", "state"];

/// And sessions.
const SESSION_ORDERS: [&str; 3] = ["id", "left", "connections"];

const HELP: &str = "\
Tab         records or sessions
/           filter records by name: * and ? stand
            for anything; Enter takes it, Esc drops it
s           next order          r    the other way
↑ ↓ j k     move                PgUp PgDn Home End
p           pause, go on        q    quit
?           this; any key closes it";

/// The state of the screen.
#[derive(Debug)]
pub(crate) struct Screen {
    url: String,
    seen: Seen,
    /// Of one second, each.
    rates: Rates,
    tab: Tab,
    order: usize,
    reversed: bool,
    pattern: String,
    /// What is written while a filter is.
    writing: Option<String>,
    helps: bool,
    paused: bool,
    over: bool,
    failure: Option<String>,
    place: TableState,
    /// Rows that fit.
    page: usize,
}

#[derive(Clone, Copy, Debug, Default)]
struct Rates {
    grants: f64,
    revokes: f64,
    releases: f64,
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
            writing: None,
            helps: false,
            paused: false,
            over: false,
            failure: None,
            place: TableState::new().with_selected(Some(0)),
            page: 1,
        }
    }

    /// Which records are wanted. What has neither `*` nor `?` is a part of a name.
    pub(super) fn pattern(&self) -> Option<String> {
        let text = &self.pattern;
        match text.as_str() {
            "" => None,
            _ if text.contains(['*', '?']) => Some(text.clone()),
            _ => Some(format!("*{text}*")),
        }
    }

    pub(super) fn is_over(&self) -> bool {
        self.over
    }

    pub(super) fn failed(&mut self) -> Option<String> {
        self.failure.take()
    }

    /// Something new was seen, or nothing can be.
    pub(super) fn take(&mut self, seen: Result<Seen, Failure>) {
        match seen {
            Err(failure) => {
                self.failure = Some(failure.text);
                self.over = true;
            }
            Ok(_) if self.paused => {}
            Ok(seen) => {
                if let (Some(before), Some(now)) = (self.seen.at, seen.at) {
                    self.rates = rates(&self.seen.counts, &seen.counts, now - before);
                }
                self.seen = seen;
                self.sort();
            }
        }
    }

    fn sort(&mut self) {
        match self.tab {
            Tab::Records => {
                let count = |shown: &[Claim], more| Reverse(shown.len() + more);
                let records = &mut self.seen.records;
                records.sort_by(|one, other| one.name.cmp(&other.name));
                match ORDERS[self.order % ORDERS.len()] {
                    "waiters" => records.sort_by_key(|it| count(&it.waiters, it.more_waiters)),
                    "holders" => records.sort_by_key(|it| count(&it.holders, it.more_holders)),
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
                    "connections" => sessions.sort_by_key(|it| Reverse(it.connections)),
                    _ => {}
                }
                if self.reversed {
                    sessions.reverse();
                }
            }
        }
        let last = self.rows().saturating_sub(1);
        let at = self.place.selected().unwrap_or(0).min(last);
        self.place.select(Some(at));
    }

    fn rows(&self) -> usize {
        match self.tab {
            Tab::Records => self.seen.records.len(),
            Tab::Sessions => self.seen.sessions.len(),
        }
    }

    pub(super) fn press(&mut self, key: KeyEvent) {
        if key.modifiers.contains(KeyModifiers::CONTROL) && key.code == KeyCode::Char('c') {
            self.over = true;
            return;
        }
        if let Some(text) = &mut self.writing {
            match key.code {
                KeyCode::Enter => self.pattern = self.writing.take().unwrap_or_default(),
                KeyCode::Esc => self.writing = None,
                KeyCode::Backspace => {
                    text.pop();
                }
                KeyCode::Char(letter) => text.push(letter),
                _ => {}
            }
            return;
        }
        if self.helps {
            self.helps = false;
            return;
        }
        match key.code {
            KeyCode::Char('q') | KeyCode::Esc => self.over = true,
            KeyCode::Char('?') => self.helps = true,
            KeyCode::Char('p') => self.paused = !self.paused,
            KeyCode::Char('/') => self.writing = Some(self.pattern.clone()),
            KeyCode::Char('s') => self.order += 1,
            KeyCode::Char('r') => self.reversed = !self.reversed,
            KeyCode::Tab => {
                self.tab = if self.tab == Tab::Records { Tab::Sessions } else { Tab::Records };
                self.order = 0;
                self.place.select(Some(0));
            }
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

    fn step(&mut self, rows: isize) {
        let at = self.place.selected().unwrap_or(0);
        self.place.select(Some(at.saturating_add_signed(rows)));
    }

    pub(super) fn draw(&mut self, frame: &mut Frame<'_>) {
        let below = if self.tab == Tab::Records { 8 } else { 0 };
        let areas = Layout::vertical([
            Constraint::Length(2),
            Constraint::Min(3),
            Constraint::Length(below),
            Constraint::Length(1),
        ]);
        let [top, middle, bottom, last] = areas.areas(frame.area());
        self.page = usize::from(middle.height.saturating_sub(3)).max(1);
        self.draw_numbers(frame, top);
        match self.tab {
            Tab::Records => {
                self.draw_records(frame, middle);
                self.draw_chosen(frame, bottom);
            }
            Tab::Sessions => self.draw_sessions(frame, middle),
        }
        let text = match &self.writing {
            Some(text) => format!("filter: {text}_   Enter takes it, Esc drops it"),
            None => "Tab sessions/records  / filter  s order  r reverse  p pause  ? help  q quit"
                .to_owned(),
        };
        frame.render_widget(Paragraph::new(text), last);
        if self.helps {
            let area = middle_of(frame.area(), 52, 9);
            frame.render_widget(Clear, area);
            frame.render_widget(Paragraph::new(HELP).block(Block::bordered().title("Keys")), area);
        }
    }

    fn draw_numbers(&self, frame: &mut Frame<'_>, area: Rect) {
        let Counts { records, sessions, connections, deadlocks, recovering, .. } = self.seen.counts;
        let Rates { grants, revokes, releases } = self.rates;
        let mut first = format!("lockspan {}", self.url);
        for (is_so, word) in
            [(self.paused, "paused"), (recovering, "recovering: nothing is granted yet")]
        {
            if is_so {
                first.push_str(&format!("  [{word}]"));
            }
        }
        let second = format!(
            "{records} records  {sessions} sessions  {connections} connections  {deadlocks} \
             deadlocks  |  per second: {grants:.0} grants  {revokes:.0} revokes  {releases:.0} \
             releases"
        );
        let bold = Style::new().add_modifier(Modifier::BOLD);
        frame.render_widget(Paragraph::new(vec![Line::styled(first, bold), second.into()]), area);
    }

    fn title(&self, what: &str, orders: &[&str]) -> String {
        let order = orders[self.order % orders.len()];
        let arrow = if self.reversed { "▲" } else { "▼" };
        let filter = if self.pattern.is_empty() { "all" } else { &self.pattern };
        let more = if self.seen.more { ", and there are more" } else { "" };
        format!(" {what}: {} of {filter}{more}, by {order} {arrow} ", self.rows())
    }

    fn draw_records(&mut self, frame: &mut Frame<'_>, area: Rect) {
        let rows = self.seen.records.iter().map(|record| {
            let waiters = record.waiters.len() + record.more_waiters;
            let holders = record.holders.len() + record.more_holders;
            let row = Row::new([
                record.name.clone(),
                record.state.clone(),
                holders.to_string(),
                waiters.to_string(),
                record.holders.first().map_or_else(String::new, said),
            ]);
            let wanted = Style::new().add_modifier(Modifier::BOLD);
            row.style(if waiters > 0 { wanted } else { Style::new() })
        });
        let widths = [
            Constraint::Fill(3),
            Constraint::Length(13),
            Constraint::Length(7),
            Constraint::Length(7),
            Constraint::Fill(3),
        ];
        let head = ["RECORD", "STATE", "HOLDERS", "WAITERS", "HELD BY"];
        let title = self.title("Records", &ORDERS);
        let table =
            Table::new(rows, widths).header(header(head)).block(Block::bordered().title(title));
        let table = table.row_highlight_style(Style::new().add_modifier(Modifier::REVERSED));
        frame.render_stateful_widget(table, area, &mut self.place);
    }

    fn draw_sessions(&mut self, frame: &mut Frame<'_>, area: Rect) {
        let seconds = |millis: u64| format!("{:.1} s", Duration::from_millis(millis).as_secs_f64());
        let rows = self.seen.sessions.iter().map(|it| {
            Row::new([
                it.id.clone(),
                seconds(it.lease_ms),
                seconds(it.left_ms),
                it.connections.to_string(),
            ])
        });
        let widths = [
            Constraint::Min(22),
            Constraint::Length(10),
            Constraint::Length(10),
            Constraint::Length(12),
        ];
        let title = self.title("Sessions", &SESSION_ORDERS);
        let head = header(["SESSION", "LEASE", "LEFT", "CONNECTIONS"]);
        let table = Table::new(rows, widths).header(head).block(Block::bordered().title(title));
        let table = table.row_highlight_style(Style::new().add_modifier(Modifier::REVERSED));
        frame.render_stateful_widget(table, area, &mut self.place);
    }

    /// The record that is chosen, with who holds it and who waits.
    fn draw_chosen(&self, frame: &mut Frame<'_>, area: Rect) {
        let chosen = self.place.selected().and_then(|at| self.seen.records.get(at));
        let name = chosen.map_or("nothing is locked", |record| &record.name);
        let block = Block::bordered().title(format!(" {name} "));
        let halves = Layout::horizontal([Constraint::Fill(1); 2]);
        let [left, right] = halves.areas(block.inner(area));
        frame.render_widget(block, area);
        if let Some(Locked { holders, waiters, more_holders, more_waiters, .. }) = chosen {
            frame.render_widget(Paragraph::new(lines("Held by", holders, *more_holders)), left);
            frame.render_widget(Paragraph::new(lines("Waiting", waiters, *more_waiters)), right);
        }
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

fn header<const N: usize>(names: [&'static str; N]) -> Row<'static> {
    Row::new(names).style(Style::new().add_modifier(Modifier::UNDERLINED))
}

/// A claim in few words.
fn said(claim: &Claim) -> String {
    let token = claim.token.as_ref().map(|token| format!(" token {token}"));
    let revoked = claim.revoked.as_ref().map(|wanted| format!(" (asked for: {wanted})"));
    let rest = [token, revoked].into_iter().flatten().collect::<String>();
    format!("{} {}{rest}", claim.mode, claim.session)
}

fn lines(title: &str, claims: &[Claim], more: usize) -> Vec<Line<'static>> {
    let shown = claims.len().min(4);
    let all = claims.len() + more;
    let mut lines = vec![Line::from(format!("{title} ({all})"))];
    lines.extend(claims.iter().take(shown).map(|claim| Line::from(format!("  {}", said(claim)))));
    if all > shown {
        lines.push(format!("  and {} more", all - shown).into());
    }
    lines
}

fn middle_of(area: Rect, width: u16, height: u16) -> Rect {
    let (width, height) = (width.min(area.width), height.min(area.height));
    let (x, y) = ((area.width - width) / 2, (area.height - height) / 2);
    Rect { x: area.x + x, y: area.y + y, width, height }
}
