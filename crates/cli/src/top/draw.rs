//! How the screen is drawn.

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Modifier, Style};
use ratatui::text::Line;
use ratatui::widgets::{Block, Clear, Paragraph, Row, Table, Wrap};

use super::look::{Counts, Deadlock, Happened};
use super::screen::{ORDERS, Rates, SESSION_ORDERS, Screen, Tab};
use super::tree;
use crate::locks::{Claim, Locked};

/// Rows below a list, about what is chosen in it.
const BELOW: u16 = 10;

const HELP: &str = "\
Tab, 1 2 3  records, sessions, who waits for whom
Enter       details on the whole screen, and back
/           filter. Records by name: * and ? stand
            for anything. Sessions by id or user.
            Enter takes it, Esc drops it
s           next order          r    the other way
↑ ↓ j k     move                PgUp PgDn Home End
p           pause, go on        q    quit
?           this; any key closes it";

/// The last line. It fits on a screen of 80 columns.
pub(super) const KEYS: &str =
    "Tab view  Enter details  / filter  s order  r reverse  p pause  ? help  q quit";

/// Milliseconds as people say them.
pub(super) fn age(millis: u64) -> String {
    let seconds = millis / 1000;
    match seconds {
        0 => format!("{millis} ms"),
        1..10 => format!("{seconds}.{} s", millis % 1000 / 100),
        10..120 => format!("{seconds} s"),
        120..7200 => format!("{} min", seconds / 60),
        7200..172_800 => format!("{} h", seconds / 3600),
        _ => format!("{} d", seconds / 86_400),
    }
}

impl Screen {
    pub(super) fn draw(&mut self, frame: &mut Frame<'_>) {
        let numbers = self.numbers(frame.area().width);
        let (list, below) = match (self.tab, self.whole) {
            (Tab::Waits, _) => (Constraint::Min(3), Constraint::Length(0)),
            (_, false) => (Constraint::Min(3), Constraint::Length(BELOW)),
            (_, true) => (Constraint::Length(0), Constraint::Min(3)),
        };
        let top = Constraint::Length(u16::try_from(numbers.len()).unwrap_or(3));
        let areas = Layout::vertical([top, list, below, Constraint::Length(1)]);
        let [top, middle, bottom, last] = areas.areas(frame.area());
        self.page = usize::from(middle.height.saturating_sub(3)).max(1);
        frame.render_widget(Paragraph::new(numbers), top);
        match self.tab {
            Tab::Records => {
                self.draw_records(frame, middle);
                self.draw_chosen(frame, bottom);
            }
            Tab::Sessions => {
                self.draw_sessions(frame, middle);
                self.draw_chosen_session(frame, bottom);
            }
            Tab::Waits => self.draw_waits(frame, middle),
        }
        let text = match &self.writing {
            Some(text) => format!("filter: {text}_   Enter takes it, Esc drops it"),
            None => KEYS.to_owned(),
        };
        frame.render_widget(Paragraph::new(text), last);
        if self.helps {
            let area = middle_of(frame.area(), 54, 11);
            frame.render_widget(Clear, area);
            frame.render_widget(Paragraph::new(HELP).block(Block::bordered().title("Keys")), area);
        }
    }

