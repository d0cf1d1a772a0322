//! How the screen is drawn.

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Modifier, Style};
use ratatui::text::Line;
use ratatui::widgets::{Block, Clear, Paragraph, Row, Table, Wrap};

use super::look::Counts;
use super::screen::{ORDERS, Rates, SESSION_ORDERS, Screen, Tab};
use crate::replies::{Claim, Happened, Locked};
use crate::table::{without_end, without_middle};
use crate::tree;
use crate::values::age;
use crate::waits;

/// Rows below a list, about what is chosen in it.
const BELOW: u16 = 10;

/// A screen with fewer columns is narrow.
const NARROW: u16 = 120;

/// The title over the sessions that wait.
const WAITING: &str = "Waiting";

const HELP: &str = "\
Tab, 1 2 3  records, sessions, who waits for whom
Enter       details on the whole screen, and back
/           filter, as you type: a part of a name,
            label, id or user; with * ? or [ a
            pattern for the whole of it. Enter keeps
            it, Esc drops it, Ctrl-U clears it
s           next order          r    the other way
↑ ↓ j k     move                PgUp PgDn Home End
p           pause, go on        q    quit
?           this; any key closes it";

/// The last line. It fits on a screen of 80 columns.
pub(super) const KEYS: &str =
    "Tab view  Enter details  / filter  s order  r reverse  p pause  ? help  q quit";

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
        let text = match self.is_typing() {
            true => {
                let keys = "   Enter keeps it, Esc drops it, Ctrl-U clears it";
                let room = usize::from(last.width).saturating_sub("filter: _".len() + keys.len());
                format!("filter: {}_{keys}", without_middle(self.filter(), room.max(10)))
            }
            false => KEYS.to_owned(),
        };
        frame.render_widget(Paragraph::new(text), last);
        // What is old looks old.
        if self.away.is_some() {
            let dim = Style::new().add_modifier(Modifier::DIM);
            frame.buffer_mut().set_style(middle.union(bottom), dim);
        }
        if self.helps {
            let area = middle_of(frame.area(), 54, 12);
            frame.render_widget(Clear, area);
            frame.render_widget(Paragraph::new(HELP).block(Block::bordered().title("Keys")), area);
        }
    }

    /// The lines at the top: which service, and its numbers, in two lines if one is too short.
    fn numbers(&self, width: u16) -> Vec<Line<'static>> {
        let Counts { records, sessions, connections, deadlocks, .. } = self.seen.counts;
        let Rates { grants, revokes, releases } = self.rates;
        let first = format!("lockspan {}", self.url);
        let recovers = match (self.seen.counts.recovery, self.seen.counts.recovering) {
            (Some(recovery), _) => Some(recovery.to_string()),
            (None, is_so) => is_so.then(|| "recovering: nothing is granted yet".to_owned()),
        };
        let away = self.away.as_ref().map(|(_, since)| {
            let old = since.map_or_else(String::new, |since| {
                let seconds = since.elapsed().as_secs();
                format!(": what is shown is {seconds} s old")
            });
            format!("reconnecting{old}")
        });
        let words = self.paused.then(|| "paused".to_owned()).into_iter().chain(away);
        // An old recovery is of the run before.
        let recovers = recovers.filter(|_| self.away.is_none());
        let words: String = words.chain(recovers).map(|word| format!("  [{word}]")).collect();
        let room = usize::from(width).saturating_sub(crate::table::width(&words));
        let first = without_end(&first, room.max(20)) + &words;
        let now = format!(
            "{records} records  {sessions} sessions  {connections} connections  {deadlocks} \
             deadlocks"
        );
        let rates =
            format!("per second: {grants:.0} grants  {revokes:.0} revokes  {releases:.0} releases");
        let bold = Style::new().add_modifier(Modifier::BOLD);
        let mut lines = vec![Line::styled(first, bold)];
        if let Some((why, _)) = &self.away {
            lines.push(without_end(why, usize::from(width)).into());
            return lines;
        }
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
        let matching = match self.filter() {
            "" => String::new(),
            filter => format!(" matching {}", without_middle(filter, 30)),
        };
        let is_cut = self.seen.more && self.tab == Tab::Records;
        let more = if is_cut { ", more not shown" } else { "" };
        format!(" {what}: {}{matching}{more}, sorted by {order} {arrow} ", self.rows())
    }

    fn draw_records(&mut self, frame: &mut Frame<'_>, area: Rect) {
        let head = ["RECORD", "STATE", "HOLDERS", "WAITERS", "HELD FOR", "HELD BY"];
        let fixed = [13, 7, 7, 8];
        // Names and holders have what the other columns and the blanks between leave.
        let rest = usize::from(area.width).saturating_sub(usize::from(fixed.iter().sum::<u16>()));
        let rest = rest.saturating_sub(2 + fixed.len() + 1);
        let (names, holders_at) = (rest / 2, rest - rest / 2);
        let records = self.records();
        let rows = records.iter().map(|record| {
            let waiters = record.waiters.len() + record.more_waiters;
            let holders = record.holders.len() + record.more_holders;
            let oldest = record.holders.iter().map(|claim| claim.age_ms).max();
            let held_by = record.holders.first().map_or_else(String::new, |claim| {
                let room = holders_at.saturating_sub(claim.mode.len() + 1);
                format!("{} {}", claim.mode, without_middle(claim.who.name(), room))
            });
            let row = Row::new([
                without_middle(&record.name, names),
                record.state.clone(),
                holders.to_string(),
                waiters.to_string(),
                oldest.map_or_else(String::new, age),
                held_by,
            ]);
            let wanted = Style::new().add_modifier(Modifier::BOLD);
            row.style(if waiters > 0 { wanted } else { Style::new() })
        });
        let rows: Vec<_> = rows.collect();
        let widths = [
            Constraint::Length(u16::try_from(names).unwrap_or(u16::MAX)),
            Constraint::Length(fixed[0]),
            Constraint::Length(fixed[1]),
            Constraint::Length(fixed[2]),
            Constraint::Length(fixed[3]),
            Constraint::Fill(1),
        ];
        let title = self.title("Records", &ORDERS);
        let table =
            Table::new(rows, widths).header(header(head)).block(Block::bordered().title(title));
        let table = table.row_highlight_style(Style::new().add_modifier(Modifier::REVERSED));
        frame.render_stateful_widget(table, area, &mut self.place);
    }

    fn draw_sessions(&mut self, frame: &mut Frame<'_>, area: Rect) {
        let head = ["LABEL", "SESSION", "USER", "LEFT", "RECORDS", "CONNS", "STATE"];
        let fixed = [13, 8, 6, 7, 5, 10];
        let labels = usize::from(area.width).saturating_sub(usize::from(fixed.iter().sum::<u16>()));
        let labels = labels.saturating_sub(2 + fixed.len());
        let sessions = self.sessions();
        let rows = sessions.iter().map(|it| {
            Row::new([
                without_middle(it.who.label(), labels),
                it.who.id.clone(),
                without_end(if it.user.is_empty() { "-" } else { &it.user }, 8),
                it.left_ms.map_or_else(|| "-".to_owned(), age),
                it.records.to_string(),
                it.connections.to_string(),
                it.state().to_owned(),
            ])
        });
        let rows: Vec<_> = rows.collect();
        let widths = std::iter::once(Constraint::Fill(1)).chain(fixed.map(Constraint::Length));
        let title = self.title("Sessions", &SESSION_ORDERS);
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
        let inner = block.inner(area);
        frame.render_widget(block, area);
        let Some(Locked { holders, waiters, more_holders, more_waiters, .. }) = chosen else {
            return;
        };
        // Holders and waiters are side by side, or one above the other where labels would be cut.
        let is_narrow = inner.width < NARROW;
        let columns = if is_narrow { 2 } else { 3 };
        let parts = Layout::horizontal(vec![Constraint::Fill(1); columns]).spacing(1).split(inner);
        let cut = Some(usize::from(parts[0].width));
        let room = usize::from(BELOW) - 3;
        let room = if is_narrow { (room - 1) / 2 } else { room };
        let mut held = lines("Held by", holders, *more_holders, room, cut);
        let waiting = lines(WAITING, waiters, *more_waiters, room, cut);
        if is_narrow {
            held.extend(waiting);
        } else {
            frame.render_widget(Paragraph::new(waiting), parts[1]);
        }
        frame.render_widget(Paragraph::new(held), parts[0]);
        let lately = happened(&self.seen.history, cut);
        frame.render_widget(Paragraph::new(lately), parts[columns - 1]);
    }

    /// All about a record, each claim on a line of its own. Holders, waiters and what happened have
    /// a third of the rows each.
    fn details(&self, chosen: &Locked, area: Rect) -> Vec<Line<'static>> {
        let Locked { holders, waiters, more_holders, more_waiters, .. } = chosen;
        let room = (usize::from(area.height).saturating_sub(5) / 3).max(2) - 1;
        let mut all = lines("Held by", holders, *more_holders, room, None);
        all.extend(lines(WAITING, waiters, *more_waiters, room, None));
        all.extend(happened(&self.seen.history, None));
        all
    }

    /// What the session that is chosen has, among the records that are listed.
    fn draw_chosen_session(&self, frame: &mut Frame<'_>, area: Rect) {
        let sessions = self.sessions();
        let chosen = self.place.selected().and_then(|at| sessions.get(at));
        let title = chosen.map_or_else(
            || " no session ".to_owned(),
            |it| {
                let lease = age(it.lease_ms);
                let all = it.records;
                format!(" {}, lease {lease}: {all} records ", it.who)
            },
        );
        let block = Block::bordered().title(title);
        let room = usize::from(block.inner(area).height);
        let mut rows = Vec::new();
        let mut listed = 0;
        for record in chosen.iter().flat_map(|_| &self.seen.records) {
            let before = rows.len();
            let own = |claims: &[Claim], verb: &str| {
                let id = chosen.map(|it| &it.who.id);
                let own = claims.iter().find(|claim| Some(&claim.who.id) == id)?;
                Some(format!("{}: {verb} it, {}", record.name, brief(own)))
            };
            rows.extend(own(&record.holders, "holds"));
            rows.extend(own(&record.waiters, "waits for"));
            listed += u64::from(rows.len() > before);
        }
        // On a large service not all records are listed.
        let unlisted = chosen.map_or(0, |it| it.records.saturating_sub(listed));
        if rows.len() > room || unlisted > 0 {
            let fit = rows.len().min(room.saturating_sub(1));
            let left = (rows.len() - fit) as u64 + unlisted;
            rows.truncate(fit);
            rows.push(format!("and {left} more"));
        }
        let rows: Vec<Line<'_>> = rows.into_iter().map(Line::from).collect();
        frame.render_widget(Paragraph::new(rows).block(block), area);
    }

    /// All lines of who waits for whom.
    pub(super) fn waits(&self, room: usize) -> Vec<String> {
        let mut lines = tree::lines(&self.wanted(), Some(room));
        if lines.is_empty() {
            let none = match self.seen.waits.records.is_empty() {
                true => "No session waits.",
                false => "Nothing matches the filter.",
            };
            lines.push(none.to_owned());
        }
        let deadlocks = self.deadlocks();
        lines.push(String::new());
        lines.push(format!("Refused deadlocks: {}", deadlocks.len()));
        lines.extend(deadlocks.into_iter().map(waits::deadlock));
        lines
    }

    fn draw_waits(&mut self, frame: &mut Frame<'_>, area: Rect) {
        let filter = match self.filter() {
            "" => String::new(),
            filter => format!(" matching {}", without_middle(filter, 30)),
        };
        let title = format!(" Who waits for whom: {} records{filter} ", self.wanted().len());
        let room = usize::from(area.width).saturating_sub(2);
        let rows = self.waits(room).into_iter().map(|line| Row::new([without_end(&line, room)]));
        let table = Table::new(rows, [Constraint::Fill(1)]).block(Block::bordered().title(title));
        let table = table.row_highlight_style(Style::new().add_modifier(Modifier::REVERSED));
        frame.render_stateful_widget(table, area, &mut self.place);
    }
}