    /// The lines at the top: which service, and its numbers, in two lines if one is too short.
    fn numbers(&self, width: u16) -> Vec<Line<'static>> {
        let Counts { records, sessions, connections, deadlocks, .. } = self.seen.counts;
        let Rates { grants, revokes, releases } = self.rates;
        let mut first = format!("lockspan {}", self.url);
        let recovers = match (self.seen.counts.recovery, self.seen.counts.recovering) {
            (Some(recovery), _) => Some(recovery.to_string()),
            (None, is_so) => is_so.then(|| "recovering: nothing is granted yet".to_owned()),
        };
        for word in self.paused.then(|| "paused".to_owned()).into_iter().chain(recovers) {
            first.push_str(&format!("  [{word}]"));
        }
        let now = format!(
            "{records} records  {sessions} sessions  {connections} connections  {deadlocks} \
             deadlocks"
        );
        let rates =
            format!("per second: {grants:.0} grants  {revokes:.0} revokes  {releases:.0} releases");
        let bold = Style::new().add_modifier(Modifier::BOLD);
        let mut lines = vec![Line::styled(first, bold)];
        let both = format!("{now}  |  {rates}");
        if both.len() <= usize::from(width) {
            lines.push(both.into());
        } else {
            lines.extend([now.into(), rates.into()]);
        }
        lines
    }

    fn title(&self, what: &str, orders: &[&str]) -> String {
        let order = orders[self.order % orders.len()];
        let arrow = if self.reversed { "▲" } else { "▼" };
        let filter = if self.filter().is_empty() { "all" } else { self.filter() };
        let is_cut = self.seen.more && self.tab == Tab::Records;
        let more = if is_cut { ", and there are more" } else { "" };
        format!(" {what}: {} of {filter}{more}, by {order} {arrow} ", self.rows())
    }

    fn draw_records(&mut self, frame: &mut Frame<'_>, area: Rect) {
        let rows = self.seen.records.iter().map(|record| {
            let waiters = record.waiters.len() + record.more_waiters;
            let holders = record.holders.len() + record.more_holders;
            let oldest = record.holders.iter().map(|claim| claim.age_ms).max();
            let row = Row::new([
                record.name.clone(),
                record.state.clone(),
                holders.to_string(),
                waiters.to_string(),
                oldest.map_or_else(String::new, age),
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
            Constraint::Length(8),
            Constraint::Fill(3),
        ];
        let head = ["RECORD", "STATE", "HOLDERS", "WAITERS", "HELD FOR", "HELD BY"];
        let title = self.title("Records", &ORDERS);
        let table =
            Table::new(rows, widths).header(header(head)).block(Block::bordered().title(title));
        let table = table.row_highlight_style(Style::new().add_modifier(Modifier::REVERSED));
        frame.render_stateful_widget(table, area, &mut self.place);
    }

    fn draw_sessions(&mut self, frame: &mut Frame<'_>, area: Rect) {
        let sessions = self.sessions();
        let rows = sessions.iter().map(|it| {
            Row::new([
                it.id.clone(),
                if it.user.is_empty() { "-".to_owned() } else { it.user.clone() },
                age(it.lease_ms),
                age(it.left_ms),
                it.records.to_string(),
                it.connections.to_string(),
                if it.ends { "ends: not renewed" } else { "open" }.to_owned(),
            ])
        });
        let widths = [
            Constraint::Length(13),
            Constraint::Fill(1),
            Constraint::Length(8),
            Constraint::Length(8),
            Constraint::Length(8),
            Constraint::Length(11),
            Constraint::Length(17),
        ];
        let title = self.title("Sessions", &SESSION_ORDERS);
        let head = ["SESSION", "USER", "LEASE", "LEFT", "RECORDS", "CONNECTIONS", "STATE"];
        let rows: Vec<_> = rows.collect();
        let table =
            Table::new(rows, widths).header(header(head)).block(Block::bordered().title(title));
        let table = table.row_highlight_style(Style::new().add_modifier(Modifier::REVERSED));
        frame.render_stateful_widget(table, area, &mut self.place);
    }

    /// The record that is chosen: who holds it, who waits, what happened.
    fn draw_chosen(&self, frame: &mut Frame<'_>, area: Rect) {
        let chosen = self.chosen();
        // A filter hides what else is locked.
        let is_filtered = !self.filter().is_empty() && self.seen.counts.records > 0;
        let none = if is_filtered { "nothing matches the filter" } else { "nothing is locked" };
        let name = chosen.map_or(none, |record| &record.name);
        let block = Block::bordered().title(format!(" {name} "));
        if self.whole {
            let lines = chosen.map(|chosen| self.details(chosen, area)).unwrap_or_default();
            let text = Paragraph::new(lines).wrap(Wrap { trim: false }).block(block);
            frame.render_widget(text, area);
            return;
        }
        let parts = Layout::horizontal([Constraint::Fill(1); 3]).spacing(1);
        let [left, middle, right] = parts.areas(block.inner(area));
        frame.render_widget(block, area);
        if let Some(Locked { holders, waiters, more_holders, more_waiters, .. }) = chosen {
            let room = usize::from(BELOW) - 3;
            let held = lines("Held by", holders, *more_holders, room);
            frame.render_widget(Paragraph::new(held), left);
            let waiting = lines("Waiting", waiters, *more_waiters, room);
            frame.render_widget(Paragraph::new(waiting), middle);
            frame.render_widget(Paragraph::new(happened(&self.seen.history)), right);
        }
    }

    /// All about a record, each claim on a line of its own. Holders, waiters and what happened have
    /// a third of the rows each.
    fn details(&self, chosen: &Locked, area: Rect) -> Vec<Line<'static>> {
        let Locked { holders, waiters, more_holders, more_waiters, .. } = chosen;
        let room = (usize::from(area.height).saturating_sub(5) / 3).max(2) - 1;
        let mut all = lines("Held by", holders, *more_holders, room);
        all.extend(lines("Waiting", waiters, *more_waiters, room));
        all.extend(happened(&self.seen.history));
        all
    }

    /// What the session that is chosen has, among the records that are listed.
    fn draw_chosen_session(&self, frame: &mut Frame<'_>, area: Rect) {
        let sessions = self.sessions();
        let chosen = self.place.selected().and_then(|at| sessions.get(at));
        let title = chosen.map_or_else(
            || " no session ".to_owned(),
            |it| format!(" Session {}: {} records, of those that are listed ", it.id, it.records),
        );
        let block = Block::bordered().title(title);
        let room = usize::from(block.inner(area).height);
        let mut rows = Vec::new();
        for record in chosen.iter().flat_map(|_| &self.seen.records) {
            let own = |claims: &[Claim], verb: &str| {
                let id = chosen.map(|it| &it.id);
                let own = claims.iter().find(|claim| Some(&claim.session) == id)?;
                Some(format!("{}: {verb} it, {}", record.name, brief(own)))
            };
            rows.extend(own(&record.holders, "holds"));
            rows.extend(own(&record.waiters, "waits for"));
        }
        if rows.len() > room {
            let left = rows.len() - room + 1;
            rows.truncate(room.saturating_sub(1));
            rows.push(format!("and {left} more"));
        }
        let rows: Vec<Line<'_>> = rows.into_iter().map(Line::from).collect();
        frame.render_widget(Paragraph::new(rows).block(block), area);
    }

    /// All lines of who waits for whom.
    pub(super) fn waits(&self) -> Vec<String> {
        let mut lines = tree::lines(&self.seen.wanted);
        if lines.is_empty() {
            lines.push("Nobody waits for anybody.".to_owned());
        }
        lines.push(String::new());
        lines.push(format!("Deadlocks that were refused: {}", self.seen.deadlocks.len()));
        lines.extend(self.seen.deadlocks.iter().map(circle));
        lines
    }

    fn draw_waits(&mut self, frame: &mut Frame<'_>, area: Rect) {
        let title = format!(" Who waits for whom: {} records ", self.seen.wanted.len());
        let rows = self.waits().into_iter().map(|line| Row::new([line]));
        let table = Table::new(rows, [Constraint::Fill(1)]).block(Block::bordered().title(title));
        let table = table.row_highlight_style(Style::new().add_modifier(Modifier::REVERSED));
        frame.render_stateful_widget(table, area, &mut self.place);
    }
}

fn circle(it: &Deadlock) -> String {
    let Deadlock { age_ms, session, record, owners } = it;
    let ring: Vec<_> = owners.iter().chain(owners.first()).map(String::as_str).collect();
    let (age, ring) = (age(*age_ms), ring.join(" → "));
    format!("{age} ago: {record} to session {session}; owners {ring}")
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

/// The same without its session, but with its age.
fn brief(claim: &Claim) -> String {
    let token = claim.token.as_ref().map(|token| format!(", token {token}"));
    let revoked = claim.revoked.as_ref().map(|wanted| format!(" (asked for: {wanted})"));
    let rest = [token, revoked].into_iter().flatten().collect::<String>();
    format!("{}, {}{rest}", claim.mode, age(claim.age_ms))
}

/// A title, and a line for each claim as long as there are not more than `room`.
fn lines(title: &str, claims: &[Claim], more: usize, room: usize) -> Vec<Line<'static>> {
    let all = claims.len() + more;
    let shown = if all > room { room.saturating_sub(1) } else { all }.min(claims.len());
    let mut lines = vec![Line::from(format!("{title} ({all})"))];
    let one = |claim: &Claim| Line::from(format!(" {} {}", age(claim.age_ms), said(claim)));
    lines.extend(claims.iter().take(shown).map(one));
    if all > shown {
        lines.push(format!(" and {} more", all - shown).into());
    }
    lines
}

fn happened(all: &[Happened]) -> Vec<Line<'static>> {
    let mut lines = vec![Line::from("Lately")];
    lines.extend(all.iter().map(|it| {
        let more =
            if it.more.is_empty() { String::new() } else { format!(", {}", it.more.join(", ")) };
        Line::from(format!(" {} ago: {} {}{more}", age(it.age_ms), it.what, it.session))
    }));
    if all.is_empty() {
        lines.push(" nothing that is remembered".into());
    }
    lines
}

fn middle_of(area: Rect, width: u16, height: u16) -> Rect {
    let (width, height) = (width.min(area.width), height.min(area.height));
    let (x, y) = ((area.width - width) / 2, (area.height - height) / 2);
    Rect { x: area.x + x, y: area.y + y, width, height }
}