fn header<const N: usize>(names: [&'static str; N]) -> Row<'static> {
    Row::new(names).style(Style::new().add_modifier(Modifier::UNDERLINED))
}

/// What else is known of a claim: token, whether others want it, note.
fn rest(claim: &Claim) -> String {
    let token = claim.token.as_ref().map(|token| format!(", token {token}"));
    let revoked = claim.revoked.as_ref().map(|wanted| format!(", asked for: {wanted}"));
    let note = claim.note.as_ref().map(|note| format!(" ({note})"));
    [token, revoked, note].into_iter().flatten().collect()
}

/// A claim without its session, but with its age.
fn brief(claim: &Claim) -> String {
    format!("{}, {}{}", claim.mode, age(claim.age_ms), rest(claim))
}

/// A title, and a line for each claim as long as there are not more than `room`. Waiters have the
/// numbers of their turns. What is cut to so many columns has the labels only; otherwise all is
/// told.
fn lines(
    title: &str,
    claims: &[Claim],
    more: usize,
    room: usize,
    cut: Option<usize>,
) -> Vec<Line<'static>> {
    let all = claims.len() + more;
    let shown = if all > room { room.saturating_sub(1) } else { all }.min(claims.len());
    let mut lines = vec![Line::from(format!("{title} ({all})"))];
    let one = |(claim, number): (&Claim, usize)| {
        let Claim { mode, who, age_ms, .. } = claim;
        let place = if title == WAITING { format!("{number}. ") } else { String::new() };
        let begin = format!(" {place}{mode} {} ", age(*age_ms));
        let text = match cut {
            Some(columns) => {
                let room = columns.saturating_sub(begin.len());
                begin + &without_middle(who.name(), room)
            }
            None => format!("{begin}{who}{}", rest(claim)),
        };
        Line::from(text)
    };
    lines.extend(claims.iter().zip(1..).take(shown).map(one));
    if all > shown {
        lines.push(format!(" and {} more", all - shown).into());
    }
    lines
}

fn happened(all: &[Happened], cut: Option<usize>) -> Vec<Line<'static>> {
    let mut lines = vec![Line::from("Recent events")];
    lines.extend(all.iter().map(|it| {
        let begin = format!(" {} ago: {} ", age(it.age_ms), it.what);
        let text = match cut {
            Some(columns) => {
                let room = columns.saturating_sub(begin.len());
                begin + &without_middle(it.who.name(), room)
            }
            None => {
                let more = [
                    it.mode.clone(),
                    it.token.as_ref().map(|token| format!("token {token}")),
                    it.waited_ms.map(|millis| format!("waited {}", age(millis))),
                    it.held_ms.map(|millis| format!("held {}", age(millis))),
                ];
                let more = more.into_iter().flatten().map(|part| format!(", {part}"));
                format!("{begin}{}{}", it.who, more.collect::<String>())
            }
        };
        Line::from(text)
    }));
    if all.is_empty() {
        lines.push(" none recorded".into());
    }
    lines
}

fn middle_of(area: Rect, width: u16, height: u16) -> Rect {
    let (width, height) = (width.min(area.width), height.min(area.height));
    let (x, y) = ((area.width - width) / 2, (area.height - height) / 2);
    Rect { x: area.x + x, y: area.y + y, width, height }
}
